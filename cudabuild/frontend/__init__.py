# SPDX-License-Identifier: Apache-2.0
"""Function and signature to typed IR. See ``README.md`` in this folder."""

from __future__ import annotations

import linecache
from functools import cache

from cudabuild.cuda import config as switches
from cudabuild.definition import KernelDefinition, Options, parameter_names
from cudabuild.errors import Diagnostic
from cudabuild.frontend import impl
from cudabuild.frontend.callee import callee_of
from cudabuild.frontend.diagnostics import DiagnosticSink, Refusal
from cudabuild.frontend.endings import end_where_raised
from cudabuild.frontend.infer import FunctionInference, params_of
from cudabuild.frontend.missing import warn_of_missing_values
from cudabuild.frontend.operands import NoneOperand, Operand, TupleOperand, type_of
from cudabuild.frontend.specialise import Session, raise_diagnostics
from cudabuild.frontend.tables import find_table, strong
from cudabuild.ir.hir import HirFunction
from cudabuild.ir.ir import Function, Value
from cudabuild.ir.verifier import verify_stage
from cudabuild.types import FunctionSignature, Scalar, Signature, Type, none

__all__ = ["build_hir_of", "build_ir", "impl", "returned_type"]


def build_hir_of(definition: KernelDefinition) -> HirFunction:
    """The untyped HIR of a definition's function, for dumps; its syntax errors are raised.

    Raises:
        CompilationError, SourceError.
    """
    hir, sink = Session(debug=definition.options["debug"]).hir(callee_of(definition.function))
    raise_diagnostics(sink.diagnostics)
    return hir


def build_ir(definition: KernelDefinition, signature: Signature, options: Options | None = None) -> Function:
    """The typed IR of one overload; independent of target and index width. Passes verify it.

    Args:
        definition: the kernel (or device function).
        signature: one type for each parameter.
        options: compile options in place of the definition's own; ``debug``, ``fastmath``, ``literals`` count here.

    Raises:
        CompilationError: with every mistake found in the kernel and the device functions that it reaches.
        SignatureError: another number of types than the function has parameters.
        SourceError: the text of the kernel or of a function that it calls cannot be had.
    """
    options = definition.options if options is None else options
    inference, hir = _infer(definition, signature, options)
    held = inference.session.held
    if held:
        definition.function.__dict__.setdefault("__cudabuild_held__", []).extend(held)
    params = params_of(inference.arguments, hir.parameters, hir.location)
    result = _result_of(inference, signature) if definition.is_device else none
    if definition.is_device:  # others call it: a constant that it returns is a value like any other
        inference.result = NoneOperand() if result == none else Value(result)
    function = Function(hir.name, params, result, [], not definition.is_device, hir.location)
    inference.lower(function)
    function.links = tuple(inference.session.links)
    inference.session.release(inference)
    end_where_raised(function)
    verify_stage(function)
    _refuse_recursive_waits(function)
    return function


def returned_type(definition: KernelDefinition, signature: Signature) -> Type:
    """What a device function returns for arguments of these types: what its signature says, or what it does.

    Raises:
        CompilationError, SourceError.
    """
    inference, _ = _infer(definition, signature, definition.options)
    return _result_of(inference, signature)


def _result_of(inference: FunctionInference, signature: Signature) -> Type:
    declared = signature.return_type if isinstance(signature, FunctionSignature) else none
    if declared != none:
        return declared
    found = None if inference.result is None else type_of(inference.result)
    return none if found is None else strong(found) if isinstance(found, Scalar) else found


def _infer(
    definition: KernelDefinition, signature: Signature, options: Options
) -> tuple[FunctionInference, HirFunction]:
    definition.check_arity(signature)
    session = Session(debug=options["debug"], fastmath=options["fastmath"])
    callee = callee_of(definition.function)
    hir, sink = session.hir(callee)
    if not definition.is_device:
        _refuse_keyword_only(sink)
    arguments = _arguments(definition, signature)
    inference = FunctionInference(
        session,
        callee,
        hir,
        sink,
        arguments,
        is_kernel=not definition.is_device,
        table=find_table(options["literals"]),
    )
    inference.run()
    found: dict[object, Diagnostic] = {}
    for diagnostic in session.diagnostics(inference):
        found.setdefault((diagnostic.location, diagnostic.title), diagnostic)
    raise_diagnostics(list(found.values()))
    if switches.ALWAYS_WARN_UNINIT_VAR:
        warn_of_missing_values(inference)
    return inference, hir


def _arguments(definition: KernelDefinition, signature: Signature) -> list[Operand]:
    """One operand for each parameter; ``*args`` is a tuple of all that is left over."""
    values: list[Operand] = [Value(kind) for kind in signature]
    fixed = len(parameter_names(definition.function, 0))
    if parameter_names(definition.function, fixed + 1) == parameter_names(definition.function, fixed):
        return values
    return [*values[:fixed], TupleOperand(tuple(values[fixed:]))]


def _refuse_recursive_waits(function: Function) -> None:
    """Where threads wait for one another is inlined into the kernel, for a thread's whole state to be in one place."""
    found = []
    waits = cache(lambda callee: callee.synchronises)  # there are far more calls than functions
    for caller in (function, *function.callees):
        for instr in caller.instructions():
            callee = instr.attrs["callee"] if instr.op == "call" else None
            if callee is None or not waits(callee) or (callee is not caller and caller not in callee.callees):
                continue
            where = instr.location
            assert where is not None
            found.append(
                Diagnostic(
                    "a recursive function waits for other threads",
                    where,
                    linecache.getline(where.file, where.line).rstrip(),
                    kernel=caller.name,
                    found=f"a call of {callee.name!r} that leads back to it, past a barrier or warp operation",
                    expected="barriers and warp operations outside recursive functions",
                    do="write the recursion as a loop, or take the barrier out of it",
                )
            )
    raise_diagnostics(found)


def _refuse_keyword_only(sink: DiagnosticSink) -> None:
    """A signature lists the parameters that a launch may give by position; a kernel has no others."""
    for argument in sink.source.tree.args.kwonlyargs:
        refusal = Refusal(
            "a keyword-only parameter of a kernel",
            found=f"'*' before {argument.arg}",
            expected="parameters that can be given by position; any can be given by name too",
            do="drop the '*'",
        )
        sink.add(refusal, sink.source.locate(argument))
    if sink.source.tree.args.kwonlyargs:
        raise_diagnostics(sink.diagnostics)
