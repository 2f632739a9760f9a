# SPDX-License-Identifier: Apache-2.0
"""Device functions: one specialisation per list of argument types (and constants), made when first called.

A constant argument stays a constant in the callee, so that shapes and flags passed down still size arrays and prune
branches; a function that calls itself is specialised by plain types instead. The result of a recursive call is
unknown until some return is reached, and inference comes round until it settles.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import FunctionType, MappingProxyType
from typing import TYPE_CHECKING, Any, get_args

from cudabuild.definition import DEFAULT_OPTIONS, Options
from cudabuild.errors import CompilationError, Diagnostic, KernelResultError, KernelValueError, Location, SourceError
from cudabuild.frontend.ast_to_hir import build_hir
from cudabuild.frontend.callee import Callee, callee_of
from cudabuild.frontend.context import Context
from cudabuild.frontend.diagnostics import KERNEL_RETURNS, NO_ALIGNMENT, DiagnosticSink, Refusal
from cudabuild.frontend.operands import (
    ClosureOperand,
    Operand,
    Poison,
    Unknown,
    key_of,
    leaves_of,
    map_leaves,
)
from cudabuild.frontend.shapes import as_parameter, pack_type, pour, rebuild
from cudabuild.frontend.tables import WEAK, Table, find_table
from cudabuild.ir.hir import HirFunction, LoopKey
from cudabuild.ir.ir import Function, Value
from cudabuild.linking import LinkableCode, linked_to

if TYPE_CHECKING:
    from cudabuild.frontend.infer import FunctionInference

__all__ = ["Session", "Specialisation"]

#: Functions being typed inside one another; more are a recursion whose types grow.
_DEEPEST = 50


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
        fastmath: whether float arithmetic may do without its special cases.
    """

    def __init__(self, *, debug: bool = False, fastmath: bool = False) -> None:
        self.debug = debug
        self.fastmath = fastmath
        self.specialisations: dict[tuple[Any, ...], Specialisation] = {}
        self._hir: dict[Any, tuple[HirFunction, DiagnosticSink]] = {}
        self.calls = 0  # of functions, looked at so far
        self.held: list[Any] = []  # objects whose memory the code points into
        self.links: dict[LinkableCode, None] = {}  # foreign code that functions reached so far are linked with
        self._running: list[FunctionInference] = []
        self._names: dict[str, int] = {}
        self._sites: dict[Any, Specialisation] = {}

    def hir(
        self, callee: Callee, unrolled: Mapping[LoopKey, int] = MappingProxyType({})
    ) -> tuple[HirFunction, DiagnosticSink]:
        """The HIR of a function and the diagnostics of its syntax; raises SourceError.

        Args:
            callee: the function.
            unrolled: its loops that are written out, with their turns.
        """
        for code in linked_to(callee.function):
            self.link(code)
        key = (callee.key, frozenset(unrolled.items()))
        known = self._hir.get(key)
        if known is None:
            source = callee.source()
            sink = DiagnosticSink(source, callee.qualname)
            made = build_hir(source, sink, debug=self.debug, captured=callee.captured, unrolled=unrolled)
            known = self._hir[key] = (made, sink)
        return known

    def diagnostics(self, root: FunctionInference) -> list[Diagnostic]:
        """Those of a function and of every device function that it reaches."""
        found: dict[tuple[Any, ...], Diagnostic] = {}
        pending: list[tuple[FunctionInference, Callable[[Diagnostic], Diagnostic] | None]] = [(root, None)]
        seen = {root}
        while pending:
            inference, move = pending.pop(0)
            for diagnostic in inference.diagnostics:
                placed = diagnostic if move is None else move(diagnostic)
                found.setdefault((placed.location, placed.title), placed)
            for specialisation, location in inference.called.items():
                callee = specialisation.inference
                if callee not in seen:
                    seen.add(callee)
                    pending.append((callee, (move or _mover(inference, location)) if _is_own(callee.callee) else None))
        return list(found.values())

    def release(self, root: FunctionInference) -> None:
        """Lets go of what was found out about a function and all that it calls.

        These objects refer to one another in circles: left alone, they would be the garbage collector's to find.
        """
        for inference in (root, *(specialisation.inference for specialisation in self.specialisations.values())):
            inference.release()
        self._sites.clear()

    def hold(self, value: Any) -> None:
        """See ``CallTarget``."""
        if not any(value is held for held in self.held):
            self.held.append(value)

    def link(self, code: LinkableCode) -> None:
        """See ``CallTarget``."""
        self.links.setdefault(code)

    # calls, as the rules see them

    def call(
        self,
        context: Context,
        function: FunctionType | ClosureOperand,
        operands: Sequence[Operand],
        keywords: dict[str, Operand],
        options: Options = DEFAULT_OPTIONS,
    ) -> Operand:
        """See ``CallTarget``."""
        from cudabuild.frontend.free_names import operand_of_object

        self.calls += 1
        context.called.append(None)
        callee = callee_of(function)
        arguments = callee.bind(operands, keywords, lambda value: _default(context, value, operand_of_object))
        if any(isinstance(argument, Unknown) for argument in arguments):
            return Unknown()
        if any(isinstance(argument, Poison) for argument in arguments[: len(arguments) - len(callee.captured)]):
            return Poison()
        site = context.next_call_site()
        if context.inferring:
            self._sites[site] = self._find(callee, arguments, self._table_of(context, callee, options))
        specialisation = self._sites.get(site) or _recorded(site)
        context.called[-1] = specialisation
        if context.inferring and context.site is not None:
            context.site[0].called.setdefault(specialisation, context.location)
        self._settle(specialisation)
        inference = specialisation.inference
        if inference.refused:
            return Poison()
        result = inference.result
        if (
            context.site is not None and not inference.settled
        ):  # it waits for the result of a function that waits for it
            on = self._running.index(inference) if specialisation.running else inference.waits_for
            context.site[0].waits_for = min(context.site[0].waits_for, on)
        if result is None:
            return Unknown() if specialisation.running or not inference.settled else self._no_result(callee)
        if isinstance(result, Poison):
            return result
        return self._emit_call(context, specialisation, arguments, result)

    def _no_result(self, callee: Callee) -> Operand:
        raise Refusal(
            f"the result of {callee.qualname!r} cannot be typed",
            found="a function that calls itself on every path: cannot type infer runaway recursion",
            expected="a path that returns without a recursive call",
            do="add the case in which the recursion ends",
            operand=0,
        )

    def _table_of(self, context: Context, callee: Callee, options: Options) -> Table:
        """How numbers meet in a function: as its own decorator says, or as they do in its caller."""
        if callee.closure is not None:
            table: Table = callee.closure.frame.table
            return table
        if _is_own(callee):
            return WEAK
        return find_table(options["literals"]) if "literals" in options.written else context.table

    def _find(self, callee: Callee, arguments: list[Operand], table: Table) -> Specialisation:
        if any(one.callee.key == callee.key for one in self._running):
            arguments = [map_leaves(argument, lambda value: Value(value.type)) for argument in arguments]
        parameters = [as_parameter(argument) for argument in arguments]
        key = (callee.key, table, *map(key_of, parameters))
        known = self.specialisations.get(key)
        if known is not None:
            return known
        if len(self._running) > _DEEPEST:
            raise Refusal(
                "calls that lead to ever new calls",
                found=f"{len(self._running)} functions inside one another, each for other argument types: "
                "cannot type infer runaway recursion",
                expected="a recursion that comes back to the same argument types",
                do="keep the types of the arguments the same in a recursive call",
                operand=0,
            )
        from cudabuild.frontend.infer import FunctionInference

        try:
            hir, sink = self.hir(callee)
        except SourceError as error:
            raise Refusal(
                f"function {callee.qualname!r} cannot be compiled",
                found=str(error),
                expected="a function whose source text can be read",
                do="define it with 'def' in a file",
                operand=0,
            ) from None
        count = self._names[callee.name] = self._names.get(callee.name, 0) + 1
        name = callee.name if count == 1 else f"{callee.name}.{count}"
        inference = FunctionInference(self, callee, hir, sink, parameters, is_kernel=False, name=name, table=table)
        made = self.specialisations[key] = Specialisation(inference, name)
        return made

    def _settle(self, specialisation: Specialisation) -> None:
        if specialisation.running or specialisation.inference.settled:
            return
        specialisation.running = True
        inference = specialisation.inference
        inference.waits_for = depth = len(self._running)
        self._running.append(inference)
        try:
            inference.run()
            inference.settled = inference.waits_for >= depth
        finally:
            self._running.pop()
            specialisation.running = False

    def _emit_call(
        self, context: Context, specialisation: Specialisation, arguments: list[Operand], result: Operand
    ) -> Operand:
        """The call instruction; a compile-time result needs none of its value."""
        values = [
            value
            for argument, parameter in zip(arguments, specialisation.inference.arguments, strict=True)
            for value in pour(context, parameter, argument)
        ]
        kind = pack_type(result)
        call = context.emit("call", kind, *values, callee=self.lowered(context, specialisation))
        leaves = leaves_of(result)
        if len(leaves) < 2:
            return rebuild(context, result, [call])
        items = [context.emit("item", leaf.type, call, index=index) for index, leaf in enumerate(leaves)]
        return rebuild(context, result, items)

    def lowered(self, context: Context, specialisation: Specialisation) -> Function | None:
        """See ``CallTarget``."""
        if context.inferring:
            return None
        if specialisation.lowered is None:
            from cudabuild.frontend.infer import params_of

            inference = specialisation.inference
            result = inference.result
            assert result is not None
            params = params_of(inference.arguments, inference.hir.parameters, inference.hir.location)
            function = Function(specialisation.name, params, pack_type(result), [], False, inference.hir.location)
            specialisation.lowered = function
            inference.lower(function)
        return specialisation.lowered


