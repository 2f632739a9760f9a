# SPDX-License-Identifier: Apache-2.0
"""Whose caches are used, and that nothing in an archive, an index or a note is ever executed."""

from __future__ import annotations

import ast
import os
import stat
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from image_making import make_image

from cudabuild import config
from cudabuild.cache.location import check_private, open_own
from cudabuild.cache.store import Cache
from cudabuild.errors import ImageFormatError, LaunchError
from cudabuild.faults import make_fault

CHECKOUT = Path(__file__).resolve().parent.parent.parent

posix = pytest.mark.skipif(os.name != "posix", reason="modes and owners of POSIX")
as_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root makes files of another user"
)

#: A user that is neither root nor this one.
STRANGER = 54321


@pytest.fixture(autouse=True)
def _warn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "_warned", set())


def found_in(*roots: Path) -> list[bool]:
    """Whether the image is found where a folder is the user's own cache, and where it is a layer below it."""
    key = make_image().key
    caches = [cache for root in roots for cache in (Cache(str(root)), Cache(None, [str(root)]))]
    return [cache.find(key, "sm_90") is not None for cache in caches]


def plant(root: Path) -> Path:
    Cache(str(root)).publish(make_image())
    return root


def shelf_files(root: Path) -> list[Path]:
    return [path for path in (root / "sm_90").iterdir() if path.suffix in (".cuar", ".cuix")]


# owners, modes, links


@posix
@as_root
def test_a_cache_of_another_user_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = plant(tmp_path / "cache")
    assert found_in(root) == [True, True]
    os.chown(root, STRANGER, STRANGER)
    assert found_in(root) == [False, False]
    told = capsys.readouterr().err.splitlines()
    hint = "set CUDABUILD_CACHE_DIR to a folder of your own"
    assert told == [f"cudabuild: the cache {root} is not used: it belongs to another user; {hint}"]
    made = Cache(str(root)).build_once(make_image("other").key, "sm_90", lambda: make_image("other"))
    assert made.qualname == "other"
    assert Cache(str(root)).root is None, "nothing is written there either"


@posix
@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777, 0o770])
@pytest.mark.parametrize("inner", ["", "sm_90"])
def test_a_cache_that_others_may_write_to_is_refused(
    tmp_path: Path, mode: int, inner: str, capsys: pytest.CaptureFixture[str]
) -> None:
    root = plant(tmp_path / "cache")
    (root / inner).chmod(mode)
    before = shelf_files(root)
    assert found_in(root) == [False, False]
    assert "others may write to it" in capsys.readouterr().err
    cache = Cache(str(root))
    cache.publish(make_image("other"))
    assert cache.find(make_image("other").key, "sm_90") is not None, "kept in memory"
    assert sorted(shelf_files(root)) == sorted(before)


@posix
@as_root
@pytest.mark.parametrize("where", ["itself", "above"])
def test_a_link_that_a_stranger_made_is_refused(tmp_path: Path, where: str, capsys: pytest.CaptureFixture[str]) -> None:
    root = plant(tmp_path / "real" / "cache")
    link = tmp_path / "link"
    link.symlink_to(root if where == "itself" else root.parent)
    led = link if where == "itself" else link / "cache"
    assert found_in(led) == [True, True], "a link of one's own is fine"
    os.chown(link, STRANGER, STRANGER, follow_symlinks=False)
    assert found_in(led) == [False, False]
    named = "it" if where == "itself" else str(link)
    assert f"is not used: {named} is a link that belongs to another user" in capsys.readouterr().err


@posix
def test_links_are_followed_as_the_system_does(tmp_path: Path) -> None:
    root = plant(tmp_path / "a" / "real")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "one").symlink_to("../a/../a/two")
    (tmp_path / "a" / "two").symlink_to(root)
    assert check_private(str(tmp_path / "b" / "." / "one" / ".." / "real")) == ""
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    with pytest.raises(OSError, match="Too many levels"):
        check_private(str(tmp_path / "circle"))


