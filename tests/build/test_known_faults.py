# SPDX-License-Identifier: Apache-2.0
"""Faults that users of other kernel caches and compilers met, provoked on the build side. ``README.md`` lists them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from build_helpers import Found, MakeProject, Setuptools, list_images

from cudabuild.build.settings import OPTION_SETTINGS, BuildSettings
from cudabuild.definition import DEFAULT_OPTIONS, Options
from cudabuild.fingerprint import compute_fingerprint, image_key
from cudabuild.image.archive import Archive
from cudabuild.image.left import find_left
from cudabuild.target import TARGETS

HEAD = "import cudabuild as cb\n"
TOOLS = {"compiler": "1", "llvmlite": "0.50", "libdevice": "aa", "nvjitlink": "12.9"}
LONG = "a_kernel_whose_name_goes_on_" + "and_on_" * 25 + "to_its_end"

KERNELS = f"""
from cudabuild import cuda

from .middle import outer


@cb.kernel("float32[::1]")
def scaled(x):
    x[0] = outer(x[0])


@cb.kernel("float32[::1]", launch_bounds=(128, 2), max_registers=40)
def bounded(x):
    x[0] = 2


@cb.kernel("float32[::1]")
def cooperative(x):
    grid = cuda.cg.this_grid()
    x[0] = 1
    grid.sync()
    x[1] = x[0]


@cb.kernel("float32[::1]")
def {LONG}(x):
    x[0] = 3
