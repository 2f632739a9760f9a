# SPDX-License-Identifier: Apache-2.0
"""The command line: ``python -m cudabuild VERB``. Argument parsing only."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from cudabuild.build.cli import add_build_parser
from cudabuild.errors import CudabuildError

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one verb and returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m cudabuild", description="CUDA kernels as a build artefact.")
    verbs = parser.add_subparsers(title="verbs", required=True, metavar="VERB")
    add_build_parser(verbs)
    chosen = parser.parse_args(arguments)
    try:
        status: int = chosen.run(chosen)
    except CudabuildError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return status


if __name__ == "__main__":
    sys.exit(main())
