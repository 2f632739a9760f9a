# SPDX-License-Identifier: Apache-2.0
"""What is told before a launch is what the launch then loads; and how what comes nearest differs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from package_kit import CHECKOUT, KERNEL, START, build_archives, write_files

import cudabuild
from cudabuild.errors import LaunchError, TargetError

#: Kernels in two modules, a class and a function; another module names one of them again.
FILES = {
    "covered/__init__.py": "",
    "covered/plain.py": KERNEL,
    "covered/others.py": """
        from cudabuild import cuda, kernel
        from covered.plain import scale

        class Group:
            @kernel("float32[::1]")
            def inside(x):
                x[cuda.grid(1)] = 1

        @kernel("float32[::1]")
        def fill(x):
            x[cuda.grid(1)] = 2

        @kernel
        def open_ended(x):
            x[cuda.grid(1)] = 3
        """,
    "covered/quiet.py": "VALUE = 1\n",
}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = write_files(tmp_path_factory.mktemp("built"), FILES)
    build_archives(root, "covered/_cudabuild", "covered.plain", "covered.others", archs="sm_80 sm_90 compute_75")
    return root


@pytest.fixture
def package(built: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(built, tmp_path, dirs_exist_ok=True))


def tell(code: str, root: Path, *options: str, **environment: str) -> Any:
    """What a fresh process with a fake GPU prints, as JSON."""
    search = os.pathsep.join(map(str, [root, CHECKOUT]))
    variables = {**os.environ, "PYTHONPATH": search, "CUDABUILD_CACHE_DIR": str(root / "cache"), **environment}
    command = [sys.executable, "-c", f"{START}\nimport json, cudabuild\n{code}", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=variables)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


#: Prints what is told of each overload, and then what its launch loads, on a fake GPU of sys.argv[1]; sys.argv[2] runs
#: before.
COMPARED = """
from cudabuild.runtime.driver import use_driver
fake = fake_driver.FakeDriver((tuple(map(int, sys.argv[1].split("."))),), int(sys.argv[2]))
fake.takes_any_code = True
use_driver(fake)
exec(sys.argv[3])
told = cudabuild.coverage("covered")
calls = len(fake.launches)
from covered import others, plain
loaded = {}
for kernel, arguments in ((plain.scale, (4, Array())), (others.fill, (Array(),))):
    try:
        kernel[1, 32](*arguments)
        loaded[kernel.__name__] = kernel.image_source()
    except cudabuild.NoImageError as error:
        loaded[kernel.__name__] = ""
print(json.dumps([{one.qualname: one.sources[32] for one in told}, loaded, calls, told.problems]))
"""


@pytest.mark.parametrize(
    ("cc", "driver", "before", "settings", "expected"),
    [
        ("9.0", "13000", "", {}, {"scale": "shipped cubin sm_90", "fill": "shipped cubin sm_90"}),
        ("8.6", "13000", "", {}, {"scale": "shipped cubin sm_80", "fill": "shipped cubin sm_80"}),
        ("12.0", "13000", "", {}, {"scale": "shipped ptx compute_75", "fill": "shipped ptx compute_75"}),
        ("9.0", "11080", "", {}, {"scale": "shipped ptx compute_75", "fill": "shipped ptx compute_75"}),
        (
            "9.0", "13000", "import covered.plain; covered.plain.SCALE = 5", {"CUDABUILD_JIT": "never"},
            {"scale": "", "fill": "shipped cubin sm_90"},
        ),
        (
            "9.0", "13000", "import covered.plain; covered.plain.SCALE = 5", {},
            {"scale": "compiled cubin sm_90", "fill": "shipped cubin sm_90"},
        ),
        (
            "9.0", "13000", "", {"CUDABUILD_IMAGES": "ptx"},
            {"scale": "shipped ptx compute_75", "fill": "shipped ptx compute_75"},
        ),
        ("9.0", "13000", "import covered.plain as p; p.SCALE = 5; p.scale.disable_compile()", {}, {"scale": ""}),
    ],
)  # fmt: skip
def test_what_is_told_is_what_a_launch_loads(
    package: Path, cc: str, driver: str, before: str, settings: dict[str, str], expected: dict[str, str]
) -> None:
    told, loaded, calls, problems = tell(COMPARED, package, cc, driver, before, **settings)
    assert {**loaded, **expected} == loaded
    assert {name: told[name] for name in loaded} == loaded
    assert set(told) == {"scale", "fill", "Group.inside"}
    assert (calls, problems) == (0, [])


def test_a_cached_image_is_told_too(package: Path) -> None:
    change = "import covered.plain; covered.plain.SCALE = 5"
    first = tell(COMPARED, package, "9.0", "13000", change)
    assert first[0]["scale"] == first[1]["scale"] == "compiled cubin sm_90"
    second = tell(COMPARED, package, "9.0", "13000", change)
    assert second[0]["scale"] == second[1]["scale"] == "cached cubin sm_90"


def test_a_named_target_needs_no_gpu_and_launches_and_compiles_nothing(package: Path) -> None:
    code = """
