# SPDX-License-Identifier: Apache-2.0
"""One HIR operation at a time: its operands' rules are looked up and called. Used by inference and lowering alike."""

from __future__ import annotations

import builtins
import enum
from collections.abc import Collection
from types import FunctionType
from typing import Any

from cudabuild.errors import nearest_name
from cudabuild.fingerprint.values import find_function, is_partial
from cudabuild.frontend import closures, objects
from cudabuild.frontend.context import Context
from cudabuild.frontend.declared import call_declared
from cudabuild.frontend.diagnostics import Refusal
from cudabuild.frontend.foreign import call_foreign
from cudabuild.frontend.free_names import FreeNames, operand_of_object
from cudabuild.frontend.impl import arrays, complex_numbers, methods, operators, threads
from cudabuild.frontend.impl.casts import cast_to
from cudabuild.frontend.impl.registry import find_method, find_rule, supported_members, takes_whole
from cudabuild.frontend.iteration import ITERATION
from cudabuild.frontend.objects import find_attribute
from cudabuild.frontend.operands import (
    ClosureOperand,
    Conflict,
    MethodOperand,
    NoneOperand,
    Operand,
    OptionalOperand,
    Poison,
    SliceOperand,
    Static,
    TupleOperand,
    Undefined,
    Unknown,
    describe,
)
from cudabuild.ir.hir import HirInstr
from cudabuild.ir.ir import Value
from cudabuild.lang.name import Dim3, KernelName
from cudabuild.linking import DeclaredFunction
from cudabuild.types import (
    Array,
    Boolean,
    Complex,
    Float,
    Integer,
    Scalar,
    bool_,
    none,
    weak_int,
)
from cudabuild.types.named import EnumMember

__all__ = ["evaluate"]


def evaluate(context: Context, instr: HirInstr, operands: list[Operand | None], free: FreeNames) -> Operand:
    """The operand that ``instr`` makes.

    Raises:
        Refusal: the operation has no meaning for these operands.
    """
    op = instr.op
    needed = operands
    if op in ("function", "refresh"):  # a captured variable may well have no value yet
        needed = operands[: 1 if op == "refresh" else 0]
    for operand in needed:
        if type(operand) in _UNFIT:
            unfit = _without_unfit(context, operands, needed)
            if unfit is not None:
                return unfit
            break
    if op not in _TAKES_OPTIONAL and not (op in _TAKES_MEMBERS and _is_member(operands[0])):
        operands = [operand if type(operand) is Static else _unwrapped(context, operand) for operand in operands]
    handler = _HANDLERS.get(op)
    if handler is not None:
        return handler(context, instr, operands, free)  # type: ignore[no-any-return]
    made = ITERATION[op](context, instr, operands)
    return closures.rest(made, context.site[0]) if op in ("step", "item_at") else made


#: Operands that stand for no value.
_UNFIT = frozenset({Conflict, Poison, Undefined, Unknown})


def _without_unfit(context: Context, operands: list[Operand | None], needed: list[Operand | None]) -> Operand | None:
    """The result where an operand stands for no value; None if zeros have been put in their places.

    Raises:
        Refusal: there is none.
    """
    for operand in needed:
        if isinstance(operand, Poison):
            return operand
    for position, operand in enumerate(needed):
        if isinstance(operand, Unknown):
            return operand
        if isinstance(operand, Undefined) and context.table.reads_undefined:
            operands[position] = context.weak(0)
        elif isinstance(operand, Undefined):
            raise Refusal(
                f"variable {operand.variable!r} has no value here",
                found=operand.variable,
                expected="a variable that is assigned before it is used",
                do=f"assign {operand.variable} first",
                operand=position,
            )
        if isinstance(operand, Conflict):
            raise Refusal(
                f"variable {operand.variable!r} changes its type" if operand.variable[0] != "<" else "two types meet",
                found=f"{operand.first} on one path, {operand.second} on another",
                expected="types that convert into one another on every path",
                do="use a variable of its own for each type",
                operand=position,
            )
    return None


#: Operations that know what to do with None-or-a-value and with members of enums; for the others it is the value.
_TAKES_OPTIONAL = frozenset({"call", "compare", "function", "logical", "refresh", "truth", "tuple", "unary"})


#: Operations that a member of an enum has of its own.
_TAKES_MEMBERS = frozenset({"attribute"})


def _is_member(operand: Operand | None) -> bool:
    return isinstance(operand, Value) and isinstance(operand.type, EnumMember)


