# SPDX-License-Identifier: Apache-2.0
"""Runs a command, and writes the types that its kernels are launched with into a signature file.

Every process that the command starts records into the same file. What stands in the file stays.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from typing import Any

from cudabuild import config, importer
from cudabuild.cli.output import add_json_argument, print_json
from cudabuild.errors import SettingError
from cudabuild.recording.merge import merge_parts
from cudabuild.recording.parts import part_texts
from cudabuild.recording.read import read_signatures

__all__ = ["DEFAULT_FILE", "add_arguments", "run"]

#: Where nothing else is said.
DEFAULT_FILE = "cudabuild-signatures.toml"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.add_argument(
        "--out",
        "-o",
        metavar="FILE",
        default=DEFAULT_FILE,
        help="the signature file (default: %(default)s); it is added to",
    )
    add_json_argument(parser)
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND …", help="such as: pytest -x")


def run(options: argparse.Namespace) -> int:
    """Runs the command; returns its exit status, or 1 where what it recorded could not be written."""
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not command:
        raise SettingError(
            "no command to record\n  expected: cudabuild record [--out FILE] -- COMMAND …\n"
            "  do:       cudabuild record -- pytest"
        )
    path = os.path.abspath(options.out)
    if os.path.isdir(path):
        raise SettingError(f"bad --out\n  found:    {path}, a folder\n  expected: a file")
    before = _count(path)  # raises where the file is wrong: told before anything runs
    try:
        status = subprocess.run(
            command,
            env=config.changed_environment({"CUDABUILD_RECORD": path, **_startup()}),
            check=False,
            stdout=sys.stderr if options.json else None,
        ).returncode
    except OSError as error:
        raise SettingError(f"{command[0]} cannot be started: {error.strerror or error}") from None
    merged = merge_parts(path)
    after = _count(path)
    kernels, overloads = (now - then for now, then in zip(after, before, strict=True))
    if options.json:
        print_json("record", _json_of_record(path, after, (kernels, overloads), status, merged))
    print(f"{options.out}: {_plural(kernels, 'kernel')} and {_plural(overloads, 'signature')} new", file=sys.stderr)
    if not merged:
        return status or 1
    return status if status >= 0 else 128 - status  # as a shell tells a signal


def _startup() -> dict[str, str]:
    """What has cudabuild imported first where packages are to be adopted: a program for numba does not do that."""
    if not config.get("adopt"):
        return {}
    folder = os.path.join(os.path.dirname(importer.__file__), "startup")
    return {"PYTHONPATH": os.pathsep.join(filter(None, (folder, config.environment("PYTHONPATH"))))}


def _count(path: str) -> tuple[int, int]:
    """How many kernels and signatures a file holds."""
    if not os.path.exists(path) and not part_texts(path):
        return 0, 0
    kernels = read_signatures(path)
    return len(kernels), sum(len(kernel.signatures) for kernel in kernels)


def _json_of_record(
    path: str, after: tuple[int, int], new: tuple[int, int], status: int, merged: bool
) -> dict[str, Any]:
    return {
        "file": path,
        "kernels": after[0],
        "signatures": after[1],
        "new_kernels": new[0],
        "new_signatures": new[1],
        "status": status,
        "written": merged,
    }


def _plural(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
