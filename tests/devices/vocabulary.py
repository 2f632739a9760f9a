# SPDX-License-Identifier: Apache-2.0
"""The kernel language as a list: its types, statements, names, attributes and methods; and which of them a kernel uses.

What has a registry is taken from it. The rest is written out here: types and statements, and the names that programs
for numba-cuda expect, so that one which is lost from a registry is missed.
"""

from __future__ import annotations

import ast
import builtins
import cmath
import enum
import inspect
import math
import operator
from collections.abc import Callable, Iterator
from types import FunctionType, ModuleType
from typing import Any

import numpy
from corpus import kernel_names

from cudabuild import cuda
from cudabuild.cuda import bf16
from cudabuild.errors import SourceError
from cudabuild.frontend.impl import arrays, registry
from cudabuild.lang.name import Dim3, KernelName, Namespace
from cudabuild.lang.vector import VECTORS
from cudabuild.source import get_source
from cudabuild.types import parse_signature
from cudabuild.types.named import EnumMember, NamedTuple
from cudabuild.types.pointer import Pointer
from cudabuild.types.record import CharSeq, DateTime, Record, TimeDelta
from cudabuild.types.type import Array, Scalar, Tuple, Type, WeakComplex, WeakFloat, WeakInteger

__all__ = ["EXPECTED", "names_of", "vocabulary"]

#: Kernel-side names that programs written for numba-cuda use; those of ``random`` are functions of ours.
EXPECTED = (
    "grid", "gridsize", "threadIdx", "blockIdx", "blockDim", "gridDim", "laneid", "warpsize", "syncthreads",
    "syncthreads_count", "syncthreads_and", "syncthreads_or", "syncwarp", "threadfence", "threadfence_block",
    "threadfence_system", "shared.array", "local.array", "const.array_like", "atomic.add", "atomic.sub",
    "atomic.and_", "atomic.or_", "atomic.xor", "atomic.inc", "atomic.dec", "atomic.exch", "atomic.max", "atomic.min",
    "atomic.nanmax", "atomic.nanmin", "atomic.compare_and_swap", "atomic.cas", "shfl_sync", "shfl_up_sync",
    "shfl_down_sync", "shfl_xor_sync", "all_sync", "any_sync", "eq_sync", "ballot_sync", "match_any_sync",
    "match_all_sync", "activemask", "lanemask_lt", "popc", "brev", "clz", "ffs", "selp", "fma", "cbrt", "rsqrt",
    "nanosleep", "clock", "globaltimer", "cg.this_grid", "cg.grid_group.sync", "literal_unroll", "literally",
    "carray", "farray", "random.init_xoroshiro128p_state", "random.xoroshiro128p_jump", "random.xoroshiro128p_next",
    "random.xoroshiro128p_uniform_float32", "random.xoroshiro128p_uniform_float64",
    "random.xoroshiro128p_normal_float32", "random.xoroshiro128p_normal_float64",
)  # fmt: skip

#: Python's own names, and attributes and methods of numbers and arrays.
PYTHON = (
    "abs", "min", "max", "round", "pow", "divmod", "len", "int", "float", "bool", "complex", "range", "enumerate",
    "zip", "reversed", "sum", "any", "all", "isinstance", "print", "tuple", "slice",
)  # fmt: skip
ATTRIBUTES = (
    ".shape", ".size", ".ndim", ".strides", ".T", ".real", ".imag", ".itemsize", ".nbytes", ".dtype", ".flat",
    ".conjugate()", ".bit_count()", ".value", ".name",
)  # fmt: skip

TYPES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16",
    "float32", "float64", "complex64", "complex128", "weak-int", "weak-float", "datetime64", "timedelta64",
    "bytes-field", "text-field", "layout-C", "layout-F", "layout-A", "layout-0d", "read-only-array", "record-aligned",
    "record-packed", "record-nested", "record-subarray", "tuple", "nested-tuple", "named-tuple", "enum", "int-enum",
    "pointer",
)  # fmt: skip

_BINARY = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.LShift: "<<", ast.RShift: ">>", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^",
}  # fmt: skip
_COMPARED = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Is: "is",
    ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in",
}  # fmt: skip
_UNARY = {ast.USub: "unary -", ast.UAdd: "unary +", ast.Invert: "~", ast.Not: "not"}


def _is_call(node: Any, name: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name


def _is_negative(node: Any) -> bool:
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)


def _parts(index: ast.expr) -> list[ast.expr]:
    return index.elts if isinstance(index, ast.Tuple) else [index]


def _has_index(kind: Callable[[ast.expr], bool]) -> Callable[[Any], bool]:
    return lambda node: isinstance(node, ast.Subscript) and any(kind(part) for part in _parts(node.slice))


