# SPDX-License-Identifier: Apache-2.0
"""The setuptools command in every mode, on a project of one small kernel."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from build_helpers import Setuptools, list_images

from cudabuild.image.left import find_left

KERNEL = """\
import cudabuild as cb
import not_installed_anywhere
from .sizes import N

@cb.kernel("float32[::1]")
def k(x):
    x[0] = N
"""

PYPROJECT = """\
[build-system]
requires = ["setuptools", "cudabuild[build]"]
build-backend = "setuptools.build_meta"
[project]
name = "tiny"
version = "1"
[tool.setuptools.packages.find]
where = ["src"]
[tool.cudabuild]
archs = ["80"]
ptx = "none"
index = "64"
"""

IMAGE = {("k", "float32[::1]", "sm_80", 64)}


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    root = tmp_path / "päckage tree"  # a space and a letter that is not ASCII
    package = root / "src" / "tiny"
    package.mkdir(parents=True)
    (root / "pyproject.toml").write_text(PYPROJECT, encoding="utf-8")
    (package / "__init__.py").write_text("import not_installed_anywhere\n", encoding="utf-8")
    (package / "kernels.py").write_text(KERNEL, encoding="utf-8")
    (package / "sizes.py").write_text("N = 4\nN *= 2\n", encoding="utf-8")
    return root


def unpack(wheel: Path, out: Path) -> Path:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(out)
    return out


def test_wheel(tiny: Path, tmp_path: Path, setuptools: Setuptools) -> None:
    wheel = setuptools.hook(tiny, "build_wheel", tmp_path / "out")
    assert wheel.name == "tiny-1-py3-none-any.whl"
    site = unpack(wheel, tmp_path / "site")
    assert list_images(site) == IMAGE
    names = sorted(path.name for path in (site / "tiny" / "_cudabuild").iterdir())
    assert names == ["index.json", "sm_80.cuar"]
    assert "Root-Is-Purelib: true" in (site / "tiny-1.dist-info" / "WHEEL").read_text()
    assert "tiny/_cudabuild/sm_80.cuar" in (site / "tiny-1.dist-info" / "RECORD").read_text()
    index = json.loads((site / "tiny" / "_cudabuild" / "index.json").read_text(encoding="utf-8"))
    (kernel,) = index["kernels"]
    assert (kernel["module"], kernel["qualname"], kernel["free_values"]) == ("tiny.kernels", "k", {"N": "8"})
    assert str(tmp_path) not in json.dumps(index)


def test_other_architectures_leave_nothing_stale(tiny: Path, tmp_path: Path, setuptools: Setuptools) -> None:
    setuptools.hook(tiny, "build_wheel", tmp_path / "one", CUDABUILD_ARCHS="80 86")
    setuptools.python("-m", "cudabuild", "build", "--archs", "89", cwd=tiny)
    wheel = setuptools.hook(tiny, "build_wheel", tmp_path / "two", CUDABUILD_ARCHS="75")
    targets = {target for _, _, target, _ in list_images(unpack(wheel, tmp_path / "site"))}
    assert targets == {"sm_75"}


def test_nothing_stays_of_a_package_that_lost_its_kernels(tiny: Path, tmp_path: Path, setuptools: Setuptools) -> None:
    setuptools.python("-m", "cudabuild", "build", cwd=tiny)
    folder = tiny / "src" / "tiny" / "_cudabuild"
    assert sorted(path.name for path in folder.iterdir()) == [".gitignore", "index.json", "sm_80.cuar"]
    (tiny / "src" / "tiny" / "kernels.py").write_text("", encoding="utf-8")
    assert "no kernels found" in setuptools.python("-m", "cudabuild", "build", cwd=tiny)
    assert not folder.exists()


def test_sdist_holds_no_archive(tiny: Path, tmp_path: Path, setuptools: Setuptools) -> None:
    (tiny / "MANIFEST.in").write_text("graft src\n", encoding="utf-8")
    setuptools.python("-m", "cudabuild", "build", cwd=tiny)
    sdist = setuptools.hook(tiny, "build_sdist", tmp_path / "out")
    with tarfile.open(sdist) as archive:
        names = archive.getnames()
        sources = archive.extractfile("tiny-1/src/tiny.egg-info/SOURCES.txt")
        assert sources is not None
        listed = sources.read().decode()
    assert "tiny-1/src/tiny/kernels.py" in names
    assert not [name for name in names if "_cudabuild" in name]
    assert "_cudabuild" not in listed


def test_editable_lenient_writes_beside_the_modules(tiny: Path, tmp_path: Path, setuptools: Setuptools) -> None:
    setuptools.hook(tiny, "build_editable", tmp_path / "out")
    folder = tiny / "src" / "tiny" / "_cudabuild"
    assert list_images(folder) == IMAGE
    assert (folder / ".gitignore").read_text() == "*\n"


def test_editable_strict_leaves_the_tree_clean(tiny: Path, tmp_path: Path, setuptools: Setuptools) -> None:
    setuptools.hook(tiny, "build_editable", tmp_path / "out", '{"editable-mode": "strict"}')
    assert not (tiny / "src" / "tiny" / "_cudabuild").exists()
    (links,) = (tiny / "build").glob("__editable__*")
    assert list_images(links) == IMAGE


def test_build_ext_inplace(tiny: Path, setuptools: Setuptools) -> None:
    code = "from setuptools import setup; setup()"
    setuptools.python("-c", code, "build_ext", "--inplace", cwd=tiny)
    assert list_images(tiny / "src") == IMAGE


def test_command_options(tiny: Path, tmp_path: Path, setuptools: Setuptools) -> None:
    (tiny / "setup.cfg").write_text("[build_cuda]\narchs = 86\n", encoding="utf-8")
    output = setuptools.python("-m", "cudabuild", "build", "--out", str(tmp_path / "one"), cwd=tiny)
    assert {image[2] for image in list_images(tmp_path / "one")} == {"sm_86"}
    assert "targets sm_86 (archs from [build_cuda] of setup.cfg)" in output
    arguments = ["--archs", "90", "--ptx", "newest", "--index", "both", "-j", "1", "--out", str(tmp_path / "two")]
    output = setuptools.python("-m", "cudabuild", "build", *arguments, cwd=tiny)
    assert {image[2:] for image in list_images(tmp_path / "two")} == {
        (target, width) for target in ("sm_90", "compute_90") for width in (32, 64)
    }
    assert "targets sm_90, compute_90 (archs from the command line); index width 32 and 64" in output
    assert "1 kernel with 1 signature: 4 images compiled, 0 from the cache" in output


def test_the_cache_serves_the_second_build(tiny: Path, tmp_path: Path, setuptools: Setuptools) -> None:
    cache = str(tmp_path / "cache")
    one = ("-m", "cudabuild", "build", "--out", str(tmp_path / "one"))
    assert "1 image compiled, 0 from" in setuptools.python(*one, cwd=tiny, CUDABUILD_CACHE_DIR=cache)
    kernels = tiny / "src" / "tiny" / "kernels.py"
    kernels.write_text("# another line\n" + KERNEL, encoding="utf-8")
    assert "0 images compiled, 1 from" in setuptools.python(*one, cwd=tiny, CUDABUILD_CACHE_DIR=cache)
    (tiny / "src" / "tiny" / "sizes.py").write_text("N = 9\n", encoding="utf-8")
    assert "1 image compiled, 0 from" in setuptools.python(*one, cwd=tiny, CUDABUILD_CACHE_DIR=cache)


def test_all_errors_of_a_project_in_one_go(tiny: Path, tmp_path: Path, setuptools: Setuptools) -> None:
    package = tiny / "src" / "tiny"
    (package / "kernels.py").write_text(
        KERNEL + '@cb.kernel("float32[::1]")\ndef bad_name(x):\n    x[0] = nonsense\n'
        '@cb.kernel("float33[::1]")\ndef bad_signature(x):\n    x[0] = 1\n',
        encoding="utf-8",
    )
    (package / "more.py").write_text(
        'import cudabuild as cb\n@cb.kernel("float32[::1]")\ndef bad_statement(x):\n    with x:\n        pass\n',
        encoding="utf-8",
    )
    done = setuptools.attempt("-m", "cudabuild", "build", "--out", str(tmp_path / "out"), cwd=tiny)
    assert done.returncode == 1
    assert "error: 3 kernel errors; nothing was written" in done.stderr
    assert "src/tiny/kernels.py:10: " in done.stderr
    assert "10 | x[0] = nonsense" in done.stderr
    assert "src/tiny/kernels.py:11: bad_signature: bad signature\n  float33[::1]\n  ^" in done.stderr
    assert "src/tiny/more.py:4: " in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()
    wheel = setuptools.attempt(
        "-c", "import setuptools.build_meta as b; b.build_wheel('.')", cwd=tiny, CUDABUILD_ARCHS="80"
    )
    assert wheel.returncode == 1
    assert "error: 3 kernel errors" in wheel.stderr
    assert "Traceback" not in wheel.stderr


def test_left_to_jit_is_told_and_strict_makes_it_an_error(tiny: Path, tmp_path: Path, setuptools: Setuptools) -> None:
    kernels = tiny / "src" / "tiny" / "kernels.py"
    kernels.write_text(KERNEL + "@cb.kernel\ndef no_signature(x):\n    x[0] = 1\n", encoding="utf-8")
    reason = "src/tiny/kernels.py:9: it declares no signature"
    output = setuptools.python("-m", "cudabuild", "build", "--out", str(tmp_path / "out"), cwd=tiny)
    assert f"left to JIT: tiny.kernels:no_signature: {reason}" in output
    index = json.loads((tmp_path / "out" / "tiny" / "_cudabuild" / "index.json").read_text(encoding="utf-8"))
    (left,) = find_left(index)
    assert (left.module, left.qualname, left.kind, left.statement) == (
        "tiny.kernels", "no_signature", "no-signature", "def no_signature(x):",
    )  # fmt: skip
    assert str(left) == reason
    done = setuptools.attempt("-m", "cudabuild", "build", "--strict", cwd=tiny)
    assert done.returncode == 1
    assert f"error: 1 kernel error; nothing was written\n\n{reason} (strict)" in done.stderr


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('archs = ["80"]', 'archs = ["81"]', "no such target\n  found:    '81'"),
        ('index = "64"', 'indx = "64"', "unknown setting in [tool.cudabuild]"),
    ],
)
def test_wrong_settings_end_the_build(tiny: Path, setuptools: Setuptools, old: str, new: str, message: str) -> None:
    (tiny / "pyproject.toml").write_text(PYPROJECT.replace(old, new), encoding="utf-8")
    done = setuptools.attempt("-c", "import setuptools.build_meta as b; b.build_wheel('.')", cwd=tiny)
    assert done.returncode == 1
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_other_projects_are_not_touched(tiny: Path, tmp_path: Path, setuptools: Setuptools) -> None:
    text = PYPROJECT.partition("[tool.cudabuild]")[0].replace(', "cudabuild[build]"', "")
    (tiny / "pyproject.toml").write_text(text, encoding="utf-8")
    code = (
        "import sys, setuptools.build_meta as b; b.build_wheel('.'); "
        "print('loaded', [m for m in sys.modules if m.startswith('cudabuild.') and not m.startswith('cudabuild.imp')])"
    )
    output = setuptools.python("-c", code, cwd=tiny)
    assert "loaded ['cudabuild.build', 'cudabuild.build.hooks', 'cudabuild.build.command']" in output
    (wheel,) = tiny.glob("*.whl")
    assert not [name for name in zipfile.ZipFile(wheel).namelist() if "_cudabuild" in name]


@pytest.mark.parametrize(
    ("files", "tables", "folder"),
    [
        ({"single.py": KERNEL}, '[tool.setuptools]\npy-modules = ["single"]\n', "_cudabuild_single"),
        (
            {"src/space/part/__init__.py": "", "src/space/part/kernels.py": KERNEL},
            '[tool.setuptools.packages.find]\nwhere = ["src"]\n',
            "space/part/_cudabuild",
        ),
        (
            {"src/space/alone.py": KERNEL},
            '[tool.setuptools.packages.find]\nwhere = ["src"]\n',
            "space/_cudabuild_alone",
        ),
        (
            {"lib/__init__.py": "", "lib/kernels.py": KERNEL},
            '[tool.setuptools]\npackages = ["renamed"]\npackage-dir = { renamed = "lib" }\n',
            "renamed/_cudabuild",
        ),
    ],
    ids=["single module", "namespace package", "module in a namespace", "package_dir"],
)
def test_layouts(tmp_path: Path, setuptools: Setuptools, files: dict[str, str], tables: str, folder: str) -> None:
    root = tmp_path / "project"
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("from .sizes import N", "N = 8"), encoding="utf-8")
    head, _, tail = PYPROJECT.partition("[tool.setuptools.packages.find]")
    (root / "pyproject.toml").write_text(head + tables + "[tool" + tail.partition("[tool")[2], encoding="utf-8")
    site = unpack(setuptools.hook(root, "build_wheel", tmp_path / "out"), tmp_path / "site")
    assert list_images(site / folder) == list_images(site) == IMAGE


def test_a_worker_that_dies_is_told_by_its_kernel(tiny: Path, tmp_path: Path, setuptools: Setuptools) -> None:
    hook = tmp_path / "hook"
    hook.mkdir()
    # A compiler that ends the process, as LLVM does when it meets what it cannot select.
    (hook / "sitecustomize.py").write_text(
        "import sys\n"
        "if '-c' in sys.orig_argv and 'cudabuild.build.worker' in sys.orig_argv[2]:\n"
        "    import os, cudabuild.compiler as c\n"
        "    make = c.compile_images\n"
        "    c.compile_images = lambda d, *a, **k: os._exit(3) if d.qualname == 'dies' else make(d, *a, **k)\n",
        encoding="utf-8",
    )
    kernels = tiny / "src" / "tiny" / "kernels.py"
    kernels.write_text(KERNEL + '@cb.kernel("float32[::1]")\ndef dies(x):\n    x[0] = 1\n', encoding="utf-8")
    arguments = ("-m", "cudabuild", "build", "-j", "1", "--out", str(tmp_path / "out"))
    done = setuptools.attempt(*arguments, cwd=tiny, path=[hook])
    assert done.returncode == 1
    assert "tiny.kernels:dies(float32[::1]) for sm_80: the process that compiled it ended with status 3" in done.stderr
    assert "1 kernel error" in done.stderr


def test_a_worker_that_cannot_start_ends_the_build(tiny: Path, tmp_path: Path, setuptools: Setuptools) -> None:
    hook = tmp_path / "hook"
    hook.mkdir()
    (hook / "sitecustomize.py").write_text(
        "import os, sys\nif '-c' in sys.orig_argv and 'cudabuild.build.worker' in sys.orig_argv[2]:\n    os._exit(9)\n",
        encoding="utf-8",
    )
    done = setuptools.attempt("-m", "cudabuild", "build", cwd=tiny, path=[hook])
    assert done.returncode == 1
    assert "error: the process that looks for kernels ended with status 9" in done.stderr
    assert "Traceback" not in done.stderr


def test_nothing_of_the_build_needs_a_terminal_or_a_home(tiny: Path, tmp_path: Path, setuptools: Setuptools) -> None:
    environment = {"HOME": "/", "CUDABUILD_CACHE_DIR": str(tmp_path / "missing" / "\0".strip("\0") / "cache")}
    (tmp_path / "missing").write_text("a file where the cache's parent should be", encoding="utf-8")
    output = setuptools.python("-m", "cudabuild", "build", "--out", str(tmp_path / "out"), cwd=tiny, **environment)
    assert "1 image compiled" in output
    assert list_images(tmp_path / "out") == IMAGE


def test_help() -> None:
    command = [sys.executable, "-m", "cudabuild", "build", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "--inplace" in done.stdout
    assert "--archs" in done.stdout


SETUP = """\
from setuptools import setup

