# SPDX-License-Identifier: Apache-2.0
"""What the experiments share: checks that print as they run, child processes, scratch environments."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import time
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = [
    "CHECKOUT", "SAMPLE", "Report", "build_wheel", "clean_environment", "copy_sample", "make_environment", "run",
    "site_packages", "unpack",
]  # fmt: skip

CHECKOUT = Path(__file__).resolve().parent.parent.parent
SAMPLE = CHECKOUT / "sample_project"


class Report:
    """Prints one line per check; ``status()`` is the exit status."""

    def __init__(self, title: str) -> None:
        self.failed = 0
        self.passed = 0
        self.start = time.perf_counter()
        print(f"== {title}", flush=True)

    def check(self, name: str, holds: bool, detail: object = "") -> bool:
        """One claim: printed with ``detail``, counted."""
        self.passed += holds
        self.failed += not holds
        print(f"{'ok    ' if holds else 'FAILED'} {name}{f': {detail}' if detail != '' else ''}", flush=True)
        return holds

    def note(self, text: str) -> None:
        print(f"       {text}", flush=True)

    def status(self) -> int:
        seconds = time.perf_counter() - self.start
        print(f"{self.passed} passed, {self.failed} failed in {seconds:.1f} s", flush=True)
        return 1 if self.failed or not self.passed else 0


def clean_environment(**changes: str) -> dict[str, str]:
    """This process's environment without settings of ours, module paths or Python options, with ``changes``."""
    # PYTHONDONTWRITEBYTECODE too: figures are of installed packages, which have their bytecode.
    ours = ("CUDABUILD_", "PYTHONPATH", "PYTHONHOME", "PYTHONDONTWRITEBYTECODE", "PIP_TARGET")
    return {**{key: value for key, value in os.environ.items() if not key.startswith(ours)}, **changes}


def run(
    command: Iterable[str | Path], environment: Mapping[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs a child process to its end and keeps its output; a failure is the caller's to judge."""
    return subprocess.run(
        [str(part) for part in command],
        env=dict(environment) if environment is not None else clean_environment(),
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )


def build_wheel(project: Path, output: Path, environment: Mapping[str, str], kind: str = "wheel") -> Path:
    """Builds ``project`` with what this interpreter has installed (cudabuild's plug-in included); the file's path."""
    output.mkdir(parents=True, exist_ok=True)
    known = set(output.iterdir())
    command = [sys.executable, "-m", "build", f"--{kind}", "--no-isolation", "--skip-dependency-check"]
    command += ["--outdir", output, project]
    done = run(command, environment)
    if done.returncode:
        raise RuntimeError(f"building {project.name} failed:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    (made,) = set(output.iterdir()) - known
    return made


def copy_sample(target: Path) -> Path:
    """A copy of the sample's sources: a build leaves files beside them."""
    ignore = shutil.ignore_patterns("__pycache__", "*.egg-info", "_cudabuild", ".work", "build", "run.py")
    return Path(shutil.copytree(SAMPLE, target, ignore=ignore))


def make_environment(folder: Path, *wheels: Path) -> Path:
    """A virtual environment without pip that holds the unpacked wheels; its interpreter."""
    run([sys.executable, "-m", "venv", "--without-pip", folder])
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    for wheel in wheels:
        unpack(wheel, site_packages(folder))
    return python


def site_packages(folder: Path) -> Path:
    return Path(sysconfig.get_path("purelib", "venv", {"base": str(folder), "platbase": str(folder)}))


def unpack(wheel: Path, target: Path) -> None:
    """Puts what a wheel (or a folder of an unpacked one) holds into ``target``, as an installer would."""
    target.mkdir(parents=True, exist_ok=True)
    if wheel.is_dir():
        shutil.copytree(wheel, target, dirs_exist_ok=True)
        return
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(target)
    for part in target.glob("*.data"):
        for scheme in ("purelib", "platlib"):
            if (part / scheme).is_dir():
                shutil.copytree(part / scheme, target, dirs_exist_ok=True)
