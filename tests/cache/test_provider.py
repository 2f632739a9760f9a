# SPDX-License-Identifier: Apache-2.0
"""The cached provider: what it answers, and why it does not."""

from __future__ import annotations

import importlib
import itertools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from image_making import make_image

from cudabuild import config
from cudabuild.cache.provider import CacheProvider
from cudabuild.cache.store import Cache
from cudabuild.definition import DEFAULT_OPTIONS, KernelDefinition, Options
from cudabuild.fingerprint import compute_fingerprint, image_key
from cudabuild.image.archive import Archive
from cudabuild.image.image import DeviceInfo, ImageRequest, KernelImage
from cudabuild.target import parse_target
from cudabuild.types import float32

SIGNATURE = (float32[::1],)
TOOLS = {"llvm": "22.1", "nvjitlink": "12.9"}
_numbers = itertools.count()


@pytest.fixture(autouse=True)
def _clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(config, "_warned", set())


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(str(tmp_path / "cache"))


def load(folder: Path, text: str = "N = 4\ndef k(x): x[0] = N\n", name: str = "") -> ModuleType:
    name = name or f"provided_{next(_numbers)}"
    (folder / f"{name}.py").write_text(text, "utf-8")
    importlib.invalidate_caches()
    sys.modules.pop(name, None)
    return importlib.import_module(name)


def keep(cache: Cache, module: ModuleType, target: str = "sm_90", width: int = 32, **changes: Any) -> KernelImage:
    tools, salt = changes.pop("toolchain", TOOLS), changes.pop("salt", "")
    fingerprint = compute_fingerprint(KernelDefinition(module.k), SIGNATURE)
    image = make_image(
        "k", signature="float32[::1]", fingerprint=fingerprint.digest, target=target, index_width=width,
        toolchain=tools, **changes,
    ).stamp(fingerprint)  # fmt: skip
    image.key = image_key(fingerprint, parse_target(target), width, Options(changes.get("options", {})), tools, salt)
    cache.publish(image)
    return image


class Asked:
    def __init__(self, module: ModuleType, cc: tuple[int, int] = (9, 0), width: int = 32) -> None:
        self.count = 0
        self.definition = KernelDefinition(module.k)
        self.request = ImageRequest(self.definition, SIGNATURE, DeviceInfo(cc, 13000), width, self.fingerprint)

    def fingerprint(self) -> bytes:
        self.count += 1
        return compute_fingerprint(self.definition, SIGNATURE).digest


def test_a_hit_needs_no_fingerprint(tmp_path: Path, cache: Cache) -> None:
    module = load(tmp_path)
    kept = keep(cache, module)
    asked = Asked(module)
    image = CacheProvider(Cache(cache.root)).find(asked.request)
    assert image is not None
    assert (bytes(image.data), image.source, asked.count) == (kept.data, "cached cubin sm_90", 0)
    assert asked.request.notes == []


def test_layers_are_searched_by_name_before_a_source_is_parsed(tmp_path: Path, cache: Cache) -> None:
    """An empty cache of the user's over a site cache that holds the image is the usual state in a container."""
    module = load(tmp_path)
    kept = keep(cache, module)
    own = Cache(str(tmp_path / "own"), [cache.root or ""])
    own.publish(make_image("another"))
    asked = Asked(module)
    image = CacheProvider(own).find(asked.request)
    assert image is not None
    assert (bytes(image.data), asked.count) == (kept.data, 0)


def test_an_empty_cache(tmp_path: Path, cache: Cache) -> None:
    asked = Asked(load(tmp_path))
    assert CacheProvider(cache).find(asked.request) is None
    assert asked.request.notes == ["cache: holds nothing for this device"]


def test_a_changed_kernel_is_a_miss_with_its_reason(tmp_path: Path, cache: Cache) -> None:
    module = load(tmp_path)
    keep(cache, module)
    module.N = 5
    asked = Asked(module)
    assert CacheProvider(cache).find(asked.request) is None
    assert asked.request.notes == ["cache: sm_90 N was 4 when built and is 5 now"]


