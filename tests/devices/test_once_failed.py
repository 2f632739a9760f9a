# SPDX-License-Identifier: Apache-2.0
"""Random programs, reduced, that once failed or found a planted miscompilation; ``once_failed/README.md`` says how they
came there."""

from __future__ import annotations

from pathlib import Path

import pytest
from launching import Run
from program_kept import load_program
from program_runs import Judge

FILES = sorted((Path(__file__).resolve().parent / "once_failed").glob("*.json"))
CONFIGURATIONS = {"cpu": ["cpu", "cpu-unchecked", "python"], "gpu32": ["gpu32"], "gpu64": ["gpu64"]}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_as_the_oracle_says(run: Run, file: Path) -> None:
    program = load_program(file)
    verdict = Judge(CONFIGURATIONS[run.kind], {run.kind: run}).judge(program)
    assert not verdict.failures, f"{program.why}: {verdict.failures}\n{program.source()}"


def test_there_are_some() -> None:
    assert len(FILES) >= 3
