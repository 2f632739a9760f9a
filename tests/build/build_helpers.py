# SPDX-License-Identifier: Apache-2.0
"""What discovery makes of a tiny project."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from cudabuild.build.discover import Kernel, find_candidates, load_kernels
from cudabuild.build.project import ModuleFile, Project
from cudabuild.build.sandbox import Sandbox
from cudabuild.build.slice import Slicer
from cudabuild.fingerprint import compute_fingerprint

__all__ = ["Found", "MakeProject", "read_project"]

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

    def __init__(self, project: Project, allow_imports: tuple[str, ...] = ()) -> None:
        slicer = Slicer(project)
        candidates, self.unreadable = find_candidates(slicer)
        self.values: dict[str, dict[str, str]] = {}
        self.reasons: dict[str, str] = {}
        self.kernels: dict[str, Kernel] = {}
        with Sandbox(project, slicer, allow_imports) as sandbox:
            for kernel in load_kernels(slicer, candidates, sandbox):
                name = f"{kernel.module}:{kernel.qualname}"
                self.kernels[name] = kernel
                if kernel.definition is None or kernel.failure is not None:
                    self.reasons[name] = str(kernel.failure)
                    continue
                signatures = kernel.definition.signatures
                fingerprint = compute_fingerprint(kernel.definition, signatures[0] if signatures else ())
                self.values[name] = dict(fingerprint.free_values)
