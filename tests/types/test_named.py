# SPDX-License-Identifier: Apache-2.0
"""Named tuples and members of enums as types."""

from __future__ import annotations

import enum
import pickle

import pytest

from cudabuild.types import Tuple, float32, format_signature, int64, none, parse_signature, weak_int
from cudabuild.types.named import EnumMember, NamedTuple, enum_type, member_number


class Level(enum.IntEnum):
    LOW = -3
    HIGH = 7


class Colour(enum.Enum):
    RED = "r"
    GREEN = 2.5


def make_colour(green: object) -> type[enum.Enum]:
    made = enum.Enum("Colour", {"RED": "r", "GREEN": green})  # type: ignore[misc]
    made.__module__, made.__qualname__ = Colour.__module__, Colour.__qualname__
    return made


POINT = NamedTuple("Point", ("x", "y"), (weak_int, float32[::1]))
TYPES = [
    POINT,
    NamedTuple("Empty", (), ()),
    NamedTuple("Outer", ("p", "n"), (POINT, none)),
    Tuple([POINT, enum_type(Level)]),
    enum_type(Level),
    enum_type(Colour),
    none,
]


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_text_and_pickle(kind: object) -> None:
    text = format_signature((kind, int64))  # type: ignore[arg-type]
    assert parse_signature(text) == (kind, int64)
    assert pickle.loads(pickle.dumps(kind)) == kind
    assert type(pickle.loads(pickle.dumps(kind))) is type(kind)


def test_names() -> None:
    assert POINT.name == "NamedTuple(Point, x: int, y: float32[::1])"
    assert POINT.with_elements([int64, int64]).label == POINT.label == "Point(x, y)"
    assert Tuple(POINT.elements) != POINT
    assert enum_type(Level).name == f"IntEnum({__name__}:Level)"


def test_an_enum_that_changes_is_another_type() -> None:
    assert enum_type(make_colour(2.5)) == enum_type(Colour)
    assert enum_type(make_colour(2)) != enum_type(Colour)


def test_numbers_and_classes() -> None:
    assert [member_number(one) for one in Level] == [-3, 7]
    assert [member_number(one) for one in Colour] == [0, 1]
    assert enum_type(Level).find_class() is Level
    unknown = EnumMember("nowhere_to_be_found:Thing", True)
    assert unknown.find_class() is None
