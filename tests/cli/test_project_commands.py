# SPDX-License-Identifier: Apache-2.0
"""``build``, ``list``, ``inspect`` and ``check`` on a project, on what was built of it, and on a wheel."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import jsonschema
import pytest
from cli_kit import PYPROJECT, attempt, command, json_of, make_project

from cudabuild.cli.output import load_schema

ALL = ["sm_80", "sm_90", "compute_80"]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project that was built in place; tests that change it copy it."""
    root = make_project(tmp_path_factory.mktemp("project") / "root")
    built = json_of("build", cwd=root)
    assert built["ok"]
    (root / "built.txt").write_text(repr(built), encoding="utf-8")
    return root


@pytest.fixture
def copy(built: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(built, tmp_path / "copy"))


def edit(root: Path, file: str, old: str, new: str) -> None:
    path = root / "src" / "mypackage" / file
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


# build


def test_build_tells_what_it_made_as_json(built: Path) -> None:
    values = eval((built / "built.txt").read_text(encoding="utf-8"))
    assert values["targets"] == ALL
    assert values["index_widths"] == [64]
    assert [setting["key"] for setting in values["settings"]] == ["archs", "index"]
    assert values["compiled"] + values["cached"] == len(values["images"]) == 9
    assert {(image["qualname"], image["signature"]) for image in values["images"]} == {
        ("scale", "float32[::1], float32[::1]"), ("count_up", "int32[::1]"), ("count_up", "int64[::1]"),
    }  # fmt: skip
    cubins = [image for image in values["images"] if image["kind"] == "cubin"]
    assert all(image["attributes"]["registers"] > 0 for image in cubins)
    assert {image["options"].get("fastmath", False) for image in cubins if image["qualname"] == "count_up"} == {True}
    (package,) = values["packages"]
    assert (package["name"], package["images"]) == ("mypackage", 9)
    assert Path(package["folder"]).is_dir()
    left = {kernel["qualname"]: kernel["left_to_jit"] for kernel in values["kernels"]}
    assert left["scale"] is None
    assert left["without_signature"]["kind"] == "no-signature"


def test_build_with_errors_as_json(copy: Path) -> None:
    edit(copy, "kernels.py", "SCALE * x[i]", "nonsense * x[i]")
    values = json_of("build", "--out", "out", cwd=copy, status=1)
    assert not values["ok"]
    assert values["packages"] == []
    assert "src/mypackage/kernels.py:10: " in values["errors"][0]
    assert not (copy / "out").exists()


def test_settings_on_the_command_line(copy: Path) -> None:
    edit(copy, "kernels.py", "@kernel\n", '@kernel("int8[::1]")\n')
    values = json_of(
        "build", "--out", "out", "--archs", "86", "--ptx", "none", "--index", "32", "--no-fma", "--max-registers", "32",
        "--exclude", "nothing", "--no-strict", "-j", "1", cwd=copy,
    )  # fmt: skip
    assert {(image["target"], image["index_width"]) for image in values["images"]} == {("sm_86", 32)}
    options = {image["qualname"]: image["options"] for image in values["images"]}
    assert options["scale"] == {"fma": False, "max_registers": 32}
    assert options["count_up"] == {"fastmath": True, "fma": False, "max_registers": 32}
    origins = {setting["key"]: setting["origin"] for setting in values["settings"]}
    assert set(origins.values()) == {"the command line"}
    done = attempt("build", "--out", "out", "--strict", "--archs", "86", cwd=copy)
    assert done.returncode == 0, done.stderr


# list and inspect


