# SPDX-License-Identifier: Apache-2.0
"""Checks that typed IR is well formed: every pass and every lowering may rely on what is checked here.

A failure is a fault of ours, never the user's: it raises AssertionError with the instruction's text.
"""

from __future__ import annotations

from math import prod

from cudabuild.ir.ir import Block, Function, Instr, Param, Value
from cudabuild.ir.ops import ATOMICS, MATH, OPS
from cudabuild.types import Array, Boolean, Float, Integer, NoneType, Scalar, Tuple, Type, bool_, int32, int64, uint32

__all__ = ["verify_function"]

_SAME = frozenset(("within", "add", "sub", "mul", "min", "max", "div", "fmod", "floordiv", "mod", "and", "or", "xor"))
_FLOAT_ONLY = frozenset(("div", "fmod"))
_BITWISE = frozenset(("and", "or", "xor"))
_COUNTS = frozenset(("popc", "clz", "ctz"))

#: Rendez-vous operations -> the types that their operands must have (None: see the code), and the result's per mode.
_TOGETHER: dict[str, tuple[tuple[Type | None, ...], dict[str, Type]]] = {
    "barrier_reduce": ((bool_,), {"count": int32, "and": bool_, "or": bool_}),
    "vote": ((uint32, bool_), {"all": bool_, "any": bool_, "eq": bool_, "ballot": uint32}),
    "match": ((uint32, None), {"any": uint32, "all": uint32}),
}


def verify_function(function: Function) -> None:
    """Raises AssertionError unless ``function`` and its callees are well formed."""
    for one in [function, *function.callees]:
        _Verifier(one).run()


