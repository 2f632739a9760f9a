# SPDX-License-Identifier: Apache-2.0
"""Copies of functions and of their bodies."""

from __future__ import annotations

from cudabuild.ir.ir import Block, Function, Instr, Param, Value

__all__ = ["clone_blocks", "clone_function"]


def clone_blocks(function: Function, values: dict[Value, Value], name: str = "{}") -> list[Block]:
    """Copies the blocks of ``function``; callees are shared, not copied.

    Args:
        function: what to copy.
        values: what stands for each parameter in the copy; the copy of every instruction is added.
        name: the pattern for the names of the new blocks.
    """
    blocks = {block: Block(name.format(block.name)) for block in function.blocks}
    for block, copy in blocks.items():
        copy.predecessors = [blocks[p] for p in block.predecessors]
        for instr in block.instructions:
            attrs = {key: blocks.get(v, v) if isinstance(v, Block) else v for key, v in instr.attrs.items()}
            made = Instr(instr.type, instr.location, instr.op, list(instr.operands), attrs, copy, instr.hint)
            values[instr] = made
            copy.instructions.append(made)
    for copy in blocks.values():
        for instr in copy.instructions:
            instr.operands = [values[operand] for operand in instr.operands]
    return list(blocks.values())


def clone_function(function: Function) -> Function:
    """A copy of ``function`` that shares no parameter, block or instruction with it, nor do its device functions."""
    callees: dict[Function, Function] = {}
    for one in [*function.callees, function]:
        params = [Param(p.type, p.location, p.name, p.index) for p in one.params]
        blocks = clone_blocks(one, dict(zip(one.params, params, strict=True)))
        copy = Function(one.name, params, one.result, blocks, one.is_kernel, one.location, one.links)
        for instr in copy.instructions():
            if instr.op == "call":
                instr.attrs["callee"] = callees[instr.attrs["callee"]]
        callees[one] = copy
    return callees[function]
