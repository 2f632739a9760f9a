# SPDX-License-Identifier: Apache-2.0
"""``python -m cudabuild``: the command line."""

from __future__ import annotations

import argparse
import sys

from cudabuild.build.cli import add_build_parser
from cudabuild.errors import CudabuildError
from cudabuild.importer.listing import find_archives, format_details, format_table

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> int:
    """Runs one verb; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m cudabuild", description="CUDA kernels as a normal build artefact.")
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    what = "an archive, a folder, or the name of a package (which is not imported)"
    listing = verbs.add_parser("list", help="the kernels that a package ships, and for which targets")
    listing.add_argument("what", metavar="PACKAGE", help=what)
    listing.set_defaults(run=lambda given: print(format_table(find_archives(given.what))) or 0)
    inspect = verbs.add_parser("inspect", help="everything that is recorded with each image")
    inspect.add_argument("what", metavar="PACKAGE", help=what)
    inspect.add_argument("kernel", nargs="?", default="", help="only kernels whose name holds this text")
    inspect.set_defaults(run=lambda given: print(format_details(find_archives(given.what), given.kernel)) or 0)
    add_build_parser(verbs)
    given = parser.parse_args(arguments)
    try:
        return int(given.run(given))
    except (CudabuildError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