"""

PYPROJECT = """
[project]
name = "faulty"
version = "1"
[build-system]
requires = ["setuptools", "cudabuild"]
build-backend = "setuptools.build_meta"
[tool.cudabuild]
archs = ["80", "90", "90a", "75"]
[tool.setuptools]
packages = ["faulty"]
"""


def digests(found: Found) -> dict[str, bytes]:
    """The fingerprint of every kernel that can be built."""
    made = {}
    for name, kernel in found.kernels.items():
        if kernel.definition is not None and kernel.left is None:
            made[name] = compute_fingerprint(kernel.definition, kernel.definition.signatures[0]).digest
    return made


def write_project(root: Path) -> Path:
    package = root / "faulty"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "kernels.py").write_text(HEAD + KERNELS)
    (package / "middle.py").write_text("from .deep import inner\n\n\ndef outer(a):\n    return inner(a) + 1\n")
    (package / "deep.py").write_text("FACTOR = 2\n\n\ndef inner(a):\n    return a * FACTOR\n")
    (root / "pyproject.toml").write_text(PYPROJECT)
    return root


class Built:
    """A project that was built into a folder beside it, with a cache of its own."""

    def __init__(self, root: Path, setuptools: Setuptools) -> None:
        self.root = write_project(root / "project")
        self.out = root / "out"
        self.setuptools = setuptools
        self.variables = {"CUDABUILD_CACHE_DIR": str(root / "cache")}
        self.output = ""
        self.build()

    def build(self, *arguments: str, **variables: str) -> tuple[int, int]:
        """Builds again; how many images were compiled, and how many were there."""
        self.output = self.setuptools.python(
            "-m", "cudabuild", "build", "--out", str(self.out), *arguments,
            cwd=self.root, **{**self.variables, **variables},
        )  # fmt: skip
        counts = re.search(r"(\d+) images? compiled, (\d+) from the cache", self.output)
        return (int(counts[1]), int(counts[2])) if counts else (0, 0)

    @property
    def index(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / "index.json").read_text("utf-8"))
        return found

    @property
    def folder(self) -> Path:
        return self.out / "faulty" / "_cudabuild"

    def bytes(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in sorted(self.folder.iterdir())}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, setuptools: Setuptools) -> Built:
    return Built(tmp_path_factory.mktemp("built"), setuptools)


@pytest.fixture
def small(tmp_path: Path, setuptools: Setuptools) -> Built:
    """One target and one width: for what builds several times."""
    made = Built.__new__(Built)
    made.root, made.out, made.setuptools = write_project(tmp_path / "project"), tmp_path / "out", setuptools
    (made.root / "pyproject.toml").write_text(
        PYPROJECT.replace('archs = ["80", "90", "90a", "75"]', 'archs = ["80"]\nindex = "32"\nptx = "none"')
    )
    made.variables = {"CUDABUILD_CACHE_DIR": str(tmp_path / "cache")}
    return made


# C. Wrong hits, and misses that should be hits


def test_a_helper_two_modules_away_is_edited_with_the_same_size_and_time(small: Built) -> None:
    assert small.build() == (4, 0)
    deep = small.root / "faulty" / "deep.py"
    before = deep.stat()
    deep.write_text(deep.read_text().replace("FACTOR = 2", "FACTOR = 7"))
    os.utime(deep, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (deep.stat().st_size, deep.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert small.build() == (1, 3)
    (entry,) = [one for one in small.index["kernels"] if one["qualname"] == "scaled"]
    assert entry["free_values"]["outer/inner/FACTOR"] == "7"


def test_a_file_is_edited_and_its_time_lies_in_the_past(small: Built) -> None:
    small.build()
    kernels = small.root / "faulty" / "kernels.py"
    kernels.write_text(kernels.read_text().replace("x[0] = 2", "x[0] = 5"))
    os.utime(kernels, (1e9, 1e9))
    assert small.build() == (1, 3)


def test_identical_bytes_with_new_times_compile_nothing(small: Built) -> None:
    small.build()
    before = small.bytes()
    for path in small.root.rglob("*.py"):
        text = path.read_bytes()
        path.unlink()
        path.write_bytes(text)
    compiled, _ = small.build()
    assert compiled == 0
    assert small.bytes() == before


def test_a_changed_global_counts_and_the_order_of_hashing_does_not(make_project: MakeProject, tmp_path: Path) -> None:
    body = 'N = {n}\n@cb.kernel("float32[::1]")\ndef k(x):\n    x[0] = N\n'
    one = digests(Found(make_project(m=HEAD + body.format(n=1))))
    other = digests(Found(make_project(m=HEAD + body.format(n=2))))
    assert one["m:k"] != other["m:k"]
    code = (
        "import sys; from pathlib import Path; from build_helpers import Found, read_project\n"
        "from test_known_faults import digests\n"
        "print(digests(Found(read_project(Path(sys.argv[1]))))['m:k'].hex())"
    )
    path = os.pathsep.join([str(Path(__file__).parent), str(Path(__file__).parents[2])])
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, timeout=60, check=True,
            env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": seed},
        )  # fmt: skip
        assert done.stdout.strip() == other["m:k"].hex()


@pytest.mark.parametrize(
    ("old", "new"),
    [("a * 2", "a * 3"), ("TABLE['exact'] = heavy", "TABLE['exact'] = light"), ("WEIGHT = 4", "WEIGHT = 5")],
    ids=["body of the callee", "entry of the table", "constant of its callee"],
)
def test_a_device_function_taken_from_a_table_is_a_dependency(make_project: MakeProject, old: str, new: str) -> None:
    text = HEAD + (
        "WEIGHT = 4\ndef last(a):\n    return a + WEIGHT\ndef light(a):\n    return a\n"
        "def heavy(a):\n    return last(a * 2)\nTABLE = {}\nTABLE['exact'] = heavy\nchosen = TABLE['exact']\n"
        '@cb.kernel("float32[::1]")\ndef k(x):\n    x[0] = chosen(x[0])\n'
    )
    before = digests(Found(make_project(m=text)))
    assert digests(Found(make_project(m=text))) == before
    assert digests(Found(make_project(m=text.replace(old, new)))) != before


def test_every_kernel_of_a_factory_has_its_own_constants(make_project: MakeProject) -> None:
    """Of one function made twice, each is its own device function, whatever was compiled before."""
    text = HEAD + (
        "def make(n):\n    def inner(a):\n        return a * n\n    return inner\n"
        "two, four = (make(n) for n in (2, 4))\n"
        '@cb.kernel("float32[::1]")\ndef k2(x):\n    x[0] = two(x[0])\n'
        '@cb.kernel("float32[::1]")\ndef k4(x):\n    x[0] = four(x[0])\n'
    )
    values = Found(make_project(m=text)).values
    assert (values["m:k2"]["two/n"], values["m:k4"]["four/n"]) == ("2", "4")


def test_the_order_in_which_modules_are_imported_does_not_count(make_project: MakeProject) -> None:
    kernel = '@cb.kernel("float32[::1]")\ndef k(x):\n    x[0] = N\n'
    names = {"pkg__a": "from .c import N\n", "pkg__b": "from .c import N\n", "pkg__c": "N = 3\n"}
    texts = {name: HEAD + text + (kernel if "N = " not in text else "") for name, text in names.items()}
    orders = ["from . import a, b\n", "from . import b, a\n", "from . import c, b\nfrom . import a\n", ""]
    found = [digests(Found(make_project(pkg=order, **texts))) for order in orders]
    assert found[0]
    assert all(one == found[0] for one in found)


@pytest.mark.parametrize("part", sorted(TOOLS))
def test_every_part_of_the_toolchain_is_in_the_key(part: str) -> None:
    """An upgrade of this package (``compiler``), of llvmlite or of another tool makes new entries."""
    fingerprint = one_fingerprint()
    target = TARGETS["sm_80"]
    other = {**TOOLS, part: TOOLS[part] + "1"}
    assert image_key(fingerprint, target, 32, DEFAULT_OPTIONS, TOOLS, "") != image_key(
        fingerprint, target, 32, DEFAULT_OPTIONS, other, ""
    )


def test_what_names_the_toolchain_names_no_place(built: Built) -> None:
    """The same tools through a link, or unpacked elsewhere, are the same tools."""
    for target in built.index["targets"].values():
        assert {"compiler", "llvmlite"} <= set(target["toolchain"])
        assert not any(os.sep in text for text in target["toolchain"].values())


def test_close_targets_have_their_own_keys_and_archives(built: Built) -> None:
    fingerprint = one_fingerprint()
    pairs = [("sm_90", "sm_90a"), ("sm_120", "sm_121"), ("sm_100a", "sm_100f"), ("compute_90", "sm_90")]
    for one, other in pairs:
        keys = {image_key(fingerprint, TARGETS[name], 32, DEFAULT_OPTIONS, TOOLS, "") for name in (one, other)}
        assert len(keys) == 2, (one, other)
    assert {"sm_90.cuar", "sm_90a.cuar"} <= set(built.bytes())
    for name in ("sm_90", "sm_90a"):
        assert {record.target for record in Archive(str(built.folder / f"{name}.cuar")).records()} == {name}


@pytest.mark.parametrize("name", OPTION_SETTINGS)
def test_every_option_of_the_build_changes_the_key(name: str) -> None:
    settings = {"debug": True, "fastmath": True, "fma": False, "lineinfo": True, "max_registers": 32}
    plain = BuildSettings((TARGETS["sm_80"],)).options_of("m", "k", Options({}))
    changed = BuildSettings((TARGETS["sm_80"],), **{name: settings[name]}).options_of("m", "k", Options({}))  # type: ignore[arg-type]
    assert plain.values != changed.values
    keys = {image_key(one_fingerprint(one), TARGETS["sm_80"], 32, one, TOOLS, "") for one in (plain, changed)}
    assert len(keys) == 2


def test_every_attribute_of_a_launch_survives(built: Built) -> None:
    for target in ("sm_80", "sm_90a", "compute_75"):
        archive = Archive(str(built.folder / f"{target}.cuar"))
        records = {record.qualname: record for record in archive.records()}
        assert records["cooperative"].attributes["cooperative"]
        assert not records["bounded"].attributes.get("cooperative")
        assert records["bounded"].options["launch_bounds"] == (128, 2)
        assert records["bounded"].options["max_registers"] == 40


def test_a_build_in_another_folder_or_through_a_link_gives_the_same_bytes(small: Built, tmp_path: Path) -> None:
    small.build()
    before = small.bytes()
    elsewhere = write_project(tmp_path / "pip-build-env-x7" / "a b ü")
    (elsewhere / "pyproject.toml").write_text((small.root / "pyproject.toml").read_text())
    link = tmp_path / "link"
    link.symlink_to(elsewhere, target_is_directory=True)
    for number, root in enumerate((elsewhere, link)):
        small.root, small.out = root, tmp_path / f"out {number}"
        small.build(CUDABUILD_CACHE_DIR=str(tmp_path / f"cache {number}"))
        assert small.bytes() == before


def test_two_wheels_without_cleaning_are_the_same(small: Built, tmp_path: Path, setuptools: Setuptools) -> None:
    wheels = [setuptools.hook(small.root, "build_wheel", tmp_path / f"wheel {n}", **small.variables) for n in (1, 2)]
    names = [sorted(zipfile.ZipFile(wheel).namelist()) for wheel in wheels]
    assert names[0] == names[1]
    assert len(set(names[0])) == len(names[0])
    assert [name for name in names[0] if name.endswith(".cuar")] == ["faulty/_cudabuild/sm_80.cuar"]
    assert wheels[0].read_bytes() == wheels[1].read_bytes()


# D. Places and permissions


@pytest.mark.parametrize("home", ["/", "", "/nonexistent", None], ids=["root", "empty", "missing", "unset"])
def test_a_build_needs_no_home(home: str | None, small: Built, tmp_path: Path) -> None:
    """With a home that is the root, empty, missing or unset, and a temporary folder, a build works as ever."""
    code = (
        "import os, sys; sys.argv[0] = 'cudabuild'\n"
        "for name in ('HOME', 'XDG_CACHE_HOME', 'USER', 'LOGNAME', 'CUDABUILD_CACHE_DIR'): os.environ.pop(name, None)\n"
        + (f"os.environ['HOME'] = {home!r}\n" if home is not None else "")
        # Never into such a home itself: to root it is as good as any other. See ``tests/cases/test_places.py``.
        + f"os.environ['XDG_CACHE_HOME'] = {'/proc/none' if home == '/' else str(tmp_path / 'own')!r}\n"
        + "from cudabuild.__main__ import main; sys.exit(main(sys.argv[1:]))"
    )
    output = small.setuptools.python("-c", code, "build", "--out", str(small.out), cwd=small.root)
    assert "4 images compiled" in output or "4 from the cache" in output
    assert len(list_images(small.folder)) == 4


def test_a_build_without_a_writable_place_for_its_cache(small: Built, tmp_path: Path) -> None:
    blocked = tmp_path / "a file"
    blocked.write_text("not a folder")
    compiled, _ = small.build(CUDABUILD_CACHE_DIR=str(blocked / "cache"))
    assert compiled == 4
    assert len(list_images(small.folder)) == 4
    assert "Traceback" not in small.output


# E. Architectures and drivers


def test_every_kernel_has_an_image_for_every_target_and_width(built: Built) -> None:
    names = {"scaled", "bounded", "cooperative", LONG}
    targets = {"sm_75", "sm_80", "sm_90", "sm_90a", "compute_75"}
    expected = {(name, "float32[::1]", target, width) for name in names for target in targets for width in (32, 64)}
    assert list_images(built.folder) == expected


def test_shipped_ptx_is_for_the_oldest_driver_that_can_take_it(built: Built) -> None:
    """PTX of a newer version than the driver's is refused by it, and the newest GPUs are served by PTX alone."""
    assert {name for name in built.index["targets"] if name.startswith("compute")} == {"compute_75"}
    for record in Archive(str(built.folder / "compute_75.cuar")).records():
        text = bytes(record.load_image("shipped", with_checks=True).data).decode()
        assert ".version 7.0" in text  # CUDA 11.0, see below
        assert ".target sm_75" in text
    assert built.index["targets"]["compute_75"]["minimum_driver"] == 11000


