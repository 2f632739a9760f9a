# SPDX-License-Identifier: Apache-2.0
"""Live kernel -> record: its name, what its decorator wrote, and what a function made inside another captures.

Every kind of value that the fingerprint knows (``fingerprint/values.py``) has its spelling here, or a reason why it has
none. Names are tried: a value is called ``numpy:float32`` only if that is what the name leads to now.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

from cudabuild.definition import KernelDefinition, Options
from cudabuild.digest import digest
from cudabuild.errors import CudabuildError, SourceError
from cudabuild.fingerprint.canonical import canonical_form
from cudabuild.fingerprint.values import (
    MISSING,
    find_device_memory,
    find_function,
    find_member,
    is_partial,
    is_passage,
    module_name,
    resolve_name,
)
from cudabuild.lang.name import Dim3, KernelName, Namespace
from cudabuild.linking import linked_to
from cudabuild.recording.records import RecordedKernel
from cudabuild.source import get_source
from cudabuild.types import Array, Type
from cudabuild.types.signature import Signature, format_signature, parse_signature, parse_signatures
from cudabuild.types.type import FunctionSignature

__all__ = ["LARGEST_INLINE", "LINKED", "Describer", "code_digest", "find_object", "function_module"]

#: Among captured values: stands for foreign code, which no record can hold.
LINKED = "link="

#: Arrays of more bytes than this go to a file of their own.
LARGEST_INLINE = 4096

_INT64 = range(-(1 << 63), 1 << 63)


def function_module(function: FunctionType) -> str:
    """The module that a build knows a function's module by: that of a script is the file's name."""
    name = module_name(function)
    if name != "__main__":
        return name
    import os

    file = function.__globals__.get("__file__") or function.__code__.co_filename
    folder, base = os.path.split(os.path.abspath(file))
    parts = [os.path.splitext(base)[0]]
    while os.path.exists(os.path.join(folder, "__init__.py")):
        folder, base = os.path.split(folder)
        parts.append(base)
    return ".".join(reversed(parts))


def code_digest(function: FunctionType) -> str:
    """The beginning of the digest of a function's canonical source; "" where that cannot be had."""
    try:
        return canonical_form(get_source(function).tree).digest.hex()[:16]
    except SourceError:
        return ""


def find_object(module: str, path: Sequence[str]) -> Any:
    """What a name of an imported module leads to now, or MISSING."""
    value: Any = sys.modules.get(module, MISSING)
    for part in path:
        value = MISSING if value is MISSING else find_member(value, part)
    return value


