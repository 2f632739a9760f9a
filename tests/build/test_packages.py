# SPDX-License-Identifier: Apache-2.0
"""Two real packages of different shapes, built into wheels, unpacked and loaded: the sample, and the flat fixture."""

from __future__ import annotations

import hashlib
import json
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from build_helpers import CHECKOUT, Setuptools, copy_project, list_images

from cudabuild.image.left import find_left

#: What the flat fixture imports at run time, and no build environment has.
RUNTIME_ONLY = "EXTRA = 7\n"

FLAT = {
    ("scale_and_clamp", "float32, float32[::1]"),
    ("scale_and_clamp", "float64, float64[::1]"),
    ("smooth", "float32[::1], float32[::1]"),
    ("turn", "float32[::1]"),
    ("Shift.kernel", "int32[::1]"),
    ("annotated", "float32, float32[::1]"),
}

#: Run against an unpacked wheel: binds every kernel as if on four devices, and prints where its image came from.
LOAD = """
import importlib, json, pkgutil, sys
from cudabuild.image.image import DeviceInfo, ImageRequest
from cudabuild.importer.binding import ShippedProvider
from cudabuild.types import format_signature

package = importlib.import_module(sys.argv[1])
for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
    if not found.name.endswith("__main__"):
        importlib.import_module(found.name)
definitions = {}
for module in [m for name, m in sys.modules.items() if name.partition(".")[0] == sys.argv[1]]:
    values = list(vars(module).values())
    values += [inner for value in values if isinstance(value, type) for inner in vars(value).values()]
    for value in values:
        value = getattr(value, "__func__", value)
        if hasattr(value, "py_func") and not value.definition.is_device:
            definitions[value.definition.module, value.definition.qualname] = value.definition
sources, asked = {}, set()
for (_, name), definition in definitions.items():
    for signature in definition.signatures:
        for cc in ((8, 0), (8, 9), (9, 0), (12, 0)):
            for width in (32, 64):
                def fingerprint():
                    asked.add(name)
                    return bytes(32)
                request = ImageRequest(definition, signature, DeviceInfo(cc, 13000), width, fingerprint)
                image = ShippedProvider("cubin").find(request) or ShippedProvider("ptx").find(request)
                key = f"{name}({format_signature(signature)})"
                sources.setdefault(key, []).append(image.source if image else "; ".join(request.notes))
modules = [m for m in ("llvmlite", "cudabuild.compiler", "filelock", "platformdirs") if m in sys.modules]
print("\\n" + json.dumps({"sources": sources, "asked": sorted(asked), "loaded": modules}))
"""


@dataclass(frozen=True)
class Built:
    """A package's wheel, and the folder that it was unpacked into."""

    name: str
    project: Path
    wheel: Path
    site: Path


@pytest.fixture(scope="module")
def stand_ins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stand-ins")
    (folder / "runtime_only.py").write_text(RUNTIME_ONLY, encoding="utf-8")
    return folder


@pytest.fixture(scope="module", params=["cudabuild_sample", "flatkernels"])
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, setuptools: Setuptools) -> Built:
    folder = tmp_path_factory.mktemp(request.param)
    source = CHECKOUT / ("sample_project" if request.param == "cudabuild_sample" else "tests/fixtures/flat")
    project = copy_project(source, folder / "project")
    wheel = setuptools.hook(project, "build_wheel", folder / "out", CUDABUILD_ARCHS="80 90")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return Built(request.param, project, wheel, folder / "site")


def test_every_kernel_for_every_target_in_both_widths(built: Built) -> None:
    images = list_images(built.site)
    overloads = {image[:2] for image in images}
    assert images == {
        (*overload, target, width)
        for overload in overloads
        for target in ("sm_80", "sm_90", "compute_80")
        for width in (32, 64)
    }
    if built.name == "flatkernels":
        assert overloads == FLAT
    else:
        assert len({name for name, _ in overloads}) == 8