#: Statement or expression -> whether a node of the syntax tree is one.
SYNTAX: dict[str, Callable[[Any], bool]] = {
    "chained assignment": lambda n: isinstance(n, ast.Assign) and len(n.targets) > 1,
    "augmented assignment": lambda n: isinstance(n, ast.AugAssign),
    "annotated assignment": lambda n: isinstance(n, ast.AnnAssign),
    "unpacking": lambda n: isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Tuple),
    "walrus": lambda n: isinstance(n, ast.NamedExpr),
    "if": lambda n: isinstance(n, ast.If),
    "elif": lambda n: isinstance(n, ast.If) and len(n.orelse) == 1 and isinstance(n.orelse[0], ast.If),
    "else": lambda n: isinstance(n, ast.If) and bool(n.orelse) and not isinstance(n.orelse[0], ast.If),
    "conditional expression": lambda n: isinstance(n, ast.IfExp),
    "and": lambda n: isinstance(n, ast.BoolOp) and isinstance(n.op, ast.And),
    "or": lambda n: isinstance(n, ast.BoolOp) and isinstance(n.op, ast.Or),
    "chained comparison": lambda n: isinstance(n, ast.Compare) and len(n.ops) > 1,
    "while": lambda n: isinstance(n, ast.While),
    "while-else": lambda n: isinstance(n, ast.While) and bool(n.orelse),
    "for over range": lambda n: isinstance(n, ast.For) and _is_call(n.iter, "range"),
    "for over a negative range": lambda n: (
        isinstance(n, ast.For) and _is_call(n.iter, "range") and len(n.iter.args) == 3 and _is_negative(n.iter.args[2])
    ),
    "for over enumerate": lambda n: isinstance(n, ast.For) and _is_call(n.iter, "enumerate"),
    "for over zip": lambda n: isinstance(n, ast.For) and _is_call(n.iter, "zip"),
    "for over a name": lambda n: isinstance(n, ast.For) and isinstance(n.iter, ast.Name),
    "for over a tuple": lambda n: isinstance(n, ast.For) and isinstance(n.iter, ast.Tuple),
    "for-else": lambda n: isinstance(n, ast.For) and bool(n.orelse),
    "break": lambda n: isinstance(n, ast.Break),
    "continue": lambda n: isinstance(n, ast.Continue),
    "pass": lambda n: isinstance(n, ast.Pass),
    "return": lambda n: isinstance(n, ast.Return) and n.value is None,
    "return of a value": lambda n: isinstance(n, ast.Return) and n.value is not None,
    "del": lambda n: isinstance(n, ast.Delete),
    "assert": lambda n: isinstance(n, ast.Assert),
    "raise": lambda n: isinstance(n, ast.Raise),
    "match": lambda n: isinstance(n, ast.Match),
    "match with a guard": lambda n: isinstance(n, ast.match_case) and n.guard is not None,
    "nested function": lambda n: isinstance(n, ast.FunctionDef) and any(
        isinstance(inner, ast.FunctionDef) for inner in ast.walk(n) if inner is not n
    ),
    "lambda": lambda n: isinstance(n, ast.Lambda),
    "default of a parameter": lambda n: isinstance(n, ast.FunctionDef) and bool(n.args.defaults),
    "*args": lambda n: isinstance(n, ast.FunctionDef) and n.args.vararg is not None,
    "call with keywords": lambda n: isinstance(n, ast.Call) and any(k.arg for k in n.keywords),
    "call with *": lambda n: isinstance(n, ast.Call) and any(isinstance(a, ast.Starred) for a in n.args),
    "negative index": _has_index(_is_negative),
    "slice": _has_index(lambda part: isinstance(part, ast.Slice) and part.step is None),
    "slice with a step": _has_index(lambda part: isinstance(part, ast.Slice) and part.step is not None),
    "tuple of indices": lambda n: isinstance(n, ast.Subscript) and isinstance(n.slice, ast.Tuple),
    "ellipsis": _has_index(lambda part: isinstance(part, ast.Constant) and part.value is Ellipsis),
    "newaxis": _has_index(lambda part: (isinstance(part, ast.Constant) and part.value is None)
                          or (isinstance(part, ast.Attribute) and part.attr == "newaxis")),
    "assignment to a slice": lambda n: isinstance(n, ast.Assign) and any(
        isinstance(t, ast.Subscript) and any(isinstance(p, ast.Slice) for p in _parts(t.slice)) for t in n.targets
    ),
    "assignment to an attribute": lambda n: isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store),
    "tuple expression": lambda n: isinstance(n, ast.Tuple) and isinstance(n.ctx, ast.Load),
    "complex literal": lambda n: isinstance(n, ast.Constant) and isinstance(n.value, complex),
    "text": lambda n: isinstance(n, ast.Constant) and isinstance(n.value, str),
    "bytes": lambda n: isinstance(n, ast.Constant) and isinstance(n.value, bytes),
    "None": lambda n: isinstance(n, ast.Constant) and n.value is None,
    **{spelling: lambda n, k=kind: isinstance(n, (ast.BinOp, ast.AugAssign)) and isinstance(n.op, k)
       for kind, spelling in _BINARY.items()},
    **{spelling: lambda n, k=kind: isinstance(n, ast.Compare) and any(isinstance(op, k) for op in n.ops)
       for kind, spelling in _COMPARED.items()},
    **{spelling: lambda n, k=kind: isinstance(n, ast.UnaryOp) and isinstance(n.op, k)
       for kind, spelling in _UNARY.items()},
}  # fmt: skip