class Describer:
    """Describes kernels and values.

    Args:
        keep_array: keeps an array that is too large for the text; answers the path of its file as the text names it.
    """

    def __init__(self, keep_array: Callable[[Any, str], str]) -> None:
        self._keep_array = keep_array
        self._inside: list[FunctionType] = []
        self._path: list[str] = []
        self._met: list[tuple[Any, str]] = []

    def kernel(self, definition: KernelDefinition, signature: Signature, dialect: str) -> RecordedKernel:
        """The record of one overload.

        Raises:
            CudabuildError: the signature has no text that stands for it alone.
        """
        function = definition.function
        text = format_signature(signature)
        if parse_signature(text) != tuple(signature):
            raise CudabuildError(f"the signature {text!r} cannot be written down")
        record = RecordedKernel(
            function_module(function),
            function.__qualname__,
            (text,),
            dialect,
            written_options(definition.options),
        )
        if not record.is_local:
            return record
        self._inside, self._path, self._met = [function], [], []
        captured, defaults = self._surroundings(function)
        return RecordedKernel(
            record.module,
            record.qualname,
            record.signatures,
            dialect,
            record.options,
            captured,
            defaults,
            function.__code__.co_firstlineno,
            code_digest(function),
        )

    def _surroundings(self, function: FunctionType) -> tuple[dict[str, Any], dict[str, Any]]:
        """What a function captures of what it uses, and its defaults."""
        return self._captured(function), self._defaults(function)

    def _captured(self, function: FunctionType) -> dict[str, Any]:
        free = function.__code__.co_freevars
        try:
            chains = canonical_form(get_source(function).tree).free_names
        except SourceError:
            chains = tuple((name,) for name in free)
        found: dict[str, Any] = {}
        for name in free:
            used = [chain for chain in chains if chain[0] == name]
            value = resolve_name(function, (name,))[0] if used else MISSING
            if value is not MISSING:
                with self._at(name):
                    found[name] = self._used(value, [chain[1:] for chain in used], function)
        if linked_to(function):
            found[LINKED] = _unknown("the foreign code that its decorator links to it")
        return found

    def _used(self, value: Any, rests: Sequence[tuple[str, ...]], function: FunctionType) -> Any:
        """The form of a value of which a function uses these attributes; all of it where one of them is empty."""
        if not is_passage(value) or not all(rests):
            return self.value(value, function)
        named = self._name_of(value, function)
        if named is not None:
            return named
        members: dict[str, list[tuple[str, ...]]] = {}
        for rest in rests:
            members.setdefault(rest[0], []).append(rest[1:])
        forms: dict[str, Any] = {}
        for name, inner in sorted(members.items()):
            member = find_member(value, name)
            if member is not MISSING:
                with self._at(name):
                    forms[name] = self._used(member, inner, function)
        return {"attributes": forms}

    def _defaults(self, function: FunctionType) -> dict[str, Any]:
        names = function.__code__.co_varnames[: function.__code__.co_argcount]
        values = function.__defaults__ or ()
        pairs = list(zip(names[len(names) - len(values) :], values, strict=True))
        pairs += list((function.__kwdefaults__ or {}).items())
        return self._named(dict(pairs), function)

    def _named(self, values: Mapping[str, Any], function: FunctionType) -> dict[str, Any]:
        found = {}
        for name, value in values.items():
            with self._at(name):
                found[name] = self.value(value, function)
        return found

    @contextmanager
    def _at(self, name: str) -> Iterator[None]:
        """Inside, the place is one step further."""
        self._path.append(name)
        yield
        self._path.pop()

    # values

    def value(self, value: Any, function: FunctionType) -> Any:
        """The form of a value that ``function`` uses."""
        simple = _simple_form(value)
        if simple is not None:
            return simple
        if find_device_memory(value) is not None:
            return _unknown("a device array, whose address means something in one process only: make it an argument")
        if isinstance(value, tuple | list | dict | set | frozenset):
            return self._collection(value, function)
        if is_partial(value):
            form = self._named({"partial": value.func}, function)
            form["args"] = list(self._named({str(n): item for n, item in enumerate(value.args)}, function).values())
            keywords = self._named(value.keywords, function)
            return {**form, "keywords": keywords} if keywords else form
        if isinstance(value, Type):
            return _type_form(value)
        numpy = sys.modules.get("numpy")
        if numpy is not None and isinstance(value, numpy.dtype | numpy.generic | numpy.ndarray):
            return self._numpy(numpy, value)
        named = self._name_of(value, function)
        if named is not None:
            return named
        found = find_function(value)
        if found is not None:
            return self._function(value, *found)
        kind = type(value)
        return _unknown(f"{kind.__module__}.{kind.__qualname__} has no name that leads to it")

    def _collection(self, value: Any, function: FunctionType) -> Any:
        def forms(items: Any) -> list[Any]:
            return list(self._named({str(number): item for number, item in enumerate(items)}, function).values())

        kind = type(value)
        if isinstance(value, FunctionSignature):
            return {"prototype": f"{value.return_type.name}({', '.join(one.name for one in value)})"}
        if kind is list:
            return forms(value)
        if kind is dict:
            return {"dict": [list(pair) for pair in zip(forms(value), forms(value.values()), strict=True)]}
        if kind in (set, frozenset):
            return {kind.__name__: sorted(forms(value), key=repr)}  # of plain values: functions have no order here
        if kind is tuple:
            return {"tuple": forms(value)}
        named = self._name_of(kind, function) if isinstance(value, tuple) and hasattr(kind, "_fields") else None
        if named is not None and "object" in named:
            return {"named_tuple": named["object"], "values": forms(value)}
        return _unknown(f"an instance of {kind.__module__}.{kind.__qualname__}")

    def _name_of(self, value: Any, function: FunctionType) -> dict[str, Any] | None:
        """A name that leads to ``value``, or None."""
        if isinstance(value, ModuleType):
            stand_in = type(value).__module__ == "cudabuild.numba.tree"  # numba's, as adopted packages see them
            known = stand_in or sys.modules.get(value.__name__) is value
            return {"module": value.__name__} if known else _unknown(f"the module {value.__name__}, which is replaced")
        for module, path in _likely_names(value, function):
            if "<" not in path and find_object(module, path.split(".")) is value:
                return {"object": f"{module}:{path}"}
        return None

    def _function(self, value: Any, function: FunctionType, definition: KernelDefinition | None) -> dict[str, Any]:
        if any(function is outer for outer in self._inside):
            return _unknown(f"{function.__qualname__}, which refers to itself")
        place = next((place for known, place in self._met if known is value), None)
        if place is not None:
            return {"same": place}
        self._met.append((value, ".".join(self._path)))
        self._inside.append(function)
        captured, defaults = self._surroundings(function)
        self._inside.pop()
        form: dict[str, Any] = {"function": f"{function_module(function)}:{function.__qualname__}"}
        form |= {"line": function.__code__.co_firstlineno, "code": code_digest(function)}
        form |= {key: part for key, part in (("captured", captured), ("defaults", defaults)) if part}
        if definition is not None:
            form["decorator"] = _decorator(value)
            options = written_options(definition.options)
            if options:
                form["options"] = options_form(options)
            if definition.spec is not None:
                form["spec"] = self.value(definition.spec, function)
            if definition.variables:
                form["variables"] = self.value({n: tuple(t) for n, t in definition.variables.items()}, function)
        return form

    # NumPy

    def _numpy(self, numpy: Any, value: Any) -> Any:
        if isinstance(value, numpy.dtype):
            return {"dtype": dtype_form(numpy, value)}
        dtype = value.dtype
        if dtype.hasobject:
            return _unknown(f"an array of {dtype}")
        if isinstance(value, numpy.generic):
            form: dict[str, Any] = {"scalar": dtype_form(numpy, dtype)}
            exact = _exact_values(numpy, numpy.asarray(value).reshape(1))
            return {**form, "value": exact[0]} if exact is not None else {**form, "bytes": value.tobytes().hex()}
        array = numpy.asarray(value)
        form = {"array": dtype_form(numpy, dtype), "shape": list(map(int, array.shape))}
        if array.flags.f_contiguous and not array.flags.c_contiguous:
            form["order"] = "F"
        if array.nbytes > LARGEST_INLINE:
            name = digest(array.tobytes()).hex()
            return {**form, "file": self._keep_array(array, name), "digest": name}
        exact = _exact_values(numpy, array)
        return {**form, "values": exact} if exact is not None else {**form, "bytes": array.tobytes().hex()}


