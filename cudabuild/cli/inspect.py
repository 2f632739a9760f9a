# SPDX-License-Identifier: Apache-2.0
"""Everything that is recorded with each image."""

from __future__ import annotations

import argparse

from cudabuild.importer.listing import find_archives, format_details

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.add_argument(
        "what", metavar="PACKAGE", help="an archive, a folder, or the name of a package (which is not imported)"
    )
    parser.add_argument("kernel", nargs="?", default="", help="only kernels whose name holds this text")


def run(options: argparse.Namespace) -> int:
    """Prints a block per image."""
    print(format_details(find_archives(options.what), options.kernel))
    return 0
