# SPDX-License-Identifier: Apache-2.0
"""A build with nothing changed is over at once, and nothing else is."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from build_helpers import Setuptools, list_images, read_project

import cudabuild.build.stamp
from cudabuild.build.execute import BuildResult
from cudabuild.build.reach import Reached, Recorder, look_at
from cudabuild.build.settings import BuildSettings
from cudabuild.build.stamp import Stamp
from cudabuild.cache.store import Cache
from cudabuild.target import TARGETS

SETTINGS = BuildSettings((TARGETS["sm_80"],))


class Tree:
    """A project as after a build, without one."""

    def __init__(self, root: Path, cache: Path) -> None:
        self.root = root / "project"
        self.cache = Cache(str(cache))
        package = self.root / "src" / "pkg"
        (package / "_cudabuild").mkdir(parents=True)
        for name, text in {
            "pyproject.toml": '[tool.cudabuild]\narchs = ["80"]\n',
            "src/pkg/__init__.py": "",
            "src/pkg/kernels.py": "N = 1\n",
            "src/pkg/table.txt": "1 2 3\n",
            "src/pkg/_cudabuild/sm_80.cuar": "archive",
        }.items():
            (self.root / name).write_text(text, encoding="utf-8")
        self.archives = package / "_cudabuild"

    def look(self, **request: str) -> Stamp:
        return Stamp(str(self.root), request, self.cache)

    def build(self, reached: Reached | None = None, settings: BuildSettings = SETTINGS, **request: str) -> Stamp:
        """Keeps a note as a build would."""
        stamp = self.look(**request)
        project = read_project(self.root / "src")
        project.root = str(self.root)
        stamp.watch(project)
        result = BuildResult(reached=reached or Reached())
        stamp.write(project, settings, result, [str(self.archives)], ["as before"])
        return self.look(**request)


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    for name in [name for name in os.environ if name.startswith("CUDABUILD_") or name == "CUDAARCHS"]:
        monkeypatch.delenv(name)
    # It has tests of its own.
    monkeypatch.setattr(cudabuild.build.stamp, "identify_tools", lambda driver, whole: b"these")
    return Tree(tmp_path, tmp_path / "cache")


def test_nothing_changed(tree: Tree) -> None:
    assert tree.look().changed == "no build is known"
    stamp = tree.build()
    assert stamp.changed == ""
    assert stamp.summary == ["as before"]


def _edit(path: str, text: str) -> Callable[[Tree], object]:
    return lambda tree: (tree.root / path).write_text(text, encoding="utf-8")


def _same_size_and_time(tree: Tree) -> None:
    path = tree.root / "src/pkg/kernels.py"
    stat = path.stat()
    path.write_text("N = 2\n", encoding="utf-8")
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


@pytest.mark.parametrize(
    "change",
    [
        _edit("src/pkg/kernels.py", "N = 10\n"),
        _same_size_and_time,
        _edit("src/pkg/more.py", ""),
        _edit("src/other.py", ""),
        _edit("pyproject.toml", '[tool.cudabuild]\narchs = ["90"]\n'),
        _edit("setup.cfg", "[build_cuda]\narchs = 86\n"),
        _edit("setup.py", "import setuptools\n"),
        _edit("src/pkg/_cudabuild/sm_80.cuar", "ARCHIVE"),
        _edit("src/pkg/_cudabuild/sm_90.cuar", "stale"),
        lambda tree: (tree.archives / "sm_80.cuar").unlink(),
        lambda tree: (tree.root / "src/pkg/kernels.py").unlink(),
        lambda tree: (tree.root / "src/pkg/kernels.py").rename(tree.root / "src/pkg/renamed.py"),
    ],
    ids=[
        "module", "same size and time", "new module", "new top-level module", "settings", "setup.cfg", "setup.py",
        "archive", "stale archive", "archive gone", "module gone", "module renamed",
    ],
)  # fmt: skip
def test_a_change_of_the_tree_is_seen(tree: Tree, change: Callable[[Tree], object]) -> None:
    assert tree.build().changed == ""
    change(tree)
    assert tree.look().changed


@pytest.mark.parametrize("name", ["CUDABUILD_ARCHS", "CUDABUILD_CACHE_SALT", "CUDAARCHS", "DIST_EXTRA_CONFIG"])
def test_a_variable_of_the_settings_is_seen(tree: Tree, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    assert tree.build().changed == ""
    monkeypatch.setenv(name, "75")
    assert tree.look().changed == "variables changed"


@pytest.mark.skipif(os.name == "nt", reason="making links needs a right there")
def test_links_are_followed_and_loops_are_not(tree: Tree, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tree.root / "src" / "linked").symlink_to(tmp_path / "elsewhere")
    (tree.root / "src" / "around").symlink_to(tree.root)
    (tree.root / "src" / "pkg" / "up").symlink_to(tree.root / "src")
    for name in ("back", "again", "more"):
        (tmp_path / "elsewhere" / name).symlink_to(tree.root / "src")
    assert tree.build().changed == ""
    (tmp_path / "elsewhere" / "m.py").touch()
    assert tree.look().changed == "names of Python files changed"


def test_what_slices_looked_at_is_seen(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    table, missing = tree.root / "src/pkg/table.txt", tree.root / "missing.txt"
    reached = Reached(
        (("SIZE", "8"), ("UNSET", None)), tuple((str(path), look_at(str(path))) for path in (table, missing))
    )
    monkeypatch.setenv("SIZE", "8")
    monkeypatch.delenv("UNSET", raising=False)
    assert tree.build(reached).changed == ""
    monkeypatch.setenv("SIZE", "9")
    assert tree.look().changed == "the environment variable SIZE changed"
    monkeypatch.setenv("SIZE", "8")
    monkeypatch.setenv("UNSET", "")
    assert tree.look().changed == "the environment variable UNSET changed"
    monkeypatch.delenv("UNSET")
    missing.touch()
    assert tree.look().changed == f"{missing} changed"
    missing.unlink()
    assert tree.look().changed == ""
    table.write_text("4 5 6\n", encoding="utf-8")
    assert tree.look().changed == f"{table} changed"


def test_another_request_is_another_build(tree: Tree) -> None:
    assert tree.build().changed == ""
    assert tree.look(archs="90").changed == "no build is known"


def test_other_tools_are_seen(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    assert tree.build().changed == ""
    monkeypatch.setattr(cudabuild.build.stamp, "identify_tools", lambda driver, whole: b"others")
    assert tree.look().changed == "tools changed"


@pytest.mark.parametrize(
    ("reached", "settings", "files"),
    [
        (Reached(uncomparable="subprocess.Popen"), SETTINGS, {}),
        (Reached(), BuildSettings(SETTINGS.targets, discovery="import"), {}),
        (Reached(), SETTINGS, {"setup.py": "import setuptools\n"}),
        (Reached(), SETTINGS, {"pyproject.toml": "[tool.setuptools.cmdclass]\nbuild_py = 'mine.build_py'\n"}),
        (Reached(), SETTINGS, {"pyproject.toml": '[tool.cudabuild]\narchs = ["native"]\n'}),
    ],
    ids=["another process", "import", "setup.py", "cmdclass", "native"],
)
def test_what_cannot_be_compared_is_never_skipped(
    tree: Tree, reached: Reached, settings: BuildSettings, files: dict[str, str]
) -> None:
    for name, text in files.items():
        (tree.root / name).write_text(text, encoding="utf-8")
    assert tree.build(reached, settings).changed == "no build is known"


def test_an_edit_while_the_build_runs_is_seen(tree: Tree) -> None:
    stamp = tree.look()
    project = read_project(tree.root / "src")
    stamp.watch(project)
    (tree.root / "src/pkg/kernels.py").write_text("N = 3\n", encoding="utf-8")  # before a worker reads it, or after
    stamp.write(project, SETTINGS, BuildResult(), [str(tree.archives)], [])
    assert tree.look().changed


def test_a_damaged_note_counts_as_none(tree: Tree, tmp_path: Path) -> None:
    tree.build()
    (note,) = (tmp_path / "cache" / "notes").iterdir()
    note.write_bytes(note.read_bytes()[:-1])
    assert tree.look().changed == "no build is known"


def test_the_recorder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "m.py").write_text("", encoding="utf-8")
    (tmp_path / "data.txt").write_text("1", encoding="utf-8")
    project = read_project(tmp_path)
    monkeypatch.setenv("READ", "1")
    monkeypatch.setenv("OTHER", "2")
    monkeypatch.setenv("BYTES", "4")
    with Recorder(project) as recorder:
        assert os.environ.get("READ") == "1"
        assert "NOT_SET_ANYWHERE" not in os.environ
        os.environ["WRITTEN"] = "3"
        if os.supports_bytes_environ:
            assert os.environb[b"BYTES"] == b"4"
        (tmp_path / "data.txt").read_text(encoding="utf-8")
        (tmp_path / "m.py").read_text(encoding="utf-8")
        assert not os.path.exists(tmp_path / "none")
        os.listdir(tmp_path)
    reached = recorder.take()
    as_bytes = {"BYTES": "4"} if os.supports_bytes_environ else {}
    assert dict(reached.variables) == {"READ": "1", "NOT_SET_ANYWHERE": None, **as_bytes}
    if os.supports_bytes_environ:
        assert os.environb[b"WRITTEN"] == b"3"
    monkeypatch.delenv("WRITTEN")  # it outlives the recorder
    files = dict(reached.files)
    assert set(files) == {str(tmp_path / "data.txt"), str(tmp_path / "none"), str(tmp_path)}
    assert files[str(tmp_path / "none")] == ""
    assert reached.uncomparable == ""
    assert recorder.take() == Reached()
    with recorder:
        dict(os.environ)
        assert os.environ["READ"] == "1"
    joined = reached | recorder.take()
    assert joined.uncomparable == "all of os.environ"
    assert (dict(joined.variables)["READ"], joined.files) == ("1", reached.files)


def test_a_source_counts_where_its_bytecode_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "other_package_of_a_test.py"
    source.write_text("N = 3\n", encoding="utf-8")
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.syspath_prepend(str(tmp_path))
    recorder = Recorder(read_project(tmp_path / "none"))
    for _ in range(2):  # the second time from bytecode
        with recorder:
            assert importlib.import_module(source.stem).N == 3
        del sys.modules[source.stem]
        assert str(source) in dict(recorder.take().files)


PYPROJECT = """\
[project]
name = "p"
version = "1"
[tool.setuptools.packages.find]
where = ["src"]
[tool.cudabuild]
archs = ["80"]
ptx = "none"
index = "64"
"""

KERNELS = """\
import os
import cudabuild as cb
SIZE = int(os.environ.get("P_SIZE", "4"))
with open(os.path.join(os.path.dirname(__file__), "table.txt")) as stream:
    VALUE = float(stream.read())

