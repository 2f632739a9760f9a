# SPDX-License-Identifier: Apache-2.0
"""The pipeline, from a Python function to an image, as a table of stages and the loop that runs it.

::

    function → source → hir → ir → llvm → optimised → ptx → cubin → image

Each stage names what it makes and which parts of a request it depends on, so that one compilation for many targets and
both index widths does the shared work once: the IR once per signature, LLVM text once per width, LLVM's optimiser once
per width and group of targets, PTX and cubin once per target.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from cudabuild.backend import cubin, ptx
from cudabuild.backend.check import check_function
from cudabuild.backend.disassemble import disassemble
from cudabuild.backend.emit import emit_module
from cudabuild.backend.nvptx import NvptxDialect
from cudabuild.collection import PausedCollection
from cudabuild.definition import OPTIONS, Options
from cudabuild.digest import COMPILER_SOURCES, digest_sources
from cudabuild.faults import portable_sites
from cudabuild.fingerprint import compute_fingerprint
from cudabuild.frontend import build_hir_of, build_ir
from cudabuild.image.image import KernelImage
from cudabuild.ir.hir import format_hir
from cudabuild.ir.passes import run_passes
from cudabuild.ir.printer import format_function
from cudabuild.ir.ranges import compute_ranges
from cudabuild.source import get_source
from cudabuild.types import format_signature

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from concurrent.futures import Future

    from cudabuild.definition import KernelDefinition
    from cudabuild.faults import Site
    from cudabuild.ir.ir import Function
    from cudabuild.source import FunctionSource
    from cudabuild.target import Target
    from cudabuild.types import Signature

    Watch = Callable[[str, float], None]

__all__ = [
    "STAGES",
    "Compilation",
    "Request",
    "Stage",
    "compile_image",
    "compile_images",
    "dump",
    "lower_ir",
    "toolchain",
]


@dataclass(frozen=True)
class Request:
    """What is compiled for what. ``group`` is the targets that share LLVM's optimiser, see ``backend/ptx.py``."""

    target: Target | None = None
    index_width: int = 64

    @property
    def group(self) -> str | None:
        return ptx.pipeline_group(self.target) if self.target is not None else None


@dataclass(frozen=True)
class Stage:
    """One change of representation.

    Attributes:
        name: what the stage makes.
        depends: attributes of ``Request`` that the result depends on, besides definition, signature and options.
        make: makes it, given the compilation and the request; asks ``Compilation.get`` for earlier stages.
        show: the result as text, or None where there is nothing to read.
    """

    name: str
    depends: tuple[str, ...]
    make: Callable[[Compilation, Request], Any]
    show: Callable[[Any], str] | None = None


class Compilation:
    """One overload on its way through the stages; results are kept, so that requests share them.

    Attributes:
        definition, signature, options: what is compiled.
        watch: called with each stage's name and the seconds it took itself, earlier stages not counted.
        symbol: the entry's name, in place of one made of the function's name and the fingerprint.
    """

    def __init__(
        self,
        definition: KernelDefinition,
        signature: Signature,
        options: Options | None = None,
        watch: Watch | None = None,
        symbol: str | None = None,
    ) -> None:
        self.definition = definition
        self.signature = signature
        self.options = definition.options if options is None else options
        self.watch = watch
        self._symbol = symbol
        self.sites: dict[int, tuple[Site, ...]] = {}  #: what can fail under debug, by index width; made with ``llvm``
        self._results: dict[tuple[Any, ...], Any] = {}
        self._inner = 0.0

    def get(self, name: str, request: Request) -> Any:
        """The result of the stage ``name`` for ``request``."""
        stage = _BY_NAME[name]
        key = self._key(stage, request)
        if key not in self._results:
            outer, self._inner = self._inner, 0.0
            start = time.perf_counter()
            self._results[key] = stage.make(self, request)
            spent = time.perf_counter() - start
            if self.watch is not None:
                self.watch(name, spent - self._inner)
            self._inner = outer + spent
        return self._results[key]

    def link_beside(self, requests: Iterable[Request], threads: int) -> None:
        """Links the cubins of ``requests`` in threads, each as soon as its PTX is there.

        Only the linker runs in them: the stages before it are LLVM's, which has one lock.
        """
        from concurrent.futures import ThreadPoolExecutor  # 6 ms, and most compilations are for one target

        linking: list[tuple[tuple[Any, ...], Future[cubin.CubinResult]]] = []
        with ThreadPoolExecutor(threads) as pool:
            try:
                for request in requests:
                    if request.target is not None and not request.target.is_ptx:
                        self.get("ptx", request)  # and all before it: a thread finds them made
                        self.symbol(request.index_width)
                        job = pool.submit(_make_cubin, self, request)
                        linking.append((self._key(_BY_NAME["cubin"], request), job))
                for key, job in linking:
                    self._results[key] = job.result()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _key(self, stage: Stage, request: Request) -> tuple[Any, ...]:
        return (stage.name, *(getattr(request, part) for part in stage.depends))

    def release(self) -> None:
        """Lets go of all results, which must not be in use any more."""
        function = self._results.get(("ir",))
        if function is not None:
            function.release()
        self._results.clear()

    def symbol(self, index_width: int) -> str:
        """The entry's name: readable in profilers, and distinct for every overload, option set and width."""
        if self._symbol is not None:
            return self._symbol
        name = "".join(c if c.isalnum() and c.isascii() else "_" for c in self.definition.qualname.rpartition(".")[2])
        if name[:1].isdigit():
            name = "_" + name
        digest = self.get("fingerprint", Request()).digest.hex()[:8]
        return f"{name[:40]}_{digest}{'_w64' if index_width == 64 else ''}"


