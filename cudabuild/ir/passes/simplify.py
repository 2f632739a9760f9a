# SPDX-License-Identifier: Apache-2.0
"""Removes what cannot matter: constants fold, trivial phis and casts go, dead code and unreachable blocks are dropped.

Before::

    entry:                                      after:
      %0: int = const value=2                     entry:
      %1: int = mul %0, %0                          %0: int = const value=4
      %2: bool = cmp %1, %0 predicate=gt            store %x, %i, %0
      branch %2 then=b1 else=b2                     …
    b1: …                                       b2 is gone

No operation moves and no float result changes.
"""

from __future__ import annotations

from typing import Any

from cudabuild.ir.cfg import reverse_postorder
from cudabuild.ir.extents import extent_origin
from cudabuild.ir.fold import fold
from cudabuild.ir.ir import Block, Function, Instr, Value, replace_uses
from cudabuild.ir.ops import OPS, Effect
from cudabuild.types import Array, Float, Integer, Scalar, Tuple, none

__all__ = ["remove_dead_code", "remove_unreachable_blocks", "simplify"]

_KEPT = frozenset(name for name, spec in OPS.items() if spec.effect in (Effect.WRITE, Effect.SYNC, Effect.END))
#: What is never replaced.
_FIXED = frozenset(name for name, spec in OPS.items() if spec.effect != Effect.PURE) | {"const"}


def simplify(function: Function) -> None:
    """Simplifies ``function`` in place until nothing changes."""
    _cut_branches(function)
    while True:
        changed = _replace_trivial(function)
        if not _cut_branches(function) and not (changed and _may_change_more(function)):
            break
    remove_dead_code(function)


def _cut_branches(function: Function) -> bool:
    """Drops what constant conditions keep control from; True if there was any."""
    changed = _fold_branches(function)
    return remove_unreachable_blocks(function) or changed


def _may_change_more(function: Function) -> bool:
    """Whether replacing once more can change anything after a turn over all blocks in order.

    Values are seen after what they are made of, phis at the head of a loop excepted. What is made of arrays looks
    further back than its operands.
    """
    order = reverse_postorder(function)
    number = {block: index for index, block in enumerate(order)}
    for block in order:
        if any(number.get(predecessor, -1) >= number[block] for predecessor in block.predecessors):
            for phi in block.phis:
                if isinstance(phi.type, (Array, Tuple)) or _is_trivial(phi):
                    return True
    return False


# control flow


def _fold_branches(function: Function) -> bool:
    """Branches whose condition is a constant become jumps."""
    changed = False
    for block in function.blocks:
        end = block.end
        if end is None or end.op != "branch":
            continue
        then, otherwise = end.attrs["then"], end.attrs["else"]
        condition = end.operands[0]
        if then is otherwise:  # two edges from here: one must carry what both carry
            first = then.predecessors.index(block)
            second = then.predecessors.index(block, first + 1)
            if any(phi.operands[first] is not phi.operands[second] for phi in then.phis):
                continue
            _remove_edge(then, second)
        elif _is_const(condition):
            is_true = bool(_const(condition))
            lost = otherwise if is_true else then
            _remove_edge(lost, lost.predecessors.index(block))
            then = then if is_true else otherwise
        else:
            continue
        block.instructions[-1] = Instr(none, end.location, "jump", [], {"target": then}, block)
        changed = True
    return changed


def _remove_edge(target: Block, position: int) -> None:
    del target.predecessors[position]
    for phi in target.phis:
        del phi.operands[position]


def remove_unreachable_blocks(function: Function) -> bool:
    """Drops the blocks that control cannot reach; True if there were any."""
    reachable = set(reverse_postorder(function))
    if len(reachable) == len(function.blocks):
        return False
    function.blocks = [block for block in function.blocks if block in reachable]
    for block in function.blocks:
        for position in reversed(range(len(block.predecessors))):
            if block.predecessors[position] not in reachable:
                _remove_edge(block, position)
    return True


# values


def _replace_trivial(function: Function) -> bool:
    """Instructions that are constants, or just another value, are replaced by that."""
    changes: dict[Value, Value] = {}
    changed = False
    for block in reverse_postorder(function):
        for instr in list(block.instructions):
            op = instr.op
            for operand in instr.operands:
                if operand in changes:
                    instr.operands = [_final(one, changes) for one in instr.operands]
                    break
            if op in _FIXED:
                continue
            if op == "phi":
                value = _simplify_phi(instr, block)
            else:
                changed |= _rewrite(instr)
                value = instr if _fold_to_const(instr) else _other_value(instr)
            if value is instr:
                changed = True
            elif value is not None:
                changes[instr] = value
    if changes:
        replace_uses(function, changes)
        for block in function.blocks:
            block.instructions = [instr for instr in block.instructions if instr not in changes]
    return changed or bool(changes)


def _final(value: Value, changes: dict[Value, Value]) -> Value:
    while value in changes:
        value = changes[value]
    return value


def _is_const(value: Value) -> bool:
    return isinstance(value, Instr) and value.op == "const"


def _const(value: Value) -> Any:
    return value.attrs["value"] if isinstance(value, Instr) and value.op == "const" else None


def _fold_to_const(instr: Instr) -> bool:
    """Makes ``instr`` a constant in its place if its operands are constants; True if so."""
    operands = instr.operands
    if not operands or not _is_const(operands[0]):
        return False
    if not isinstance(instr.type, Scalar) or not all(map(_is_const, operands)):
        return False
    folded = fold(instr, [_const(operand) for operand in instr.operands])
    if folded is None:
        return False
    instr.op, instr.operands, instr.attrs = "const", [], {"value": folded}
    return True


