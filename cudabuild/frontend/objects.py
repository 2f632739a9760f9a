# SPDX-License-Identifier: Apache-2.0
"""Objects that exist at compile time only: their attributes (``config.N``, ``Color.RED.value``), and their equality.

An attribute is followed only where the fingerprint knows what it leads to, so that no value enters a kernel unseen: by
the dotted name itself (``fingerprint/values.py`` follows the same steps), or because the object is known as a whole.
``c = Config; c.N`` is neither: the fingerprint holds ``Config`` by its name only. Equality is that of values that the
fingerprint holds, too.
"""

from __future__ import annotations

import ast
import enum
from collections.abc import Collection
from types import ModuleType
from typing import Any

from cudabuild.errors import nearest_name
from cudabuild.fingerprint.values import MISSING, describe_value, find_member, is_passage, is_unresolved
from cudabuild.frontend.context import Context
from cudabuild.frontend.diagnostics import Refusal
from cudabuild.frontend.impl.casts import find_scalar_type
from cudabuild.frontend.operands import Operand, Static, TupleOperand, const_of, describe, is_const, type_of
from cudabuild.ir.hir import HirInstr
from cudabuild.ir.ir import Value
from cudabuild.lang.name import KernelName, Namespace
from cudabuild.types import Type, none, weak_int
from cudabuild.types.named import EnumMember, NamedTuple, enum_type, member_number

__all__ = [
    "are_equal",
    "entry",
    "find_attribute",
    "is_dotted_name",
    "is_plain_member",
    "make_named_tuple",
    "member",
    "member_attribute",
    "member_by_name",
]

#: Modules whose names always mean the same.
_FIXED_MODULES = frozenset({"math", "cmath", "operator", "numpy", "cudabuild", "builtins"})
_ENUM_FACTS = ("name", "value")
_ARRAY_FACTS = ("shape", "size", "ndim", "itemsize", "dtype")


def find_attribute(instr: HirInstr, value: Any, name: str, local_names: Collection[str]) -> Any:
    """What ``value.name`` is.

    Args:
        instr: the attribute operation; its node tells how the object was named.
        value: the object.
        name: the attribute.
        local_names: the names that the function binds.

    Raises:
        Refusal: there is none, or none whose value the kernel's fingerprint would hold.
    """
    if _is_known_whole(value, name):
        return _member(value, name)
    if is_passage(value):
        if not is_dotted_name(instr.nodes[0], local_names):
            raise Refusal(
                f"attribute {name!r} through a variable",
                found=f"attribute {name!r} of {describe(Static(value))}",
                expected="the dotted name of a global: a kernel's constants are found by their names",
                do=f"write the object's own name, such as config.{name}, or keep the value in a global",
                operand=0,
            )
        return _member(value, name)
    raise Refusal(
        f"no attribute {name!r} here",
        found=f"attribute {name!r} of {describe(Static(value))}",
        expected="an attribute of an array, a module or a class",
        do="pass what it holds as an argument of the kernel",
    )


def _is_known_whole(value: Any, name: str) -> bool:
    """Whether an object's own text in the fingerprint says what its attribute is."""
    if isinstance(value, (Namespace, KernelName, Type)):
        return True
    if isinstance(value, ModuleType):
        return value.__name__.partition(".")[0] in _FIXED_MODULES
    if isinstance(value, enum.EnumMeta):
        return name in value.__members__
    if isinstance(value, enum.Enum):
        return name in _ENUM_FACTS
    kind = type(value)
    if kind.__module__ == "numpy" and kind.__name__ == "ndarray":
        return name in _ARRAY_FACTS
    return kind.__module__.partition(".")[0] == "numpy" and not hasattr(value, "__array_interface__")


