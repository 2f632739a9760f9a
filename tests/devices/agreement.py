# SPDX-License-Identifier: Apache-2.0
"""``run`` on all devices at once: every launch of a test is made on each, with the same arguments, and compared.

With a GPU the others are its 32-bit and its 64-bit variants, and nothing is contracted (``fma=False``) on either side;
without one it is the CPU device once more, with its blocks in another order. Integers, booleans and floats made of
``+ - * / sqrt fma`` and conversions must have the same bits. Where a kernel calls functions that are not exact, results
may be as far apart as the CUDA guide lets both of them be from the right result (``ulp.py``).
"""

from __future__ import annotations

import contextlib
import ctypes
import io
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from gpu_presence import missing_device
from launching import Device
from ulp import MAX_ULP, limit_of, same_bits, ulp_distance

from cudabuild.definition import DEFAULT_OPTIONS, KernelDefinition, Options
from cudabuild.frontend import build_ir
from cudabuild.types import parse_signature

__all__ = ["COMPOSED", "NOT_COMPARED", "Agreement", "Notes", "key_of"]

_RETURNED = "what an atomic operation returns depends on who came first"
_LANES = "lanes take values from lanes outside their mask, which is undefined"

#: Arguments of kernels that are not compared, and why. The tests themselves say what must hold of them.
NOT_COMPARED: dict[str, dict[str, str]] = {
    **{
        f"test_atomics.{name}": {"old": _RETURNED}
        for name in ("add", "sub", "and_", "or_", "xor", "max_", "min_", "nanmax", "nanmin")
    },
    "test_atomics.ring": {"tickets": _RETURNED},
    "test_atomics.exchange": {"out": "who came last", "chain": _RETURNED},
    "test_atomics.claim": {"owners": "who came first", "firsts": "who came first", "seen": _RETURNED},
    "test_atomics.extremes": {"out": "holds who came first"},
    "test_scalars.clocks": {"out": "differences of clocks"},
    "test_shuffles.divergent": {"out": _LANES},
}

#: Arguments made by several inexact functions one after another: how far apart they may be, in ulp, and why.
COMPOSED: dict[str, dict[str, tuple[int, str]]] = {
    "test_random.draw": dict.fromkeys(("n32", "n64"), (8, "sqrt(-2 log u) cos(2 pi v): 1 + 4 of the parts, rounded")),
    "test_random.draw_like_numba": dict.fromkeys(("n32", "n64"), (8, "as in draw")),
}


@dataclass
class KernelNotes:
    """One kernel: its launches, the values compared, and how far apart floats were at most."""

    launches: int = 0
    values: int = 0
    functions: list[str] = field(default_factory=list)
    max_ulp: float = 0.0
    max_ulp_allowed: int = 0


class Notes:
    """What a session of the tests measures."""

    def __init__(self) -> None:
        self.others: list[str] = []
        self.kernels: dict[str, KernelNotes] = {}
        self.disagreements: list[str] = []
        self.errors: dict[str, dict[str, float]] = {}

    def note_error(self, function: str, device: str, ulp: float) -> None:
        """The largest distance of ``function``'s results on ``device`` from the correctly rounded ones, in ulp."""
        row = self.errors.setdefault(function, {})
        row[device] = max(row.get(device, 0.0), ulp)

    def write(self, file: Path) -> None:
        content = {
            "others": self.others,
            "kernels": {key: asdict(kernel) for key, kernel in sorted(self.kernels.items())},
            "disagreements": self.disagreements,
            "errors": self.errors,
        }
        file.write_text(json.dumps(content, indent=1), encoding="utf-8")


