# SPDX-License-Identifier: Apache-2.0
"""Typed IR to machine code of this computer, loaded into this process."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from string import Template
from threading import Lock
from typing import TYPE_CHECKING

from cudabuild.backend import llvm
from cudabuild.backend.emit import emit_module
from cudabuild.cpu.abi import TEXT_CONSTANTS
from cudabuild.cpu.checked import CHECKS, CheckedDialect
from cudabuild.cpu.dialect import HostDialect
from cudabuild.cpu.faults import FAULT
from cudabuild.cpu.library import library_symbols
from cudabuild.cpu.loops import find_polls
from cudabuild.cpu.printing import print_symbols
from cudabuild.cpu.schedule import format_schedule
from cudabuild.cpu.shadow import check_symbols
from cudabuild.definition import DEFAULT_OPTIONS
from cudabuild.errors import ToolError
from cudabuild.ir.ir import Instr, Param
from cudabuild.ir.ranges import compute_ranges

if TYPE_CHECKING:
    from cudabuild.cpu.findings import Site
    from cudabuild.definition import KernelDefinition, Options
    from cudabuild.faults import Site as FaultSite
    from cudabuild.ir.ir import Function
    from cudabuild.types import Signature

__all__ = ["INDEX_WIDTH", "HostKernel", "compile_function", "compile_kernel", "emit_host_text", "optimise_host_text"]

#: The host has the 64-bit variant only: its registers are that wide, and nothing is gained by a second one.
INDEX_WIDTH = 64

_serial = count()

#: One thread compiles at a time: LLVM allows no more, and what is made once per process must be made once.
_lock = Lock()


@dataclass(frozen=True)
class HostKernel:
    """A kernel ready to run on this computer.

    Attributes:
        address: of the ``void (LAUNCH *)`` that a worker calls; valid while this object lives.
        static_shared: bytes of static shared memory.
        coroutine: whether its threads are coroutines.
        takes_turns: whether blocks that wait for others can be there together.
        syncs_grid: whether all of them must be.
        written: the parameters through whose arrays the kernel may write, by index.
        library: what keeps the code loaded.
        sites: the places that a checked kernel tells of, by number; empty for a kernel that is not checked.
        faults: the places that can fail, by number from 1 (``cudabuild/faults.py``).
    """

    address: int
    static_shared: int
    coroutine: bool
    takes_turns: bool
    syncs_grid: bool
    written: frozenset[int]
    library: llvm.JitLibrary
    sites: tuple[Site, ...] = ()
    faults: tuple[FaultSite, ...] = ()


def compile_kernel(
    definition: KernelDefinition, signature: Signature, checks: frozenset[str] = frozenset()
) -> HostKernel:
    """Compiles one overload of a kernel for this computer.

    Args:
        definition, signature: the overload.
        checks: ``bounds``, and of ``CHECKS`` what makes the kernel watched.

    Raises:
        CompilationError: the kernel is wrong; with every mistake found.
        ToolError: llvmlite is missing.
    """
    from cudabuild.frontend import build_ir
    from cudabuild.ir.passes import run_passes
    from cudabuild.ir.passes.inline import inline_calls

    function = build_ir(definition, signature)
    inline_calls(function, _must_be_inlined)
    run_passes(function, target_kind="host")
    return compile_function(function, definition.options, checks)


def _must_be_inlined(callee: Function) -> bool:
    """A loop that may never end is left by leaving the kernel, which only the kernel's own body can."""
    return callee.synchronises or bool(find_polls(callee, compute_ranges(callee, index_width=INDEX_WIDTH)))


def compile_function(
    function: Function, options: Options = DEFAULT_OPTIONS, checks: frozenset[str] = frozenset()
) -> HostKernel:
    """Compiles typed IR that the passes have been over: no call in it reaches a barrier or warp operation."""
    level = options["opt"]
    with _lock:
        text, dialect = emit_host_text(function, options, checks)
        machine = llvm.host_machine(level)
        module = llvm.parse_module(text)
        llvm.optimise_module(module, machine, level, vectorise=True)
        code = llvm.emit_object(module, machine)
        plan = dialect.plan
        name = f"{next(_serial)}.{plan.symbol}"
        try:
            symbols = {**library_symbols(plan.takes_turns), **print_symbols()}
            symbols |= check_symbols() if checks & CHECKS else {}
            library = llvm.load_object(name, code, [plan.symbol], symbols)
        except RuntimeError as error:
            raise ToolError(f"the host code of {function.name} cannot be loaded: {error}") from error
    return HostKernel(
        library.address(plan.symbol),
        plan.static_shared or 0,
        plan.coroutine,
        plan.takes_turns,
        any(instr.op == "grid_sync" for instr in function.instructions()),
        _written_parameters(function),
        library,
        tuple(dialect.sites) if isinstance(dialect, CheckedDialect) else (),
        dialect.faults.sites,
    )


def emit_host_text(
    function: Function, options: Options = DEFAULT_OPTIONS, checks: frozenset[str] = frozenset()
) -> tuple[str, HostDialect]:
    """The LLVM text of a kernel for this computer, before optimisation, and the dialect that wrote it."""
    machine = llvm.host_machine(options["opt"])
    host = llvm.host_triple(), str(machine.target_data)
    guards = frozenset(("bounds", "division")) if options["debug"] else checks & {"bounds"}
    watched = checks & CHECKS
    dialect = (
        CheckedDialect(function, *host, guards, checks=watched) if watched else HostDialect(function, *host, guards)
    )
    # The prefix keeps a kernel called ``sinf`` from taking the place of the C library's.
    symbol = "cudabuild." + "".join(c if c.isascii() and c.isalnum() else "_" for c in function.name)[:40]
    module = emit_module(
        function,
        dialect,
        symbol=symbol,
        index_width=INDEX_WIDTH,
        ranges_of=lambda one: compute_ranges(one, index_width=INDEX_WIDTH),
        options=options,
    )
    faults = Template(FAULT).substitute(TEXT_CONSTANTS) if dialect.faults.sites else ""
    return module.format_with(format_schedule(dialect.plan) + dialect.definitions + faults), dialect


def optimise_host_text(text: str, level: int = 3) -> str:
    """LLVM's optimised text of ``text``: what ``inspect_llvm`` shows for the CPU device."""
    machine = llvm.host_machine(level)
    module = llvm.parse_module(text)
    llvm.optimise_module(module, machine, level, vectorise=True)
    return str(module)


def _written_parameters(function: Function) -> frozenset[int]:
    """The parameters whose arrays may be written; an array whose origin cannot be traced stands for all of them."""
    everything = frozenset(param.index for param in function.params)
    written: set[int] = set()
    for one in [*function.callees, function]:
        for instr in one.instructions():
            if instr.op not in ("store", "atomic", "atomic_cas"):
                continue
            array = instr.operands[0]
            while isinstance(array, Instr) and array.op == "view":
                array = array.operands[0]
            if isinstance(array, Instr) and array.op in ("shared", "local", "dynamic_shared"):
                continue
            if one is not function or not isinstance(array, Param):
                return everything
            written.add(array.index)
    return frozenset(written)
