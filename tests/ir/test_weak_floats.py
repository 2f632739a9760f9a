# SPDX-License-Identifier: Apache-2.0
"""Which Python floats are computed in the arrays' type, and which stay float64."""

from __future__ import annotations

import math
from typing import Any

import pytest
from ir_text import parse

from cudabuild import cuda
from cudabuild.definition import KernelDefinition
from cudabuild.frontend import build_ir
from cudabuild.ir.passes import narrow_weak_floats, run_passes, simplify
from cudabuild.ir.printer import format_function
from cudabuild.ir.verifier import verify_function
from cudabuild.types import parse_signature

HALF = 0.5


def a_factor(y: Any, x: Any, a: Any, n: Any) -> None:
    i = cuda.grid(1)
    y[i] = 0.5 * x[i]


def a_sum_of_literals(y: Any, x: Any, a: Any, n: Any) -> None:
    i = cuda.grid(1)
    y[i] = x[i] + 1 / 3 - 0.25 * HALF


def the_index(y: Any, x: Any, a: Any, n: Any) -> None:
    i = cuda.grid(1)
    y[i] = i * a


def half_an_argument(y: Any, x: Any, a: Any, n: Any) -> None:
    i = cuda.grid(1)
    y[i] = n / 2 * x[i]


def a_quotient_stored(y: Any, x: Any, a: Any, n: Any) -> None:
    i = cuda.grid(1)
    y[i] = i / n


def an_accumulator(y: Any, x: Any, a: Any, n: Any) -> None:
    acc = 0
    for k in range(n):
        acc += x[k] * 0.1
    y[0] = acc


def a_weak_accumulator(y: Any, x: Any, a: Any, n: Any) -> None:
    acc = 0.0
    for k in range(n):
        acc += k / n
    y[0] = acc * x[0]


def shapes(y: Any, x: Any, a: Any, n: Any) -> None:
    i = cuda.grid(1)
    y[i] = x.shape[0] * x[i] / x.size


def a_root(y: Any, x: Any, a: Any, n: Any) -> None:
    i = cuda.grid(1)
    y[i] = math.sqrt(i) * x[i] + math.exp(-0.5 * x[i])


def a_root_stored(y: Any, x: Any, a: Any, n: Any) -> None:
    i = cuda.grid(1)
    y[i] = math.sqrt(i + 0.5)


def a_choice(y: Any, x: Any, a: Any, n: Any) -> None:
    i = cuda.grid(1)
    y[i] = 0.25 if n > i else i / 2


def two_paths(y: Any, x: Any, a: Any, n: Any) -> None:
    i = cuda.grid(1)
    if n > i:
        weight = n / 3
    else:
        weight = 1.5
    y[i] = weight * x[i]


def a_negation(y: Any, x: Any, a: Any, n: Any) -> None:
    i = cuda.grid(1)
    y[i] = -(n / 2) * x[i]


def a_power(y: Any, x: Any, a: Any, n: Any) -> None:
    i = cuda.grid(1)
    y[i] = x[i] ** 2 + (i / 2) ** 2


def python_functions(y: Any, x: Any, a: Any, n: Any) -> None:
    i = cuda.grid(1)
    y[i] = abs(n / 2) + max(x[i], 0.0) + min(0.5, x[i])


def float_of_an_integer(y: Any, x: Any, a: Any, n: Any) -> None:
    i = cuda.grid(1)
    y[i] = float(i) * x[i]


def pi(y: Any, x: Any, a: Any, n: Any) -> None:
    i = cuda.grid(1)
    y[i] = math.sin(2 * math.pi * i / n) * x[i]


def an_augmented_store(y: Any, x: Any, a: Any, n: Any) -> None:
    i = cuda.grid(1)
    y[i] += i / n
    y[i] *= 2


def a_tuple(y: Any, x: Any, a: Any, n: Any) -> None:
    weights = (0.25, n / 2, 0.25)
    y[0] = weights[0] * x[0] + weights[1] * x[1] + weights[2] * x[2]


def an_atomic(y: Any, x: Any, a: Any, n: Any) -> None:
    i = cuda.grid(1)
    cuda.atomic.add(y, 0, i / n)


SINGLE = [
    a_factor, a_sum_of_literals, the_index, half_an_argument, a_quotient_stored, an_accumulator, a_weak_accumulator,
    shapes, a_root, a_root_stored, a_choice, two_paths, a_negation, a_power, python_functions, float_of_an_integer, pi,
    an_augmented_store, a_tuple, an_atomic,
]  # fmt: skip


def ir_of(function: Any, signature: str) -> str:
    built = build_ir(KernelDefinition(function), parse_signature(signature))
    run_passes(built, target_kind="nvptx")
    verify_function(built)
    return format_function(built)


def value_types(text: str) -> set[str]:
    return {line.split(": ")[1].split(" = ")[0] for line in text.splitlines() if " = " in line}