found = cudabuild.coverage("covered", target=sys.argv[1])
print(json.dumps([
    {f"{one.module}.{one.qualname}({one.signature})": sorted(set(one.sources.values())) for one in found},
    found.is_precompiled, found.is_covered, str(found).splitlines()[-1],
    sorted({"llvmlite", "cuda.bindings.driver"} & set(sys.modules)),
]))
"""
    told = tell(code, package, "sm_86", CUDABUILD_DEVICE="cpu", CUDABUILD_JIT="never")
    sources, ready, covered, last, heavy = told
    assert sources == {
        "covered.others.Group.inside(float32[::1])": [""],  # as if its build had left it out
        "covered.others.fill(float32[::1])": ["shipped cubin sm_80"],
        "covered.plain.scale(int32, float32[::1])": ["shipped cubin sm_80"],
    }
    assert (ready, covered) == (False, False)
    assert last == "3 overloads: 2 precompiled, 0 compiled on first use, 1 without code"
    assert heavy == []


def test_what_cannot_be_compared_is_told_from_the_archives(package: Path) -> None:
    (package / "covered" / "plain.py").write_text("raise RuntimeError('no such library')\n")
    code = """
found = cudabuild.coverage("covered", target="sm_90")
print(json.dumps([[(one.qualname, one.is_live, one.sources[32]) for one in found], found.problems, found.is_covered]))
"""
    overloads, problems, covered = tell(code, package, CUDABUILD_DEVICE="cpu", CUDABUILD_JIT="never")
    assert ["scale", False, "shipped cubin sm_90"] in overloads
    # others.py imports from it: so neither is there
    assert problems == [
        "covered.others cannot be imported: RuntimeError: no such library",
        "covered.plain cannot be imported: RuntimeError: no such library",
    ]
    assert covered is False


def test_a_package_without_archives_and_one_that_is_not_there(tmp_path: Path) -> None:
    write_files(tmp_path, {"bare/__init__.py": KERNEL})
    code = """
found = cudabuild.coverage("bare", target="sm_90")
try:
    cudabuild.coverage("not_there_at_all", target="sm_90")
except ImportError as error:
    print(json.dumps([str(found), str(error)]))