def _unwrapped(context: Context, operand: Operand | None) -> Operand | None:
    """The value of None-or-a-value or of an IntEnum's member, where only a number makes sense; None fails under
    debug."""
    if isinstance(operand, Value):
        if not isinstance(operand.type, EnumMember):
            return operand
        if operand.type.is_integer:
            return context.cast(operand, weak_int)
        raise Refusal(
            "a member of an Enum where a number is needed",
            found=describe(operand),
            expected="a number, or a member of an IntEnum",
            do="take its value: member.value",
        )
    if not isinstance(operand, OptionalOperand):
        return operand
    if context.calls.debug:
        missing = context.emit("inv", bool_, operand.present)
        context.emit("raise", none, missing, exception="builtins:TypeError", message="None where a value is needed")
    return operand.value


def _const(context: Context, instr: HirInstr, operands: list[Any], free: FreeNames) -> Operand:
    return operand_of_object(context, instr.attrs["value"])


def _name(context: Context, instr: HirInstr, operands: list[Any], free: FreeNames) -> Operand:
    identifier = instr.attrs["identifier"]
    try:
        value = free.lookup(identifier)
    except KeyError:
        near = nearest_name(identifier, [*free.locals, *free.cells, *free.namespace, *dir(builtins)])
        raise Refusal(
            f"name {identifier!r} is not defined",
            found=identifier,
            expected="a parameter, a variable assigned before, or a global of the module",
            do=f"did you mean {near!r}?" if near else f"define {identifier} at module level, or pass it as an argument",
        ) from None
    return operand_of_object(context, value)


def _attribute(context: Context, instr: HirInstr, operands: list[Any], free: FreeNames) -> Operand:
    base, name = operands[0], instr.attrs["name"]
    if isinstance(base, Value) and isinstance(base.type, Array):
        return arrays.array_attribute(context, base, name)
    if isinstance(base, Value) and isinstance(base.type, EnumMember):
        return objects.member_attribute(context, base, name)
    if isinstance(base, TupleOperand) and base.kind is not None and name in base.kind.field_names:
        return base.elements[base.kind.field_names.index(name)]
    if isinstance(base, TupleOperand) and base.kind is not None:
        names = base.kind.field_names
        near = nearest_name(name, list(names))
        raise Refusal(
            f"a tuple has no field {name!r}",
            found=f"attribute {name!r} of {describe(base)}",
            expected=", ".join(f".{field}" for field in names),
            do=f"did you mean .{near}?" if near else "use one of its fields, or an index",
        )
    if isinstance(base, Value) and isinstance(base.type, Scalar) and find_method(methods.owner_of(base), name):
        return MethodOperand(base, name)
    if isinstance(base, Value) and isinstance(base.type, (Boolean, Integer, Float, Complex)):
        return complex_numbers.number_attribute(context, base, name)
    if isinstance(base, Static):
        if isinstance(base.value, Dim3):
            return _dim3(context, base.value, name)
        return operand_of_object(context, find_attribute(instr, base.value, name, free.locals))
    raise Refusal(
        f"no attribute {name!r} here",
        found=f"attribute {name!r} of {describe(base)}",
        expected="an attribute of an array, a module or a class",
        do="pass what it holds as an argument of the kernel",
    )


def _dim3(context: Context, value: Dim3, name: str) -> Operand:
    if name not in ("x", "y", "z"):
        raise Refusal(
            f"cuda.{value.name} has no attribute {name!r}",
            found=f"cuda.{value.name}.{name}",
            expected=".x, .y or .z",
            do=f"write cuda.{value.name}.x",
        )
    return threads.special_register(context, f"{value.name}.{name}")


def _item(context: Context, instr: HirInstr, operands: list[Any], free: FreeNames) -> Operand:
    base, index = operands
    if isinstance(base, Static) and isinstance(base.value, enum.EnumMeta) and isinstance(index, Static):
        return operand_of_object(context, objects.member_by_name(base.value, index.value))
    if isinstance(base, Static) and type(base.value) is dict:
        return operand_of_object(context, objects.entry(base.value, index))
    return arrays.get_item(context, base, index)


def _set_item(context: Context, instr: HirInstr, operands: list[Any], free: FreeNames) -> Operand:
    arrays.set_item(context, operands[0], operands[1], operands[2])
    return NoneOperand()


def _set_attribute(context: Context, instr: HirInstr, operands: list[Any], free: FreeNames) -> Operand:
    arrays.set_attribute(context, operands[0], instr.attrs["name"], operands[1])
    return NoneOperand()


def _tuple(context: Context, instr: HirInstr, operands: list[Any], free: FreeNames) -> Operand:
    return TupleOperand(tuple(_spread(context, operands, instr.attrs.get("starred", ()))))