class Agreement:
    """Launches on the first device as asked, for the test; then on all, on copies, and notes what differs."""

    kind = "cpu"

    def __init__(self, first: Device, notes: Notes, others: Sequence[Any] | None = None) -> None:
        self.first = first
        self.notes = notes
        if others is None:
            found = gpus()
            self.others: Sequence[Any] = found or [Shuffled(first)]
            self.contracts = not found
        else:
            self.others, self.contracts = others, False
        notes.others = [other.kind for other in self.others]
        self._functions: dict[Any, list[str]] = {}

    def __call__(
        self,
        function: Any,
        signature: str,
        grid: Any,
        block: Any,
        *args: Any,
        shared: int = 0,
        options: Options = DEFAULT_OPTIONS,
    ) -> None:
        start = copies(args)
        error = _error_of(lambda: self.first(function, signature, grid, block, *args, shared=shared, options=options))
        compared = options if self.contracts else options.replace(fma=False)
        settings: dict[str, Any] = {"shared": shared, "options": compared}
        wanted, text = Result(args, error), None
        if compared != options:
            wanted, text = _launched(self.first, function, signature, grid, block, start, settings)
        notes = self.notes.kernels.setdefault(key_of(function), KernelNotes())
        notes.launches += 1
        for other in self.others:
            found, printed = _launched(other, function, signature, grid, block, start, settings)
            if text is not None and sorted(text.splitlines()) != sorted(printed.splitlines()):
                self._differ(function, other, f"printed {printed[:200]!r}, not {text[:200]!r}")
            self._compare(function, signature, compared, notes, other, wanted, found)
        if error is not None:
            raise error

    def _compare(
        self, function: Any, signature: str, options: Options, notes: KernelNotes, other: Any, a: Result, b: Result
    ) -> None:
        if a.fault() != b.fault():
            self._differ(function, other, f"raised {b.fault()}, not {a.fault()}")
        if a.error is not None or b.error is not None:
            return  # how far the other threads came by then is not defined
        key = key_of(function)
        names = function.__code__.co_varnames
        functions = self._inexact(function, signature, options)
        notes.functions = sorted({*notes.functions, *functions})
        for name, left, right in zip(names, a.args, b.args, strict=False):
            if not isinstance(left, np.ndarray) or name in NOT_COMPARED.get(key, {}):
                continue
            notes.values += left.size
            if left.dtype.kind == "f" and left.size:
                sides = ("cpu", other.kind)
                limit = max((sum(limit_of(f, left.dtype, side) for side in sides) for f in functions), default=0)
                allowed = COMPOSED.get(key, {}).get(name, (limit, ""))[0]
                apart = ulp_distance(left, right)
                notes.max_ulp = max(notes.max_ulp, float(apart.max()))
                notes.max_ulp_allowed = max(notes.max_ulp_allowed, allowed)
                wrong = apart > allowed if allowed else ~same_bits(left, right)
            else:
                allowed = 0
                wrong = ~np.asarray(same_bits(left, right))
            if wrong.any():
                place = tuple(int(axis[0]) for axis in np.nonzero(wrong))
                self._differ(
                    function,
                    other,
                    f"{name}{list(place)} is {right[place]!r}, not {left[place]!r}; {wrong.sum()} of {left.size} "
                    f"differ by more than {allowed} ulp",
                )

    def _inexact(self, function: Any, signature: str, options: Options) -> list[str]:
        """The functions of ``ir.ops.MATH`` in this kernel that the guide does not call exact."""
        key = (function, signature, options)
        if key not in self._functions:
            types = parse_signature(signature)
            ir = build_ir(KernelDefinition(function, signature, options=options), types)
            called = {
                "pow" if instr.attrs["function"] == "powi" else instr.attrs["function"]
                for part in (ir, *ir.callees)
                for instr in part.instructions()
                if instr.op == "math"
            }
            self._functions[key] = sorted(name for name in called if max(MAX_ULP[name]))
        return self._functions[key]

    def _differ(self, function: Any, other: Any, what: str) -> None:
        self.notes.disagreements.append(f"{key_of(function)} on {getattr(other, 'kind', 'other')}: {what}")