setup(name="tiny", version="1", packages=["tiny"], package_dir={{"": "src"}}, cuda_kernels={value})
"""


def test_a_project_with_a_setup_script_only(tiny: Path, tmp_path: Path, setuptools: Setuptools) -> None:
    (tiny / "pyproject.toml").unlink()
    (tiny / "setup.cfg").write_text("[build_cuda]\narchs = 80\nptx = none\nindex = 64\n", encoding="utf-8")
    (tiny / "setup.py").write_text(SETUP.format(value=True), encoding="utf-8")
    wheel = setuptools.hook(tiny, "__legacy__.build_wheel", tmp_path / "out")
    assert list_images(unpack(wheel, tmp_path / "site")) == IMAGE
    shutil.rmtree(tiny / "build")  # what setuptools has built once, it ships again
    (tiny / "setup.py").write_text(SETUP.format(value=False), encoding="utf-8")
    wheel = setuptools.hook(tiny, "__legacy__.build_wheel", tmp_path / "none")
    assert not list_images(unpack(wheel, tmp_path / "empty"))


def test_a_bad_value_of_the_setup_keyword(tiny: Path, setuptools: Setuptools) -> None:
    (tiny / "setup.py").write_text(SETUP.format(value="{'archs': [80]}"), encoding="utf-8")
    done = setuptools.attempt("setup.py", "--version", cwd=tiny)
    assert done.returncode == 1
    assert "bad value of cuda_kernels in setup()\n  found:    {'archs': [80]}\n  expected: True or False" in done.stderr
    assert "write settings in [tool.cudabuild] of pyproject.toml, or in [build_cuda] of setup.cfg" in done.stderr
