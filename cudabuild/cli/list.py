# SPDX-License-Identifier: Apache-2.0
"""The kernels that a package ships, and for which targets."""

from __future__ import annotations

import argparse

from cudabuild.importer.listing import find_archives, format_table

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.add_argument(
        "what", metavar="PACKAGE", help="an archive, a folder, or the name of a package (which is not imported)"
    )


def run(options: argparse.Namespace) -> int:
    """Prints one line per kernel and signature."""
    print(format_table(find_archives(options.what)))
    return 0
