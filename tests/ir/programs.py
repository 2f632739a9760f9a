# SPDX-License-Identifier: Apache-2.0
"""Random small kernels as typed IR: structured control flow over integers of several types, in SSA form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from cudabuild.ir.ir import Block, Builder, Function, Instr, Param, Value
from cudabuild.ir.printer import format_function
from cudabuild.types import Integer, Type, bool_, int8, int32, int64, none, uint8, uint32, weak_int

__all__ = ["INTERESTING", "programs"]

INTERESTING = [
    0, 1, 2, 3, 5, 7, 16, 31, 63, 100, 127, 128, 255, 256, 1000, 2**15, 2**31 - 2, 2**31 - 1, 2**31, 2**32 - 1, 2**32,
    2**62, 2**63 - 2, 2**63 - 1,
]  # fmt: skip
_KINDS = (weak_int, weak_int, weak_int, int32, int32, uint32, int64, int8, uint8)
_BINARY = (
    "add", "add", "add", "sub", "sub", "mul", "min", "max", "floordiv", "mod", "and", "or", "xor", "shl", "shr",
)  # fmt: skip
_PREDICATES = ("lt", "lt", "le", "gt", "ge", "eq", "ne")


class Program(Function):
    """A function that hypothesis shows as text, not field by field through all its cycles."""

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text("\n" + format_function(self))


class _Ssa:
    """Variables to SSA values while blocks are built (Braun et al.: a phi where a block is not finished yet)."""

    def __init__(self) -> None:
        self.current: dict[Block, dict[str, Value]] = {}
        self.waiting: dict[Block, dict[str, Instr]] = {}
        self.sealed: set[Block] = set()

    def write(self, name: str, block: Block, value: Value) -> None:
        self.current.setdefault(block, {})[name] = value

    def read(self, name: str, block: Block, kind: Type) -> Value:
        known = self.current.setdefault(block, {}).get(name)
        if known is not None:
            return known
        if block not in self.sealed:
            phi = self._phi(block, kind)
            self.waiting.setdefault(block, {})[name] = phi
            value: Value = phi
        elif len(block.predecessors) == 1:
            value = self.read(name, block.predecessors[0], kind)
        else:
            phi = self._phi(block, kind)
            self.write(name, block, phi)
            phi.operands = [self.read(name, p, kind) for p in block.predecessors]
            value = phi
        self.write(name, block, value)
        return value

    def seal(self, block: Block) -> None:
        self.sealed.add(block)
        for name, phi in self.waiting.pop(block, {}).items():
            phi.operands = [self.read(name, p, phi.type) for p in block.predecessors]

    @staticmethod
    def _phi(block: Block, kind: Type) -> Instr:
        phi = Instr(kind, None, "phi", [], {}, block)
        block.instructions.insert(len(block.phis), phi)
        return phi


class _Generator:
    """Draws a program; every choice goes through hypothesis, so that failures shrink."""

    def __init__(self, draw: Callable[[Any], Any]) -> None:
        self.draw = draw
        self.ssa = _Ssa()
        self.blocks: list[Block] = []
        self.named = 0
        self.params = [
            Param(weak_int, None, "p", 0), Param(weak_int, None, "q", 1), Param(int32, None, "r", 2),
            Param(int32[:, ::1], None, "x", 3), Param(int32[::1], None, "y", 4),
        ]  # fmt: skip
        self.variables: dict[str, Integer] = {}
        self.exits: list[tuple[Block, Block]] = []
        self.block: Block | None = self.new_block()
        self.ssa.seal(self.block)
        self.budget = 14

    def choose(self, options: Any) -> Any:
        return self.draw(st.sampled_from(options))

    def new_block(self) -> Block:
        block = Block(f"b{self.named}")
        self.named += 1
        self.blocks.append(block)
        return block

    @property
    def build(self) -> Builder:
        assert self.block is not None
        return Builder(self.block)

    # not ``self.build.emit(…)``: an operand may open a new block, and must be built before the builder is chosen

    def emit(self, op: str, kind: Type, *operands: Value, **attrs: Any) -> Instr:
        return self.build.emit(op, kind, *operands, **attrs)

    def branch(self, condition: Value, then: Block, otherwise: Block) -> None:
        self.build.branch(condition, then, otherwise)

    def start(self, block: Block) -> None:
        self.ssa.seal(block)
        self.block = block

    def program(self) -> Function:
        for index in range(3):
            self.variables[f"v{index}"] = self.choose(_KINDS)
        for name, kind in self.variables.items():
            self.assign(name, self.convert(self.choose(self.params[:3]), kind))
        self.statements(3)
        if self.block is not None:
            for name, kind in self.variables.items():
                self.store(self.read(name, kind))
            self.build.ret()
        return Program("program", self.params, none, self.blocks, True)

    def assign(self, name: str, value: Value) -> None:
        assert self.block is not None
        self.ssa.write(name, self.block, value)

    def read(self, name: str, kind: Type) -> Value:
        assert self.block is not None
        return self.ssa.read(name, self.block, kind)

    def convert(self, value: Value, kind: Integer) -> Value:
        return value if value.type == kind else self.emit("cast", kind, value)

    def store(self, value: Value) -> None:
        index = self.build.const(len(self.blocks), weak_int)
        self.emit("store", none, self.params[4], index, self.convert(value, int32))

    # statements

    def statements(self, depth: int) -> None:
        for _ in range(self.draw(st.integers(1, 3))):
            if self.block is None or self.budget <= 0:
                return
            self.budget -= 1
            kinds = ["assign", "assign", "step", "step", "store"]
            kinds += ["if", "if", "range", "while", "guarded", "counter", "counter", "until"] if depth > 0 else []
            kinds += ["break", "continue"] if self.exits else []
            getattr(self, f"stmt_{self.choose(kinds)}")(depth - 1)

    def stmt_assign(self, depth: int) -> None:
        name = self.choose(sorted(self.variables))
        kind = self.variables[name]
        self.assign(name, self.expression(kind, 2))

    def stmt_step(self, depth: int) -> None:
        name = self.choose(sorted(self.variables))
        kind = self.variables[name]
        by = self.build.const(self.choose((1, 1, 2, 3)), kind)
        self.assign(name, self.emit(self.choose(("add", "sub")), kind, self.read(name, kind), by))

    def stmt_store(self, depth: int) -> None:
        name = self.choose(sorted(self.variables))
        self.store(self.read(name, self.variables[name]))

    def stmt_if(self, depth: int) -> None:
        then, done = self.new_block(), self.new_block()
        otherwise = self.new_block() if self.draw(st.booleans()) else done
        self.branch(self.condition(2), then, otherwise)
        self.start(then)
        self.statements(depth)
        self.leave_to(done)
        if otherwise is not done:
            self.start(otherwise)
            self.statements(depth)
            self.leave_to(done)
        self.ssa.seal(done)
        self.block = done if done.predecessors else None
        if self.block is None:
            self.blocks.remove(done)

    def leave_to(self, target: Block) -> None:
        if self.block is not None:
            self.build.jump(target)
            self.block = None

    def stmt_guarded(self, depth: int) -> None:
        """``if v < bound: return`` and its like."""
        then, done = self.new_block(), self.new_block()
        self.branch(self.condition(1), then, done)
        self.start(then)
        self.build.ret()
        self.start(done)

    def stmt_while(self, depth: int) -> None:
        header, body, done = self.new_block(), self.new_block(), self.new_block()
        self.leave_to(header)
        self.block = header
        self.branch(self.condition(1), body, done)
        self.loop(header, body, header, done, depth)
        self.ssa.seal(header)

    def stmt_range(self, depth: int) -> None:
        """A range loop in one of the front end's two forms."""
        name = f"i{self.named}"
        kind = self.choose((weak_int, weak_int, int32))
        start, stop = self.bound(kind), self.bound(kind)
        zero, one = self.build.const(0, kind), self.build.const(1, kind)
        if self.draw(st.booleans()):
            step = self.build.const(self.choose((1, 2, 3, 16, -1, -2)), kind)
            value = step.attrs["value"]
            far, near = (stop, start) if value > 0 else (start, stop)
            size = self.build.const(abs(value), kind)
            room = self.emit("sub", kind, self.emit("sub", kind, far, one), near)
            count = self.emit("add", kind, self.emit("floordiv", kind, room, size), one)
            some = self.emit("cmp", bool_, near, far, predicate="lt")
            first, stop = zero, self.emit("select", kind, some, count, self.choose((zero, zero, one)))
        else:
            step, first = one, start
        header, body, advance, done = (self.new_block() for _ in range(4))
        self.assign(name, first)
        self.leave_to(header)
        self.block = header
        k = self.read(name, kind)
        self.branch(self.emit("cmp", bool_, k, stop, predicate=self.choose(("lt", "lt", "le"))), body, done)
        self.ssa.seal(body)
        self.block = body
        if first is zero:
            self.assign(f"{name}.value", self.emit("add", kind, start, self.emit("mul", kind, k, step)))
        else:
            self.assign(f"{name}.value", k)
        self.variables[f"{name}.value"] = kind
        self.loop(header, body, advance, done, depth)
        del self.variables[f"{name}.value"]
        self.ssa.seal(advance)
        if advance.predecessors:
            old = self.ssa.read(name, advance, kind)
            one = Builder(advance).const(1, kind)
            self.ssa.write(name, advance, Builder(advance).emit("add", kind, old, one))
            Builder(advance).jump(header)
        else:
            self.blocks.remove(advance)
        self.ssa.seal(header)

    def loop(self, header: Block, body: Block, again: Block, done: Block, depth: int) -> None:
        self.ssa.seal(body)
        self.block = body
        self.exits.append((again, done))
        self.statements(depth)
        self.exits.pop()
        self.leave_to(again)
        self.ssa.seal(done)
        self.block = done

    def stmt_break(self, depth: int) -> None:
        self.leave_to(self.exits[-1][1])

    def stmt_continue(self, depth: int) -> None:
        self.leave_to(self.exits[-1][0])

    # expressions

    def expression(self, kind: Integer, depth: int) -> Value:
        forms = ["const", "variable", "variable", "leaf", "load"]
        forms += ["binary", "binary", "binary", "unary", "select", "cast", "wrap"] if depth > 0 else []
        return getattr(self, f"expr_{self.choose(forms)}")(kind, depth - 1)

    def bound(self, kind: Integer) -> Value:
        """Where a loop begins or ends: mostly small, so that runs come to the very end of what ranges allow."""
        form = self.choose(("const", "clamped", "clamped", "any"))
        if form == "any":
            return self.expression(kind, 1)
        small = self.emit("const", kind, value=self.choose((-3, 0, 0, 1, 2, 3, 5, 9, 17) if kind.signed else (0, 1, 5)))
        if form == "const":
            return small
        return self.emit(
            "and", kind, self.expr_variable(kind, 0), self.emit("const", kind, value=self.choose((1, 3, 7)))
        )

    def stmt_counter(self, depth: int) -> None:
        """A loop with a counter beside its own variable, started and stopped within small bounds."""
        name = self.choose(sorted(self.variables))
        self.assign(name, self.bound(self.variables[name]))
        self.stmt_range(max(depth, 1))

    def stmt_until(self, depth: int) -> None:
        """``while v < bound: …; v += step``, up or down."""
        name = self.choose(sorted(self.variables))
        kind = self.variables[name]
        self.assign(name, self.bound(kind))
        up = self.draw(st.booleans())
        stop = self.bound(kind)
        header, body, done = self.new_block(), self.new_block(), self.new_block()
        again = self.new_block()
        self.leave_to(header)
        self.block = header
        predicate = self.choose(("lt", "le") if up else ("gt", "ge"))
        more = self.emit("cmp", bool_, self.read(name, kind), stop, predicate=predicate)
        if self.draw(st.booleans()):
            more = self.emit("and", bool_, more, self.condition(0))
        self.branch(more, body, done)
        self.loop(header, body, again, done, depth)
        self.block = again
        self.ssa.seal(again)
        if again.predecessors:
            by = self.build.const(self.choose((1, 1, 2, 3)), kind)
            self.assign(name, self.emit("add" if up else "sub", kind, self.read(name, kind), by))
            self.leave_to(header)
        else:
            self.blocks.remove(again)
        self.ssa.seal(header)
        self.block = done

    def expr_const(self, kind: Integer, depth: int) -> Value:
        value = self.choose(INTERESTING) * self.choose((1, 1, -1))
        low = -(1 << (kind.bits - 1)) if kind.signed else 0
        return self.build.const(max(low, min(value, low + (1 << kind.bits) - 1)), kind)

    def expr_variable(self, kind: Integer, depth: int) -> Value:
        name = self.choose(sorted(self.variables))
        return self.convert(self.read(name, self.variables[name]), kind)

    def expr_leaf(self, kind: Integer, depth: int) -> Value:
        form = self.choose(("dim", "dim", "grid", "gridsize", "tid.x", "ntid.x", "ctaid.x", "nctaid.x", "product"))
        if form == "dim":
            leaf = self.emit("dim", weak_int, self.params[3], axis=self.choose((0, 1)))
        elif form == "product":
            a, b = (
                self.emit("cast", weak_int, self.emit("sreg", int32, register=name))
                for name in (self.choose(("ctaid.x", "nctaid.x")), "ntid.x")
            )
            leaf = self.emit("mul", weak_int, a, b)
            if self.draw(st.booleans()):
                tid = self.emit("cast", weak_int, self.emit("sreg", int32, register="tid.x"))
                leaf = self.emit("add", weak_int, leaf, tid)
        elif "." in form:
            leaf = self.emit("sreg", int32, register=form)
        else:
            leaf = self.emit(form, weak_int, axis=0)
        return self.convert(leaf, kind)

    def expr_load(self, kind: Integer, depth: int) -> Value:
        name = self.choose(sorted(self.variables))
        index = self.convert(self.read(name, self.variables[name]), weak_int)
        return self.convert(self.emit("load", int32, self.params[4], index), kind)

    def expr_binary(self, kind: Integer, depth: int) -> Value:
        op = self.choose(_BINARY)
        return self.emit(op, kind, self.expression(kind, depth), self.expression(kind, depth))

    def expr_unary(self, kind: Integer, depth: int) -> Value:
        return self.emit(self.choose(("neg", "inv", "abs")), kind, self.expression(kind, depth))

    def expr_select(self, kind: Integer, depth: int) -> Value:
        condition = self.condition(depth)
        return self.emit("select", kind, condition, self.expression(kind, depth), self.expression(kind, depth))

    def expr_cast(self, kind: Integer, depth: int) -> Value:
        return self.convert(self.expression(self.choose(_KINDS), depth), kind)

    def expr_wrap(self, kind: Integer, depth: int) -> Value:
        extent = self.emit("dim", weak_int, self.params[3], axis=0)
        return self.convert(self.emit("wrap", weak_int, self.expression(weak_int, depth), extent), kind)

    def condition(self, depth: int) -> Value:
        form = self.choose(("cmp", "cmp", "cmp", "and", "or", "inv", "select", "short")) if depth > 0 else "cmp"
        if form == "cmp":
            kind = self.choose(_KINDS)
            a = self.expr_variable(kind, 0) if self.draw(st.booleans()) else self.expression(kind, max(depth - 1, 0))
            return self.emit("cmp", bool_, a, self.expression(kind, 1), predicate=self.choose(_PREDICATES))
        if form == "inv":
            return self.emit("inv", bool_, self.condition(depth - 1))
        if form == "short":
            return self.short_circuit(depth - 1)
        a, b = self.condition(depth - 1), self.condition(depth - 1)
        if form == "select":
            c = self.build.const(self.draw(st.booleans()), bool_)
            return self.emit("select", bool_, a, *((b, c) if self.draw(st.booleans()) else (c, b)))
        return self.emit(form, bool_, a, b)

    def short_circuit(self, depth: int) -> Value:
        """``a and b`` or ``a or b`` over blocks, met in a phi of bools."""
        is_and = self.draw(st.booleans())
        more, done = self.new_block(), self.new_block()
        a = self.condition(depth)
        value = self.build.const(not is_and, bool_) if self.draw(st.booleans()) else a
        self.branch(a, *((more, done) if is_and else (done, more)))
        self.start(more)
        b = self.condition(depth)
        self.build.jump(done)
        self.start(done)
        phi = Instr(bool_, None, "phi", [value, b], {}, done)
        done.instructions.insert(0, phi)
        return phi


@st.composite
def programs(draw: Any) -> Function:
    """A verified kernel ``program(p: int, q: int, r: int32, x: int32[:, ::1], y: int32[::1])``."""
    return _Generator(draw).program()
