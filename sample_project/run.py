#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The shortest true story: from a fresh checkout to eight kernels that ran.

Makes a virtual environment and a wheelhouse, builds cudabuild's wheel, installs the sample from its source with build
isolation (its kernels are compiled there), runs every kernel on the GPU, or on the CPU device where there is none, and
compares with NumPy. Needs only Python >= 3.10 and pip. A second run reuses the environment while the sources are the
same.

    python3 sample_project/run.py                  wheels that are missing are downloaded
    python3 sample_project/run.py --offline DIR    every wheel comes from DIR; the sample's own too if it lies there
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib.metadata
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Command = list[str | Path]

__all__ = ["main"]

SAMPLE = Path(__file__).resolve().parent
CHECKOUT = SAMPLE.parent
LAYOUT = 1  # of the work folder: raised when this script lays it out in another way


def main(argv: list[str] | None = None) -> int:
    start = time.perf_counter()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--offline", metavar="DIR", type=Path, help="take all wheels from DIR and ask no index")
    parser.add_argument("--work", metavar="DIR", type=Path, default=SAMPLE / ".work", help="where everything is made")
    parser.add_argument("--fresh", action="store_true", help="start from an empty work folder")
    parser.add_argument("arguments", nargs="*", help="handed to the sample itself, after --")
    options = parser.parse_args(argv)
    story = Story(options.work.resolve(), options.offline.resolve() if options.offline else None)
    try:
        if options.fresh:
            shutil.rmtree(story.work, ignore_errors=True)
        story.prepare()
    except Failed as failure:
        print(f"\nsample: {failure}", file=sys.stderr)
        return 1
    print(f"environment ready after {time.perf_counter() - start:.1f} s", flush=True)
    status = subprocess.call([story.python, "-m", "cudabuild_sample", *options.arguments], env=environment())
    return 1 if status else 0


class Failed(Exception):
    """A step failed; the message says which, and where its output lies."""


