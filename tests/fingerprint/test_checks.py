# SPDX-License-Identifier: Apache-2.0
"""Comparing a live kernel with what an image was built from, without parsing source."""

from __future__ import annotations

import builtins
import errno
import importlib
import importlib.machinery
import importlib.util
import itertools
import os
import py_compile
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from cudabuild.definition import KernelDefinition, Options
from cudabuild.fingerprint import check_live, compute_fingerprint, effective_options, read_source_digest
from cudabuild.fingerprint.checks import UNREADABLE

TEXT = """
def h(a): return a + M
def g(a): return a
M = 1
N = 2
T = (g, h)
def k(x, y=3):
    x[0] = N * h(x[1]) + T[0](y) + len(x)
"""
_numbers = itertools.count()


def load(folder: Path, text: str = TEXT, name: str = "") -> ModuleType:
    name = name or f"checks_{next(_numbers)}"
    (folder / f"{name}.py").write_text(text, "utf-8")
    importlib.invalidate_caches()
    sys.modules.pop(name, None)
    return importlib.import_module(name)


@pytest.fixture(autouse=True)
def _importable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))


def checks_of(module: ModuleType) -> tuple[Any, ...]:
    return compute_fingerprint(KernelDefinition(module.k), ()).checks


def test_the_same_kernel(tmp_path: Path) -> None:
    module = load(tmp_path)
    checks = checks_of(module)
    assert [check.label for check in checks] == ["", "T", "T[2]"]
    assert check_live(module.k, checks, by_name=True) == ""


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("N", 5, "N was 2 when built and is 5 now"),
        ("M", 7, "T[2]/M was 1 when built and is 7 now"),
        ("len", max, "len was builtin builtins.len when built and is builtin builtins.max now"),
    ],
)
def test_another_value(tmp_path: Path, name: str, value: Any, reason: str) -> None:
    module = load(tmp_path)
    checks = checks_of(module)
    setattr(module, name, value)
    assert check_live(module.k, checks, by_name=True) == reason


def test_a_name_that_is_gone(tmp_path: Path) -> None:
    module = load(tmp_path)
    checks = checks_of(module)
    del module.N
    assert check_live(module.k, checks, by_name=True) == "N was 2 when built and is missing now"


def test_another_function_in_its_place(tmp_path: Path) -> None:
    module = load(tmp_path)
    checks = checks_of(module)
    module.h = module.g
    reason = check_live(module.k, checks, by_name=True)
    assert reason.startswith("h was function ")
    assert f":g:{module.g.__code__.co_firstlineno} now" in reason


def test_two_functions_of_one_name_are_told_apart(tmp_path: Path) -> None:
    text = "F = %s\nif F:\n    def h(a): return a\nelse:\n    def h(a): return -a\ndef k(x): x[0] = h(x[1])\n"
    one = load(tmp_path, text % "[0]", "checks_twice")
    checks = checks_of(one)
    assert check_live(one.k, checks, by_name=True) == ""
    other = load(tmp_path, text % "[] ", "checks_twice")
    changed = tuple(type(check)(check.label, read_source_digest(other.k), check.values) for check in checks)
    assert check_live(other.k, changed, by_name=True).startswith("h was function checks_twice:h:3 when built")


def test_two_kernels_of_one_name_in_one_file_are_told_apart(tmp_path: Path) -> None:
    text = """
import builtins
if not hasattr(builtins, "checks_other_branch"):
    def k(x):
        x[0] = 1
else:
    def k(x):
        x[0] = 2
"""
    first = load(tmp_path, text, "one_name")
    checks = checks_of(first)
    assert check_live(first.k, checks, by_name=True) == ""
    builtins.checks_other_branch = True  # type: ignore[attr-defined]
    try:
        second = load(tmp_path, text, "one_name")
    finally:
        del builtins.checks_other_branch  # type: ignore[attr-defined]
    reason = "k was defined on line 4 when built and is on line 7 now"
    assert check_live(second.k, checks, by_name=True) == reason
    assert check_live(first.k, checks_of(second), by_name=True) != ""


def test_another_default(tmp_path: Path) -> None:
    module = load(tmp_path)
    checks = checks_of(module)
    module.k.__defaults__ = (4,)
    assert check_live(module.k, checks, by_name=True).startswith(
        "(defaults) was ((3, ), None, ) when built and is ((4, ), None, )"
    )


