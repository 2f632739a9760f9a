# SPDX-License-Identifier: Apache-2.0
"""What numba's documentation lists for CUDA kernels has a rule here.

Source: "Supported Python features in CUDA Python" and "Supported NumPy features" of numba-cuda's documentation.
"""

from __future__ import annotations

import cmath
import math
import operator
from types import ModuleType

import numpy
import pytest

from cudabuild.frontend.impl.registry import find_rule

DOCUMENTED: dict[ModuleType, str] = {
    math: """acos acosh asin asinh atan atan2 atanh cos cosh sin sinh tan tanh hypot erf erfc exp expm1 fabs frexp gamma
        ldexp lgamma log log2 log10 log1p sqrt remainder pow ceil copysign floor fmod modf trunc isnan isinf isfinite
        degrees radians gcd""",
    cmath: """acos acosh asin asinh atan atanh cos cosh exp isfinite isinf isnan log log10 phase polar rect sin sinh
        sqrt tan tanh""",
    operator: """add and_ eq floordiv ge gt iadd iand ifloordiv ilshift imod imul invert ior ipow irshift isub itruediv
        ixor le lshift lt mod mul ne neg not_ or_ pos pow rshift sub truediv xor""",
    numpy: """add subtract multiply divide logaddexp logaddexp2 true_divide floor_divide negative power float_power
        remainder mod fmod divmod abs absolute fabs rint sign conj exp exp2 log log2 log10 expm1 log1p sqrt square cbrt
        reciprocal gcd lcm sin cos tan arcsin arccos arctan arctan2 hypot sinh cosh tanh arcsinh arccosh arctanh
        deg2rad rad2deg degrees radians bitwise_and bitwise_or bitwise_xor bitwise_not invert left_shift right_shift
        greater greater_equal less less_equal not_equal equal logical_and logical_or logical_xor logical_not maximum
        minimum fmax fmin isfinite isinf isnan signbit copysign nextafter modf ldexp frexp floor ceil trunc spacing
        heaviside bitwise_count""",
}


@pytest.mark.parametrize("module", DOCUMENTED, ids=lambda module: module.__name__)
def test_every_documented_name(module: ModuleType) -> None:
    names = DOCUMENTED[module].split()
    assert [name for name in names if find_rule(getattr(module, name)) is None] == []


def test_every_element_function_of_numpy_but_products_of_matrices() -> None:
    functions = [name for name in dir(numpy) if isinstance(getattr(numpy, name), numpy.ufunc)]
    assert {name for name in functions if find_rule(getattr(numpy, name)) is None} <= {
        "matmul", "matvec", "vecdot", "vecmat",
    }  # fmt: skip


def test_every_function_of_math_but_one() -> None:
    functions = [name for name in dir(math) if name[0] != "_" and callable(getattr(math, name))]
    assert {name for name in functions if find_rule(getattr(math, name)) is None} <= {"fsum"}
