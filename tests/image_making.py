# SPDX-License-Identifier: Apache-2.0
"""Images without a compiler, for the tests of archives and caches."""

from __future__ import annotations

from typing import Any

from cudabuild.digest import digest
from cudabuild.fingerprint import Check
from cudabuild.image.image import KernelImage

__all__ = ["make_image"]


def make_image(name: str = "k", **changes: Any) -> KernelImage:
    """An image; everything in it follows from ``name`` unless it is given."""
    width = changes.get("index_width", 32)
    target = changes.get("target", "sm_90")
    fields: dict[str, Any] = {
        "module": "package.module",
        "qualname": name,
        "signature": "float32, float32[::1]",
        "fingerprint": digest(name.encode()),
        "options": {},
        "kind": "ptx" if target.startswith("compute") else "cubin",
        "target": target,
        "index_width": width,
        "symbol": f"{name}_{digest(name.encode()).hex()[:8]}",
        "data": f"{name} {width} {target} ".encode() * 20,
        "attributes": {"registers": 16, "shared_bytes": 0},
        "toolchain": {"llvm": "22.1", "nvjitlink": "12.9"},
        "key": digest(f"{name} {width} {target}".encode()),
        "checks": (Check("", digest(b"source"), (("N", "4"),)),),
        "parts": (("(signature)", "float32, float32[::1]"), ("(code)", "ab" * 32), ("N", "4")),
    }
    fields.update(changes)
    return KernelImage(**fields)
