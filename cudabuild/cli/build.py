# SPDX-License-Identifier: Apache-2.0
"""Compiles the CUDA kernels of a project: the build step by itself, for CI, in-place builds and other build systems."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any

from cudabuild.errors import ToolError

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.add_argument("project", nargs="?", default=".", help="the folder of pyproject.toml")
    place = parser.add_mutually_exclusive_group()
    place.add_argument("--inplace", action="store_true", help="write beside the modules (the default)")
    place.add_argument("--out", metavar="DIR", help="write below DIR, laid out as in a wheel")
    parser.add_argument("--archs", help="targets, such as '80 90a 120+PTX'")
    parser.add_argument("--ptx", help="PTX besides: lowest, newest, none, or architectures")
    parser.add_argument("--index", help="index widths: both, 32 or 64")
    parser.add_argument("--jobs", "-j", help="how many processes compile")
    parser.add_argument("--strict", action="store_true", help="a kernel that is left to JIT is an error")


def run(arguments: argparse.Namespace) -> int:
    """Builds; returns the exit status."""
    try:
        from setuptools.errors import BaseError
    except ImportError:
        raise ToolError("building needs setuptools, which is not installed: pip install 'cudabuild[build]'") from None
    out = os.path.abspath(arguments.out) if arguments.out else None
    with _change_folder(arguments.project):
        try:
            command = _make_command()
            command.inplace = out is None
            command.build_lib = out
            for name in ("archs", "ptx", "index", "jobs", "strict"):
                if getattr(arguments, name):  # else what setup.cfg says stays
                    setattr(command, name, getattr(arguments, name))
            command.ensure_finalized()
            command.announce = lambda text, level=0: sys.stdout.write(f"{text}\n")
            command.run()
        except BaseError as error:
            sys.stderr.write(f"error: {error}\n")
            return 1
    return 0


def _make_command() -> Any:
    """``build_cuda`` of the project in the current folder, whether or not it asks for cudabuild in its build."""
    from setuptools import Distribution
    from setuptools._distutils.core import run_setup

    from cudabuild.build.command import build_cuda

    if os.path.exists("setup.py"):
        distribution = run_setup("setup.py", script_args=["build_cuda"], stop_after="config")
    else:
        distribution = Distribution({"script_name": "setup.py"})
        distribution.parse_config_files()
    distribution.set_defaults()
    distribution.cmdclass["build_cuda"] = build_cuda
    return distribution.get_command_obj("build_cuda")


@contextlib.contextmanager
def _change_folder(path: str) -> Iterator[None]:
    before = os.getcwd()
    os.chdir(path)
    try:
        yield
    finally:
        os.chdir(before)
