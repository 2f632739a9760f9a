# SPDX-License-Identifier: Apache-2.0
"""Free names and what they stand for, as text that is equal in every process, on every machine, under every Python.

``N`` -> ``"4"``, ``config.SCALE`` -> ``"0.5"``, ``TABLE`` -> ``"array <f4 (3,) 5d41…"``, ``cuda.grid`` ->
``"cuda.grid"``. Never an object's identity, address, path or order of insertion. The launch path imports this module to
compare the values that an image was built with to the live ones; NumPy objects are recognised without importing NumPy.
"""

from __future__ import annotations

import sys
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType

from cudabuild.definition import OPTIONS, KernelDefinition
from cudabuild.digest import digest
from cudabuild.lang.name import Dim3, KernelName, Namespace
from cudabuild.lang.pointer import from_buffer
from cudabuild.types.type import FunctionSignature, Type

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    #: Called for every function that a value holds; answers the text that stands for it.
    FunctionText = Callable[[FunctionType, "KernelDefinition | None"], str]

__all__ = [
    "MISSING",
    "DeviceMemory",
    "describe_value",
    "find_device_memory",
    "find_function",
    "find_member",
    "function_identity",
    "is_in_process",
    "is_partial",
    "is_passage",
    "is_unresolved",
    "module_name",
    "options_text",
    "place_of",
    "resolve_name",
]

#: What a name stands for that cannot be found.
MISSING: Any = type("Missing", (), {"__repr__": lambda self: "MISSING"})()

#: Longer texts are kept as their digest.
_LONGEST_TEXT = 96
_DEEPEST = 32

#: Functions of these packages are known by name, not by their source: they stand for rules of the compiler.
_KNOWN_BY_NAME = frozenset({"numpy", "cudabuild", "numba"})


def module_name(function: FunctionType) -> str:
    """The module that a function belongs to; for ``python -m package.module`` that name, not ``__main__``."""
    name = function.__module__ or ""
    if name == "__main__":
        spec = function.__globals__.get("__spec__")
        name = getattr(spec, "name", None) or name
    return name


def resolve_name(function: FunctionType, chain: Sequence[str]) -> tuple[Any, int]:
    """What a dotted name in a function's body stands for.

    The chain is followed through modules, classes, kernel-side namespaces and plain objects' attributes, and stops at
    the first value: in ``config.TABLE.size``, the array. No property is run.

    Returns:
        The value, or ``MISSING``; and how many names of the chain lead to it.
    """
    value = _find_root(function, chain[0])
    used = 1
    while used < len(chain) and value is not MISSING and is_passage(value):
        value = find_member(value, chain[used])
        used += 1
    return value, used


def _find_root(function: FunctionType, name: str) -> Any:
    cells = function.__closure__
    if cells:
        names = function.__code__.co_freevars
        if name in names:
            try:
                return cells[names.index(name)].cell_contents
            except ValueError:  # not assigned yet
                return function if name == function.__name__ else MISSING
    namespace = function.__globals__
    if name in namespace:
        return namespace[name]
    builtins = namespace.get("__builtins__", MISSING)
    own = function if name == function.__name__ else MISSING  # its decorator compiles it before the name is bound
    if isinstance(builtins, dict):
        return builtins.get(name, own)
    return getattr(builtins, name, own)


#: An attribute of these is an operation of the kernel language.
_STOPS = (FunctionType, BuiltinFunctionType, Type, KernelName, Dim3, tuple, list, dict)


def is_passage(value: Any) -> bool:
    """Whether an attribute of ``value`` is a name to follow, rather than an operation on a value."""
    kind = type(value)
    if kind in _SIMPLE or isinstance(value, _STOPS) or is_partial(value) or kind.__module__ == "cudabuild.linking":
        return False
    if isinstance(value, (ModuleType, type, Namespace)):
        return True
    if _is_numpy(kind) or _is_enum_member(value) or find_device_memory(value) is not None:
        return False
    return find_function(value) is None


def is_partial(value: Any) -> bool:
    """Whether a value is a ``functools.partial``, of a class that adds nothing."""
    kind = type(value)
    return kind.__module__ == "functools" and kind.__name__ == "partial"


