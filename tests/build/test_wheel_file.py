# SPDX-License-Identifier: Apache-2.0
"""Editing finished wheels: what changes, what does not, and what is refused."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import stat
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from cudabuild.build.wheel_file import WheelFile
from cudabuild.errors import WheelError

WHEEL = "Wheel-Version: 1.0\nGenerator: a test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
DATE = (2021, 3, 4, 5, 6, 8)

FILES = {
    "pkg/__init__.py": b"",
    "pkg/kernels.py": b"N = 1\n",
    "pkg/data, with comma.txt": b"x",
    "p-1.data/purelib/other/mod.py": b"",
    "p-1.data/scripts/tool.py": b"",
    "single.py": b"",
    "templates/not-a-package/file.py": b"",
    "p-1.dist-info/METADATA": b"Metadata-Version: 2.1\nName: p\nVersion: 1\n",
    "p-1.dist-info/WHEEL": WHEEL.encode(),
}


def line(name: str, data: bytes, algorithm: str = "sha256") -> tuple[str, str, str]:
    digest = base64.urlsafe_b64encode(hashlib.new(algorithm, data).digest()).rstrip(b"=").decode()
    return name, f"{algorithm}={digest}", str(len(data))


def make_wheel(
    path: Path, files: Mapping[str, bytes] = FILES, record: str | None = None, method: int = zipfile.ZIP_DEFLATED
) -> Path:
    text = io.StringIO()
    rows = [line(name, data, "sha384" if name == "single.py" else "sha256") for name, data in files.items()]
    csv.writer(text, lineterminator="\r\n").writerows([*rows, ("p-1.dist-info/RECORD", "", "")])
    with zipfile.ZipFile(path, "w") as archive:
        archive.comment = b"by hand"
        record = text.getvalue() if record is None else record
        for name, data in {**files, "p-1.dist-info/RECORD": record.encode()}.items():
            info = zipfile.ZipInfo(name, DATE)
            info.compress_type = method
            info.create_system = 3
            info.external_attr = (stat.S_IFREG | (0o755 if "scripts" in name else 0o640)) << 16
            archive.writestr(info, data)
            info.external_attr = 0 if name == "single.py" else info.external_attr
    return path


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    return make_wheel(tmp_path / "p-1-py3-none-any.whl")


def read_record(path: Path) -> list[list[str]]:
    with zipfile.ZipFile(path) as archive:
        assert archive.namelist()[-1] == "p-1.dist-info/RECORD"
        return list(csv.reader(io.StringIO(archive.read("p-1.dist-info/RECORD").decode())))


def check_record(path: Path) -> None:
    """Every file stands in RECORD once, with its own hash and size; RECORD itself with neither."""
    rows = {name: (digest, size) for name, digest, size in read_record(path)}
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        names = archive.namelist()
        assert sorted(rows) == sorted(names)
        assert len(rows) == len(read_record(path))
        for name in names[:-1]:
            algorithm = rows[name][0].partition("=")[0]
            assert (name, *rows[name]) == line(name, archive.read(name), algorithm)
    assert rows["p-1.dist-info/RECORD"] == ("", "")


def test_modules_by_name_whatever_the_layout(wheel: Path) -> None:
    with WheelFile(wheel) as opened:
        modules = opened.find_modules()
    assert {name: module.member for name, module in modules.items()} == {
        "pkg": "pkg/__init__.py",
        "pkg.kernels": "pkg/kernels.py",
        "other.mod": "p-1.data/purelib/other/mod.py",
        "single": "single.py",
    }
    assert [name for name, module in modules.items() if module.is_package] == ["pkg"]
    assert modules["other.mod"].inside == "other/mod.py"
    assert modules["other.mod"].prefix == "p-1.data/purelib/"
    assert modules["pkg"].prefix == ""


def test_files_come_and_go(wheel: Path) -> None:
    with WheelFile(wheel) as opened:
        opened.set_file("pkg/_cudabuild/sm_80.cuar", b"new" * 1000)
        opened.set_file('pkg/a "quoted", name', b"")
        opened.set_file("pkg/kernels.py", b"N = 2\n")
        opened.remove_file("pkg/data, with comma.txt")
        expected = {*FILES, "pkg/_cudabuild/sm_80.cuar", 'pkg/a "quoted", name', "p-1.dist-info/RECORD"}
        expected.remove("pkg/data, with comma.txt")
        assert set(opened.names) == expected
        assert opened.save()
        assert set(opened.names) == expected
        assert opened.read("pkg/kernels.py") == b"N = 2\n"
        with pytest.raises(KeyError):
            opened.read("pkg/data, with comma.txt")
    check_record(wheel)
    assert ["single.py", *line("single.py", b"", "sha384")[1:]] in read_record(wheel)
    assert [path.name for path in wheel.parent.iterdir()] == [wheel.name]


def test_everything_else_stays(wheel: Path) -> None:
    wheel.chmod(0o644)
    with zipfile.ZipFile(wheel) as archive:
        before = {info.filename: info for info in archive.infolist()}
    with WheelFile(wheel) as opened:
        opened.set_file("a.bin", b"1")
        opened.save()
    with zipfile.ZipFile(wheel) as archive:
        after = {info.filename: info for info in archive.infolist()}
        assert archive.read("p-1.dist-info/WHEEL").decode() == WHEEL
        assert archive.comment == b"by hand"
    new = after.pop("a.bin")
    assert (new.date_time, new.external_attr >> 16, new.compress_type) == (DATE, 0o100644, zipfile.ZIP_DEFLATED)
    assert list(after) == list(before)
    for name, info in before.items():
        for attribute in ("date_time", "external_attr", "compress_type", "create_system"):
            assert getattr(after[name], attribute) == getattr(info, attribute), (name, attribute)
    assert stat.S_IMODE(wheel.stat().st_mode) == 0o644


def test_same_changes_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    made = []
    for number, names in enumerate((["b", "a/c", "a/b"], ["a/b", "a/c", "b"])):
        path = make_wheel(tmp_path / f"{number}.whl")
        with WheelFile(path) as opened:
            for name in names:
                opened.set_file(name, name.encode())
            opened.save()
        made.append(path.read_bytes())
    assert made[0] == made[1]
    with zipfile.ZipFile(tmp_path / "0.whl") as archive:
        assert archive.getinfo("a/b").date_time == (2023, 11, 14, 22, 13, 20)
        assert archive.getinfo("pkg/__init__.py").date_time == DATE
        assert archive.namelist()[-6:-3] == ["a/b", "a/c", "b"]  # before the metadata


def test_a_time_before_zip_archives_had_any(wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    with WheelFile(wheel) as opened:
        opened.set_file("a", b"")
        opened.save()
    with zipfile.ZipFile(wheel) as archive:
        assert archive.getinfo("a").date_time == (1980, 1, 1, 0, 0, 0)


def test_no_change_touches_nothing(wheel: Path) -> None:
    before = wheel.stat()
    with WheelFile(wheel) as opened:
        opened.set_file("pkg/kernels.py", FILES["pkg/kernels.py"])
        assert not opened.save()
    after = wheel.stat()
    assert (after.st_mtime_ns, after.st_ino) == (before.st_mtime_ns, before.st_ino)


def test_a_file_that_record_does_not_list_is_listed(tmp_path: Path) -> None:
    path = make_wheel(tmp_path / "p.whl", record="p-1.dist-info/RECORD,,\n")
    with WheelFile(path) as opened:
        opened.set_file("a", b"")
        opened.save()
    check_record(path)


def test_folders_stay_and_have_no_line(tmp_path: Path) -> None:
    path = make_wheel(tmp_path / "p.whl", {"pkg/": b"", **FILES}, record="p-1.dist-info/RECORD,,\n")
    with WheelFile(path) as opened:
        assert "pkg/" not in opened.names
        opened.set_file("pkg/a", b"")
        opened.save()
    assert "pkg/" not in [row[0] for row in read_record(path)]
    with zipfile.ZipFile(path) as archive:
        assert archive.namelist()[0] == "pkg/"


@pytest.mark.parametrize("name", ["/a", "../a", "a/../b", "a//b", "a\\b", "", "a/", "p-1.dist-info/RECORD"])
def test_names_that_are_no_paths_below_the_root(wheel: Path, name: str) -> None:
    with WheelFile(wheel) as opened:
        with pytest.raises(ValueError, match=r"no path of a file below the wheel's root|is metadata"):
            opened.set_file(name, b"")
        with pytest.raises(KeyError):
            opened.remove_file("no/such")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"p-1.dist-info/RECORD.jws": b""}, r"it is signed (p-1.dist-info/RECORD.jws)"),
        ({"p-1.dist-info/RECORD.p7s": b""}, r"it is signed (p-1.dist-info/RECORD.p7s)"),
        ({"q-1.dist-info/METADATA": b""}, "this has p-1.dist-info and q-1.dist-info"),
        ({"../evil.py": b""}, "'../evil.py' is no path below the wheel's root"),
        ({"p-1.dist-info/WHEEL": b"Wheel-Version: 2.0\n"}, "its format is ['2.0'], and 1.x is expected"),
        ({"p-1.dist-info/WHEEL": b""}, "its format is not told, and 1.x is expected"),
    ],
)
def test_odd_wheels_are_refused(tmp_path: Path, change: dict[str, bytes], message: str) -> None:
    path = make_wheel(tmp_path / "p.whl", {**FILES, **change})
    before = path.read_bytes()
    with pytest.raises(WheelError) as caught:
        WheelFile(path)
    text = str(caught.value)
    assert text.startswith("the wheel cannot be edited: ")
    assert message in text
    assert f"\n  file:     {path}\n  do:       " in text
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ("p-1.dist-info/RECORD\n", "p-1.dist-info/RECORD:1 has 1 fields, and 3 are expected: path, hash, size"),
        ("gone.py,sha256=x,1\n", "p-1.dist-info/RECORD lists gone.py, which is not there"),
    ],
)
def test_odd_records_are_refused(tmp_path: Path, record: str, message: str) -> None:
    path = make_wheel(tmp_path / "p.whl", record=record)
    with pytest.raises(WheelError) as caught:
        WheelFile(path)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ("single.py,sha256=AAAA,0\n", "single.py is not the file whose sha256 stands in RECORD"),
        ("single.py,md77=AAAA,0\n", "RECORD names the hash 'md77' of single.py"),
    ],
)
def test_files_that_are_not_what_record_says(tmp_path: Path, record: str, message: str) -> None:
    path = make_wheel(tmp_path / "p.whl", record=record)
    before = path.read_bytes()
    with WheelFile(path) as opened:
        opened.set_file("a", b"")
        with pytest.raises(WheelError) as caught:
            opened.save()
    assert message in str(caught.value)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["p.whl"]


def test_damaged_bytes(tmp_path: Path) -> None:
    path = make_wheel(tmp_path / "p.whl", method=zipfile.ZIP_STORED)
    path.write_bytes(path.read_bytes().replace(b"N = 1", b"N = 7"))
    with WheelFile(path) as opened:
        opened.set_file("a", b"")
        with pytest.raises(WheelError, match=r"pkg/kernels\.py cannot be read: Bad CRC-32"):
            opened.save()
        with pytest.raises(WheelError, match=r"pkg/kernels\.py cannot be read: Bad CRC-32"):
            opened.read("pkg/kernels.py")
    path.write_bytes(b"PK no")
    with pytest.raises(WheelError, match="it cannot be read: File is not a zip file"):
        WheelFile(path)
    with pytest.raises(WheelError, match=r"it cannot be read: .*No such file"):
        WheelFile(tmp_path / "none.whl")


def test_other_compression_and_doubled_names(tmp_path: Path) -> None:
    path = make_wheel(tmp_path / "p.whl", method=zipfile.ZIP_BZIP2)
    with pytest.raises(WheelError, match="is compressed by method 12, and wheels are stored or deflated"):
        WheelFile(path)
    path = make_wheel(tmp_path / "q.whl")
    with pytest.warns(UserWarning, match="Duplicate name"), zipfile.ZipFile(path, "a") as archive:
        archive.writestr("single.py", b"")
    with pytest.raises(WheelError, match=r"it holds single\.py twice"):
        WheelFile(path)
