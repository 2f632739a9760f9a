# SPDX-License-Identifier: Apache-2.0
"""Ends a thread where an operation of it raised under debug, as ``raise`` itself does.

Before::

    entry:
      raise %zero exception=builtins:ZeroDivisionError ends=True …
      %1: float64 = div %x, %y
After::

    entry:
      branch %zero then=entry.failed else=entry.on
    entry.failed:
      raise exception=builtins:ZeroDivisionError …
      return
    entry.on:
      %1: float64 = div %x, %y

In a device function with a result the thread goes on: there is no value to return.
"""

from __future__ import annotations

from cudabuild.ir.ir import Block, Builder, Function, Instr
from cudabuild.ir.passes.inline import free_name, split_after
from cudabuild.types import none

__all__ = ["end_where_raised"]


def end_where_raised(function: Function) -> None:
    """Does so for every conditional ``raise`` with the attribute ``ends``, in ``function`` and below; drops it."""
    for one in (function, *function.callees):
        for instr in list(one.instructions()):
            if instr.op == "raise" and instr.attrs.pop("ends", False) and one.result == none:
                _end_there(one, instr)


def _end_there(function: Function, raised: Instr) -> None:
    block = raised.block
    assert block is not None
    taken = {one.name for one in function.blocks}
    rest = split_after(block, raised, free_name(f"{block.name}.on", taken))
    failed = Block(free_name(f"{block.name}.failed", taken))
    block.instructions.pop()
    Builder(block, raised.location).branch(raised.operands[0], failed, rest)
    builder = Builder(failed, raised.location)
    builder.emit("raise", none, **raised.attrs)
    builder.ret()
    at = function.blocks.index(block) + 1
    function.blocks[at:at] = [failed, rest]
