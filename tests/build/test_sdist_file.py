# SPDX-License-Identifier: Apache-2.0
"""Source distributions lose the archives of an in-place build, and nothing else."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from cudabuild.build.sdist_file import remove_artefacts

STALE = ("p-1/p/_cudabuild/sm_80.cuar", "p-1/p/_cudabuild/index.json", "p-1/_cudabuild_one/.gitignore")
KEPT = ("p-1/PKG-INFO", "p-1/p/kernels.py", "p-1/p/index.json", "p-1/p/_cudabuild_notes/notes.txt")


def make_sdist(path: Path, *names: str) -> Path:
    with tarfile.open(path, "w:gz", format=tarfile.PAX_FORMAT) as tar:
        folder = tarfile.TarInfo("p-1/p/_cudabuild")
        folder.type = tarfile.DIRTYPE
        tar.addfile(folder)
        link = tarfile.TarInfo("p-1/link")
        link.type, link.linkname = tarfile.SYMTYPE, "PKG-INFO"
        tar.addfile(link)
        for number, name in enumerate(names):
            info = tarfile.TarInfo(name)
            info.size, info.mode, info.mtime, info.uname = len(name), 0o640, 1_600_000_000 + number, "sömeone"
            tar.addfile(info, io.BytesIO(name.encode()))
    path.chmod(0o600)
    return path


def read(path: Path) -> dict[str, tuple[object, ...]]:
    with tarfile.open(path) as tar:
        found = {}
        for member in tar.getmembers():
            data = tar.extractfile(member) if member.isreg() else None
            facts = (member.mode, member.mtime, member.uname, member.type, member.linkname)
            found[member.name] = (*facts, data.read() if data else b"")
        return found


def test_what_a_build_put_into_the_tree_goes(tmp_path: Path) -> None:
    path = make_sdist(tmp_path / "p-1.tar.gz", *KEPT, *STALE)
    before, header = read(path), path.read_bytes()[4:8]
    assert remove_artefacts(str(path)) == sorted([*STALE, "p-1/_cudabuild_one", "p-1/p/_cudabuild"])
    after = read(path)
    assert after == {name: facts for name, facts in before.items() if name in (*KEPT, "p-1/link")}
    assert path.read_bytes()[4:8] == header  # when it was made, as the back-end says
    assert path.stat().st_mode & 0o777 == 0o600
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_a_folder_that_holds_something_else_stays(tmp_path: Path) -> None:
    path = make_sdist(tmp_path / "p-1.tar.gz", STALE[0], "p-1/p/_cudabuild/notes.txt")
    assert remove_artefacts(str(path)) == [STALE[0]]
    assert set(read(path)) == {"p-1/link", "p-1/p/_cudabuild", "p-1/p/_cudabuild/notes.txt"}


def test_one_without_archives_is_not_touched(tmp_path: Path) -> None:
    path = make_sdist(tmp_path / "p-1.tar.gz", *KEPT)
    before = path.stat()
    assert remove_artefacts(str(path)) == []
    assert (path.stat().st_mtime_ns, path.stat().st_ino) == (before.st_mtime_ns, before.st_ino)


def test_same_file_same_bytes(tmp_path: Path) -> None:
    paths = [make_sdist(tmp_path / f"{number}.tar.gz", *KEPT, *STALE) for number in range(2)]
    paths[1].write_bytes(paths[0].read_bytes())
    for path in paths:
        remove_artefacts(str(path))
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_a_damaged_one_is_left_as_it_is(tmp_path: Path) -> None:
    path = make_sdist(tmp_path / "p-1.tar.gz", *KEPT, *STALE)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises((OSError, EOFError, tarfile.TarError)):
        remove_artefacts(str(path))
    assert path.read_bytes() == data[: len(data) // 2]
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]