@posix
@as_root
def test_a_file_that_a_stranger_put_there_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Into a folder that is private by now."""
    for number in (0, 1):
        root = plant(tmp_path / f"cache{number}")
        path = sorted(shelf_files(root))[number]
        os.chown(path, STRANGER, STRANGER)
        assert found_in(root) == [False, False]
        assert "it belongs to another user" in capsys.readouterr().err
        os.chown(path, 0, 0)
        config._warned.clear()
        assert found_in(root) == [True, True]


@posix
@as_root
def test_root_may_keep_a_layer_for_others_and_no_cache_for_them(tmp_path: Path) -> None:
    """In a process of another user: root's folder is trusted as a layer below, a stranger's as neither."""
    script = textwrap.dedent(f"""
        import os, sys
        sys.path[:0] = [{str(CHECKOUT)!r}, {str(CHECKOUT / "tests")!r}]
        from image_making import make_image
        from cudabuild.cache.store import Cache
        key = make_image().key
        Cache(None, [sys.argv[2]]).find(key, "sm_90")
        os.setuid(int(sys.argv[1]))  # whether that user may read the interpreter's files is not the question
        for root in sys.argv[2:]:
            found = [cache.find(key, "sm_90") is not None for cache in (Cache(root), Cache(None, [root]))]
            print(*found)
    """)
    for path in [tmp_path, *tmp_path.parents]:
        if path.stat().st_mode & 0o055 != 0o055:
            path.chmod(path.stat().st_mode | 0o055)
    roots, strangers = plant(tmp_path / "roots"), plant(tmp_path / "strangers")
    for path in [roots, *roots.rglob("*")]:
        path.chmod(0o755)
    for path in [strangers, *strangers.rglob("*")]:
        path.chmod(0o755)
        os.chown(path, STRANGER, STRANGER)
    for user, expected in ((STRANGER + 1, ["False True", "False False"]), (STRANGER, ["False True", "True True"])):
        command = [sys.executable, "-c", script, str(user), str(roots), str(strangers)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.stdout.splitlines() == expected, done.stderr


@posix
@pytest.mark.timeout(20)
@pytest.mark.parametrize("ending", [".cuar", ".cuix"])
def test_pipes_and_folders_in_the_place_of_files_are_misses(
    tmp_path: Path, ending: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for make in (os.mkfifo, os.mkdir):
        root = plant(tmp_path / make.__name__)
        (path,) = [path for path in shelf_files(root) if path.suffix == ending]
        path.unlink()
        make(path)
        assert found_in(root) == [False, False]
        assert str(path) in capsys.readouterr().err
        config._warned.clear()
    with pytest.raises(ImageFormatError, match="no regular file"):
        open_own(os.devnull, os.O_RDONLY)


@posix
def test_what_is_written_is_for_its_user_only(tmp_path: Path) -> None:
    root = plant(tmp_path / "cache")
    Cache(str(root)).write_note("tools-x", b"1")
    Cache(str(root)).build_once(make_image("k2").key, "sm_90", lambda: make_image("k2"))
    folders = [root, *(path for path in root.rglob("*") if path.is_dir())]
    assert [stat.S_IMODE(path.stat().st_mode) for path in folders] == [0o700] * len(folders)
    assert len(folders) == 4


# nothing is executed

#: Everything that reads what is kept: once, so that all modules are there; then from other files, watched.
_WATCHED = """
import os, sys
checkout, folder, marker = sys.argv[1:]
sys.path[:0] = [checkout, os.path.join(checkout, "tests"), folder]
from image_making import make_image
import watched_kernels
from cudabuild.cache.provider import CacheProvider
from cudabuild.cache.store import Cache
from cudabuild.cache.toolchain import ToolchainMemo
from cudabuild.definition import KernelDefinition, Options
from cudabuild.faults import make_fault
from cudabuild.fingerprint import compute_fingerprint, image_key
from cudabuild.image.archive import Archive, write_archive
from cudabuild.image.image import DeviceInfo, ImageRequest
from cudabuild.image.index import build_index, read_index, write_index
from cudabuild.importer import binding
from cudabuild.importer.loads import find_loads
from cudabuild.target import parse_target
from cudabuild.types import float32

HOSTILE = f"__import__('os').system('touch {marker}')"
PICKLE = b"cos\\nsystem\\n(S'touch " + marker.encode() + b"'\\ntR."
seen = []
armed = False

def watch(event, arguments):
    if armed and event in ("exec", "compile", "marshal.loads", "marshal.load", "pickle.find_class", "os.system",
                           "subprocess.Popen", "os.exec", "os.posix_spawn", "code.__new__", "function.__new__"):
        seen.append(event)

sys.addaudithook(watch)
definition = KernelDefinition(watched_kernels.k)
signature = (float32[::1],)
fingerprint = compute_fingerprint(definition, signature)
device = DeviceInfo((9, 0), 13000)

def prepare(place):
    sites = ((("os:system", HOSTILE, "", 3), ("builtins:eval", HOSTILE, "os", 4), ("builtins:exec", HOSTILE, "", 4)))
    images = []
    for number, name in enumerate(["k", HOSTILE, PICKLE.decode("latin-1")]):
        images += [make_image(
            name, target=target, signature="float32[::1]", fingerprint=fingerprint.digest, symbol=HOSTILE,
            options={"debug": True}, data=PICKLE, key=bytes([number]) * 32, toolchain={HOSTILE: HOSTILE},
            attributes={"exceptions": sites, "decorated": ("debug",), HOSTILE: HOSTILE}, module="watched_kernels",
        ) for target in ("sm_90", "compute_75")]
    for image in images:
        image.checks = fingerprint.checks
        if image.qualname == "k":
            image.key = image_key(fingerprint, parse_target(image.target), image.index_width,
                                  Options(image.options), image.toolchain)
    Cache(os.path.join(place, "cache")).publish(*images)
    Cache(os.path.join(place, "cache")).write_note("tools-x", PICKLE)
    shipped = os.path.join(folder, "_cudabuild_watched_kernels")
    os.makedirs(shipped, exist_ok=True)
    for target in ("sm_90", "compute_75"):
        write_archive(os.path.join(shipped, target + ".cuar"), [i for i in images if i.target == target], target)
    index = build_index(HOSTILE, images, {})
    write_index(os.path.join(shipped, "index.json"), index)
    return shipped

