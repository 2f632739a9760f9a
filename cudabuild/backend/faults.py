# SPDX-License-Identifier: Apache-2.0
"""Checks inside kernels: indices, divisors, and what ``assert`` and ``raise`` say. Only where a dialect asks for them.

Before::

    %v7 = load float, ptr %v6

After::

      %ok = icmp ult i64 %i, %n
      br i1 %ok, label %wanted1, label %refused1
    wanted1:  %v7 = load float, ptr %v6
              br label %done1
    refused1: …tell the dialect: site, index, extent…
              br label %done1
    done1:    %v8 = phi float [ %v7, %wanted1 ], [ zeroinitializer, %refused1 ]

The thread goes on, with a zero for what was not there: control never leaves a loop over threads. No check is written
where ranges and the branches taken imply it; one that follows from what a launch knows (``ir/bounds.py``) is an ``or``
with ``Dialect.trusted``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudabuild.backend.text import Operand, int_literal, replace
from cudabuild.faults import BOUNDS, DIVISION
from cudabuild.ir.bounds import IndexBounds
from cudabuild.ir.ir import Instr
from cudabuild.ir.ranges import Ranges

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cudabuild.backend.dialects import Access
    from cudabuild.backend.emit import FunctionEmitter
    from cudabuild.ir.ir import Value

__all__ = ["ROWS", "check_divisor", "checked_access", "checked_view"]

_NOTHING = int_literal(0, 64)


class _Test:
    """One axis: whether the index is within bounds, and what to tell if not."""

    def __init__(self, ok: Operand, index: Operand, extent: Operand, site: int) -> None:
        self.ok = ok
        self.index = index
        self.extent = extent
        self.site = site


def checked_access(e: FunctionEmitter, access: Access, perform: Callable[[Operand], Operand | None]) -> Operand | None:
    """``Dialect.access``, where the indices are within bounds; else a zero, and a fault is recorded."""
    axes = range(len(access.indices))
    tests = _make_tests(e, access.instr, [(axis, access.instr.operands[1 + axis], access.shape[axis]) for axis in axes])
    if not tests:
        return e.dialect.access(e, access, perform)
    text = e.text
    wanted, refused, done = (text.name(hint) for hint in ("wanted", "refused", "done"))
    text.branch(_all_ok(e, tests), wanted, refused)
    text.start(wanted)
    value = e.dialect.access(e, access, perform)
    incoming = text.current.label
    text.jump(done)
    text.start(refused)
    _tell(e, tests)
    text.jump(done)
    otherwise = text.current.label
    text.start(done)
    if value is None:
        return None
    joined = replace(value, text=f"%{text.name('value')}", constant=None)
    zero = f"[ zeroinitializer, %{otherwise} ]"
    text.current.phis.append(f"  {joined.text} = phi {joined.type} [ {value.text}, %{incoming} ], {zero}")
    return joined


def checked_view(e: FunctionEmitter, instr: Instr, indexed: Sequence[tuple[int, Value, Operand]]) -> Operand | None:
    """Checks the indices of a view (axis, index, extent each): whether all are within bounds; None for certainly.

    Where they are not, a fault has been recorded, and the view must be made empty.
    """
    tests = _make_tests(e, instr, indexed)
    if not tests:
        return None
    ok = _all_ok(e, tests)
    text = e.text
    refused, done = text.name("refused"), text.name("done")
    text.branch(ok, done, refused)
    text.start(refused)
    _tell(e, tests)
    text.jump(done)
    text.start(done)
    return ok


def check_divisor(e: FunctionEmitter, instr: Instr, is_zero: Operand) -> None:
    """Records a fault where ``is_zero``, if divisions are checked."""
    if "division" not in e.dialect.checks:
        return
    _tell_if(e, is_zero, e.dialect.faults.add(DIVISION, "", instr.location))


def _raise(e: FunctionEmitter, instr: Instr) -> None:
    site = e.dialect.faults.add(instr.attrs["exception"], instr.attrs["message"], instr.location)
    if instr.operands:
        _tell_if(e, e.scalar(instr.operands[0]), site)
    else:
        e.dialect.fault(e, int_literal(site, 32), _NOTHING, _NOTHING)


def _tell_if(e: FunctionEmitter, condition: Operand, site: int) -> None:
    text = e.text
    failed, done = text.name("failed"), text.name("done")
    text.branch(condition, failed, done)
    text.start(failed)
    e.dialect.fault(e, int_literal(site, 32), _NOTHING, _NOTHING)
    text.jump(done)
    text.start(done)


def _make_tests(e: FunctionEmitter, instr: Instr, indexed: Sequence[tuple[int, Value, Operand]]) -> list[_Test]:
    """The tests that are left for the indices of one access, in the order of the axes."""
    if "bounds" not in e.dialect.checks:
        return []
    bounds = _index_bounds(e)
    array = instr.operands[0]
    tests = []
    for axis, value, extent in indexed:
        nonnegative = bounds.is_nonnegative(value, e.block)
        if nonnegative and bounds.is_below(value, array, axis, e.block):
            continue
        index, count = e.integer(value, 64), e.convert(extent, 64)
        ok = e.text.emit("i1", f"icmp ult {index.typed}, {count.text}")
        trusted = e.dialect.trusted(e, bounds.launch_conditions(value, array, axis, e.block, nonnegative))
        if trusted is not None:
            ok = e.text.emit("i1", f"or {trusted.typed}, {ok.text}")
        # A negative index was wrapped once: the number that the user wrote is found again when it is told.
        wraps = isinstance(value, Instr) and value.op in ("wrap", "add")
        message = (
            f"index {{{'wrapped' if wraps else 'index'}}} is out of range for axis {axis} with {{extent}} elements"
        )
        tests.append(_Test(ok, index, count, e.dialect.faults.add(BOUNDS, message, instr.location)))
    return tests


def _index_bounds(e: FunctionEmitter) -> IndexBounds:
    if e.index_bounds is None:
        assert isinstance(e.ranges, Ranges)
        e.index_bounds = IndexBounds(e.function, e.ranges)
    return e.index_bounds


def _all_ok(e: FunctionEmitter, tests: list[_Test]) -> Operand:
    ok = tests[0].ok
    for test in tests[1:]:
        ok = e.text.emit("i1", f"and {ok.typed}, {test.ok.text}")
    return ok


def _tell(e: FunctionEmitter, tests: list[_Test]) -> None:
    """Records the first axis that is out of bounds."""
    last = tests[-1]
    site, index, extent = int_literal(last.site, 32), last.index, last.extent
    for test in reversed(tests[:-1]):
        site = e.text.emit("i32", f"select {test.ok.typed}, {site.typed}, i32 {test.site}")
        index = e.text.emit("i64", f"select {test.ok.typed}, {index.typed}, {test.index.typed}")
        extent = e.text.emit("i64", f"select {test.ok.typed}, {extent.typed}, {test.extent.typed}")
    e.dialect.fault(e, site, index, extent)


ROWS: dict[str, Callable[[FunctionEmitter, Instr], None]] = {"raise": _raise}