def test_what_is_built_does_not_depend_on_the_gpus_of_the_machine(small: Built) -> None:
    """For a target that no GPU here is of, with the GPUs hidden, and with a device chosen."""
    small.build()
    before = small.bytes()
    for variables in ({"CUDA_VISIBLE_DEVICES": ""}, {"CUDABUILD_DEVICE": "cpu"}):
        small.build(**variables)
        assert small.bytes() == before


# G. Code without files


def test_kernels_made_by_exec(make_project: MakeProject) -> None:
    text = HEAD + (
        "TEXT = 'def {name}(x):\\n    x[0] = 1\\n'\nscope = {}\n"
        "exec(TEXT.format(name='nowhere'), scope)\nnowhere = cb.kernel('float32[::1]')(scope['nowhere'])\n"
        "exec(TEXT.format(name='no_text'))\nno_text = cb.kernel('float32[::1]')(no_text)\n"
        "exec(TEXT.format(name='told'))\n"
        "told = cb.kernel('float32[::1]', source=TEXT.format(name='told'))(told)\n"
    )
    found = Found(make_project(m=text))
    assert set(found.values) == {"m:told"}
    assert {name: kernel.left.kind for name, kernel in found.kernels.items() if kernel.left is not None} == {
        "m:nowhere": "no-text",
        "m:no_text": "no-text",
    }
    assert all("source=TEXT" in kernel.left.remedies[1] for kernel in found.kernels.values() if kernel.left is not None)


