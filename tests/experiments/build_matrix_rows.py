# SPDX-License-Identifier: Apache-2.0
"""One row of the build matrix: how a project is built in each mode, and what is checked of the result."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import os
import shutil
import sys
import tarfile
import traceback
import zipfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from build_matrix_places import Installed, Prepared, call
from build_matrix_projects import LAYOUTS, NATIVE_LAYOUTS, TARGETS, Layout, write_project
from reporting import CHECKOUT

sys.path.insert(0, str(CHECKOUT))

__all__ = ["MODES", "run_row", "run_unrelated"]

_EDITABLE = set(LAYOUTS) - {"package_dir"}


def _any(backend: str, layout: str) -> bool:
    return True


def _own(backend: str, layout: str) -> bool:
    """The setuptools plug-in's own modes."""
    return backend == "setuptools"


def _wrapped(backend: str, layout: str) -> bool:
    """Behind ``cudabuild.build_meta``, which hands config settings on."""
    return backend not in ("setuptools", "hatchling hook")


def _strict(backend: str, layout: str) -> bool:
    return "setuptools" in backend


def _editable(backend: str, layout: str) -> bool:
    """All but renamed folders outside of setuptools: hatchling refuses them, and nothing here reads a meson.build."""
    return "setuptools" in backend or layout in _EDITABLE


#: mode -> whether a back-end has it for a layout
MODES: Mapping[str, Callable[[str, str], bool]] = {
    "pip wheel": _any,
    "pip wheel -C": _wrapped,
    "pip install": _any,
    "pip -e": _editable,
    "pip -e strict": _strict,
    "build": _any,
    "uv build": _any,
    "build_ext -i": _own,
    "build_cuda -i": _own,
}

#: Run in a row's environment: what the kernel binds to, with nothing to compile with.
_LOAD = """
import importlib, json, sys

class NoCompiler:
    names = ("llvmlite", "numba", "cudabuild.compiler", "cudabuild.frontend", "cudabuild.backend", "cudabuild.ir",
             "cudabuild.build", "cudabuild.jit", "cudabuild.cpu")

    def find_spec(self, name, path=None, target=None):
        if any(name == one or name.startswith(one + ".") for one in self.names):
            raise ImportError("the compile wing is blocked: " + name)

sys.modules["no_such_package_anywhere"] = sys
module = importlib.import_module(sys.argv[1])
native = importlib.import_module(sys.argv[2]).answer() if len(sys.argv) > 2 else None
for name in [name for name in sys.modules if any(name.startswith(one) for one in NoCompiler.names)]:
    del sys.modules[name]
sys.meta_path.insert(0, NoCompiler())
from cudabuild.image.image import DeviceInfo, ImageRequest
from cudabuild.importer.binding import ShippedProvider

found = {}
for cc in ((8, 0), (8, 6), (9, 0)):
    asked = []
    definition = module.scale.definition
    fingerprint = lambda: asked.append(1) or bytes(32)
    request = ImageRequest(definition, definition.signatures[0], DeviceInfo(cc, 13000), 64, fingerprint)
    image = ShippedProvider("cubin").find(request)
    found["%d.%d" % cc] = image.source if image and not asked else "; ".join(request.notes) or "asked to compile"
print(json.dumps({"found": found, "native": native, "file": module.__file__}))
"""

_BOUND = {"8.0": "shipped cubin sm_80", "8.6": "shipped cubin sm_80", "9.0": "shipped cubin sm_90"}
_IMAGES = {("scale", "float32[::1]", target, 64) for target in TARGETS}


@dataclass
class _Row:
    """What a row works with."""

    prepared: Prepared
    folder: Path
    mode: str
    layout: str
    backend: str
    setuptools: str
    hooks: str
    python: Path
    site: Path
    interpreter: Installed

    @property
    def place(self) -> Layout:
        return LAYOUTS[self.layout]

    @property
    def project(self) -> Path:
        return self.folder / "project"

    @property
    def output(self) -> Path:
        return self.folder / "out"

    @property
    def is_native(self) -> bool:
        return self.layout in NATIVE_LAYOUTS or self.backend == "maturin"

    @property
    def environment(self) -> dict[str, str]:
        # Where the project's back-end is not setuptools, the newest is there all the same: the command line needs it.
        version = self.setuptools if self.setuptools != "-" else "newest"
        return self.prepared.environment(self.interpreter, version, self.python.parent)

    def call(self, *command: str | Path, environment: Mapping[str, str] | None = None) -> str:
        return call(command, environment or self.environment, self.project)

    def pip(self, *arguments: str | Path) -> str:
        return self.call(self.python, "-m", "pip", *arguments)


