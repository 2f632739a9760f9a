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
from types import FunctionType
from typing import Any

from cudabuild.errors import Diagnostic, Location
from cudabuild.frontend.context import Context
from cudabuild.frontend.diagnostics import DiagnosticSink, Refusal
from cudabuild.frontend.evaluate import FreeNames, evaluate
from cudabuild.frontend.operands import (
    Conflict,
    NoneOperand,
    Operand,
    Poison,
    TupleOperand,
    Undefined,
    Unknown,
    const_of,
    describe,
    is_const,
    join,
    key_of,
)
from cudabuild.frontend.specialise import Session
from cudabuild.frontend.tables import WEAK, Table
from cudabuild.ir.hir import HirBlock, HirFunction, HirInstr
from cudabuild.ir.ir import Block, Function, Param, Value
from cudabuild.types import none

__all__ = ["FunctionInference"]

_MOST_PASSES = 200


class FunctionInference:
    """Types of one function for one list of argument operands.

    Attributes:
        name: of the specialisation; "" for the kernel.
        table: how numbers meet in it.
        result: what the function returns: an operand (its type, constant or compile-time object), or None while no
        return has
            been reached.
    """

    def __init__(
        self,
        session: Session,
        function: FunctionType,
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
        self.function = function
        self.settled = False
        self.free = FreeNames(function)
        self.hir = hir
        self.syntax = sink
        self.typing = DiagnosticSink(sink.source, sink.name)
        self.arguments = list(arguments)
        self.is_kernel = is_kernel
        self.states: dict[HirInstr, Operand] = {}
        self.edges: set[tuple[HirBlock, HirBlock]] = set()
        self.result: Operand | None = None

    @property
    def diagnostics(self) -> list[Diagnostic]:
        return [*self.syntax.diagnostics, *self.typing.diagnostics]

    # the fixpoint

    def run(self) -> None:
        for _ in range(_MOST_PASSES):
            before = key_of(self.result)
            if not self._pass() and key_of(self.result) == before:
                self.settled = True
                return
        raise AssertionError(f"types of {self.hir.name} do not settle")

    def _pass(self) -> bool:
        """Looks at every reachable block once; True if anything changed."""
        self.typing = DiagnosticSink(self.syntax.source, self.syntax.name)
        changed = False
        reached = {self.hir.blocks[0]} | {target for _, target in self.edges}
        context = Context(Block("scratch"), self.session, inferring=True, table=self.table)
        for block in self.hir.blocks:
            if block not in reached:
                continue
            for instr in block.instructions:
                if instr is block.end:
                    for target in self._targets(instr):
                        if (block, target) not in self.edges:
                            self.edges.add((block, target))
                            changed = True
                        reached.add(target)
                    continue
                new = self._state(context, instr)
                old = self.states.get(instr)
                if old is None or key_of(old) != key_of(new):
                    self.states[instr] = new
                    changed = True
        return changed

    def _state(self, context: Context, instr: HirInstr) -> Operand:
        if instr.op == "phi":
            return self._join(instr)
        if instr.op == "param":
            index: int = instr.attrs["index"]
            return self.arguments[index]
        context.at(instr.location, (self, instr), self._allocation_key(instr))
        operands = [None if v is None else self.states.get(v, Unknown()) for v in instr.operands]
        try:
            return evaluate(context, instr, operands, self.free)
        except Refusal as refusal:
            self.typing.add(refusal, self._place(instr, refusal))
            return Poison()

    def _allocation_key(self, instr: HirInstr) -> str:
        # By specialisation: each may give the array another shape or type, as a template's instances do in CUDA C++.
        where = instr.location
        return f"{self.name}:{where.line}:{where.column}"

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
                    "a kernel returns a value",
                    found=f"return of {describe(value)}",
                    expected="'return' without a value",
                    do="store the result in an element of an array argument",
                )
                refusal.operand = 0
                self.typing.add(refusal, self._place(end, refusal))
            self.result = NoneOperand()
            return
        if isinstance(value, Undefined):
            value = Poison()
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
        self.phis: list[tuple[HirInstr, Operand]] = []

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
        for phi, made in self.phis:
            self._fill(phi, made)

    def _phis(self, context: Context, block: HirBlock) -> None:
        """Phi instructions first, then the constants and tuples that stand for phis without one."""
        phis = [instr for instr in block.instructions if instr.op == "phi"]
        parts: list[tuple[HirInstr, Operand, list[Value]]] = []
        for phi in phis:
            state = self.inference.states.get(phi, Unknown())
            made: list[Value] = []
            context.at(phi.location)
            self._make_phis(context, state, made, phi.attrs["variable"])
            parts.append((phi, state, made))
        for phi, state, made in parts:
            context.at(phi.location)
            operand = self._assemble(context, state, iter(made))
            self.values[phi] = operand
            self.phis.append((phi, operand))

    def _make_phis(self, context: Context, state: Operand, made: list[Value], variable: str) -> None:
        if isinstance(state, TupleOperand):
            for element in state.elements:
                self._make_phis(context, element, made, variable)
        elif isinstance(state, Value) and not is_const(state):
            phi = context.emit("phi", state.type)
            phi.hint = "" if variable.startswith("<") else variable
            made.append(phi)

    def _assemble(self, context: Context, state: Operand, made: Any) -> Operand:
        if isinstance(state, TupleOperand):
            return TupleOperand(tuple(self._assemble(context, element, made) for element in state.elements))
        if isinstance(state, Value):
            return context.const(const_of(state), state.type) if is_const(state) else next(made)
        return state

    def _value(self, context: Context, instr: HirInstr) -> Operand:
        if instr.op == "param":
            return self._argument(context, instr.attrs["index"])
        context.at(instr.location, (self.inference, instr), self.inference._allocation_key(instr))
        operands = [None if v is None else self.values.get(v, Unknown()) for v in instr.operands]
        return evaluate(context, instr, operands, self.inference.free)

    def _argument(self, context: Context, index: int) -> Operand:
        for param in self.into.params:
            if param.index == index:
                return param
        argument = self.inference.arguments[index]
        if isinstance(argument, Value) and is_const(argument):
            return context.const(const_of(argument), argument.type)
        return argument

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
        if self.into.result == none:
            context.builder.ret()
        elif end.operands and end.operands[0] is not None:
            context.builder.ret(context.convert(self.values[end.operands[0]], self.into.result))
        else:  # after a raise: nobody looks at the result
            context.builder.ret(context.emit("undef", self.into.result))

    def _fill(self, phi: HirInstr, made: Operand) -> None:
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
            self._fill_one(context, made, source)
            predecessor.instructions.append(end)

    def _fill_one(self, context: Context, made: Operand, source: Operand) -> None:
        if isinstance(made, TupleOperand):
            elements = context.elements(source)
            missing: tuple[Operand, ...] = (source,) * len(made.elements)
            for part, value in zip(made.elements, missing if elements is None else elements, strict=True):
                self._fill_one(context, part, value)
        elif isinstance(made, Value) and not is_const(made):
            phi: Any = made
            if isinstance(source, (Undefined, Unknown, Poison)):
                phi.operands.append(context.emit("undef", made.type))
            else:
                phi.operands.append(context.convert(source, made.type))


def params_of(arguments: Sequence[Operand], names: Sequence[str], location: Location | None) -> list[Param]:
    """An IR parameter for every argument that is run-time data."""
    return [
        Param(argument.type, location, name, index)
        for index, (argument, name) in enumerate(zip(arguments, names, strict=True))
        if isinstance(argument, Value) and not is_const(argument)
    ]
