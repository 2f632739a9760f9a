# SPDX-License-Identifier: Apache-2.0
"""The index beside a package's archives: what a person asks, as JSON.

The launch path does not read it. What it may hold is :data:`SCHEMA`; reading and writing check against it.
"""

from __future__ import annotations

import contextlib
import json
import os

from cudabuild.errors import ImageFormatError
from cudabuild.image.image import LAUNCH_ABI
from cudabuild.image.left import KINDS
from cudabuild.target import find_target, minimum_driver

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from cudabuild.image.image import KernelImage
    from cudabuild.image.left import LeftToJit

__all__ = [
    "INDEX_NAME", "SCHEMA", "build_index", "check_index", "format_index", "parse_index", "read_index", "write_index",
]  # fmt: skip

INDEX_NAME = "index.json"

_TEXTS = {"type": "object", "additionalProperties": {"type": "string"}}

#: A subset of JSON Schema: type, required, properties, additionalProperties, items, enum.
SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["schema", "package", "launch_abi", "targets", "kernels", "left_to_jit"],
    "additionalProperties": False,
    "properties": {
        "schema": {"enum": [1]},
        "package": {"type": "string"},
        "launch_abi": {"type": "integer"},
        "targets": {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "required": ["file", "images", "bytes", "minimum_driver", "toolchain"],
                "additionalProperties": False,
                "properties": {
                    "file": {"type": "string"},
                    "images": {"type": "integer"},
                    "bytes": {"type": "integer"},
                    "minimum_driver": {"type": "integer"},
                    "toolchain": _TEXTS,
                },
            },
        },
        "kernels": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["module", "qualname", "signature", "fingerprint", "options", "free_values", "images"],
                "additionalProperties": False,
                "properties": {
                    "module": {"type": "string"},
                    "qualname": {"type": "string"},
                    "signature": {"type": "string"},
                    "fingerprint": {"type": "string"},
                    "options": {"type": "object"},
                    "free_values": _TEXTS,
                    "images": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "required": ["target", "kind", "index_width", "symbol", "bytes", "attributes"],
                            "additionalProperties": False,
                            "properties": {
                                "target": {"type": "string"},
                                "kind": {"enum": ["cubin", "ptx", "object"]},
                                "index_width": {"enum": [32, 64]},
                                "symbol": {"type": "string"},
                                "bytes": {"type": "integer"},
                                "attributes": {"type": "object"},
                            },
                        },
                    },
                },
            },
        },
        "left_to_jit": {
            "type": "array",
            "items": {
                "type": "object",
                "required": [
                    "module",
                    "qualname",
                    "kind",
                    "file",
                    "line",
                    "statement",
                    "name",
                    "reason",
                    "remedies",
                ],
                "additionalProperties": False,
                "properties": {
                    "module": {"type": "string"},
                    "qualname": {"type": "string"},
                    "kind": {"enum": sorted(KINDS)},
                    "file": {"type": "string"},
                    "line": {"type": "integer"},
                    "statement": {"type": "string"},
                    "name": {"type": "string"},
                    "reason": {"type": "string"},
                    "remedies": {"type": "array", "items": {"type": "string"}},
                },
            },
        },
    },
}


def build_index(
    package: str,
    images: Iterable[KernelImage],
    sizes: Mapping[str, int],
    left_to_jit: Iterable[LeftToJit] = (),
) -> dict[str, Any]:
    """The index of a package's archives.

    Args:
        package: the package's dotted name.
        images: the images of all its archives.
        sizes: target -> size of its archive in bytes.
        left_to_jit: every kernel without images.
    """
    kernels: dict[tuple[str, str, str, str, str], dict[str, Any]] = {}
    targets: dict[str, dict[str, Any]] = {}
    for image in sorted(images, key=_order):
        target = targets.setdefault(
            image.target,
            {
                "file": f"{image.target}.cuar",
                "images": 0,
                "bytes": sizes.get(image.target, 0),
                "minimum_driver": 0,
                "toolchain": image.toolchain,
            },
        )
        target["images"] += 1
        target["minimum_driver"] = max(target["minimum_driver"], _minimum_driver(image))
        options = {name: _plain(value) for name, value in sorted(image.options.items())}
        key = (image.module, image.qualname, image.signature, image.fingerprint.hex(), repr(options))
        kernel = kernels.setdefault(key, _kernel_entry(image, options))
        kernel["images"].append(
            {
                "target": image.target,
                "kind": image.kind,
                "index_width": image.index_width,
                "symbol": image.symbol,
                "bytes": len(image.data),
                "attributes": {name: _plain(value) for name, value in sorted(image.attributes.items())},
            }
        )
    index = {
        "schema": 1,
        "package": package,
        "launch_abi": LAUNCH_ABI,
        "targets": targets,
        "kernels": [kernels[key] for key in sorted(kernels)],
        "left_to_jit": [left.as_entry() for left in sorted(left_to_jit, key=lambda left: (left.module, left.qualname))],
    }
    check_index(index)
    return index


