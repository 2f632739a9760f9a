# SPDX-License-Identifier: Apache-2.0
"""Checks that typed IR is well formed: every pass and every lowering may rely on what is checked here.

A failure is a fault of ours, never the user's: it raises AssertionError with the instruction's place. What an operation
asks of its types is one function in a table, like everything else about operations.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from cudabuild.ir.cfg import Dominators, reverse_postorder
from cudabuild.ir.ir import Block, Function, Instr, Param, Value
from cudabuild.ir.ops import ATOMICS, MATH, OPS
from cudabuild.ir.printing import PLACEHOLDERS, split_text
from cudabuild.lang.libdevice import FUNCTIONS
from cudabuild.types import (
    Array,
    Boolean,
    Complex,
    DateTime,
    Float,
    Integer,
    NoneType,
    Scalar,
    TimeDelta,
    Tuple,
    Type,
    bool_,
    int32,
    int64,
    none,
    uint32,
)

__all__ = ["verify_function", "verify_stage"]

#: Whether the result of every stage and pass is verified, as in tests; else only what goes to a back end is.
EVERY_STAGE = False


def verify_stage(function: Function) -> None:
    """``verify_function`` between stages, where those are verified."""
    if EVERY_STAGE:
        verify_function(function)


def verify_function(function: Function) -> None:
    """Raises AssertionError unless ``function`` and its callees are well formed."""
    for one in [function, *function.callees]:
        _Verifier(one).run()


class _Verifier:
    def __init__(self, function: Function) -> None:
        self.function = function

    def run(self) -> None:
        blocks = set(self.function.blocks)
        if self.function.blocks[0].predecessors:
            self._fail(None, f"{self.function.blocks[0].name}, the entry, has predecessors")
        if len({block.name for block in blocks}) != len(self.function.blocks):
            self._fail(None, "two blocks have one name")
        for block in self.function.blocks:
            self._check_block(block)
            self._check_edges(block, blocks)
        self._check_dominance()

    def _fail(self, instr: Instr | None, reason: str) -> None:
        what = f"{instr.op} at {instr.location}" if instr is not None else "function"
        raise AssertionError(f"IR of {self.function.name}: {what}: {reason}")

    def _check_block(self, block: Block) -> None:
        for instr in block.instructions:
            if instr.op not in OPS:
                self._fail(instr, "not in the operation table")
        last = block.end
        if last is None:
            self._fail(None, f"block {block.name} has no end")
        seen_other = False
        for instr in block.instructions:
            if instr.block is not block:
                self._fail(instr, f"in {block.name}, but says {instr.block and instr.block.name}")
            if instr.is_end and instr is not last:
                self._fail(instr, "an end before the end of the block")
            if instr.op == "phi":
                if seen_other:
                    self._fail(instr, "a phi after another instruction")
                if len(instr.operands) != len(block.predecessors):
                    self._fail(instr, f"{len(instr.operands)} operands, {len(block.predecessors)} predecessors")
            else:
                seen_other = True
            self._check_instr(instr)

    def _check_edges(self, block: Block, blocks: set[Block]) -> None:
        for successor in block.successors:
            if successor not in blocks:
                self._fail(block.end, f"goes to {successor.name}, which is not in the function")
            if block not in successor.predecessors:
                self._fail(block.end, f"{successor.name} does not list {block.name} as a predecessor")
        for predecessor in block.predecessors:
            if predecessor not in blocks or block not in predecessor.successors:
                self._fail(None, f"{block.name} lists {predecessor.name} as a predecessor, which does not go there")

    def _check_instr(self, instr: Instr) -> None:
        spec = OPS[instr.op]
        if spec.arity not in (-1, len(instr.operands)):
            self._fail(instr, f"{len(instr.operands)} operands, expected {spec.arity}")
        for name in spec.attributes:
            if name not in instr.attrs:
                missing = set(spec.attributes) - set(instr.attrs)
                self._fail(instr, f"missing attributes {sorted(missing)}")
        kinds = [value.type for value in instr.operands]
        if instr.op == "return":
            expected = [] if isinstance(self.function.result, NoneType) else [self.function.result]
            if kinds != expected:
                self._fail(instr, f"returns {kinds}, expected {expected}")
        check = _CHECKS.get(instr.op)
        reason = check(instr, kinds) if check is not None else None
        if reason is not None:
            self._fail(instr, reason)

    def _check_dominance(self) -> None:
        """Every operand is defined on every path to its use; in blocks that are never reached, nothing is asked."""
        order = reverse_postorder(self.function)
        dominators = Dominators(order)
        params = set(self.function.params)
        for block in order:
            done: set[Value] = set()
            for instr in block.instructions:
                for position, value in enumerate(instr.operands):
                    if value in done and instr.op != "phi":
                        continue
                    if isinstance(value, Param) and value not in params:
                        self._fail(instr, f"parameter {value.name} of another function")
                    if not isinstance(value, Instr):
                        continue
                    home = value.block
                    if instr.op == "phi":
                        source = block.predecessors[position]
                        if source in dominators.parents and not (home and dominators.dominates(home, source)):
                            self._fail(instr, f"operand {value.op} is not defined at the end of {source.name}")
                    elif not dominators.is_defined_before(value, block):
                        self._fail(instr, f"operand {value.op} is not defined on every path to it")
                done.add(instr)


# what each operation asks of its types: a reason where it does not get it


#: What arithmetic works on; complex numbers are taken apart for it.
_NUMBERS = (Boolean, Integer, Float)


def _same(instr: Instr, kinds: list[Type]) -> str | None:
    fits = isinstance(instr.type, _NUMBERS) and all(kind == instr.type for kind in kinds)
    return None if fits else f"operands {kinds} for a result of {instr.type}"


def _float(instr: Instr, kinds: list[Type]) -> str | None:
    return _same(instr, kinds) if isinstance(instr.type, Float) else f"on {instr.type}"


def _bitwise(instr: Instr, kinds: list[Type]) -> str | None:
    return f"on {instr.type}" if isinstance(instr.type, Float) else _same(instr, kinds)


def _const(instr: Instr, kinds: list[Type]) -> str | None:
    kind, value = instr.type, instr.attrs["value"]
    if isinstance(kind, Boolean):
        fits = isinstance(value, bool)
    elif isinstance(kind, Integer):
        low = -(1 << (kind.bits - 1)) if kind.signed else 0
        fits = type(value) is int and low <= value < low + (1 << kind.bits)
    elif isinstance(kind, Complex):
        fits = isinstance(value, complex)
    else:
        fits = isinstance(kind, Float) and isinstance(value, float)
    return None if fits else f"{value!r} of {kind}"


def _shift(instr: Instr, kinds: list[Type]) -> str | None:
    fits = kinds[0] == instr.type and isinstance(instr.type, Integer) and isinstance(kinds[1], Integer)
    return None if fits else f"operands {kinds} for a result of {instr.type}"


def _cmp(instr: Instr, kinds: list[Type]) -> str | None:
    if instr.attrs["predicate"] not in ("eq", "ne", "lt", "le", "gt", "ge"):
        return f"predicate {instr.attrs['predicate']}"
    fits = kinds[0] == kinds[1] and isinstance(kinds[0], _NUMBERS) and isinstance(instr.type, Boolean)
    return None if fits else f"compares {kinds} to {instr.type}"


def _select(instr: Instr, kinds: list[Type]) -> str | None:
    fits = isinstance(kinds[0], Boolean) and kinds[1] == kinds[2] == instr.type
    return None if fits else f"operands {kinds} for a result of {instr.type}"


def _phi(instr: Instr, kinds: list[Type]) -> str | None:
    fits = all(kind == instr.type for kind in kinds)
    return None if fits else f"operands {kinds} for a result of {instr.type}"


def _cast(instr: Instr, kinds: list[Type]) -> str | None:
    fits = isinstance(kinds[0], _NUMBERS) and isinstance(instr.type, _NUMBERS)
    return None if fits else f"from {kinds[0]} to {instr.type}"


def _complex(instr: Instr, kinds: list[Type]) -> str | None:
    fits = isinstance(instr.type, Complex) and all(kind == instr.type.part for kind in kinds)
    return None if fits else f"of {kinds} to {instr.type}"


def _part(instr: Instr, kinds: list[Type]) -> str | None:
    index, (kind,) = instr.attrs["index"], kinds
    fits = index in (0, 1) and isinstance(kind, Complex) and kind.part == instr.type
    return None if fits else f"{index} of {kind} to {instr.type}"


def _field(instr: Instr, kinds: list[Type]) -> str | None:
    base, result, offset = kinds[0], instr.type, instr.attrs["offset"]
    if not isinstance(base, Array) or not isinstance(result, Array):
        return f"of {base} to {result}"
    shape = instr.attrs.get("shape", ())
    same = result.ndim == base.ndim + len(shape) and result.space == base.space and result.readonly == base.readonly
    inside = 0 <= offset <= base.dtype.size - result.dtype.size * prod(shape)
    fits = same and inside and (result.layout == "A" or base.ndim == 0)
    return None if fits else f"at {offset} of {base} to {result}"


def _reshape(instr: Instr, kinds: list[Type]) -> str | None:
    base, result = kinds[0] if kinds else None, instr.type
    if not isinstance(base, Array) or not isinstance(result, Array):
        return f"of {base} to {result}"
    same = result.space == base.space and result.readonly == base.readonly and base.layout == result.layout == "C"
    fits = same and len(kinds) == 1 + result.ndim and all(map(_is_int64, kinds[1:]))
    return None if fits else f"of {kinds} to {result}"


def _transpose(instr: Instr, kinds: list[Type]) -> str | None:
    base, result, order = kinds[0], instr.type, instr.attrs["order"]
    if not isinstance(base, Array) or not isinstance(result, Array):
        return f"of {base} to {result}"
    same = result.space == base.space and result.readonly == base.readonly and result.dtype == base.dtype
    fits = same and len(order) == result.ndim and sorted(a for a in order if a >= 0) == list(range(base.ndim))
    return None if fits else f"{order} of {base} to {result}"


def _address(instr: Instr, kinds: list[Type]) -> str | None:
    return None if isinstance(kinds[0], Array) and _is_int64(instr.type) else f"of {kinds} to {instr.type}"


def _retype(instr: Instr, kinds: list[Type]) -> str | None:
    words = (Integer, Float, DateTime, TimeDelta)
    kind, target = kinds[0], instr.type
    fits = isinstance(kind, words) and isinstance(target, words) and kind.size == target.size
    return None if fits else f"of {kind} to {target}"


def _math(instr: Instr, kinds: list[Type]) -> str | None:
    name = instr.attrs["function"]
    fits = MATH.get(name) == len(kinds) and isinstance(instr.type, Float) and kinds[0] == instr.type
    return None if fits else f"{name} of {kinds} to {instr.type}"


def _libdevice(instr: Instr, kinds: list[Type]) -> str | None:
    signature = FUNCTIONS.get(instr.attrs["function"])
    if signature is None:
        return f"{instr.attrs['function']} is none"
    found = instr.type.elements if isinstance(instr.type, Tuple) else (instr.type,)
    fits = [kind.name for kind in found] == signature.results and len(kinds) == len(signature.arguments)
    fits = fits and all(_is_given(kind, name) for kind, name in zip(kinds, signature.arguments, strict=True))
    return None if fits else f"{instr.attrs['function']} of {kinds} to {instr.type}"


def _is_given(kind: Type, wanted: str) -> bool:
    """Whether a libdevice argument of type ``wanted`` may be this; a vector may lie in any memory."""
    if isinstance(kind, Array):
        return kind.ndim == 1 and kind.layout == "C" and wanted == f"{kind.dtype.name}[::1]"
    return kind.name == wanted


def _test(instr: Instr, kinds: list[Type]) -> str | None:
    fits = isinstance(kinds[0], Float) and isinstance(instr.type, Boolean)
    return None if fits else f"of {kinds[0]} to {instr.type}"


def _tuple(instr: Instr, kinds: list[Type]) -> str | None:
    return None if instr.type == Tuple(kinds) else f"of {kinds} to {instr.type}"


def _item(instr: Instr, kinds: list[Type]) -> str | None:
    index = instr.attrs["index"]
    fits = (
        isinstance(kinds[0], Tuple) and 0 <= index < len(kinds[0].elements) and kinds[0].elements[index] == instr.type
    )
    return None if fits else f"{index} of {kinds[0]} to {instr.type}"


def _axis(instr: Instr, kinds: list[Type]) -> str | None:
    axis = instr.attrs["axis"]
    fits = isinstance(kinds[0], Array) and 0 <= axis < kinds[0].ndim and _is_int64(instr.type)
    return None if fits else f"{axis} of {kinds[0]} to {instr.type}"


def _wrap(instr: Instr, kinds: list[Type]) -> str | None:
    fits = _is_int64(instr.type) and all(_is_int64(kind) for kind in kinds)
    return None if fits else f"of {kinds} to {instr.type}"


def _is_int64(kind: Type) -> bool:
    return isinstance(kind, Integer) and kind.bits == 64 and kind.signed


def _access(instr: Instr, kinds: list[Type]) -> str | None:
    if not kinds or not isinstance(kinds[0], Array):
        return f"on {kinds[:1]}"
    array = kinds[0]
    first = len(kinds) - {"load": 0, "atomic_cas": 2}.get(instr.op, 1)
    indices, values = kinds[1:first], kinds[first:]
    if len(indices) != array.ndim or not all(isinstance(kind, Integer) for kind in indices):
        return f"{indices} as indices of {array}"
    if any(kind != array.dtype for kind in values):
        return f"{values} into {array}"
    if instr.op != "store" and instr.type != array.dtype:
        return f"{instr.type} from {array}"
    return _atomic(instr, array) if instr.op == "atomic" else None


def _atomic(instr: Instr, array: Array) -> str | None:
    wanted = ATOMICS.get(instr.attrs["function"])
    dtype = array.dtype
    fits = {
        "number": isinstance(dtype, Scalar),  # which of them a target has is for its dialect to say
        "integer": isinstance(dtype, Integer),
        "unsigned": isinstance(dtype, Integer) and not dtype.signed,
    }
    return None if wanted is not None and fits[wanted] else f"{instr.attrs['function']} on {array}"


def _view(instr: Instr, kinds: list[Type]) -> str | None:
    axes = instr.attrs["axes"]
    base = kinds[0] if kinds else None
    if not isinstance(base, Array) or not isinstance(instr.type, Array) or set(axes) - set("is-"):
        return f"{axes} of {base} to {instr.type}"
    taken = kinds[1:]
    fits = (
        len(axes) == base.ndim
        and instr.type.ndim == sum(letter != "i" for letter in axes)
        and len(taken) == sum({"i": 1, "s": 3, "-": 0}[letter] for letter in axes)
        and all(isinstance(kind, Integer) for kind in taken)
        and instr.type.dtype == base.dtype
    )
    return None if fits else f"{axes} with {taken} of {base} to {instr.type}"


def _static(instr: Instr, kinds: list[Type]) -> str | None:
    shape = instr.attrs["shape"]
    fits = isinstance(instr.type, Array) and len(shape) == instr.type.ndim and instr.type.space == instr.op
    return None if fits else f"of shape {shape} to {instr.type}"


def _array_at(instr: Instr, kinds: list[Type]) -> str | None:
    array = instr.type
    if not isinstance(array, Array) or array.space != "global":
        return "makes no array in global memory"
    numbers = 1 + array.ndim * (2 if array.layout == "A" else 1)
    if len(kinds) != numbers or not all(isinstance(kind, Integer) and kind.bits == 64 for kind in kinds):
        return f"takes {numbers} numbers of 64 bits"
    home = instr.attrs.get("home", "device")
    return None if home in ("device", "gpu", "host") else f"home {home!r}"


def _constant(instr: Instr, kinds: list[Type]) -> str | None:
    array, shape, data = instr.type, instr.attrs["shape"], instr.attrs["data"]
    if not (isinstance(array, Array) and array.readonly and array.layout == "C"):
        return f"of {array}"
    fits = len(shape) == array.ndim and len(data) == 2 * prod(shape) * array.dtype.size
    return None if fits else f"{len(data)} digits for {shape} of {array}"


#: Rendez-vous operations -> the types that their operands must have (None: see the code), and the result's per mode.
_TOGETHER: dict[str, tuple[tuple[Type | None, ...], dict[str, Type]]] = {
    "barrier_reduce": ((bool_,), {"count": int32, "and": bool_, "or": bool_}),
    "vote": ((uint32, bool_), {"all": bool_, "any": bool_, "eq": bool_, "ballot": uint32}),
    "match": ((uint32, None), {"any": uint32, "all": uint32}),
}


def _together(instr: Instr, kinds: list[Type]) -> str | None:
    wanted, results = _TOGETHER[instr.op]
    mode = instr.attrs["mode"]
    if any(want not in (None, kind) for want, kind in zip(wanted, kinds, strict=True)):
        return f"{mode} of {kinds}"
    if instr.type != results.get(mode):
        return f"{mode} to {instr.type}"
    value = kinds[-1]
    fits = instr.op != "match" or (isinstance(value, (Integer, Float)) and value.bits >= 32)
    return None if fits else f"{mode} of {value}"


def _count(instr: Instr, kinds: list[Type]) -> str | None:
    wanted = kinds[0] if instr.op == "brev" else int32
    return None if isinstance(kinds[0], Integer) and instr.type == wanted else f"of {kinds[0]} to {instr.type}"


def _mask(instr: Instr, kinds: list[Type]) -> str | None:
    return None if kinds[0] == uint32 else f"of {kinds[0]}"


def _activemask(instr: Instr, kinds: list[Type]) -> str | None:
    return None if instr.type == uint32 else f"to {instr.type}"


def _clock(instr: Instr, kinds: list[Type]) -> str | None:
    source = instr.attrs["source"]
    return None if source in ("cycle", "ns") and instr.type == int64 else f"{source} to {instr.type}"


def _fence(instr: Instr, kinds: list[Type]) -> str | None:
    scope = instr.attrs["scope"]
    return None if scope in ("block", "device", "system") else f"of {scope}"


def _print(instr: Instr, kinds: list[Type]) -> str | None:
    wanted = [PLACEHOLDERS[part] for part in split_text(instr.attrs["text"]) if part in PLACEHOLDERS]
    return None if wanted == kinds else f"{kinds} for {wanted}"


def _branch(instr: Instr, kinds: list[Type]) -> str | None:
    return None if isinstance(kinds[0], Boolean) else f"on {kinds[0]}"


def _foreign(instr: Instr, kinds: list[Type]) -> str | None:
    plain = all(isinstance(kind, (Boolean, Integer, Float)) for kind in kinds)
    fits = plain and (instr.type == none or isinstance(instr.type, (Boolean, Integer, Float)))
    return None if fits and instr.attrs["abi"] in ("c", "numba") else f"{kinds} to {instr.type}"


def _call(instr: Instr, kinds: list[Type]) -> str | None:
    callee: Function = instr.attrs["callee"]
    fits = [param.type for param in callee.params] == kinds and callee.result == instr.type
    return None if fits else f"{callee.name} with {kinds} to {instr.type}"


_CHECKS: dict[str, Callable[[Instr, list[Type]], str | None]] = {
    **dict.fromkeys(("within", "add", "sub", "mul", "min", "max", "floordiv", "mod", "neg", "abs", "inv"), _same),
    **dict.fromkeys(("div", "fmod"), _float),
    **dict.fromkeys(("and", "or", "xor"), _bitwise),
    **dict.fromkeys(("shl", "shr"), _shift),
    **dict.fromkeys(("isnan", "isinf", "isfinite"), _test),
    **dict.fromkeys(("dim", "stride"), _axis),
    **dict.fromkeys(("load", "store", "atomic", "atomic_cas"), _access),
    **dict.fromkeys(("shared", "local"), _static),
    **dict.fromkeys(_TOGETHER, _together),
    **dict.fromkeys(("popc", "clz", "ctz", "brev"), _count),
    **dict.fromkeys(("nanosleep", "syncwarp"), _mask),
    "complex": _complex, "part": _part, "field": _field, "reshape": _reshape, "transpose": _transpose,
    "array_at": _array_at, "address": _address, "retype": _retype, "const": _const, "cmp": _cmp,
    "select": _select, "phi": _phi, "cast": _cast, "math": _math, "tuple": _tuple,
    "item": _item, "wrap": _wrap, "view": _view, "constant": _constant, "activemask": _activemask, "clock": _clock,
    "libdevice": _libdevice,
    "fence": _fence, "branch": _branch, "call": _call, "foreign": _foreign, "print": _print,
}  # fmt: skip
