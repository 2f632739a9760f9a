# SPDX-License-Identifier: Apache-2.0
"""D. Users without a home, without a name, without a place to write; and two users with one place.

Programs run here as a user who owns nothing and whom no user database knows. Where these tests do not run as root that
is the tests' own user, and places are read-only instead.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import sysconfig
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cases_kit import load, ship

TESTS = Path(__file__).resolve().parents[1]
STRANGERS = (54321, 54322)
IS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0

pytestmark = pytest.mark.skipif(os.name != "posix", reason="users and modes of POSIX")


def identity(user: int) -> dict[str, Any]:
    return {"user": user, "group": user, "extra_groups": []} if IS_ROOT else {}


@pytest.fixture(scope="module")
def python() -> str:
    """An interpreter of this version that any user may run."""
    common = f"/usr/bin/python{sys.version_info[0]}.{sys.version_info[1]}"
    for one in (sys.executable, common):
        try:
            done = subprocess.run([one, "-c", ""], cwd="/", check=False, **identity(STRANGERS[0]))
        except OSError:
            continue
        if done.returncode == 0:
            return one
    pytest.skip("another user may not run any Python of this version here")


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that every user may look into; pytest's own are private."""
    path = Path(tempfile.mkdtemp(prefix="cudabuild-places-"))
    path.chmod(0o755)
    yield path
    for folder, names, _ in os.walk(path):
        for name in names:  # before they are looked into
            os.chmod(os.path.join(folder, name), 0o700)
    shutil.rmtree(path)


#: A machine with a fake driver launches the kernel of a package twice; whose code ran, what was compiled, what is kept.
_LAUNCH = """
    import sys
    from cases_kit import Machine, load
    from pathlib import Path
    from cudabuild.cache.location import find_root
    machine = Machine(find_root())
    k = load(Path(sys.argv[1]), name="case_place").k
    kernel = machine.kernel(k)
    from cases_kit import Array
    for _ in range(2):
        kernel[1, 32](Array())
    (source,) = {kernel.image_source(signature) for signature in kernel.signatures}
    in_memory = len(machine.cache.find_in_memory())
    print(source.partition(" ")[0], len(machine.compiled), in_memory, len(machine.fake.launches))
"""


def run(
    python: str, code: str, *arguments: str | Path, user: int = STRANGERS[0], **environment: str
) -> subprocess.CompletedProcess[str]:
    """Runs a program as a stranger, with nothing in its environment but ``environment`` and where modules are."""
    folders = (TESTS.parent, TESTS, TESTS / "cases", TESTS / "runtime", sysconfig.get_path("purelib"))
    variables = {
        "PATH": "/usr/bin:/bin",
        "PYTHONPATH": os.pathsep.join(map(str, folders)),
        "PYTHONDONTWRITEBYTECODE": "1",
        **environment,
    }
    command = [python, "-c", textwrap.dedent(code), *map(str, arguments)]
    return subprocess.run(
        command, env=variables, cwd="/", capture_output=True, text=True, check=False, timeout=120, **identity(user)
    )


def install(place: Path, targets: str = "") -> Path:
    """A package in a folder that only its owner could write to, and does not; archives of it for ``targets``."""
    folder = place / "site-packages"
    module = load(folder, "N = 4\ndef k(x):\n    x[0] = N\n", "case_place")
    if targets:
        ship(folder / "_cudabuild_case_place", [module.k], targets)
    close(folder)
    return folder


def close(folder: Path) -> None:
    for path in (*folder.rglob("*"), folder):
        path.chmod(0o555 if path.is_dir() else 0o444)


def contents(folder: Path) -> list[tuple[str, int, int]]:
    return sorted((str(path), path.stat().st_mtime_ns, path.stat().st_size) for path in folder.rglob("*"))


#: What is set -> whether the program is told that it has no cache.
HOMES = {
    "no HOME": ({}, None),
    "HOME is the root": ({"HOME": "/"}, True),
    "HOME is not there": ({"HOME": "/nonexistent/home"}, True),
    "HOME is empty": ({"HOME": ""}, True),
    "HOME is a file": ({"HOME": "{place}/file"}, True),
    "HOME is read-only": ({"HOME": "{place}/closed"}, True),
    "HOME is another user's": ({"HOME": "{place}/private"}, True),
    "HOME is relative": ({"HOME": "here"}, None),
    "the cache folder is read-only": ({"CUDABUILD_CACHE_DIR": "{place}/closed/cache"}, True),
    "the cache folder of the platform is read-only": ({"XDG_CACHE_HOME": "{place}/closed"}, True),
    "the cache folder is a device": ({"CUDABUILD_CACHE_DIR": "/dev/null"}, True),
    "the cache folder is below a file": ({"CUDABUILD_CACHE_DIR": "{place}/file/cache"}, True),
}