class _Verifier:
    def __init__(self, function: Function) -> None:
        self.function = function

    def run(self) -> None:
        blocks = set(self.function.blocks)
        for block in self.function.blocks:
            self._check_block(block, blocks)
        self._check_dominance()

    def _fail(self, instr: Instr | None, reason: str) -> None:
        what = f"{instr.op} at {instr.location}" if instr is not None else "function"
        raise AssertionError(f"IR of {self.function.name}: {what}: {reason}")

    def _check_block(self, block: Block, blocks: set[Block]) -> None:
        if block.end is None:
            self._fail(None, f"block {block.name} has no end")
        seen_other = False
        for position, instr in enumerate(block.instructions):
            if instr.op not in OPS:
                self._fail(instr, "not in the operation table")
            if instr.is_end and position != len(block.instructions) - 1:
                self._fail(instr, "an end before the end of the block")
            if instr.op == "phi":
                if seen_other:
                    self._fail(instr, "a phi after another instruction")
                if len(instr.operands) != len(block.predecessors):
                    self._fail(instr, f"{len(instr.operands)} operands, {len(block.predecessors)} predecessors")
            else:
                seen_other = True
            self._check_instr(instr)
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
        missing = set(spec.attributes) - set(instr.attrs)
        if missing:
            self._fail(instr, f"missing attributes {sorted(missing)}")
        kinds = [value.type for value in instr.operands]
        if instr.op in _SAME:
            if any(kind != instr.type for kind in kinds) or not isinstance(instr.type, Scalar):
                self._fail(instr, f"operands {kinds} for a result of {instr.type}")
            if instr.op in _FLOAT_ONLY and not isinstance(instr.type, Float):
                self._fail(instr, f"on {instr.type}")
            if instr.op in _BITWISE and isinstance(instr.type, Float):
                self._fail(instr, f"on {instr.type}")
        elif instr.op == "const":
            self._check_const(instr, instr.attrs["value"])
        elif instr.op in ("shl", "shr"):
            if kinds[0] != instr.type or not isinstance(instr.type, Integer) or not isinstance(kinds[1], Integer):
                self._fail(instr, f"operands {kinds} for a result of {instr.type}")
        elif instr.op in ("neg", "inv", "abs"):
            if kinds[0] != instr.type:
                self._fail(instr, f"operand {kinds[0]} for a result of {instr.type}")
        elif instr.op == "cmp":
            if kinds[0] != kinds[1] or not isinstance(kinds[0], Scalar) or not isinstance(instr.type, Boolean):
                self._fail(instr, f"compares {kinds}")
        elif instr.op == "select":
            if not isinstance(kinds[0], Boolean) or kinds[1] != instr.type or kinds[2] != instr.type:
                self._fail(instr, f"operands {kinds} for a result of {instr.type}")
        elif instr.op == "phi":
            if any(kind != instr.type for kind in kinds):
                self._fail(instr, f"operands {kinds} for a result of {instr.type}")
        elif instr.op == "cast":
            if not isinstance(kinds[0], Scalar) or not isinstance(instr.type, Scalar):
                self._fail(instr, f"from {kinds[0]} to {instr.type}")
        elif instr.op == "math":
            name = instr.attrs["function"]
            if MATH.get(name) != len(kinds) or not isinstance(instr.type, Float) or kinds[0] != instr.type:
                self._fail(instr, f"{name} of {kinds} to {instr.type}")
        elif instr.op == "tuple":
            if instr.type != Tuple(kinds):
                self._fail(instr, f"of {kinds} to {instr.type}")
        elif instr.op == "item":
            if not isinstance(kinds[0], Tuple) or kinds[0].elements[instr.attrs["index"]] != instr.type:
                self._fail(instr, f"of {kinds[0]} to {instr.type}")
        elif instr.op in ("load", "store", "atomic", "atomic_cas"):
            self._check_access(instr)
        elif instr.op in _TOGETHER:
            self._check_together(instr, kinds)
        elif instr.op in _COUNTS or instr.op == "brev":
            if not isinstance(kinds[0], Integer) or instr.type != (int32 if instr.op in _COUNTS else kinds[0]):
                self._fail(instr, f"of {kinds[0]} to {instr.type}")
        elif instr.op in ("nanosleep", "syncwarp"):
            if kinds[0] != uint32:
                self._fail(instr, f"of {kinds[0]}")
        elif instr.op == "activemask":
            if instr.type != uint32:
                self._fail(instr, f"to {instr.type}")
        elif instr.op == "clock":
            if instr.attrs["source"] not in ("cycle", "ns") or instr.type != int64:
                self._fail(instr, f"{instr.attrs['source']} to {instr.type}")
        elif instr.op == "fence":
            if instr.attrs["scope"] not in ("block", "device", "system"):
                self._fail(instr, f"of {instr.attrs['scope']}")
        elif instr.op == "constant":
            self._check_constant(instr)
        elif instr.op == "branch":
            if not isinstance(kinds[0], Boolean):
                self._fail(instr, f"on {kinds[0]}")
        elif instr.op == "call":
            callee = instr.attrs["callee"]
            if [p.type for p in callee.params] != kinds or callee.result != instr.type:
                self._fail(instr, f"{callee.name} with {kinds} to {instr.type}")
        elif instr.op == "return":
            expected = [] if isinstance(self.function.result, NoneType) else [self.function.result]
            if kinds != expected:
                self._fail(instr, f"returns {kinds}, expected {expected}")

    def _check_const(self, instr: Instr, value: object) -> None:
        kind = instr.type
        if isinstance(kind, Boolean):
            fits = isinstance(value, bool)
        elif isinstance(kind, Integer):
            low = -(1 << (kind.bits - 1)) if kind.signed else 0
            fits = type(value) is int and low <= value < low + (1 << kind.bits)
        else:
            fits = isinstance(kind, Float) and isinstance(value, float)
        if not fits:
            self._fail(instr, f"{value!r} of {kind}")

    def _check_access(self, instr: Instr) -> None:
        array = instr.operands[0].type
        if not isinstance(array, Array):
            self._fail(instr, f"on {array}")
            return
        values = {"load": 0, "atomic_cas": 2}.get(instr.op, 1)
        indices = instr.operands[1 : len(instr.operands) - values]
        if len(indices) != array.ndim or not all(isinstance(i.type, Integer) for i in indices):
            self._fail(instr, f"{[i.type for i in indices]} as indices of {array}")
        for value in instr.operands[len(instr.operands) - values :]:
            if value.type != array.dtype:
                self._fail(instr, f"a value of {value.type} into {array}")
        if instr.op != "store" and instr.type != array.dtype:
            self._fail(instr, f"{instr.type} from {array}")
        if instr.op == "atomic":
            wanted = ATOMICS.get(instr.attrs["function"])
            dtype = array.dtype
            fits = {
                "number": isinstance(dtype, Scalar),  # which of them a target has is for its dialect to say
                "integer": isinstance(dtype, Integer),
                "unsigned": isinstance(dtype, Integer) and not dtype.signed,
            }
            if wanted is None or not fits[wanted]:
                self._fail(instr, f"{instr.attrs['function']} on {array}")

    def _check_together(self, instr: Instr, kinds: list[Type]) -> None:
        wanted, results = _TOGETHER[instr.op]
        mode = instr.attrs["mode"]
        if any(want not in (None, kind) for want, kind in zip(wanted, kinds, strict=True)):
            self._fail(instr, f"{mode} of {kinds}")
        if instr.type != results.get(mode):
            self._fail(instr, f"{mode} to {instr.type}")
        value = kinds[-1]
        if instr.op == "match" and not (isinstance(value, (Integer, Float)) and value.bits >= 32):
            self._fail(instr, f"{mode} of {value}")

    def _check_constant(self, instr: Instr) -> None:
        array = instr.type
        if not (isinstance(array, Array) and array.readonly and array.layout == "C"):
            self._fail(instr, f"of {array}")
            return
        count = prod(instr.attrs["shape"])
        if len(instr.attrs["shape"]) != array.ndim or len(instr.attrs["data"]) != 2 * count * array.dtype.size:
            self._fail(instr, f"{len(instr.attrs['data'])} digits for {instr.attrs['shape']} of {array}")

    def _check_dominance(self) -> None:
        """Every operand is defined on every path to its use."""
        available = _available_at_entry(self.function)
        for block in self.function.blocks:
            known = set(available.get(block, ()))
            for instr in block.instructions:
                if instr.op == "phi":
                    for value, predecessor in zip(instr.operands, block.predecessors, strict=True):
                        if isinstance(value, Instr) and predecessor in available:
                            outgoing = available[predecessor] | set(predecessor.instructions)
                            if value not in outgoing:
                                self._fail(instr, f"operand {value.op} is not defined at the end of {predecessor.name}")
                else:
                    for value in instr.operands:
                        if isinstance(value, Instr) and value not in known:
                            self._fail(instr, f"operand {value.op} is not defined on every path to it")
                        if isinstance(value, Param) and value not in self.function.params:
                            self._fail(instr, f"parameter {value.name} of another function")
                known.add(instr)


def _available_at_entry(function: Function) -> dict[Block, set[Value]]:
    """For every reachable block, the instructions defined on every path to its start (greatest fixpoint)."""
    available: dict[Block, set[Value]] = {function.blocks[0]: set()}
    changed = True
    while changed:
        changed = False
        for block in function.blocks:
            if block not in available:
                continue
            outgoing = available[block] | set(block.instructions)
            for successor in block.successors:
                if successor not in available:
                    available[successor] = set(outgoing)
                    changed = True
                elif successor is not function.blocks[0]:
                    narrowed = available[successor] & outgoing
                    if narrowed != available[successor]:
                        available[successor] = narrowed
                        changed = True
    return available
