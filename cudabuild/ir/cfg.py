# SPDX-License-Identifier: Apache-2.0
"""The control flow graph of a function: order of blocks, dominators, cycles, loops.

Everything here is computed from ``predecessors`` and ``successors`` when asked for; nothing is kept on the function.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from cudabuild.ir.ir import Block, Function, Instr, Param, Value

__all__ = ["Dominators", "Loop", "find_cycles", "find_loops", "order_from", "reverse_postorder"]


class _Node(Protocol):
    @property
    def successors(self) -> Iterable[Any]: ...


N = TypeVar("N", bound=_Node)


def reverse_postorder(function: Function) -> list[Block]:
    """The blocks that can be reached, each after its dominators."""
    return order_from(function.blocks[0])


def order_from(entry: N) -> list[N]:
    """The blocks of either IR that can be reached from ``entry``, in reverse postorder."""
    order: list[N] = []
    seen = {entry}
    stack = [(entry, iter(entry.successors))]
    while stack:
        block, successors = stack[-1]
        for successor in successors:
            if successor not in seen:
                seen.add(successor)
                stack.append((successor, iter(successor.successors)))
                break
        else:
            stack.pop()
            order.append(block)
    order.reverse()
    return order


class Dominators:
    """Which block lies on every path to which (Cooper, Harvey and Kennedy's iteration over immediate dominators)."""

    def __init__(self, order: list[Block]) -> None:
        """``order`` is the function's reverse postorder."""
        self.order = order
        number = {block: index for index, block in enumerate(order)}
        entry = order[0]
        self.parents: dict[Block, Block] = {entry: entry}
        changed = True
        while changed:
            changed = False
            for block in order[1:]:
                parent: Block | None = None
                for predecessor in block.predecessors:
                    if predecessor in self.parents:
                        parent = predecessor if parent is None else self._meet(parent, predecessor, number)
                assert parent is not None, "a reachable block has a reachable predecessor earlier in the order"
                if self.parents.get(block) is not parent:
                    self.parents[block] = parent
                    changed = True
        self._number()

    def _meet(self, a: Block, b: Block, number: dict[Block, int]) -> Block:
        while a is not b:
            while number[a] > number[b]:
                a = self.parents[a]
            while number[b] > number[a]:
                b = self.parents[b]
        return a

    def _number(self) -> None:
        """Numbers the dominator tree so that ``dominates`` compares two intervals."""
        self.children: dict[Block, list[Block]] = {block: [] for block in self.order}
        for block in self.order[1:]:
            self.children[self.parents[block]].append(block)
        self._span: dict[Block, tuple[int, int]] = {}
        first: dict[Block, int] = {}
        clock = 0
        stack: list[tuple[Block, bool]] = [(self.order[0], False)]
        while stack:
            block, done = stack.pop()
            if done:
                self._span[block] = (first[block], clock)
                continue
            first[block] = clock
            clock += 1
            stack.append((block, True))
            stack.extend((child, False) for child in self.children[block])

    def dominates(self, a: Block, b: Block) -> bool:
        """True if every path from the entry to ``b`` passes ``a``; every reachable block dominates itself."""
        if a not in self._span or b not in self._span:
            return False
        low, high = self._span[a]
        return low <= self._span[b][0] < high

    def is_defined_before(self, value: Value, block: Block) -> bool:
        """True if ``value`` is a parameter, or defined in a block that strictly dominates ``block``."""
        if isinstance(value, Param):
            return True
        assert isinstance(value, Instr)
        home = value.block
        return home is not None and home is not block and self.dominates(home, block)


def find_cycles(order: list[Block]) -> list[list[Block]]:
    """The strongly connected components, in topological order, each in reverse postorder (Tarjan's algorithm).

    A component of one block is a cycle only if the block is its own successor.
    """
    number = {block: index for index, block in enumerate(order)}
    indices: dict[Block, int] = {}
    low: dict[Block, int] = {}
    open_blocks: list[Block] = []
    is_open: set[Block] = set()
    found: list[list[Block]] = []
    stack = [(order[0], iter(order[0].successors))]
    indices[order[0]] = low[order[0]] = 0
    open_blocks.append(order[0])
    is_open.add(order[0])
    while stack:
        block, successors = stack[-1]
        for successor in successors:
            if successor not in indices:
                indices[successor] = low[successor] = len(indices)
                open_blocks.append(successor)
                is_open.add(successor)
                stack.append((successor, iter(successor.successors)))
                break
            if successor in is_open:
                low[block] = min(low[block], indices[successor])
        else:
            stack.pop()
            if stack:
                parent = stack[-1][0]
                low[parent] = min(low[parent], low[block])
            if low[block] == indices[block]:
                component = []
                while True:
                    member = open_blocks.pop()
                    is_open.discard(member)
                    component.append(member)
                    if member is block:
                        break
                found.append(sorted(component, key=number.__getitem__))
    found.reverse()
    return found


@dataclass(eq=False)
class Loop:
    """A natural loop: the ``latches`` are those of ``blocks`` that jump back to ``header``, which dominates them
    all."""

    header: Block
    latches: list[Block]
    blocks: set[Block]


def find_loops(order: list[Block], dominators: Dominators) -> dict[Block, Loop]:
    """The natural loops by header."""
    loops: dict[Block, Loop] = {}
    for block in order:
        latches = [p for p in dict.fromkeys(block.predecessors) if dominators.dominates(block, p)]
        if latches:
            body = {block}
            pending = list(latches)
            while pending:
                member = pending.pop()
                if member not in body:
                    body.add(member)
                    pending += [p for p in member.predecessors if dominators.dominates(block, p)]
            loops[block] = Loop(block, latches, body)
    return loops