def _simplify_phi(phi: Instr, block: Block) -> Value | None:
    """What a phi always is: the one value that reaches it, or one constant."""
    others = {operand for operand in phi.operands if operand is not phi}
    if len(others) == 1:
        return others.pop()
    if not _are_one_constant(others):
        return None
    const = Instr(phi.type, phi.location, "const", [], {"value": _const(others.pop())}, block, phi.hint)
    block.instructions.insert(len(block.phis), const)
    return const


def _is_trivial(phi: Instr) -> bool:
    others = {operand for operand in phi.operands if operand is not phi}
    return len(others) == 1 or _are_one_constant(others)


def _are_one_constant(values: set[Value]) -> bool:
    if not values or not all(map(_is_const, values)):
        return False
    return len({repr(_const(value)) for value in values}) == 1  # repr: -0.0 is not 0.0


def _rewrite(instr: Instr) -> bool:
    """Makes ``instr`` read what its operand was made from; True if it did."""
    if instr.op == "dim":
        return _rewrite_dim(instr)
    if instr.op != "cast":
        return False
    inner = instr.operands[0]
    if not isinstance(inner, Instr) or inner.op != "cast":
        return False
    source = inner.operands[0].type
    integers = isinstance(source, Integer) and isinstance(instr.type, Integer)
    if integers and _holds_all(inner.type, source):  # int32 -> int64 -> int16 is int32 -> int16
        instr.operands[0] = inner.operands[0]
        return True
    return False


def _rewrite_dim(dim: Instr) -> bool:
    """The extent of an array along an axis that it has of another one is that one's extent."""
    origin = extent_origin(dim.operands[0], dim.attrs["axis"])
    if not isinstance(origin, tuple) or origin[0] is dim.operands[0]:
        return False
    dim.operands = [origin[0]]
    dim.attrs = {**dim.attrs, "axis": origin[1]}
    return True


def _holds_all(wide: object, narrow: object) -> bool:
    """True if every value of the scalar type ``narrow`` is one of ``wide``."""
    if isinstance(wide, Integer) and isinstance(narrow, Integer):
        if wide.signed == narrow.signed:
            return wide.bits >= narrow.bits
        return wide.signed and wide.bits > narrow.bits
    if isinstance(wide, Float) and isinstance(narrow, Float):
        return wide == narrow or wide.bits > narrow.bits or (wide.bits == narrow.bits == 64)
    return False


def _other_value(instr: Instr) -> Value | None:
    """A value that ``instr`` always equals, if one is plain to see."""
    op = instr.op
    operands = instr.operands
    if op == "item" and isinstance(operands[0], Instr) and operands[0].op == "tuple":
        index: int = instr.attrs["index"]
        return operands[0].operands[index]
    if op == "select":
        chosen = _const(operands[0])
        if chosen is not None:
            return operands[1 if chosen else 2]
        return operands[1] if operands[1] is operands[2] else None
    if op == "inv" and isinstance(operands[0], Instr) and operands[0].op == "inv":
        return operands[0].operands[0]
    if op == "cast":
        return _other_cast(instr)
    if op == "dim" and isinstance(operands[0], Instr):
        return _other_dim(instr, operands[0])
    return _identity(instr) if len(operands) == 2 else None


def _other_cast(cast: Instr) -> Value | None:
    value = cast.operands[0]
    if value.type == cast.type:
        return value
    if isinstance(value, Instr) and value.op == "cast":  # there and back
        source = value.operands[0]
        if source.type == cast.type and _holds_all(value.type, source.type):
            return source
    return None


def _other_dim(dim: Instr, array: Instr) -> Value | None:
    origin = extent_origin(array, dim.attrs["axis"])
    if isinstance(origin, int):
        const = Instr(dim.type, dim.location, "const", [], {"value": origin}, dim.block)
        assert dim.block is not None
        dim.block.instructions.insert(dim.block.instructions.index(dim), const)
        return const
    return origin if isinstance(origin, Value) and origin.type == dim.type else None


def _identity(instr: Instr) -> Value | None:
    """``x + 0``, ``x * 1`` and their like."""
    a, b = instr.operands
    left, right = _const(a), _const(b)
    if left is None is right and a is not b:
        return None
    if a.type != instr.type:
        return None
    op = instr.op
    if isinstance(instr.type, Integer):
        if right == 0 and op in ("add", "sub", "or", "xor", "shl", "shr"):
            return a
        if left == 0 and op in ("add", "or", "xor") and b.type == instr.type:
            return b
        if right == 1 and op == "floordiv":
            return a
    if isinstance(instr.type, (Integer, Float)):
        if right == 1 and op in ("mul", "div"):
            return a
        if left == 1 and op == "mul":
            return b
    elif op in ("and", "or"):  # bools
        for value, other in ((left, b), (right, a)):
            if value is (op == "and"):
                return other
    return a if a is b and op in ("and", "or", "min", "max") else None


def remove_dead_code(function: Function) -> None:
    """Drops the instructions that nothing with an effect depends on, cycles of phis too."""
    needed = {instr for block in function.blocks for instr in block.instructions if instr.op in _KEPT}
    pending = list(needed)
    while pending:
        for operand in pending.pop().operands:
            if operand not in needed and isinstance(operand, Instr):
                needed.add(operand)
                pending.append(operand)
    for block in function.blocks:
        block.instructions = [instr for instr in block.instructions if instr in needed]
