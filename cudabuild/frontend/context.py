# SPDX-License-Identifier: Apache-2.0
"""What a typing rule works with: it makes IR for one operation, and by doing so says the result's type.

Inference and lowering call the same rules. During inference the instructions go into a scratch block that is thrown
away; during lowering into the function being built. Constant operands fold here, so that shapes and branch conditions
stay known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from cudabuild.definition import DEFAULT_OPTIONS, Options
from cudabuild.errors import Location
from cudabuild.frontend.diagnostics import Refusal
from cudabuild.frontend.folding import fold_cast
from cudabuild.frontend.operands import (
    IteratorOperand,
    NoneOperand,
    Operand,
    OptionalOperand,
    SliceOperand,
    Static,
    TupleOperand,
    const_of,
    describe,
    is_const,
)
from cudabuild.frontend.tables import WEAK, Table
from cudabuild.ir.ir import Block, Builder, Instr, Value
from cudabuild.linking import LinkableCode
from cudabuild.types import (
    Array,
    Boolean,
    Complex,
    DateTime,
    Integer,
    NoneType,
    Scalar,
    TimeDelta,
    Tuple,
    Type,
    bool_,
    weak_complex,
    weak_int,
)
from cudabuild.types.named import EnumMember

__all__ = ["CallTarget", "Context"]


class CallTarget(Protocol):
    """Inference's side of calling a device function.

    Attributes:
        debug: whether what goes wrong in a kernel is told.
        fastmath: whether float arithmetic may do without its special cases.
    """

    debug: bool
    fastmath: bool

    def hold(self, value: Any) -> None:
        """Keeps an object alive as long as the kernel."""
        ...

    def link(self, code: LinkableCode) -> None:
        """Has the kernel linked with foreign code."""
        ...

    def call(
        self,
        context: Context,
        function: Any,
        operands: Sequence[Operand],
        keywords: dict[str, Operand],
        options: Options = DEFAULT_OPTIONS,
    ) -> Operand:
        """The result of calling the Python function ``function`` under its decorator's options."""
        ...

    def lowered(self, context: Context, specialisation: Any) -> Any:
        """A device function's IR: made on the first call that is lowered; during inference there is none."""
        ...