def test_closures(tmp_path: Path) -> None:
    module = load(tmp_path, "def make(c):\n    def k(x): x[0] = c\n    return k\n")
    checks = compute_fingerprint(KernelDefinition(module.make(1)), ()).checks
    assert check_live(module.make(1), checks, by_name=True) == ""
    assert check_live(module.make(2), checks, by_name=True) == "c was 1 when built and is 2 now"


def test_an_edited_file_of_the_same_size_and_times(tmp_path: Path) -> None:
    module = load(tmp_path)
    checks = checks_of(module)
    path = Path(module.__file__ or "")
    before = path.stat()
    path.write_text(TEXT.replace("return a + M", "return a - M"), "utf-8")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size
    assert "differs from what was built" in check_live(module.k, checks, by_name=True)


def test_an_edited_helper_in_another_file(tmp_path: Path) -> None:
    load(tmp_path, "def h(a): return a\n", "checks_helper")
    module = load(tmp_path, "import checks_helper\ndef k(x): x[0] = checks_helper.h(x[1])\n")
    checks = checks_of(module)
    assert check_live(module.k, checks, by_name=True) == ""
    (tmp_path / "checks_helper.py").write_text("def h(a): return -a\n", "utf-8")
    assert check_live(module.k, checks, by_name=True).startswith(
        "the source of checks_helper differs from what was built"
    )


def test_a_file_read_long_ago_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from cudabuild.fingerprint import checks as tested

    module = load(tmp_path)
    monkeypatch.setattr(tested, "_RACY_NS", -1)
    first = read_source_digest(module.k)

    def fail(*_: object) -> bytes:
        raise AssertionError("read again")

    monkeypatch.setattr(tested, "digest", fail)
    assert read_source_digest(module.k) == first
    Path(module.__file__ or "").write_text(TEXT + "#", "utf-8")
    with pytest.raises(AssertionError, match="read again"):
        read_source_digest(module.k)


def test_without_source_names_and_values_decide(tmp_path: Path) -> None:
    module = load(tmp_path)
    checks = checks_of(module)
    path = Path(module.__file__ or "")
    compiled = py_compile.compile(str(path), cfile=str(path.with_suffix(".pyc")), doraise=True)
    path.unlink()
    sys.modules.pop(module.__name__)
    importlib.invalidate_caches()
    again = importlib.import_module(module.__name__)
    assert again.__file__ == compiled
    assert read_source_digest(again.k) == b""
    assert check_live(again.k, checks, by_name=True) == ""
    again.N = 9
    assert check_live(again.k, checks, by_name=True) == "N was 2 when built and is 9 now"