#: What a name from outside the kernel may stand for.
OUTSIDE = (
    "number of the module", "variable of an enclosing function", "tuple of the module", "array of the module",
    "type of the module", "member of a module", "attribute of a class", "member of an enum", "undecorated function",
    "decorated device function", "recursion",
)  # fmt: skip

_MODULES = {"": builtins, "math.": math, "cmath.": cmath, "operator.": operator, "np.": numpy}


def vocabulary() -> dict[str, list[str]]:
    """Group -> its names, as ``names_of`` spells them."""
    libraries = {"libdevice": cuda.libdevice, "fp16": cuda.fp16}
    kernel_side = {f"cuda.{name}" for name in (*kernel_names(), *EXPECTED)}
    for name, namespace in libraries.items():
        kernel_side |= {f"cuda.{name}.{member}" for member, value in vars(namespace).items() if _is_name(value)}
    kernel_side |= {f"cuda.bf16.{name}" for name in bf16.__all__ if _is_name(getattr(bf16, name))}
    kernel_side |= {f"cuda.{name}" for name in VECTORS}
    python = set(_python_spellings().values()) | set(PYTHON)
    attributes = {f".{name}" for name in arrays._ATTRIBUTES if name != "ctypes"} | set(ATTRIBUTES)
    methods = {f"{owner}.{name}()" for owner, name in registry._METHODS}
    return {
        "types": [f"type {name}" for name in TYPES],
        "syntax": list(SYNTAX),
        "names from outside": list(OUTSIDE),
        "kernel-side names": sorted(kernel_side),
        "Python, math, cmath, operator, NumPy": sorted(python),
        "attributes": sorted(attributes),
        "methods": sorted({f".{name.partition('.')[2]}" for name in methods}),
    }


def _is_name(value: object) -> bool:
    return isinstance(value, KernelName)


def _python_spellings() -> dict[Any, str]:
    found: dict[Any, str] = {}
    for prefix, module in _MODULES.items():
        for name in sorted(registry.supported_members(module), key=lambda name: (name.startswith("_"), name)):
            item = getattr(module, name)
            if not (isinstance(item, type) and module is numpy):  # NumPy's types are among the types
                found.setdefault(item, prefix + name)
    return found


_SPELLINGS = _python_spellings()


def names_of(function: Any, signature: str) -> set[str]:
    """What of the vocabulary a kernel uses: itself, the functions that it reaches, and its argument types."""
    found: set[str] = set()
    for kind in parse_signature(signature):
        found.update(f"type {name}" for name in _types_in(kind))
    _walk(function, (), set(), found)
    return found


def _types_in(kind: Type) -> Iterator[str]:
    if isinstance(kind, Array):
        yield f"layout-{kind.layout}" if kind.ndim else "layout-0d"
        if kind.readonly:
            yield "read-only-array"
        yield from _types_in(kind.dtype)
    elif isinstance(kind, NamedTuple | Tuple):
        yield "named-tuple" if isinstance(kind, NamedTuple) else "tuple"
        if any(isinstance(element, Tuple) for element in kind.elements):
            yield "nested-tuple"
        for element in kind.elements:
            yield from _types_in(element)
    elif isinstance(kind, Record):
        yield "record-packed" if any(m.offset % m.dtype.alignment for m in kind.members) else "record-aligned"
        for member in kind.members:
            if isinstance(member.dtype, Record):
                yield "record-nested"
            if member.shape:
                yield "record-subarray"
            yield from _types_in(member.dtype)
    elif isinstance(kind, Pointer):
        yield "pointer"
    elif isinstance(kind, EnumMember):
        yield "int-enum" if kind.is_integer else "enum"
    elif isinstance(kind, CharSeq):
        yield "text-field" if kind.unicode else "bytes-field"
    elif isinstance(kind, DateTime | TimeDelta):
        yield "datetime64" if isinstance(kind, DateTime) else "timedelta64"
    elif isinstance(kind, WeakInteger | WeakFloat | WeakComplex):
        yield f"weak-{kind.name}"
    else:
        yield kind.name