class Context:
    """One operation's surroundings: where it stands, and the builder it appends to.

    Attributes:
        table: how numbers of two types meet in the function being compiled.
        called: the specialisations that the operation has called so far; None for one that is not known yet.
        complaints: what is wrong with the operation at hand although it has a result.
    """

    def __init__(self, block: Block, calls: CallTarget, *, inferring: bool, table: Table = WEAK) -> None:
        self.table = table
        self.builder = Builder(block)
        self.calls = calls
        self.inferring = inferring
        self.location: Location | None = None
        self.site: Any = None
        self.called: list[Any] = []
        self.complaints: list[Refusal] = []
        self._calls_at_site = 0

    def at(self, location: Location, site: Any = None) -> None:
        """Moves to one HIR operation: ``site`` is the inference of the function that it is in, and itself."""
        self.location = location
        self.builder.location = location
        self.site = site
        self.complaints = []
        self._calls_at_site = 0
        if self.called:
            self.called = []

    @property
    def allocation_key(self) -> str:
        """The name of the arrays that the operation declares.

        By specialisation: each may give the array another shape or type, as a template's instances do in CUDA C++.
        """
        if self.site is None:
            return ""
        inference, instr = self.site
        return f"{inference.name}:{instr.location.line}:{instr.location.column}"

    def next_call_site(self) -> tuple[Any, int]:
        """Tells one call from another, the same way during inference and lowering."""
        self._calls_at_site += 1
        return self.site, self._calls_at_site

    # making values

    def emit(self, op: str, kind: Type, *operands: Value, **attrs: Any) -> Instr:
        return self.builder.emit(op, kind, *operands, **attrs)

    def const(self, value: Any, kind: Type) -> Instr:
        return self.builder.const(value, kind)

    def weak(self, value: int | float | bool | complex) -> Instr:
        """A Python number as a constant operand."""
        if isinstance(value, complex):
            return self.const(value, weak_complex)
        if isinstance(value, bool):
            return self.const(value, bool_)
        return self.const(value, weak_int if isinstance(value, int) else self.table.python_float)

    def cast(self, value: Value, kind: Type) -> Value:
        """``value`` as ``kind``: a scalar conversion, an array's more general layout or space, a tuple's elements."""
        if value.type == kind:
            return value
        if isinstance(kind, Scalar) and isinstance(value.type, Scalar):
            if isinstance(kind, Complex) or isinstance(value.type, Complex):
                return self._cast_complex(value, kind)
            if is_const(value):
                assert isinstance(value, Instr)
                folded = fold_cast(value.attrs["value"], value.type, kind)
                if folded is not None:
                    return self.const(folded, kind)
            return self.emit("cast", kind, value)
        if isinstance(kind, Array) and isinstance(value.type, Array):
            return self.emit("view", kind, value, axes="-" * kind.ndim)
        if isinstance(kind, Tuple) and isinstance(value.type, Tuple):
            elements = [
                self.cast(self.emit("item", source, value, index=index), target)
                for index, (source, target) in enumerate(zip(value.type.elements, kind.elements, strict=True))
            ]
            return self.emit("tuple", kind, *elements)
        raise AssertionError(f"cast from {value.type} to {kind}")

    def parts(self, value: Value) -> tuple[Value, Value]:
        """Real and imaginary part of a complex number."""
        kind = value.type
        assert isinstance(kind, Complex)
        if is_const(value):
            assert isinstance(value, Instr)
            number = value.attrs["value"]
            return self.const(number.real, kind.part), self.const(number.imag, kind.part)
        if isinstance(value, Instr) and value.op == "complex":
            real, imag = value.operands
            return real, imag
        return self.emit("part", kind.part, value, index=0), self.emit("part", kind.part, value, index=1)

    def _cast_complex(self, value: Value, kind: Scalar) -> Value:
        source = value.type
        if isinstance(kind, Complex):
            real, imag = self.parts(value) if isinstance(source, Complex) else (value, self.const(0.0, kind.part))
            real, imag = self.cast(real, kind.part), self.cast(imag, kind.part)
            if is_const(real) and is_const(imag):
                return self.const(complex(const_of(real), const_of(imag)), kind)
            return self.emit("complex", kind, real, imag)
        if isinstance(kind, Boolean):
            if is_const(value):
                return self.const(bool(const_of(value)), kind)
            parts = [self.cast(part, kind) for part in self.parts(value)]
            return self.emit("or", kind, *parts)
        raise Refusal(
            "a complex number where a real one is needed",
            found=describe(value),
            expected=f"a number that {kind.name} holds",
            do="take z.real, z.imag or abs(z)",
        )

    def materialise(self, operand: Operand) -> Value:
        """Run-time data for ``operand``, or a Refusal where it has none."""
        if isinstance(operand, Value):
            return operand
        if isinstance(operand, TupleOperand):
            elements = [self.materialise(element) for element in operand.elements]
            return self.emit("tuple", Tuple([element.type for element in elements]), *elements)
        raise Refusal(
            "not a value",
            found=describe(operand),
            expected="a number, an array or a tuple of these",
            do="use it directly where it is called or indexed",
        )

    def convert(self, operand: Operand, kind: Type) -> Value:
        """``operand`` as run-time data of type ``kind``."""
        return self.cast(self.materialise(operand), kind)

    def scalar(self, operand: Operand, what: str, position: int | None = None) -> Value:
        """``operand`` as a scalar value; ``what`` names its role in the message."""
        if (
            isinstance(operand, Value)
            and isinstance(operand.type, Scalar)
            and not isinstance(operand.type, (DateTime, TimeDelta))
        ):
            return operand
        raise Refusal(
            f"{what} is not a number",
            found=describe(operand),
            expected="a bool, an integer or a float",
            do=_scalar_hint(operand),
            operand=position,
        )

    def integer(self, operand: Operand, what: str, position: int | None = None) -> Value:
        """``operand`` as an integer value, not a bool; ``what`` names its role in the message."""
        value = self.scalar(operand, what, position)
        if isinstance(value.type, Integer):
            return value
        raise Refusal(
            f"{what} is not an integer",
            found=describe(operand),
            expected="an integer",
            do="convert it: int(x)",
            operand=position,
        )

    def truth(self, operand: Operand) -> Value:
        """``bool(operand)`` by Python's rule; a tuple is true when it has elements, None is false."""
        if isinstance(operand, NoneOperand):
            return self.const(False, bool_)
        if isinstance(operand, OptionalOperand):
            inside = self.truth(operand.value)
            return operand.present if is_const(inside) else self.emit("and", bool_, operand.present, inside)
        if isinstance(operand, TupleOperand):
            return self.const(bool(operand.elements), bool_)
        if isinstance(operand, Value) and isinstance(operand.type, EnumMember) and not operand.type.is_integer:
            return self.const(True, bool_)
        value = self.scalar(operand, "the condition")
        return value if isinstance(value.type, Boolean) else self.cast(value, bool_)

    # tuples

    def elements(self, operand: Operand) -> tuple[Operand, ...] | None:
        """The elements of a tuple operand, compile-time or run-time; None for anything else."""
        if isinstance(operand, TupleOperand):
            return operand.elements
        if isinstance(operand, Value) and isinstance(operand.type, Tuple):
            return tuple(
                NoneOperand() if isinstance(kind, NoneType) else self.emit("item", kind, operand, index=index)
                for index, kind in enumerate(operand.type.elements)
            )
        return None


def _scalar_hint(operand: Operand) -> str:
    if isinstance(operand, Value) and isinstance(operand.type, Array):
        return "index the array: x[i], or x[i, j] for two dimensions"
    if isinstance(operand, (TupleOperand, IteratorOperand, SliceOperand)):
        return "take one element of it"
    if isinstance(operand, Static) and callable(operand.value):
        return "call it"
    return "use a number here"


#: A typing rule: makes the IR of a call and returns the result.
Rule = Callable[[Context, Sequence[Operand], dict[str, Operand]], Operand]
