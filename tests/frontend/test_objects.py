# SPDX-License-Identifier: Apache-2.0
"""Compile-time objects: no value enters a kernel that its fingerprint does not hold."""

from __future__ import annotations

import enum
import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cudabuild import cuda
from cudabuild.definition import KernelDefinition
from cudabuild.errors import CompilationError
from cudabuild.fingerprint import compute_fingerprint
from cudabuild.frontend import build_ir
from cudabuild.ir.printer import format_function
from cudabuild.types import float32, float64, int32

ARRAY = int32[::1]
DOUBLE = np.dtype("f8")
TABLE = np.zeros((2, 3), np.float32)


class Config:
    N = 3


class Colour(enum.Enum):
    RED = 7
    BLUE = 8

    @property
    def doubled(self) -> int:
        return int(self.value) * 2


class Holder:
    def __init__(self, number: int) -> None:
        self.number = number

    @property
    def computed(self) -> int:
        return self.number


class Metres(float):
    def __repr__(self) -> str:
        return "metres"

    def __float__(self) -> float:
        raise AssertionError("code of the user's")


class Count(int):
    def __repr__(self) -> str:
        return "a count"

    def __int__(self) -> int:
        raise AssertionError("code of the user's")


LENGTH, COUNT = Metres(2.5), Count(3)
HOLDER = Holder(5)
HOLDERS = (HOLDER,)


def lower(function: Callable[..., None], kind: Any = ARRAY) -> str:
    return format_function(build_ir(KernelDefinition(function), (kind,)))  # type: ignore[arg-type]


def direct_class(x):  # type: ignore[no-untyped-def]
    x[0] = Config.N


def direct_object(x):  # type: ignore[no-untyped-def]
    x[0] = HOLDER.number


def direct_member(x):  # type: ignore[no-untyped-def]
    x[0] = Colour.RED.value


@pytest.mark.parametrize(
    ("function", "owner", "name"),
    [(direct_class, Config, "N"), (direct_object, HOLDER, "number"), (direct_member, Colour.RED, "_value_")],
)
def test_a_dotted_name_is_part_of_the_fingerprint(
    function: Callable[..., None], owner: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = compute_fingerprint(KernelDefinition(function), (ARRAY,)), lower(function)  # type: ignore[arg-type]
    monkeypatch.setattr(owner, name, 99)
    after = compute_fingerprint(KernelDefinition(function), (ARRAY,)), lower(function)  # type: ignore[arg-type]
    assert before[1] != after[1]
    assert before[0].digest != after[0].digest


def derived(x):  # type: ignore[no-untyped-def]
    x[0] = COUNT * LENGTH


def test_numbers_of_derived_classes_are_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    definition = KernelDefinition(derived)  # type: ignore[arg-type]
    digests = {compute_fingerprint(definition, (ARRAY,)).digest}
    assert "value=7\n" in lower(derived)
    for name, value in (("COUNT", Count(4)), ("LENGTH", Metres(-0.0)), ("LENGTH", Metres(0.0)), ("COUNT", 4)):
        monkeypatch.setitem(globals(), name, value)
        digests.add(compute_fingerprint(definition, (ARRAY,)).digest)
    assert len(digests) == 5


DOUBLE_CONSTANT = np.float64(2.0)


def numpy_double(x):  # type: ignore[no-untyped-def]
    x[0] = DOUBLE_CONSTANT * x[1]


def test_numpys_double_is_typed_although_it_is_a_python_float() -> None:
    text = lower(numpy_double, float32[::1])
    assert "float64 = const value=2.0\n" in text
    assert "float64 = mul" in text


def alias(x):  # type: ignore[no-untyped-def]
    c = Config
    x[0] = c.N


def of_argument(c):  # type: ignore[no-untyped-def]
    return c.N


def argument(x):  # type: ignore[no-untyped-def]
    x[0] = of_argument(Config)


def choice(x):  # type: ignore[no-untyped-def]
    x[0] = (Config if x is None else Holder).N


def element(x):  # type: ignore[no-untyped-def]
    x[0] = HOLDERS[0].number


def computed(x):  # type: ignore[no-untyped-def]
    x[0] = HOLDER.computed


def computed_member(x):  # type: ignore[no-untyped-def]
    x[0] = Colour.RED.doubled


def compared(x):  # type: ignore[no-untyped-def]
    if HOLDERS[0] == HOLDER:
        x[0] = 1


def identical(x):  # type: ignore[no-untyped-def]
    if HOLDER is HOLDERS[0]:
        x[0] = 1


THROUGH_A_VARIABLE = """\
{file}:{line}: attribute 'N' through a variable (in alias)
  {line} | x[0] = c.N
  {gap} |        ^
  found:    attribute 'N' of class 'Config'
  expected: the dotted name of a global: a kernel's constants are found by their names
  do:       write the object's own name, such as config.N, or keep the value in a global"""


def test_the_message_for_an_alias() -> None:
    with pytest.raises(CompilationError) as caught:
        lower(alias)
    line = alias.__code__.co_firstlineno + 2
    assert str(caught.value) == THROUGH_A_VARIABLE.format(file=__file__, line=line, gap=" " * len(str(line)))


@pytest.mark.parametrize(
    ("function", "title"),
    [
        (argument, "attribute 'N' through a variable"),
        (choice, "attribute 'N' through a variable"),
        (element, "attribute 'number' through a variable"),
        (computed, "attribute 'computed' is computed by code"),
        (computed_member, "no attribute 'doubled' here"),
        (compared, "comparison of objects"),
        (identical, "comparison of objects"),
    ],
)
def test_what_the_fingerprint_would_not_hold_is_refused(function: Callable[..., None], title: str) -> None:
    with pytest.raises(CompilationError) as caught:
        lower(function)
    assert caught.value.diagnostics[0].title == title


def aliases_that_mean_one_thing(x):  # type: ignore[no-untyped-def]
    m, names, colour = math, cuda.shared, Colour
    tile = names.array(4, int32)
    tile[0] = int(m.pi) + colour.RED.value + TABLE.shape[1]
    x[0] = tile[0]


def test_names_that_mean_the_same_everywhere_may_be_given_another_name() -> None:
    assert "13" in lower(aliases_that_mean_one_thing)


def by_type(x):  # type: ignore[no-untyped-def]
    if x.dtype == np.float32:
        x[0] = 1
    elif x.dtype == DOUBLE:
        x[0] = 2
    elif x.dtype is int32:
        x[0] = 3
    if x.dtype != np.float16:
        x[1] = 4


@pytest.mark.parametrize(("kind", "stored"), [(float32, "1.0"), (float64, "2.0"), (int32, "3")])
def test_an_element_type_equals_its_other_spellings(kind: Any, stored: str) -> None:
    text = lower(by_type, kind[::1])
    assert f"value={stored}\n" in text
    assert text.count("store") == 2


def with_a_wrapper(function: Any) -> Any:
    @functools.wraps(function)
    def wrapper(first: Any, second: Any) -> Any:
        return function(first) + second

    return wrapper


@with_a_wrapper
def wrapped(a: Any) -> Any:
    return a * 2


def calls_a_wrapper(x):  # type: ignore[no-untyped-def]
    x[0] = wrapped(x[1], x[2])


def test_a_wrapper_is_called_with_its_own_parameters() -> None:
    assert lower(calls_a_wrapper).count("load") == 2
