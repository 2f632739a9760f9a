# SPDX-License-Identifier: Apache-2.0
"""The operations of the typed IR, declared once: what each takes, makes and does.

Printing, cloning, verifying and dead-code removal follow from this table. How an operation becomes LLVM text is the
business of ``backend/`` (NVPTX) and ``cpu/`` (host), which hold one row each per operation here.

Semantics (the kernel language's defined results, on every device): integers wrap; ``floordiv``/``mod`` are Python's and
give 0 for a zero divisor; ``INT_MIN // -1`` wraps; ``shl``/``shr`` by at least the width give 0 (or the sign for a
signed ``shr``), a negative count counts as too large; float-to-integer ``cast`` saturates and maps NaN to 0.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ATOMICS", "MATH", "OPS", "Effect", "OpSpec"]


class Effect:
    """What an operation does beyond its result, from none to synchronising."""

    PURE = "pure"  #: same operands, same result; removable
    READ = "read"  #: reads memory that others may write; removable
    WRITE = "write"  #: writes memory
    SYNC = "sync"  #: a barrier or warp operation: a suspension point on the CPU device
    END = "end"  #: ends a block


@dataclass(frozen=True)
class OpSpec:
    """One operation. ``arity`` counts operands (-1: any number); ``attributes`` are the names that ``attrs`` must
    hold."""

    name: str
    arity: int
    effect: str
    attributes: tuple[str, ...]
    doc: str


_PURE = Effect.PURE
_TABLE = (
    # constants and structure
    OpSpec("const", 0, _PURE, ("value",), "a Python bool, int, float or complex of the result's type"),
    OpSpec("undef", 0, _PURE, (), "a value nobody may look at (a variable not assigned on this path)"),
    OpSpec("phi", -1, _PURE, (), "one operand per predecessor, in the order of block.predecessors"),
    OpSpec("tuple", -1, _PURE, (), "a tuple of the operands"),
    OpSpec("item", 1, _PURE, ("index",), "element ``index`` of a tuple"),
    OpSpec("call", -1, Effect.WRITE, ("callee",), "calls the device function ``callee`` (a Function)"),
    OpSpec(
        "foreign",
        -1,
        Effect.WRITE,
        ("abi", "symbol"),
        "calls a function of linked code; ``abi`` is c, or numba: a pointer to the result first, and a status returned",
    ),
    # arithmetic: operands and result of one scalar type
    *(OpSpec(n, 2, _PURE, (), f"integer or float {n}") for n in ("add", "sub", "mul", "min", "max")),
    OpSpec("div", 2, _PURE, (), "float division, IEEE"),
    OpSpec("fmod", 2, _PURE, (), "float remainder with the sign of the dividend (C's fmod)"),
    *(OpSpec(n, 2, _PURE, (), f"Python's {n}, integer or float") for n in ("floordiv", "mod")),
    *(OpSpec(n, 2, _PURE, (), f"bitwise {n}, integer or bool") for n in ("and", "or", "xor")),
    OpSpec("shl", 2, _PURE, (), "left shift, defined for every count"),
    OpSpec("shr", 2, _PURE, (), "right shift, arithmetic for signed types, defined for every count"),
    OpSpec("neg", 1, _PURE, (), "negation, integer or float"),
    OpSpec("inv", 1, _PURE, (), "bitwise complement; logical not for bool"),
    OpSpec("abs", 1, _PURE, (), "absolute value; the smallest signed integer stays itself"),
    OpSpec("popc", 1, _PURE, (), "the number of bits set in an integer: an int32"),
    OpSpec("clz", 1, _PURE, (), "the number of zero bits above the highest one, all of them for 0: an int32"),
    OpSpec("ctz", 1, _PURE, (), "the number of zero bits below the lowest one, all of them for 0: an int32"),
    OpSpec("brev", 1, _PURE, (), "an integer with its bits in reverse order"),
    OpSpec("cmp", 2, _PURE, ("predicate",), "eq ne lt le gt ge; operands of one type; a NaN makes all but ne false"),
    OpSpec("select", 3, _PURE, (), "operand 1 if operand 0 (bool) else operand 2"),
    OpSpec("cast", 1, _PURE, (), "conversion between scalar types, defined for every value; to bool: != 0"),
    OpSpec("complex", 2, _PURE, (), "a complex number of its real and its imaginary part"),
    OpSpec("part", 1, _PURE, ("index",), "the real (0) or imaginary (1) part of a complex number"),
    OpSpec("math", -1, _PURE, ("function",), "a function of libdevice's name without __nv_ and type suffix; see MATH"),
    OpSpec(
        "libdevice",
        -1,
        _PURE,
        ("function",),
        "a function of ``lang/libdevice.py`` by its own name; a tuple where it has several results",
    ),
    OpSpec("isnan", 1, _PURE, (), "bool"),
    OpSpec("isinf", 1, _PURE, (), "bool"),
    OpSpec("isfinite", 1, _PURE, (), "bool"),
    OpSpec("within", 3, _PURE, (), "operand 0, which is known to be at least operand 1 and less than operand 2"),
    # arrays
    OpSpec("dim", 1, _PURE, ("axis",), "extent along ``axis``, an int64 that is not negative"),
    OpSpec("stride", 1, _PURE, ("axis",), "byte stride along ``axis``, an int64"),
    OpSpec("wrap", 2, _PURE, (), "index operand 0 plus extent operand 1 where negative (int64)"),
    OpSpec(
        "load",
        -1,
        Effect.READ,
        (),
        "the element of array operand 0 at the index operands (wrapped already); ``hint`` may hold a cache operator",
    ),
    OpSpec(
        "store",
        -1,
        Effect.WRITE,
        (),
        "stores the last operand into array operand 0 at the index operands between; ``hint`` as for load",
    ),
    OpSpec(
        "view",
        -1,
        _PURE,
        ("axes",),
        "a sub-array. ``axes`` holds one letter per axis of the base: 'i' takes one operand (a wrapped index, the axis "
        "goes), 's' takes three (first index, step, length; int64), '-' keeps the axis",
    ),
    OpSpec(
        "field",
        1,
        _PURE,
        ("offset",),
        "what lies ``offset`` bytes into each element of an array, as an array of the result's dtype: same extents, "
        "same byte strides; with an attribute ``shape``, the axes of a sub-array in C order behind them",
    ),
    OpSpec(
        "reshape",
        -1,
        _PURE,
        (),
        "the memory of a gapless array in C order as another such array: one int64 operand for each extent; another "
        "element type has another number of elements",
    ),
    OpSpec(
        "transpose",
        1,
        _PURE,
        ("order",),
        "the same elements with other axes: for each axis of the result the axis of the base, or -1 for a new one of "
        "extent 1",
    ),
    OpSpec("address", 1, _PURE, (), "where the first element of an array is, for all memories alike: an int64"),
    OpSpec(
        "retype",
        1,
        _PURE,
        (),
        "the bits of a real number, a date or a span of time as another such type",
    ),
    OpSpec(
        "shared",
        0,
        _PURE,
        ("shape", "key"),
        "a static shared array; ``key`` tells one declaration from another. An attribute ``align`` asks for more than "
        "the 16 bytes that it begins at a multiple of; so it does of ``local`` and ``dynamic_shared``",
    ),
    OpSpec("local", 0, _PURE, ("shape", "key"), "a thread-private array"),
    OpSpec(
        "array_at",
        -1,
        _PURE,
        (),
        "an array at an address (operand 0), with the extents and, for layout A, byte strides that follow (64 bits "
        "all); where it is known whose memory it is, ``home`` is 'gpu' or 'host'",
    ),
    OpSpec("dynamic_shared", 0, _PURE, (), "the dynamic shared memory as a 1-d array of the result's dtype"),
    OpSpec(
        "constant",
        0,
        _PURE,
        ("shape", "data"),
        "a read-only array in constant memory; ``data`` holds its elements in C order, as the bytes of memory in hex",
    ),
    OpSpec(
        "atomic", -1, Effect.WRITE, ("function",), "array, indices, value: updates an element; the old one. See ATOMICS"
    ),
    OpSpec(
        "atomic_cas",
        -1,
        Effect.WRITE,
        (),
        "array, indices, compare, value: stores ``value`` if the element has the bits of ``compare``; the old element",
    ),
    # threads
    OpSpec(
        "sreg",
        0,
        _PURE,
        ("register",),
        "tid.x … ntid.x … ctaid.x … nctaid.z, laneid, lanemask_lt: an int32, not negative",
    ),
    OpSpec("clock", 0, Effect.READ, ("source",), "an int64 that counts up: 'cycle' of this core, 'ns' of the machine"),
    OpSpec("nanosleep", 1, Effect.WRITE, (), "pauses the thread for about a uint32 of nanoseconds; lets others run"),
    OpSpec(
        "fence", 0, Effect.WRITE, ("scope",), "orders this thread's accesses as seen by its block, device or system"
    ),
    OpSpec("grid", 0, _PURE, ("axis",), "ctaid * ntid + tid along ``axis``: an int64, not negative"),
    OpSpec("gridsize", 0, _PURE, ("axis",), "nctaid * ntid along ``axis``: an int64, positive"),
    OpSpec("barrier", 0, Effect.SYNC, (), "waits for the live threads of the block"),
    OpSpec(
        "barrier_reduce",
        1,
        Effect.SYNC,
        ("mode",),
        "a barrier that also combines a bool of each live thread: 'count' of the true ones (int32), 'and', 'or' (bool)",
    ),
    OpSpec("grid_sync", 0, Effect.SYNC, (), "waits for the live threads of all blocks of a cooperative launch"),
    OpSpec("syncwarp", 1, Effect.SYNC, (), "waits for the live lanes of a mask (uint32)"),
    OpSpec(
        "vote",
        2,
        Effect.SYNC,
        ("mode",),
        "mask (uint32), bool: whether it is true in 'all' or 'any' of the lanes, or alike in all ('eq'): a bool; or "
        "the lanes where it is true ('ballot'): a uint32",
    ),
    OpSpec(
        "match",
        2,
        Effect.SYNC,
        ("mode",),
        "mask (uint32), value (32 or 64 bits): the lanes whose value has the same bits ('any'), or the mask if all "
        "have the same, else 0 ('all'): a uint32",
    ),
    OpSpec("activemask", 0, Effect.SYNC, (), "the lanes that happen to be here together: a uint32"),
    OpSpec(
        "shfl", 4, Effect.SYNC, ("mode",), "warp shuffle: mask (uint32), value, delta or lane (int32), width (int32)"
    ),
    OpSpec("print", -1, Effect.WRITE, ("text",), "prints a text, an operand in each placeholder; see ir/printing.py"),
    OpSpec(
        "raise",
        -1,
        Effect.WRITE,
        ("exception", "message"),
        "records that this thread failed, if the bool operand (where there is one) is true: the exception's class as "
        "``module:qualname``, and its message",
    ),
    # block ends
    OpSpec("jump", 0, Effect.END, ("target",), "goes to block ``target``"),
    OpSpec("branch", 1, Effect.END, ("then", "else"), "goes to ``then`` if the bool operand is true, else to ``else``"),
    OpSpec("return", -1, Effect.END, (), "returns the operand, or nothing"),
)

OPS: dict[str, OpSpec] = {spec.name: spec for spec in _TABLE}

#: Functions of the ``atomic`` operation -> what their element must be: any number, an integer or an unsigned one.
#:
#: ``inc`` is ``0 if old >= value else old + 1``, ``dec`` is ``value if old == 0 or old > value else old - 1``.
#: ``min`` and ``max`` of floats leave a NaN element and ignore a NaN value; ``nanmin`` and ``nanmax`` replace a NaN
#: element.
ATOMICS: dict[str, str] = {
    **dict.fromkeys(("add", "sub", "min", "max", "nanmin", "nanmax", "exch"), "number"),
    **dict.fromkeys(("and", "or", "xor"), "integer"),
    **dict.fromkeys(("inc", "dec"), "unsigned"),
}

#: Functions of the ``math`` operation -> number of operands. Operands and result are of one float type, except
#: that ``ldexp`` and ``powi`` take an int32 second. ``fmin`` and ``fmax`` give the other operand of a NaN; -0.0 is less
#: than 0.0 there.
MATH: dict[str, int] = {
    **dict.fromkeys(
        (
            "sqrt", "rsqrt", "cbrt", "exp", "exp2", "exp10", "expm1", "log", "log2", "log10", "log1p",
            "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh",
            "erf", "erfc", "tgamma", "lgamma", "floor", "ceil", "trunc", "rint",
        ),
        1,
    ),
    **dict.fromkeys(
        ("atan2", "pow", "hypot", "copysign", "remainder", "nextafter", "fmin", "fmax", "ldexp", "powi"), 2
    ),
    "fma": 3,
}  # fmt: skip