class Story:
    """The steps, each of which leaves its results in the work folder."""

    def __init__(self, work: Path, offline: Path | None) -> None:
        self.work = work
        self.offline = offline
        self.venv = work / "env"
        self.python = self.venv / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
        self.wheelhouse = work / "wheelhouse"
        self.own = self.wheelhouse / "own"  # the wheel built from this checkout

    def prepare(self) -> None:
        """Brings environment and wheelhouse to the state of the sources; does nothing where they are."""
        digest = self.source_digest()
        stamp = self.venv / "digest"
        if self.python.exists() and stamp.is_file() and stamp.read_text() == digest:
            print("[1/1] sources unchanged: environment reused", flush=True)
            return
        shutil.rmtree(self.venv, ignore_errors=True)
        shutil.rmtree(self.own, ignore_errors=True)
        self.work.mkdir(parents=True, exist_ok=True)
        plan = self.plan()
        for number, (title, make_command) in enumerate(plan, 1):
            print(f"[{number}/{len(plan)}] {title} ", end="", flush=True)
            self.run(title, self.work / f"step-{number}.log", make_command())
        stamp.write_text(digest)  # last: an interrupted run leaves no digest and starts over

    def plan(self) -> list[tuple[str, Callable[[], Command]]]:
        """The steps in order: a title, and what makes the command when its turn comes."""
        steps: list[tuple[str, Callable[[], Command]]] = [("make a virtual environment", self.make_environment)]
        if not self.offline:
            steps.append(("build cudabuild's wheel", self.build_cudabuild))
            steps.append(("fill the wheelhouse", self.fill_wheelhouse))
            steps.append(("build and install the sample, isolated", self.install_sample))
            return steps
        if not any(self.offline.glob("*.whl")):
            raise Failed(
                f"no wheel in {self.offline}. Fill it where an index can be reached: run this script without "
                "--offline and copy the wheels below .work/wheelhouse"
            )
        if not find_wheel("cudabuild", [self.offline]):
            steps.append(("build cudabuild's wheel", self.build_cudabuild))
        ready = find_wheel("cudabuild_sample", [self.offline])
        title = "install the sample's ready wheel" if ready else "build and install the sample, isolated"
        steps.append((title, self.install_sample))
        return steps

    def source_digest(self) -> str:
        """What the environment depends on: sources, interpreter, offline wheels."""
        digest = hashlib.sha256(f"{LAYOUT} {sys.version} {sys.executable}".encode())
        for path in [*cudabuild_files(), *sample_files()]:
            digest.update(f"\0{path.relative_to(CHECKOUT).as_posix()}\0".encode())
            digest.update(path.read_bytes())
        if self.offline:
            for wheel in sorted(self.offline.glob("*.whl")):
                digest.update(f"\0{wheel.name} {wheel.stat().st_size} {wheel.stat().st_mtime_ns}".encode())
        return digest.hexdigest()

    def make_environment(self) -> Command:
        # Where this interpreter's own pip can work on another environment, the new one needs no copy of pip.
        return [sys.executable, "-m", "venv", *(["--without-pip"] if host_pip() else []), self.venv]

    def build_cudabuild(self) -> Command:
        # A copy: a build leaves build/ behind, and setuptools would pack modules from there that no longer exist.
        tree = self.copy("cudabuild", CHECKOUT, cudabuild_files())
        links = self.no_index() if self.offline else []
        return self.pip("wheel", "--no-deps", "-w", self.own, *links, tree)

    def fill_wheelhouse(self) -> Command:
        """Every wheel that building and running the sample needs. Nothing later asks an index."""
        own = find_wheel("cudabuild", [self.own])
        links: Command = ["--find-links", self.wheelhouse] if self.wheelhouse.is_dir() else []
        return self.pip(
            "download", "--only-binary=:all:", "-d", self.wheelhouse, *links, f"{own}[build]", "setuptools>=77"
        )

    def install_sample(self) -> Command:
        for stale in self.wheelhouse.glob("cudabuild-*.whl"):  # the download's copy; this run's own is in self.own
            stale.unlink()
        ready = find_wheel("cudabuild_sample", [self.offline]) if self.offline else None
        source = ready or self.copy("sample", SAMPLE, sample_files())
        extra = "[cpu]" if find_wheel("llvmlite", self.folders()) else ""
        return self.pip("install", *self.no_index(), f"{source}{extra}")

    def folders(self) -> list[Path]:
        return [self.offline or self.wheelhouse, self.own]

    def no_index(self) -> Command:
        """pip hands these on to the isolated build environment. An index could serve some other ``cudabuild``."""
        links: Command = ["--no-index"]
        for folder in self.folders():
            if folder.is_dir():
                links += ["--find-links", folder]
        return links

    def copy(self, name: str, root: Path, files: list[Path]) -> Path:
        tree = self.work / "source" / name
        shutil.rmtree(tree, ignore_errors=True)
        for path in files:
            target = tree / path.relative_to(root)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
        return tree

    def pip(self, *arguments: str | Path) -> Command:
        chosen: Command = [self.python, "-m", "pip"]
        if host_pip():
            chosen = [sys.executable, "-m", "pip", "--python", self.python]
        return [*chosen, *arguments, "--disable-pip-version-check", "--no-input"]

    def run(self, title: str, log: Path, command: Command) -> None:
        """Runs one step; its output goes to a log, a dot every two seconds to the terminal."""
        start = time.perf_counter()
        with log.open("wb") as output, dots():
            status = subprocess.call(
                [str(part) for part in command],
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self.work,
                env=environment(),
            )
        print(f" {time.perf_counter() - start:.1f} s", flush=True)
        if status:
            tail = "\n".join(log.read_text(errors="replace").splitlines()[-25:])
            raise Failed(f"could not {title} (exit status {status}). The end of {log}:\n{tail}")


@contextlib.contextmanager
def dots() -> Iterator[None]:
    done = threading.Event()

    def show() -> None:
        while not done.wait(2):
            print(".", end="", flush=True)

    thread = threading.Thread(target=show, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def host_pip() -> bool:
    """Whether this interpreter has a pip that knows ``--python`` (22.3 and newer)."""
    try:
        version = importlib.metadata.version("pip")
    except importlib.metadata.PackageNotFoundError:
        return False
    return tuple(int(part) for part in version.split(".")[:2]) >= (22, 3)


def environment() -> dict[str, str]:
    """This environment without what would put other packages into the new one."""
    return {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTHONHOME", "PIP_TARGET")}


def find_wheel(name: str, folders: list[Path]) -> Path | None:
    """The newest wheel of a distribution, its name spelled as in file names."""
    wheels = sorted(wheel for folder in folders for wheel in folder.glob(f"{name}-*.whl"))
    return wheels[-1] if wheels else None


def cudabuild_files() -> list[Path]:
    return [
        *(CHECKOUT / name for name in ("pyproject.toml", "README.md", "LICENSE")),
        *source_files(CHECKOUT / "cudabuild"),
    ]


def sample_files() -> list[Path]:
    return [SAMPLE / "pyproject.toml", SAMPLE / "README.md", *source_files(SAMPLE / "src")]


def source_files(root: Path) -> list[Path]:
    """The files below ``root`` that are sources: no bytecode, nothing that a build or an editable install left."""
    return [
        path
        for path in sorted(root.rglob("*"))
        if path.is_file()
        and not any(
            part in ("__pycache__", "_cudabuild") or part.endswith(".egg-info") for part in path.relative_to(root).parts
        )
    ]


if __name__ == "__main__":
    sys.exit(main())