def test_list_a_project(built: Path, tmp_path: Path) -> None:
    values = json_of("list", str(built), cwd=tmp_path)
    assert (values["kind"], values["path"], values["targets"]) == ("project", str(built), ALL)
    kernels = {kernel["qualname"]: kernel for kernel in values["kernels"]}
    assert list(kernels) == ["scale", "count_up", "without_signature"]
    assert kernels["scale"]["overloads"] == [
        {
            "signature": "float32[::1], float32[::1]",
            "options": {},
            "free_values": kernels["scale"]["overloads"][0]["free_values"],
        }
    ]
    assert kernels["scale"]["overloads"][0]["free_values"]["SCALE"] == "3"
    assert (kernels["scale"]["file"], kernels["scale"]["line"]) == ("src/mypackage/kernels.py", 7)
    assert [overload["options"] for overload in kernels["count_up"]["overloads"]] == [{"fastmath": True}] * 2
    assert kernels["without_signature"]["left_to_jit"]["line"] == 21
    out = command("list", cwd=built)
    assert "  scale(float32[::1], float32[::1])  src/mypackage/kernels.py:7" in out
    assert "  count_up(int64[::1])               src/mypackage/kernels.py:14  fastmath=True" in out
    assert "reason:   src/mypackage/kernels.py:21: it declares no signature" in out
    assert out.endswith("2 kernels with 3 signatures: 9 images to build; 1 kernel left to JIT\n")


def test_list_tells_errors_and_fails(copy: Path) -> None:
    edit(copy, "kernels.py", '"int32[::1]"', '"int33[::1]"')
    values = json_of("list", cwd=copy, status=1)
    assert "src/mypackage/kernels.py:13: count_up: bad signature" in values["errors"][0]
    assert "error: src/mypackage/kernels.py:13: count_up: bad signature" in command("list", cwd=copy, status=1)


def test_list_and_inspect_what_was_built(built: Path, tmp_path: Path) -> None:
    """By folder, by archive, and by the name of an installed package."""
    folder = built / "src" / "mypackage" / "_cudabuild"
    for what in (str(built / "src"), str(folder), "mypackage"):
        path = {"PYTHONPATH": f"{built / 'src'}:{Path(__file__).resolve().parents[2]}"} if what == "mypackage" else {}
        values = json_of("list", what, cwd=tmp_path, **path)
        assert values["kind"] == "shipped"
        assert [archive["target"] for archive in values["archives"]] == ALL
        assert {(kernel["qualname"], len(kernel["images"])) for kernel in values["kernels"]} == {
            ("scale", 3), ("count_up", 3),
        }  # fmt: skip
        assert [left["qualname"] for left in values["left_to_jit"]] == ["without_signature"]
    assert "left to JIT: mypackage.kernels.without_signature: src/mypackage/kernels.py:21" in command(
        "list", str(folder), cwd=tmp_path
    )
    values = json_of("inspect", str(folder / "sm_90.cuar"), "scale", cwd=tmp_path)
    (image,) = values["images"]
    assert (image["target"], image["kind"], image["free_values"]["SCALE"]) == ("sm_90", "cubin", "3")
    assert image["toolchain"]["llvmlite"]
    assert values["left_to_jit"] == []
    assert len(json_of("inspect", str(folder), cwd=tmp_path)["images"]) == 9


def test_archives_that_are_kept_elsewhere(built: Path, tmp_path: Path) -> None:
    """A package that ships none, and a folder that CUDABUILD_ARCHIVES names."""
    kept = tmp_path / "kept"
    shutil.copytree(built / "src" / "mypackage" / "_cudabuild", kept / "mypackage" / "_cudabuild")
    values = json_of("inspect", "mypackage", "count_up", cwd=tmp_path, CUDABUILD_ARCHIVES=str(kept))
    assert len(values["images"]) == 6
    assert values["images"][0]["archive"].startswith(str(kept))