@pytest.mark.parametrize("function", SINGLE, ids=lambda f: f.__name__)
def test_float32_kernels_stay_float32(function: Any) -> None:
    text = ir_of(function, "float32[::1], float32[::1], float32, int")
    assert not value_types(text) & {"float", "float64"}, text
    assert "float32" in value_types(text)


@pytest.mark.parametrize("function", SINGLE, ids=lambda f: f.__name__)
def test_float64_kernels_stay_float64(function: Any) -> None:
    text = ir_of(function, "float64[::1], float64[::1], float64, int")
    assert not value_types(text) & {"float32", "float16"}, text


def narrowed(text: str) -> str:
    function, _ = parse(text)
    simplify(function)
    narrow_weak_floats(function)
    simplify(function)
    verify_function(function)
    return "\n".join(line.strip() for line in format_function(function).splitlines()[1:])


HEAD = "kernel f(n: int, w: float, x: float32[::1], d: float64[::1]) -> none\nentry:\n  %zero: int = const value=0\n"


def test_the_example() -> None:
    text = (
        HEAD
        + """
      %0: float32 = load %x, %zero
      %1: float = cast %n
      %2: float = const value=2.0
      %3: float = div %1, %2
      %4: float32 = cast %3
      %5: float32 = mul %4, %0
      store %x, %zero, %5
      return
    """
    )
    assert narrowed(text) == (
        "entry:\n%0: int = const value=0\n%1: float32 = load %x, %0\n%2: float32 = cast %n\n"
        "%3: float32 = const value=2.0\n%4: float32 = div %2, %3\n%5: float32 = mul %4, %1\nstore %x, %0, %5\nreturn"
    )


def test_a_parameter_is_converted_once() -> None:
    text = narrowed(
        HEAD
        + """
      %a: float = mul %w, %w
      %b: float = add %a, %w
      %c: float32 = cast %b
      store %x, %zero, %c
      return
    """
    )
    assert text.count("float32 = cast %w") == 1
    assert text.count("cast") == 1


@pytest.mark.parametrize(
    "use",
    [
        "%c: bool = cmp %a, %w predicate=lt\n  %s: float32 = cast %c\n  store %x, %zero, %s",  # a comparison
        "%i: int32 = cast %a\n  %s: float32 = cast %i\n  store %x, %zero, %s",  # a conversion to an integer
        "%e: float64 = cast %a\n  store %d, %zero, %e",  # a float64 besides
        "%h: float16 = cast %a\n  %s: float32 = cast %h\n  store %x, %zero, %s",  # two narrower types
    ],
)
def test_what_keeps_a_float_wide(use: str) -> None:
    text = narrowed(
        HEAD
        + f"""
      %one: float = const value=1.5
      %a: float = div %w, %one
      %f: float32 = cast %a
      store %x, %zero, %f
      {use}
      return
    """
    )
    assert ": float = div %w" in text
    assert "float32 = div" not in text


def test_a_narrow_user_of_a_wide_value_takes_one_cast() -> None:
    text = narrowed(
        HEAD
        + """
      %one: float = const value=1.5
      %a: float = div %w, %one
      %c: bool = cmp %a, %w predicate=lt
      %m: float = mul %a, %one
      %p: float = add %m, %a
      %f: float32 = cast %p
      branch %c then=yes else=no
    yes:
      store %x, %zero, %f
      jump target=no
    no:
      return
    """
    )
    assert ": float = div" in text
    assert ": float32 = mul" in text
    assert ": float32 = add" in text
    assert text.count("cast") == 1  # of the quotient, which stays; the constant is there twice


@pytest.mark.parametrize(
    ("value", "kind"), [("1e+300", "float"), ("1e-300", "float"), ("0.0", "float32"), ("inf", "float32")]
)
def test_constants_that_float32_cannot_hold(value: str, kind: str) -> None:
    text = narrowed(
        HEAD
        + f"""
      %big: float = const value={value}
      %a: float = mul %w, %big
      %f: float32 = cast %a
      store %x, %zero, %f
      return
    """
    )
    assert f": {kind} = const value={value}" in text
    assert f": {kind} = mul" in text


def test_phis_of_a_loop_narrow_together() -> None:
    text = narrowed(
        HEAD
        + """
      %start: float = const value=0.0
      %half: float = const value=0.5
      jump target=head
    head:
      %acc: float = phi %start, %next
      %k: int = phi %zero, %k1
      %c: bool = cmp %k, %n predicate=lt
      branch %c then=body else=end
    body:
      %next: float = add %acc, %half
      %one: int = const value=1
      %k1: int = add %k, %one
      jump target=head
    end:
      %f: float32 = cast %acc
      store %x, %zero, %f
      return
    """
    )
    assert value_types(text) == {"int", "bool", "float32"}
