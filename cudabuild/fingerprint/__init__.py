# SPDX-License-Identifier: Apache-2.0
"""What a kernel's meaning depends on: fingerprints, image keys, and the check of an image against live code.

The launch path imports this package: the parts that parse source are imported when they are called.
"""

from __future__ import annotations

from cudabuild.fingerprint.checks import Check, check_live, effective_options, read_source_digest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cudabuild.definition import KernelDefinition, Options
    from cudabuild.fingerprint.key import Fingerprint as Fingerprint
    from cudabuild.fingerprint.key import image_key as image_key
    from cudabuild.types import Signature

__all__ = [
    "Check",
    "Fingerprint",
    "check_live",
    "compute_fingerprint",
    "effective_options",
    "image_key",
    "log_in_process",
    "read_source_digest",
]


def __getattr__(name: str) -> Any:
    if name not in ("Fingerprint", "image_key"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from cudabuild.fingerprint import key  # binding an image needs neither

    return getattr(key, name)


def compute_fingerprint(
    definition: KernelDefinition, signature: Signature, options: Options | None = None
) -> Fingerprint:
    """What one overload of a kernel means.

    Args:
        definition: the kernel.
        signature: the overload's argument types.
        options: compile options in place of the definition's own.

    Raises:
        SourceError: the kernel's source text cannot be had.
    """
    from cudabuild.fingerprint.compute import compute_fingerprint as compute

    return compute(definition, signature, options)


def log_in_process(fingerprint: Fingerprint) -> None:
    """Tells why an overload is not kept: its code holds an address of this process."""
    from cudabuild import config

    config.log(
        "info",
        f"{fingerprint.qualname}: not cached: {fingerprint.in_process} is a device array, whose address is in the code",
    )