def _recorded(site: tuple[Any, int]) -> Specialisation:
    """What a call has called whose operation was typed by one that is alike (``replay.py``)."""
    (inference, instr), number = site
    called: Specialisation = inference.records[instr].called[number - 1]
    return called


def _is_own(callee: Callee) -> bool:
    """Whether a function is one of the language's own."""
    return callee.closure is None and (callee.function.__module__ or "").partition(".")[0] == "cudabuild"


def _mover(caller: FunctionInference, location: Location) -> Callable[[Diagnostic], Diagnostic]:
    """What puts a diagnostic of the language's own function where the user's calls it."""

    def move(diagnostic: Diagnostic) -> Diagnostic:
        text = caller.syntax.source.line_text(location.line)
        return Diagnostic(
            diagnostic.title,
            location,
            text,
            kernel=caller.syntax.name,
            found=diagnostic.found,
            expected=diagnostic.expected,
            do=diagnostic.do,
        )

    return move


def _default(context: Context, value: Any, operand_of_object: Callable[[Context, Any], Operand]) -> Operand:
    """A parameter's default: an operand already where the function was written inside another."""
    return value if isinstance(value, get_args(Operand)) else operand_of_object(context, value)


#: Title of a mistake -> the error that it is.
_ERRORS: dict[str, type[CompilationError]] = {KERNEL_RETURNS: KernelResultError, NO_ALIGNMENT: KernelValueError}


def raise_diagnostics(diagnostics: Sequence[Diagnostic]) -> None:
    """Raises CompilationError if there are any."""
    if diagnostics:
        special = (_ERRORS[diagnostic.title] for diagnostic in diagnostics if diagnostic.title in _ERRORS)
        raise next(special, CompilationError)(
            sorted(diagnostics, key=lambda d: (d.location.file, d.location.line, d.location.column))
        )
