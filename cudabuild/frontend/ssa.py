# SPDX-License-Identifier: Apache-2.0
"""SSA construction while blocks are being built, after Braun et al., "Simple and Efficient Construction of Static
Single Assignment Form" (CC 2013): a variable read looks for its definition backwards and makes phis where paths
join."""

from __future__ import annotations

import ast

from cudabuild.errors import Location
from cudabuild.ir.cfg import order_from
from cudabuild.ir.hir import HirBlock, HirInstr

__all__ = ["SsaBuilder"]


class SsaBuilder:
    """Blocks, the current block, and the variables' definitions."""

    def __init__(self) -> None:
        self.blocks: list[HirBlock] = []
        self.current: HirBlock | None = None
        self._definitions: dict[str, dict[HirBlock, HirInstr]] = {}
        self._sealed: set[HirBlock] = set()
        self._incomplete: dict[HirBlock, dict[str, HirInstr]] = {}
        self._replaced: dict[HirInstr, HirInstr] = {}
        self._phi_users: dict[HirInstr, list[HirInstr]] = {}

    # blocks

    def new_block(self, hint: str, *, sealed: bool = False) -> HirBlock:
        block = HirBlock(f"{hint}{len(self.blocks)}" if self.blocks else hint)
        self.blocks.append(block)
        if sealed:
            self._sealed.add(block)
        return block

    def seal(self, block: HirBlock) -> None:
        """No predecessor will be added to ``block`` any more: its open phis get their operands."""
        for variable, phi in self._incomplete.pop(block, {}).items():
            self._complete(variable, [phi])
        self._sealed.add(block)

    # instructions

    def emit(self, op: str, location: Location, *operands: HirInstr | None, **attrs: object) -> HirInstr:
        """Appends to the current block; after a jump or return, to a block that nothing reaches."""
        if self.current is None:
            self.current = self.new_block("dead", sealed=True)
        instr = HirInstr(op, list(operands), attrs, location, self.current)
        self.current.instructions.append(instr)
        return instr

    def jump(self, target: HirBlock, location: Location) -> None:
        if self.current is not None:
            target.predecessors.append(self.current)
            self.emit("jump", location, target=target)
            self.current = None

    def branch(self, condition: HirInstr, then: HirBlock, otherwise: HirBlock, location: Location) -> None:
        if self.current is not None:
            then.predecessors.append(self.current)
            otherwise.predecessors.append(self.current)
            self.emit("branch", location, condition, **{"then": then, "else": otherwise})
            self.current = None

    def ret(self, location: Location, *value: HirInstr, node: ast.expr | None = None) -> None:
        if self.current is not None:
            self.emit("return", location, *value).nodes = () if node is None else (node,)
            self.current = None

    # variables

    def write(self, variable: str, value: HirInstr) -> None:
        block = self.current if self.current is not None else self.new_block("dead", sealed=True)
        self.current = block
        self._definitions.setdefault(variable, {})[block] = value

    def read(self, variable: str, location: Location) -> HirInstr:
        block = self.current if self.current is not None else self.new_block("dead", sealed=True)
        self.current = block
        return self._read(variable, block, location)

    def _read(self, variable: str, block: HirBlock, location: Location) -> HirInstr:
        opened: list[HirInstr] = []
        value = self._find(variable, block, location, opened)
        self._complete(variable, opened)
        return self._final(value)

    def _find(self, variable: str, block: HirBlock, location: Location, opened: list[HirInstr]) -> HirInstr:
        """What ``variable`` is at the end of ``block``; where paths join a phi, in ``opened``, to be completed."""
        definitions = self._definitions.setdefault(variable, {})
        if block in definitions:
            return self._final(definitions[block])
        passed: dict[HirBlock, None] = {}
        while block not in definitions and block in self._sealed and len(block.predecessors) == 1:
            if block in passed:  # a loop that nothing enters
                break
            passed[block] = None
            block = block.predecessors[0]
        value: HirInstr
        if block in definitions:
            value = self._final(definitions[block])
        elif block not in self._sealed:
            value = self._new_phi(variable, block, location)
            self._incomplete.setdefault(block, {})[variable] = value
        elif len(block.predecessors) > 1:
            value = self._new_phi(variable, block, location)
            opened.append(value)
        else:
            value = HirInstr("undef", [], {"variable": variable}, location, block)
            block.instructions.insert(0, value)
        definitions[block] = value
        for one in passed:
            definitions[one] = value
        return value

    def _complete(self, variable: str, opened: list[HirInstr]) -> None:
        """Gives phis their operands. A list in place of recursion: hundreds of branches are hundreds of joins deep."""
        while opened:
            phi = opened.pop()
            assert phi.block is not None
            for predecessor in phi.block.predecessors:
                operand = self._find(variable, predecessor, phi.location, opened)
                phi.operands.append(operand)
                if operand.op == "phi":
                    self._phi_users.setdefault(operand, []).append(phi)
            self._simplify(phi)

    def _new_phi(self, variable: str, block: HirBlock, location: Location) -> HirInstr:
        phi = HirInstr("phi", [], {"variable": variable}, location, block)
        block.instructions.insert(0, phi)
        return phi

    def _simplify(self, phi: HirInstr) -> None:
        """Replaces a phi that joins one value (and itself) by that value, and then those that join it likewise."""
        pending = [phi]
        while pending:
            one = pending.pop()
            same = None if one in self._replaced else self._only_operand(one)
            if same is None:
                continue
            assert one.block is not None
            self._replaced[one] = same
            one.block.instructions.remove(one)
            for user in self._phi_users.pop(one, []):
                if same.op == "phi":
                    self._phi_users.setdefault(same, []).append(user)
                pending.append(user)

    def _only_operand(self, phi: HirInstr) -> HirInstr | None:
        """What all operands of a phi are, itself not counted; None where they differ."""
        same: HirInstr | None = None
        for operand in phi.operands:
            assert operand is not None
            operand = self._final(operand)
            if operand is same or operand is phi:
                continue
            if same is not None:
                return None
            same = operand
        return same

    def _final(self, value: HirInstr) -> HirInstr:
        while value in self._replaced:
            value = self._replaced[value]
        return value

    # the end

    def finish(self, entry: HirBlock) -> list[HirBlock]:
        """The reachable blocks in reverse post-order, operands resolved, unreachable predecessors gone."""
        order = order_from(entry)
        reachable = set(order)
        for block in order:
            keep = [i for i, p in enumerate(block.predecessors) if p in reachable]
            if len(keep) != len(block.predecessors):
                block.predecessors = [block.predecessors[i] for i in keep]
                for instr in block.instructions:
                    if instr.op == "phi":
                        instr.operands = [instr.operands[i] for i in keep]
            for instr in block.instructions:
                instr.operands = [None if v is None else self._final(v) for v in instr.operands]
        return order
