# SPDX-License-Identifier: Apache-2.0
"""HIR to typed IR: types by a fixpoint over reachable blocks, then one pass that makes the IR.

Inference is sparse conditional constant propagation with types: a block is looked at only once an edge to it can be
taken, so a branch on a constant prunes the dead side before it is typed; a phi joins what arrives over such edges
(constants that differ become their type, weak numbers take the typed side's type); passes repeat until no operand's
key changes. Diagnostics are those of the last pass, so that a type that was merely too narrow at first is never
reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_
from typing import Any

from cudabuild.errors import Diagnostic, Location
from cudabuild.frontend.callee import Callee
from cudabuild.frontend.context import Context
from cudabuild.frontend.diagnostics import KERNEL_RETURNS, DiagnosticSink, Refusal
from cudabuild.frontend.evaluate import evaluate
from cudabuild.frontend.free_names import FreeNames
from cudabuild.frontend.iteration import Unrolling
from cudabuild.frontend.joins import check_joins
from cudabuild.frontend.operands import (
    Conflict,
    NoneOperand,
    Operand,
    OptionalOperand,
    Poison,
    TupleOperand,
    Undefined,
    Unknown,
    const_of,
    describe,
    is_const,
    join,
    key_of,
    leaves_of,
    map_leaves,
)
from cudabuild.frontend.replay import Record, pattern_of, replay
from cudabuild.frontend.shapes import as_parameter, expand, pour, rebuild
from cudabuild.frontend.specialise import Session, Specialisation
from cudabuild.frontend.tables import WEAK, Table
from cudabuild.ir.hir import HirBlock, HirFunction, HirInstr, LoopKey
from cudabuild.ir.ir import Block, Function, Instr, Param, Value
from cudabuild.types import none

__all__ = ["FunctionInference"]

_MOST_PASSES = 200

_UNKNOWN = Unknown()

#: Operations whose result depends on more than their operands: on what the variables of this function are by now.
_SEE_MORE = frozenset({"function", "refresh"})

#: Tuples inside one another in a result; deeper ones come of a recursion that wraps its own result.
_DEEPEST_RESULT = 16


class FunctionInference:
    """Types of one function for one list of argument operands.

    Attributes:
        name: of the specialisation; "" for the kernel.
        table: how numbers meet in it.
        callee: the function.
        called: the device functions that it calls, as of the last pass, and where.
        settled: whether the types are final.
        waits_for: how many functions deep in the chain of those being typed the outermost one lies whose result it
            needs; its own depth if it needs none.
        records: what each operation was made into when it was last looked at.
        result: what the function returns: an operand (its type, constant or compile-time object), or None while no
            return has been reached.
    """

    def __init__(
        self,
        session: Session,
        callee: Callee,
        hir: HirFunction,
        sink: DiagnosticSink,
        arguments: Sequence[Operand],
        *,
        is_kernel: bool,
        name: str = "",
        table: Table = WEAK,
    ) -> None:
        self.table = table
        self.session = session
        self.name = name
        self.callee = callee
        self.settled = False
        self.waits_for = 0
        self.called: dict[Specialisation, Location] = {}
        self.unrolled: dict[LoopKey, int] = {}
        self.free = FreeNames(callee.function, hir.locals)
        self.hir = hir
        self.syntax = sink
        self.typing = DiagnosticSink(sink.source, sink.name, table)
        self.arguments = list(arguments)
        self.is_kernel = is_kernel
        self.states: dict[HirInstr, Operand] = {}
        self._looked_at: dict[HirInstr, list[Operand | None]] = {}  # with which operands, where nothing else counts
        self._calls_at: dict[HirInstr, tuple[Specialisation, ...]] = {}  # what it called then, where it called any
        self._patterns: dict[Any, Record] = {}  # what was made of operations that are alike
        self._uses: dict[HirInstr, set[HirBlock]] = {}  # the blocks that a value is looked at from outside
        self._quiet: set[HirBlock] = set()  # blocks whose operations are what they were when last looked at
        self._restless = False  # whether the block at hand has an operation that must be looked at again
        self.records: dict[HirInstr, Record] = {}
        self.edges: set[tuple[HirBlock, HirBlock]] = set()
        self.result: Operand | None = None

    @property
    def diagnostics(self) -> list[Diagnostic]:
        return [*self.syntax.diagnostics, *self.typing.diagnostics]

    @property
    def refused(self) -> bool:
        """Whether something in the function has no result."""
        return self.syntax.refused or self.typing.refused

    # the fixpoint

    def run(self) -> None:
        for instr in self._calls_at:  # what a call means depends on the functions that are being typed
            del self._looked_at[instr]
        self._calls_at.clear()
        self._patterns.clear()
        self._quiet.clear()
        for _ in range(_MOST_PASSES):
            before = key_of(self.result)
            try:
                changed = self._pass()
            except Unrolling as request:
                self._unroll(request)
                continue
            if not changed and key_of(self.result) == before:
                check_joins(self)
                self.settled = True
                return
            if _depth(self.result) > _DEEPEST_RESULT:
                break
        recursive = self.result is not None and _depth(self.result) > _DEEPEST_RESULT
        what = (
            "Return type of recursive function does not converge" if recursive else "a variable's type changes for ever"
        )
        refusal = Refusal(
            "types that grow without end",
            found=f"{self.hir.name}: {what}",
            expected="a result of the same type on every path"
            if recursive
            else "variables that keep their types from one turn of a loop to the next",
            do="return values of a fixed number of elements, and loop instead of nesting tuples"
            if recursive
            else "build no tuples or functions of themselves in a loop",
        )
        self.typing.add(refusal, self.hir.location)
        self.result = Poison()
        self.settled = True

    def _unroll(self, request: Unrolling) -> None:
        """Starts again, with one more loop written out."""
        if request.turns is None:
            del self.unrolled[request.loop]
        else:
            self.unrolled[request.loop] = request.turns
        self.hir, self.syntax = self.session.hir(self.callee, self.unrolled)
        self.edges.clear()
        for noted in (self.states, self.records, self._looked_at, self._calls_at, self._uses):
            noted.clear()
        self._quiet.clear()

    def _pass(self) -> bool:
        """Looks at every reachable block once; True if anything changed."""
        self.typing = DiagnosticSink(self.syntax.source, self.syntax.name, self.table)
        self.called = {}
        changed = False
        reached = {self.hir.blocks[0]} | {target for _, target in self.edges}
        context = Context(Block("scratch"), self.session, inferring=True, table=self.table)
        for block in self.hir.blocks:
            if block not in reached:
                continue
            if block in self._quiet:
                self._note_calls(block)
            elif self._look_at(context, block):
                changed = True
            assert block.end is not None
            for target in self._targets(block.end):
                if (block, target) not in self.edges:
                    self.edges.add((block, target))
                    self._quiet.discard(target)
                    changed = True
                reached.add(target)
        context.builder.block.instructions = []  # records hold what they need
        return changed

    def release(self) -> None:
        """Lets go of what was found out, once the IR is made."""
        for noted in (self.states, self.records, self._looked_at, self._calls_at, self._patterns, self._uses):
            noted.clear()
        for block in self.hir.blocks:
            block.instructions.clear()

    def _look_at(self, context: Context, block: HirBlock) -> bool:
        """Looks at the operations of a block; True if an operand's key changed."""
        states, uses = self.states, self._find_uses()
        changed = False
        self._restless = False
        for instr in block.instructions[:-1]:  # the last one ends it
            new = self._state(context, instr)
            old = states.get(instr)
            if new is not old and (old is None or key_of(old) != key_of(new)):
                states[instr] = as_parameter(new) if instr.op == "phi" else new  # it is none of its operands
                changed = True
                users = uses.get(instr)
                if users is not None:
                    self._quiet -= users
                    self._restless = self._restless or block in users
        if not self._restless:
            self._quiet.add(block)
        return changed

    def _note_calls(self, block: HirBlock) -> None:
        for instr in block.instructions if self._calls_at else ():
            for specialisation in self._calls_at.get(instr, ()):
                self.called.setdefault(specialisation, instr.location)

    def _find_uses(self) -> dict[HirInstr, set[HirBlock]]:
        if not self._uses:
            for block in self.hir.blocks:
                for instr in block.instructions:
                    for value in instr.operands:
                        if value is not None and (value.block is not block or instr.op == "phi"):
                            self._uses.setdefault(value, set()).add(block)
        return self._uses

    def _state(self, context: Context, instr: HirInstr) -> Operand:
        if instr.op == "phi":
            return self._join(instr)
        if instr.op == "param":
            return expand(context, self.callee.own(self.arguments, instr.attrs["index"]))
        states = self.states
        operands = [None if v is None else states.get(v, _UNKNOWN) for v in instr.operands]
        before = self._looked_at.get(instr)
        if before is not None and all(map(is_, before, operands)):
            for specialisation in self._calls_at.get(instr, ()):
                self.called.setdefault(specialisation, instr.location)
            return states[instr]
        pattern = pattern_of(instr, operands, self.free.locals)
        known = self._patterns.get(pattern)
        if known is not None and (made := known.made_alike()) is not None:
            return self._keep(instr, operands, known, made)
        context.at(instr.location, (self, instr))
        written = context.builder.block.instructions
        start = len(written)
        if known is not None:
            made = replay(context, known, operands)
            if made is not None:
                return self._keep(instr, operands, Record(operands, written[start:], made, known.called), made)
        calls = self.session.calls
        try:
            # A copy: where a variable has no value, numba's rules put a zero in the place of the operand.
            made = evaluate(context, instr, list(operands), self.free)
        except Refusal as refusal:
            self.typing.add(refusal, self._place(instr, refusal))
            self._restless = True
            return Poison()
        for complaint in context.complaints:
            self.typing.add(complaint, self._place(instr, complaint), complaint=True)
        if context.complaints:  # to be told again by the next pass, if that is the last
            self._restless = True
            return made
        record = Record(operands, written[start:], made, tuple(context.called))
        settled = all(one is not None and one.inference.settled for one in context.called)  # results are final
        if instr.op in _SEE_MORE if self.session.calls == calls else not settled:
            self.records[instr] = record
            self._restless = True
            return made
        if pattern is not None and record.is_anywhere:
            self._patterns[pattern] = record
        return self._keep(instr, operands, record, made)

    def _keep(self, instr: HirInstr, operands: list[Operand | None], record: Record, made: Operand) -> Operand:
        """Notes what an operation is, for as long as its operands stay what they are."""
        self.records[instr] = record
        self._looked_at[instr] = operands
        if record.called:
            self._calls_at[instr] = record.called
            for specialisation in record.called:
                self.called.setdefault(specialisation, instr.location)
        return made

    def _place(self, instr: HirInstr, refusal: Refusal) -> Location:
        if refusal.operand is not None and refusal.operand < len(instr.nodes):
            return self.syntax.source.locate(instr.nodes[refusal.operand])
        return instr.location

    def _join(self, phi: HirInstr) -> Operand:
        state = self.states.get(phi)
        assert phi.block is not None
        for operand, predecessor in zip(phi.operands, phi.block.predecessors, strict=True):
            assert operand is not None
            if (predecessor, phi.block) in self.edges and operand in self.states:
                state = join(phi.attrs["variable"], state, self.states[operand], Value, self.table)
        return Unknown() if state is None else state

    def _targets(self, end: HirInstr) -> list[HirBlock]:
        if end.op == "jump":
            return [end.attrs["target"]]
        if end.op == "return":
            self._return(end)
            return []
        condition = self.states.get(end.operands[0]) if end.operands[0] is not None else None
        if condition is None or isinstance(condition, Unknown):
            return []
        if is_const(condition):
            return [end.attrs["then" if const_of(condition) else "else"]]
        return [end.attrs["then"], end.attrs["else"]]

    def _return(self, end: HirInstr) -> None:
        if end.attrs.get("raised"):
            return
        value: Operand = NoneOperand()
        if end.operands and end.operands[0] is not None:
            value = self.states.get(end.operands[0], Unknown())
        if isinstance(value, Unknown):
            return
        if self.is_kernel:
            if not isinstance(value, (NoneOperand, Poison)):
                refusal = Refusal(
                    KERNEL_RETURNS,
                    found=f"return of {describe(value)}",
                    expected="'return' without a value",
                    do="store the result in an element of an array argument",
                )
                refusal.operand = 0
                self.typing.add(refusal, self._place(end, refusal))
            self.result = NoneOperand()
            return
        if isinstance(value, Undefined):
            if self.result is None:
                self._refuse_undefined(end, value)
            return
        joined = join("the result", self.result, value, Value, self.table)
        if isinstance(joined, Conflict):
            refusal = Refusal(
                "the paths of a function return different things",
                found=f"{joined.first} on one path, {joined.second} on another",
                expected="results that convert into one another, on every path",
                do="return the same kind of value everywhere",
            )
            self.typing.add(refusal, end.location)
            joined = Poison()
        self.result = joined

    def _refuse_undefined(self, end: HirInstr, value: Undefined) -> None:
        """No other path gives the function a result."""
        refusal = Refusal(
            f"variable {value.variable!r} has no value here",
            found=value.variable,
            expected="a variable that is assigned before it is returned",
            do=f"assign {value.variable} first",
            operand=0,
        )
        self.typing.add(refusal, self._place(end, refusal))

    # lowering

    def lower(self, into: Function) -> None:
        """Fills ``into`` (whose params and result are set) with blocks; only after ``run`` without diagnostics."""
        _Lowering(self, into).run()