def find_member(value: Any, name: str) -> Any:
    """What ``value.name`` holds, or ``MISSING``; no property of a plain object is run."""
    if name == "from_buffer" and _root_package(type(value).__module__) == "cffi":
        return from_buffer
    if isinstance(value, (ModuleType, type)):
        try:
            return getattr(value, name)
        except Exception:  # a module's own __getattr__ may raise anything; compilation reports the name as missing
            return MISSING
    try:
        members = object.__getattribute__(value, "__dict__")
    except AttributeError:
        members = {}
    if isinstance(members, dict) and name in members:
        return members[name]
    for base in type(value).__mro__:
        found = base.__dict__.get(name, MISSING)
        if found is not MISSING:
            if type(found).__name__ == "member_descriptor":  # __slots__: reading it runs none of the user's code
                return getattr(value, name, MISSING)
            if isinstance(found, staticmethod):
                return found.__func__
            return MISSING if hasattr(type(found), "__get__") else found
    return MISSING


_INTERFACES = (("gpu", "__cuda_array_interface__"), ("host", "__array_interface__"))


class DeviceMemory:
    """Where a device array lies.

    Attributes:
        home: ``gpu``, or ``host`` for an array of the CPU device.
        dtype: as the array interfaces spell it: ``<f4``, or a record's ``descr``.
        pointer, shape, strides, readonly: as in the array interfaces; strides in bytes or None.
    """

    __slots__ = ("dtype", "home", "pointer", "readonly", "shape", "strides")

    def __init__(self, home: str, interface: Mapping[str, Any]) -> None:
        self.home = home
        typestr = interface["typestr"]
        self.dtype: Any = interface["descr"] if typestr[1] == "V" and "descr" in interface else typestr
        pointer, readonly = interface.get("data") or (0, False)
        self.pointer, self.readonly = int(pointer), bool(readonly)
        self.shape = tuple(map(int, interface["shape"]))
        strides = interface.get("strides")
        self.strides = None if strides is None else tuple(map(int, strides))

    def __repr__(self) -> str:
        readonly = " readonly" if self.readonly else ""
        return f"device array {self.dtype} {self.shape} {self.strides}{readonly} at {self.home} {self.pointer:#x}"


def find_device_memory(value: Any) -> DeviceMemory | None:
    """Where the elements of a device array, or of an object that shows one, lie; None for anything else."""
    kind = type(value)
    if kind in _SIMPLE or isinstance(value, (type, ModuleType, FunctionType)) or _is_numpy(kind):
        return None
    for home, name in _INTERFACES:
        if hasattr(kind, name) or name in getattr(value, "__dict__", ()):
            try:
                return DeviceMemory(home, getattr(value, name))
            except (AttributeError, KeyError, RuntimeError, TypeError):  # a tensor in host memory has none, for one
                continue
    return None


def find_function(value: Any) -> tuple[FunctionType, KernelDefinition | None] | None:
    """The Python function that ``value`` is or wraps, with its definition if it was decorated; None for others."""
    if type(value) is FunctionType:
        return None if _root_package(value.__module__) in _KNOWN_BY_NAME else (value, None)
    if isinstance(value, KernelDefinition):
        definition: Any = value
    elif isinstance(value, staticmethod):
        return find_function(value.__func__)
    else:
        if isinstance(value, (type, ModuleType)) or type(value) in _SIMPLE or _is_numpy(type(value)):
            return None
        definition = find_member(value, "definition")
    if isinstance(definition, KernelDefinition):
        function = definition.function
        return (function, definition) if isinstance(function, FunctionType) else None
    function = find_member(value, "py_func")
    return (function, None) if isinstance(function, FunctionType) else None


def function_identity(function: FunctionType, definition: KernelDefinition | None) -> str:
    """Which function it is, as far as that can be told without its source.

    For comparing with what an image was built from, where the source file is known to be the same: the place tells
    apart two functions of one name. Never part of a fingerprint.
    """
    return f"function {module_name(function)}:{function.__qualname__}:{place_of(function)}{options_text(definition)}"


def place_of(function: FunctionType) -> str:
    """Where in its file a function is: its first line; for a lambda, which may share that, also where its body ends.

    Where Python keeps no columns (before 3.11, and under ``-X no_debug_ranges``), a lambda's bytecode stands for them:
    another Python then gives another text, never two lambdas the same one unless they do the same.
    """
    code = function.__code__
    line = str(code.co_firstlineno)
    if code.co_name != "<lambda>":
        return line
    positions = getattr(code, "co_positions", None)
    ends = [(place[1], place[3]) for place in positions() if place[3] is not None] if positions is not None else []
    if ends:
        last, column = max(ends)
        return f"{line} to {last}.{column}"
    return f"{line} {digest(_code_text(code).encode()).hex()}"


def _code_text(code: CodeType) -> str:
    constants = [_code_text(part) if isinstance(part, CodeType) else ascii(part) for part in code.co_consts]
    return f"{code.co_code!r} {code.co_names} {code.co_varnames} {code.co_freevars} {constants}"


