# SPDX-License-Identifier: Apache-2.0
"""What is said of indices without looking at them must be true: of examples, and of random kernels that run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from interpreter import run
from programs import programs
from test_ranges_random import launches

from cudabuild import cuda
from cudabuild.definition import KernelDefinition
from cudabuild.frontend import build_ir
from cudabuild.ir.bounds import IndexBounds
from cudabuild.ir.ir import Block, Function, Instr, Param, Value
from cudabuild.ir.linear import Linear
from cudabuild.ir.passes import run_passes
from cudabuild.ir.printer import format_function
from cudabuild.ir.ranges import compute_ranges
from cudabuild.types import float32, parse_signature

_ACCESSES = ("load", "store", "atomic")


def lower(function: Callable[..., Any], signature: str) -> Function:
    definition = KernelDefinition(function, signature)
    return run_passes(build_ir(definition, parse_signature(signature)), target_kind="host")


def name_of(atom: Value) -> str:
    if isinstance(atom, Param):
        return atom.name
    assert isinstance(atom, Instr)
    if atom.op == "dim":
        return f"{name_of(atom.operands[0])}.{atom.attrs['axis']}"
    return f"{atom.op}.{atom.attrs['axis']}" if atom.op == "gridsize" else str(atom.attrs["register"])


def show(form: Linear) -> str:
    """A sum as text: ``n - x.0 - 1``."""
    parts = [f"{factor:+d}*{name_of(atom)}" for atom, factor in form[0].items()]
    return " ".join([*sorted(parts), f"{form[1]:+d}"])


def answers(function: Function) -> dict[str, str]:
    """For each access, by line within the kernel and array: ``known``, the conditions at launch, or ``unknown``."""
    bounds = IndexBounds(function, compute_ranges(function, index_width=64))
    found = {}
    for block in function.blocks:
        for instr in block.instructions:
            if instr.op not in _ACCESSES:
                continue
            array = instr.operands[0]
            assert instr.location is not None
            assert function.location is not None
            for axis in range(array.type.ndim):  # type: ignore[attr-defined]
                index = instr.operands[1 + axis]
                above = bounds.is_nonnegative(index, block)
                name = array.name if isinstance(array, Param) else array.op  # type: ignore[attr-defined]
                key = f"{instr.location.line - function.location.line}:{instr.op} {name}.{axis}"
                if above and bounds.is_below(index, array, axis, block):
                    found[key] = "known"
                    continue
                conditions = bounds.launch_conditions(index, array, axis, block, above)
                found[key] = "unknown" if conditions is None else " and ".join(map(show, conditions))
    return found


def guarded(n, x, y):
    i = cuda.grid(1)
    if i < x.size:
        x[i] = 1
        y[i] = 1
    if i < n:
        x[i] = 2


def test_a_guard_by_the_extent_is_enough_and_any_other_is_compared_at_launch() -> None:
    assert answers(lower(guarded, "int, float32[::1], float32[::1]")) == {
        "3:store x.0": "known",
        "4:store y.0": "+1*x.0 -1*y.0 -1",
        "6:store x.0": "+1*n -1*x.0 -1",
    }


def stencil(u, v):
    j, i = cuda.grid(2)
    if 0 < i < u.shape[0] - 1 and j < u.shape[1] - 1:
        v[i, j] = u[i - 1, j] + u[i + 1, j + 1]


def test_neighbours_within_a_guard_are_known() -> None:
    found = answers(lower(stencil, "float32[:, ::1], float32[:, ::1]"))
    assert {key: value for key, value in found.items() if " u." in key} == {
        "3:load u.0": "known", "3:load u.1": "known",
    }  # fmt: skip
    assert found["3:store v.0"] == "+1*u.0 -1*v.0 -2"


def tile(x):
    s = cuda.shared.array((16, 16), float32)
    for k in range(16):
        s[cuda.threadIdx.y, k] = x[k]
    x[cuda.threadIdx.x] = s[0, 15]


def test_threads_are_compared_with_the_block() -> None:
    assert answers(lower(tile, "float32[::1]")) == {
        "3:store shared.0": "+1*ntid.y -17",
        "3:store shared.1": "known",
        "3:load x.0": "-1*x.0 +15",
        "4:load shared.0": "known",
        "4:load shared.1": "known",
        "4:store x.0": "+1*ntid.x -1*x.0 -1",
    }


def unknowable(k, x, n):
    i = cuda.grid(1)
    x[k[i]] = x[i - 1] + x[-2] + x[n]


def test_what_the_data_say_is_not_known() -> None:
    found = answers(lower(unknowable, "int32[::1], float32[::1], int"))
    assert found["2:store x.0"] == "unknown"
    assert found["2:load k.0"] == "+1*gridsize.0 -1*k.0 -1"


_SETTINGS = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


class _Observer:
    """Compares every access of every block that runs with what is said of it."""

    def __init__(self, function: Function, width: int) -> None:
        self.bounds = IndexBounds(function, compute_ranges(function, index_width=width))
        self.text = format_function(function)
        self.arguments: dict[Value, Any] = {}
        self.threads: dict[str, int] = {}
        self.answers: dict[Instr, list[tuple[bool, bool, list[Linear] | None]]] = {}

    def __call__(self, block: Block, values: dict[Value, Any]) -> None:
        for instr in block.instructions:
            if instr.op in _ACCESSES:
                self.check(instr, block, values)

    def check(self, instr: Instr, block: Block, values: dict[Value, Any]) -> None:
        array = instr.operands[0]
        indices = instr.operands[1 : 1 + array.type.ndim]  # type: ignore[attr-defined]
        if instr not in self.answers:
            said = []
            for axis, index in enumerate(indices):
                above = self.bounds.is_nonnegative(index, block)
                below = self.bounds.is_below(index, array, axis, block)
                said.append((above, below, self.bounds.launch_conditions(index, array, axis, block, above)))
            self.answers[instr] = said
        for axis, (index, (above, below, conditions)) in enumerate(zip(indices, self.answers[instr], strict=True)):
            number, extent = values[index], values[array][axis]
            assert not above or number >= 0, self.text
            assert not below or number < extent, self.text
            if conditions is not None and all(self.total(form) < 0 for form in conditions):
                assert 0 <= number < extent, f"{number} of {extent}: {[show(form) for form in conditions]}\n{self.text}"

    def total(self, form: Linear) -> int:
        return sum(factor * self.value(atom) for atom, factor in form[0].items()) + form[1]

    def value(self, atom: Value) -> int:
        if isinstance(atom, Param):
            return int(self.arguments[atom])
        assert isinstance(atom, Instr)
        if atom.op == "dim":
            return int(self.arguments[atom.operands[0]][atom.attrs["axis"]])
        if atom.op == "gridsize":
            axis = "xyz"[atom.attrs["axis"]]
            return self.threads[f"ntid.{axis}"] * self.threads[f"nctaid.{axis}"]
        return self.threads[atom.attrs["register"]]


@pytest.mark.parametrize("width", [32, 64])
@_SETTINGS
@given(data=st.data())
def test_what_is_said_of_random_kernels_is_true(width: int, data: st.DataObject) -> None:
    function = data.draw(programs())
    observer = _Observer(function, width)
    for _ in range(4):
        arguments, threads = data.draw(launches(width))
        observer.arguments = dict(zip(function.params, arguments, strict=True))
        observer.threads = threads
        run(function, arguments, threads=threads, load=lambda *_: 3, observe=observer, fuel=600)
