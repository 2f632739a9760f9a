# SPDX-License-Identifier: Apache-2.0
"""How numbers of two types meet: the two answers to ``literals=``, which rules ask for by ``context.table``.

:class:`Table` is ``literals="weak"``: NumPy 2's promotion with NEP 50's weak Python numbers (``promotion.py``).
:class:`NumbaTable` is ``literals="numba"``, the default of ``cuda.jit``: the types that numba-cuda 0.30 gives, as far
as a program can see them. There a Python int is an int64 and a Python float a float64; integer arithmetic is done in
64 bits, signed unless both operands are unsigned; ``threadIdx.x`` and its like are int32. A grid index, a length and
a ``range`` of int64 stay weak ints inside, which this table takes for int64.

Each method takes operand types and gives the type of the result; where an operation is done in one type and gives
another, it says so. A rule never asks which table it has.
"""

from __future__ import annotations

from cudabuild.frontend.familiar import familiar_words
from cudabuild.frontend.promotion import is_weak, join_types, promote
from cudabuild.types import (
    Boolean,
    Float,
    Integer,
    Scalar,
    Type,
    complex128,
    float32,
    float64,
    int8,
    int32,
    int64,
    uint32,
    uint64,
    weak_float,
    weak_int,
)

__all__ = ["NUMBA", "WEAK", "Table", "find_table", "strong"]


