# SPDX-License-Identifier: Apache-2.0
"""Kernels in the wild: two small projects on the CPU device, and what the comparison makes of differences."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import judge
import line_coverage
import makers
import numpy as np
import projects
import pytest

WILD = Path(__file__).resolve().parent / "wild"


def test_two_projects() -> None:
    command = [sys.executable, str(WILD / "run.py"), "--project", "skopi,sgkit", "--targets", "sm_90", "--widths", "32"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    if done.returncode == 3:
        pytest.skip(f"no package index: {done.stdout.strip()}")
    assert done.returncode == 0, f"{done.stdout[-6000:]}\n{done.stderr[-3000:]}"
    assert done.stdout.count("100%, 100.0%") == 5  # two projects, shown as they end and in the table, and both together


def test_every_case_has_arguments() -> None:
    found = projects.load_projects()
    assert len(found) == 12
    for project in found.values():
        for kernel in project.kernels:
            assert len(kernel.launches) > 0
            names = {
                name: np.zeros(1, "i4")
                for name in ("_LEN_BASE", "_LEN_EXTRA", "_DIST_BASE", "_DIST_EXTRA", "_CL_ORDER")
            }
            for launch in kernel.launches:
                one, configuration = makers.evaluate(launch, kernel.id, names)
                other, _ = makers.evaluate(launch, kernel.id, names)
                assert all(
                    np.array_equal(a, b)
                    for a, b in zip(one, other, strict=True)
                    if isinstance(a, np.ndarray) and a.dtype.kind in "iub"
                )
                assert len(configuration) in (0, 2, 4)


def test_differences() -> None:
    a = np.array([1, np.nan, np.inf], "f4")
    assert judge.difference(a, a.copy()) == 0
    assert judge.difference(a, np.array([1.5, np.nan, np.inf], "f4")) == pytest.approx(1 / 3)
    assert judge.difference(a, np.array([1, 2, np.inf], "f4")) == np.inf
    assert judge.difference(a, np.array([1, np.nan, -np.inf], "f4")) == np.inf
    assert judge.difference(np.array([1, 2]), np.array([1, 3])) == np.inf
    assert judge.difference(np.array([1j]), np.array([1j, 2j])) == np.inf


def counted(x):
    """Of five statements four run."""
    if x > 2:
        y = 1
    else:
        y = 2
    return y


def test_lines_that_run() -> None:
    with line_coverage.Coverage(__file__) as coverage:
        counted(1)
    count, missed = coverage.missed(counted)
    assert count == 4
    assert len(missed) == 1


def test_a_kernel_that_is_not_run_is_told(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text(
        "@cuda.jit\ndef a(x): pass\n@cuda.jit(device=True)\ndef b(x): pass\ndef c():\n @cuda.jit\n def d(x): pass\n"
    )
    project = projects.Project("none", "1", ("one.py",), ())
    assert judge.survey(project, tmp_path) == ({"one.py:a"}, {"one.py:c.d"})
