# SPDX-License-Identifier: Apache-2.0
"""What commands print: JSON that keeps to a published schema, and tables for people."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cudabuild.build.settings import BuildSettings, describe_settings
from cudabuild.image.image import KernelImage

if TYPE_CHECKING:
    from cudabuild.build.job import Outcome

__all__ = [
    "add_json_argument",
    "count",
    "format_rows",
    "json_of_image",
    "json_of_outcome",
    "json_of_settings",
    "load_schema",
    "plain",
    "print_json",
    "schema_names",
]

_SCHEMAS = os.path.join(os.path.dirname(__file__), "schemas")


def add_json_argument(parser: argparse.ArgumentParser) -> None:
    """Declares ``--json``, and ``--schema``, which prints what ``--json`` keeps to."""
    parser.add_argument("--json", action="store_true", help="print JSON, for programs")
    command = (parser.prog or "").split()[-1]
    parser.add_argument(
        "--schema", action=_PrintSchema, nargs=0, const=command, help="print the JSON Schema of --json, and end"
    )


class _PrintSchema(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object, **__: object) -> None:
        json.dump(load_schema(str(self.const)), sys.stdout, indent=1)
        sys.stdout.write("\n")
        parser.exit()


def schema_names() -> list[str]:
    """The commands that have a schema."""
    return sorted(name.removesuffix(".json") for name in os.listdir(_SCHEMAS) if name.endswith(".json"))


def load_schema(command: str) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of what a command prints with ``--json``."""
    with open(os.path.join(_SCHEMAS, f"{command}.json"), encoding="utf-8") as stream:
        schema: dict[str, Any] = json.load(stream)
    return schema


def print_json(command: str, values: Mapping[str, Any]) -> None:
    """Prints one JSON document: which command it is of, the schema's version, and its values."""
    json.dump({"command": command, "schema": 1, **values}, sys.stdout, indent=1, ensure_ascii=True, allow_nan=False)
    sys.stdout.write("\n")
    sys.stdout.flush()


def format_rows(rows: Sequence[Sequence[str]], *, indent: str = "", right: Sequence[int] = ()) -> list[str]:
    """A table's rows as lines, the columns aligned.

    Args:
        rows: texts; shorter rows leave their last columns empty.
        indent: what each line starts with.
        right: the columns that are aligned to the right.
    """
    columns = max(map(len, rows), default=0)
    # The last text of a row pads nothing.
    widths = [
        max((len(row[column]) for row in rows if column < len(row) - (column not in right)), default=0)
        for column in range(columns)
    ]
    lines = []
    for row in rows:
        cells = [
            text.rjust(widths[column]) if column in right else text.ljust(widths[column])
            for column, text in enumerate(row)
        ]
        lines.append((indent + "  ".join(cells)).rstrip())
    return lines


def count(number: int, noun: str) -> str:
    """``"1 kernel"``, ``"2 kernels"``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def json_of_settings(settings: BuildSettings) -> list[dict[str, str]]:
    """The settings that somebody set."""
    return [{"key": key, "value": value, "origin": origin} for key, value, origin in describe_settings(settings)]


def json_of_image(image: KernelImage) -> dict[str, Any]:
    """An image without its code."""
    return {
        "module": image.module,
        "qualname": image.qualname,
        "signature": image.signature,
        "target": image.target,
        "index_width": image.index_width,
        "kind": image.kind,
        "bytes": len(image.data),
        "options": plain(image.options),
        "attributes": plain(image.attributes),
    }


def plain(value: Any) -> Any:
    """A value of options or attributes as JSON has it: tuples are lists."""
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in sorted(value.items())}
    return [plain(one) for one in value] if isinstance(value, tuple | list) else value


def json_of_outcome(outcome: Outcome) -> dict[str, Any]:
    """A build as JSON has it; see ``schemas/build.json``."""
    result, settings = outcome.result, outcome.settings
    return {
        "ok": not result.errors,
        "targets": [target.name for target in settings.targets],
        "index_widths": list(settings.index_widths),
        "settings": json_of_settings(settings),
        "packages": [
            {"name": owner, "folder": folder, "bytes": size, "images": images}
            for owner, (folder, size, images) in sorted(outcome.written.items())
        ],
        "kernels": [
            {
                "module": kernel.module,
                "qualname": kernel.qualname,
                "variant": kernel.variant,
                "file": kernel.file,
                "line": kernel.line,
                "signatures": list(kernel.signatures),
                "left_to_jit": kernel.left.as_entry() if kernel.left else None,
            }
            for kernel in result.kernels
        ],
        "images": [json_of_image(image) for image in result.images],
        "compiled": result.compiled,
        "cached": result.cached,
        "seconds": round(outcome.seconds, 3),
        "notes": list(result.notes),
        "warnings": [f"{text}; it was not looked into" for text in result.unreadable],
        "errors": list(result.errors),
    }
