# SPDX-License-Identifier: Apache-2.0
"""Random kernels that index at random: the CPU device tells the fault that an interpreter of the IR comes to first."""

from __future__ import annotations

from typing import Any

import interpreter
import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from programs import INTERESTING, programs

from cudabuild.cpu.compile import compile_function
from cudabuild.cpu.device import CpuLauncher
from cudabuild.errors import BoundsError
from cudabuild.ir.ir import Instr, Value
from cudabuild.ir.passes import run_passes
from cudabuild.ir.printer import format_function

THREADS = 3


class Machine(interpreter._Run):
    """One thread after another on the arrays given; what is out of range reads as 0, and the first is kept."""

    def __init__(self, arrays: dict[int, Any]) -> None:
        super().__init__({}, lambda *_: 0, None)
        self.arrays = arrays
        self.first: tuple[int, int, int] | None = None  # thread, index, extent

    def _value(self, instr: Instr, values: dict[Value, Any]) -> Any:
        if instr.op not in ("load", "store"):
            return super()._value(instr, values)
        shape, *rest = (values[operand] for operand in instr.operands)
        array = self.arrays[len(shape)]
        indices = rest[: len(shape)]
        for index, extent in zip(indices, shape, strict=True):
            if not 0 <= index < extent:
                self.first = self.first or (self.threads["tid.x"], index, extent)
                return 0 if instr.op == "load" else None
        if instr.op == "load":
            return int(array[tuple(indices)])
        array[tuple(indices)] = rest[-1]
        return None


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
@given(data=st.data())
def test_the_fault_is_the_interpreters(data: st.DataObject) -> None:
    # After the passes: a load that nobody needs is not made, and so never fails.
    function = run_passes(data.draw(programs()), target_kind="host")
    launch = None
    small = st.integers(-4, 12)
    for _ in range(4):
        x_shape, y_shape = (
            (data.draw(st.integers(0, 6)), data.draw(st.integers(0, 6))),
            (data.draw(st.integers(0, 12)),),
        )
        weak = small | st.sampled_from(INTERESTING)
        scalars = data.draw(weak), data.draw(weak), data.draw(small)
        assume(all(-(2**63) <= value < 2**63 for value in scalars))
        wanted = {len(shape): np.arange(np.prod(shape), dtype=np.int32).reshape(shape) for shape in (x_shape, y_shape)}
        found = {ndim: array.copy() for ndim, array in wanted.items()}
        machine = Machine(wanted)
        try:
            for thread in range(THREADS):
                machine.threads = {"tid.x": thread, "ntid.x": THREADS, "ctaid.x": 0, "nctaid.x": 1}
                machine.fuel = 600
                machine.function(function, (*scalars, x_shape, y_shape))
        except interpreter.OutOfFuel:
            continue
        if launch is None:
            kernel = compile_function(function, checks=frozenset(("bounds",)))
            names = [param.name for param in function.params]
            launch = CpuLauncher(kernel, "random", names, tuple(param.type for param in function.params))
        text = f"{scalars} {x_shape} {y_shape}\n{format_function(function)}"
        if machine.first is None:
            launch((1, 1, 1), (THREADS, 1, 1), 0, 0, (*scalars, found[2], found[1]))
        else:
            thread, index, extent = machine.first
            with pytest.raises(BoundsError, match=f"index {index if index >= 0 else '-?[0-9]+'} is out of ") as caught:
                launch((1, 1, 1), (THREADS, 1, 1), 0, 0, (*scalars, found[2], found[1]))
            assert caught.value.thread == (thread, 0, 0), text  # type: ignore[attr-defined]
            assert f"with {extent} elements" in str(caught.value), text
        for ndim, array in wanted.items():
            np.testing.assert_array_equal(found[ndim], array, err_msg=text)
    assume(launch is not None)