def read(place, shipped):
    loaded = 0
    cache = Cache(os.path.join(place, "cache"))
    cache.read_note("tools-x")
    for shelf in cache.shelves("sm_90"):
        for record in shelf.records():
            image = cache.load(shelf, record)
            image.toolchain, image.parts, repr(image), repr(record)
            loaded += 1
            for site in image.attributes["exceptions"]:
                error = make_fault(site, HOSTILE, watched_kernels.__file__, (0, 0, 0), (0, 0, 0))
                assert type(error).__name__ == "LaunchError", error
    debug = KernelDefinition(watched_kernels.k, options=definition.options.replace(debug=True))
    def request():
        return ImageRequest(debug, signature, device, 32, lambda: fingerprint.digest)
    toolchain = lambda target: {HOSTILE: HOSTILE}
    found = CacheProvider(cache, toolchain).find(request())
    assert found is not None
    loaded += found.symbol == HOSTILE
    binding._folders.clear()
    for kind in ("cubin", "ptx"):
        provider = binding.ShippedProvider(kind)
        asked = request()
        found = provider.find(asked)
        assert found is not None, asked.notes
        loaded += found.symbol == HOSTILE
        provider.find_left(request())
    binding.find_recorded_options(request())
    read_index(os.path.join(shipped, "index.json"))
    find_loads([Archive(os.path.join(shipped, "sm_90.cuar"))], device)
    return loaded

first, second = os.path.join(folder, "first"), os.path.join(folder, "second")
read(first, prepare(first))
shipped = prepare(second)
armed = True
loaded = read(second, shipped)
print(loaded, seen)
eval("1 + 1")
armed = False
print(seen, os.path.exists(marker))
"""


def test_nothing_that_is_kept_is_executed(tmp_path: Path) -> None:
    (tmp_path / "watched_kernels.py").write_text("N = 4\ndef k(x):\n    x[0] = N\n")
    (tmp_path / "watch.py").write_text(_WATCHED)
    command = [sys.executable, str(tmp_path / "watch.py"), str(CHECKOUT), str(tmp_path), str(tmp_path / "executed")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["6 []", "['compile', 'exec'] False"], "the last line: the hook sees an eval"


def test_no_module_that_reads_files_can_execute_them() -> None:
    """Neither the names that execute, nor the modules whose formats do."""
    found = []
    for room in ("image", "cache"):
        for path in sorted((CHECKOUT / "cudabuild" / room).glob("*.py")):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                found += [f"{path.name}: {name}" for name in executing(node)]
    assert not found


def executing(node: ast.AST) -> list[str]:
    modules = {"pickle", "cPickle", "_pickle", "marshal", "shelve", "dill", "cloudpickle", "importlib", "runpy", "code"}
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names if alias.name.partition(".")[0] in modules]
    if isinstance(node, ast.ImportFrom):
        return [node.module] if (node.module or "").partition(".")[0] in modules else []
    if isinstance(node, ast.Name) and node.id in ("eval", "exec", "compile", "__import__", "globals", "vars"):
        return [node.id]
    return []


@pytest.mark.parametrize(
    "name", ["os:system", "builtins:eval", "builtins:exec", "subprocess:getoutput", "builtins:print", "antigravity:x"]
)
def test_a_site_names_a_class_of_exceptions_or_nothing(name: str, tmp_path: Path) -> None:
    """What an image says of its exceptions comes from a file: nothing is imported for it, nothing else is called."""
    marker = tmp_path / "executed"
    message = f"open({str(marker)!r}, 'w')" if "builtins" in name else f"touch {marker}"
    error = make_fault((name, message, "", 3), "k", "own.py", (0, 0, 0), (0, 0, 0))
    assert type(error) is LaunchError
    assert not marker.exists()
    assert "antigravity" not in sys.modules


def test_a_message_from_a_file_is_no_format(tmp_path: Path) -> None:
    for message in ("{index.__class__}", "{index:>999999999}", "{0}", "{other}", "{", "{extent!r}"):
        site: Any = ("cudabuild.errors:BoundsError", message, "", 3)
        error = make_fault(site, "k", "own.py", (0, 0, 0), (0, 0, 0), 1, 2)
        assert str(error).splitlines()[0] == message