def run_row(
    prepared: Prepared, python: Installed, number: int, mode: str, layout: str, backend: str, setuptools: str
) -> list[str]:
    """Builds and checks one row; what is wrong with it."""
    folder = prepared.scratch / "rows" / f"{number:03}"
    shutil.rmtree(folder, ignore_errors=True)
    try:
        pinned = "" if setuptools in ("-", "newest") else setuptools
        hooks = write_project(folder / "project", backend, layout, pinned)
        executable, site = _make_environment(folder / "environment", python)
        row = _Row(prepared, folder, mode, layout, backend, setuptools, hooks, executable, site, python)
        _plant_stale_archives(row)
        problems = list(_BUILDS[mode](row))
    except Exception as error:
        text = str(error) if isinstance(error, RuntimeError) else traceback.format_exc()
        return [f"{folder}: {line}" if not index else line for index, line in enumerate(text.splitlines())]
    if not problems:
        shutil.rmtree(folder)
    return problems


def _make_environment(folder: Path, python: Installed) -> tuple[Path, Path]:
    """A virtual environment of a row's own that sees the packages of ``python``'s: (interpreter, site-packages)."""
    call([python.executable, "-m", "venv", "--without-pip", folder])
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "behind.pth").write_text(f"import site; site.addsitedir({str(python.site)!r})\n", encoding="utf-8")
    return folder / "bin" / "python", site


def _plant_stale_archives(row: _Row) -> None:
    """What an earlier build in place left, for a target that is no longer built for; all under version control."""
    folder = row.project / row.place.in_tree
    folder.mkdir(parents=True)
    (folder / "sm_75.cuar").write_bytes(b"stale")
    (folder / "index.json").write_text("{}", encoding="utf-8")
    (folder / ".gitignore").write_text("*\n", encoding="utf-8")
    if row.backend == "meson-python":
        for arguments in (["init", "--quiet"], ["add", "--force", "."], ["commit", "--quiet", "-m", "a"]):
            row.call("git", *arguments)


# Modes


def _pip_wheel(row: _Row) -> Iterable[str]:
    command = ("wheel", "--no-deps", "--no-index", "--no-build-isolation", row.project, "--wheel-dir")
    row.pip(*command, row.output)
    yield from _check_wheel(row)
    yield from _check_sdist(row)
    row.pip(*command, row.folder / "again")
    again = _only(row.folder / "again", "*.whl")
    if row.layout not in NATIVE_LAYOUTS and again.read_bytes() != _only(row.output, "*.whl").read_bytes():
        yield "same: a second build gives other bytes"


def _pip_wheel_config(row: _Row) -> Iterable[str]:
    """The table says what is not wanted, and config settings overrule it; a key that is repeated makes a list."""
    path = row.project / "pyproject.toml"
    path.write_text(path.read_text("utf-8").replace('archs = ["80", "90"]', 'archs = ["75"]'), encoding="utf-8")
    settings = [word for arch in ("80", "90") for word in ("--config-settings", f"cudabuild.archs={arch}")]
    row.pip("wheel", "--no-deps", "--no-index", "--no-build-isolation", *settings, row.project, "-w", row.output)
    yield from _check_wheel(row)
    yield from _check_sdist(row)


def _pip_install(row: _Row) -> Iterable[str]:
    row.pip("install", "--no-deps", "--no-index", "--no-build-isolation", row.project)
    yield from _check_installed(row)
    yield from _check_sdist(row)


def _pip_editable(row: _Row) -> Iterable[str]:
    row.pip("install", "--no-deps", "--no-index", "--no-build-isolation", "--editable", row.project)
    if row.backend not in ("setuptools", "wrapper + setuptools", "hatchling hook"):
        shipped = [path for path in row.site.rglob("*.cuar") if path.is_file()]
        if shipped:
            yield f"archives: an editable installation ships {shipped}"
        row.call(row.python, "-m", "cudabuild", "build", "--inplace")
    yield from _check_in_tree(row)
    yield from _check_loads(row)
    yield from _check_sdist(row)


def _pip_editable_strict(row: _Row) -> Iterable[str]:
    settings = ("--config-settings", "editable-mode=strict")
    row.pip("install", "--no-deps", "--no-index", "--no-build-isolation", *settings, "--editable", row.project)
    links = _only(row.project / "build", "__editable__*")
    yield from _check_folder(links / row.place.archives)
    yield from _check_loads(row)
    yield from _check_sdist(row)


