# SPDX-License-Identifier: Apache-2.0
"""C. What must not be found, and what must: cached and shipped images against kernels that changed, or did not."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import llvmlite
import pytest
from cases_kit import TOOLS, Array, Machine, age, load, ship
from image_making import make_image
from package_kit import CHECKOUT

from cudabuild.cache.index import Entry, format_index, parse_index
from cudabuild.cache.store import Cache
from cudabuild.definition import OPTIONS
from cudabuild.errors import CudabuildError
from cudabuild.image.archive import Archive, write_archive
from cudabuild.runtime.dispatcher import Dispatcher

KERNEL = "N = 4\ndef k(x):\n    x[0] = N\n"

DEEP = "FACTOR = 2\n\ndef inner(a):\n    return a * FACTOR\n"
MIDDLE = "from case_deep import inner\n\ndef outer(a):\n    return inner(a) + 1\n"
TOP = "from case_middle import outer\n\ndef k(x):\n    x[0] = outer(x[0])\n"


def three_files(folder: Path) -> Any:
    for name, text in (("case_deep", DEEP), ("case_middle", MIDDLE), ("case_top", TOP)):
        if not (folder / f"{name}.py").exists():
            (folder / f"{name}.py").write_text(text)
    for name in ("case_deep", "case_middle"):
        load(folder, name=name)
    return load(folder, name="case_top").k


@pytest.mark.parametrize(("old", "new"), [("FACTOR = 2", "FACTOR = 7"), ("a * FACTOR", "a - FACTOR")])
@pytest.mark.parametrize("shipped", [False, True])
def test_a_helper_two_modules_away_is_edited_with_the_same_size_and_time(
    root: Path, tmp_path: Path, old: str, new: str, shipped: bool
) -> None:
    k = three_files(tmp_path)
    if shipped:
        ship(tmp_path / "_cudabuild_case_top", [k], "sm_90")
    first = Machine(root)
    before = first.launch(k)
    assert bool(first.compiled) is not shipped
    deep = tmp_path / "case_deep.py"
    stat = deep.stat()
    deep.write_text(deep.read_text().replace(old, new))
    os.utime(deep, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert (deep.stat().st_size, deep.stat().st_mtime_ns) == (stat.st_size, stat.st_mtime_ns)
    second = Machine(root)
    after = second.launch(three_files(tmp_path))
    assert after != before
    assert second.compiled == [after]


def test_a_helper_edited_and_imported_again_within_one_process(root: Path, tmp_path: Path) -> None:
    """The file has the same size and time, so nothing that goes by these may be asked for its text."""
    machine = Machine(root)
    module = load(tmp_path, KERNEL, "case_again")
    age(tmp_path / "case_again.py")
    first = machine.launch(module.k)
    (tmp_path / "case_again.py").write_text(KERNEL.replace("= N", "=-N"))
    age(tmp_path / "case_again.py")
    second = machine.launch(load(tmp_path, name="case_again").k)
    assert second != first
    assert Machine(root).launch(load(tmp_path, name="case_again").k) == second


@pytest.mark.parametrize("moment", [1, 2])
def test_a_file_edited_while_it_is_read_poisons_nothing(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: int
) -> None:
    """What was made of the text before must never be found for the text after."""
    from cudabuild.fingerprint import compute

    module = load(tmp_path, KERNEL, "case_between")
    path = tmp_path / "case_between.py"
    age(path)
    real, edited, calls = compute.canonical_form, KERNEL.replace("x[0] = N", "x[0] = N - 1"), []

    def edit(tree: Any) -> Any:
        form = real(tree)
        calls.append(form)
        if len(calls) == moment:
            path.write_text(edited)
            age(path)
        return form

    monkeypatch.setattr(compute, "canonical_form", edit)
    with contextlib.suppress(CudabuildError):  # refused: the text is not the function's any more
        Machine(root).launch(module.k)
    assert len(calls) >= moment
    monkeypatch.undo()
    machine = Machine(root)
    after = machine.launch(load(tmp_path, name="case_between").k)
    fresh = Machine(root.with_name("another cache"))
    assert fresh.launch(load(tmp_path, name="case_between").k) == after
    assert machine.compiled == [after]


def test_a_changed_global_is_another_kernel_and_the_same_one_is_found(root: Path, tmp_path: Path) -> None:
    module = load(tmp_path, KERNEL, "case_global")
    four = Machine(root).launch(module.k)
    module.N = 5
    five = Machine(root)
    assert five.launch(module.k) != four
    assert len(five.compiled) == 1
    module.N = 4
    again = Machine(root)
    assert again.launch(module.k) == four
    assert again.compiled == []


def test_a_function_that_a_table_chooses_counts(root: Path, tmp_path: Path) -> None:
    text = (
        "def light(a):\n    return a\ndef heavy(a):\n    return deep(a * 2)\ndef deep(a):\n    return a + 1\n"
        "TABLE = {'fast': light, 'exact': heavy}\nchosen = TABLE['exact']\ndef k(x):\n    x[0] = chosen(x[0])\n"
    )
    seen = set()
    changes = [("", ""), ("TABLE['exact']", "TABLE['fast']"), ("a * 2", "a * 3"), ("a + 1", "a + 9")]
    for old, new in changes:
        machine = Machine(root)
        seen.add(machine.launch(load(tmp_path, text.replace(old, new), "case_table").k))
        assert len(machine.compiled) == 1
    assert len(seen) == len(changes)


@pytest.mark.parametrize("part", sorted(TOOLS))
def test_another_compiler_makes_new_entries_and_leaves_shipped_images_alone(
    root: Path, tmp_path: Path, part: str
) -> None:
    module = load(tmp_path, KERNEL, "case_tools")
    symbol = Machine(root).launch(module.k)
    newer = Machine(root, tools={**TOOLS, part: f"{TOOLS[part]}.1"})
    assert newer.launch(module.k) == symbol
    assert newer.compiled == [symbol]
    ship(tmp_path / "_cudabuild_case_tools", [module.k], "sm_90")
    upgraded = Machine(root, tools={**TOOLS, part: "99"})
    assert upgraded.launch(module.k) == symbol
    assert upgraded.compiled == []


def test_kernels_of_a_factory_have_their_own_code_in_one_process_and_the_next(root: Path, tmp_path: Path) -> None:
    text = "def make(n):\n    def k(x):\n        x[0] = n\n    return k\n"
    found = []
    for _ in range(2):
        module = load(tmp_path, text, "case_factory")
        machine = Machine(root)
        kernels = [machine.kernel(module.make(n)) for n in (2, 4, 2)]
        for kernel in [*kernels, *kernels]:
            kernel[1, 32](Array())
        symbols = [launch.symbol for launch in machine.fake.launches]
        assert symbols[:3] == symbols[3:]
        assert symbols[0] == symbols[2] != symbols[1]
        found.append((symbols, len(machine.compiled)))
    assert found[0][0] == found[1][0]
    assert [compiled for _, compiled in found] == [2, 0]


OTHER: dict[str, Any] = {"fastmath": True, "fma": False, "literals": "numba", "opt": 0, "lineinfo": True,
                         "max_registers": 32, "launch_bounds": (128, 2, 4), "debug": True}  # fmt: skip


@pytest.mark.parametrize("name", sorted(OTHER))
def test_every_option_of_a_decorator_makes_its_own_image(root: Path, tmp_path: Path, name: str) -> None:
    assert set(OTHER) == {spec.name for spec in OPTIONS}, "a new option needs a value here"
    module = load(tmp_path, KERNEL, "case_options")
    Machine(root).launch(module.k)
    for times in (1, 0):
        machine = Machine(root)
        machine.launch(module.k, **{name: OTHER[name]})
        assert len(machine.compiled) == times
    plain = Machine(root)
    plain.launch(module.k)
    assert plain.compiled == []


def test_digests_that_begin_alike_are_told_apart(root: Path, tmp_path: Path) -> None:
    """31 of 32 bytes are the same in every key, fingerprint and name that is compared."""
    alike = [bytes(31) + bytes([number]) for number in range(64)]
    images = [make_image(f"k{n}", key=one, fingerprint=one) for n, one in enumerate(alike)]
    Cache(str(root)).publish(*images)
    write_archive(tmp_path / "sm_90.cuar", images, "sm_90")
    archive = Archive(str(tmp_path / "sm_90.cuar"))
    index = parse_index(format_index(Entry(one, one, one, n, 7, n) for n, one in enumerate(alike)))
    cache = Cache(str(root))
    for number, one in enumerate(alike):
        found = cache.find(one, "sm_90")
        assert found is not None
        assert found.qualname == f"k{number}"
        (shelf,) = cache.shelves("sm_90")
        assert [record.qualname for record in shelf.find_fingerprint(one)] == [f"k{number}"]
        assert [record.qualname for record in archive.find_fingerprint(one)] == [f"k{number}"]
        assert [entry.number for entry in index.find_name(one)] == [number]
    missing = bytes(31) + b"\xff"
    assert cache.find(missing, "sm_90") is None
    assert archive.find_fingerprint(missing) == []


@pytest.mark.parametrize(("made", "used", "cc"), [("sm_120", "sm_121", (12, 1)), ("sm_90a", "sm_90", (9, 0))])
def test_a_cache_or_archive_copied_to_a_close_target_is_refused(
    root: Path, tmp_path: Path, made: str, used: str, cc: tuple[int, int], capsys: pytest.CaptureFixture[str]
) -> None:
    module = load(tmp_path, KERNEL, "case_close")
    folder = tmp_path / "_cudabuild_case_close"
    ship(folder, [module.k], made)
    (folder / f"{made}.cuar").rename(folder / f"{used}.cuar")
    shutil.copytree(folder, root / used)
    os.chmod(root, 0o700)
    machine = Machine(root, (cc,))
    machine.launch(module.k)
    assert len(machine.compiled) == 1
    assert all(f" for {used}, ".encode() in code for code in machine.fake.given)
    told = capsys.readouterr().err
    assert f"is for {made}, not for {used}" in told
    # The cache of a device of one target, whole, in the place of the other's.
    origin = Machine(root.with_name("origin"), ((12, 0),))
    other = load(tmp_path, KERNEL, "case_closer")
    origin.launch(other.k)
    (root.with_name("origin") / "sm_120").rename(root.with_name("origin") / "sm_121")
    machine = Machine(root.with_name("origin"), ((12, 1),))
    machine.launch(other.k)
    assert len(machine.compiled) == 1
    assert all(b" for sm_121, " in code for code in machine.fake.given)


def test_a_version_installed_over_another_with_older_times_is_seen(root: Path, tmp_path: Path) -> None:
    folder = tmp_path / "_cudabuild_case_wheel"
    found = []
    for number in (1, 2, 1):
        module = load(tmp_path, KERNEL.replace("N = 4", f"N = {number}"), "case_wheel")
        ship(folder, [module.k], "sm_90")
        for path in (tmp_path / "case_wheel.py", folder / "sm_90.cuar"):
            age(path)
        machine = Machine(root)
        found.append(machine.launch(load(tmp_path, name="case_wheel").k))
        assert machine.compiled == []
    assert found[0] == found[2] != found[1]
    for number in (1, 2):  # without archives: by what is compiled here
        load(tmp_path, KERNEL.replace("N = 4", f"N = {number}"), "case_sdist")
        age(tmp_path / "case_sdist.py")
        machine = Machine(root)
        machine.launch(load(tmp_path, name="case_sdist").k)
        assert len(machine.compiled) == 1


TOOLCHAIN = """
import sys
sys.path[:0] = sys.argv[1:]
from cudabuild.compiler import toolchain
from cudabuild.target import parse_target
print([toolchain(parse_target(name)) for name in ("sm_80", "sm_90a", "compute_75")])
"""


def test_tools_that_are_reached_through_a_link_are_the_same_tools(tmp_path: Path) -> None:
    site = str(Path(llvmlite.__file__).parent.parent)
    link = tmp_path / "linked"
    link.symlink_to(site, target_is_directory=True)
    found = []
    for folder in (site, str(link)):
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", TOOLCHAIN, str(CHECKOUT), folder],
            capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        found.append(done.stdout)
    assert found[0] == found[1]
    assert "llvmlite" in found[0]
    assert "nvjitlink" in found[0]
    assert site not in found[0]


def test_the_same_bytes_with_new_times_in_other_places_are_found(root: Path, tmp_path: Path) -> None:
    """Touched, cloned into another folder, and unzipped."""
    first = tmp_path / "first"
    module = load(first, KERNEL, "case_place")
    symbol = Machine(root).launch(module.k)
    path = first / "case_place.py"
    os.utime(path)
    clone = tmp_path / "a clone ü"
    clone.mkdir()
    shutil.copyfile(path, clone / path.name)
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        archive.write(path, path.name)
    with zipfile.ZipFile(tmp_path / "all.zip") as archive:
        archive.extractall(tmp_path / "unzipped")
    age(tmp_path / "unzipped" / path.name)
    for folder in (first, clone, tmp_path / "unzipped"):
        machine = Machine(root)
        assert machine.launch(load(folder, name="case_place").k) == symbol
        assert machine.compiled == []


def test_a_captured_device_function_is_the_same_in_the_next_process(root: Path, tmp_path: Path) -> None:
    text = (
        "from cudabuild import device_function\n@device_function\ndef helper(a):\n    return a + 1\n"
        "def make(f):\n    def k(x):\n        x[0] = f(x[0])\n    return k\nk = make(helper)\n"
    )
    symbol = Machine(root).launch(load(tmp_path, text, "case_captured").k)
    machine = Machine(root)
    assert machine.launch(load(tmp_path, text, "case_captured").k) == symbol
    assert machine.compiled == []


ATTRIBUTES: dict[str, Any] = {"registers": 40, "shared_bytes": 30_000, "local_bytes": 8, "const_bytes": 352,
                              "max_threads": 128, "cooperative": True, "spill_store_bytes": 0}  # fmt: skip


def test_every_attribute_of_a_launch_survives_the_cache(root: Path, tmp_path: Path) -> None:
    module = load(tmp_path, KERNEL, "case_attributes")
    options = {"max_registers": 40, "launch_bounds": (128, 2, 4)}
    seen = []
    for _ in range(2):
        machine = Machine(root)
        machine.attributes = ATTRIBUTES
        kernel: Dispatcher = machine.kernel(module.k, carveout=75, **options)
        kernel[1, 32, 0, 100_000](Array())
        assert machine.fake.cooperative == 1
        assert machine.fake.carveouts == [75]
        assert machine.fake.launches[-1].shared == 100_000
        assert list(machine.fake.max_shared.values()) == [100_000]
        seen.append(len(machine.compiled))
        image = next(iter(kernel._launchers.values()))._bound[0, 32].image
        assert {name: image.attributes[name] for name in ATTRIBUTES} == ATTRIBUTES
        assert image.options == options
    assert seen == [1, 0]
