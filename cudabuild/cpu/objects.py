# SPDX-License-Identifier: Apache-2.0
"""Object code of kernels for this computer: kept in a cache between processes, and loaded into this one.

A process that finds a kernel here imports neither front end nor code generator: LLVM only links. The target of an image
is the processor and its features, so a cache on a shared disk serves different computers.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cache
from itertools import count
from threading import RLock
from typing import TYPE_CHECKING, Any

from cudabuild import config
from cudabuild.backend import llvm
from cudabuild.backend.libdevice import find_digest
from cudabuild.cpu.library import library_symbols
from cudabuild.cpu.printing import print_symbols
from cudabuild.cpu.store import INDEX_WIDTH, host_image, host_target
from cudabuild.cuda import config as switches
from cudabuild.definition import OPTIONS
from cudabuild.digest import digest_parts, digest_sources
from cudabuild.errors import ToolError

if TYPE_CHECKING:
    from cudabuild.cpu.findings import Site
    from cudabuild.cpu.store import ImageStore
    from cudabuild.definition import KernelDefinition
    from cudabuild.faults import Site as FaultSite
    from cudabuild.fingerprint import Fingerprint
    from cudabuild.image.image import KernelImage
    from cudabuild.types import Signature

__all__ = ["LOCK", "HostKernel", "HostObject", "find_object", "load_kernel"]

_serial = count()

#: One thread compiles or links at a time: LLVM allows no more, and what is made once per process must be made once.
LOCK = RLock()

#: What of this package has a say in the code that it makes for the host.
_SOURCES = ("backend", "cpu", "definition.py", "faults.py", "frontend", "ir", "lang", "source.py", "types")


@dataclass(frozen=True)
class HostObject:
    """Object code of one kernel. All but ``code`` and ``symbol`` are attributes of its image, and plain values.

    Attributes:
        code: the object file.
        symbol: its ``void (LAUNCH *)`` that a worker calls.
        static_shared: bytes of static shared memory.
        coroutine: whether its threads are coroutines.
        takes_turns: whether blocks that wait for others can be there together.
        syncs_grid: whether all of them must be.
        written: the parameters through whose arrays the kernel may write, by index.
        faults: the places that can fail, by number from 1 (``cudabuild/faults.py``).
    """

    code: bytes
    symbol: str
    static_shared: int
    coroutine: bool
    takes_turns: bool
    syncs_grid: bool
    written: tuple[int, ...]
    faults: tuple[FaultSite, ...]


@dataclass(frozen=True)
class HostKernel:
    """A kernel ready to run on this computer.

    Attributes:
        address: of the ``void (LAUNCH *)`` that a worker calls; valid while this object lives.
        object: what was loaded.
        library: what keeps the code loaded.
        sites: the places that a checked kernel tells of, by number; empty for a kernel that is not checked.
    """

    address: int
    object: HostObject
    library: llvm.JitLibrary
    sites: tuple[Site, ...] = ()


def load_kernel(
    found: HostObject, sites: tuple[Site, ...] | None = None, store: ImageStore | None = None
) -> HostKernel:
    """Links object code into this process; ``sites``: of a watched kernel."""
    with LOCK:
        symbols = {**library_symbols(found.takes_turns, store), **print_symbols()}
        if sites is not None:
            from cudabuild.cpu.shadow import check_symbols

            symbols.update(check_symbols())
        try:
            library = llvm.load_object(f"{next(_serial)}.{found.symbol}", found.code, [found.symbol], symbols)
        except RuntimeError as error:
            raise ToolError(f"the host code of {found.symbol} cannot be loaded: {error}") from error
        return HostKernel(library.address(found.symbol), found, library, sites or ())


@dataclass(frozen=True)
class _HostTarget:
    name: str


@cache
def _toolchain() -> dict[str, str]:
    return {"llvmlite": llvm.find_version(), "compiler": digest_sources(_SOURCES)}


def find_object(
    definition: KernelDefinition,
    signature: Signature,
    store: ImageStore | None,
    checks: frozenset[str],
) -> HostObject:
    """The object code of an overload, from ``store`` where it has it, else compiled and kept there.

    Raises:
        CompilationError, ToolError: it cannot be compiled.
    """

    def make() -> HostObject:
        from cudabuild.cpu.compile import compile_object

        return compile_object(definition, signature, checks)

    if store is None or config.get("images") != "all" or switches.ALWAYS_WARN_UNINIT_VAR:
        return make()
    from cudabuild.fingerprint import compute_fingerprint, image_key, log_in_process
    from cudabuild.types import format_signature

    options = definition.options
    fingerprint = compute_fingerprint(definition, signature, options)
    if fingerprint.in_process:
        log_in_process(fingerprint)
        return make()
    # libdevice even for a kernel that calls no function of it: that is known only once it has been compiled
    tools = {**_toolchain(), "libdevice": find_digest() or "none", "checks": " ".join(sorted(checks))}
    tools["places"] = _places(definition, fingerprint)
    target = _HostTarget(host_target())

    def make_image() -> KernelImage:
        made = make()
        image = host_image(
            made.code,
            made.symbol,
            module=definition.module,
            qualname=definition.qualname,
            signature=format_signature(signature),
            fingerprint=fingerprint.digest,
            options={spec.name: options[spec.name] for spec in OPTIONS if options[spec.name] != spec.default},
            attributes={name: getattr(made, name) for name in _ATTRIBUTES},
            toolchain=tools,
        )
        return image.stamp(fingerprint)

    key = image_key(fingerprint, target, INDEX_WIDTH, options, tools, config.get("cache_salt"))
    return _object(store.build_once(key, target.name, make_image))


def _places(definition: KernelDefinition, fingerprint: Fingerprint) -> str:
    """A digest of the source files: the code tells the lines of what can fail in it, a fingerprint knows none."""
    own = definition.function.__code__
    parts = [own.co_filename.encode("utf-8", "surrogateescape"), str(own.co_firstlineno).encode()]
    return digest_parts(*parts, *(check.source for check in fingerprint.checks)).hex()[:16]


def _object(image: KernelImage) -> HostObject:
    attributes: dict[str, Any] = {name: image.attributes[name] for name in _ATTRIBUTES}
    return HostObject(bytes(image.data), image.symbol, **attributes)


_ATTRIBUTES = tuple(field.name for field in fields(HostObject) if field.name not in ("code", "symbol"))
