# SPDX-License-Identifier: Apache-2.0
"""The untyped HIR: the function's meaning as basic blocks in SSA form, before any type is known.

Grammar (an operation's operands are values; ``a?`` may be None)::

    const value              name identifier            param index          undef variable
    phi …                    binary(a, b) operator      unary(a) operator    compare(a, b) operator
    truth(a)                 logical(a, b) operator     attribute(a) name    item(a, index)
    set_item(a, index, v)    set_attribute(a, v) name call(f, args…) keywords   tuple(…)
    slice(a?, b?, c?)
    unpack(a) index count    poison                     iterate(a)           steps(iterator)
    first(iterator)          more(iterator, k, steps)   step(iterator, k)    advance(iterator, k)
    function(captured…, defaults…) inner          refresh(a, captured…) names   refused refusal
    length(a) least most     end: jump target | branch(a) then else | return(a?)

``name`` is a free name (global, closure or builtin). ``logical`` evaluates both sides: the builder uses it where the
right-hand side is cheap and cannot fail, so that no branch remains. ``iterate`` to ``advance`` are the counted loop
that every ``for`` becomes: what is iterated over, how many steps it takes, where it begins, whether there is more,
the item at a position and the next position. ``raise(class?) message`` records a fault under debug;
the class is an operand or the attribute ``exception``. ``poison`` stands for what was refused already; ``refused`` is
syntax that is refused if it is ever reached. ``function`` is a function written inside this one; ``refresh`` is its
operand, with what the captured variables of this function are by now if it is, or holds, such a function. ``unpack``
has the attribute ``star`` where one of the targets takes all that is left over.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Any

from cudabuild.errors import Location
from cudabuild.source import FunctionSource

__all__ = ["HirBlock", "HirFunction", "HirInstr", "InnerFunction", "LoopKey", "format_hir"]

#: Which ``for`` it is: the turns of the unrolled loops around it, its line and its column.
LoopKey = tuple[tuple[int, ...], int, int]


@dataclass(eq=False, repr=False, slots=True)
class HirInstr:
    """One operation; also the value it makes.

    ``nodes`` are the expressions that the operands were written as, where the operands' own places would mislead: a
    variable's value was made elsewhere.
    """

    op: str
    operands: list[HirInstr | None]
    attrs: dict[str, Any]
    location: Location
    block: HirBlock | None = None
    nodes: tuple[ast.AST, ...] = ()

    def __repr__(self) -> str:  # not the operands, and theirs: these may be as many as there are paths to here
        return f"<HirInstr {self.op} at {self.location}>"


@dataclass(eq=False)
class InnerFunction:
    """A function or lambda written inside another.

    Attributes:
        source: its text and tree.
        captured: the variables of functions around it that it reads; parameters of its HIR, behind its own.
    """

    source: FunctionSource
    captured: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.source.tree.name

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(self.captured)})"


@dataclass(eq=False, repr=False, slots=True)
class HirBlock:
    """A basic block of the untyped form."""

    name: str
    instructions: list[HirInstr] = field(default_factory=list)
    predecessors: list[HirBlock] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"<HirBlock {self.name}>"

    @property
    def end(self) -> HirInstr | None:
        last = self.instructions[-1] if self.instructions else None
        return last if last is not None and last.op in ("jump", "branch", "return") else None

    @property
    def successors(self) -> list[HirBlock]:
        end = self.end
        if end is None or end.op == "return":
            return []
        return [end.attrs["target"]] if end.op == "jump" else [end.attrs["then"], end.attrs["else"]]


@dataclass(eq=False)
class HirFunction:
    """A function before typing; ``blocks`` are in reverse post-order, the first is the entry.

    ``parameters`` are its own and then the variables that it captures; ``locals`` are all names that it does not take
    from its module.
    """

    name: str
    parameters: list[str]
    blocks: list[HirBlock]
    location: Location
    locals: frozenset[str] = frozenset()


def format_hir(function: HirFunction) -> str:
    """The text of an HIR function, one operation a line."""
    names: dict[HirInstr, str] = {}
    for block in function.blocks:
        for instr in block.instructions:
            names[instr] = f"%{len(names)}"
    lines = [f"function {function.name}({', '.join(function.parameters)})"]
    for block in function.blocks:
        lines.append(f"{block.name}:")
        for instr in block.instructions:
            operands = ", ".join("-" if v is None else names.get(v, "%?") for v in instr.operands)
            attrs = " ".join(
                f"{key}={value.name if isinstance(value, HirBlock) else value!r}" for key, value in instr.attrs.items()
            )
            text = " ".join(part for part in (instr.op, operands, attrs) if part)
            lines.append(f"  {text}" if instr is block.end else f"  {names[instr]} = {text}")
    return "\n".join(lines) + "\n"