def test_nothing_to_list(tmp_path: Path) -> None:
    done = attempt("list", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: no project here\n  found:    {tmp_path}\n")


# check


def test_check_says_that_all_is_as_the_sources_are(built: Path) -> None:
    assert command("check", cwd=built) == "up to date: 3 signatures, 9 images\n"
    values = json_of("check", cwd=built)
    assert (values["ok"], values["current_images"], values["problems"]) == (True, 9, [])


def test_check_minds_neither_comments_nor_other_tools(copy: Path) -> None:
    edit(copy, "kernels.py", "i = cuda.grid(1)", "i = cuda.grid(1)  # the thread's number")
    assert command("check", cwd=copy) == "up to date: 3 signatures, 9 images\n"


@pytest.mark.parametrize(
    ("file", "old", "new", "problems"),
    [
        ("sizes.py", "3", "4", [("scale", "changed", ALL, "SCALE was 3 and is 4 now")]),
        ("kernels.py", "SCALE * x[i]", "x[i] * SCALE", [("scale", "changed", ALL, "the code of scale was changed")]),
        (
            "kernels.py",
            'float32[::1]")',
            'float32[::1]", lineinfo=True)',
            [("scale", "changed", ALL, "option lineinfo was nothing and is True now")],
        ),
        (
            "kernels.py",
            ', "int64[::1]"]',
            "]",
            [("count_up", "extra", ALL, "nothing in the sources makes this image any more")],
        ),
        (
            "kernels.py",
            "@kernel\n",
            '@kernel("int8[::1]")\n',
            [("without_signature", "missing", ALL, "no image of it")],
        ),
    ],
)
def test_check_names_what_is_stale(
    copy: Path, file: str, old: str, new: str, problems: list[tuple[str, str, list[str], str]]
) -> None:
    edit(copy, file, old, new)
    values = json_of("check", cwd=copy, status=1)
    found = [(one["qualname"], one["kind"], sorted(one["targets"])) for one in values["problems"]]
    assert found == [(qualname, kind, sorted(targets)) for qualname, kind, targets, _ in problems]
    for one, (*_, reason) in zip(values["problems"], problems, strict=True):
        assert reason in one["reason"]


def test_check_tells_what_to_do(copy: Path) -> None:
    edit(copy, "sizes.py", "3", "4")
    assert command("check", cwd=copy, status=1) == (
        "stale: mypackage.kernels:scale(float32[::1], float32[::1]): SCALE was 3 and is 4 now "
        "[sm_80, sm_90, compute_80]\n1 kernel not as the sources are; 6 images up to date\n"
        "  do:       cudabuild build --inplace\n"
    )


def test_check_of_other_targets_and_damaged_archives(copy: Path) -> None:
    values = json_of("check", "--archs", "90", "--ptx", "none", cwd=copy, status=1)
    assert values["current_images"] == 3
    assert {(one["kind"], tuple(one["targets"]), one["reason"]) for one in values["problems"]} == {
        ("extra", ("compute_80", "sm_80"), "it is not built any more for this target or index width")
    }
    folder = copy / "src" / "mypackage" / "_cudabuild"
    (folder / "sm_80.cuar").write_bytes(b"no archive")
    (folder / "sm_90.cuar").unlink()
    values = json_of("check", cwd=copy, status=1)
    kinds = {(one["kind"], tuple(one["targets"])) for one in values["problems"]}
    assert kinds == {("damaged", ("sm_80",)), ("missing", ("sm_90",))}
    assert values["current_images"] == 3
    command("build", cwd=copy)
    assert json_of("check", cwd=copy)["ok"]


def test_check_what_was_built_elsewhere(copy: Path) -> None:
    shutil.copytree(copy / "src" / "mypackage" / "_cudabuild", copy / "out" / "mypackage" / "_cudabuild")
    assert json_of("check", "--out", "out", cwd=copy)["ok"]
    shutil.rmtree(copy / "src" / "mypackage" / "_cudabuild")
    assert json_of("check", "--out", "out", cwd=copy)["ok"]
    done = command("check", cwd=copy, status=1)
    assert "there is no archive of this target [sm_80, sm_90, compute_80]" in done


def test_check_of_recorded_signatures(copy: Path) -> None:
    """One that cannot be compiled is left to JIT by the build, and no image of it is missing."""
    (copy / "found.toml").write_text(
        '[[kernel]]\nname = "mypackage.kernels:without_signature"\nsignatures = ["float32[::1]", "float32"]\n',
        encoding="utf-8",
    )
    with (copy / "pyproject.toml").open("a", encoding="utf-8") as stream:
        stream.write('signatures = "found.toml"\n')
    problems = json_of("check", cwd=copy, status=1)["problems"]
    assert {one["qualname"] for one in problems} == {"without_signature"}
    built = json_of("build", cwd=copy)
    assert {image["signature"] for image in built["images"] if image["qualname"] == "without_signature"} == {
        "float32[::1]"
    }
    values = json_of("check", cwd=copy)
    assert (values["ok"], values["current_images"]) == (True, 12)


def test_kernels_of_numba_are_told(tmp_path: Path) -> None:
    """They are not ours to build unless the project says so."""
    root = make_project(tmp_path / "root")
    path = root / "src" / "mypackage" / "kernels.py"
    path.write_text(
        "from numba import cuda\n\n@cuda.jit('void(float32[:])')\ndef k(x):\n    x[0] = 1\n", encoding="utf-8"
    )
    values = json_of("list", cwd=root)
    assert values["kernels"] == []
    assert values["notes"] == [
        '1 kernel of numba.cuda in mypackage.kernels left alone: dialect = "numba" in [tool.cudabuild] builds such, '
        "unchanged"
    ]
    values = json_of("list", "--dialect", "numba", cwd=root)
    assert [kernel["qualname"] for kernel in values["kernels"]] == ["k"]
    assert values["notes"] == []


def test_a_project_of_another_back_end(tmp_path: Path) -> None:
    """The commands need no setuptools table: packages are found by their places."""
    root = make_project(tmp_path / "root")
    text = PYPROJECT.replace('[tool.setuptools.packages.find]\nwhere = ["src"]\n', "")
    (root / "pyproject.toml").write_text(
        text.replace("setuptools.build_meta", "hatchling.build").replace("setuptools>=77", "hatchling"),
        encoding="utf-8",
    )
    assert [kernel["module"] for kernel in json_of("list", cwd=root)["kernels"]] == ["mypackage.kernels"] * 3


def test_a_project_with_setup_py_that_prints(tmp_path: Path) -> None:
    root = make_project(tmp_path / "root")
    (root / "setup.py").write_text(
        "from setuptools import setup\nprint('hello from setup.py')\nsetup()\n", encoding="utf-8"
    )
    assert len(json_of("list", cwd=root)["kernels"]) == 3


# wheels


def test_a_finished_wheel(copy: Path) -> None:
    """Archives are added to it; it can be listed, inspected and checked without being installed."""
    (copy / "pyproject.toml").write_text(PYPROJECT.partition("[tool.cudabuild]")[0], encoding="utf-8")
    code = "import setuptools.build_meta as b; b.build_wheel('dist')"
    subprocess.run([sys.executable, "-c", code], cwd=copy, check=True, capture_output=True)
    (wheel,) = (copy / "dist").glob("*.whl")
    assert not any("_cudabuild" in name for name in zipfile.ZipFile(wheel).namelist())
    done = attempt("inspect", str(wheel), cwd=copy)
    assert done.returncode == 1
    assert "error: no archives" in done.stderr
    (copy / "pyproject.toml").write_text(PYPROJECT, encoding="utf-8")
    assert not json_of("check", "--wheel", str(wheel), cwd=copy, status=1)["ok"]
    values = json_of("build", "--wheel", str(wheel), cwd=copy)
    assert [package["folder"] for package in values["packages"]] == ["mypackage/_cudabuild"]
    assert json_of("check", "--wheel", str(wheel), cwd=copy)["current_images"] == 9
    assert [archive["path"] for archive in json_of("list", str(wheel), cwd=copy)["archives"]] == [
        f"{wheel}/mypackage/_cudabuild/{target}.cuar" for target in ALL
    ]
    assert len(json_of("inspect", str(wheel), "scale", cwd=copy)["images"]) == 3
    edit(copy, "kernels.py", "SCALE * x[i]", "x[i]")  # the wheel holds sources of its own
    assert json_of("check", "--wheel", str(wheel), cwd=copy)["ok"]


def test_what_is_no_wheel(tmp_path: Path) -> None:
    (tmp_path / "bad.whl").write_bytes(b"no zip")
    done = attempt("list", "bad.whl", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("error: bad.whl cannot be read as a wheel: ")


# warm and record, whose own tests are in the rooms of what they do


def test_warm_as_json(built: Path, tmp_path: Path) -> None:
    path = f"{built / 'src'}:{Path(__file__).resolve().parents[2]}"
    arguments = ("warm", "mypackage", "--out", "kept", "--archs", "80", "--ptx", "none", "--index", "64")
    values = json_of(*arguments, cwd=tmp_path, PYTHONPATH=path)
    assert len(values["images"]) == 3
    assert (tmp_path / "kept" / "mypackage" / "_cudabuild" / "sm_80.cuar").is_file()


def test_warm_a_site_cache(built: Path, tmp_path: Path) -> None:
    """It is for all users; what is in other caches already is in it too, and its owner's cache is left alone."""
    path = f"{built / 'src'}:{Path(__file__).resolve().parents[2]}"
    environment = {"PYTHONPATH": path, "CUDABUILD_CACHE_DIR": str(tmp_path / "own")}
    arguments = ("warm", "mypackage", "--archs", "80", "--index", "64")
    site = tmp_path / "opt" / "site"
    command(*arguments, cwd=tmp_path, **environment)
    before = sorted((tmp_path / "own").rglob("*"))
    layered = {**environment, "CUDABUILD_SITE_CACHE": str(tmp_path / "own")}
    text = command(*arguments, "--site", "opt/site", cwd=tmp_path, **layered)
    assert f"cudabuild: looked into where CUDABUILD_SITE_CACHE={site}\n" in text
    assert "3 images compiled" in text
    assert sorted((tmp_path / "own").rglob("*")) == before
    read = {**environment, "CUDABUILD_SITE_CACHE": str(site)}
    images = json_of("cache", "list", cwd=tmp_path, **read)["images"]
    assert sorted(image["cache"] for image in images) == [str(site)] * 3 + [str(tmp_path / "own")] * 3
    assert site.stat().st_mode & 0o777 == 0o755
    for shelf in (site / "sm_80", *(site / "sm_80").iterdir()):
        mode = 0o755 if shelf.is_dir() else 0o600 if shelf.name == ".lock" else 0o644
        assert shelf.stat().st_mode & 0o777 == mode, shelf
    site.chmod(0o777)
    done = attempt(*arguments, "--site", "opt/site", cwd=tmp_path, **environment)
    assert done.returncode == 1
    assert done.stderr.startswith(
        f"error: {site} cannot be filled\n  found:    others may write to it\n  expected: a folder that belongs to "
    )


def test_record_as_json(tmp_path: Path) -> None:
    """Standard output is the document; what the command prints goes to standard error."""
    program = "import numpy\nfrom kernels import fill\nfill[1, 4](numpy.zeros(4, 'f4'))\nprint('hello')\n"
    (tmp_path / "program.py").write_text(program, encoding="utf-8")
    (tmp_path / "kernels.py").write_text(
        "from cudabuild import cuda, kernel\n@kernel\ndef fill(x):\n    x[cuda.grid(1)] = 1\n", encoding="utf-8"
    )
    full = ("record", "--json", "--out", "found.toml", "--", sys.executable, "program.py")
    done = attempt(*full, cwd=tmp_path, CUDABUILD_DEVICE="cpu")
    assert done.returncode == 0, done.stderr
    values = json.loads(done.stdout)
    jsonschema.Draft202012Validator(load_schema("record")).validate(values)
    assert (values["new_kernels"], values["new_signatures"], values["status"]) == (1, 1, 0)
    assert "hello" in done.stderr
