# SPDX-License-Identifier: Apache-2.0
"""Types that carry names of the user's: named tuples and members of enums.

``NamedTuple(Point, x: int, y: float64)`` is a tuple of its elements whose fields have names. ``IntEnum(shapes:Shape)``
is its members' integers; ``Enum(colours:Colour#1f0c…)``, whose members may stand for anything, is a member's position
in the class, so its name holds a digest of the members: a class that changes is another type.

The launch path imports this module.
"""

from __future__ import annotations

from cudabuild.types.type import Integer, Tuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from cudabuild.types.type import Type

__all__ = ["EnumMember", "NamedTuple", "enum_type", "member_number"]


class NamedTuple(Tuple):
    """A tuple whose elements have names.

    Attributes:
        tuple_name: the class's name.
        fields: the elements' names.
    """

    __slots__ = ("fields", "tuple_name")

    def __init__(self, tuple_name: str, fields: Iterable[str], elements: Iterable[Type]) -> None:
        super().__init__(elements)
        self.tuple_name = tuple_name
        self.fields = tuple(fields)
        pairs = zip(self.fields, self.elements, strict=True)
        self.name = f"NamedTuple({', '.join([tuple_name, *(f'{field}: {kind.name}' for field, kind in pairs)])})"

    @property
    def label(self) -> str:
        """What tells it from other tuple types, the elements' types aside."""
        return f"{self.tuple_name}({', '.join(self.fields)})"

    @property
    def field_names(self) -> tuple[str, ...]:
        """The elements' names."""
        return self.fields

    def with_elements(self, elements: Iterable[Type]) -> NamedTuple:
        """This type with other types of its elements."""
        return NamedTuple(self.tuple_name, self.fields, elements)

    def __reduce__(self) -> tuple[Any, ...]:
        return (NamedTuple, (self.tuple_name, self.fields, self.elements))


class EnumMember(Integer):
    """A member of an ``enum.Enum`` class, as an int64.

    Attributes:
        label: ``module:qualname``, and for members that are no integers ``#`` and a digest of all.
        is_integer: whether a member is an integer (``enum.IntEnum``) and stands for itself.
    """

    __slots__ = ("is_integer", "label")

    def __init__(self, label: str, is_integer: bool) -> None:
        super().__init__(64, True)
        self.label = label
        self.is_integer = is_integer
        self.name = f"{'IntEnum' if is_integer else 'Enum'}({label})"

    def describe(self, number: int | None) -> str:
        """``Colour.red``, or ``a member of Colour`` where it is not known which."""
        cls = self.find_class()
        if cls is None or number is None:
            return f"a member of {self.label.partition(':')[2].partition('#')[0]}"
        found = next(member for member in cls if member_number(member) == number)
        return f"{cls.__name__}.{found.name}"

    def find_class(self) -> Any:
        """The class, or None where it is not to be found any more."""
        known = _classes.get(self.name)
        if known is not None:
            return known
        import importlib
        from functools import reduce

        module, _, qualname = self.label.partition("#")[0].partition(":")
        try:
            found = reduce(getattr, qualname.split("."), importlib.import_module(module))
        except (ImportError, AttributeError):
            return None
        return found if enum_type(found) == self else None

    def __reduce__(self) -> tuple[Any, ...]:
        return (EnumMember, (self.label, self.is_integer))


def member_number(member: Any) -> int:
    """What stands for a member of an enum: its integer, or its position in the class."""
    members: Any = type(member)
    return int(member) if isinstance(member, int) else list(members).index(member)


#: The classes seen in this process, by their types' names: one defined in a function cannot be imported.
_classes: dict[str, Any] = {}


def enum_type(cls: Any) -> EnumMember:
    """The type of the members of an ``enum.Enum`` class."""
    label = f"{cls.__module__}:{cls.__qualname__}"
    if not issubclass(cls, int):
        from cudabuild.digest import digest
        from cudabuild.fingerprint.values import describe_value

        text = describe_value(cls)
        label += f"#{digest(text.encode()).hex()[:12]}"
    kind = EnumMember(label, issubclass(cls, int))
    _classes[kind.name] = cls
    return kind
