# SPDX-License-Identifier: Apache-2.0
"""A function as something to compile: its text, its parameters, and what its free names are looked up in.

Either a Python function, or one written inside a function that is compiled: then the variables that it captures are
parameters behind its own.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

from cudabuild.frontend.diagnostics import Refusal
from cudabuild.frontend.operands import ClosureOperand, Operand, Static, TupleOperand, leaves_of
from cudabuild.source import FunctionSource, get_source

__all__ = ["Callee", "callee_of"]

_KINDS = inspect.Parameter

#: Stands for a function among the variables that it captures itself.
ITSELF = Static(object())


class Callee:
    """One function to compile.

    Attributes:
        key: what tells it from others.
        function: the Python function that it is, or that it was written in.
        closure: the function from inside another, or None.
    """

    def __init__(self, key: Any, function: FunctionType, closure: ClosureOperand | None) -> None:
        self.key = key
        self.function = function
        self.closure = closure

    @property
    def name(self) -> str:
        """A name for the IR."""
        name = self.function.__name__ if self.closure is None else self.closure.inner.name
        return "lambda" if name == "<lambda>" else name

    @property
    def qualname(self) -> str:
        """The name for messages."""
        if self.closure is None:
            return self.function.__qualname__
        return f"{self.function.__qualname__}.<locals>.{self.closure.inner.name}"

    @property
    def captured(self) -> tuple[str, ...]:
        """The variables that follow its parameters."""
        return () if self.closure is None else self.closure.inner.captured

    def source(self) -> FunctionSource:
        """Its text; raises SourceError."""
        return get_source(self.function) if self.closure is None else self.closure.inner.source

    def bind(
        self, operands: Sequence[Operand], keywords: dict[str, Operand], convert: Callable[[Any], Operand]
    ) -> list[Operand]:
        """One operand for each parameter, and for each captured variable.

        Args:
            operands, keywords: of the call.
            convert: the operand of a default, which is an object for a Python function.
        """
        if self.closure is None and not keywords and len(operands) == _plain_count(self.function):
            return list(operands)
        if self.closure is None:
            signature = inspect.signature(self.function, follow_wrapped=False, eval_str=False)
        else:
            signature = _signature_of(self.closure)
        try:
            bound = signature.bind(*operands, **keywords)
        except TypeError as error:
            raise Refusal(
                f"wrong arguments for {self.qualname!r}",
                found=str(error),
                expected=f"{self.qualname}({', '.join(signature.parameters)})",
                do="give one argument for each parameter",
            ) from None
        arguments: list[Operand] = []
        for name, parameter in signature.parameters.items():
            if parameter.kind is _KINDS.VAR_POSITIONAL:
                arguments.append(TupleOperand(tuple(bound.arguments.get(name, ()))))
            elif parameter.kind is not _KINDS.VAR_KEYWORD:
                given = name in bound.arguments
                arguments.append(bound.arguments[name] if given else convert(parameter.default))
        if self.closure is not None:
            arguments += [self._captured(self.closure, name) for name in self.captured]
        return arguments

    def _captured(self, closure: ClosureOperand, name: str) -> Operand:
        part = closure.captured[name]
        same = isinstance(part, ClosureOperand) and part.inner is closure.inner and part.frame is closure.frame
        return ITSELF if same else part

    def own(self, arguments: Sequence[Operand], index: int) -> Operand:
        """What the parameter ``index`` is inside the function: for a function that captures itself, that function.

        Args:
            arguments: the operands of all parameters, as the function has them.
            index: of the parameter.
        """
        if arguments[index] is not ITSELF:
            return arguments[index]
        assert self.closure is not None
        first = len(arguments) - len(self.captured)
        captured = {name: arguments[first + number] for number, name in enumerate(self.captured)}
        defaults = {name: part for name, part in self.closure.defaults.items() if not leaves_of(part)}
        return self.closure.with_parts(captured, defaults)


def callee_of(function: FunctionType | ClosureOperand) -> Callee:
    """What a function or closure is compiled from."""
    if isinstance(function, ClosureOperand):
        outer: FunctionType = function.frame.callee.function
        return Callee((function.inner, function.frame), outer, function)
    return Callee(function, function, None)


def _signature_of(closure: ClosureOperand) -> inspect.Signature:
    arguments = closure.inner.source.tree.args
    groups: list[tuple[Any, list[ast.arg]]] = [
        (_KINDS.POSITIONAL_ONLY, arguments.posonlyargs),
        (_KINDS.POSITIONAL_OR_KEYWORD, arguments.args),
        (_KINDS.VAR_POSITIONAL, [] if arguments.vararg is None else [arguments.vararg]),
        (_KINDS.KEYWORD_ONLY, arguments.kwonlyargs),
    ]
    parameters = [
        _KINDS(one.arg, kind, default=closure.defaults.get(one.arg, _KINDS.empty))
        for kind, group in groups
        for one in group
    ]
    return inspect.Signature(parameters)


def _plain_count(function: FunctionType) -> int:
    """How many parameters a function has, or -1 where they are not all plain ones."""
    code = function.__code__
    stars = code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
    return -1 if stars or code.co_kwonlyargcount else code.co_argcount
