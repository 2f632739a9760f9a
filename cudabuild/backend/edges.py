# SPDX-License-Identifier: Apache-2.0
"""Between blocks: the labels that they jump to, and their phis, which are written when all blocks are.

A dialect may divide a loop's header in two: control enters the one, and the latches go back to the other. Each has a
phi for each of the header's; what may come back to the first passes through the second.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cudabuild.backend.text import replace
from cudabuild.ir.ir import Instr

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cudabuild.backend.emit import FunctionEmitter
    from cudabuild.backend.text import BlockText, Operand
    from cudabuild.ir.ir import Block, Value

__all__ = ["Edges"]


@dataclass
class _Divided:
    """A loop's header in two: what is entered, and what the latches go back to.

    Attributes:
        latches: the blocks that go back.
        outer: the leaves of each phi in the part that is entered.
        inner: the label of the other part.
        entry: the label from which control comes there.
        renew: the label from which control comes back to the part that is entered.
    """

    latches: list[Block]
    outer: dict[Value, tuple[Operand, ...]]
    inner: str
    entry: str = ""
    renew: str = ""


class Edges:
    """Of the function that ``emitter`` writes.

    Attributes:
        labels: of all blocks.
        exits: where each block that has been written ends.
    """

    def __init__(self, emitter: FunctionEmitter) -> None:
        self.emitter = emitter
        self.labels: dict[Block, str] = {}
        self.exits: dict[Block, BlockText] = {}
        self._divided: dict[Block, _Divided] = {}
        self._inner_leaves: dict[Value, tuple[Operand, ...]] = {}
        self._sources: dict[tuple[Block, Block], str] = {}

    def label(self, source: Block, target: Block) -> str:
        """Where ``source`` goes in order to come to ``target``."""
        divided = self._divided.get(target)
        return divided.inner if divided is not None and source in divided.latches else self.labels[target]

    def complete_phis(self) -> None:
        """Writes the phis, with conversions at the ends of the predecessors: those are all written by now."""
        e = self.emitter
        written = {block.label: block for block in e.text.blocks}
        for block, label in self.labels.items():
            divided = self._divided.get(block)
            for phi in block.phis:
                entering: list[list[str]] = [[] for _ in e.leaves[phi]]
                returning: list[list[str]] = [[] for _ in e.leaves[phi]]
                for value, predecessor in zip(phi.operands, block.predecessors, strict=True):
                    if predecessor not in self.exits:
                        continue
                    e.text.current = self.exits[predecessor]
                    source = self._sources.get((predecessor, block), e.text.current.label)
                    columns = returning if divided is not None and predecessor in divided.latches else entering
                    for column, have, want in zip(columns, e.leaves[value], e.leaves[phi], strict=True):
                        column.append(f"[ {e.coerce(have, want.type).text}, %{source} ]")
                if divided is None:
                    self._write_phi(written[label], e.leaves[phi], entering)
                    continue
                for place, (outer, inner) in enumerate(zip(divided.outer[phi], e.leaves[phi], strict=True)):
                    entering[place].append(f"[ {inner.text}, %{divided.renew} ]")
                    returning[place].append(f"[ {outer.text}, %{divided.entry} ]")
                self._write_phi(written[label], divided.outer[phi], entering)
                self._write_phi(written[divided.inner], e.leaves[phi], returning)

    @staticmethod
    def _write_phi(target: BlockText, leaves: Sequence[Operand], columns: list[list[str]]) -> None:
        for leaf, column in zip(leaves, columns, strict=True):
            target.phis.append(f"  {leaf.text} = phi {leaf.type} {', '.join(column)}")

    def divide_header(self, latches: list[Block]) -> None:
        """Makes what is written now the part of the loop's header that is entered, until :meth:`begin_inner`."""
        e = self.emitter
        outer: dict[Value, tuple[Operand, ...]] = {
            phi: tuple(replace(leaf, text=f"%{e.text.name('outer')}") for leaf in e.leaves[phi]) for phi in e.block.phis
        }
        self._divided[e.block] = _Divided(latches, outer, e.text.name("inner"))
        self._inner_leaves = {phi: e.leaves[phi] for phi in outer}
        e.leaves.update(outer)

    def hoist(self, value: Value) -> Operand:
        """The operand of a value that is the same every turn of the loop whose header is divided."""
        e = self.emitter
        if value not in e.leaves:
            assert isinstance(value, Instr)
            for operand in value.operands:
                self.hoist(operand)
            e.lower(value)
        return e.scalar(value)

    def begin_inner(self) -> None:
        """From here on the part of the header that the latches go back to is written."""
        e = self.emitter
        divided = self._divided[e.block]
        divided.entry = e.text.current.label
        e.text.jump(divided.inner)
        e.text.start(divided.inner)
        e.leaves.update(self._inner_leaves)

    def end_header(self, outside: Block, leave: str) -> None:
        """The current block goes back to the part that is entered; the loop is left from the block ``leave``."""
        e = self.emitter
        divided = self._divided[e.block]
        divided.renew = e.text.current.label
        e.text.jump(self.labels[e.block])
        self._sources[e.block, outside] = leave
        e.text.current = next(block for block in e.text.blocks if block.label == divided.inner)
