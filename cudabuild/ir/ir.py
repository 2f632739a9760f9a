# SPDX-License-Identifier: Apache-2.0
"""The typed IR: functions of basic blocks in SSA form, with a position on every instruction.

The whole IR as a grammar::

    function    ::=  name, params, result type, blocks (the first is the entry)
    block       ::=  phi* instruction* end
    value       ::=  param | instruction           -- has .type
    instruction ::=  op, operands, attrs, type, location      -- op is a row of ir/ops.py
    end         ::=  jump | branch | return

Types are those of ``cudabuild.types``: scalars (with ``int``/``float`` where a value stayed weak: an int64 / float64),
arrays (pointer, shape and strides as one value) and tuples. ``none`` is the type of an instruction without a result.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from cudabuild.errors import Location
from cudabuild.ir.ops import OPS, Effect
from cudabuild.types import Array, Type, none

__all__ = ["Block", "Function", "Instr", "Param", "Value", "replace_uses"]

_EFFECTS = {name: spec.effect for name, spec in OPS.items()}
_ARITIES = {name: spec.arity for name, spec in OPS.items()}
_ENDS = frozenset(name for name, effect in _EFFECTS.items() if effect == Effect.END)


@dataclass(eq=False, repr=False, slots=True)
class Value:
    """Anything that an instruction can take: a parameter or another instruction's result."""

    type: Type
    location: Location | None = None


@dataclass(eq=False, repr=False, slots=True)
class Param(Value):
    name: str = ""
    index: int = 0

    def __repr__(self) -> str:
        return f"<param {self.name}: {self.type}>"


@dataclass(eq=False, repr=False, slots=True)
class Instr(Value):
    """One operation. ``hint`` is the user's variable name, for readable dumps."""

    op: str = ""
    operands: list[Value] = field(default_factory=list)
    attrs: dict[str, Any] = field(default_factory=dict)
    block: Block | None = None
    hint: str = ""

    def __repr__(self) -> str:
        return f"<{self.op}: {self.type}{f' in {self.block.name}' if self.block is not None else ''}>"

    @property
    def effect(self) -> str:
        return _EFFECTS[self.op]

    @property
    def is_end(self) -> bool:
        return self.op in _ENDS


@dataclass(eq=False, repr=False, slots=True)
class Block:
    """A straight run of instructions; phis first, one end last. ``predecessors`` fixes the order of phi operands."""

    name: str
    instructions: list[Instr] = field(default_factory=list)
    predecessors: list[Block] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"<block {self.name}>"

    @property
    def end(self) -> Instr | None:
        last = self.instructions[-1] if self.instructions else None
        return last if last is not None and last.op in _ENDS else None

    @property
    def phis(self) -> list[Instr]:
        return [instr for instr in self.instructions if instr.op == "phi"]

    @property
    def successors(self) -> list[Block]:
        end = self.end
        if end is None or end.op == "return":
            return []
        if end.op == "jump":
            return [end.attrs["target"]]
        return [end.attrs["then"], end.attrs["else"]]


@dataclass(eq=False, repr=False)
class Function:
    """A kernel or a device function, typed for one list of argument types."""

    name: str
    params: list[Param]
    result: Type
    blocks: list[Block]
    is_kernel: bool
    location: Location | None = None
    links: tuple[Any, ...] = ()  #: foreign code that a kernel is linked with

    def __repr__(self) -> str:
        return f"<{'kernel' if self.is_kernel else 'device function'} {self.name}>"

    @property
    def callees(self) -> list[Function]:
        """The device functions reached, each once, callees before callers; without this function itself."""
        found: dict[Function, None] = {}
        seen = {self}

        def visit(function: Function) -> None:
            for instr in function.instructions():
                callee = instr.attrs["callee"] if instr.op == "call" else None
                if callee is not None and callee not in seen:
                    seen.add(callee)
                    visit(callee)
                    found[callee] = None

        visit(self)
        return list(found)

    def release(self) -> None:
        """Takes this function and its callees apart, so that they need no garbage collector."""
        for one in (self, *self.callees):
            for block in one.blocks:
                block.instructions.clear()
                block.predecessors.clear()

    def instructions(self) -> list[Instr]:
        return [instr for block in self.blocks for instr in block.instructions]

    @property
    def synchronises(self) -> bool:
        """True if a barrier or a warp operation can be reached from here."""
        functions = [self, *self.callees]
        return any(instr.effect == Effect.SYNC for f in functions for instr in f.instructions())


class Builder:
    """Appends instructions to a block."""

    def __init__(self, block: Block, location: Location | None = None) -> None:
        self.block = block
        self.location = location

    def emit(self, op: str, type: Type, *operands: Value, **attrs: Any) -> Instr:
        """Appends one instruction; ``op`` must be a row of the operation table."""
        arity = _ARITIES[op]
        if arity != -1 and arity != len(operands):
            raise ValueError(f"{op} takes {arity} operands, not {len(operands)}")
        block = self.block
        instr = Instr(type, self.location, op, list(operands), attrs, block)
        block.instructions.append(instr)
        return instr

    def const(self, value: Any, type: Type) -> Instr:
        block = self.block
        instr = Instr(type, self.location, "const", [], {"value": value}, block)
        block.instructions.append(instr)
        return instr

    def jump(self, target: Block) -> Instr:
        target.predecessors.append(self.block)
        return self.emit("jump", none, target=target)

    def branch(self, condition: Value, then: Block, otherwise: Block) -> Instr:
        then.predecessors.append(self.block)
        otherwise.predecessors.append(self.block)
        return self.emit("branch", none, condition, **{"then": then, "else": otherwise})

    def ret(self, *value: Value) -> Instr:
        return self.emit("return", none, *value)


def replace_uses(function: Function, changes: dict[Value, Value]) -> None:
    """Replaces operands throughout ``function``; chains of changes are followed."""

    def final(value: Value) -> Value:
        while value in changes:
            value = changes[value]
        return value

    for block in function.blocks:
        for instr in block.instructions:
            for value in instr.operands:
                if value in changes:
                    instr.operands = [final(one) for one in instr.operands]
                    break


def element_type(array: Type) -> Type:
    """The element type of an array type."""
    assert isinstance(array, Array)
    return array.dtype
