# SPDX-License-Identifier: Apache-2.0
"""Signatures: the argument types of an overload, and the text they are written as.

``"float32, float32[::1]"``, ``"void(f4, f4[:])"``, a tuple of types, or a list of any of these. A template names type
variables: ``"T, T[::1]"`` with ``T=(float32, float64)`` stands for two signatures.
"""

from __future__ import annotations

from cudabuild.errors import SignatureError
from cudabuild.types.type import Array, NoneType, Scalar, Tuple, Type, none, scalar_by_name, scalar_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    Variables = Mapping[str, Sequence[Type]]

__all__ = ["Signature", "format_signature", "parse_signature", "parse_signatures"]

#: The argument types of one overload. A kernel returns nothing, so they are the whole signature.
Signature = tuple[Type, ...]


def format_signature(signature: Signature) -> str:
    """The canonical text: ``parse_signature(format_signature(s)) == s``."""
    return ", ".join(t.name for t in signature)


def parse_signature(text: str, variables: Mapping[str, Type] | None = None) -> Signature:
    """The argument types written in ``text``.

    Args:
        text: ``"float32, float32[::1]"``, optionally wrapped in ``void(…)``.
        variables: what a template's type variables stand for.

    Raises:
        SignatureError: with the text, a caret under the wrong part, and what was expected there.
    """
    return _Parser(text, variables or {}).parse()


def parse_signatures(spec: Any, variables: Variables | None = None) -> list[Signature]:
    """Every signature that ``spec`` stands for, in order, without repeats.

    Args:
        spec: a signature string, a tuple of types, or a list of these.
        variables: the types that each type variable ranges over; several variables make the product.
    """
    items = spec if isinstance(spec, list) else [spec]
    found: dict[Signature, None] = {}
    for item in items:
        if isinstance(item, str):
            for binding in _bindings(_used(item, variables or {})):
                found[parse_signature(item, binding)] = None
        elif isinstance(item, tuple) and all(isinstance(part, Type) for part in item):
            found[item] = None
        elif isinstance(item, Type):
            found[(item,)] = None
        else:
            raise SignatureError(
                repr(item),
                0,
                found=f"a signature of type {type(item).__name__}",
                expected="a string such as 'float32, float32[::1]', a tuple of cudabuild types, or a list of these",
            )
    return list(found)


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

    def parse(self) -> Signature:
        start = self._skip()
        word = self._word()
        if word in ("void", "none") and self._peek() == "(":
            self.at += 1
            types = self._types(")")
            self._expect(")")
        elif word and self._peek() == "(" and word not in ("Tuple", "UniTuple"):
            raise self._error(start, f"{word}(…)", "void(…): a kernel returns nothing")
        else:
            self.at = start
            types = self._types("")
        if self._skip() < len(self.text):
            raise self._error(self.at, repr(self.text[self.at :]), "',' or the end of the signature")
        return tuple(types)

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
        readonly = word == "const"
        if readonly:
            self._skip()
            start = self.at
            word = self._word()
        if word in ("Tuple", "UniTuple") and self._peek() == "(":
            return self._tuple(word)
        base: Type | None = self.variables.get(word) or scalar_by_name(word)
        if word in ("void", "none"):
            base = none
        if base is None:
            names = scalar_names() + list(self.variables)
            found = repr(word) if word else (repr(self.text[start]) if start < len(self.text) else "the end")
            raise self._error(start, found, f"a type: {', '.join(names)}", nearest=(word, names))
        if isinstance(base, NoneType):
            raise self._error(start, repr(word), "an argument type; a kernel without arguments is 'void()'")
        if self._peek() != "[":
            if readonly:
                raise self._error(start, f"'const {word}'", "an array type after 'const', such as 'const float32[::1]'")
            return base
        if not isinstance(base, Scalar):
            raise self._error(self.at, "'['", f"no dimensions: {base.name} is not a scalar type")
        return self._array(base, readonly)

    def _array(self, dtype: Scalar, readonly: bool) -> Array:
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
        return array.with_(readonly=True) if readonly else array

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
        return Tuple(elements)

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
