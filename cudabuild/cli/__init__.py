# SPDX-License-Identifier: Apache-2.0
"""The command line: a table of commands, and one module per command, imported when the command is used.

A command's module has ``add_arguments(parser)`` and ``run(options) -> int``; its docstring's first line is its help.
"""

from __future__ import annotations

__all__ = ["COMMANDS"]

#: Command -> what it does, in the order in which help names them. The command ``list`` is the module ``list``.
COMMANDS: dict[str, str] = {
    "build": "compile a project's kernels into archives beside its modules, into a folder, or into a finished wheel",
    "list": "the kernels of a project, and what would be built of them; or the kernels that a package or wheel ships",
    "inspect": "everything that is recorded with each image of a package or wheel",
    "check": "whether archives match their sources; for CI",
    "doctor": "tools, versions, driver, devices and settings of this machine, and what a package's kernels would load",
    "record": "run a program, and write down the types that its kernels are called with",
    "cache": "where compiled kernels are kept; what is there; verify, prune or clear it",
    "warm": "compile an installed package's kernels into the user cache",
}
