# SPDX-License-Identifier: Apache-2.0
"""Compiles the CUDA kernels of a project: the build step by itself, for CI, in-place builds and other build systems.

Archives go beside the modules, below a folder that is laid out like a wheel, or into a finished wheel.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

from cudabuild.cli.output import add_json_argument, json_of_outcome, print_json
from cudabuild.cli.project import add_settings_arguments, open_project, written_settings
from cudabuild.config import log

if TYPE_CHECKING:
    from cudabuild.build.job import Outcome
    from cudabuild.build.stamp import Stamp

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.usage = "%(prog)s [-h] [--inplace | --out DIR | --wheel FILE] [--json] [--SETTING …] [project]"
    parser.add_argument("project", nargs="?", default=".", help="the folder of pyproject.toml (default: this one)")
    place = parser.add_mutually_exclusive_group()
    place.add_argument("--inplace", action="store_true", help="write beside the modules (the default)")
    place.add_argument("--out", metavar="DIR", help="write below DIR, laid out as in a wheel")
    place.add_argument("--wheel", metavar="FILE", help="add the archives to a finished wheel of the project")
    tell = parser.add_mutually_exclusive_group()
    tell.add_argument("--quiet", "-q", action="store_true", help="tell nothing but errors")
    tell.add_argument("--verbose", "-v", action="store_true", help="a row for each kernel and target, however many")
    add_json_argument(parser)
    add_settings_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Builds, and says what was built."""
    stamp = None if options.json or options.wheel else _find_stamp(options)
    if stamp is not None and not stamp.changed:
        _tell([] if options.quiet else stamp.summary)
        return 0
    outcome = _build(options, stamp)
    if options.json:
        print_json("build", json_of_outcome(outcome))
        return 1 if outcome.result.errors else 0
    outcome.check()
    _tell([] if options.quiet else outcome.summary(everything=options.verbose))
    return 0


#: Arguments that change nothing of what is built; whatever else there is may.
_NO_MATTER = ("executor", "inplace", "jobs", "json", "out", "project", "quiet", "verbose")


def _find_stamp(options: argparse.Namespace) -> Stamp:
    """What the last such build depended on. Asked before setuptools is imported, which takes longer than this."""
    from cudabuild.build.stamp import Stamp

    request = {name: value for name, value in vars(options).items() if name not in _NO_MATTER}
    request["out"] = os.path.abspath(options.out) if options.out else None
    stamp = Stamp(os.path.abspath(options.project), request)
    if stamp.changed:
        log("info", f"not as in the last build: {stamp.changed}")
    return stamp


def _tell(lines: list[str]) -> None:
    for line in lines:
        sys.stdout.write(f"cudabuild: {line}\n")


def _build(options: argparse.Namespace, stamp: Stamp | None) -> Outcome:
    from cudabuild.build.job import run_job
    from cudabuild.build.wheel_build import run_in_wheel

    written = written_settings(options)
    if options.wheel:
        return run_in_wheel(options.wheel, os.path.abspath(options.project), written)
    out = os.path.abspath(options.out) if options.out else None
    with open_project(options.project, written, out) as opened:
        return run_job(
            opened.project,
            opened.settings,
            opened.command.find_place,
            in_tree=out is None,
            stamp=stamp,
            quiet=options.quiet,
        )
