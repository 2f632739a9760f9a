# SPDX-License-Identifier: Apache-2.0
"""Programs kept in files: their two texts and arguments, whatever the generator makes of their seed later."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from program_tree import ArraySpec, Program

__all__ = ["KeptProgram", "load_program", "save_program"]


@dataclass
class KeptProgram:
    """What a ``Judge`` asks of a program."""

    why: str
    seed: int
    literals: str
    wild: bool
    grid: tuple[int, int]
    block: tuple[int, int]
    threads: int
    scalars: list[tuple[str, str]]
    arrays: list[ArraySpec]
    python_differs: bool
    kernel_text: list[str]
    oracle_text: list[str]

    @property
    def signature(self) -> str:
        return ", ".join([*(array.type for array in self.arrays), *(kind for _, kind in self.scalars)])

    def source(self) -> str:
        return "\n".join(self.kernel_text)

    def meaning(self) -> str:
        return "\n".join(self.oracle_text)


def save_program(program: Program, why: str, path: Path) -> None:
    """Writes ``program`` to a file; ``why`` says what it showed."""
    kept = KeptProgram(
        why, program.seed, program.literals, program.wild, program.grid, program.block, program.threads,
        program.scalars, program.arrays, program.python_differs, program.source().split("\n"),
        program.meaning().split("\n"),
    )  # fmt: skip
    path.write_text(json.dumps(asdict(kept), indent=1) + "\n", encoding="utf-8")


def load_program(path: Path) -> KeptProgram:
    """The program of a file."""
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    content["arrays"] = [ArraySpec(**{**array, "shape": tuple(array["shape"])}) for array in content["arrays"]]
    for name in ("grid", "block"):
        content[name] = tuple(content[name])
    content["scalars"] = [(name, kind) for name, kind in content["scalars"]]
    return KeptProgram(**content)
