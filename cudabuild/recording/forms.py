# SPDX-License-Identifier: Apache-2.0
"""How captured values are spelled in a signature file: numbers, texts, and ``{ tag = …, … }`` for all else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["FORMS", "find_form_error", "find_unknown", "form_tag", "nested_forms"]

#: Tag -> the keys that may stand beside it. The tag is the key that says what kind of value it is.
FORMS: Mapping[str, tuple[str, ...]] = {
    "object": (),  # "module:qualname": what that name stands for
    "module": (),  # a module, by its name
    "function": (
        "line",
        "code",
        "captured",
        "defaults",
        "decorator",
        "options",
        "spec",
        "variables",
    ),  # made inside another
    "same": (),  # the function that stands at "inner.v" in this record, for it is one object
    "type": (),  # one of cudabuild's types, as in a signature
    "prototype": (),  # a signature with its result, "float32(float32)"
    "dtype": (),  # NumPy's dtype: its code, or a record's members
    "scalar": ("value", "bytes"),  # a NumPy number: its dtype
    "array": ("shape", "order", "values", "bytes", "file", "digest"),  # its dtype; elements in C order
    "complex": (),  # [real, imaginary]
    "integer": (),  # beyond 64 bits, in hexadecimal
    "bytes": (),  # in hexadecimal
    "none": (),  # true
    "ellipsis": (),  # true
    "tuple": (),
    "set": (),
    "frozenset": (),
    "dict": (),  # pairs [key, value]
    "named_tuple": ("values",),  # "module:qualname" of its class
    "partial": ("args", "keywords"),  # of a function
    "attributes": (),  # an object of which only these attributes are used
    "unknown": (),  # what cannot be written: why
}

#: What the tag itself holds: a text, unless it says otherwise here.
_LISTS = frozenset({"tuple", "set", "frozenset", "dict", "complex"})
_FLAGS = frozenset({"none", "ellipsis"})
_ANY = frozenset({"scalar", "dtype", "partial", "array"})


def form_tag(value: Any) -> str:
    """The tag of a value that is spelled as a table; "" for what is none."""
    return next((tag for tag in FORMS if tag in value), "") if isinstance(value, dict) else ""


def find_form_error(value: Any) -> tuple[str, str] | None:
    """What was found and what was expected, where ``value`` is no value of a signature file; None where it is one."""
    if isinstance(value, bool | int | float | str):
        return None
    if isinstance(value, list):
        return next((wrong for wrong in map(find_form_error, value) if wrong is not None), None)
    tag = form_tag(value)
    if not tag:
        return repr(value), f"a number, a text, a list, or a table with one of {', '.join(FORMS)}"
    extra = sorted(set(value) - {tag, *FORMS[tag]})
    if extra:
        return f"{extra[0]} beside {tag}", f"only {', '.join(FORMS[tag]) or 'the tag itself'}"
    found = value[tag]
    if tag in _LISTS:
        right, expected = isinstance(found, list), "a list"
    elif tag in _FLAGS:
        right, expected = found is True, "true"
    elif tag == "attributes":
        right, expected = isinstance(found, dict), "a table"
    else:
        right, expected = tag in _ANY or isinstance(found, str), "a text"
    if tag == "dict":
        right, expected = right and all(isinstance(p, list) and len(p) == 2 for p in found), "a list of pairs"
    if tag == "complex":
        right, expected = right and len(found) == 2, "the real and the imaginary part"
    if tag in ("object", "function", "named_tuple"):
        right, expected = right and ":" in found, "module:qualname"
    if not right:
        return f"{tag} = {found!r}", expected
    return next((wrong for wrong in map(find_form_error, nested_forms(value)) if wrong is not None), None)


def nested_forms(value: Any) -> list[Any]:
    """The values that a value holds, one level down."""
    if isinstance(value, list):
        return value
    tag = form_tag(value)
    if tag in ("tuple", "set", "frozenset"):
        return list(value[tag])
    if tag == "dict":
        return [part for pair in value[tag] for part in pair]
    if tag == "named_tuple":
        return list(value.get("values", []))
    if tag == "attributes":
        return list(value[tag].values())
    if tag == "partial":
        return [value[tag], *value.get("args", []), *value.get("keywords", {}).values()]
    if tag == "function":
        inner = [value[key] for key in ("spec", "variables") if key in value]
        return [*value.get("captured", {}).values(), *value.get("defaults", {}).values(), *inner]
    return []


def find_unknown(value: Any) -> str:
    """Why a value cannot be made again, or ""."""
    if form_tag(value) == "unknown":
        return str(value["unknown"])
    return next((why for why in map(find_unknown, nested_forms(value)) if why), "")