def _spread(context: Context, operands: list[Any], starred: Collection[int]) -> list[Any]:
    """The operands, with the elements of those at the positions ``starred`` in their place."""
    found: list[Any] = []
    for position, operand in enumerate(operands):
        if position not in starred:
            found.append(operand)
            continue
        elements = context.elements(operand)
        if elements is None:
            raise Refusal(
                "'*' before something that is not a tuple",
                found=describe(operand),
                expected="a tuple, whose number of elements is known",
                do="write the elements out",
                operand=position,
            )
        found += elements
    return found


def _slice(context: Context, instr: HirInstr, operands: list[Any], free: FreeNames) -> Operand:
    parts = [None if isinstance(part, NoneOperand) else part for part in operands]
    return SliceOperand(*parts)


def _unpack(context: Context, instr: HirInstr, operands: list[Any], free: FreeNames) -> Operand:
    count: int = instr.attrs["count"]
    index: int = instr.attrs["index"]
    star: int | None = instr.attrs.get("star")
    elements = context.elements(operands[0])
    if elements is None:
        if star is None and isinstance(operands[0], Value) and isinstance(operands[0].type, Array):
            return arrays.get_item(context, operands[0], context.weak(index))
        raise Refusal(
            "only a tuple can be unpacked",
            found=describe(operands[0]),
            expected=f"a tuple of {count}, or an array",
            do="index the array: a, b = x[0], x[1]",
            operand=0,
        )
    if len(elements) < count - 1 if star is not None else len(elements) != count:
        raise Refusal(
            "wrong number of names to unpack into",
            found=f"{count} names for a tuple of {len(elements)}",
            expected=f"{len(elements)} names",
            do="use one name for each element; '_' for those you do not need",
        )
    rest = len(elements) - count  # what the star takes, less one
    if star is None or index < star:
        return elements[index]
    return TupleOperand(elements[star : star + rest + 1]) if index == star else elements[index + rest]


def _length(context: Context, instr: HirInstr, operands: list[Any], free: FreeNames) -> Operand:
    """Whether the operand is a tuple of between ``least`` and ``most`` elements."""
    elements = context.elements(operands[0])
    least, most = instr.attrs["least"], instr.attrs["most"]
    fits = elements is not None and least <= len(elements) and (most is None or len(elements) <= most)
    return context.const(fits, bool_)


def _refused(context: Context, instr: HirInstr, operands: list[Any], free: FreeNames) -> Operand:
    raise instr.attrs["refusal"]


def _call(context: Context, instr: HirInstr, operands: list[Any], free: FreeNames) -> Operand:
    keywords: tuple[str, ...] = instr.attrs["keywords"]
    split = len(operands) - len(keywords)
    named = dict(zip(keywords, operands[split:], strict=True))
    positional = _spread(context, operands[:split], instr.attrs.get("starred", ()))
    return closures.rest(call(context, positional[0], positional[1:], named), context.site[0])


def call(context: Context, callee: Operand, arguments: list[Operand], keywords: dict[str, Operand]) -> Operand:
    """A call of whatever ``callee`` is: a name with a rule, a type, a method, or a function to be compiled."""
    if isinstance(callee, MethodOperand) and find_method(methods.owner_of(callee.base), callee.name) is None:
        assert isinstance(callee.base, Value)
        return complex_numbers.call_method(context, callee.base, callee.name, [*arguments, *keywords.values()])
    if isinstance(callee, MethodOperand):
        return methods.call_method(context, callee, arguments, keywords)
    if isinstance(callee, ClosureOperand):
        return context.calls.call(context, callee, arguments, keywords)
    if not isinstance(callee, Static):
        raise Refusal(
            "this cannot be called",
            found=describe(callee),
            expected="a function",
            do="index an array with brackets: x[i]",
            operand=0,
        )
    value = callee.value
    if is_partial(value):
        first = [operand_of_object(context, argument) for argument in value.args]
        named = {name: operand_of_object(context, argument) for name, argument in value.keywords.items()}
        return call(context, Static(value.func), first + arguments, named | keywords)
    rule = find_rule(value)
    if isinstance(value, Scalar) or (rule is not None and not takes_whole(value)):
        arguments = [_value_of(context, argument) for argument in arguments]
        keywords = {name: _value_of(context, argument) for name, argument in keywords.items()}
    if rule is not None:
        return rule(context, arguments, keywords)
    if isinstance(value, Scalar):
        return cast_to(context, value, arguments)
    made = objects.make_named_tuple(context, value, arguments, keywords)
    if made is not None:
        return made
    if isinstance(value, DeclaredFunction):
        return call_foreign(context, value, arguments, keywords)
    found = (value, None) if isinstance(value, FunctionType) else find_function(value)
    if found is None:
        raise _refuse_call(value)
    function, definition = found
    if definition is None:
        return context.calls.call(context, function, arguments, keywords)
    if not definition.may_be_called:
        raise Refusal(
            "a kernel cannot be called from a kernel",
            found=f"kernel {definition.qualname!r}",
            expected="a device function or a plain function",
            do="move the shared code into a plain function and call it from both",
            operand=0,
        )
    return call_declared(context, definition, arguments, keywords)