class _Scope:
    """What the names in a function stand for, but for its own variables."""

    def __init__(self, function: FunctionType, tree: ast.AST) -> None:
        closure = inspect.getclosurevars(function)
        self.enclosing = dict(closure.nonlocals)
        self.globals = function.__globals__
        own = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        own |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
        own |= {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node is not tree}
        self.own = own - set(self.enclosing)

    def find(self, node: ast.AST) -> Any:
        """The value of a name, or of a member of a module, class or namespace; ``_UNKNOWN`` for the kernel's own."""
        if isinstance(node, ast.Name):
            if node.id in self.own:
                return _UNKNOWN
            for place in (self.enclosing, self.globals, vars(builtins)):
                if node.id in place:
                    return place[node.id]
            return _UNKNOWN
        if isinstance(node, ast.Attribute):
            base = self.find(node.value)
            if isinstance(base, ModuleType | Namespace | type):
                return getattr(base, node.attr, _UNKNOWN)
        return _UNKNOWN


_UNKNOWN = object()


def _walk(function: Any, above: tuple[Any, ...], seen: set[Any], found: set[str]) -> None:
    plain = _plain(function)
    if plain is None or plain in seen:
        return
    seen.add(plain)
    try:
        tree = get_source(plain).tree
    except SourceError:
        return
    scope = _Scope(plain, tree)
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        found.update(name for name, test in SYNTAX.items() if test(node))
        if isinstance(node, ast.Name | ast.Attribute):
            value = scope.find(node)
            if value is not _UNKNOWN:
                found.update(_spell(value))
                if isinstance(node, ast.Attribute) and scope.find(node.value) is cuda:  # warpsize is a number
                    found.add(f"cuda.{node.attr}")
                found.update(_place(node, value, scope))
                if plain is _plain(value) or _plain(value) in above:
                    found.add("recursion")
                if getattr(value, "__module__", None) != "cudabuild.cuda.random":
                    _walk(value, (*above, plain), seen, found)
            elif isinstance(node, ast.Attribute):
                found.add(f".{node.attr}()" if id(node) in called else f".{node.attr}")
                inner = node.value.func if isinstance(node.value, ast.Call) else node
                if node.attr == "sync" and _is_this_grid(scope.find(inner)):
                    found.add("cuda.cg.grid_group.sync")


def _is_this_grid(value: object) -> bool:
    return isinstance(value, KernelName) and value.name == "cg.this_grid"


def _plain(value: Any) -> FunctionType | None:
    """The Python function of a device function or kernel, however decorated."""
    if isinstance(value, FunctionType):
        return value
    inner = getattr(value, "py_func", None)
    return inner if isinstance(inner, FunctionType) else None


def _spell(value: Any) -> Iterator[str]:
    """What the vocabulary calls a value from outside."""
    if isinstance(value, KernelName | Dim3):
        yield f"cuda.{value.name}"
    elif getattr(value, "__module__", None) == "cudabuild.cuda.random":
        yield f"cuda.random.{getattr(value, '__name__', '')}"
    elif isinstance(value, Scalar):
        yield from (f"type {name}" for name in _types_in(value))
    elif isinstance(value, type) and issubclass(value, numpy.generic):
        yield f"type {numpy.dtype(value).name}"
    else:
        try:
            spelling = _SPELLINGS.get(value)
        except TypeError:  # not hashable: nothing that is registered
            spelling = None
        if spelling is not None:
            yield spelling


def _place(node: ast.AST, value: Any, scope: _Scope) -> Iterator[str]:
    """What kind of thing from outside it is."""
    if isinstance(value, enum.Enum):
        yield "member of an enum"
    elif isinstance(value, FunctionType) and not value.__module__.startswith("cudabuild."):
        yield "undecorated function"
    elif isinstance(value, tuple):
        yield "tuple of the module"
    elif isinstance(value, numpy.ndarray):
        yield "array of the module"
    elif isinstance(value, int | float | complex):
        if isinstance(node, ast.Name):
            yield "number of the module" if node.id not in scope.enclosing else "variable of an enclosing function"
        elif isinstance(node, ast.Attribute):
            base = scope.find(node.value)
            yield "attribute of a class" if isinstance(base, type) else "member of a module"
    elif isinstance(value, Scalar) or (isinstance(value, type) and issubclass(value, numpy.generic)):
        yield "type of the module"
    elif _plain(value) is not None and not isinstance(value, FunctionType):
        yield "decorated device function"
