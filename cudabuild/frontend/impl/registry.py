# SPDX-License-Identifier: Apache-2.0
"""The registry of rules: Python object or kernel-side name -> how a call of it is typed and lowered."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from typing import Any

from cudabuild.errors import nearest_name
from cudabuild.frontend.context import Context, Rule
from cudabuild.frontend.diagnostics import Refusal
from cudabuild.frontend.operands import Operand
from cudabuild.lang.name import KernelName

__all__ = [
    "find_method",
    "find_rule",
    "kernel_name",
    "method",
    "python_function",
    "replace_rules",
    "supported_members",
    "takes_whole",
]

_BY_NAME: dict[str, Rule] = {}
_BY_OBJECT: dict[Any, Rule] = {}
_METHODS: dict[tuple[str, str], Callable[..., Operand]] = {}
_WHOLE: set[Any] = set()


def kernel_name(*names: str) -> Callable[[Callable[..., Operand]], Callable[..., Operand]]:
    """Registers the decorated function as the rule of kernel-side names (``"atomic.add"``)."""

    def register(function: Callable[..., Operand]) -> Callable[..., Operand]:
        for name in names:
            _BY_NAME[name] = _checked(function, f"cuda.{name}")
        return function

    return register


def python_function(
    *objects: Any, name: str | None = None, whole: bool = False
) -> Callable[[Callable[..., Operand]], Callable[..., Operand]]:
    """Registers the decorated function as the rule of Python objects (``math.sqrt``, ``min``).

    Args:
        objects: what is called.
        name: its name in messages.
        whole: whether it takes None-or-a-value and members of enums as such, and not as the value or number.
    """

    def register(function: Callable[..., Operand]) -> Callable[..., Operand]:
        for item in objects:
            _BY_OBJECT[item] = _checked(function, name or _spelling(item))
            if whole:
                _WHOLE.add(item)
        return function

    return register


def method(owner: str, name: str) -> Callable[[Callable[..., Operand]], Callable[..., Operand]]:
    """Registers the decorated function as the method ``name`` of ``"array"``, ``"number"`` or ``"time"``; it takes the
    value after the context."""

    def register(function: Callable[..., Operand]) -> Callable[..., Operand]:
        _METHODS[owner, name] = function
        return function

    return register


def find_method(owner: str, name: str) -> Callable[..., Operand] | None:
    """The function of a method, or None."""
    return _METHODS.get((owner, name))


def find_rule(value: Any) -> Rule | None:
    """The rule for calling ``value``, or None."""
    if isinstance(value, KernelName):
        return _BY_NAME.get(value.name)
    try:
        return _BY_OBJECT.get(value)
    except TypeError:  # unhashable: nothing registered can be equal to it
        return None


def takes_whole(value: Any) -> bool:
    """Whether the rule for calling ``value`` takes None-or-a-value and members of enums as such."""
    return value in _WHOLE


def replace_rules(change: Callable[[Any, Rule], Rule]) -> None:
    """Puts ``change(object, rule)`` in the place of the rule of every Python object."""
    for item, rule in _BY_OBJECT.items():
        _BY_OBJECT[item] = change(item, rule)


def supported_members(module: Any) -> list[str]:
    """The names in ``module`` that have a rule, for messages."""
    return [name for name in dir(module) if find_rule(getattr(module, name, None)) is not None]


def _spelling(item: Any) -> str:
    module = getattr(item, "__module__", None)
    name = getattr(item, "__name__", repr(item))
    return name if module in (None, "builtins") else f"{module}.{name}"


def _checked(function: Callable[..., Operand], name: str) -> Rule:
    """The rule with its arguments checked against the parameters of ``function`` (after the context).

    The parameters are looked at when the rule is first called: there are a thousand rules, and a kernel needs few.
    """
    bounds: tuple[int, int] | None = None

    def rule(context: Context, operands: Sequence[Operand], keywords: dict[str, Operand]) -> Operand:
        nonlocal bounds
        if bounds is None:
            bounds = _bounds_of(function)
        if not keywords and bounds[0] <= len(operands) <= bounds[1]:
            return function(context, *operands)
        try:
            inspect.signature(function).bind(context, *operands, **keywords)
        except TypeError:
            raise _refuse_arguments(function, name, len(operands), list(keywords)) from None
        return function(context, *operands, **keywords)

    return rule


def _parameters_of(function: Callable[..., Operand]) -> list[inspect.Parameter]:
    """Those behind the context."""
    return list(inspect.signature(function).parameters.values())[1:]


def _bounds_of(function: Callable[..., Operand]) -> tuple[int, int]:
    """The least and the largest number of operands that fit without keywords."""
    parameters = _parameters_of(function)
    plain = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    most = sys.maxsize if any(p.kind is p.VAR_POSITIONAL for p in parameters) else len(plain)
    if any(p.kind is p.KEYWORD_ONLY and p.default is p.empty for p in parameters):
        most = -1
    return sum(p.default is p.empty for p in plain), most


def _refuse_arguments(function: Callable[..., Operand], name: str, count: int, keywords: list[str]) -> Refusal:
    parameters = _parameters_of(function)
    spelled = ", ".join(
        f"*{p.name}" if p.kind is p.VAR_POSITIONAL else p.name if p.default is p.empty else f"{p.name}={p.default}"
        for p in parameters
    )
    given = count + len(keywords)
    unknown = [key for key in keywords if key not in {p.name for p in parameters}]
    near = nearest_name(unknown[0], [p.name for p in parameters]) if unknown else None
    return Refusal(
        f"wrong arguments for {name}",
        found=f"keyword {unknown[0]!r}" if unknown else f"{given} argument{'' if given == 1 else 's'}",
        expected=f"{name}({spelled})",
        do=f"did you mean {near!r}?" if near else "give the arguments that the name takes",
    )