def _build(row: _Row) -> Iterable[str]:
    row.call(row.python, "-m", "build", "--no-isolation", "--outdir", row.output)
    yield from _check_wheel(row)
    yield from _check_sdist(row, _only(row.output, "*.tar.gz"))


def _uv_build(row: _Row) -> Iterable[str]:
    """In isolation, but for a project that cannot say what it needs: what is asked for is all that the build has."""
    assert row.prepared.uv is not None
    command: list[str | Path] = [row.prepared.uv, "build", "--quiet", "--out-dir", row.output]
    environment = row.environment
    if row.layout == "setup.py only":
        command += ["--no-build-isolation", "--python", row.python]
    else:
        command += ["--python", row.interpreter.executable, "--find-links", str(row.prepared.wheels)]
        command += ["--refresh-package", "cudabuild"]
        environment = {**environment, "PYTHONPATH": ""}
    row.call(*command, environment=environment)
    yield from _check_wheel(row)
    yield from _check_sdist(row, _only(row.output, "*.tar.gz"))


def _run_setup(row: _Row, *arguments: str) -> None:
    start = ["setup.py"] if (row.project / "setup.py").exists() else ["-c", "from setuptools import setup; setup()"]
    row.call(row.python, *start, *arguments)


def _build_ext(row: _Row) -> Iterable[str]:
    _run_setup(row, "build_ext", "--inplace")
    yield from _check_in_place(row)


def _build_cuda(row: _Row) -> Iterable[str]:
    """The command of setuptools, and ours, which must do the same."""
    _run_setup(row, "build_cuda", "--inplace")
    yield from _check_in_tree(row)
    shutil.rmtree(row.project / row.place.in_tree)
    row.call(row.python, "-m", "cudabuild", "build", "--inplace")
    if row.layout in NATIVE_LAYOUTS:  # which neither of them makes
        _run_setup(row, "build_ext", "--inplace")
    yield from _check_in_place(row)


def _check_in_place(row: _Row) -> Iterable[str]:
    yield from _check_in_tree(row)
    path = row.project / row.place.root
    if row.place.folder:  # the only layout that cannot be imported where it stands
        path = row.folder / "renamed"
        path.mkdir()
        (path / row.place.module.partition(".")[0]).symlink_to(row.project / row.place.folder)
    yield from _check_loads(row, path)
    yield from _check_sdist(row)


_BUILDS: Mapping[str, Callable[[_Row], Iterable[str]]] = {
    "pip wheel": _pip_wheel,
    "pip wheel -C": _pip_wheel_config,
    "pip install": _pip_install,
    "pip -e": _pip_editable,
    "pip -e strict": _pip_editable_strict,
    "build": _build,
    "uv build": _uv_build,
    "build_ext -i": _build_ext,
    "build_cuda -i": _build_cuda,
}


# Checks


def _only(folder: Path, pattern: str) -> Path:
    found = list(folder.glob(pattern))
    if len(found) != 1:
        raise RuntimeError(f"{folder} holds {[path.name for path in found]} for {pattern}, and one is expected")
    return found[0]


