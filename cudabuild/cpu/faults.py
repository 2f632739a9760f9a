# SPDX-License-Identifier: Apache-2.0
"""Faults of kernels on this computer: how a thread records one, and which launches need not look for them.

A check of an index that follows from what a launch knows (``ir/bounds.py``: ``n - x.size - 1 < 0``) is made once, when
a worker begins. A loop kernel is then there twice, the checks folded away in the copy that such launches run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cudabuild.backend.text import Operand
from cudabuild.ir.ir import Instr, Param

if TYPE_CHECKING:
    from cudabuild.backend.emit import FunctionEmitter
    from cudabuild.ir.ir import Value
    from cudabuild.ir.linear import Linear

__all__ = ["FAULT", "Condition", "Term", "make_condition"]

#: Records the first fault of a launch. Where blocks run as one, ``%thread`` counts the threads of all of them.
FAULT = """
define internal void @schedule.fault(ptr %block, i32 %thread, i32 %site, i64 %index, i64 %extent) cold noinline {
entry:
  %launch.at = getelementptr inbounds i8, ptr %block, i64 $block_launch
  %launch = load ptr, ptr %launch.at
  %fault.at = getelementptr inbounds i8, ptr %launch, i64 $launch_fault
  %seen = load atomic i32, ptr %fault.at monotonic, align 4
  %early = icmp eq i32 %seen, 0
  br i1 %early, label %try, label %done
try:
  %pair = cmpxchg ptr %fault.at, i32 0, i32 %site monotonic monotonic
  %won = extractvalue { i32, i1 } %pair, 1
  br i1 %won, label %record, label %done
record:
  %number.at = getelementptr inbounds i8, ptr %block, i64 $block_number
  %number = load i64, ptr %number.at
  %width.at = getelementptr inbounds i8, ptr %block, i64 $block_ntid_x
  %width = load i32, ptr %width.at
  %wide.at = getelementptr inbounds i8, ptr %block, i64 $block_wide
  %wide = load i32, ptr %wide.at
  %row.x = mul nuw nsw i32 %width, %wide
  %x.all = urem i32 %thread, %row.x
  %further = udiv i32 %x.all, %width
  %further.64 = zext nneg i32 %further to i64
  %number.own = add nuw nsw i64 %number, %further.64
  %block.to = getelementptr inbounds i8, ptr %launch, i64 $launch_fault_block
  store i64 %number.own, ptr %block.to
  %x = urem i32 %x.all, %width
  %row = udiv i32 %thread, %row.x
  %row.thread = mul nuw nsw i32 %row, %width
  %thread.own = add nuw nsw i32 %row.thread, %x
  %thread.to = getelementptr inbounds i8, ptr %launch, i64 $launch_fault_thread
  store i32 %thread.own, ptr %thread.to
  %index.to = getelementptr inbounds i8, ptr %launch, i64 $launch_fault_index
  store i64 %index, ptr %index.to
  %extent.to = getelementptr inbounds i8, ptr %launch, i64 $launch_fault_extent
  store i64 %extent, ptr %extent.to
  br label %done
done:
  ret void
}
"""


@dataclass(frozen=True)
class Term:
    """``factor`` times the product of ``names``: arguments of the plan, or ``ntid.x`` … ``nctaid.z``; all integers."""

    factor: int
    names: tuple[str, ...]
    signed: bool


#: A sum of terms and a constant, which must be negative.
Condition = tuple[tuple[Term, ...], int]


def make_condition(emitter: FunctionEmitter, form: Linear) -> Condition | None:
    """``form``, whose atoms are what ``ir/bounds.py`` names, in the schedule's words; None if it has none for one."""
    terms = []
    for atom, factor in form[0].items():
        term = _make_term(emitter, atom, factor)
        if term is None:
            return None
        terms.append(term)
    return tuple(terms), form[1]


def _make_term(emitter: FunctionEmitter, atom: Value, factor: int) -> Term | None:
    if isinstance(atom, Instr) and atom.op == "gridsize":
        axis = "xyz"[atom.attrs["axis"]]
        return Term(factor, (f"ntid.{axis}", f"nctaid.{axis}"), False)
    if isinstance(atom, Instr) and atom.op == "sreg":
        return Term(factor, (atom.attrs["register"],), False)
    leaf: Operand | None = None
    if isinstance(atom, Param):
        leaf = emitter.leaves[atom][0]
    elif isinstance(atom, Instr) and atom.op == "dim":
        leaf = emitter.leaves[atom.operands[0]][1 + int(atom.attrs["axis"])]
    if leaf is None or not leaf.text.startswith("%arg"):
        return None
    return Term(factor, (leaf.text[1:],), leaf.signed)