class _Lowering:
    """One pass over the reachable blocks, with the types known."""

    def __init__(self, inference: FunctionInference, into: Function) -> None:
        self.inference = inference
        self.into = into
        reached = {inference.hir.blocks[0]} | {target for _, target in inference.edges}
        self.order = [block for block in inference.hir.blocks if block in reached]
        self.blocks = {block: Block(block.name) for block in self.order}
        self.origin = {made: block for block, made in self.blocks.items()}
        self.values: dict[HirInstr, Operand] = {}
        self.phis: list[tuple[HirInstr, Operand, list[Instr]]] = []
        params = iter(into.params)
        self.arguments = [
            map_leaves(argument, lambda leaf: leaf if is_const(leaf) else next(params))
            for argument in inference.arguments
        ]

    def run(self) -> None:
        self.into.blocks.extend(self.blocks.values())
        for block in self.order:
            context = Context(self.blocks[block], self.inference.session, inferring=False, table=self.inference.table)
            self._phis(context, block)
            for instr in block.instructions:
                if instr is block.end:
                    context.at(instr.location)
                    self._end(context, instr)
                elif instr.op != "phi":
                    self.values[instr] = self._value(context, instr)
        for phi, shape, made in self.phis:
            self._fill(phi, shape, made)

    def _phis(self, context: Context, block: HirBlock) -> None:
        """Phi instructions first, then the constants and tuples that stand for phis without one."""
        for phi in [instr for instr in block.instructions if instr.op == "phi"]:
            context.at(phi.location)
            shape = self.inference.states.get(phi, Unknown())
            made = [context.emit("phi", leaf.type) for leaf in leaves_of(shape)]
            for one in made:
                one.hint = "" if phi.attrs["variable"].startswith("<") else phi.attrs["variable"]
            self.phis.append((phi, shape, made))
        for phi, shape, made in self.phis:
            if phi.block is block:
                context.at(phi.location)
                self.values[phi] = rebuild(context, shape, made)

    def _value(self, context: Context, instr: HirInstr) -> Operand:
        if instr.op == "param":
            argument = self.inference.callee.own(self.arguments, instr.attrs["index"])
            return expand(context, map_leaves(argument, lambda leaf: self._constant(context, leaf)))
        record = self.inference.records.get(instr)
        if record is not None and record.is_static:
            return record.made
        context.at(instr.location, (self.inference, instr))
        if record is not None:
            made = replay(context, record, [None if v is None else self.values.get(v) for v in instr.operands])
            if made is not None:
                return made
        operands = [None if v is None else self.values.get(v, Unknown()) for v in instr.operands]
        return evaluate(context, instr, operands, self.inference.free)

    def _constant(self, context: Context, leaf: Value) -> Value:
        """A constant of the caller's, as an instruction of this function."""
        return context.const(const_of(leaf), leaf.type) if is_const(leaf) else leaf

    def _end(self, context: Context, end: HirInstr) -> None:
        targets = self.inference._targets(end) if end.op != "return" else []
        if end.op == "return":
            self._return(context, end)
        elif len(targets) == 1:
            context.builder.jump(self.blocks[targets[0]])
        else:
            condition = self.values[end.operands[0]] if end.operands[0] is not None else None
            assert isinstance(condition, Value)
            context.builder.branch(condition, self.blocks[targets[0]], self.blocks[targets[1]])

    def _return(self, context: Context, end: HirInstr) -> None:
        kind = self.into.result
        result = self.inference.result
        if kind == none or result is None:
            context.builder.ret()
        elif end.attrs.get("raised"):  # nobody looks at the result
            context.builder.ret(context.emit("undef", kind))
        else:
            value = self.values[end.operands[0]] if end.operands and end.operands[0] is not None else NoneOperand()
            values = pour(context, result, value)
            context.builder.ret(values[0] if len(values) == 1 else context.emit("tuple", kind, *values))

    def _fill(self, phi: HirInstr, shape: Operand, made: list[Instr]) -> None:
        """The operands of a phi's instructions, converted at the end of each predecessor."""
        assert phi.block is not None
        target = self.blocks[phi.block]
        incoming = dict(zip(phi.block.predecessors, phi.operands, strict=True))
        for predecessor in target.predecessors:
            operand = incoming[self.origin[predecessor]]
            assert operand is not None
            source = self.values.get(operand, Undefined(phi.attrs["variable"]))
            context = Context(predecessor, self.inference.session, inferring=False, table=self.inference.table)
            context.at(phi.location)
            end = predecessor.instructions.pop()
            for one, value in zip(made, pour(context, shape, source), strict=True):
                one.operands.append(value)
            predecessor.instructions.append(end)


def _depth(operand: Operand | None) -> int:
    """How many tuples lie inside one another."""
    if isinstance(operand, OptionalOperand):
        return _depth(operand.value)
    if isinstance(operand, TupleOperand):
        return 1 + max(map(_depth, operand.elements), default=0)
    return 0


def params_of(arguments: Sequence[Operand], names: Sequence[str], location: Location | None) -> list[Param]:
    """An IR parameter for every run-time value in the arguments, in order."""
    params: list[Param] = []
    for argument, name in zip(arguments, names, strict=True):
        leaves = leaves_of(argument)
        for number, leaf in enumerate(leaves):
            own = name if len(leaves) == 1 else f"{name}_{number}"
            params.append(Param(leaf.type, location, own, len(params)))
    return params