@pytest.mark.parametrize("error", [errno.EMFILE, errno.ESTALE, errno.EACCES, errno.EIO])
@pytest.mark.parametrize("call", ["os.stat", "builtins.open"])
def test_source_that_cannot_be_read_now_is_not_missing(
    tmp_path: Path, error: int, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An edited file that cannot be looked at for a moment does not bind what was built before, by its name."""
    module = load(tmp_path)
    checks = checks_of(module)
    path = module.__file__ or ""
    place, name = call.split(".")
    real = getattr(__import__(place), name)

    def fail(file: Any, *args: Any, **kwargs: Any) -> Any:
        if file == path:
            raise OSError(error, os.strerror(error))
        return real(file, *args, **kwargs)

    monkeypatch.setattr(call, fail)
    assert read_source_digest(module.k) == UNREADABLE
    reason = check_live(module.k, checks, by_name=True)
    assert reason == f"the source of {module.__name__} cannot be read now ({path})"
    monkeypatch.setattr(module, "__loader__", importlib.machinery.SourcelessFileLoader(module.__name__, f"{path}c"))
    Path(path).unlink()
    assert read_source_digest(module.k) == b"", "a .pyc file names the source of the machine where it was made"


def test_source_in_a_zip_file(tmp_path: Path) -> None:
    import zipfile

    module = load(tmp_path)
    checks = checks_of(module)
    name = module.__name__
    sys.modules.pop(name)
    with zipfile.ZipFile(tmp_path / "z.zip", "w") as archive:
        archive.write(tmp_path / f"{name}.py", f"{name}.py")
    (tmp_path / f"{name}.py").unlink()
    sys.path.insert(0, str(tmp_path / "z.zip"))
    try:
        importlib.invalidate_caches()
        zipped = importlib.import_module(name)
        assert "z.zip" in zipped.k.__code__.co_filename
        assert check_live(zipped.k, checks, by_name=True) == ""
    finally:
        sys.path.remove(str(tmp_path / "z.zip"))


def test_under_dash_m_the_module_keeps_its_name(tmp_path: Path) -> None:
    package = tmp_path / "checks_package"
    package.mkdir()
    (package / "__init__.py").write_text("", "utf-8")
    (package / "tool.py").write_text(
        "from cudabuild.definition import KernelDefinition\nfrom cudabuild.fingerprint import compute_fingerprint\n"
        "def h(a): return a\ndef k(x): x[0] = h(x[1])\n"
        "found = compute_fingerprint(KernelDefinition(k), ())\n"
        "print(found.module, [check.values for check in found.checks], found.digest.hex())\n",
        "utf-8",
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), os.getcwd()])}
    run, imported = (
        subprocess.run([sys.executable, *how], env=environment, capture_output=True, text=True, check=True).stdout
        for how in (["-m", "checks_package.tool"], ["-c", "import checks_package.tool"])
    )
    assert run == imported
    assert run.startswith("checks_package.tool [")


def test_nothing_is_parsed(tmp_path: Path) -> None:
    """The launch path's share: no ``ast``, ``inspect``, ``json`` … for comparing."""
    load(tmp_path, name="checks_cheap")
    code = (
        "import sys\nbefore = set(sys.modules)\nimport checks_cheap\n"
        "from cudabuild.fingerprint import Check, check_live\n"
        "reason = check_live(checks_cheap.k, [Check('', b'x' * 32, [('N', '2')])], by_name=True)\n"
        "assert 'differs from what was built' in reason, reason\n"
        "heavy = {'ast', 'inspect', 'json', 'numpy', 're', 'typing', 'dataclasses', 'hashlib', 'pathlib'}\n"
        "print(sorted(heavy & (set(sys.modules) - before)))\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), os.getcwd()])}
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys\nsys.path[:0] = {[str(tmp_path), os.getcwd()]!r}\n{code}"],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout == "[]\n", done.stderr


@pytest.mark.parametrize(
    ("written", "recorded", "decorated", "effective", "reason"),
    [
        ({}, {}, (), {}, ""),
        ({}, {"fastmath": True}, (), {"fastmath": True}, ""),
        ({"fastmath": True}, {"fastmath": True, "lineinfo": True}, (), {"fastmath": True, "lineinfo": True}, ""),
        ({"fastmath": False}, {"fastmath": True}, (), {}, "fastmath was True when built and is False now"),
        ({"launch_bounds": 128}, {}, (), {"launch_bounds": 128}, "launch_bounds was None when built and is 128 now"),
        ({}, {"fma": False}, ("fma",), {}, "fma was False when built and is True now"),
        (
            {},
            {"fma": False, "lineinfo": True},
            ("fma",),
            {"lineinfo": True},
            "fma was False when built and is True now",
        ),
        ({"fma": False}, {"fma": False}, ("fma",), {"fma": False}, ""),
        ({}, {"telepathy": 1}, (), {}, "it was built with telepathy, which this version does not know"),
    ],
)
def test_options_of_the_decorator_and_of_the_build(
    written: dict[str, Any],
    recorded: dict[str, Any],
    decorated: tuple[str, ...],
    effective: dict[str, Any],
    reason: str,
) -> None:
    options = Options(written, frozenset(written))
    found, why = effective_options(options, recorded, decorated)
    assert why == reason
    assert found == Options(effective)
    assert found.written == options.written


LAMBDAS = """
F = (lambda a: a + 1, lambda a: a * 9)
def make(f):
    def k(x):
        x[0] = f(x[1])
    return k
L = (lambda x: x.fill(1), lambda x: x.fill(2))
"""


@pytest.mark.parametrize("flags", [[], ["-X", "no_debug_ranges"]], ids=["columns", "no columns"])
def test_lambdas_of_one_line(tmp_path: Path, flags: list[str]) -> None:
    """They share name, line and free values, so an image of the one would serve the other."""
    (tmp_path / "lambdas.py").write_text(LAMBDAS, "utf-8")
    script = (
        "import lambdas\n"
        "from cudabuild.definition import KernelDefinition\n"
        "from cudabuild.fingerprint import check_live, compute_fingerprint\n"
        "for one, other in ((lambdas.make(lambdas.F[0]), lambdas.make(lambdas.F[1])), lambdas.L):\n"
        "    checks = compute_fingerprint(KernelDefinition(one), ()).checks\n"
        "    assert check_live(one, checks, by_name=True) == ''\n"
        "    assert check_live(other, checks, by_name=True)\n"
    )
    subprocess.run([sys.executable, *flags, "-c", script], cwd=tmp_path, check=True)