def _show_source(source: FunctionSource) -> str:
    first = min([source.tree.lineno, *(decorator.lineno for decorator in source.tree.decorator_list)])
    return "\n".join(source.lines[first - 1 : source.tree.end_lineno]) + "\n"


def _make_ir(work: Compilation, request: Request) -> Function:
    function = build_ir(work.definition, work.signature, work.options)
    return run_passes(function, target_kind="nvptx")


def _make_llvm(work: Compilation, request: Request) -> str:
    function: Function = work.get("ir", request)
    dialect = NvptxDialect(debug=work.options["debug"])
    check_function(function, dialect)
    bounds = work.options["launch_bounds"]
    threads = bounds[0] if isinstance(bounds, tuple) else bounds
    width = request.index_width
    module = emit_module(
        function,
        dialect,
        symbol=work.symbol(width),
        index_width=width,
        ranges_of=lambda one: compute_ranges(one, index_width=width, launch_bounds=threads),
        options=work.options,
    )
    work.sites[width] = dialect.faults.sites
    return ptx.link_libdevice(module, work.options)


def _make_optimised(work: Compilation, request: Request) -> Any:
    assert request.group is not None
    return ptx.optimise_llvm(work.get("llvm", request), request.group, work.options["opt"])


def _make_ptx(work: Compilation, request: Request) -> str:
    assert request.target is not None
    return ptx.emit_ptx(work.get("optimised", request), request.target, work.options["opt"])


def _make_cubin(work: Compilation, request: Request) -> cubin.CubinResult:
    assert request.target is not None
    symbol = work.symbol(request.index_width)
    links = work.get("ir", request).links
    return cubin.link_cubin(work.get("ptx", request), request.target, work.options, symbol, links)


def _make_sass(work: Compilation, request: Request) -> str:
    linked: cubin.CubinResult = work.get("cubin", request)
    return disassemble(linked.data)


def _make_image(work: Compilation, request: Request) -> KernelImage:
    from cudabuild.target import minimum_driver

    target = request.target
    assert target is not None
    text: str = work.get("ptx", request)
    if target.is_ptx:
        data, usage = text.encode(), {}
        driver = minimum_driver(target, ptx_isa=ptx.find_isa(text))
    else:
        linked: cubin.CubinResult = work.get("cubin", request)
        data, usage = linked.data, linked.usage
        driver = minimum_driver(target, linker=linked.version)
    image = KernelImage(
        module=work.definition.module,
        qualname=work.definition.qualname,
        signature=format_signature(work.signature),
        fingerprint=work.get("fingerprint", request).digest,
        options={s.name: work.options[s.name] for s in OPTIONS if work.options[s.name] != s.default},
        kind=target.kind,
        target=target.name,
        index_width=request.index_width,
        symbol=work.symbol(request.index_width),
        data=data,
        attributes={
            **usage,
            **_debug_attributes(work, request),
            **_launch_attributes(work, request),
            "minimum_driver": driver,
        },
        toolchain=toolchain(target),
    )
    return image.stamp(work.get("fingerprint", request))


def _debug_attributes(work: Compilation, request: Request) -> dict[str, Any]:
    """The exception table of a debug image."""
    if not work.options["debug"]:
        return {}
    return {"exceptions": portable_sites(work.sites[request.index_width], work.definition)}


def _launch_attributes(work: Compilation, request: Request) -> dict[str, Any]:
    """What a launch must know of the kernel: all blocks at once where they wait for one another."""
    function: Function = work.get("ir", request)
    reached = [function, *function.callees]
    waits = any(instr.op == "grid_sync" for one in reached for instr in one.instructions())
    return {"cooperative": 1} if waits else {}


