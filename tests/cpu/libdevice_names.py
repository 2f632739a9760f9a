# SPDX-License-Identifier: Apache-2.0
"""What is in libdevice's bitcode: its functions, and what they ask of a GPU."""

from __future__ import annotations

import re
from functools import cache

from cudabuild.backend import libdevice, llvm
from cudabuild.cpu import libdevice as hosted

__all__ = ["read_names"]


@cache
def read_names() -> tuple[frozenset[str], frozenset[str]]:
    """libdevice's functions, and the operations that its bitcode asks of the GPU, by their names on the host."""
    text = str(llvm._binding().parse_bitcode(libdevice._read_file()))
    functions = frozenset(re.findall(r"^define [^@]*@(__nv_\w+)\(", text, re.MULTILINE))
    operations = {f"nvvm.{name}" for name in re.findall(r"@llvm\.nvvm\.([\w.]+)\(", text)}
    snippets = set(re.findall(r'asm (?:sideeffect )?"([^"]*)"', text))
    named = {hosted.name_assembly(snippet) for snippet in snippets}
    assert None not in named
    assert len(operations) > 180
    shifts = set(re.findall(r"= (shl|lshr|ashr)[a-z ]* i(\d+) [^,]+, %", text))
    operations |= {f"ptx.{'shr' if how == 'lshr' else how}.b{bits}" for how, bits in shifts}
    return functions, frozenset(operations | named)
