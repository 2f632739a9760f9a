# SPDX-License-Identifier: Apache-2.0
"""Signatures: the argument types of an overload, and the text they are written as.

``"float32, float32[::1]"``, ``"void(f4, f4[:])"``, a tuple of types, or a list of any of these. A template names type
variables: ``"T, T[::1]"`` with ``T=(float32, float64)`` stands for two signatures. A record, or a text (``S8``), is
passed as an array without axes: as an argument, ``Record(x: float32 at 0; 4)`` is ``Record(x: float32 at 0; 4)[]``.
"""

from __future__ import annotations

from cudabuild.errors import SignatureError
from cudabuild.types.named import EnumMember, NamedTuple
from cudabuild.types.pointer import Pointer
from cudabuild.types.record import CharSeq, DateTime, Member, Record, TimeDelta
from cudabuild.types.type import (
    Array,
    FunctionSignature,
    NoneType,
    Prototype,
    Scalar,
    Tuple,
    Type,
    TypeArgument,
    none,
    scalar_by_name,
    scalar_names,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    Variables = Mapping[str, Sequence[Type]]

__all__ = ["Signature", "as_argument", "format_signature", "parse_signature", "parse_signatures", "plain_spec"]

#: The argument types of one overload. A kernel returns nothing, so they are the whole signature.
Signature = tuple[Type, ...]


def format_signature(signature: Signature) -> str:
    """The canonical text: ``parse_signature(format_signature(s)) == s``."""
    return ", ".join(t.name for t in signature)


def parse_signature(text: str, variables: Mapping[str, Type] | None = None, *, returns: bool = False) -> Signature:
    """The argument types written in ``text``.

    Args:
        text: ``"float32, float32[::1]"``, optionally wrapped in ``void(…)`` or ``(…)``.
        variables: what a template's type variables stand for.
        returns: whether it may name a result, as ``float32(float32)``; it is then a ``FunctionSignature``.

    Raises:
        SignatureError: with the text, a caret under the wrong part, and what was expected there.
    """
    return _Parser(text, variables or {}).parse(returns)


def parse_signatures(spec: Any, variables: Variables | None = None, *, returns: bool = False) -> list[Signature]:
    """Every signature that ``spec`` stands for, in order, without repeats.

    Args:
        spec: a signature string, a tuple of types, or a list of these.
        variables: the types that each type variable ranges over; several variables make the product.
        returns: whether the function may return something; a signature that says so is a ``FunctionSignature``.
    """
    items = spec if isinstance(spec, list) else [spec]
    found: dict[Signature, None] = {}
    for written in items:
        item = plain_spec(written)
        if isinstance(item, str):
            for binding in _bindings(_used(item, variables or {})):
                found[parse_signature(item, binding, returns=returns)] = None
        elif isinstance(item, tuple) and all(isinstance(part, Type) for part in item):
            found[_checked(item, returns)] = None
        elif isinstance(item, Type):
            found[(as_argument(item),)] = None
        else:
            raise SignatureError(
                repr(item),
                0,
                found=f"a signature of type {type(item).__name__}",
                expected="a string such as 'float32, float32[::1]', a tuple of cudabuild types, or a list of these",
            )
    return list(found)


def plain_spec(spec: Any) -> Any:
    """``spec`` with tuples in place of what ``void(…)`` and ``int32(…)`` make."""
    if isinstance(spec, list):
        return [plain_spec(item) for item in spec]
    return spec.plain() if isinstance(spec, Prototype) else spec


def _checked(types: tuple[Type, ...], returns: bool) -> Signature:
    arguments = tuple(map(as_argument, types))
    if not isinstance(types, FunctionSignature) or types.return_type == none:
        return arguments
    if returns:
        return FunctionSignature(arguments, types.return_type)
    inside = ", ".join(kind.name for kind in types)
    raise SignatureError(
        f"{types.return_type.name}({inside})",
        0,
        found=f"{types.return_type.name}(…)",
        expected="void(…): a kernel returns nothing",
    )


def as_argument(kind: Type) -> Type:
    """How a value of the type is passed: in memory, if it does not fit a register."""
    if isinstance(kind, (Record, CharSeq)):
        return Array(kind, 0, "C")
    return kind


def _used(text: str, variables: Variables) -> dict[str, Sequence[Type]]:
    words, word = set(), ""
    for char in text + " ":
        if char.isalnum() or char == "_":
            word += char
        else:
            words.add(word)
            word = ""
    return {name: types for name, types in variables.items() if name in words}


def _bindings(variables: Variables) -> list[dict[str, Type]]:
    bindings: list[dict[str, Type]] = [{}]
    for name, types in variables.items():
        bindings = [{**binding, name: t} for binding in bindings for t in types]
    return bindings


class _Parser:
    """Recursive descent over the small grammar; positions are offsets in the text."""

    def __init__(self, text: str, variables: Mapping[str, Type]) -> None:
        self.text = text
        self.variables = variables
        self.at = 0

    def parse(self, returns: bool) -> Signature:
        start = self._skip()
        word = self._word()
        result: Type = none
        if word and word not in ("void", "none"):
            self.at = start
            types = self._types("")
            if len(types) == 1 and self._peek() == "(":
                result = types[0]
        if self._peek() == "(":
            if result != none and not returns:
                raise self._error(start, f"{result.name}(…)", "void(…): a kernel returns nothing")
            self.at += 1
            types = self._types(")")
            self._expect(")")
        elif word in ("", "void", "none"):
            self.at = start
            types = self._types("")
        if self._skip() < len(self.text):
            raise self._error(self.at, repr(self.text[self.at :]), "',' or the end of the signature")
        arguments = tuple(map(as_argument, types))
        return arguments if result == none else FunctionSignature(arguments, result)

    def _types(self, end: str) -> list[Type]:
        types: list[Type] = []
        if self._peek() == end:
            return types
        while True:
            types.append(self._type())
            if self._peek() != ",":
                return types
            self.at += 1

    def _type(self) -> Type:
        start = self._skip()
        word = self._word()
        readonly, packed = word == "const", 0
        if readonly:
            start = self._skip()
            word = self._word()
        if word.startswith("packed") and word[6:].isdigit():
            packed = int(word[6:])
            start = self._skip()
            word = self._word()
        if word in ("Tuple", "UniTuple") and self._peek() == "(":
            return self._tuple(word)
        if word in ("NamedTuple", "IntEnum", "Enum") and self._peek() == "(":
            return self._named_tuple() if word == "NamedTuple" else self._enum(word)
        if word == "CPointer" and self._peek() == "(":
            return self._pointer()
        if word == "type" and self._peek() == "(":
            return self._type_argument()
        if word == "none":
            return none
        base: Type | None = self.variables.get(word) or scalar_by_name(word) or self._element(word)
        if word in ("void", "none"):
            base = none
        if base is None:
            names = scalar_names() + list(self.variables)
            found = repr(word) if word else (repr(self.text[start]) if start < len(self.text) else "the end")
            raise self._error(start, found, f"a type: {', '.join(names)}", nearest=(word, names))
        if isinstance(base, NoneType):
            raise self._error(start, repr(word), "an argument type; a kernel without arguments is 'void()'")
        if self._peek() != "[":
            if readonly or packed:
                what = "const" if readonly else f"packed{packed}"
                expected = f"an array type after '{what}', such as '{what} float32[::1]'"
                raise self._error(start, f"'{what} {word}'", expected)
            return base
        if not isinstance(base, Scalar):
            raise self._error(self.at, "'['", f"no dimensions: {base.name} is not a scalar type")
        return self._array(base, readonly, packed)

    def _type_argument(self) -> TypeArgument:
        """``type(float32)``."""
        self.at += 1
        start = self._skip()
        kind = self._type()
        if isinstance(kind, Array) and kind.ndim == 0:  # of records
            kind = kind.dtype
        if not isinstance(kind, Scalar):
            raise self._error(start, repr(kind.name), "an element type")
        self._expect(")")
        return TypeArgument(kind)

    def _pointer(self) -> Pointer:
        """``CPointer(float32)``."""
        self.at += 1
        at = self._skip()
        dtype = self._member_type()
        if not isinstance(dtype, Scalar):
            raise self._error(at, repr(self.text[at : self.at]), "the type of the elements")
        self._expect(")")
        return Pointer(dtype)

    def _element(self, word: str) -> Scalar | None:
        """The types that are more than a word: records, texts, times."""
        if word == "Record" and self._peek() == "(":
            return self._record()
        if word[:1] in ("S", "U") and word[1:].isdigit() and int(word[1:]) > 0:
            return CharSeq(int(word[1:]), word[0] == "U")
        kind = {"datetime64": DateTime, "M8": DateTime, "timedelta64": TimeDelta, "m8": TimeDelta}.get(word)
        if kind is None:
            return None
        at = self._skip()
        unit = self.text[at + 1 : self.text.find("]", at)] if self.text[at : at + 1] == "[" else ""
        if not unit or not unit.isalnum() or unit.isdigit():
            return kind("")
        self.at = at + len(unit) + 2
        return kind(unit)

    def _record(self) -> Record:
        self.at += 1
        members: list[Member] = []
        while self._peek() != ";" or members:
            name = self._name()
            self._expect(":")
            at = self._skip()
            dtype = self._member_type()
            shape = self._extents()
            if not isinstance(dtype, Scalar):
                raise self._error(at, repr(self.text[at : self.at]), "the type of a number, a text, a time or a record")
            if self._word() != "at":
                raise self._error(self.at, "no offset", "'at' and the member's offset in bytes")
            members.append(Member(name, dtype, self._number(), shape))
            if self._peek() != ",":
                break
            self.at += 1
        self._expect(";")
        size = self._number()
        self._expect(")")
        return Record(members, size)

    def _member_type(self) -> Type | None:
        word = self._word()
        return self.variables.get(word) or scalar_by_name(word) or self._element(word)

    def _name(self) -> str:
        """A member's name: an identifier, or any text between quotes, with Python's escapes."""
        at = self._skip()
        if self.text[at : at + 1] != "'":
            word = self._word()
            if not word:
                raise self._error(at, repr(self._peek()), "the name of a member")
            return word
        end = self.text.find("'", at + 1)
        if end < 0:
            raise self._error(at, "a quote without an end", '"\'"')
        self.at = end + 1
        return self.text[at + 1 : end].encode("ascii", "backslashreplace").decode("unicode_escape")

    def _extents(self) -> tuple[int, ...]:
        if self._peek() != "[":
            return ()
        extents = []
        while self._peek() in ("[", ","):
            self.at += 1
            extents.append(self._number())
        self._expect("]")
        return tuple(extents)

    def _number(self) -> int:
        at = self._skip()
        word = self._word()
        if not word.isdigit():
            raise self._error(at, repr(word or self._peek()), "a number")
        return int(word)

    def _array(self, dtype: Scalar, readonly: bool, packed: int) -> Array:
        start = self.at
        self.at += 1
        dims: list[slice] = []
        while self._peek() != "]" or dims:  # nothing between the brackets: no axes
            at = self._skip()
            if self.text.startswith("::1", at):
                self.at += 3
                dims.append(slice(None, None, 1))
            elif self.text.startswith(":", at) and not self.text.startswith("::", at):
                self.at += 1
                dims.append(slice(None))
            else:
                end = at
                while end < len(self.text) and self.text[end] not in ",]":
                    end += 1
                raise self._error(at, repr(self.text[at:end]), "':' or '::1' for each axis")
            if self._peek() != ",":
                break
            self.at += 1
        self._expect("]")
        try:
            array = Array.from_subscript(dtype, tuple(dims))
        except TypeError as error:
            raise self._error(start, repr(self.text[start : self.at]), str(error)) from None
        return array.with_(readonly=readonly, packed=packed) if readonly or packed else array

    def _tuple(self, word: str) -> Tuple:
        self.at += 1
        if word == "Tuple":
            elements = self._types(")")
        else:
            element = self._type()
            self._expect(",")
            at = self._skip()
            count = self._word()
            if not count.isdigit():
                raise self._error(at, repr(count), "the number of elements")
            elements = [element] * int(count)
        self._expect(")")
        return Tuple(map(as_argument, elements))

    def _named_tuple(self) -> NamedTuple:
        """``NamedTuple(Point, x: int, y: float64)``."""
        self.at += 1
        self._skip()
        name = self._text_until(",)")
        fields: dict[str, Type] = {}
        while self._peek() == ",":
            self.at += 1
            self._skip()
            field = self._text_until(":")
            self._expect(":")
            fields[field] = self._type()
        self._expect(")")
        return NamedTuple(name, fields, fields.values())

    def _enum(self, word: str) -> EnumMember:
        """``IntEnum(module:Class)``, ``Enum(module:Class#digest)``."""
        self.at += 1
        label = self._text_until(")")
        self._expect(")")
        return EnumMember(label, word == "IntEnum")

    def _text_until(self, ends: str) -> str:
        start = self.at
        while self.at < len(self.text) and self.text[self.at] not in ends:
            self.at += 1
        return self.text[start : self.at].strip()

    def _skip(self) -> int:
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1
        return self.at

    def _peek(self) -> str:
        self._skip()
        return self.text[self.at : self.at + 1]

    def _word(self) -> str:
        start = self._skip()
        while self.at < len(self.text) and (self.text[self.at].isalnum() or self.text[self.at] == "_"):
            self.at += 1
        return self.text[start : self.at]

    def _expect(self, char: str) -> None:
        if self._peek() != char:
            found = repr(self._peek()) if self._peek() else "the end of the signature"
            raise self._error(self.at, found, repr(char))
        self.at += 1

    def _error(
        self, at: int, found: str, expected: str, nearest: tuple[str, list[str]] | None = None
    ) -> SignatureError:
        return SignatureError(self.text, at, found=found, expected=expected, nearest=nearest)
