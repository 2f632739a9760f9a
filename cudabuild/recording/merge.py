# SPDX-License-Identifier: Apache-2.0
"""Moves what processes have recorded from their parts into the signature file; any process may, at any time."""

from __future__ import annotations

import os

from cudabuild import config
from cudabuild.cache.locks import hold_lock
from cudabuild.errors import CudabuildError
from cudabuild.recording.parts import PARTS, complete_records
from cudabuild.recording.read import parse_text
from cudabuild.recording.records import RecordedKernel
from cudabuild.recording.write import write_signatures

__all__ = ["merge_parts"]

#: The longest wait for another process that merges, in seconds.
_PATIENCE = 60.0


def merge_parts(path: str) -> bool:
    """Adds all parts of a signature file to it.

    Never raises for the file's sake: where it cannot be written, or what a person wrote into it cannot be read, the
    parts stay, one warning says why, and readers read them as well.

    Returns:
        Whether nothing is left to merge.
    """
    folder = path + PARTS
    if not os.path.isdir(folder):
        return True
    with hold_lock(os.path.join(folder, ".lock"), _PATIENCE, "the signature file") as held:
        if not held:  # warned of
            return False
        try:
            taken = _take(folder)
            kernels = [kernel for name in taken for kernel in _read(name)]
            if kernels:
                write_signatures(path, kernels)
            for name in taken:
                os.unlink(name)
        except (CudabuildError, OSError) as error:
            config.warn(f"what was recorded stays in {folder}, because it cannot be added to {path}: {error}")
            return False
    return True


def _take(folder: str) -> list[str]:
    """The parts under names of our own; what another process left so when it died is among them."""
    token = os.urandom(8).hex()
    for name in sorted(os.listdir(folder)):
        if name.endswith(".toml"):
            place = os.path.join(folder, name)
            try:
                os.rename(place, f"{place}.{token}.merging")
            except OSError:  # Windows: it is being written to; the next who merges finds it
                continue
    return [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.endswith(".merging")]


def _read(name: str) -> list[RecordedKernel]:
    with open(name, encoding="utf-8", errors="replace") as stream:
        return parse_text(complete_records(stream.read()), name)