def _kernel_entry(image: KernelImage, options: dict[str, Any]) -> dict[str, Any]:
    free = {label: text for label, text in image.parts if not label.rpartition("/")[2].startswith("(")}
    return {
        "module": image.module,
        "qualname": image.qualname,
        "signature": image.signature,
        "fingerprint": image.fingerprint.hex(),
        "options": options,
        "free_values": free,
        "images": [],
    }


def _order(image: KernelImage) -> tuple[Any, ...]:
    target = find_target(image.target)
    rank = (target.is_ptx, target.cc, target.suffix) if target else (False, (0, 0), image.target)
    return (rank, image.module, image.qualname, image.signature, repr(sorted(image.options.items())), image.index_width)


def _minimum_driver(image: KernelImage) -> int:
    recorded = image.attributes.get("minimum_driver")
    if recorded is not None:
        return int(recorded)
    target = find_target(image.target)
    return minimum_driver(target) if target else 0


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def format_index(index: Mapping[str, Any]) -> str:
    """The index as text: the same index gives the same text."""
    return json.dumps(index, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def write_index(path: str | os.PathLike[str], index: Mapping[str, Any]) -> None:
    """Writes an index file in one step.

    Raises:
        ImageFormatError: the index does not keep to the schema.
        OSError: the file cannot be written; nothing is left behind.
    """
    check_index(index)
    path = os.fspath(path)
    temporary = f"{path}.{os.getpid()}.{os.urandom(4).hex()}.tmp"
    try:
        with open(temporary, "w", encoding="utf-8", newline="\n") as stream:
            stream.write(format_index(index))
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):  # it was never made, or is gone: the first error is the one to tell
            os.unlink(temporary)
        raise


def read_index(path: str | os.PathLike[str]) -> dict[str, Any]:
    """An index file's contents, checked against the schema.

    Raises:
        ImageFormatError: it is no index of this schema.
        OSError: it cannot be read.
    """
    path = os.fspath(path)
    with open(path, "rb") as stream:
        return parse_index(stream.read(), path)


def parse_index(data: bytes, where: str) -> dict[str, Any]:
    """The contents of an index file that was read from ``where``, checked against the schema.

    Raises:
        ImageFormatError: it is no index of this schema.
    """
    try:
        index: dict[str, Any] = json.loads(data)
        check_index(index)
        if b"\\u" in data:  # halves of a wide character, which nobody could print
            json.dumps(index, ensure_ascii=False).encode()
    except (ValueError, RecursionError, ImageFormatError) as error:
        raise ImageFormatError(f"{where}: no index of this version: {error}") from None
    return index


def check_index(index: object) -> None:
    """Compares an index to :data:`SCHEMA`.

    Raises:
        ImageFormatError: names the place that differs.
    """
    _check(index, SCHEMA, "index")


_TYPES: dict[str, type | tuple[type, ...]] = {"object": dict, "array": list, "string": str, "integer": int}


def _check(value: Any, schema: Mapping[str, Any], place: str) -> None:
    if "enum" in schema and not any(value == item and type(value) is type(item) for item in schema["enum"]):
        raise ImageFormatError(f"{place} is {value!r}, expected one of {schema['enum']}")
    kind = schema.get("type")
    if kind is not None and (not isinstance(value, _TYPES[kind]) or (kind == "integer" and isinstance(value, bool))):
        raise ImageFormatError(f"{place} is a {type(value).__name__}, expected {kind}")
    if kind == "array":
        for number, item in enumerate(value):
            _check(item, schema["items"], f"{place}[{number}]")
    elif kind == "object":
        _check_object(value, schema, place)


def _check_object(value: Mapping[str, Any], schema: Mapping[str, Any], place: str) -> None:
    required: Sequence[str] = schema.get("required", ())
    missing = [key for key in required if key not in value]
    if missing:
        raise ImageFormatError(f"{place} lacks {', '.join(missing)}")
    properties = schema.get("properties", {})
    others = schema.get("additionalProperties", True)
    for key, item in value.items():
        if key in properties:
            _check(item, properties[key], f"{place}.{key}")
        elif others is False:
            raise ImageFormatError(f"{place} has an unknown field {key}")
        elif isinstance(others, dict):
            _check(item, others, f"{place}.{key}")
