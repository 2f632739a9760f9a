# SPDX-License-Identifier: Apache-2.0
"""The projects: what ``kernels/*.toml`` says of them, and their Python files in a scratch folder.

Wheels and source distributions are downloaded by name and version without what they depend on, and never installed.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tempfile
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["DownloadError", "Kernel", "Project", "fetch", "load_projects", "pack", "unpack"]

HERE = Path(__file__).resolve().parent


class DownloadError(Exception):
    """A project could not be had; the text says what pip said."""


@dataclass(frozen=True)
class Kernel:
    """One kernel and how it is launched.

    Attributes:
        file: the file it is in, from the root of the unpacked distribution.
        name: an expression for it in that file's names; simply its name for most.
        launches: ``arguments @ grid, block[, stream, shared bytes]``, each an expression of ``makers.py``.
        tolerance: the largest difference that counts as equal, relative to the largest element; None by type.
        note: what a reader should know of the case.
    """

    file: str
    name: str
    launches: tuple[str, ...]
    tolerance: float | None = None
    note: str = ""

    @property
    def id(self) -> str:
        return f"{self.file}:{self.name}"


@dataclass(frozen=True)
class Project:
    """One distribution.

    Attributes:
        name, version: as pip knows it.
        scan: folders and files of it in which kernels are looked for.
        kernels: what is run.
        unreached: kernel or file -> why it is not run.
        replace: module of the project -> name in it -> what stands there instead.
        has_exec: modules that make kernels with ``exec``, which gives them no text to compile: it is kept for them.
        note: what a reader should know of it.
        apart: whether it is counted apart from those that have to be complete.
    """

    name: str
    version: str
    scan: tuple[str, ...]
    kernels: tuple[Kernel, ...]
    unreached: dict[str, str] = field(default_factory=dict)
    replace: dict[str, dict[str, str]] = field(default_factory=dict)
    has_exec: tuple[str, ...] = ()
    note: str = ""
    apart: bool = False

    @property
    def folder(self) -> str:
        return f"{self.name}-{self.version}"


def load_projects() -> dict[str, Project]:
    """All projects by name."""
    found = (_read(tomllib.loads(path.read_text("utf-8"))) for path in sorted((HERE / "kernels").glob("*.toml")))
    return {project.name: project for project in found}


def _read(data: dict[str, Any]) -> Project:
    kernels = []
    for file, entries in data["kernels"].items():
        default = entries.get("launch", "")
        for name, entry in entries.items():
            if name == "launch":
                continue
            table = entry if isinstance(entry, dict) else {"run": entry}
            runs = [table["run"]] if isinstance(table["run"], str) else table["run"]
            launches = tuple(run if " @ " in run else f"{run} @ {default}" for run in runs)
            kernels.append(Kernel(file, name, launches, table.get("tolerance"), table.get("note", "")))
    return Project(
        data["name"],
        data["version"],
        tuple(data["scan"]),
        tuple(kernels),
        data.get("unreached", {}),
        data.get("replace", {}),
        tuple(data.get("has_exec", ())),
        data.get("note", ""),
        data.get("apart", False),
    )


def fetch(project: Project, downloads: Path) -> Path:
    """The distribution in ``downloads``, downloaded where it is missing.

    Raises:
        DownloadError: pip could not download it.
    """
    stem = f"{project.name.replace('-', '_')}-{project.version}"
    downloads.mkdir(parents=True, exist_ok=True)
    found = _find(downloads, stem)
    if found is None:
        command = [sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps"]
        wanted = f"{project.name}=={project.version}"
        # A wheel for whichever Python it is meant for: nothing of it is installed. Otherwise the sources.
        ways = (["--only-binary=:all:", "--python-version=3.13"], ["--no-build-isolation", "--no-binary=:all:"])
        told = ""
        for way in ways:
            with tempfile.TemporaryDirectory(dir=downloads) as folder:
                line = [*command, *way, "-d", folder, wanted]
                done = subprocess.run(line, capture_output=True, text=True, timeout=300, check=False)
                told = done.stderr.strip()[-300:]
                made = _find(Path(folder), stem)
                if made is not None:
                    made.replace(downloads / made.name)
                    return downloads / made.name
        raise DownloadError(f"pip cannot download {wanted}: {told}")
    return found


def _find(folder: Path, stem: str) -> Path | None:
    return next((path for path in sorted(folder.glob(f"{stem}*")) if path.suffix in (".whl", ".gz", ".zip")), None)


def unpack(project: Project, distribution: Path, scratch: Path) -> Path:
    """The project's Python files below ``scratch``; the folder that is the root of its packages."""
    target = scratch / project.folder
    if not target.is_dir():
        target.mkdir(parents=True)
        for name, data in _files(distribution):
            parts = Path(name).parts
            if distribution.suffix == ".gz":
                parts = parts[1:]  # the folder that a source distribution has around everything
            path = target.joinpath(*parts).resolve()
            if name.endswith(".py") and path.is_relative_to(target.resolve()):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
    return target


def _files(distribution: Path) -> list[tuple[str, bytes]]:
    if distribution.suffix != ".gz":
        with zipfile.ZipFile(distribution) as archive:
            return [(name, archive.read(name)) for name in archive.namelist() if name.endswith(".py")]
    with tarfile.open(distribution) as tar:
        members = [member for member in tar if member.isfile() and member.name.endswith(".py")]
        return [(member.name, file.read()) for member in members if (file := tar.extractfile(member)) is not None]


def pack(projects: list[Project], downloads: Path, output: Path) -> None:
    """Writes one small zip per project for a machine without a package index: its Python files, without its tests."""
    output.mkdir(parents=True, exist_ok=True)
    for project in projects:
        distribution = fetch(project, downloads)
        stem = f"{project.name.replace('-', '_')}-{project.version}"
        with zipfile.ZipFile(output / f"{stem}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in _files(distribution):
                inside = name.split("/", 1)[1] if distribution.suffix == ".gz" else name
                if "/tests/" not in inside:
                    archive.writestr(inside, data)