def _decorator(value: Any) -> str:
    """What made a decorated function, as ``cudabuild`` calls it."""
    if getattr(value, "dialect", "") == "numba":
        return "cuda.jit(device=True)" if value.definition.is_device else "cuda.jit"
    return "device_function" if value.definition.is_device else "kernel"


def _simple_form(value: Any) -> Any:
    """The form of the plainest values; None for others."""
    kind = type(value)
    if kind is str:
        right = all(not 0xD800 <= ord(char) < 0xE000 for char in value)
        return value if right else _unknown("a text with half of a character")
    if kind in (bool, float):
        return value
    if kind is int:
        return value if value in _INT64 else {"integer": hex(value)}
    if value is None or value is Ellipsis:
        return {"none": True} if value is None else {"ellipsis": True}
    if kind is complex:
        return {"complex": [value.real, value.imag]}
    return {"bytes": value.hex()} if kind is bytes else None


def _unknown(why: str) -> dict[str, Any]:
    return {"unknown": why}


def _type_form(value: Type) -> dict[str, Any]:
    try:
        (read,) = parse_signatures(f"({value.name})")[0]
    except CudabuildError:
        return _unknown(f"the type {value.name}")
    if read == value or (isinstance(read, Array) and read.ndim == 0 and read.dtype == value):
        return {"type": value.name}
    return _unknown(f"the type {value.name}")


def _likely_names(value: Any, function: FunctionType) -> list[tuple[str, str]]:
    """Names that may lead to a value."""
    found: list[tuple[str, str]] = []
    enum = sys.modules.get("enum")
    if enum is not None and isinstance(value, enum.Enum):
        return [(type(value).__module__, f"{type(value).__qualname__}.{value.name}")]
    if isinstance(value, KernelName | Dim3 | Namespace):
        return [("cudabuild.cuda", value.name), ("cudabuild", value.name)]
    inner = find_function(value)
    if inner is not None:
        found.append((function_module(inner[0]), inner[0].__qualname__))
    named = isinstance(value, FunctionType | BuiltinFunctionType | type) or inner is not None
    module, qualname = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if named and isinstance(module, str) and isinstance(qualname, str):
        found.append((module, qualname))
    name = getattr(value, "__name__", None)
    if type(value).__module__.partition(".")[0] == "numpy" and isinstance(name, str):  # a ufunc
        found.append(("numpy", name))
    owner = function.__globals__
    found += [(function_module(function), name) for name, other in list(owner.items()) if other is value]
    return found


def written_options(options: Options) -> dict[str, Any]:
    """What a decorator wrote, in the order of the options' declaration."""
    return {name: value for name, value in options.values.items() if name in options.written}


def options_form(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options as TOML holds them."""
    return {
        name: "none" if value is None else list(value) if isinstance(value, tuple) else value
        for name, value in options.items()
    }


def dtype_form(numpy: Any, dtype: Any) -> Any:
    """NumPy's code of a dtype; of a record its members; of a dtype of another package its class."""
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return {"base": dtype_form(numpy, base), "shape": list(map(int, shape))}
    if dtype.names is not None:
        fields = [dtype.fields[name] for name in dtype.names]
        return {
            "names": list(dtype.names),
            "formats": [dtype_form(numpy, field[0]) for field in fields],
            "offsets": [int(field[1]) for field in fields],
            "itemsize": int(dtype.itemsize),
            "aligned": bool(dtype.isalignedstruct),
        }
    if numpy.dtype(dtype.str) == dtype:
        return str(dtype.str)
    return {"object": f"{dtype.type.__module__}:{dtype.type.__qualname__}"}


def _exact_values(numpy: Any, array: Any) -> list[Any] | None:
    """The elements in C order as TOML's own values, if reading them back gives the same bits."""
    if array.dtype.kind not in "biuf" or array.dtype.names is not None or array.dtype.itemsize > 8:
        return None
    values: list[Any] = array.ravel().tolist()
    if not all(isinstance(value, bool | float) or (isinstance(value, int) and value in _INT64) for value in values):
        return None
    return values if numpy.array(values, array.dtype).tobytes() == array.tobytes() else None