class Result:
    """What one launch left behind."""

    def __init__(self, args: Sequence[Any], error: Exception | None) -> None:
        self.args = args
        self.error = error

    def fault(self) -> tuple[Any, ...] | None:
        """The exception without the thread, which is whoever came first."""
        if self.error is None:
            return None
        line = getattr(self.error, "line", None)
        return type(self.error).__name__, line, None if line is not None else str(self.error)


class Shuffled:
    """The CPU device with its blocks in another order."""

    kind = "cpu, blocks shuffled"

    def __init__(self, device: Device) -> None:
        self.device = device

    def __call__(self, *args: Any, **settings: Any) -> None:
        before = os.environ.get("CUDABUILD_CPU_ORDER")
        os.environ["CUDABUILD_CPU_ORDER"] = "1"
        try:
            self.device(*args, **settings)
        finally:
            if before is None:
                del os.environ["CUDABUILD_CPU_ORDER"]
            else:
                os.environ["CUDABUILD_CPU_ORDER"] = before


def gpus() -> list[Device]:
    """Both index widths of the GPU, if there is one."""
    return [] if missing_device() else [Device("gpu32"), Device("gpu64")]


def key_of(function: Any) -> str:
    """``test_kernels.saxpy``; a kernel made for a purpose may bear its own ``label``."""
    path = Path(function.__code__.co_filename)
    stem = path.stem if path.suffix == ".py" else "generated"
    return f"{stem}.{getattr(function, 'label', function.__name__)}"


def copies(values: Sequence[Any]) -> list[Any]:
    """Each value copied; an array that is there twice is so in the copy."""
    made = {id(value): copied(value) for value in values}
    return [made[id(value)] for value in values]


def copied(value: Any) -> Any:
    """An array of its own with the same elements, strides and flags; other values as they are."""
    if not isinstance(value, np.ndarray):
        return value
    low, high = byte_bounds(value)
    memory = np.zeros(high - low, np.uint8)
    made: Any = np.ndarray(
        value.shape, value.dtype, memory, value.ctypes.data - low if value.size else 0, value.strides
    )
    made[...] = value
    made.flags.writeable = value.flags.writeable
    return made


def byte_bounds(array: Any) -> tuple[int, int]:
    """The addresses of the first byte of an array and of the byte after its last."""
    low = high = array.ctypes.data
    if array.size == 0:
        return low, low
    for extent, stride in zip(array.shape, array.strides, strict=True):
        if stride < 0:
            low += (extent - 1) * stride
        else:
            high += (extent - 1) * stride
    return low, high + array.itemsize


def _launched(
    run: Any, function: Any, signature: str, grid: Any, block: Any, start: Sequence[Any], settings: dict[str, Any]
) -> tuple[Result, str]:
    """One launch on copies of ``start``: what it left, and what it printed."""
    args = copies(start)
    with printing() as lines:
        error = _error_of(lambda: run(function, signature, grid, block, *args, **settings))
        if error is None and run.kind.startswith("gpu"):
            from cudabuild import cuda

            cuda.synchronize()
    return Result(args, error), "".join(lines)


def _error_of(launch: Callable[[], None]) -> Exception | None:
    try:
        launch()
    except Exception as error:  # whatever a launch raises is a result to compare, and is raised again for the test
        return error
    return None


@contextlib.contextmanager
def printing() -> Iterator[list[str]]:
    """Collects what is written to ``sys.stdout`` and, by the GPU's driver, to the process's own standard output."""
    library = ctypes.CDLL(None)
    found: list[str] = []
    sys.stdout.flush()
    library.fflush(None)
    kept = os.dup(1)
    with tempfile.TemporaryFile() as file, contextlib.redirect_stdout(io.StringIO()) as text:
        os.dup2(file.fileno(), 1)
        try:
            yield found
        finally:
            library.fflush(None)
            os.dup2(kept, 1)
            os.close(kept)
            file.seek(0)
            found += [text.getvalue(), file.read().decode("utf-8", "replace")]
