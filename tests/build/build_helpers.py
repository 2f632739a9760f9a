# SPDX-License-Identifier: Apache-2.0
"""What discovery makes of a tiny project, and builds of real ones."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType

from cudabuild.build.discover import Kernel, find_candidates, load_kernels
from cudabuild.build.imported import Imported
from cudabuild.build.project import ModuleFile, Project
from cudabuild.build.sandbox import Sandbox
from cudabuild.build.slice import Slicer
from cudabuild.definition import KernelDefinition
from cudabuild.fingerprint import compute_fingerprint
from cudabuild.image.archive import Archive

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = [
    "CHECKOUT", "Found", "MakeProject", "Setuptools", "copy_project", "find_definitions", "list_images", "read_project",
]  # fmt: skip

CHECKOUT = Path(__file__).resolve().parents[2]

MakeProject = Callable[..., Project]


def read_project(root: Path) -> Project:
    """Every ``.py`` file below a folder as a module of one project."""
    files = {}
    for path in sorted(root.rglob("*.py")):
        parts = list(path.relative_to(root).with_suffix("").parts)
        is_package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_package else parts)
        files[name] = ModuleFile(name, str(path), is_package)
    return Project(str(root), files)


class Found:
    """What was found of each kernel: frozen values by name, or the reason why it is left to JIT."""

    def __init__(self, project: Project, allow_imports: tuple[str, ...] = (), imported: bool = False) -> None:
        slicer = Slicer(project)
        candidates, self.unreadable = find_candidates(slicer)
        self.values: dict[str, dict[str, str]] = {}
        self.reasons: dict[str, str] = {}
        self.kernels: dict[str, Kernel] = {}
        modules = Imported(project, slicer) if imported else Sandbox(project, slicer, allow_imports)
        with modules as sandbox:
            for kernel in load_kernels(slicer, candidates, sandbox):
                name = f"{kernel.module}:{kernel.qualname}"
                self.kernels[name] = kernel
                if kernel.definition is None or kernel.left is not None:
                    self.reasons[name] = str(kernel.left)
                    continue
                signatures = kernel.definition.signatures
                fingerprint = compute_fingerprint(kernel.definition, signatures[0] if signatures else ())
                self.values[name] = dict(fingerprint.free_values)


def find_definitions(module: ModuleType) -> Iterator[KernelDefinition]:
    """The kernels that a module really holds: under its names, in its classes and its containers."""
    pending: list[object] = list(vars(module).values())
    seen: set[int] = set()
    while pending:
        value = pending.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, type) and value.__module__ == module.__name__:
            pending += [getattr(value, name, None) for name in vars(value)]
        elif isinstance(value, dict):
            pending += value.values()
        elif isinstance(value, list | tuple):
            pending += value
        else:
            definition = getattr(value, "definition", None)
            if isinstance(definition, KernelDefinition) and not definition.is_device:
                yield definition
            elif "__wrapped__" in getattr(value, "__dict__", {}):
                pending.append(value.__wrapped__)  # type: ignore[attr-defined]


class Setuptools:
    """Runs setuptools in a process of its own, with this checkout's cudabuild as if it were installed."""

    def __init__(self, folder: Path) -> None:
        metadata = folder / "cudabuild-0.1.0.dist-info"
        metadata.mkdir(parents=True)
        (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: cudabuild\nVersion: 0.1.0\n", encoding="utf-8")
        groups = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"]
        lines = [
            line
            for group, names in groups.items()
            for line in [f"[{group}]", *(f"{k} = {v}" for k, v in names.items())]
        ]
        (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
        self.path = [str(folder), str(CHECKOUT)]

    def python(self, *arguments: str, cwd: Path, path: Sequence[Path] = (), **environment: str) -> str:
        """Runs Python and returns what it wrote; fails with both outputs unless it ends with status 0."""
        done = self.attempt(*arguments, cwd=cwd, path=path, **environment)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def attempt(
        self, *arguments: str, cwd: Path, path: Sequence[Path] = (), **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """As ``python``, whatever the status."""
        variables = {**os.environ, "PYTHONPATH": os.pathsep.join([*map(str, path), *self.path]), **environment}
        variables.setdefault("SOURCE_DATE_EPOCH", "1700000000")
        command = [sys.executable, *arguments]
        return subprocess.run(command, cwd=cwd, env=variables, capture_output=True, text=True, timeout=240, check=False)

    def hook(self, project: Path, name: str, out: Path, settings: str = "None", **environment: str) -> Path:
        """Calls a PEP 517 hook of ``setuptools.build_meta`` and returns the file that it made."""
        out.mkdir(parents=True, exist_ok=True)
        code = f"import setuptools.build_meta as b; print('made', b.{name}({str(out)!r}, config_settings={settings}))"
        output = self.python("-c", code, cwd=project, **environment)
        return out / output.rpartition("made ")[2].split()[0]


def copy_project(source: Path, target: Path) -> Path:
    """A fresh copy of a project without what earlier builds left."""
    ignored = shutil.ignore_patterns("build", "*.egg-info", "_cudabuild*", "__pycache__", ".work", "*.so")
    return Path(shutil.copytree(source, target, ignore=ignored))


def list_images(archives: Path) -> set[tuple[str, str, str, int]]:
    """(qualified name, signature, target, index width) of every image below a folder."""
    found = set()
    for path in archives.rglob("*.cuar"):
        archive = Archive(str(path))
        for record in archive.records():
            found.add((record.qualname, record.signature, record.target, record.index_width))
            assert len(record.load_image("shipped", with_checks=True).data) > 0
    return found
