# SPDX-License-Identifier: Apache-2.0
"""``sample_project/run.py`` from nothing: environment, wheels, isolated build, eight kernels; then again, at once."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

RUN = Path(__file__).resolve().parent.parent.parent / "sample_project" / "run.py"
LAST_LINE = re.compile(r"sample: 8 kernels, 8 correct, device=.+")


def run(work: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(RUN), "--work", str(work), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=dict(os.environ))


@pytest.mark.timeout(900)
def test_story(tmp_path: Path) -> None:
    work = tmp_path / "work"
    first = run(work)
    assert first.returncode == 0, first.stdout + first.stderr
    lines = first.stdout.splitlines()
    assert LAST_LINE.fullmatch(lines[-1])
    assert sum(line.endswith(" ok") for line in lines) == 9  # saxpy has two signatures
    assert [line[:5] for line in lines[:4]] == [f"[{number}/4]" for number in range(1, 5)]
    second = run(work)
    assert second.returncode == 0, second.stdout + second.stderr
    assert "environment reused" in second.stdout
    assert LAST_LINE.fullmatch(second.stdout.splitlines()[-1])
    check_offline(work)


def check_offline(work: Path) -> None:
    """The wheelhouse that the first run filled serves a second machine that reaches no index."""
    offline = run(work.parent / "elsewhere", "--offline", str(work / "wheelhouse"))
    assert offline.returncode == 0, offline.stdout + offline.stderr
    assert LAST_LINE.fullmatch(offline.stdout.splitlines()[-1])


def test_offline_without_wheels(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    done = run(tmp_path / "work", "--offline", str(empty))
    assert done.returncode == 1
    assert "no wheel in" in done.stderr
    assert "copy the wheels" in done.stderr