def test_the_best_target_of_the_device(tmp_path: Path, cache: Cache) -> None:
    module = load(tmp_path)
    for target in ("sm_80", "sm_86", "sm_90", "compute_75"):
        keep(cache, module, target)

    def target_for(cc: tuple[int, int]) -> str | None:
        image = CacheProvider(cache).find(Asked(module, cc).request)
        return image.target if image is not None else None

    assert [target_for(cc) for cc in ((9, 0), (8, 6), (8, 0), (8, 9), (7, 5))] == [
        "sm_90", "sm_86", "sm_80", "sm_86", None,
    ]  # fmt: skip


def test_a_64_bit_image_serves_any_launch_and_not_the_other_way_round(tmp_path: Path, cache: Cache) -> None:
    module = load(tmp_path)
    keep(cache, module, width=32)
    asked = Asked(module, width=64)
    assert CacheProvider(cache).find(asked.request) is None
    assert asked.request.notes == ["cache: sm_90 has 32-bit indices only; this launch needs 64"]
    keep(cache, module, width=64)
    widths = []
    for width in (32, 64):
        image = CacheProvider(cache).find(Asked(module, width=width).request)
        assert image is not None
        widths.append(image.index_width)
    assert widths == [32, 64]


@pytest.mark.parametrize(("made", "now"), [("", "mine"), ("mine", ""), ("mine", "yours")])
@pytest.mark.parametrize("toolchain", [None, lambda target: TOOLS])
def test_another_salt_is_a_miss_with_and_without_a_compiler(
    tmp_path: Path, cache: Cache, monkeypatch: pytest.MonkeyPatch, made: str, now: str, toolchain: Any
) -> None:
    module = load(tmp_path)
    keep(cache, module, salt=made)
    for salt in (made, now):
        monkeypatch.setenv("CUDABUILD_CACHE_SALT", salt)
        asked = Asked(module)
        found = CacheProvider(cache, toolchain).find(asked.request)
        assert (found is not None) is (salt == made)
    assert asked.request.notes == ["cache: sm_90 holds it under another CUDABUILD_CACHE_SALT"]


