# SPDX-License-Identifier: Apache-2.0
"""The front of a configuration: the plain function that ``kernel[grid, block]`` gives."""

from __future__ import annotations

from types import FunctionType

from cudabuild.definition import parameter_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from cudabuild.runtime.configuration import Configuration
    from cudabuild.runtime.dispatcher import Dispatcher

__all__ = ["MISSING", "hold", "make_front"]


class _Missing:
    """Stands for an argument that was not given."""

    def __repr__(self) -> str:
        return "<missing>"


MISSING = _Missing()


#: Source of a front function's factory -> the factory.
_fronts: dict[str, Callable[..., tuple[Callable[..., None], Callable[..., None]]]] = {}


def hold(launch: Callable[..., None], stream: Any) -> Callable[..., None]:
    """The same front, and with it the stream: whoever keeps the configuration of a stream object keeps the stream."""
    front: Any = launch
    held = FunctionType(front.__code__, front.__globals__, front.__name__, front.__defaults__, front.__closure__)
    held.__qualname__ = front.__qualname__
    held.stream = stream  # type: ignore[attr-defined]
    return held


def _make_open_front(function: FunctionType, configuration: Configuration) -> Callable[..., None]:
    """The front of a kernel that takes ``*args``."""
    launchers: Any = configuration.launchers

    def launch(*values: Any) -> None:
        launchers[tuple(map(type, values))](*values)

    launch.__name__ = function.__name__
    launch.__qualname__ = f"{function.__qualname__}{configuration!r}"
    return launch


def make_front(dispatcher: Dispatcher, configuration: Configuration) -> Callable[..., None]:
    """The function that ``kernel[…]`` gives: the kernel's parameters, and a look at their types.

    Its parameters have the kernel's names and defaults, so arguments may be given by name. The types of the first
    launch are compared one by one, which is cheaper than a look-up of all of them; they are set once, in an order in
    which no thread can see the launcher without its types.
    """

    def careful(*values: Any) -> None:
        dispatcher._launch(configuration, values)

    configuration.launchers.careful = careful
    function = dispatcher.py_func
    names = dispatcher._parameters
    if parameter_names(function, len(names) + 1) != names:  # ``*args``: any number, by position
        return _make_open_front(function, configuration)
    own = "cudabuild_"  # what the front calls its own things: like no parameter
    while any(name.startswith(own) for name in names):
        own += "_"
    given = "".join(f"{name}, " for name in names)
    kinds = "".join(f"{own}type({name}), " for name in names) or "()"
    last = f"{names[-1]} is {own}missing or " if names else ""
    parameters = "".join(f"{name}={own}missing, " for name in names)
    first = [f"{own}kind{number}" for number in range(len(names))]
    same = " and ".join(f"{own}type({name}) is {kind}" for name, kind in zip(names, first, strict=True))
    settled = "".join(f"        {kind} = kinds[{number}]\n" for number, kind in reversed([*enumerate(first)]))
    text = (
        f"def make({own}launchers, {own}careful, {own}missing, {own}type):\n"
        f"    {''.join(f'{name} = ' for name in (*first, own + 'first'))}None\n"
        f"    def launch({parameters}*{own}rest):\n"
        f"        if {same or own + 'first is not None'} and not {own}rest:\n"
        f"            return {own}first({given})\n"
        f"        if {last}{own}rest:\n"
        f"            return {own}careful({given}*{own}rest)\n"
        f"        return {own}launchers[{kinds}]({given})\n"
        "    def settle(kinds, launcher):\n"
        f"        nonlocal {', '.join((own + 'first', *first))}\n"
        f"        {own}first = launcher\n"
        f"{settled}"
        "    return launch, settle\n"
    )
    factory = _fronts.get(text)
    if factory is None:
        namespace: dict[str, Any] = {}
        exec(compile(text, "<cudabuild launch>", "exec"), namespace)
        factory = _fronts[text] = namespace["make"]
    launch, configuration.settle = factory(configuration.launchers, careful, MISSING, type)
    defaults = function.__defaults__ or ()
    if defaults:
        launch.__defaults__ = (MISSING,) * (len(names) - len(defaults)) + defaults
    launch.__name__ = function.__name__
    launch.__qualname__ = f"{function.__qualname__}{configuration!r}"
    return launch
