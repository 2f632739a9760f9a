# SPDX-License-Identifier: Apache-2.0
"""Types that inference finds, read off the typed IR."""

from __future__ import annotations

import math
from typing import Any

import pytest

from cudabuild import cuda
from cudabuild.definition import KernelDefinition
from cudabuild.errors import CompilationError
from cudabuild.frontend import build_ir
from cudabuild.ir.ir import Function, Instr
from cudabuild.types import float32, int32, parse_signature, weak_float, weak_int

SCALE = 3
FLAG = False


class Config:
    width = 8


def ir_of(function: Any, signature: str) -> Function:
    return build_ir(KernelDefinition(function), parse_signature(signature))


def instructions(function: Function, op: str) -> list[Instr]:
    return [instr for instr in function.instructions() if instr.op == op]


def stored_type(function: Any, signature: str) -> str:
    """The type of what was stored before its conversion to the element type."""
    value = instructions(ir_of(function, signature), "store")[0].operands[-1]
    if isinstance(value, Instr) and value.op == "cast":
        value = value.operands[0]
    return value.type.name


def int_times_float32(x: Any, dx: Any) -> None:
    i = cuda.grid(1)
    x[i] = i * dx


def half_times_element(x: Any, n: Any) -> None:
    x[0] = n / 2 * x[1]


def int32_times_float32(x: Any, n: Any) -> None:
    x[0] = n * x[1]


def shape_times_float32(x: Any) -> None:
    x[0] = x.shape[0] * x[1] + len(x) + x.size + x.ndim


def square_root_of_float32(x: Any) -> None:
    x[0] = math.sqrt(x[1]) + 0.5


@pytest.mark.parametrize(
    ("function", "signature", "expected"),
    [
        (int_times_float32, "float32[::1], float32", "float32"),
        (half_times_element, "float32[::1], int", "float32"),
        (int32_times_float32, "float32[::1], int32", "float64"),  # NumPy: int32 and float32 make float64
        (shape_times_float32, "float32[::1]", "float32"),
        (square_root_of_float32, "float32[::1]", "float32"),
        (square_root_of_float32, "int32[::1]", "float64"),
    ],
)
def test_result_type(function: Any, signature: str, expected: str) -> None:
    assert stored_type(function, signature) == expected


def accumulates(x: Any, out: Any) -> None:
    total = 0
    for i in range(x.shape[0]):
        total += x[i]
    out[0] = total


def test_accumulator_takes_the_elements_type_whatever_the_order_of_statements() -> None:
    phis = {phi.hint: phi.type for phi in instructions(ir_of(accumulates, "float32[::1], float32[::1]"), "phi")}
    assert phis["total"] == float32
    phis = {phi.hint: phi.type for phi in instructions(ir_of(accumulates, "int32[::1], float32[::1]"), "phi")}
    assert phis["total"] == int32


def types_change(x: Any, flag: Any) -> None:
    value = 1
    value = value + 0.5
    if flag:
        value = 2
    x[0] = value


def test_a_variable_may_change_its_type() -> None:
    function = ir_of(types_change, "float32[::1], bool")
    assert [phi.type for phi in instructions(function, "phi")] == [weak_float]


def pruned(x: Any) -> None:
    if FLAG:
        x[0] = no_such_name  # noqa: F821
    elif SCALE > 2 and Config.width == 8:
        x[0] = SCALE * Config.width
    else:
        x.nothing()


def test_branches_on_constants_are_dropped_before_they_are_typed() -> None:
    function = ir_of(pruned, "float32[::1]")
    stores = instructions(function, "store")
    assert len(stores) == 1
    value = stores[0].operands[-1]
    assert isinstance(value, Instr)
    assert value.attrs["value"] == 24.0
    assert not instructions(function, "branch")


def one_branch_only(x: Any, n: Any) -> None:
    if n > 0:
        value = x[0]
    if n > 1:
        x[1] = value


def test_a_variable_defined_on_one_branch() -> None:
    function = ir_of(one_branch_only, "float32[::1], int")
    assert len(instructions(function, "undef")) == 1


def unrolled_sum(values: Any, power: Any) -> Any:
    total = 0.0
    for k in range(len(values)):
        total += values[k] ** power
    return total


def passes_constants(x: Any) -> None:
    x[0] = unrolled_sum((x[1], x[2]), 2)
    x[1] = unrolled_sum((x[1], x[2]), 3)


def test_device_functions_keep_constant_arguments() -> None:
    function = ir_of(passes_constants, "float32[::1]")
    assert len(function.callees) == 2
    assert all([p.name for p in callee.params] == ["values_0", "values_1"] for callee in function.callees)
    assert not any(
        instr.attrs.get("function") == "pow" for callee in function.callees for instr in callee.instructions()
    )


def factorial(n: Any) -> Any:
    if n <= 1:
        return 1
    return n * factorial(n - 1)


def recursive(x: Any, n: Any) -> None:
    x[0] = factorial(n)


def test_recursion_is_typed_by_the_return_that_does_not_recur() -> None:
    function = ir_of(recursive, "int64[::1], int")
    assert [callee.result for callee in function.callees] == [weak_int]


def endless(n: Any) -> Any:
    return endless(n)


def calls_endless(x: Any, n: Any) -> None:
    x[0] = endless(n)


def test_recursion_without_an_end_is_refused() -> None:
    with pytest.raises(CompilationError, match="cannot be typed"):
        ir_of(calls_endless, "int64[::1], int")


def apply(function: Any, value: Any) -> Any:
    return function(value)


def twice(value: Any) -> Any:
    return value * 2


def functions_as_arguments(x: Any) -> None:
    x[0] = apply(twice, x[1]) + apply(math.sqrt, x[2])


def test_functions_are_values() -> None:
    function = ir_of(functions_as_arguments, "float32[::1]")
    assert sorted(callee.name for callee in function.callees) == ["apply", "apply.2", "twice"]


def rows(x: Any, out: Any) -> None:
    i = cuda.grid(1)
    row = x[i]
    part = x[1:3, ::2]
    out[i] = row[0] + part[0, 1]


def test_views_keep_c_order_where_they_can() -> None:
    views = instructions(ir_of(rows, "float32[:, ::1], float32[::1]"), "view")
    assert [view.type.name for view in views] == ["float32[::1]", "float32[:, :]"]


def unsigned_loop(x: Any, a: Any, b: Any) -> None:
    for i in range(a, b):
        x[i] = i


def test_range_variables_are_python_ints() -> None:
    function = ir_of(unsigned_loop, "int64[::1], uint64, uint64")
    assert [instr.type for instr in instructions(function, "within")] == [weak_int]


def comparison_of_signed_and_unsigned(x: Any, a: Any, b: Any) -> None:
    x[0] = a < b


def test_int64_and_uint64_are_compared_exactly() -> None:
    function = ir_of(comparison_of_signed_and_unsigned, "bool[::1], int64, uint64")
    assert [instr.operands[0].type.name for instr in instructions(function, "cmp")] == ["int64", "uint64"]