def is_dotted_name(node: ast.AST, local_names: Collection[str]) -> bool:
    """Whether an expression is ``a.b.c`` with a name from outside the function for ``a``."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name) and node.id not in local_names


def _member(value: Any, name: str) -> Any:
    found = find_member(value, name) if is_passage(value) else getattr(value, name, MISSING)
    if found is not MISSING:
        return found
    what = describe(Static(value))
    if hasattr(type(value), name):
        raise Refusal(
            f"attribute {name!r} is computed by code",
            found=f"attribute {name!r} of {what}",
            expected="a value that the object holds: no code of the object runs while a kernel is compiled",
            do="assign it to a global, and use that",
        )
    near = nearest_name(name, dir(value))
    raise Refusal(
        f"{what} has no attribute {name!r}",
        found=f"attribute {name!r} of {what}",
        expected="a name that it defines",
        do=f"did you mean {near!r}?" if near else "check the spelling, or pass the value as an argument",
    )


def are_equal(left: Any, right: Any) -> bool:
    """Whether two compile-time objects are equal; a type equals its other spellings (``x.dtype == np.float32``).

    Raises:
        Refusal: one of them is no value that the kernel's fingerprint would hold.
    """
    if isinstance(left, Type) or isinstance(right, Type):
        first, second = find_scalar_type(left), find_scalar_type(right)
        return first is not None and first == second
    for value in (left, right):
        if is_unresolved(describe_value(value)) or hasattr(value, "__array_interface__"):
            raise Refusal(
                "comparison of objects",
                found=describe(Static(value)),
                expected="numbers, strings, types, or members of an Enum",
                do="compare numbers or names that stand for the objects",
            )
    return bool(left == right)


def make_named_tuple(
    context: Context, value: Any, arguments: list[Operand], keywords: dict[str, Operand]
) -> Operand | None:
    """A call of a named tuple's class; None where ``value`` is none."""
    fields = getattr(value, "_fields", None)
    if not (isinstance(value, type) and issubclass(value, tuple) and isinstance(fields, tuple)):
        return None
    if value.__new__.__qualname__.rpartition(".")[2] != "__new__" or value.__init__ is not object.__init__:
        return None  # code of the user's own makes it
    defaults = getattr(value, "_field_defaults", {})
    given = dict(zip(fields, arguments, strict=False)) | keywords
    missing = [field for field in fields if field not in given and field not in defaults]
    unknown = [name for name in keywords if name not in fields[len(arguments) :]]
    if missing or unknown or len(arguments) > len(fields):
        what = ", ".join(map(repr, missing or unknown)) or f"{len(arguments)} values"
        raise Refusal(
            f"wrong arguments for {value.__qualname__}",
            found=f"{'no value for' if missing else 'no place for'} {what}",
            expected=f"{value.__qualname__}({', '.join(fields)})",
            do="give one value for each field",
        )
    from cudabuild.frontend.free_names import operand_of_object

    elements = [given[f] if f in given else operand_of_object(context, defaults[f]) for f in fields]
    return TupleOperand(tuple(elements), NamedTuple(value.__name__, fields, [none] * len(fields)))


def entry(table: dict[Any, Any], index: Operand) -> Any:
    """``TABLE["key"]`` of a dict of the module, whose entries are constants like any others."""
    if isinstance(index, Static) and isinstance(index.value, (str, bytes)):
        key = index.value
    elif is_const(index) and not isinstance(type_of(index), EnumMember):
        key = const_of(index)
    else:
        raise Refusal(
            "an entry of a dict by a key that is not a constant",
            found=describe(index),
            expected="a string or number that is known before the kernel runs",
            do="keep the values in an array or a tuple, and index that",
            operand=1,
        )
    if key not in table:
        near = nearest_name(key, [name for name in table if isinstance(name, str)]) if isinstance(key, str) else None
        raise Refusal(
            "a dict has no such entry",
            found=repr(key),
            expected=", ".join(map(repr, table)),
            do=f"did you mean {near!r}?" if near else "use a key that it has",
            operand=1,
        )
    return table[key]


# members of enums


def is_plain_member(value: enum.Enum) -> bool:
    """Whether a member is one of its class's list; a combination of flags is not."""
    return value.name is not None and value.name in type(value).__members__


def member(context: Context, value: enum.Enum) -> Value:
    """A member as a constant: an integer stands for itself, any other by its position in the class."""
    return context.const(member_number(value), enum_type(type(value)))


def member_by_name(cls: enum.EnumMeta, name: Any) -> Any:
    """``Color["red"]``."""
    if isinstance(name, str) and name in cls.__members__:
        return cls.__members__[name]
    near = nearest_name(name, list(cls.__members__)) if isinstance(name, str) else None
    raise Refusal(
        f"{cls.__name__} has no such member",
        found=f"{cls.__name__}[{name!r}]",
        expected=", ".join(cls.__members__),
        do=f"did you mean {near!r}?" if near else "use the name of a member",
        operand=1,
    )


def member_attribute(context: Context, value: Value, name: str) -> Operand:
    """``member.value`` and ``member.name``; of a member chosen at run time, the value only."""
    from cudabuild.frontend.free_names import operand_of_object
    from cudabuild.frontend.impl.arrays import get_item

    kind = value.type
    assert isinstance(kind, EnumMember)
    cls = kind.find_class()
    if cls is None or name not in _ENUM_FACTS or (name == "name" and not is_const(value)):
        raise Refusal(
            f"no attribute {name!r} here",
            found=f"attribute {name!r} of {describe(value)}",
            expected=".value, and .name of a member that is known before the kernel runs",
            do="compare the member with those of its class",
        )
    if is_const(value):
        constant = const_of(value)
        found = cls(constant) if kind.is_integer else list(cls)[constant]
        return operand_of_object(context, getattr(found, name))
    if kind.is_integer:
        return context.cast(value, weak_int)
    values = TupleOperand(tuple(operand_of_object(context, one.value) for one in cls))
    return get_item(context, values, context.cast(value, weak_int))