def test_another_toolchain_is_a_miss_where_there_is_a_compiler(
    tmp_path: Path, cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = load(tmp_path)
    keep(cache, module)
    asked = Asked(module)
    newer = {**TOOLS, "llvm": "23.0"}
    assert CacheProvider(cache, lambda target: newer).find(asked.request) is None
    assert asked.request.notes == ["cache: sm_90 holds it made by another toolchain (llvm: 22.1 -> 23.0)"]
    keep(cache, module, toolchain=newer, data=b"newer")
    image = CacheProvider(cache, lambda target: newer).find(Asked(module).request)
    assert image is not None
    assert bytes(image.data) == b"newer"
    (tmp_path / "downgraded" / "llvmlite").mkdir(parents=True)
    monkeypatch.syspath_prepend(str(tmp_path / "downgraded"))
    image = CacheProvider(cache, lambda target: TOOLS).find(Asked(module).request)
    assert image is not None
    assert bytes(image.data) != b"newer"


@pytest.mark.parametrize("toolchain", [None, lambda target: None])
def test_without_a_compiler_the_newest_is_taken(tmp_path: Path, cache: Cache, toolchain: Any) -> None:
    module = load(tmp_path)
    for version in ("22.1", "24.0", "23.0"):
        keep(cache, module, toolchain={"llvm": version}, data=version.encode())
    image = CacheProvider(cache, toolchain).find(Asked(module).request)
    assert image is not None
    assert bytes(image.data) == b"23.0"


@pytest.mark.parametrize("policy", ["shipped", "ptx", "none"])
def test_policies_that_leave_the_cache_out(
    tmp_path: Path, cache: Cache, policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = load(tmp_path)
    keep(cache, module)
    monkeypatch.setenv("CUDABUILD_IMAGES", policy)
    asked = Asked(module)
    assert CacheProvider(cache).find(asked.request) is None
    assert asked.request.notes == [f"cache: not used (CUDABUILD_IMAGES={policy})"]


def test_damaged_bytes_are_a_miss_and_the_next_best_is_taken(
    tmp_path: Path, cache: Cache, capsys: pytest.CaptureFixture[str]
) -> None:
    module = load(tmp_path)
    keep(cache, module, "sm_86")
    keep(cache, module, "sm_80", data=b"whole" * 9)
    (path,) = Path(cache.root or "", "sm_86").glob("seg-*")
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    image = CacheProvider(Cache(cache.root)).find(Asked(module, (8, 6)).request)
    assert image is not None
    assert image.target == "sm_80"
    assert capsys.readouterr().err.count("\n") == 1


def test_the_toolchain_is_asked_once_for_all_processes(
    tmp_path: Path, cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = load(tmp_path)
    keep(cache, module)
    asked: list[str] = []

    def toolchain(target: str) -> dict[str, str]:
        asked.append(target)
        return TOOLS

    for _ in range(3):  # each as a new process would
        provider = CacheProvider(Cache(cache.root), toolchain)
        assert provider.find(Asked(module).request) is not None
        assert provider.find(Asked(module).request) is not None
    assert asked == ["sm_90"]
    (note,) = Path(cache.root or "", "notes").iterdir()
    note.write_bytes(note.read_bytes()[:-1] + b"?")
    assert CacheProvider(Cache(cache.root), toolchain).find(Asked(module).request) is not None
    assert asked == ["sm_90"] * 2, "a damaged note is none"
    (tmp_path / "script").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path / "script"))
    assert CacheProvider(Cache(cache.root), toolchain).find(Asked(module).request) is not None
    assert asked == ["sm_90"] * 2, "the folder of another script holds none"
    (tmp_path / "newly_installed" / "llvmlite").mkdir(parents=True)
    monkeypatch.syspath_prepend(str(tmp_path / "newly_installed"))
    assert CacheProvider(Cache(cache.root), toolchain).find(Asked(module).request) is not None
    assert asked == ["sm_90"] * 3, "another import path may hold other tools"


def test_what_a_compilation_found_out_is_not_asked_again(
    tmp_path: Path, cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cudabuild.cache import toolchain

    module = load(tmp_path)
    keep(cache, module)
    (tmp_path / "cudabuild" / "cache").mkdir(parents=True)
    monkeypatch.setattr(toolchain, "__file__", str(tmp_path / "cudabuild" / "cache" / "toolchain.py"))

    def ask(target: str) -> dict[str, str]:
        asked.append(target)
        return TOOLS

    for is_checkout in (True, False):
        asked: list[str] = []
        (tmp_path / "pyproject.toml").touch() if is_checkout else (tmp_path / "pyproject.toml").unlink()
        fresh = Cache(str(tmp_path / f"cache_{is_checkout}"), [cache.root or ""])
        toolchain.ToolchainMemo(fresh, ask).remember("sm_90", 13000, TOOLS)
        assert CacheProvider(fresh, ask).find(Asked(module).request) is not None
        assert asked == (["sm_90"] if is_checkout else [])


def test_what_identifies_the_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from cudabuild.cache.toolchain import identify_tools

    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    seen = [identify_tools(13000)]
    assert identify_tools(13000) == seen[0]
    (folder / "results.txt").touch()
    assert identify_tools(13000) == seen[0], "a folder without tools may change"
    seen.append(identify_tools(12090))
    (folder / "llvmlite").mkdir()
    seen.append(identify_tools(13000))
    (folder / "llvmlite-99.dist-info").mkdir()
    seen.append(identify_tools(13000))
    monkeypatch.setenv("CUDA_PATH", "/somewhere/else")
    seen.append(identify_tools(13000))
    assert len(set(seen)) == 5


def test_what_identifies_the_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from cudabuild.cache import toolchain

    package = tmp_path / "cudabuild"
    parts = ("compiler.py", "backend/ptx.py", "frontend/impl/bits.py", "ir/passes/cse.pyc")
    for name in (*parts, "cache/toolchain.py", "other.py"):
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_bytes(b"")
    monkeypatch.setattr(toolchain, "__file__", str(package / "cache" / "toolchain.py"))

    def changes(path: Path, change: Callable[[Path], object], whole: bool = False) -> bool:
        """Whether a change is noticed, of a file and a folder that were written long ago."""
        for old in (path, path.parent):
            if old.exists():
                os.utime(old, (1, 1))
        before = toolchain.identify_tools(0, whole)
        change(path)
        return toolchain.identify_tools(0, whole) != before

    def edit(path: Path) -> None:
        path.write_bytes(path.read_bytes() + b"edited")

    def install(path: Path) -> None:
        path.with_name("new").write_bytes(b"installed")
        path.with_name("new").replace(path)

    for is_checkout in (False, True):
        if is_checkout:
            (tmp_path / "pyproject.toml").touch()
        assert not changes(package / "other.py", edit), "it has no say in the code"
        assert changes(package / "other.py", edit, whole=True)
        for name in parts:
            assert changes(package / name, install), name
            assert changes(package / name, edit) or not is_checkout, name
    (tmp_path / "pyproject.toml").unlink()
    assert changes(package / "ir" / "__pycache__", Path.mkdir), "Python has met a source that it had no bytecode of"


def test_every_folder_of_the_compiler_is_looked_at() -> None:
    import cudabuild
    from cudabuild.cache.toolchain import _FOLDERS
    from cudabuild.digest import COMPILER_SOURCES

    root = Path(cudabuild.__file__).parent
    tops = [root / name for name in COMPILER_SOURCES if (root / name).is_dir()]
    found = {path.parent.relative_to(root).as_posix() for top in tops for path in top.rglob("*.py")}
    assert set(_FOLDERS) == found
    assert all((root / name).exists() for name in COMPILER_SOURCES)


def test_notes_stay_few_and_need_no_place(cache: Cache) -> None:
    for number in range(50):
        cache.write_note(f"n{number}", b"x")
    assert len(list(Path(cache.root or "", "notes").iterdir())) == 32
    assert cache.read_note("n49") == b"x"
    assert cache.targets() == []
    Cache(None).write_note("n", b"x")
    assert Cache(None).read_note("n") is None


def test_an_image_of_other_options_is_a_miss(tmp_path: Path, cache: Cache) -> None:
    """Options written by a decorator that is gone, or by a build, are not those of a kernel that writes none."""
    module = load(tmp_path)
    options = DEFAULT_OPTIONS.replace(fma=False)
    definition = KernelDefinition(module.k, options=options)
    fingerprint = compute_fingerprint(definition, SIGNATURE)
    image = make_image("k", signature="float32[::1]", fingerprint=fingerprint.digest, options={"fma": False})
    image.key = image_key(fingerprint, parse_target("sm_90"), image.index_width, options, image.toolchain)
    cache.publish(image.stamp(fingerprint))
    asked = Asked(module)
    assert CacheProvider(cache).find(asked.request) is None
    assert asked.request.notes == ["cache: sm_90 fma was False when built and is True now"]
    unfused = ImageRequest(definition, SIGNATURE, DeviceInfo((9, 0), 13000), 32, lambda: fingerprint.digest)
    assert CacheProvider(cache).find(unfused) is not None
    built_so = CacheProvider(cache, options_of=lambda request: options)
    assert built_so.find(Asked(module).request) is None, "the decorator wrote it then, and does not now"


def test_many_kernels_of_one_name_are_not_all_compared(
    tmp_path: Path, cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A factory made them, or a kernel was edited again and again."""
    module = load(tmp_path)
    for number in range(40):
        module.N = number
        keep(cache, module, symbol=f"k{number}")
    read: list[int] = []
    real = Archive.record

    def counted(self: Archive, number: int) -> Any:
        read.append(number)
        return real(self, number)

    monkeypatch.setattr(Archive, "record", counted)
    for number in (39, 38, 5, 0):
        module.N = number
        read.clear()
        image = CacheProvider(Cache(cache.root)).find(Asked(module).request)
        assert image is not None
        assert image.symbol == f"k{number}"
        assert len(read) <= 20
    module.N = 99
    read.clear()
    assert CacheProvider(Cache(cache.root)).find(Asked(module).request) is None
    assert len(read) <= 20
