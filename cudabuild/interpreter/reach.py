# SPDX-License-Identifier: Apache-2.0
"""Whether a Python function can reach an operation in which CUDA threads meet or wait.

Looks at names only, through the functions that the code can name. A name too many costs speed, not truth.
"""

from __future__ import annotations

from types import CodeType, FunctionType, ModuleType
from typing import Any

from cudabuild.lang.name import KernelName

__all__ = ["find_names", "is_meeting"]

_YIELDING = {"nanosleep", "threadfence", "threadfence_block", "threadfence_system"}
_EXCHANGES = {"cas", "compare_and_swap", "exch"}


def is_meeting(name: str) -> bool:
    """Whether threads wait or give way at a kernel-side name, or at an attribute so called (``this_grid``, ``cas``)."""
    last = name.rpartition(".")[2]
    waits = last.startswith("sync") or last.endswith("_sync") or last == "this_grid"
    return waits or last in _YIELDING or last in _EXCHANGES


def find_names(function: Any) -> set[str]:
    """Every global, attribute and kernel-side name that the function and those that it can call mention."""
    found: set[str] = set()
    seen: set[int] = set()
    work: list[Any] = [function]
    while work:
        current = work.pop()
        current = getattr(current, "py_func", current)
        if not isinstance(current, FunctionType) or id(current) in seen:
            continue
        seen.add(id(current))
        names = _mentioned(current.__code__)
        found |= names
        cells = [cell.cell_contents for cell in current.__closure__ or () if _is_filled(cell)]
        values = [current.__globals__[name] for name in names if name in current.__globals__] + cells
        for value in values:
            if isinstance(value, KernelName):
                found.add(value.name)
            elif isinstance(value, ModuleType):
                members = [value.__dict__[name] for name in names if name in value.__dict__]
                found |= {member.name for member in members if isinstance(member, KernelName)}
                work += members
            else:
                work.append(value)
    return found


def _mentioned(code: CodeType) -> set[str]:
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= _mentioned(constant)
    return names


def _is_filled(cell: Any) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True
