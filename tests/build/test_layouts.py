# SPDX-License-Identifier: Apache-2.0
"""Which modules the tables of other back-ends name."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
from build_helpers import Setuptools, list_images
from test_build_meta import IMAGE, KERNEL

from cudabuild.build.layouts import find_declared_modules
from cudabuild.errors import SettingError

FILES = (
    "src/my_pkg/__init__.py", "src/my_pkg/sub/mod.py", "src/my_pkg/data.txt", "src/my_pkg/not-python/x.py",
    "src/space/part/__init__.py", "src/alone.py", "lib/__init__.py", "lib/mod.py", "flat/__init__.py", "single.py",
    "python/other/__init__.py", "unrelated/__init__.py",
)  # fmt: skip
OWN = {"my_pkg": "src/my_pkg/__init__.py", "my_pkg.sub.mod": "src/my_pkg/sub/mod.py"}
FLAT = {"flat": "flat/__init__.py"}
SINGLE = {"single": "single.py"}
SPACE = {"space.part": "src/space/part/__init__.py"}
RENAMED = {"renamed": "lib/__init__.py", "renamed.mod": "lib/mod.py"}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("layouts") / "with [brackets]"
    for name in FILES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    return folder


def find(root: Path, backend: str, tables: str = "", name: str = "My-Pkg") -> dict[str, str] | None:
    text = f'[build-system]\nbuild-backend = "{backend}"\n[project]\nname = "{name}"\n{textwrap.dedent(tables)}'
    (root / "pyproject.toml").write_text(text, encoding="utf-8")
    found = find_declared_modules(str(root))
    if found is None:
        return None
    assert all(module.name == name for name, module in found.items())
    assert all(module.is_package == module.path.endswith("__init__.py") for module in found.values())
    return {name: Path(module.path).relative_to(root).as_posix() for name, module in found.items()}


@pytest.mark.parametrize(
    ("backend", "tables", "expected"),
    [
        ("hatchling.build", "", OWN),
        ("hatchling.build", '[tool.hatch.build.targets.wheel]\npackages = ["src/my_pkg", "flat"]', OWN | FLAT),
        ("hatchling.build", '[tool.hatch.build.targets.wheel]\npackages = ["src/space"]', SPACE),
        ("hatchling.build", '[tool.hatch.build]\nonly-include = ["single.py"]', SINGLE),
        (
            "hatchling.build",
            '[tool.hatch.build.targets.wheel]\nonly-include = ["lib"]\nsources = { lib = "renamed" }',
            RENAMED,
        ),
        (
            "hatchling.build",
            '[tool.hatch.build.targets.wheel]\nonly-include = ["src/my_pkg"]\nsources = ["src"]',
            OWN,
        ),
        ("uv_build", "", OWN),
        ("uv_build", '[tool.uv.build-backend]\nmodule-name = ["space.part", "my_pkg"]', OWN | SPACE),
        ("uv_build", '[tool.uv.build-backend]\nmodule-name = "flat"\nmodule-root = ""', FLAT),
        ("poetry.core.masonry.api", "", OWN),
        ("poetry.core.masonry.api", '[tool.poetry]\npackages = [{ include = "space", from = "src" }]', SPACE),
        ("poetry.core.masonry.api", '[tool.poetry]\npackages = [{ include = "single.py" }]', SINGLE),
        ("poetry.core.masonry.api", '[tool.poetry]\npackages = [{ include = "flat/**/*.py" }]', FLAT),
        (
            "poetry.core.masonry.api",
            '[tool.poetry]\npackages = [{ include = "flat", to = "inner" }]',
            {"inner.flat": "flat/__init__.py"},
        ),
        ("flit_core.buildapi", "", OWN),
        ("flit_core.buildapi", '[tool.flit.module]\nname = "space.part"', SPACE),
        ("flit_core.buildapi", '[tool.flit.module]\nname = "alone"', {"alone": "src/alone.py"}),
        ("scikit_build_core.build", "", OWN),
        ("scikit_build_core.build", '[tool.scikit-build]\nwheel.packages = ["flat"]', FLAT),
        ("scikit_build_core.build", '[tool.scikit-build.wheel.packages]\nrenamed = "lib"', RENAMED),
        (
            "maturin",
            '[tool.maturin]\npython-source = "python"\nmodule-name = "other._native"',
            {"other": "python/other/__init__.py"},
        ),
        ("maturin", '[tool.maturin]\npython-packages = ["flat"]', FLAT),
        ("cudabuild.build_meta", '[tool.cudabuild]\nbuild-backend = "uv_build"', OWN),
        # setuptools looks for itself; so it does where nothing can be read, or nothing is there.
        ("cudabuild.build_meta", "", None),
        ("setuptools.build_meta", "", None),
        ("mesonpy", "", None),
        ("flit_core.buildapi", '[tool.flit.module]\nname = "nothing"', None),
    ],
)
def test_modules(root: Path, backend: str, tables: str, expected: dict[str, str] | None) -> None:
    assert find(root, backend, tables) == expected


def test_hatchlings_only_namespace(root: Path) -> None:
    assert find(root, "hatchling.build", name="other") == {"python.other": "python/other/__init__.py"}


def test_no_file_and_a_wrong_one(tmp_path: Path) -> None:
    assert find_declared_modules(str(tmp_path)) is None
    (tmp_path / "pyproject.toml").write_text("[tool", encoding="utf-8")
    with pytest.raises(SettingError, match=r"pyproject\.toml cannot be read: Expected"):
        find_declared_modules(str(tmp_path))


def test_a_build_in_place_of_a_flat_project_beside_other_folders(tmp_path: Path, setuptools: Setuptools) -> None:
    """setuptools refuses to guess here: there are several top-level packages."""
    for name in ("tiny", "recipes", "assets"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("", encoding="utf-8")
    (tmp_path / "tiny" / "kernels.py").write_text(KERNEL, encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["flit_core"]\nbuild-backend = "cudabuild.build_meta"\n'
        '[project]\nname = "tiny"\nversion = "1"\ndescription = "tiny"\n'
        '[tool.cudabuild]\nbuild-backend = "flit_core.buildapi"\narchs = ["80"]\nptx = "none"\nindex = "64"\n',
        encoding="utf-8",
    )
    setuptools.python("-m", "cudabuild", "build", "--inplace", cwd=tmp_path)
    assert list_images(tmp_path / "tiny" / "_cudabuild") == IMAGE
