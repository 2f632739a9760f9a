# SPDX-License-Identifier: Apache-2.0
"""Where the cache is, and which places are refused."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from image_making import make_image

from cudabuild import config
from cudabuild.cache import location
from cudabuild.cache.location import check_private, find_root, prepare_root
from cudabuild.cache.store import Cache

posix = pytest.mark.skipif(os.name != "posix", reason="modes and owners of POSIX")


@pytest.fixture(autouse=True)
def _warn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "_warned", set())


def test_the_setting_wins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CUDABUILD_CACHE_DIR", str(tmp_path / "x"))
    assert find_root() == str(tmp_path / "x")


@pytest.mark.skipif(sys.platform != "linux", reason="the short cut is for Linux")
@pytest.mark.parametrize("base", [None, "", "/somewhere/else"])
def test_the_short_cut_answers_as_platformdirs_does(monkeypatch: pytest.MonkeyPatch, base: str | None) -> None:
    import platformdirs

    monkeypatch.delenv("CUDABUILD_CACHE_DIR", raising=False)
    if base is None:
        monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    else:
        monkeypatch.setenv("XDG_CACHE_HOME", base)
    assert find_root() == platformdirs.user_cache_dir("cudabuild", appauthor=False)


@posix
@pytest.mark.parametrize("home", ["/", "/nonexistent/home", ""])
def test_odd_homes_cost_a_warning_at_most(home: str, tmp_path: Path) -> None:
    """A process without a usable home, and for "" without an entry in the user database."""
    checkout = Path(__file__).resolve().parent.parent.parent
    code = (
        f"import sys, os; sys.path[:0] = [{str(checkout)!r}, {str(checkout / 'tests')!r}]\n"
        "import pwd\n"
        "def nobody(uid): raise KeyError(uid)\n"
        "pwd.getpwuid = nobody\n"
        "from cudabuild.cache import location\n"
        "from cudabuild.cache.store import Cache\n"
        "from image_making import make_image\n"
        "location.os.mkdir = lambda path, *_: (_ for _ in ()).throw(PermissionError(13, 'Permission denied'))\n"
        "cache = Cache.open()\n"
        "for _ in range(2): image = cache.build_once(make_image().key, 'sm_90', make_image)\n"
        "print(bytes(image.data) == bytes(make_image().data), len(cache.find_in_memory()))\n"
    )
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("CUDABUILD_", "XDG_"))}
    environment["HOME"] = home
    if not home:
        del environment["HOME"]
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout == "True 1\n", done.stderr
    assert done.stderr.count("\n") <= 1


@posix
def test_folders_are_private(tmp_path: Path) -> None:
    Cache(str(tmp_path / "a" / "cache")).publish(make_image())
    for folder in (tmp_path / "a" / "cache", tmp_path / "a" / "cache" / "sm_90"):
        assert folder.stat().st_mode & 0o777 == 0o700


@posix
@pytest.mark.parametrize("mode", [0o770, 0o777, 0o702])
def test_a_folder_that_others_may_write_is_refused(
    tmp_path: Path, mode: int, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "cache"
    Cache(str(root)).publish(make_image())
    root.chmod(mode)
    for cache in (Cache(str(root)), Cache(None, [str(root)])):
        assert cache.find(make_image().key, "sm_90") is None
    assert "others may write to it" in capsys.readouterr().err
    assert not prepare_root(str(root))


@posix
def test_a_foreign_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "cache"
    Cache(str(root)).publish(make_image())
    assert check_private(str(root)) == ""
    monkeypatch.setattr(os, "geteuid", lambda: root.stat().st_uid + 1)
    assert check_private(str(root)) == "it belongs to another user"
    assert Cache(str(root)).root is None


@posix
def test_a_planted_link_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "cache"
    real = tmp_path / "real"
    Cache(str(real)).publish(make_image())
    root.symlink_to(real)
    assert check_private(str(root)) == "", "a link of one's own is fine"
    lstat = os.lstat

    def foreign(path: str) -> os.stat_result:
        found = list(lstat(path))
        found[4] += 12345
        return os.stat_result(found)

    monkeypatch.setattr(os, "lstat", foreign)
    assert check_private(str(root)) == "it is a link that belongs to another user"


def test_a_file_in_the_place_of_the_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "cache").write_text("not a folder")
    cache = Cache(str(tmp_path / "cache"))
    assert cache.build_once(make_image().key, "sm_90", make_image) is not None
    assert len(cache.find_in_memory()) == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_a_note_that_cannot_be_kept_is_nobodys_concern(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Such as in a container whose images come from a site cache; an image that cannot be kept is told all the same."""
    (tmp_path / "cache").write_text("not a folder")
    cache = Cache(str(tmp_path / "cache" / "below"))
    cache.write_note("tools-1", b"x")
    assert capsys.readouterr().err == ""
    cache.publish(make_image())
    assert "is not used" in capsys.readouterr().err


def test_no_path_component_is_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of locks, notes and temporary files neither, however long a kernel's name and this computer's."""
    temporary = []
    replace = os.replace
    monkeypatch.setattr(os, "replace", lambda old, new: (temporary.append(Path(old)), replace(old, new)))
    image = make_image("k" * 5000)
    cache = Cache(str(tmp_path / "cache"))
    cache.build_once(image.key, "sm_90", lambda: image)
    host = f"host-{'x' * 18}-{'0' * 16}"  # the longest that the CPU device has
    cache.publish(make_image("k" * 4000, target="compute_120"), make_image("j" * 4000, target=host, kind="object"))
    assert cache.find_in_memory() == []
    cache.write_note(f"tools-{'0' * 32}", b"x")
    here = list((tmp_path / "cache").rglob("*"))
    assert len(temporary) > 5
    assert {"locks", "notes", "sm_90"} <= {path.name for path in here}
    assert max(len(path.name) for path in (*here, *temporary)) <= 100
    assert Cache(str(tmp_path / "cache")).find(image.key, "sm_90") is not None


@posix
def test_a_folder_that_is_removed_while_it_is_looked_at_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real, seen = location.check_private, []

    def check(path: str, **kwargs: Any) -> str:
        if not seen:
            os.rmdir(path)
        seen.append(path)
        return real(path, **kwargs)

    monkeypatch.setattr(location, "check_private", check)
    root = str(tmp_path / "cache")
    assert location.prepare_root(root)
    assert os.path.isdir(root)
    assert seen == [root] * 2
    assert capsys.readouterr().err == ""