@cb.kernel("float32[::1]")
def one(x):
    x[SIZE] = VALUE

@cb.kernel("float32[::1]")
def two(x):
    x[0] = 2
"""


def test_the_command_line(tmp_path: Path, setuptools: Setuptools) -> None:
    package = tmp_path / "src" / "p"
    package.mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text(PYPROJECT, encoding="utf-8")
    (package / "__init__.py").touch()
    (package / "table.txt").write_text("1.5", encoding="utf-8")
    (package / "kernels.py").write_text(KERNELS, encoding="utf-8")

    def build(*arguments: str, **environment: str) -> str:
        return setuptools.python(
            "-m", "cudabuild", "build", *arguments,
            cwd=tmp_path, CUDABUILD_CACHE_DIR=str(tmp_path / "cache"), **environment,
        )  # fmt: skip

    assert "2 images compiled, 0 from the cache" in build("--inplace")
    again = build("--inplace")
    assert "p: nothing has changed since" in again
    assert "compiled" not in again
    assert build("-q") == ""
    (package / "kernels.py").write_text(KERNELS.replace("x[0] = 2", "x[0] = 3"), encoding="utf-8")
    assert "1 image compiled, 1 from the cache" in build()
    (package / "table.txt").write_text("2.5", encoding="utf-8")
    assert "1 image compiled, 1 from the cache" in build()
    assert "1 image compiled, 1 from the cache" in build(P_SIZE="5")
    assert "nothing has changed" in build(P_SIZE="5")
    assert len(list_images(package)) == 2
    assert "0 images compiled, 2 from the cache" in build(P_SIZE="4")
