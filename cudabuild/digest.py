# SPDX-License-Identifier: Apache-2.0
"""The one digest of fingerprints, keys and archives: BLAKE2b of 256 bits.

``_blake2`` is part of the interpreter and loads in 0.2 ms; ``hashlib`` would load OpenSSL for it (2 to 7 ms), and
SHA-256 without OpenSSL is three times slower.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

try:
    from _blake2 import blake2b
except ImportError:  # an interpreter without the C module
    from hashlib import blake2b

__all__ = ["COMPILER_SOURCES", "DIGEST_SIZE", "digest", "digest_parts", "digest_pieces", "digest_sources", "find_place"]

#: In bytes.
DIGEST_SIZE = 32

#: How often :func:`find_place` guesses.
_GUESSES = 12

#: What of this package has a say in the code that it makes for a GPU.
COMPILER_SOURCES = (
    "backend", "compiler.py", "definition.py", "faults.py", "frontend", "ir", "lang", "linking.py", "source.py",
    "types",
)  # fmt: skip


def digest(data: bytes | bytearray | memoryview) -> bytes:
    """The 32-byte digest of ``data``."""
    return blake2b(data, digest_size=32).digest()


def digest_parts(*parts: bytes | bytearray | memoryview) -> bytes:
    """The digest of several byte strings, each counted with its length: no two lists of parts share their bytes."""
    hasher = blake2b(digest_size=32)
    for part in parts:
        hasher.update(len(part).to_bytes(8, "little"))
        hasher.update(part)
    return hasher.digest()


def digest_pieces(*pieces: bytes | bytearray | memoryview) -> bytes:
    """The digest of bytes that lie in several pieces: that of the pieces joined, which are not copied for it."""
    hasher = blake2b(digest_size=32)
    for piece in pieces:
        hasher.update(piece)
    return hasher.digest()


def find_place(key: bytes, count: int, key_at: Callable[[int], bytes]) -> int:
    """The place of the first key that is not below ``key``, in a table of digests sorted by themselves.

    Digests lie evenly, so that a guess by value is off by a few places only: among 10,000 about 5 keys are looked at
    instead of 14, and each may be the first look at a page of the file. A table may hold anything, so after some
    guesses it is halved.

    Args:
        key: a digest.
        count: of the table.
        key_at: the key at a place.
    """
    low, high = 0, count
    wanted = int.from_bytes(key[:8], "big")
    guess = wanted * count >> 64
    for number in range(count):
        if low == high:
            break
        middle = min(max(guess, low), high - 1) if number < _GUESSES else (low + high) // 2
        found = key_at(middle)
        if found < key:
            low = middle + 1
        else:
            high = middle
        guess = middle + ((wanted - int.from_bytes(found[:8], "big")) * count >> 64)
    return low


def digest_sources(names: Iterable[str]) -> str:
    """16 hexadecimal digits of files and folders of this package, or its version where they cannot be read."""
    root = os.path.dirname(os.path.abspath(__file__))
    found = []
    for name in names:
        path = os.path.join(root, name)
        files = [path] if name.endswith(".py") else [os.path.join(at, f) for at, _, fs in os.walk(path) for f in fs]
        found += [file for file in files if file.endswith(".py")]
    try:
        parts = []
        for file in sorted(found):
            with open(file, "rb") as stream:
                parts += [os.path.relpath(file, root).replace(os.sep, "/").encode(), stream.read()]
    except OSError:
        parts = []
    if parts:
        return digest_parts(*parts).hex()[:16]
    from importlib import metadata

    return metadata.version("cudabuild")
