# SPDX-License-Identifier: Apache-2.0
"""Puts device functions that synchronise into their callers.

A barrier or warp operation is where a thread of the CPU device is suspended, and only the kernel's own body can be:
LLVM's inliner would do it too late and compile wrong numbers without a word.

Before::

    entry:                                      device total(x: float32) -> float32
      %1: float32 = call %0 callee=total          entry:
      store %y, %i, %1                              %0: float32 = shfl …
                                                    return %0
After::

    entry:
      jump total.entry
    total.entry:
      %1: float32 = shfl …
      jump entry.after
    entry.after:
      %2: float32 = phi %1
      store %y, %i, %2
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from cudabuild.ir.ir import Block, Builder, Function, Instr, Value, replace_uses
from cudabuild.ir.passes.clone import clone_blocks
from cudabuild.types import Array, NoneType, Tuple, Type

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["free_name", "inline_call", "inline_calls", "inline_long", "inline_synchronising", "split_after"]


def inline_synchronising(function: Function) -> None:
    """Inlines every call, in ``function`` and below, of a function from which a barrier or warp operation is
    reached, or that returns a local array of its own: its stack memory would be gone."""
    inline_calls(function, lambda callee: callee.synchronises or _returns_own_memory(callee))


def _returns_own_memory(callee: Function) -> bool:
    """Whether a result may lie in a local array; not of a function that calls itself, which stays a call."""
    return not _leads_back(callee) and _holds_local(callee.result)


def _holds_local(kind: Type) -> bool:
    if isinstance(kind, Tuple):
        return any(map(_holds_local, kind.elements))
    return isinstance(kind, Array) and kind.space in ("local", "generic")


def inline_long(function: Function) -> None:
    """Inlines every call, in ``function`` and below, that is given an array which may have more elements than the
    arrays that a launch is given: the 32-bit variant passes extents as 32 bits, and keeps others wide in one function.

    Those are views with smaller elements, and arrays at addresses. A function that calls itself stays one.
    """
    for one in [*function.callees, function]:
        if not any(instr.op in _LENGTHENS and _makes_long(instr) for instr in one.instructions()):
            continue
        kept: set[Instr] = set()
        while (call := _find_long_call(one, kept)) is not None:
            if _leads_back(call.attrs["callee"]):
                kept.add(call)
            else:
                inline_call(one, call)


def _find_long_call(function: Function, kept: set[Instr]) -> Instr | None:
    return next(
        (
            instr
            for instr in function.instructions()
            if instr.op == "call" and instr not in kept and any(map(_is_long, instr.operands))
        ),
        None,
    )


def _leads_back(function: Function) -> bool:
    """Whether a function calls itself, by way of others or not."""
    reached = (function, *function.callees)
    return any(i.op == "call" and i.attrs["callee"] is function for one in reached for i in one.instructions())


#: Operations that may make an array longer than it was, see ``_makes_long``.
_LENGTHENS = frozenset(("array_at", "reshape"))


def _makes_long(value: Value) -> bool:
    if not isinstance(value, Instr) or not isinstance(value.type, Array):
        return False
    if value.op == "reshape":
        base = value.operands[0].type
        return isinstance(base, Array) and value.type.dtype.size < base.dtype.size
    known = (isinstance(extent, Instr) and extent.op == "const" for extent in value.operands[1:])
    return value.op == "array_at" and not all(known)


def _is_long(value: Value) -> bool:
    """Whether an array comes of one that may be long, by way of other views."""
    while isinstance(value, Instr) and isinstance(value.type, Array):
        if _makes_long(value):
            return True
        if value.op not in ("field", "reshape", "transpose", "view"):
            return False
        value = value.operands[0]
    return False


def inline_calls(function: Function, wanted: Callable[[Function], bool]) -> None:
    """Inlines every call, in ``function`` and below, of a device function that is ``wanted``."""
    for one in [*function.callees, function]:  # callees first: what is inlined has no such call left
        asked = cache(wanted)  # there are far more calls than functions
        calls = [i for i in one.instructions() if i.op == "call" and asked(i.attrs["callee"])]
        for call in calls:
            inline_call(one, call)


def inline_call(function: Function, call: Instr) -> None:
    """Replaces one call in ``function`` by the callee's body."""
    callee: Function = call.attrs["callee"]
    block = call.block
    assert block is not None
    taken = {b.name for b in function.blocks}
    after = split_after(block, call, free_name(f"{block.name}.after", taken))
    prefix = _free_prefix(callee, taken)
    made: dict[Value, Value] = dict(zip(callee.params, call.operands, strict=True))
    body = clone_blocks(callee, made, prefix + "{}")
    results = _redirect_returns(body, after)
    block.instructions.pop()  # the call
    Builder(block, call.location).jump(body[0])
    at = function.blocks.index(block) + 1
    function.blocks[at:at] = [*body, after]
    if not isinstance(call.type, NoneType):
        if results:
            value = Instr(call.type, call.location, "phi", results, {}, after, call.hint)
        else:  # a callee that never returns: what follows is never reached
            value = Instr(call.type, call.location, "undef", [], {}, after)
        after.instructions.insert(0, value)
        replace_uses(function, {call: value})


def split_after(block: Block, call: Instr, name: str) -> Block:
    """Moves what follows ``call`` into a new block, which takes over the successors."""
    after = Block(name)
    at = block.instructions.index(call) + 1
    after.instructions = block.instructions[at:]
    del block.instructions[at:]
    for instr in after.instructions:
        instr.block = after
    for successor in dict.fromkeys(after.successors):
        successor.predecessors = [after if p is block else p for p in successor.predecessors]
    return after


def _redirect_returns(body: list[Block], after: Block) -> list[Value]:
    """Makes every return jump to ``after``; the values returned, in the order of its predecessors."""
    results: list[Value] = []
    for block in body:
        end = block.end
        if end is not None and end.op == "return":
            block.instructions.pop()
            results += end.operands
            Builder(block, end.location).jump(after)
    return results


def free_name(name: str, taken: set[str]) -> str:
    """``name``, with a number behind it where it is ``taken``."""
    candidate, count = name, 1
    while candidate in taken:
        count += 1
        candidate = f"{name}{count}"
    return candidate


def _free_prefix(callee: Function, taken: set[str]) -> str:
    """A prefix that keeps the names of the callee's blocks apart from those in use."""
    count = 1
    prefix = f"{callee.name}."
    while any(prefix + block.name in taken for block in callee.blocks):
        count += 1
        prefix = f"{callee.name}.{count}."
    return prefix
