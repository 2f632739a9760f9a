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
import math
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
from ulp import MAX_ULP, is_float, limit_of, same_bits, ulp_distance

from cudabuild.definition import DEFAULT_OPTIONS, KernelDefinition, Options
from cudabuild.errors import CompilationError
from cudabuild.frontend import build_ir
from cudabuild.types import parse_signature
from cudabuild.types.pointer import Pointer

__all__ = ["COMPOSED", "GPU_ONLY", "NOT_COMPARED", "Agreement", "Notes", "key_of"]

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
    "test_complex.parts_of_arrays": {"sizes": "strides: a host array with gaps is copied to a GPU without them"},
}

#: Kernels that the CPU device refuses, and why.
GPU_ONLY = dict.fromkeys(
    ("test_foreign.calls_by_pointer", "test_foreign.calls_as_in_c"), "linked with code that was compiled for GPUs"
)

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
    max_ulp_allowed: float = 0

    def count(self, left: Any, right: Any, allowed: float) -> Any:
        """Notes a comparison; where the two are further apart than allowed."""
        self.values += left.size
        if not (left.dtype.kind == "c" or is_float(left.dtype)) or not left.size:
            return ~np.asarray(same_bits(left, right))
        apart = complex_distance(left, right) if left.dtype.kind == "c" else ulp_distance(left, right)
        self.max_ulp = max(self.max_ulp, float(apart.max()))
        self.max_ulp_allowed = max(self.max_ulp_allowed, allowed)
        return apart > allowed if allowed else ~same_bits(left, right)


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
        if any(isinstance(kind, Pointer) for kind in parse_signature(signature)):
            self.first(function, signature, grid, block, *args, shared=shared, options=options)
            return  # an address is one device's own; the test itself looks at what is there afterwards
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
            if key_of(function) in GPU_ONLY and isinstance(a.error, CompilationError) and b.error is None:
                return
            self._differ(function, other, f"raised {b.fault()}, not {a.fault()}")
        if a.error is not None or b.error is not None:
            return  # how far the other threads came by then is not defined
        key = key_of(function)
        names = function.__code__.co_varnames
        functions = self._inexact(function, signature, options)
        notes.functions = sorted({*notes.functions, *functions})
        for name, one, two in zip(names, a.args, b.args, strict=False):
            if name in NOT_COMPARED.get(key, {}):
                continue
            for left, right in zip(arrays_of(one), arrays_of(two), strict=True):
                sides = ("cpu", other.kind)
                limit = max((sum(bound(f, left.dtype, side) for side in sides) for f in functions), default=0)
                allowed = COMPOSED.get(key, {}).get(name, (limit, ""))[0]
                wrong = notes.count(left, right, allowed)
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
                str(instr.attrs["function"])
                for part in (ir, *ir.callees)
                for instr in part.instructions()
                if instr.op in ("math", "libdevice")
            }
            self._functions[key] = sorted(name for name in called if bound(name, np.float32) or bound(name, np.float64))
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


def bound(function: str, dtype: Any, kind: str = "gpu") -> float:
    """What the guide allows ``function``, by its name in ``ir.ops.MATH`` or in libdevice, in ulp of a result.

    Of the approximations that libdevice offers by name, and of norms of vectors, the guide gives no such bound.
    """
    if function.startswith("fast_") or function.rstrip("f") in ("norm", "rnorm", "jn", "yn", "rcp64h"):
        return math.inf
    name = {"powi": "pow", "powif": "pow"}.get(function, function)
    if name not in MAX_ULP:
        name = name.removesuffix("f")
    if name not in MAX_ULP:
        return 0  # integers, conversions, and arithmetic with a rounding mode
    part = np.empty(0, dtype).real.dtype
    if not is_float(part):
        return 0
    # A complex number is made of several such results, each off by what is allowed.
    return limit_of(name, part, kind) * (4 if np.dtype(dtype).kind == "c" else 1)


def complex_distance(a: Any, b: Any) -> Any:
    """How far the parts of complex numbers are apart, in units in the last place of the modulus."""
    with np.errstate(all="ignore"):
        unit = np.spacing(np.maximum(abs(a), abs(b)).astype(a.real.dtype))
        apart = np.maximum(abs(a.real - b.real), abs(a.imag - b.imag)).astype(np.float64) / unit
    return np.where(same_bits(a, b), 0.0, np.where(np.isfinite(apart), apart, np.inf))


def arrays_of(value: Any) -> list[Any]:
    """The arrays in an argument: itself, or those of a tuple."""
    if isinstance(value, tuple):
        return [array for part in value for array in arrays_of(part)]
    return [value] if isinstance(value, np.ndarray) else []


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
    """An array of its own with the same elements, strides and flags; tuples of such; other values as they are."""
    if isinstance(value, tuple):
        parts = copies(value)
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
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
