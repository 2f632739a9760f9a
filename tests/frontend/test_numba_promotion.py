# SPDX-License-Identifier: Apache-2.0
"""``literals="numba"`` against the types that numba-cuda gives, as recorded in ``numba_types.txt``."""

from __future__ import annotations

import linecache
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cudabuild import cuda
from cudabuild.frontend.callee import callee_of
from cudabuild.frontend.infer import FunctionInference
from cudabuild.frontend.operands import type_of
from cudabuild.frontend.specialise import Session
from cudabuild.frontend.tables import NUMBA, WEAK, find_table, strong
from cudabuild.ir.ir import Value
from cudabuild.types import Array, Scalar, Type, float32, float64, int32, int64, scalar_by_name, weak_float, weak_int

LINES = (Path(__file__).parent / "numba_types.txt").read_text().splitlines()
NAMES = next(line for line in LINES if line.startswith("type ")).split()[1:]


def scalar(name: str) -> Scalar:
    found = scalar_by_name(name)
    assert found is not None
    return found


def result_of(body: str, table: Any = NUMBA, **parameters: Type) -> Type | None:
    """The type that a device function with this body returns, weakness aside."""
    text = f"def f({', '.join(parameters)}):\n" + "".join(f"    {line}\n" for line in body.splitlines())
    name = f"<result of {body!r} for {parameters}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    namespace: dict[str, Any] = {"cuda": cuda, "math": math, "np": np, "int32": int32, "float32": float32}
    exec(compile(text, name, "exec"), namespace)
    session = Session()
    callee = callee_of(namespace["f"])
    hir, sink = session.hir(callee)
    arguments = [Value(kind) for kind in parameters.values()]
    inference = FunctionInference(session, callee, hir, sink, arguments, is_kernel=False, table=table)
    inference.run()
    assert not inference.diagnostics, "\n".join(map(str, inference.diagnostics))
    assert inference.result is not None
    kind = type_of(inference.result)
    return strong(kind) if isinstance(kind, Scalar) else kind


def rows() -> list[tuple[str, str, list[str]]]:
    """Expression, type of ``a`` where there is a ``b`` too, and the recorded results."""
    found, pair = [], ""
    for line in LINES:
        head, _, rest = line.partition(": ")
        if line.startswith("  "):
            found.append((pair, head.strip(), rest.split()))
        elif line and line[0] != "#" and not line.startswith("type "):
            pair = line
            if rest:
                found.append((head.strip(), "", rest.split()))
    return found


@pytest.mark.parametrize(("expression", "left", "expected"), rows(), ids=lambda part: part if part else "x")
def test_recorded_types(expression: str, left: str, expected: list[str]) -> None:
    for name, recorded in zip(NAMES, expected, strict=False):
        if recorded in ("--", ".."):
            continue
        parameters = {"c": scalar("bool"), "a": scalar(left or name), "b": scalar(name)}
        found = result_of(f"return {expression}", **parameters)
        assert found == scalar(recorded), f"{expression} with a: {left or name}, b: {name} is {found}, not {recorded}"


STATEMENTS = {
    "for i in range(10):\n    return i\nraise ValueError": "int64",
    "for i in range(n):\n    return i\nraise ValueError": "int32",
    "for i in range(0, n):\n    return i\nraise ValueError": "int64",
    "for i in range(u):\n    return i\nraise ValueError": "uint64",
    "for i in range(cuda.threadIdx.x, cuda.blockDim.x):\n    return i\nraise ValueError": "int32",
    "for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):\n    return i\nraise ValueError": "int64",
    "for i in range(cuda.threadIdx.x, 10):\n    return i\nraise ValueError": "int64",
    "s = 0\nfor i in range(n):\n    s += x[i]\nreturn s": "float64",
    "s = 0\nfor i in range(n):\n    s += n\nreturn s": "int64",
    "if n > 0:\n    return x[0]\nreturn 0": "float64",
    "return x[0] * 0.5": "float64",
    "return x[0] * np.float32(0.5)": "float32",
    "return x[0] ** 2": "float32",
    "return x.shape[0]": "int64",
    "return cuda.threadIdx.x / 2": "float64",
    "return cuda.atomic.add(x, 0, 1)": "float32",
    "return 1 / 0": "float64",
}


@pytest.mark.parametrize("body", STATEMENTS)
def test_statements(body: str) -> None:
    parameters: dict[str, Type] = {"x": Array(float32, 1, "A"), "n": int32, "u": scalar("uint8")}
    assert result_of(body, **parameters) == scalar(STATEMENTS[body])


ARRAYS = {"x": "float32", "k": "int32", "u": "uint8", "b": "bool"}
SCALARS = {"n": "int32", "m": "int64", "q": "uint32", "s": "float32", "d": "float64", "c": "bool"}
BODIES = [
    line.partition(" ")
    for line in (Path(__file__).parent / "numba_statements.txt").read_text().splitlines()
    if line and line[0] != "#"
]


@pytest.mark.parametrize(("kind", "body"), [(kind, body.strip()) for kind, _, body in BODIES])
def test_recorded_statements(kind: str, body: str) -> None:
    text = body.encode().decode("unicode_escape")
    parameters: dict[str, Type] = {name: Array(scalar(element), 1, "A") for name, element in ARRAYS.items()}
    parameters |= {name: scalar(spelled) for name, spelled in SCALARS.items()}
    assert result_of(text, **parameters) == scalar(kind)


def test_weak_numbers_count_as_strong_ones_here() -> None:
    assert NUMBA.arithmetic(weak_int, int32) == int64
    assert NUMBA.arithmetic(float32, weak_float) == float64
    assert NUMBA.division(weak_int, weak_int) == float64
    assert NUMBA.join(weak_int, float32) == float64
    assert NUMBA.arithmetic(weak_int, weak_int) == weak_int  # an index stays one


def test_tables_are_found_by_the_option() -> None:
    assert find_table("weak") is WEAK
    assert find_table("numba") is NUMBA


def test_numbers_written_out_are_computed_as_python_does() -> None:
    for table in (WEAK, NUMBA):
        assert result_of("return 2**63", table) == scalar("uint64")
        assert result_of("return 2**-1", table) == float64
        assert result_of("return -2**63", table) == int64


def test_a_float_is_no_vote() -> None:
    x = Array(float32, 1, "A")
    assert result_of("return cuda.any_sync(0xFFFFFFFF, x[0])", WEAK, x=x) == scalar("bool")
    with pytest.raises(AssertionError, match="Predicate must be an integer or boolean"):
        result_of("return cuda.any_sync(0xFFFFFFFF, x[0])", x=x)
