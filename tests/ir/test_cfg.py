# SPDX-License-Identifier: Apache-2.0
"""Order, dominators, cycles and loops against their definitions, on random graphs."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from cudabuild.ir.cfg import Dominators, find_cycles, find_loops, reverse_postorder
from cudabuild.ir.ir import Block, Builder, Function, Param
from cudabuild.types import bool_, none


def graph(edges: list[tuple[int, ...]]) -> Function:
    """A function whose block ``n`` goes to the blocks ``edges[n]``: none, one or two."""
    condition = Param(bool_, None, "c", 0)
    blocks = [Block(f"b{n}") for n in range(len(edges))]
    for block, targets in zip(blocks, edges, strict=True):
        build = Builder(block)
        if not targets:
            build.ret()
        elif len(targets) == 1:
            build.jump(blocks[targets[0]])
        else:
            build.branch(condition, blocks[targets[0]], blocks[targets[1]])
    return Function("f", [condition], none, blocks, True)


@st.composite
def graphs(draw: st.DrawFn) -> Function:
    size = draw(st.integers(1, 9))
    targets = st.lists(st.integers(0, size - 1), max_size=2).map(tuple)
    return graph([draw(targets) for _ in range(size)])


def reachable(start: Block, without: Block | None = None) -> set[Block]:
    """The blocks on paths from ``start`` that do not pass ``without``."""
    found: set[Block] = set()
    pending = [start]
    while pending:
        block = pending.pop()
        if block not in found and block is not without:
            found.add(block)
            pending += block.successors
    return found


@settings(max_examples=200, deadline=None)
@given(graphs())
def test_dominators(function: Function) -> None:
    entry = function.blocks[0]
    order = reverse_postorder(function)
    assert set(order) == reachable(entry)
    dominators = Dominators(order)
    for a in function.blocks:
        avoiding = reachable(entry, without=a)
        for b in function.blocks:
            expected = a in order and b in order and b not in avoiding
            assert dominators.dominates(a, b) == expected, (a, b)
    for block in order[1:]:
        assert order.index(dominators.parents[block]) < order.index(block)


@settings(max_examples=200, deadline=None)
@given(graphs())
def test_cycles(function: Function) -> None:
    order = reverse_postorder(function)
    cycles = find_cycles(order)
    assert sorted(b.name for cycle in cycles for b in cycle) == sorted(b.name for b in order)
    reach = {block: reachable(block) for block in order}
    for position, cycle in enumerate(cycles):
        assert [b for b in order if b in cycle] == cycle
        for a in cycle:
            assert all(b in reach[a] for b in cycle)
            assert not any(b in reach[a] for earlier in cycles[:position] for b in earlier)


@settings(max_examples=200, deadline=None)
@given(graphs())
def test_loops(function: Function) -> None:
    order = reverse_postorder(function)
    dominators = Dominators(order)
    for header, loop in find_loops(order, dominators).items():
        assert loop.header is header
        for latch in loop.latches:
            assert header in latch.successors
        for block in loop.blocks:
            assert dominators.dominates(header, block)
            assert any(latch in reachable(block, without=header) or block is header for latch in loop.latches)


def test_a_loop_in_a_loop() -> None:
    function = graph([(1,), (2, 5), (3,), (3, 4), (1,), ()])
    order = reverse_postorder(function)
    loops = find_loops(order, Dominators(order))
    names = {h.name: sorted(b.name for b in loop.blocks) for h, loop in loops.items()}
    assert names == {"b1": ["b1", "b2", "b3", "b4"], "b3": ["b3"]}
    assert [[b.name for b in cycle] for cycle in find_cycles(order)] == [["b0"], ["b1", "b2", "b3", "b4"], ["b5"]]