class Table:
    """``literals="weak"``.

    Attributes:
        name: the option's value.
        truncates_bounds: whether ``range`` takes floats, towards zero; else they are refused.
        reads_undefined: whether a variable that has no value on any path to a read is 0 there; else it is refused.
        python_float: the type of a Python float.
        thread_position: the type of ``threadIdx.x``, of ``laneid`` and of a count of threads.
        lanes: the type of a set of lanes that a vote or match gives.
        bit_position: the type of what ``ffs`` gives.
        exponent: the type of the exponent that ``frexp`` gives.
        division_raises: whether a division by zero ends the thread under debug, with an error as in Python.
        floats_vote: whether a warp votes on a float.
        reads_packed: whether fields of records may lie at any address.
        holds_constants: whether a Python integer that is known must fit into the type of what it meets; else it wraps.
    """

    name = "weak"
    reads_undefined = False
    truncates_bounds = False
    reads_packed = True
    holds_constants = True
    python_float: Float = weak_float
    thread_position: Integer = weak_int
    lanes: Integer = uint32
    bit_position: Integer = weak_int
    exponent: Integer = weak_int
    division_raises = False
    floats_vote = True

    # operators

    def arithmetic(self, left: Scalar, right: Scalar) -> Scalar:
        """``+``, ``-`` and ``*``."""
        return promote(left, right)

    def division(self, left: Scalar, right: Scalar) -> Scalar:
        """``/``."""
        kind = promote(left, right)
        return self.float_of(kind) if isinstance(kind, Integer) else kind

    def floor_division(self, left: Scalar, right: Scalar) -> Scalar:
        """``//`` and ``%``."""
        return promote(left, right)

    def divmod(self, left: Scalar, right: Scalar) -> Scalar:
        """Both parts of ``divmod``."""
        return self.floor_division(left, right)

    def power(self, base: Scalar, exponent: Scalar, constant: int | None = None) -> Scalar:
        """``**``; ``constant`` is the value of an exponent that is a known integer."""
        kind = promote(base, exponent)
        if constant is None:
            return kind
        if isinstance(kind, Integer) and constant < 0:
            return self.float_of(self.signed(base))
        if isinstance(base, Float) and is_weak(exponent):
            return base
        return kind

    def bitwise(self, left: Scalar, right: Scalar) -> Scalar:
        """``&``, ``|``, ``^``; of an int64 and a uint64 there is none."""
        return promote(left, right)

    def shift(self, value: Scalar, count: Scalar) -> Scalar:
        """``<<`` and ``>>``."""
        return promote(value, count)

    def element_bits(self, *kinds: Scalar) -> Scalar | None:
        """NumPy's bitwise functions and shifts of integers, where they differ from the operators."""
        return None

    def signed(self, kind: Scalar) -> Scalar:
        """``-x`` and ``+x``: Python's bools are integers in arithmetic."""
        return weak_int if isinstance(kind, Boolean) else kind

    def inverted(self, kind: Scalar) -> Scalar:
        """``~x``: of a bool the other one, as of NumPy's bools; Python's own -2 of True is true as well."""
        return kind if isinstance(kind, Boolean) else self.signed(kind)

    # Python's functions

    def magnitude(self, kind: Scalar) -> Scalar:
        """``abs(x)`` of a real number."""
        return self.signed(kind)

    def extreme(self, left: Scalar, right: Scalar) -> Scalar:
        """``min`` and ``max``."""
        return promote(left, right)

    def float_extreme(self, operation: str, kind: Float) -> str | None:
        """The function of ``ir.ops.MATH`` that ``min`` or ``max`` of floats is; None for Python's comparisons."""
        return None

    def int_of(self, kind: Scalar) -> Integer:
        """``int(x)``."""
        return weak_int

    def float_of(self, kind: Scalar) -> Float:
        """``float(x)`` beside a division of integers: weak numbers give a weak float."""
        return weak_float if is_weak(kind) else float64

    def python_float_of(self, kind: Scalar) -> Float:
        """``float(x)``."""
        return weak_float

    def rounded_digits(self, kind: Scalar) -> Float | None:
        """``round(x, digits)``; None where it stays an integer."""
        return kind if isinstance(kind, Float) else None

    def range_item(self, *bounds: Scalar) -> Integer:
        """The variable of a ``range`` over bounds of these types."""
        return weak_int

    # math

    def math_argument(self, kind: Scalar, function: str = "") -> Float:
        """The float in which a math function of one argument works on a real number, and its result."""
        return kind if isinstance(kind, Float) else self.float_of(self.signed(kind))

    def math_arguments(self, function: str, left: Scalar, right: Scalar) -> Scalar:
        """The same for two arguments."""
        return promote(self.math_argument(left), self.math_argument(right))

    def element_extreme(self, left: Scalar, right: Scalar) -> Scalar | None:
        """``numpy.maximum`` and its like of an integer and a float, where that is not as numbers meet elsewhere."""
        return None

    def whole(self, kind: Float) -> Scalar:
        """``math.floor``, ``ceil`` and ``trunc`` of a float."""
        return weak_int

    def bit_count(self, kind: Integer) -> Integer:
        """``popc`` and ``clz``."""
        return weak_int

    def reversed_bits(self, kind: Integer) -> Integer:
        """``brev``: the type whose bits are reversed."""
        return kind

    def libdevice_result(self, kind: Scalar) -> Scalar:
        """What a function of libdevice gives, of which C's type is ``kind``."""
        return kind

    # messages

    def familiar(self, title: str) -> str:
        """Other words for a refusal of this title, which people may know it by; mostly none."""
        return ""

    # variables

    def join(self, left: Type, right: Type) -> Type | None:
        """The type of a variable that is ``left`` on one path and ``right`` on another, or None if there is none."""
        return join_types(left, right)


def strong(kind: Scalar) -> Scalar:
    """``kind`` without weakness: the type that a weak number has where it meets none."""
    if not is_weak(kind):
        return kind
    return int64 if isinstance(kind, Integer) else float64 if isinstance(kind, Float) else complex128


#: Integers that numba-cuda's float32 functions take without loss, in its view; wider ones work in float64.
_SHORT = frozenset({"bool", "int8", "int16", "uint8"})

#: Functions that it has for float32 and float64 alone, so that a short integer works in float32; elsewhere integers
#: work in float64. NumPy's functions have loops of both too, and there a uint16 is short.
_FLOAT32_OF_SHORT = frozenset({"fmod", "copysign", "ldexp", "frexp", "cbrt", "fma", "pow", "remainder", "nextafter"})