def _check_wheel(row: _Row) -> Iterable[str]:
    """A finished wheel: RECORD, tag, archives; then installed, and loaded."""
    wheel = _only(row.output, "*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if not name.endswith("/")]
        record = next(name for name in names if name.endswith(".dist-info/RECORD"))
        rows = list(csv.reader(io.StringIO(archive.read(record).decode())))
        if sorted(name for name, _, _ in rows) != sorted(names):
            yield f"RECORD: lists {sorted(name for name, _, _ in rows)}, and the wheel holds {sorted(names)}"
        for name, digest, size in rows:
            data = archive.read(name)
            expected = ("", "") if name == record else (f"sha256={_digest(data)}", str(len(data)))
            if (digest, size) != expected:
                yield f"RECORD: {name} is {expected}, and {(digest, size)} stands there"
    pure = wheel.name.endswith("-none-any.whl")
    if pure == row.is_native:
        yield f"tag: {wheel.name}"
    row.pip("install", "--no-deps", "--no-index", wheel)
    yield from _check_installed(row)


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def _check_installed(row: _Row) -> Iterable[str]:
    """What an installer has put into the row's environment: metadata, RECORD, archives; then loaded."""
    metadata = _only(row.site, "tiny_matrix*.dist-info")
    text = (metadata / "WHEEL").read_text("utf-8").lower()
    if ("root-is-purelib: true" in text) == row.is_native or ("tag: py3-none-any" in text) == row.is_native:
        yield f"tag: {text}"
    listed = {name: digest for name, digest, _ in csv.reader((metadata / "RECORD").read_text("utf-8").splitlines())}
    folder = row.site / row.place.archives
    yield from _check_folder(folder)
    for path in folder.iterdir():
        name = path.relative_to(row.site).as_posix()
        if listed.get(name) != f"sha256={_digest(path.read_bytes())}":
            yield f"RECORD: {listed.get(name)} stands there for {name}"
    others = [path for path in row.site.rglob("*.cuar") if path.parent != folder]
    if others:
        yield f"archives: {others} besides"
    yield from _check_loads(row)


def _check_folder(folder: Path, *more: str) -> Iterable[str]:
    from cudabuild.image.archive import Archive

    names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    expected = sorted(["index.json", *(f"{target}.cuar" for target in TARGETS), *more])
    if names != expected:
        yield f"archives: {folder} holds {names}, and {expected} is expected"
        return
    records = [record for path in folder.glob("*.cuar") for record in Archive(str(path)).records()]
    found = {(record.qualname, record.signature, record.target, record.index_width) for record in records}
    if found != _IMAGES or len(records) != len(found):
        yield f"archives: {sorted(found)} is there, and {sorted(_IMAGES)} is expected"
    index = json.loads((folder / "index.json").read_text("utf-8"))
    if [kernel["qualname"] for kernel in index["kernels"]] != ["scale"]:
        yield f"archives: the index lists {index['kernels']}"


def _check_in_tree(row: _Row) -> Iterable[str]:
    yield from _check_folder(row.project / row.place.in_tree, ".gitignore")


def _check_loads(row: _Row, path: Path | None = None) -> Iterable[str]:
    """The kernel binds to its shipped image where nothing can be compiled."""
    environment = {**row.environment, "CUDABUILD_JIT": "never"}
    environment["PYTHONPATH"] = str(path) if path else ""
    if row.prepared.metadata:
        environment["PYTHONPATH"] += os.pathsep + str(row.prepared.metadata)
    native = ["tiny._native"] if row.layout in NATIVE_LAYOUTS else []
    text = call([row.python, "-c", _LOAD, row.place.module, *native], environment, row.folder)
    told = json.loads(text.strip().splitlines()[-1])
    if told["found"] != _BOUND:
        yield f"loads: {told['found']}, from {told['file']}"
    if native and told["native"] != 42:
        yield f"loads: the extension module gives {told['native']}"


def _check_sdist(row: _Row, sdist: Path | None = None) -> Iterable[str]:
    if sdist is None:
        folder = row.folder / "sdist"
        folder.mkdir()
        module, _, attribute = row.hooks.partition(":")
        code = f"import {module} as b; b{'.' + attribute if attribute else ''}.build_sdist({str(folder)!r})"
        row.call(row.python, "-c", code)
        sdist = _only(folder, "*.tar.gz")
    with tarfile.open(sdist) as tar:
        names = tar.getnames()
    found = [name for name in names if "_cudabuild" in name]
    if found:
        yield f"sdist: {found}"
    if not [name for name in names if name.endswith(row.place.source)]:
        yield f"sdist: {row.place.source} is missing"


def run_unrelated(prepared: Prepared, python: Installed, version: str) -> str:
    """Builds a project that does not mention cudabuild with and without it; what is wrong, or ""."""
    folder = prepared.scratch / "unrelated"
    shutil.rmtree(folder, ignore_errors=True)
    executable, _ = _make_environment(folder / "environment", python)
    made = []
    for hidden in (False, True):
        project = folder / f"project {hidden}"
        (project / "other").mkdir(parents=True)
        (project / "other" / "__init__.py").write_text("", encoding="utf-8")
        text = '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
        text += '[project]\nname = "other"\nversion = "1.0"\n[tool.setuptools]\npackages = ["other"]\n'
        (project / "pyproject.toml").write_text(text, encoding="utf-8")
        environment = prepared.environment(python, version)
        code = "import setuptools.build_meta as b; b.build_wheel('.')"
        if hidden:
            hide = "m.entry_points = lambda **k: m.EntryPoints(e for e in keep(**k) if 'cudabuild' not in e.value)"
            code = f"import importlib.metadata as m; keep = m.entry_points; {hide}; {code}"
        call([executable, "-c", code], environment, project)
        made.append(_only(project, "*.whl").read_bytes())
    return "" if made[0] == made[1] else "the wheel differs where cudabuild is installed"
