# SPDX-License-Identifier: Apache-2.0
"""Every experiment holds in its quick form."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXPERIMENTS = Path(__file__).resolve().parent / "experiments"
NAMES = (
    "adopted_packages",
    "big_arrays",
    "big_build",
    "binding_cost",
    "build_matrix",
    "concurrent_misses",
    "device_agreement",
    "edited_copy",
    "identity",
    "import_cost",
    "injected_faults",
    "killed_writers",
    "known_faults",
    "language_table",
    "mutated_archives",
    "no_llvmlite",
    "planted_faults",
    "random_programs",
    "recorded_package",
    "site_cache",
    "slice_corpus",
    "wheel_contents",
)


@pytest.mark.parametrize("name", NAMES)
def test_quick(name: str) -> None:
    command = [sys.executable, str(EXPERIMENTS / f"{name}.py"), "--quick"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, f"{done.stdout[-6000:]}\n{done.stderr[-3000:]}"


def test_every_experiment_is_listed() -> None:
    scripts = {path.stem for path in EXPERIMENTS.glob("*.py") if "def main() -> int" in path.read_text("utf-8")}
    assert scripts == set(NAMES)
    described = (EXPERIMENTS / "README.md").read_text("utf-8")
    assert all(f"`{name}.py`" in described for name in NAMES)