@pytest.mark.parametrize("how", HOMES)
def test_kernels_run_wherever_nothing_can_be_written(place: Path, python: str, how: str) -> None:
    """In memory, after one warning at most; and nothing is left anywhere."""
    if not IS_ROOT and how == "no HOME":
        pytest.skip("the tests' own user has an entry in the user database, and so a home")
    given, is_told = HOMES[how]
    (place / "file").touch()
    (place / "closed").mkdir()
    (place / "private").mkdir(mode=0o700 if IS_ROOT else 0)
    folder = install(place)
    close(place / "closed")
    before = contents(place)
    environment = {name: value.format(place=place) for name, value in given.items()}
    done = run(python, _LAUNCH, folder, **environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "compiled 1 1 2\n"
    warnings = done.stderr.splitlines()
    assert len(warnings) == bool(is_told), done.stderr
    assert all("is not used: " in line and "set CUDABUILD_CACHE_DIR to a folder" in line for line in warnings)
    assert contents(place) == before


def test_installed_by_root_and_run_by_a_user(place: Path, python: str) -> None:
    """What ships loads; what does not is kept in that user's own cache, and nothing beside the package."""
    (place / "home").mkdir()
    (place / "home").chmod(0o700)
    if IS_ROOT:
        os.chown(place / "home", STRANGERS[0], STRANGERS[0])
    folder = install(place, "sm_80 sm_90")
    before = contents(folder)
    assert folder.stat().st_uid == os.geteuid()
    done = run(python, _LAUNCH, folder, HOME=str(place / "home"))
    assert (done.stdout, done.stderr) == ("shipped 0 0 2\n", "")
    assert not any((place / "home").iterdir()), "nothing was compiled, so nothing is kept"
    for archive in folder.rglob("*.cuar"):
        archive.parent.chmod(0o755)
        archive.unlink()
    before = contents(folder)
    for expected in ("compiled 1 0 2\n", "cached 0 0 2\n"):
        done = run(python, _LAUNCH, folder, HOME=str(place / "home"))
        assert (done.stdout, done.stderr) == (expected, "")
    assert contents(folder) == before
    kept = [path for path in (place / "home").rglob("*") if path.is_dir()]
    assert (place / "home" / ".cache" / "cudabuild" / "sm_90") in kept
    assert {stat.S_IMODE(path.stat().st_mode) for path in kept} == {0o700}
    assert {path.stat().st_uid for path in kept} == {STRANGERS[0] if IS_ROOT else os.geteuid()}


@pytest.mark.skipif(not IS_ROOT, reason="two users, which only root can be")
def test_two_users_with_one_cache_folder(place: Path, python: str) -> None:
    """Whoever comes first has it; the other is told once, and neither reads what the other wrote."""
    shared = place / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    folder = install(place)
    environment = {"XDG_CACHE_HOME": str(shared)}
    first, second = STRANGERS
    for expected in ("compiled 1 0 2\n", "cached 0 0 2\n"):
        done = run(python, _LAUNCH, folder, user=first, **environment)
        assert (done.stdout, done.stderr) == (expected, "")
    before = contents(shared)
    for _ in range(2):
        done = run(python, _LAUNCH, folder, user=second, **environment)
        assert done.stdout == "compiled 1 1 2\n"
        (line,) = done.stderr.splitlines()
        assert f"the cache {shared}/cudabuild is not used: " in line
    assert contents(shared) == before
    (shared / "cudabuild").chmod(0o755)  # even where it lets itself be read
    done = run(python, _LAUNCH, folder, user=second, **environment)
    assert done.stdout == "compiled 1 1 2\n"
    assert "is not used: it belongs to another user" in done.stderr


@pytest.mark.skipif(not IS_ROOT, reason="two users, which only root can be")
def test_a_cache_that_root_filled_serves_all(place: Path, python: str) -> None:
    """As a site cache; not as a place to write."""
    from cudabuild.cache.upkeep import share_cache

    folder = install(place)
    os.chown(place, 0, 0)
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(_LAUNCH), str(folder)],
        env={
            **os.environ,
            "CUDABUILD_CACHE_DIR": str(place / "site"),
            "PYTHONPATH": os.pathsep.join(map(str, (TESTS.parent, TESTS, TESTS / "cases", TESTS / "runtime"))),
        },
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "compiled 1 0 2\n"
    code = _LAUNCH.replace("Machine(find_root())", f"Machine(find_root(), site=[{str(place / 'site')!r}])")
    done = run(python, code, folder, user=STRANGERS[1])
    assert "compiled 1 1 2" in done.stdout, "private as yet"
    assert done.stderr == f"cudabuild: the cache {place / 'site'} is not used: this user may not read it\n"
    share_cache(str(place / "site"))
    before = contents(place / "site")
    (place / "private" / ".cache" / "cudabuild").mkdir(parents=True)
    (place / "private").chmod(0o700)
    for home in (
        "/nonexistent",
        str(place / "private"),
        "/dev/null",
        str(folder),
    ):  # nothing is lost, so nothing is told
        for user in STRANGERS:
            done = run(python, code, folder, user=user, HOME=home)
            assert (done.stdout, done.stderr) == ("cached 0 0 2\n", "")
    assert contents(place / "site") == before


_CPU = """
    import sys
    sys.path.insert(0, sys.argv[1])
    import numpy
    from cpu_place import add
    x = numpy.zeros(5, "f4")
    for _ in range(2):
        add[1, 8](x)
    print(x.tolist())
"""


def test_a_real_compilation_without_a_home(place: Path, python: str) -> None:
    """All of it, by the CPU device: compiled, run, and right, by a user without a name, from a closed package."""
    folder = place / "site-packages"
    folder.mkdir()
    (folder / "cpu_place.py").write_text(
        "from cudabuild import cuda, kernel\n\n\n@kernel('float32[::1]')\ndef add(x):\n"
        "    i = cuda.grid(1)\n    if i < x.size:\n        x[i] += i + 1\n"
    )
    close(folder)
    done = run(python, _CPU, folder, CUDABUILD_DEVICE="cpu", HOME="/nonexistent", TMPDIR="/nonexistent")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[2.0, 4.0, 6.0, 8.0, 10.0]\n"
    assert done.stderr.count("\n") <= 1, done.stderr