# H. Path length


def test_names_of_kernels_are_no_part_of_any_path(built: Built, tmp_path: Path) -> None:
    assert len(LONG) > 200
    for root in (built.out, Path(built.variables["CUDABUILD_CACHE_DIR"])):
        parts = [part for path in root.rglob("*") for part in path.relative_to(root).parts]
        assert parts
        assert max(map(len, parts)) <= 100
        assert not any("a_kernel_whose_name" in part for part in parts)


# J. Build step


def test_a_missing_heavy_package_costs_the_kernels_that_need_it_and_no_others(small: Built) -> None:
    package = small.root / "faulty"
    (package / "__init__.py").write_text("import torch_that_is_not_here as torch\nfrom .plots import draw\n")
    (package / "plots.py").write_text(
        "import torch_that_is_not_here as torch\nLIMIT = torch.finfo(torch.float32).max\n\n\ndef draw():\n    pass\n"
    )
    kernels = (package / "kernels.py").read_text()
    needs = '\n\n@cb.kernel("float32[::1]")\ndef needs(x):\n    x[0] = LIMIT\n'
    (package / "kernels.py").write_text(kernels + "\n\nfrom .plots import LIMIT\n" + needs)
    assert small.build() == (4, 0)
    (left,) = find_left(small.index)
    assert (left.qualname, left.file, left.line, left.name) == ("needs", "faulty/plots.py", 1, "LIMIT")
    assert "torch_that_is_not_here" in small.output
    done = small.setuptools.attempt("-m", "cudabuild", "build", "--strict", cwd=small.root, **small.variables)
    assert done.returncode == 1
    assert "faulty/plots.py:1: imports 'torch_that_is_not_here'" in done.stderr


def one_fingerprint(options: Options = DEFAULT_OPTIONS) -> Any:
    def k(x: Any) -> None:
        x[0] = 1

    from cudabuild.definition import KernelDefinition

    definition = KernelDefinition(k, "float32[::1]", None, options)
    return compute_fingerprint(definition, definition.signatures[0], options)