#: Functions that it has for float16; the others take one as a float32.
_OF_HALF = frozenset(
    {"sin", "cos", "exp", "exp2", "log", "log2", "log10", "sqrt", "floor", "ceil", "trunc", "rint", "fabs", "tanh"}
)

#: Where an unsigned integer meets a float and NumPy's table differs: (integer, bits of the float) -> result.
_UNSIGNED_BESIDE_FLOAT = {("uint8", 16): float32, ("uint16", 16): float64, ("uint16", 32): float64}


class NumbaTable(Table):
    """``literals="numba"``."""

    name = "numba"
    reads_undefined = True
    truncates_bounds = True
    reads_packed = False
    holds_constants = False
    python_float = float64
    thread_position = int32
    lanes = int32
    bit_position = uint32
    exponent = int32
    division_raises = True
    floats_vote = False

    def arithmetic(self, left: Scalar, right: Scalar) -> Scalar:
        if self._are_integers(left, right):
            return self._integer(left, right)
        left, right = strong(left), strong(right)
        for integer, floating in ((left, right), (right, left)):
            if isinstance(floating, Float) and (integer.name, floating.bits) in _UNSIGNED_BESIDE_FLOAT:
                return _UNSIGNED_BESIDE_FLOAT[integer.name, floating.bits]
        return strong(promote(left, right))

    @staticmethod
    def _are_integers(left: Scalar, right: Scalar) -> bool:
        return isinstance(left, (Integer, Boolean)) and isinstance(right, (Integer, Boolean))

    @staticmethod
    def _integer(left: Scalar, right: Scalar) -> Integer:
        if left == weak_int == right:
            return weak_int
        unsigned = all(isinstance(kind, Integer) and not kind.signed for kind in (left, right))
        return uint64 if unsigned else int64

    def division(self, left: Scalar, right: Scalar) -> Scalar:
        return float64 if self._are_integers(left, right) else self.arithmetic(left, right)

    def floor_division(self, left: Scalar, right: Scalar) -> Scalar:
        return _at_least_single(self.arithmetic(left, right))

    def divmod(self, left: Scalar, right: Scalar) -> Scalar:
        left, right = strong(left), strong(right)
        if isinstance(left, Boolean) != isinstance(right, Boolean) and self._are_integers(left, right):
            return self._integer(*[kind for kind in (left, right) if isinstance(kind, Integer)] * 2)
        if uint64 in (left, right) and any(isinstance(kind, Integer) and kind.signed for kind in (left, right)):
            return float64
        return self.floor_division(left, right)

    def power(self, base: Scalar, exponent: Scalar, constant: int | None = None) -> Scalar:
        if isinstance(base, Boolean) and exponent == int32:
            return float32  # by a tie of numba's rules
        if isinstance(base, Float) and isinstance(exponent, (Integer, Boolean)):
            return _at_least_single(strong(base))
        return _at_least_single(self.arithmetic(base, exponent))

    def bitwise(self, left: Scalar, right: Scalar) -> Scalar:
        return self.arithmetic(left, right)

    def shift(self, value: Scalar, count: Scalar) -> Scalar:
        return self._integer(value, value)

    def element_bits(self, *kinds: Scalar) -> Scalar | None:
        numbers = [strong(kind) for kind in kinds if isinstance(kind, Integer)]
        if not numbers or len(numbers) < sum(not isinstance(kind, Boolean) for kind in kinds):
            return None
        kind = numbers[0]
        for other in numbers[1:]:
            kind = promote(kind, other)
        return kind

    def signed(self, kind: Scalar) -> Scalar:
        return self._integer(kind, kind) if isinstance(kind, (Integer, Boolean)) else kind

    def magnitude(self, kind: Scalar) -> Scalar:
        return int8 if isinstance(kind, Boolean) else kind

    def extreme(self, left: Scalar, right: Scalar) -> Scalar:
        return self._join_scalars(left, right)

    def float_extreme(self, operation: str, kind: Float) -> str | None:
        return f"f{operation}"

    def int_of(self, kind: Scalar) -> Integer:
        return kind if isinstance(kind, Integer) else int64

    def float_of(self, kind: Scalar) -> Float:
        return float64

    def python_float_of(self, kind: Scalar) -> Float:
        kind = strong(kind)
        return kind if isinstance(kind, Float) else float64

    def rounded_digits(self, kind: Scalar) -> Float | None:
        if kind.name in _SHORT:
            return float32
        return self.math_argument(kind, "pow")

    def range_item(self, *bounds: Scalar) -> Integer:
        """numba has a range of int32, one of int64 and one of uint64, and takes the one that loses least."""

        def cost(item: Integer) -> tuple[int, ...]:
            found = [_conversion(strong(kind), item) for kind in bounds]
            return tuple(found.count(loss) for loss in ("unsafe", "safe", "grows"))

        best = min((int32, int64, uint64), key=cost)
        return weak_int if best == int64 else best

    def math_argument(self, kind: Scalar, function: str = "") -> Float:
        kind = strong(kind)
        if isinstance(kind, Float):
            if kind.bits == 16 and function == "modf":
                return float64
            return float32 if kind.bits == 16 and function.rpartition(".")[2] not in _OF_HALF else kind
        if kind.name in _SHORT and (function in _FLOAT32_OF_SHORT or function.startswith("numpy.")):
            return float32
        return float32 if kind.name == "uint16" and function.startswith("numpy.") else float64

    def element_extreme(self, left: Scalar, right: Scalar) -> Scalar | None:
        kinds = (strong(left), strong(right))
        return float32 if float32 in kinds and any(isinstance(kind, Integer) for kind in kinds) else None

    def math_arguments(self, function: str, left: Scalar, right: Scalar) -> Scalar:
        mixed = self.element_extreme(left, right) if function.startswith("numpy.") else None
        if mixed is not None:
            return mixed
        exponent_fits = isinstance(right, Integer) and right.bits - right.signed < 32
        if function == "pow" and exponent_fits and (right.name != "uint16" or left == float32):
            return self.math_argument(left, function)
        if self._are_integers(left, right):
            return strong(promote(self.math_argument(left, function), self.math_argument(right, function)))
        return _at_least_single(self.arithmetic(left, right))

    def whole(self, kind: Float) -> Scalar:
        return kind

    def bit_count(self, kind: Integer) -> Integer:
        return kind

    def reversed_bits(self, kind: Integer) -> Integer:
        return uint64 if kind == uint64 else uint32

    def libdevice_result(self, kind: Scalar) -> Scalar:
        return Integer(kind.bits, True) if isinstance(kind, Integer) else kind

    def familiar(self, title: str) -> str:
        return familiar_words(title)

    def join(self, left: Type, right: Type) -> Type | None:
        return join_types(left, right, self._join_scalars)

    @staticmethod
    def _join_scalars(left: Scalar, right: Scalar) -> Scalar:
        """NumPy's table, where a bool is less than any number."""
        if left == right:
            return left
        if isinstance(left, Boolean):
            return right
        if isinstance(right, Boolean):
            return left
        return strong(promote(strong(left), strong(right)))


def _at_least_single(kind: Scalar) -> Scalar:
    """``kind``, but float32 for the 16-bit floats: numba-cuda has neither their powers nor their floor division."""
    return float32 if isinstance(kind, Float) and kind.bits == 16 else kind


def _conversion(source: Scalar, target: Integer) -> str:
    """What becomes of a number converted to ``target``: nothing, or it grows, changes its kind, or may be lost."""
    if source == target:
        return "exact"
    if isinstance(source, Boolean):
        return "safe"
    if isinstance(source, Integer) and source.bits < target.bits and (target.signed or not source.signed):
        return "grows" if source.signed == target.signed else "safe"
    return "unsafe"


WEAK = Table()
NUMBA = NumbaTable()


def find_table(literals: str) -> Table:
    """The table of a value of the option ``literals``."""
    return NUMBA if literals == "numba" else WEAK