def options_text(definition: KernelDefinition | None) -> str:
    """What a device function's decorator says that changes results; "" where it says nothing."""
    if definition is None:
        return ""
    options = definition.options
    texts = [
        f" {spec.name}={options[spec.name]!r}"
        for spec in OPTIONS
        if spec.changes_results and (options[spec.name] != spec.default or spec.name in options.written)
    ]
    if definition.may_be_called and definition.spec is not None:
        texts.append(" " + describe_value(definition.spec))
        if definition.variables:
            texts.append(" " + describe_value({name: tuple(types) for name, types in definition.variables.items()}))
    return "".join(texts)


def is_unresolved(text: str) -> bool:
    """Whether a text of :func:`describe_value` stands for something that a kernel cannot use."""
    return text.startswith(("missing", "unsupported "))


def describe_value(value: Any, function_text: FunctionText = function_identity) -> str:
    """The text that a free value is known by.

    Args:
        value: any object.
        function_text: what to write for the functions that it is or holds, called in a fixed order.
    """
    text = _describe(value, function_text, 0)
    if len(text) <= _LONGEST_TEXT or text.startswith("linked "):
        return text
    kind = "device array" if _IN_PROCESS in text else type(value).__name__
    return f"{kind} {digest(text.encode()).hex()}"


#: What stands in the text of a device array, and of whatever holds one.
_IN_PROCESS = "device array "


def is_in_process(text: str) -> bool:
    """Whether a text of :func:`describe_value` holds an address, which means something in one process only."""
    return _IN_PROCESS in text


def _describe(value: Any, function_text: FunctionText, depth: int) -> str:
    write = _SIMPLE.get(type(value))
    if write is not None:
        return write(value)
    if depth > _DEEPEST:
        return "unsupported nesting"
    if value is MISSING:
        return "missing"
    memory = find_device_memory(value)
    if memory is not None:
        return repr(memory)
    declared = sys.modules.get("cudabuild.linking")
    if declared is not None and isinstance(value, declared.DeclaredFunction):
        return declared.describe_declared(value)  # type: ignore[no-any-return]
    found = find_function(value)
    if found is not None:
        return function_text(*found)
    if isinstance(value, (tuple, list, dict, set, frozenset)):
        return _describe_collection(value, function_text, depth + 1)
    if is_partial(value):
        parts = (value.func, value.args, value.keywords)
        return f"partial{_describe_collection(parts, function_text, depth + 1)}"
    if isinstance(value, (KernelName, Dim3, Namespace)):
        return f"cuda.{value.name}"
    if isinstance(value, Type):
        return f"type {value.name}"
    if isinstance(value, ModuleType):
        return f"module {value.__name__}"
    if isinstance(value, type):
        return _describe_class(value, function_text, depth + 1)
    if _is_enum_member(value):
        return _describe_member(value, function_text, depth + 1)
    if isinstance(value, (BuiltinFunctionType, FunctionType)):
        return f"builtin {value.__module__}.{value.__qualname__}"
    if _is_numpy(type(value)):
        return _describe_numpy(value)
    if isinstance(value, int):  # of a class derived from int, which a kernel takes for its number
        return f"int {int.__repr__(value)}"
    if isinstance(value, float):
        return f"float {float.__repr__(value)}"
    return _unsupported(value)


def _describe_collection(value: Any, function_text: FunctionText, depth: int) -> str:
    kind = type(value)
    if isinstance(value, dict):
        keys = {_describe(key, function_text, depth): item for key, item in value.items()}
        return "{" + ", ".join(f"{key}: {_describe(keys[key], function_text, depth)}" for key in sorted(keys)) + "}"
    texts = [_describe(item, function_text, depth) for item in value]
    if isinstance(value, tuple):
        fields = getattr(kind, "_fields", None)
        if kind is not tuple and isinstance(fields, tuple):
            pairs = zip(fields, texts, strict=False)
            return f"{kind.__qualname__}({', '.join(f'{name}={text}' for name, text in pairs)})"
        result = f" -> {value.return_type}" if isinstance(value, FunctionSignature) else ""
        return "(" + "".join(f"{text}, " for text in texts) + ")" + result
    if isinstance(value, list):
        return "[" + ", ".join(texts) + "]"
    return "set(" + ", ".join(sorted(texts)) + ")"


