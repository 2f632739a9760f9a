# SPDX-License-Identifier: Apache-2.0
"""Typed IR to machine code of this computer, loaded into this process."""

from __future__ import annotations

import linecache
from string import Template
from typing import TYPE_CHECKING

from cudabuild.backend import llvm
from cudabuild.backend.emit import emit_module
from cudabuild.collection import PausedCollection
from cudabuild.cpu.abi import CHECKS, TEXT_CONSTANTS
from cudabuild.cpu.checked import CheckedDialect
from cudabuild.cpu.dialect import HostDialect
from cudabuild.cpu.faults import FAULT
from cudabuild.cpu.libdevice import format_functions
from cudabuild.cpu.loops import calls_itself, find_polls
from cudabuild.cpu.objects import LOCK, HostKernel, HostObject, load_kernel
from cudabuild.cpu.schedule import format_schedule
from cudabuild.cpu.store import INDEX_WIDTH
from cudabuild.definition import DEFAULT_OPTIONS
from cudabuild.errors import CompilationError, Diagnostic
from cudabuild.ir.ir import Instr, Param
from cudabuild.ir.ranges import compute_ranges

if TYPE_CHECKING:
    from cudabuild.cpu.findings import Site
    from cudabuild.definition import KernelDefinition, Options
    from cudabuild.ir.ir import Function
    from cudabuild.types import Signature

__all__ = ["compile_function", "compile_kernel", "compile_object", "emit_host_text", "optimise_host_text"]


def compile_kernel(
    definition: KernelDefinition, signature: Signature, checks: frozenset[str] = frozenset()
) -> HostKernel:
    """Compiles one overload of a kernel and loads it.

    Args:
        definition, signature: the overload.
        checks: ``bounds``, and of ``CHECKS`` what makes the kernel watched.

    Raises:
        CompilationError: the kernel is wrong; with every mistake found.
        ToolError: llvmlite is missing.
    """
    return compile_function(_lower(definition, signature), definition.options, checks)


def compile_object(definition: KernelDefinition, signature: Signature, checks: frozenset[str]) -> HostObject:
    """Compiles one overload of a kernel that is not watched.

    Raises:
        CompilationError, ToolError: see :func:`compile_kernel`.
    """
    return _compile(_lower(definition, signature), definition.options, checks)[0]


def _lower(definition: KernelDefinition, signature: Signature) -> Function:
    from cudabuild.frontend import build_ir
    from cudabuild.ir.passes import run_passes
    from cudabuild.ir.passes.inline import inline_calls

    with PausedCollection():
        function = build_ir(definition, signature)
        _refuse_gpu_memory(function)
        _refuse_foreign_code(function)
        inline_calls(function, _must_be_inlined)
        return run_passes(function, target_kind="host")


def _refuse_gpu_memory(function: Function) -> None:
    found = []
    for one in (function, *function.callees):
        for instr in one.instructions():
            if instr.op == "array_at" and instr.attrs.get("home") == "gpu" and instr.location is not None:
                where = instr.location
                line = linecache.getline(where.file, where.line).rstrip()
                found.append(
                    Diagnostic(
                        "a captured array in GPU memory, on the CPU device",
                        where,
                        line,
                        kernel=one.name,
                        found=f"an array of {instr.type} at an address of a GPU",
                        expected="an array in host memory",
                        do="make the array with cuda.to_device, which takes the memory of the device in use",
                    )
                )
    if found:
        raise CompilationError(found)


def _refuse_foreign_code(function: Function) -> None:
    found = []
    for one in (function, *function.callees):
        for instr in one.instructions():
            if instr.op == "foreign" and instr.location is not None:
                where = instr.location
                found.append(
                    Diagnostic(
                        "a function of linked device code, on the CPU device",
                        where,
                        linecache.getline(where.file, where.line).rstrip(),
                        kernel=one.name,
                        found=f"a call of {instr.attrs['symbol']}, which is compiled for GPUs",
                        expected="functions written in Python, or a GPU",
                        do="launch it on a GPU, or write the function in Python for the CPU device",
                    )
                )
    if found:
        raise CompilationError(found)


def _must_be_inlined(callee: Function) -> bool:
    """A long loop is left by leaving the kernel, which only the kernel's own body can at once."""
    if callee.synchronises:
        return True
    return not calls_itself(callee) and bool(find_polls(callee, compute_ranges(callee, index_width=INDEX_WIDTH)))


def compile_function(
    function: Function, options: Options = DEFAULT_OPTIONS, checks: frozenset[str] = frozenset()
) -> HostKernel:
    """Compiles and loads typed IR that the passes have been over: no call in it reaches a barrier or warp operation."""
    return load_kernel(*_compile(function, options, checks))


def _compile(
    function: Function, options: Options, checks: frozenset[str]
) -> tuple[HostObject, tuple[Site, ...] | None]:
    level = options["opt"]
    with LOCK:
        text, dialect = emit_host_text(function, options, checks)
        machine = llvm.host_machine(level)
        module = llvm.parse_module(text)
        llvm.optimise_module(module, machine, level, vectorise=True)
        code = llvm.emit_object(module, machine)
    plan = dialect.plan
    made = HostObject(
        code,
        plan.symbol,
        plan.static_shared or 0,
        plan.coroutine,
        plan.takes_turns,
        any(instr.op == "grid_sync" for instr in function.instructions()),
        tuple(sorted(_written_parameters(function))),
        dialect.faults.sites,
    )
    return made, tuple(dialect.sites) if isinstance(dialect, CheckedDialect) else None


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
    functions = format_functions(module.libdevice) if module.libdevice else ""
    return module.format_with(format_schedule(dialect.plan) + dialect.definitions + faults + functions), dialect


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
            if isinstance(array, Instr) and array.op in ("shared", "local", "dynamic_shared", "array_at"):
                continue
            if one is not function or not isinstance(array, Param):
                return everything
            written.add(array.index)
    return frozenset(written)
