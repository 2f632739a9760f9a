# SPDX-License-Identifier: Apache-2.0
"""Device functions: one specialisation per list of argument types (and constants), made when first called.

A constant argument stays a constant in the callee, so that shapes and flags passed down still size arrays and prune
branches; a function that calls itself is specialised by plain types instead. The result of a recursive call is
unknown until some return is reached, and inference comes round until it settles.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any

from cudabuild.definition import KernelDefinition
from cudabuild.errors import CompilationError, Diagnostic, SourceError
from cudabuild.frontend.ast_to_hir import build_hir
from cudabuild.frontend.context import Context
from cudabuild.frontend.diagnostics import DiagnosticSink, Refusal
from cudabuild.frontend.operands import (
    NoneOperand,
    Operand,
    Poison,
    SliceOperand,
    Static,
    TupleOperand,
    Unknown,
    is_const,
    key_of,
    type_of,
)
from cudabuild.frontend.tables import WEAK, Table, find_table
from cudabuild.ir.hir import HirFunction
from cudabuild.ir.ir import Function, Value
from cudabuild.source import FunctionSource, get_source
from cudabuild.types import none

if TYPE_CHECKING:
    from cudabuild.frontend.infer import FunctionInference

__all__ = ["Session", "Specialisation"]


class Specialisation:
    """One device function for one list of arguments; ``lowered`` once its IR is asked for."""

    def __init__(self, inference: FunctionInference, name: str) -> None:
        self.inference = inference
        self.name = name
        self.running = False
        self.lowered: Function | None = None


class Session:
    """Everything compiled for one kernel overload: sources, HIR and specialisations.

    Args:
        debug: whether ``assert`` and ``raise`` mean something.
    """

    def __init__(self, *, debug: bool = False) -> None:
        self.debug = debug
        self.specialisations: dict[tuple[Any, ...], Specialisation] = {}
        self._hir: dict[FunctionType, tuple[FunctionSource, HirFunction, DiagnosticSink]] = {}
        self._names: dict[str, int] = {}
        self._sites: dict[Any, Specialisation] = {}
        self._tables: dict[FunctionType, Table] = {}

    def hir(self, function: FunctionType) -> tuple[HirFunction, DiagnosticSink]:
        """The HIR of a function and the diagnostics of its syntax; raises SourceError."""
        known = self._hir.get(function)
        if known is None:
            source = get_source(function)
            sink = DiagnosticSink(source, function.__qualname__)
            known = self._hir[function] = (source, build_hir(source, sink, debug=self.debug), sink)
        return known[1], known[2]

    def diagnostics(self) -> list[Diagnostic]:
        """Those of every device function reached."""
        found: dict[tuple[Any, ...], Diagnostic] = {}
        for specialisation in self.specialisations.values():
            for diagnostic in specialisation.inference.diagnostics:
                found.setdefault((diagnostic.location, diagnostic.title), diagnostic)
        return list(found.values())

    # calls, as the rules see them

    def call(
        self, context: Context, function: Any, operands: Sequence[Operand], keywords: dict[str, Operand]
    ) -> Operand:
        arguments = self._bind(context, function, operands, keywords)
        if any(isinstance(argument, (Poison, Unknown)) for argument in arguments):
            return Poison()
        site = context.next_call_site()
        if context.inferring:
            self._sites[site] = self._find(function, arguments, self._table_of(context, function))
        specialisation = self._sites[site]
        self._settle(specialisation)
        inference = specialisation.inference
        if inference.diagnostics:
            return Poison()
        result = inference.result
        if result is None:
            return Unknown() if specialisation.running else self._no_result(function)
        if isinstance(result, Poison):
            return result
        return self._emit_call(context, specialisation, arguments, result)

    def _no_result(self, function: FunctionType) -> Operand:
        raise Refusal(
            f"the result of {function.__qualname__!r} cannot be typed",
            found="a function that calls itself on every path",
            expected="a path that returns without a recursive call",
            do="add the case in which the recursion ends",
            operand=0,
        )

    def _bind(
        self, context: Context, function: Any, operands: Sequence[Operand], keywords: dict[str, Operand]
    ) -> list[Operand]:
        from cudabuild.frontend.evaluate import operand_of_object

        signature = inspect.signature(function, follow_wrapped=False, eval_str=False)
        try:
            bound = signature.bind(*operands, **keywords)
        except TypeError as error:
            raise Refusal(
                f"wrong arguments for {function.__qualname__!r}",
                found=str(error),
                expected=f"{function.__qualname__}({', '.join(signature.parameters)})",
                do="give one argument for each parameter",
            ) from None
        arguments: list[Operand] = []
        for name, parameter in signature.parameters.items():
            if name in bound.arguments:
                arguments.append(bound.arguments[name])
            else:
                arguments.append(operand_of_object(context, parameter.default))
        return arguments

    def _table_of(self, context: Context, function: FunctionType) -> Table:
        """How numbers meet in a function: as its own decorator says, or as they do in its caller."""
        if (function.__module__ or "").partition(".")[0] == "cudabuild":  # the language's own functions
            return WEAK
        return self._tables.get(function, context.table)

    def declare(self, definition: KernelDefinition) -> FunctionType:
        """Notes the options that a decorated device function brings along; gives its function."""
        if "literals" in definition.options.written:
            self._tables[definition.function] = find_table(definition.options["literals"])
        return definition.function

    def _find(self, function: FunctionType, arguments: list[Operand], table: Table) -> Specialisation:
        if any(s.running and s.inference.function is function for s in self.specialisations.values()):
            arguments = [_without_constant(argument) for argument in arguments]
        key = (function, table, *map(_argument_key, arguments))
        known = self.specialisations.get(key)
        if known is not None:
            return known
        from cudabuild.frontend.infer import FunctionInference

        try:
            hir, sink = self.hir(function)
        except SourceError as error:
            raise Refusal(
                f"function {function.__qualname__!r} cannot be compiled",
                found=str(error),
                expected="a function whose source text can be read",
                do="define it with 'def' in a file",
                operand=0,
            ) from None
        count = self._names[function.__name__] = self._names.get(function.__name__, 0) + 1
        name = function.__name__ if count == 1 else f"{function.__name__}.{count}"
        parameters = [_as_parameter(argument) for argument in arguments]
        inference = FunctionInference(self, function, hir, sink, parameters, is_kernel=False, name=name, table=table)
        made = self.specialisations[key] = Specialisation(inference, name)
        return made

    def _settle(self, specialisation: Specialisation) -> None:
        if specialisation.running or specialisation.inference.settled:
            return
        specialisation.running = True
        try:
            specialisation.inference.run()
        finally:
            specialisation.running = False

    def _emit_call(
        self, context: Context, specialisation: Specialisation, arguments: list[Operand], result: Operand
    ) -> Operand:
        """The call instruction; a compile-time result needs none of its value."""
        values = [
            context.convert(argument, parameter.type)
            for argument, parameter in zip(arguments, specialisation.inference.arguments, strict=True)
            if isinstance(parameter, Value) and not is_const(parameter)
        ]
        kind = none if isinstance(result, (NoneOperand, Static)) else type_of(result)
        if kind is None:
            return Poison()
        call = context.emit("call", kind, *values, callee=self._callee(context, specialisation))
        if isinstance(result, (NoneOperand, Static)):
            return result
        elements = context.elements(call)
        return call if elements is None else TupleOperand(elements)

    def _callee(self, context: Context, specialisation: Specialisation) -> Function | None:
        """The callee's IR: made on the first call that is lowered; during inference there is none."""
        if context.inferring:
            return None
        if specialisation.lowered is None:
            from cudabuild.frontend.infer import params_of

            inference = specialisation.inference
            result = inference.result
            assert result is not None
            kind = none if isinstance(result, (NoneOperand, Static)) else type_of(result)
            assert kind is not None
            params = params_of(inference.arguments, inference.hir.parameters, inference.hir.location)
            function = Function(specialisation.name, params, kind, [], False, inference.hir.location)
            specialisation.lowered = function
            inference.lower(function)
        return specialisation.lowered


def _without_constant(argument: Operand) -> Operand:
    if isinstance(argument, Value) and is_const(argument):
        return Value(argument.type)
    return argument


def _argument_key(argument: Operand) -> Any:
    return key_of(_as_parameter(argument))


def _as_parameter(argument: Operand) -> Operand:
    """How the callee sees an argument: constants and compile-time objects as they are, the rest by type."""
    if isinstance(argument, TupleOperand):
        kind = type_of(argument)
        return argument if kind is None else Value(kind)
    if isinstance(argument, SliceOperand):
        raise Refusal(
            "a slice as an argument", found="a slice", expected="a value", do="pass the bounds as integers", operand=0
        )
    if isinstance(argument, Value) and not is_const(argument):
        return Value(argument.type)
    return argument


def raise_diagnostics(diagnostics: Sequence[Diagnostic]) -> None:
    """Raises CompilationError if there are any."""
    if diagnostics:
        raise CompilationError(sorted(diagnostics, key=lambda d: (d.location.file, d.location.line, d.location.column)))
