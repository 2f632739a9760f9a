# SPDX-License-Identifier: Apache-2.0
"""How kernels and device functions travel to other processes: by name, or by source text, free values and options.

What a module has under its own name goes by that name, as functions do. A closure, a kernel that ``exec`` made or a
notebook's cell goes as the text of its ``def`` and the values of its free names; so do the functions that it calls
and that have no name either. Code objects never travel: they belong to one version of Python.

    def make(n):
        @kernel                 ->  "def k(x):\\n    x[0] = n",  {"n": 3},  options
        def k(x): x[0] = n
        return k
"""

from __future__ import annotations

import ast
import builtins
import importlib
import linecache
import sys
from types import CodeType, FunctionType, ModuleType
from typing import Any

from cudabuild.definition import KernelDefinition
from cudabuild.digest import digest
from cudabuild.errors import SourceError
from cudabuild.fingerprint.canonical import canonical_form
from cudabuild.fingerprint.values import MISSING, resolve_name
from cudabuild.linking import link_to, linked_to
from cudabuild.runtime.dispatcher import has_name
from cudabuild.source import get_source

__all__ = ["fill", "reduce_object"]

#: What a function is made of: text, name, qualified name, module, documentation.
_Text = tuple[str, str, str, str, str]


def reduce_object(thing: Any, kind: str, settings: dict[str, Any]) -> tuple[Any, ...]:
    """What ``__reduce__`` of a kernel or device function answers.

    Args:
        thing: it, with its ``definition``.
        kind: ``kernel``, ``jit`` or ``device``.
        settings: what its class takes beside the definition.

    Raises:
        TypeError: its text cannot be had or a value that it captured cannot travel.
    """
    definition: KernelDefinition = thing.definition
    function = definition.function
    packing = _Packing(thing)
    packing.add(function)
    fields = {
        "spec": definition.spec if definition.is_device else [tuple(one) for one in definition.signatures] or None,
        "variables": definition.variables if definition.is_device else None,
        "options": definition.options,
        "is_device": definition.is_device,
        "may_be_called": definition.may_be_called,
        "carveout": definition.carveout,
    }
    # The values come after the thing itself is known: it may be one of them.
    return _make, (kind, fields, settings, tuple(packing.texts)), tuple(packing.values)


class _Reference:
    """Stands for a value that pickles not at all, or only by a name that it does not have."""

    __slots__ = ("kind", "value")

    def __init__(self, kind: str, value: Any) -> None:
        self.kind = kind
        self.value = value

    def __reduce__(self) -> tuple[Any, ...]:
        return _Reference, (self.kind, self.value)


class _Packing:
    """The functions that travel as text, and the values of their free names.

    Attributes:
        texts: of each function.
        values: of each function: its free names' values, defaults and linked code.
    """

    def __init__(self, thing: Any) -> None:
        self.texts: list[_Text] = []
        self.values: list[dict[str, Any]] = []
        self._thing = thing
        self._functions: list[FunctionType] = []

    def add(self, function: FunctionType) -> int:
        """The number of a function, which is packed if it was not."""
        for place, known in enumerate(self._functions):
            if known is function:
                return place
        try:
            tree = get_source(function).tree
        except SourceError as error:
            raise TypeError(
                f"cannot pickle {self._thing!r}\n  found:    {function.__module__}.{function.__qualname__}, which its "
                f"module does not have under that name, and no source: {error}\n"
                "  expected: a name, or source text to send\n  do:       define it at the top of a module"
            ) from None
        name = tree.name if tree.name.isidentifier() else "function"  # a lambda has none
        plain = ast.FunctionDef(name, tree.args, tree.body, [], tree.returns)
        if sys.version_info >= (3, 12):
            plain.type_params = []
        text = ast.unparse(ast.fix_missing_locations(plain)) + "\n"
        number = len(self._functions)
        self._functions.append(function)
        self.texts.append((text, function.__name__, function.__qualname__, function.__module__, function.__doc__ or ""))
        values: dict[str, Any] = {}
        self.values.append(values)
        for root in sorted({chain[0] for chain in canonical_form(tree).free_names}):
            value, _ = resolve_name(function, [root])
            if value is not MISSING and getattr(builtins, root, MISSING) is not value:
                values[root] = self._pack(value, root)
        values["(defaults)"] = self._pack(function.__defaults__, "a default")
        values["(kwdefaults)"] = function.__kwdefaults__
        values["(links)"] = linked_to(function)
        return number

    def _pack(self, value: Any, name: str) -> Any:
        if isinstance(value, ModuleType):
            return _Reference("module", value.__name__)
        if isinstance(value, FunctionType) and not has_name(value, value.__module__, value.__qualname__):
            return _Reference("function", self.add(value))
        if type(value) is tuple:
            packed = tuple(self._pack(one, name) for one in value)
            return _Reference("tuple", packed) if any(map(_is_reference, packed)) else value
        if getattr(value, "__cuda_array_interface__", None) is not None:
            raise TypeError(
                f"cannot pickle {self._thing!r}\n  found:    {name}, an array in device memory\n"
                "  expected: values that another process can have\n  do:       pass it to the kernel as an argument"
            )
        return value


def _is_reference(value: Any) -> bool:
    return isinstance(value, _Reference)


def _make(kind: str, fields: dict[str, Any], settings: dict[str, Any], texts: tuple[_Text, ...]) -> Any:
    """The other end: a kernel or device function whose functions have no values yet; ``fill`` brings them."""
    from cudabuild import decorators
    from cudabuild.runtime.dispatcher import Dispatcher
    from cudabuild.runtime.jit_dispatcher import JitDispatcher

    functions = list(map(_make_function, texts))
    definition = KernelDefinition(functions[0], **fields)
    made: Any
    if kind == "device":
        made = decorators.DeviceFunction(definition)
    elif kind == "jit":
        made = JitDispatcher(definition, decorators.SERVICES, **settings)
    else:
        made = Dispatcher(definition, decorators.SERVICES)
    made._travelled = functions
    return made


def _make_function(packed: _Text) -> FunctionType:
    text, name, qualname, module, doc = packed
    # The same text is the same file: linecache holds it for tracebacks and for the compiler.
    file = f"<cudabuild {digest(text.encode()).hex()[:24]}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    whole = compile(text, file, "exec", dont_inherit=True)
    code = next(constant for constant in whole.co_consts if isinstance(constant, CodeType))
    function = FunctionType(code, {"__name__": module, "__builtins__": builtins}, name)
    function.__qualname__, function.__module__, function.__doc__ = qualname, module, doc or None
    return function


def fill(made: Any, values: tuple[dict[str, Any], ...]) -> None:
    """Gives the functions of a thing that travelled their values: what ``__setstate__`` does."""
    functions: list[FunctionType] = made.__dict__.pop("_travelled")
    for function, own in zip(functions, values, strict=True):
        found = {name: _unpack(value, functions) for name, value in own.items()}
        function.__defaults__ = found.pop("(defaults)")
        function.__kwdefaults__ = found.pop("(kwdefaults)")
        link_to(function, found.pop("(links)"))
        function.__globals__.update(found)


def _unpack(value: Any, functions: list[FunctionType]) -> Any:
    if not isinstance(value, _Reference):
        return value
    if value.kind == "module":
        return importlib.import_module(value.value)
    if value.kind == "function":
        return functions[value.value]
    return tuple(_unpack(one, functions) for one in value.value)
