# SPDX-License-Identifier: Apache-2.0
"""The import hook changes nothing that other finders find, and costs next to nothing."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from package_kit import run, write_files

import cudabuild
from cudabuild.importer import finder as finder_module
from cudabuild.importer.finder import Finder, install


@pytest.fixture
def finder(monkeypatch: pytest.MonkeyPatch) -> Finder:
    """A finder of our own, first in line for the duration of a test."""
    ours = Finder()
    rest = [found for found in sys.meta_path if not isinstance(found, Finder)]
    monkeypatch.setattr(sys, "meta_path", [ours, *rest])
    return ours


class Recorder:
    """A finder that answers for one name."""

    def __init__(self, spec: Any = None) -> None:
        self.spec = spec
        self.asked: list[str] = []

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        self.asked.append(name)
        return self.spec if name == "known" else None


def test_spec_is_the_other_finders_own(finder: Finder) -> None:
    recorder = Recorder(importlib.util.spec_from_loader("known", None))
    sys.meta_path.insert(1, recorder)
    assert finder.find_spec("known") is recorder.spec
    assert finder.find_spec("surely_not_there") is None
    assert recorder.asked == ["known", "surely_not_there"]


def test_finders_in_front_are_not_asked(finder: Finder) -> None:
    before = Recorder()
    sys.meta_path.insert(0, before)
    finder.find_spec("known")
    assert before.asked == []


def test_old_finders_without_find_spec_are_passed_over(finder: Finder) -> None:
    sys.meta_path.insert(1, object())  # type: ignore[arg-type]
    assert finder.find_spec("json") is not None


def test_an_error_of_another_finder_passes_through(finder: Finder) -> None:
    class Broken:
        def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
            raise ImportError(f"no {name} today")

    sys.meta_path.insert(1, Broken())
    with pytest.raises(ImportError, match="no module_of_mine today"):
        import module_of_mine  # type: ignore[import-not-found]  # noqa: F401


def test_one_look_per_package(finder: Finder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"look_a/__init__.py": "", "look_a/one.py": "", "look_a/in/__init__.py": "", "look_b.py": ""}
    root = write_files(tmp_path, files)
    (root / "look_a" / "_cudabuild").mkdir()
    looks = []

    def stat(path: str) -> os.stat_result:
        looks.append(path)
        return os.stat(path)

    monkeypatch.setattr(finder_module, "stat", stat)
    monkeypatch.syspath_prepend(str(root))
    for name in ("look_a", "look_a.one", "look_a.in", "look_b"):
        importlib.import_module(name)
    folder = f"{root}/look_a/_cudabuild"
    assert looks == [folder, f"{folder}/dialect-numba"]  # the second only where there are archives
    assert sys.modules["look_a"].__spec__.cudabuild_archives == folder  # type: ignore[union-attr]
    assert not hasattr(sys.modules["look_b"].__spec__, "cudabuild_archives")


def test_namespace_packages_are_left_alone(finder: Finder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(write_files(tmp_path, {"look_space/one.py": ""})))
    spec = importlib.util.find_spec("look_space")
    assert spec is not None
    assert spec.origin is None
    assert not hasattr(spec, "cudabuild_archives")


def test_installed_once() -> None:
    assert sum(type(found).__module__ == "cudabuild.importer.finder" for found in sys.meta_path) == 1
    install()
    importlib.reload(cudabuild)
    assert sum(type(found).__module__ == "cudabuild.importer.finder" for found in sys.meta_path) == 1


def test_first_in_line() -> None:
    assert run("import cudabuild; print(type(sys.meta_path[0]).__name__)") == "Finder"


_COUNT = """
import sys
from cudabuild.importer import finder

asked, looked = [], []
real = finder.stat
finder.stat = lambda path: looked.append(path) or real(path)

class Watch:
    def find_spec(self, name, path=None, target=None):
        asked.append(name)

sys.meta_path.insert(1, Watch())
names = [f"mod{i}" for i in range(50)]
names += [name for i in range(10) for name in (f"pack{i}", *(f"pack{i}.part{j}" for j in range(4)))]
for name in names:
    __import__(name)
print(asked == names, len(looked), "inspect" in sys.modules)
"""


def test_unrelated_imports_cost_one_look_per_package(tmp_path: Path) -> None:
    """Every name is searched once, as without the hook; a top-level package costs one ``stat``, anything else none.

    What that is in time is measured by ``tests/benchmarks/bench_import_hook.py``.
    """
    files = {f"mod{i}.py": "" for i in range(50)}
    for i in range(10):
        files |= {f"pack{i}/__init__.py": "", **{f"pack{i}/part{j}.py": "" for j in range(4)}}
    assert run(_COUNT, write_files(tmp_path, files)) == "True 10 False"