"""
    told, error = tell(code, tmp_path, CUDABUILD_DEVICE="cpu", CUDABUILD_JIT="never")
    assert told.splitlines() == [
        "bare on a GPU of sm_90, compute capability 9.0, driver for CUDA 13.0",
        "bare.scale(int32, float32[::1])",
        "  nothing",
        "    shipped: bare ships no images",
        "    cache: holds nothing for this device",
        "    ptx: bare ships no images",
        "    compiled: not asked (CUDABUILD_JIT=never)",
        "1 overload: 0 precompiled, 0 compiled on first use, 1 without code",
    ]
    assert "not_there_at_all" in error


def test_without_a_gpu_a_target_must_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from cudabuild.decorators import SERVICES

    class Cpu:
        kind, name = "cpu", "cpu (x86_64, 2 cores)"

    monkeypatch.setattr(SERVICES, "current_device", Cpu)
    with pytest.raises(LaunchError) as told:
        cudabuild.coverage("json")
    assert str(told.value) == (
        "no GPU to tell of\n  found:    the cpu (x86_64, 2 cores)\n  expected: a GPU, or the name of a target\n"
        '  do:       name one, for example target="sm_75"'
    )


@pytest.mark.parametrize("driver", ["new", "12.x", "", "-1", "12.8.1"])
def test_a_driver_is_a_cuda_version(driver: str) -> None:
    with pytest.raises(TargetError) as told:
        cudabuild.coverage("json", target="sm_90", driver=driver)
    assert str(told.value) == (
        f"no such driver\n  found:    {driver!r}\n  expected: the CUDA version that it is for, such as '12.8'"
    )


EXPLAINED = """
import covered.plain as plain
plain.SCALE = 5
print(json.dumps([
    plain.scale.explain(target="90", driver="12.8"),
    plain.scale.explain("int32, float64[::1]", target="90"),
]))
"""


def test_an_explanation_names_the_nearest_and_every_part_that_differs(package: Path) -> None:
    first, second = tell(EXPLAINED, package, CUDABUILD_DEVICE="cpu", CUDABUILD_JIT="never")
    folder = package / "covered" / "_cudabuild"
    assert first.splitlines() == [
        "covered.plain.scale(int32, float32[::1])",
        "  on a GPU of sm_90, compute capability 9.0, driver for CUDA 12.8",
        "  nothing",
        f"    shipped: {folder} ships sm_80, sm_90",
        "    shipped: sm_90 SCALE was 3 when built and is 5 now",
        "    cache: holds nothing for this device",
        "    ptx: compute_75 SCALE was 3 when built and is 5 now",
        "    compiled: not asked (CUDABUILD_JIT=never)",
        "    shipped: nearest is covered.plain:scale(int32, float32[::1]) for sm_90; SCALE: 3 -> 5",
    ]
    assert second.splitlines()[-1] == (
        "    shipped: nearest is covered.plain:scale(int32, float32[::1]) for sm_90; "
        "(signature): int32, float32[::1] -> int32, float64[::1]; SCALE: 3 -> 5"
    )


RECOMPILED = """
use_gpu()
from covered import plain
def launch():
    plain.scale[1, 32](4, Array())
    return plain.scale.image_source()
found = [launch()]
plain.scale.recompile()
found += [plain.scale.image_source(), launch()]
told = plain.scale.explain().splitlines()[2:6]
try:
    import os
    os.environ["CUDABUILD_JIT"] = "never"
    plain.scale.recompile()
except cudabuild.NoImageError as error:
    found.append(str(error))
print(json.dumps([found, told]))
"""


def test_recompile_compiles_and_leaves_the_package_alone(package: Path) -> None:
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in (package / "covered").rglob("*.*")}
    for _ in (1, 2):  # the second time the cache has it, and is not asked
        (first, *later, refused), told = tell(RECOMPILED, package)
        assert first == "shipped cubin sm_90"
        assert later == ["compiled cubin sm_90"] * 2
        assert told == [
            "  compiled cubin sm_90",
            "    shipped: not asked (recompile() was called)",
            "    cached: not asked (recompile() was called)",
            "    ptx: not asked (recompile() was called)",
        ]
        assert "compiled: not asked (CUDABUILD_JIT=never)" in refused
        assert "nearest" not in refused
    after = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in (package / "covered").rglob("*.*")}
    assert {path: after[path] for path in before} == before
    assert list((package / "cache" / "sm_90").glob("*.cuar")), "what was made is kept"


@pytest.mark.parametrize("device", ["cpu", "python"])
def test_recompile_takes_what_a_kernel_reads_now(tmp_path: Path, device: str) -> None:
    write_files(tmp_path, {"live.py": KERNEL})
    code = """
import numpy, live
def launch():
    x = numpy.ones(4, numpy.float32)
    live.scale[1, 4](4, x)
    return float(x[3])
found = [launch()]
live.SCALE = 5
live.scale.recompile()
print(json.dumps([*found, launch(), live.scale.specialize(4, numpy.ones(4, numpy.float32)).is_afresh]))
"""
    assert tell(code, tmp_path, CUDABUILD_DEVICE=device) == [3.0, 5.0, True]