def test_the_wheel_is_pure_unless_the_project_is_not(built: Built) -> None:
    (metadata,) = built.site.glob("*.dist-info")
    wheel = (metadata / "WHEEL").read_text(encoding="utf-8")
    record = (metadata / "RECORD").read_text(encoding="utf-8")
    archives = [
        f"{built.name}/_cudabuild/{name}" for name in ("compute_80.cuar", "index.json", "sm_80.cuar", "sm_90.cuar")
    ]
    assert all(f"{name},sha256=" in record for name in archives)
    if built.name == "flatkernels":
        assert "Root-Is-Purelib: false" in wheel
        assert (built.site / "flatkernels" / "built_by.txt").read_text() == "flat_build.BuildExt\n"
    else:
        assert built.wheel.name.endswith("-py3-none-any.whl")
        assert "Root-Is-Purelib: true" in wheel


def test_every_kernel_binds_to_its_shipped_image(built: Built, stand_ins: Path, setuptools: Setuptools) -> None:
    output = setuptools.python("-c", LOAD, built.name, cwd=built.site, path=[built.site, stand_ins])
    found = json.loads(output.strip().rpartition("\n")[2])
    assert found["loaded"] == []
    left = ["needs_what_is_missing", "unwanted"] if built.name == "flatkernels" else []
    assert found["asked"] == left  # an untouched image asks for no fingerprint
    sources = {name: each for name, each in found["sources"].items() if name.partition("(")[0] not in left}
    expected = ["shipped cubin sm_80"] * 4 + ["shipped cubin sm_90"] * 2 + ["shipped ptx compute_80"] * 2
    assert {name: each for name, each in sources.items() if each != expected} == {}
    assert set(sources) == {f"{name}({signature})" for name, signature, _, _ in list_images(built.site)}


def test_every_kernel_is_correct_on_the_cpu_device(built: Built, stand_ins: Path, setuptools: Setuptools) -> None:
    output = setuptools.python("-m", built.name, cwd=built.site, path=[built.site, stand_ins], CUDABUILD_DEVICE="cpu")
    last = output.strip().rpartition("\n")[2]
    assert "all correct" in last or "8 kernels, 8 correct" in last


def test_index_says_what_was_left_and_why(built: Built) -> None:
    index = json.loads((built.site / built.name / "_cudabuild" / "index.json").read_text(encoding="utf-8"))
    left = {entry.qualname: entry for entry in find_left(index)}
    if built.name == "cudabuild_sample":
        assert left == {}
        return
    assert set(left) == {"without_signature", "needs_what_is_missing", "make_at_run_time.<locals>.inner"}
    missing = left["needs_what_is_missing"]
    assert (missing.file, missing.line, missing.kind) == ("flatkernels/kernels.py", 8, "import")
    assert missing.reason.startswith("imports 'runtime_only'")
    assert any("'runtime_only' in allow-imports" in remedy for remedy in missing.remedies)
    values = {kernel["qualname"]: kernel["free_values"] for kernel in index["kernels"]}
    numbers = {name: values["scale_and_clamp"][name] for name in ("BIAS", "SCALE", "clamp")}
    assert numbers == {"BIAS": "20", "SCALE": "6", "clamp": "function clamp"}
    assert values["smooth"]["WEIGHTS"] == "(0.5, 0.25, 0.125, 0.25, )"
    assert values["Shift.kernel"]["Shift.OFFSET"] == "5"
    assert [kernel["options"] for kernel in index["kernels"] if kernel["qualname"] == "turn"] == [{"fastmath": True}]


def test_two_builds_are_byte_identical(tmp_path: Path, setuptools: Setuptools) -> None:
    digests = set()
    for number, jobs in enumerate(("1", "3")):
        project = copy_project(CHECKOUT / "sample_project", tmp_path / f"copy {number}")
        (project / "setup.cfg").write_text(f"[build_cuda]\njobs = {jobs}\n", encoding="utf-8")
        environment = {"CUDABUILD_ARCHS": "86", "CUDABUILD_CACHE_DIR": str(tmp_path / f"cache {number}")}
        environment["PYTHONHASHSEED"] = str(number)
        wheel = setuptools.hook(project, "build_wheel", tmp_path / f"out {number}", **environment)
        digests.add(hashlib.sha256(wheel.read_bytes()).hexdigest())
    assert len(digests) == 1
