# SPDX-License-Identifier: Apache-2.0
"""Images without a compiler, and archives that lie under right digests: for the tests of archives and caches."""

from __future__ import annotations

import struct
from typing import Any

from cudabuild.digest import digest, digest_parts
from cudabuild.errors import ImageFormatError
from cudabuild.fingerprint import Check
from cudabuild.image.codec import unpack
from cudabuild.image.image import KernelImage

__all__ = ["make_image", "repair_archive"]


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


_RECORD_SIZE = 192


def repair_archive(forged: bytearray, *, names: bool = True) -> bytes:
    """``forged`` with the digests of its records and its header made right, and the name keys too."""
    size = len(forged)
    (count,) = struct.unpack_from("<I", forged, 16)
    (records,) = struct.unpack_from("<Q", forged, 32)
    tie = [] if forged[8] == 1 else [bytes(forged[48:88]).rstrip(b"\0")]
    for number in range(min(count, 1 << 15)):
        at = records + number * _RECORD_SIZE
        if at + _RECORD_SIZE > size:
            break
        details_at, details, checks, checks_at, extra_at, extra = struct.unpack_from("<QIIQQI", forged, at + 144)
        pieces = [(details_at, details), (checks_at, checks), (extra_at, extra)]
        if any(offset + length > size for offset, length in pieces):
            continue
        told = [bytes(forged[offset : offset + length]) for offset, length in pieces]
        if names:
            _repair_name(forged, at, told[0])
        image_at, length = struct.unpack_from("<QQ", forged, at + 128)
        if image_at + length <= size:
            forged[at + 64 : at + 96] = digest(bytes(forged[image_at : image_at + length]))
        record = bytes(forged[at : at + _RECORD_SIZE])
        forged[at + 96 : at + 128] = digest_parts(record[:96], record[128:], *told, *tie)
    forged[96:128] = digest(bytes(forged[:96]))
    return bytes(forged)


def _repair_name(forged: bytearray, at: int, details: bytes) -> None:
    try:
        fields = unpack(details)
        key = digest_parts(*(text.encode() for text in fields[:3]))
    except (ImageFormatError, AttributeError, TypeError):  # no names in it: what the reader makes of that is the test
        return
    forged[at + 32 : at + 64] = key
