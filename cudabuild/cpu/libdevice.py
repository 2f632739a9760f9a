# SPDX-License-Identifier: Apache-2.0
"""libdevice on the host: the text that a GPU's modules get, with the GPU's own operations replaced by functions.

Before (``backend/libdevice.py``)::

    %10 = call float @llvm.nvvm.fma.rn.f(float %a, float %4, float 5.0e-01)
    %9 = call float asm "rcp.approx.ftz.f32 $0,$1;", "=f,f"(float %8)

After, with the definitions of ``nvvm.py`` that it reaches::

    %10 = call float @nvvm.fma.rn.f(float %a, float %4, float 5.0e-01)
    %9 = call float @ptx.rcp.approx.ftz.f32(float %8)

``__nvvm_reflect`` is answered as for a kernel without ``fastmath``: the host flushes no denormals, and its square roots
are exact.
"""

from __future__ import annotations

import re
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING

from cudabuild.backend import libdevice
from cudabuild.cpu import nvvm
from cudabuild.errors import ToolError

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["find_function", "format_functions", "name_assembly"]

_CALLED = re.compile(r"@((?:host|nvvm|ptx)\.[\w.]+)")
_ASSEMBLY = re.compile(r'asm (?:sideeffect )?"([^"]*)", "[^"]*"')
_SPACE = re.compile(r"(?:\\0A|\\09|\s)+")
_SINGLE = re.compile(r"([\w.]+) \$0, ?\$1(?:, \$\d)*;")
#: Shifts by what is known only at run time.
_SHIFT = re.compile(r"= (shl|lshr)(?: nuw| nsw| exact)* i(32|64) ([^,]+), (%[\w.]+)")
_LABEL = re.compile(r"([\w.$]+):")
_TARGET = re.compile(r"label %([\w.$]+)")


def name_assembly(text: str) -> str | None:
    """The name in ``nvvm.py`` of a PTX snippet, as LLVM prints it; None for an unknown one."""
    text = _SPACE.sub(" ", text)
    single = _SINGLE.fullmatch(text)
    if single is not None:
        return f"ptx.{single[1]}"
    return nvvm.ASSEMBLY.get(sha256(text.encode()).hexdigest()[:16])


def find_function(name: str) -> bool:
    """True if this process has libdevice, with a function ``name`` all of whose operations the host has.

    A libdevice newer than this table may use others; the caller then has the C library.
    """
    if libdevice.find_digest() is None:
        return False
    try:
        _close(name)
    except ToolError:
        return False
    return True


def format_functions(names: Iterable[str]) -> str:
    """LLVM text for the host that defines libdevice's functions ``names`` and all that they reach, all of it internal.

    Raises:
        ToolError: there is no libdevice, no such function, or no host definition of an operation that it uses.
    """
    parts: dict[str, str] = {}
    for name in sorted(names):
        parts.update(_close(name))
    return "\n".join(parts.values())


@cache
def _close(name: str) -> dict[str, str]:
    """Definitions by name: of a function, and of all that it reaches."""
    found = libdevice.find_libdevice().collect([name])
    parts = {key: _replace(text) for key, text in found.items() if not text.startswith("declare")}
    waiting = [called for text in parts.values() for called in _CALLED.findall(text)]
    while waiting:
        called = waiting.pop()
        if called not in parts:
            definition = nvvm.define(called)
            if definition is None:
                raise ToolError(f"libdevice's {name} uses {called}, which has no definition for this computer")
            parts[called], needs = definition
            waiting += needs
    return parts


def _replace(text: str) -> str:
    def named(found: re.Match[str]) -> str:
        name = name_assembly(found[1])
        if name is None:
            raise ToolError(f"libdevice holds PTX that has no definition for this computer: {found[1]}")
        return f"@{name}"

    if not _loops(text):
        # a call that stays keeps LLVM from vectorising the loop over threads: pow took 8 times as long
        text = text.replace(" noinline nounwind", " alwaysinline nounwind", 1)
    text = _SHIFT.sub(lambda found: f"= call i{found[2]} {_shift(found)}", text)
    return _ASSEMBLY.sub(named, text.replace("@llvm.nvvm.", "@nvvm."))


def _shift(found: re.Match[str]) -> str:
    how, bits, value, count = found.groups()
    return f"@ptx.{'shl' if how == 'shl' else 'shr'}.b{bits}(i{bits} {value}, i{bits} {count})"


def _loops(text: str) -> bool:
    """True if a block of a function goes back to an earlier one."""
    seen: set[str] = set()
    for line in text.splitlines():
        label = _LABEL.match(line)
        if label is not None:
            seen.add(label[1])
        elif not seen.isdisjoint(_TARGET.findall(line)):
            return True
    return False
