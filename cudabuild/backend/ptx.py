# SPDX-License-Identifier: Apache-2.0
"""LLVM text to PTX: optimise, generate, and what can be read from the result.

Before: the module of ``backend/emit.py``. After: PTX of the oldest ISA version that the target allows, so that the
oldest drivers and linkers take it. Optimising is done once for all targets of a group, generating once per target.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cudabuild.backend import libdevice, llvm, ptxas
from cudabuild.backend.signed_zeros import keep_zero_signs

if TYPE_CHECKING:
    from cudabuild.backend.text import ModuleText
    from cudabuild.definition import Options
    from cudabuild.target import Target

__all__ = ["emit_ptx", "find_isa", "link_libdevice", "optimise_llvm", "pipeline_group", "same_code"]


def link_libdevice(module: ModuleText, options: Options) -> str:
    """The text of ``module`` with the libdevice functions that it calls."""
    if module.libdevice:
        library = libdevice.find_libdevice()
        text = library.extract(module.libdevice, fastmath=options["fastmath"])
        return module.format_with(text)
    return module.format()


def pipeline_group(target: Target) -> str:
    """The processor whose cost model LLVM's optimiser uses for ``target``.

    Optimising is most of LLVM's time, and the model tells only two kinds of processors apart (packed float32 from
    sm_100 on), so targets share the result.
    """
    return "sm_100" if target.cc >= (10, 0) else "sm_75"


def optimise_llvm(text: str, group: str, level: int) -> Any:
    """A verified and optimised LLVM module."""
    module = llvm.parse_module(text)
    llvm.optimise_module(module, llvm.nvptx_machine(group, level), level)
    if "fcmp" in text:
        optimised = str(module)
        changed = keep_zero_signs(optimised)
        if changed != optimised:
            module = llvm.parse_module(changed)
    return module


def emit_ptx(module: Any, target: Target, level: int) -> str:
    """PTX for ``target``, which must be in the target table: LLVM ends the process on a processor it does not know."""
    if not target.is_known:
        raise AssertionError(f"{target.name} is not in the target table")
    return ptxas.avoid_faults(llvm.emit_assembly(module, llvm.nvptx_machine(target.processor, level)))


def find_isa(ptx: str) -> tuple[int, int]:
    """The ISA version that ``ptx`` declares."""
    for line in ptx.splitlines():
        if line.startswith(".version "):
            major, _, minor = line.split()[1].partition(".")
            return int(major), int(minor)
    raise ValueError("PTX without a .version line")


def same_code(first: str, first_symbol: str, second: str, second_symbol: str) -> bool:
    """True if two PTX texts differ by their entry's name alone: one image can then serve both index widths."""
    return first.replace(first_symbol, "\0") == second.replace(second_symbol, "\0")