@cache
def _own_digest() -> str:
    return digest_sources(COMPILER_SOURCES)


def toolchain(target: Target) -> dict[str, str]:
    """Label -> version of everything that makes an image for ``target``, this compiler included.

    Raises:
        ToolError: llvmlite, or for a cubin nvJitLink, is missing.
    """
    return {**cubin.toolchain(target), "compiler": _own_digest()}


_TARGET = ("target", "index_width")

#: Every stage, in order. ``fingerprint`` stands beside the line: it names the overload.
STAGES: tuple[Stage, ...] = (
    Stage("function", (), lambda work, _: work.definition.function, repr),
    Stage("source", (), lambda work, _: get_source(work.definition.function), _show_source),
    Stage(
        "fingerprint",
        (),
        lambda work, _: compute_fingerprint(work.definition, work.signature, work.options),
        lambda fingerprint: "\n".join(f"{label}: {value}" for label, value in fingerprint.parts),
    ),
    Stage("hir", (), lambda work, _: build_hir_of(work.definition), format_hir),
    Stage("ir", (), _make_ir, format_function),
    Stage("llvm", ("index_width",), _make_llvm, str),
    Stage("optimised", ("index_width", "group"), _make_optimised, str),
    Stage("ptx", _TARGET, _make_ptx, str),
    Stage("cubin", _TARGET, _make_cubin),
    Stage("sass", _TARGET, _make_sass, str),
    Stage("image", _TARGET, _make_image),
)
_BY_NAME = {stage.name: stage for stage in STAGES}


def lower_ir(definition: KernelDefinition, signature: Signature) -> Function:
    """The verified typed IR of one overload, after all passes for a GPU.

    Raises:
        CompilationError: the kernel is wrong; with every mistake found.
    """
    function: Function = Compilation(definition, signature).get("ir", Request())
    return function


def compile_image(
    definition: KernelDefinition,
    signature: Signature,
    *,
    target: Target,
    index_width: int,
    options: Options | None = None,
) -> KernelImage:
    """One overload for one target and index width: a cubin for ``sm_…``, PTX for ``compute_…``.

    Raises:
        CompilationError: the kernel is wrong; with every mistake found.
        ToolError: a tool is missing or failed.
    """
    image: KernelImage = Compilation(definition, signature, options).get("image", Request(target, index_width))
    return image


def compile_images(
    definition: KernelDefinition,
    signature: Signature,
    targets: Iterable[Target],
    index_widths: Sequence[int],
    options: Options | None = None,
    *,
    watch: Watch | None = None,
    threads: int = 1,
) -> list[KernelImage]:
    """One overload for many targets and index widths, targets first; work that they share is done once.

    There is no PTX of a kernel that is linked with foreign code: cubins alone hold all of it.

    Args:
        definition: the kernel.
        signature: the overload's argument types.
        targets: of the target table.
        index_widths: 32, 64 or both.
        options: compile options in place of the definition's own.
        watch: called with each stage's name and the seconds it took.
        threads: how many cubins to link at once; nvJitLink runs beside itself and beside LLVM.
    """
    work = Compilation(definition, signature, options, watch)
    requests = [Request(target, width) for target in targets for width in index_widths]
    with PausedCollection():
        if work.get("ir", Request()).links:  # PTX calls what only a linker knows
            requests = [request for request in requests if request.target is None or not request.target.is_ptx]
        if threads > 1:
            work.link_beside(requests, threads)
        images = [work.get("image", request) for request in requests]
        work.release()
    return images


def dump(
    definition: KernelDefinition,
    signature: Signature,
    stage: str,
    target: Target | None = None,
    index_width: int = 32,
    options: Options | None = None,
) -> str:
    """The result of one stage as text.

    Args:
        definition, signature: the overload.
        stage: a name of ``STAGES`` whose result is text: source, hir, ir, llvm, optimised, ptx …
        target: needed from ``optimised`` on.
        index_width: 32 or 64; counts from ``llvm`` on.
        options: compile options in place of the definition's own.

    Raises:
        ValueError: there is no such stage, or nothing to read of it.
    """
    found = _BY_NAME.get(stage)
    if found is None or found.show is None:
        raise ValueError(f"no text of stage {stage!r}: expected {', '.join(s.name for s in STAGES if s.show)}")
    if target is None and "target" in (*found.depends, "target" if "group" in found.depends else ""):
        raise ValueError(f"stage {stage!r} needs a target")
    return found.show(Compilation(definition, signature, options).get(stage, Request(target, index_width)))