def _value_of(context: Context, operand: Operand) -> Operand:
    value = _unwrapped(context, operand)
    assert value is not None
    return value


def _refuse_call(value: Any) -> Refusal:
    what = describe(Static(value))
    module = getattr(value, "__module__", None)
    if isinstance(value, KernelName):
        return Refusal(
            f"cuda.{value.name} cannot be called",
            found=f"a call of cuda.{value.name}",
            expected="a function of the cuda namespace",
            do=f"write cuda.{value.name} without a call",
            operand=0,
        )
    home = {"math": "math", "cmath": "cmath", "numpy": "numpy", "builtins": "builtins"}.get(
        str(module).split(".", maxsplit=1)[0]
    )
    if home is not None:
        import importlib

        names = supported_members(importlib.import_module(home))
        near = nearest_name(getattr(value, "__name__", ""), names)
        shown = ", ".join(names)
        return Refusal(
            f"{what} is not supported in a kernel",
            found=what,
            expected=f"one of {home}'s: {shown}",
            do=f"did you mean {near!r}?" if near else "compute it on the host, or write it out",
            operand=0,
        )
    return Refusal(
        f"{what} cannot be called in a kernel",
        found=what,
        expected="a Python function with source text, or a name of the kernel language",
        do="write a plain Python function and call that",
        operand=0,
    )


def _binary(context: Context, instr: HirInstr, operands: list[Any], free: FreeNames) -> Operand:
    return operators.binary(context, instr.attrs["operator"], operands[0], operands[1])


def _unary(context: Context, instr: HirInstr, operands: list[Any], free: FreeNames) -> Operand:
    operator = instr.attrs["operator"]
    return operators.unary(context, operator, operands[0] if operator == "not" else _value_of(context, operands[0]))


def _compare(context: Context, instr: HirInstr, operands: list[Any], free: FreeNames) -> Operand:
    return operators.compare(context, instr.attrs["operator"], operands[0], operands[1])


def _logical(context: Context, instr: HirInstr, operands: list[Any], free: FreeNames) -> Operand:
    left, right = (_value_of(context, side) if _is_member(side) else side for side in operands)
    return operators.logical(context, instr.attrs["operator"], left, right)


def _truth(context: Context, instr: HirInstr, operands: list[Any], free: FreeNames) -> Operand:
    return context.truth(operands[0])


def _raise(context: Context, instr: HirInstr, operands: list[Any], free: FreeNames) -> Operand:
    exception = instr.attrs.get("exception")
    if exception is None:
        (operand,) = operands
        kind = operand.value if isinstance(operand, Static) else None
        if not (isinstance(kind, type) and issubclass(kind, Exception)):
            raise Refusal(
                "raise of something that is not an exception class",
                found=describe(operand),
                expected="an exception class, or a call of one",
                do='write raise ValueError("what is wrong")',
                operand=0,
            )
        exception = f"{kind.__module__}:{kind.__qualname__}"
    context.emit("raise", none, exception=exception, message=instr.attrs["message"])
    return NoneOperand()


def _poison(context: Context, instr: HirInstr, operands: list[Any], free: FreeNames) -> Operand:
    return Poison()


def _undef(context: Context, instr: HirInstr, operands: list[Any], free: FreeNames) -> Operand:
    return Undefined(instr.attrs["variable"])


_HANDLERS: dict[str, Any] = {
    "const": _const,
    "name": _name,
    "attribute": _attribute,
    "item": _item,
    "set_item": _set_item,
    "set_attribute": _set_attribute,
    "tuple": _tuple,
    "slice": _slice,
    "unpack": _unpack,
    "call": _call,
    "binary": _binary,
    "unary": _unary,
    "compare": _compare,
    "logical": _logical,
    "truth": _truth,
    "raise": _raise,
    "poison": _poison,
    "refused": _refused,
    "function": closures.make,
    "refresh": closures.refresh,
    "length": _length,
    "undef": _undef,
}
