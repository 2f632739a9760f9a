# SPDX-License-Identifier: Apache-2.0
"""Lists kernels: those of a project's sources, with what a build would make of them; or those that a package ships.

Nothing is compiled and no package is imported.
"""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any

from cudabuild.cli.output import add_json_argument, count, format_rows, json_of_settings, plain, print_json
from cudabuild.cli.project import add_settings_arguments, is_project, open_project, written_settings
from cudabuild.errors import CudabuildError
from cudabuild.importer.listing import Shipped, find_shipped, format_table

if TYPE_CHECKING:
    from cudabuild.build.settings import BuildSettings
    from cudabuild.build.survey import Overload, Survey

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.usage = "%(prog)s [-h] [--json] [--SETTING …] [WHAT]"
    parser.add_argument(
        "what",
        metavar="WHAT",
        nargs="?",
        default=".",
        help="a project's folder (default: this one); or an installed package, which is not imported, a wheel, an "
        "archive or a folder of archives",
    )
    add_json_argument(parser)
    add_settings_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Prints a line per kernel and signature; 1 if something in a project's sources is wrong."""
    if is_project(options.what):
        return _list_project(options)
    if options.what == "." and not any(
        name.startswith("_cudabuild") or name.endswith(".cuar") for name in os.listdir()
    ):
        raise CudabuildError(
            f"no project here\n  found:    {os.getcwd()}\n  expected: a folder with a pyproject.toml\n"
            "  do:       name a project's folder, an installed package, a wheel or an archive"
        )
    shipped = find_shipped(options.what)
    if options.json:
        print_json("list", _json_of_shipped(shipped))
    else:
        print(format_table(shipped))
    return 0


def _list_project(options: argparse.Namespace) -> int:
    from cudabuild.build.survey import survey_project

    with open_project(options.what, written_settings(options)) as opened:
        survey = survey_project(opened.project, opened.settings)
        settings = opened.settings
    if options.json:
        print_json("list", _json_of_survey(survey, settings, os.path.abspath(options.what)))
    else:
        print("\n".join(format_survey(survey, settings)))
    return 1 if survey.errors else 0


def format_survey(survey: Survey, settings: BuildSettings) -> list[str]:
    """What a build would make of a project, as lines."""
    from cudabuild.build.settings import describe_settings

    images = len(settings.targets) * len(settings.index_widths)
    widths = " and ".join(map(str, settings.index_widths))
    lines = [f"targets: {', '.join(target.name for target in settings.targets)}; index width {widths}"]
    rows = [[key, value, f"from {origin}"] for key, value, origin in describe_settings(settings)]
    lines += ["", "settings", *format_rows(rows, indent="  ")] if rows else []
    module, rows = "", []
    left = [kernel for kernel in survey.kernels if kernel.left]
    for kernel in survey.kernels:
        if not kernel.signatures:
            continue
        if kernel.module != module:
            lines += format_rows(rows, indent="  ")
            lines += ["", kernel.module]
            module, rows = kernel.module, []
        name = kernel.qualname + (f" [{kernel.variant}]" if kernel.variant else "")
        for text in kernel.signatures:
            overload = _find_overload(survey, kernel.module, kernel.qualname, text, kernel.variant)
            rows.append([f"{name}({text})", f"{kernel.file}:{kernel.line}", _spell_options(overload)])
    lines += format_rows(rows, indent="  ")
    if left:
        lines += ["", "left to JIT"]
        for kernel in left:
            assert kernel.left is not None
            lines += [f"  {line}" for line in kernel.left.explain().splitlines()]
    lines += ["", *(f"warning: {text}; it was not looked into" for text in survey.unreadable)]
    lines += [f"note: {text}" for text in survey.notes]
    lines += [f"error: {text}" for text in survey.errors]
    built = sum(bool(kernel.signatures) for kernel in survey.kernels)
    overloads = sum(len(kernel.signatures) for kernel in survey.kernels)
    lines.append(
        f"{count(built, 'kernel')} with {count(overloads, 'signature')}: {count(overloads * images, 'image')} to build"
        + (f"; {count(len(left), 'kernel')} left to JIT" if left else "")
    )
    return lines


def _find_overload(survey: Survey, module: str, qualname: str, signature: str, variant: str) -> Overload | None:
    for one in survey.overloads:
        if (one.module, one.qualname, one.signature, one.variant) == (module, qualname, signature, variant):
            return one
    return None


def _spell_options(overload: Overload | None) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in sorted(overload.options.items())) if overload else ""


def _json_of_survey(survey: Survey, settings: BuildSettings, path: str) -> dict[str, Any]:
    kernels = []
    for kernel in survey.kernels:
        overloads = []
        for text in kernel.signatures:
            overload = _find_overload(survey, kernel.module, kernel.qualname, text, kernel.variant)
            overloads.append(
                {
                    "signature": text,
                    "options": plain(overload.options) if overload else {},
                    "free_values": dict(sorted(overload.free_values.items())) if overload else {},
                }
            )
        kernels.append(
            {
                "module": kernel.module,
                "qualname": kernel.qualname,
                "variant": kernel.variant,
                "file": kernel.file,
                "line": kernel.line,
                "overloads": overloads,
                "left_to_jit": kernel.left.as_entry() if kernel.left else None,
            }
        )
    return {
        "kind": "project",
        "path": path,
        "targets": [target.name for target in settings.targets],
        "index_widths": list(settings.index_widths),
        "settings": json_of_settings(settings),
        "kernels": kernels,
        "notes": list(survey.notes),
        "warnings": [f"{text}; it was not looked into" for text in survey.unreadable],
        "errors": list(survey.errors),
    }


def _json_of_shipped(shipped: Shipped) -> dict[str, Any]:
    found: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for archive in shipped.archives:
        for record in archive.records():
            images = found.setdefault((record.module, record.qualname, record.signature), [])
            images.append({"target": archive.target, "index_width": record.index_width, "bytes": record.size})
    return {
        "kind": "shipped",
        "archives": [
            {"path": archive.name, "target": archive.target, "images": archive.count} for archive in shipped.archives
        ],
        "kernels": [
            {"module": module, "qualname": qualname, "signature": signature, "images": images}
            for (module, qualname, signature), images in sorted(found.items())
        ],
        "left_to_jit": [left.as_entry() for left in shipped.left],
    }
