# SPDX-License-Identifier: Apache-2.0
"""``python -m cudabuild`` and ``cudabuild``: argument parsing and dispatch; the commands are in ``cli/``."""

from __future__ import annotations

import argparse
import importlib
import os
import sys

from cudabuild.cli import COMMANDS
from cudabuild.errors import CudabuildError, nearest_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit status: 0, 1 for an error or a failed check, 2 for wrong usage."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    program = _program_name()
    if not given or given[0].startswith("-"):
        given = [_top_parser(program).parse_args(given).command]
    command, *rest = given
    if command not in COMMANDS:
        near = nearest_name(command, COMMANDS)
        hint = f"; did you mean {near!r}?" if near else ""
        _top_parser(program).error(f"no command {command!r}{hint} (there are {', '.join(COMMANDS)})")
    module = importlib.import_module(f"cudabuild.cli.{command}")
    parser = argparse.ArgumentParser(prog=f"{program} {command}", description=module.__doc__, allow_abbrev=False)
    module.add_arguments(parser)
    try:
        return int(module.run(parser.parse_args(rest)))
    except BrokenPipeError:  # | head: whoever reads has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # else Python complains when it flushes at exit
        return 1
    except (CudabuildError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130  # as a shell tells an end by Ctrl-C


def _program_name() -> str:
    name = os.path.basename(sys.argv[0]) if sys.argv else ""
    return "cudabuild" if name in ("cudabuild", "cudabuild.exe") else "python -m cudabuild"


def _top_parser(program: str) -> argparse.ArgumentParser:
    from cudabuild import __version__

    width = max(map(len, COMMANDS)) + 2
    lines = "\n".join(f"  {name:<{width}}{COMMANDS[name]}" for name in COMMANDS)
    parser = argparse.ArgumentParser(
        prog=program,
        usage=f"{program} COMMAND ...",
        description="CUDA kernels in Python as a normal build artefact.",
        epilog=f"commands:\n{lines}\n\n'{program} COMMAND --help' says more of each.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"cudabuild {__version__}")
    parser.add_argument("command", metavar="COMMAND", help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main())