def _describe_class(value: type, function_text: FunctionText, depth: int) -> str:
    if _is_numpy(value):
        dtype = _numpy_dtype(value)
        return f"numpy type {dtype}" if dtype else f"numpy {value.__name__}"
    if value.__module__ == "builtins":
        return f"builtin builtins.{value.__qualname__}"
    name = f"class {value.__qualname__}"
    enum = sys.modules.get("enum")
    if enum is not None and isinstance(value, enum.EnumMeta):
        members: Any = value.__members__
        texts = [f"{key}={_describe(member.value, function_text, depth)}" for key, member in members.items()]
        return f"{name}({', '.join(texts)})"
    fields = getattr(value, "_fields", None)
    if issubclass(value, tuple) and isinstance(fields, tuple):
        defaults = getattr(value, "_field_defaults", None) or {}
        texts = [
            f"={_describe(defaults[field], function_text, depth)}" if field in defaults else "" for field in fields
        ]
        return f"{name}({', '.join(map(str.__add__, fields, texts))})"
    return f"{name} of {value.__module__}"


def _is_enum_member(value: Any) -> bool:
    enum = sys.modules.get("enum")
    return enum is not None and isinstance(value, enum.Enum)


def _describe_member(value: Any, function_text: FunctionText, depth: int) -> str:
    kind = "int enum" if isinstance(value, int) else "enum"
    return f"{kind} {type(value).__qualname__}.{_member_name(value)}={_describe(value.value, function_text, depth)}"


def _member_name(value: Any) -> str | None:
    """What an enum's member is called; several flags together, which Python names from 3.11 on, by their own names."""
    members = type(value).__members__
    name: str | None = value.name
    if name in members or not isinstance(value.value, int):
        return name
    rest, names = value.value, []
    for flag, member in members.items():
        bit = member.value
        if flag == member.name and isinstance(bit, int) and bit > 0 and not bit & (bit - 1) and rest & bit:
            rest &= ~bit
            names.append(flag)
    return "|".join([*names, *([str(rest)] if rest else [])]) or None


def _is_numpy(kind: type) -> bool:
    return _root_package(kind.__module__) == "numpy" or any(base.__module__ == "numpy" for base in kind.__mro__[1:-1])


def _root_package(module: str | None) -> str:
    return (module or "").partition(".")[0]


#: NumPy's scalar classes that stand for several types.
_ABSTRACT = frozenset({
    "generic", "number", "integer", "signedinteger", "unsignedinteger",
    "inexact", "floating", "complexfloating", "flexible", "character",
})  # fmt: skip


def _numpy_dtype(kind: type) -> str:
    """``"<f4"`` for ``numpy.float32`` or ``numpy.dtype("float32")``'s class; "" where it names no single type."""
    numpy: Any = sys.modules.get("numpy")
    if numpy is None or not issubclass(kind, numpy.generic) or kind.__name__ in _ABSTRACT:
        return ""
    return describe_dtype(numpy.dtype(kind))


def describe_dtype(dtype: Any) -> str:
    """A NumPy dtype as text: ``<f4``; a record with the offset of every field; sub-arrays with their shape."""
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return f"{describe_dtype(base)}{tuple(map(int, shape))}"
    if dtype.names is None:
        return str(dtype.str)
    fields = [f"{name!a}: {describe_dtype(dtype.fields[name][0])}@{dtype.fields[name][1]}" for name in dtype.names]
    return f"{{{', '.join(fields)}}}{'aligned ' if dtype.isalignedstruct else ''}{dtype.itemsize}"


def _describe_numpy(value: Any) -> str:
    numpy: Any = sys.modules["numpy"]
    if isinstance(value, numpy.dtype):
        return f"dtype {describe_dtype(value)}"
    if isinstance(value, (numpy.generic, numpy.ndarray)):
        dtype = value.dtype
        if dtype.hasobject:
            return _unsupported(value)
        written = describe_dtype(dtype)
        if isinstance(value, numpy.ndarray):
            shape = tuple(map(int, value.shape))
            return f"array {written} {shape} {digest(value.tobytes()).hex()}"
        if dtype.kind in "iufb" and dtype.itemsize <= 8:
            return f"{written} {value.item()!r}"
        return f"{written} {value.tobytes().hex()}"
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    return f"numpy {name}" if isinstance(name, str) else _unsupported(value)


def _unsupported(value: Any) -> str:
    return f"unsupported {type(value).__module__}.{type(value).__qualname__}"


def _integer_text(value: int) -> str:
    # Decimal conversion of long integers is limited by the interpreter, hexadecimal is not.
    return str(value) if -(1 << 64) < value < (1 << 64) else hex(value)


#: How the plainest values are written; ``ascii`` and not ``repr``, which changes with the Unicode tables.
_SIMPLE: dict[type, Callable[[Any], str]] = {
    int: _integer_text,
    float: repr,
    bool: repr,
    complex: repr,
    str: ascii,
    bytes: repr,
    type(None): repr,
    type(Ellipsis): repr,
}
