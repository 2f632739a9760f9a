# SPDX-License-Identifier: Apache-2.0
"""Host code in a cache between processes: the target's name, and code that belongs to no kernel."""

from __future__ import annotations

import platform
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

from cudabuild import config
from cudabuild.backend import llvm
from cudabuild.digest import digest, digest_parts
from cudabuild.image.image import KernelImage

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["INDEX_WIDTH", "ImageStore", "find_code", "host_image", "host_target"]

#: The host has the 64-bit variant only: its registers are that wide, and nothing is gained by a second one.
INDEX_WIDTH = 64


class ImageStore(Protocol):
    """Where images are kept, by key."""

    def __hash__(self) -> int: ...

    def build_once(self, key: bytes, target: str, make: Callable[[], KernelImage]) -> KernelImage:
        """The image with a key, made where there is none."""
        ...


@cache
def host_target() -> str:
    """The name of this computer as a target: ``host-x86_64-`` and a digest of triple, processor, features and model."""
    parts = llvm.host_triple(), llvm.host_processor(), llvm.host_features(), *llvm.host_code_model()
    return f"host-{platform.machine()[:18]}-{digest_parts(*map(str.encode, parts)).hex()[:16]}"


def host_image(code: bytes, symbol: str, **others: Any) -> KernelImage:
    """An image of host code; ``others``: what else a ``KernelImage`` needs."""
    return KernelImage(kind="object", target=host_target(), index_width=INDEX_WIDTH, symbol=symbol, data=code, **others)


def find_code(name: str, text: str, store: ImageStore | None) -> bytes:
    """The object code of a module of LLVM text that no kernel owns.

    Args:
        name: what it is, for people who look into the cache.
        text: the module.
        store: where the code may be found, and is kept; None to compile it.
    """

    def make() -> bytes:
        machine = llvm.host_machine(2)
        module = llvm.parse_module(text)
        llvm.optimise_module(module, machine, 2)
        return llvm.emit_object(module, machine)

    if store is None or config.get("images") != "all":
        return make()
    meaning = digest(text.encode())
    tools = {"llvmlite": llvm.find_version()}
    key = digest_parts(meaning, host_target().encode(), tools["llvmlite"].encode(), config.get("cache_salt").encode())

    def make_image() -> KernelImage:
        return host_image(
            make(),
            name,
            module="cudabuild.cpu",
            qualname=name,
            signature="",
            fingerprint=meaning,
            options={},
            toolchain=tools,
        )

    return bytes(store.build_once(key, host_target(), make_image).data)
