# SPDX-License-Identifier: Apache-2.0
"""Who compiles: processes of this one, any executor; workers that die, Ctrl-C, two linkers."""

from __future__ import annotations

import concurrent.futures
import contextlib
import hashlib
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from build_helpers import MakeProject, Setuptools, list_images

from cudabuild.build.api import build_project
from cudabuild.build.execute import run_build
from cudabuild.build.job import run_job
from cudabuild.build.pool import Worker, WorkerEnded, compile_with
from cudabuild.build.project import Project
from cudabuild.build.settings import BuildSettings
from cudabuild.build.worker import CompileResult, Task
from cudabuild.errors import BuildError, CudabuildError, SettingError, ToolError
from cudabuild.target import TARGETS

KERNELS = """
import cudabuild as cb
import os
SIZE = int(os.environ.get("BUILD_TEST_SIZE", "4"))
with open(os.path.join(os.path.dirname(__file__), "table.txt")) as stream:
    VALUE = float(stream.read())

@cb.kernel("float32[::1]")
def one(x):
    x[SIZE] = VALUE

@cb.kernel(["float32[::1]", "float64[::1]"])
def two(x):
    x[0] = 2
"""

SETTINGS = BuildSettings((TARGETS["sm_80"], TARGETS["sm_90"]), index_widths=(64,), jobs=2)


@pytest.fixture
def project(make_project: MakeProject, tmp_path: Path) -> Project:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "table.txt").write_text("1.5", encoding="utf-8")
    return make_project(pkg="", pkg__kernels=KERNELS)


@pytest.fixture
def fresh_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Makes another cache the user's own."""
    return lambda name: monkeypatch.setenv("CUDABUILD_CACHE_DIR", str(tmp_path / name))


def write(project: Project, settings: BuildSettings, out: Path, executor: concurrent.futures.Executor | None) -> str:
    """Builds; the digest of all that was written."""
    outcome = run_job(
        project, settings, lambda artefacts: str(out / artefacts.inside), in_tree=False, executor=executor
    ).check()
    assert (outcome.result.compiled, outcome.result.cached) == (6, 0)
    hasher = hashlib.sha256()
    for path in sorted(path for path in out.rglob("*") if path.is_file()):
        hasher.update(f"{path.relative_to(out)} {path.stat().st_size} ".encode() + path.read_bytes())
    assert len(list_images(out)) == 6
    return hasher.hexdigest()


def test_every_executor_makes_the_same_archives(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh_cache: Callable[[str], None]
) -> None:
    monkeypatch.setenv("BUILD_TEST_SIZE", "5")
    fresh_cache("own")
    own = write(project, SETTINGS, tmp_path / "own-out", None)
    fresh_cache("threads-of-one")
    assert write(project, replace(SETTINGS, executor="threads"), tmp_path / "one-out", None) == own
    fresh_cache("thread")
    with concurrent.futures.ThreadPoolExecutor(2) as executor:
        assert write(project, SETTINGS, tmp_path / "thread-out", executor) == own
    fresh_cache("process")
    with concurrent.futures.ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as executor:
        assert write(project, SETTINGS, tmp_path / "process-out", executor) == own
    # What an executor made is kept here, and is not asked for again.
    result = run_build(project, SETTINGS, executor=_Refusing())
    assert (result.compiled, result.cached, result.errors) == (0, 6, [])


class _Refusing(concurrent.futures.Executor):
    """Fails whatever it is asked."""

    def submit(self, *args: object, **keywords: object) -> concurrent.futures.Future[bytes]:
        future: concurrent.futures.Future[bytes] = concurrent.futures.Future()
        future.set_exception(OSError("the machine is gone"))
        return future


def test_what_an_executor_loses_is_told_by_kernel(project: Project, fresh_cache: Callable[[str], None]) -> None:
    fresh_cache("lost")
    result = run_build(project, SETTINGS, executor=_Refusing())
    assert len(result.errors) == 3
    assert result.errors[0] == (
        "pkg.kernels:one(float32[::1]) for sm_80, sm_90: its task failed where it ran: OSError: the machine is gone"
    )


def test_data_and_variables_that_slices_read_go_along(
    project: Project, monkeypatch: pytest.MonkeyPatch, fresh_cache: Callable[[str], None]
) -> None:
    monkeypatch.setenv("BUILD_TEST_SIZE", "7")
    fresh_cache("along")
    sent: list[bytes] = []

    class Elsewhere(concurrent.futures.ThreadPoolExecutor):
        def submit(self, function: object, *args: object, **keywords: object) -> concurrent.futures.Future[bytes]:
            assert all(isinstance(argument, bytes) for argument in args)
            sent.extend(argument for argument in args if isinstance(argument, bytes))
            with monkeypatch.context() as patch:  # another machine
                patch.delenv("BUILD_TEST_SIZE")
                future: concurrent.futures.Future[bytes] = concurrent.futures.Future()
                future.set_result(function(*args, **keywords))  # type: ignore[operator]
                assert isinstance(future.result(), bytes)
                return future

    with Elsewhere(1) as executor:
        result = run_build(project, SETTINGS, executor=executor)
    assert (result.errors, result.compiled) == ([], 6)
    free = {dict(image.parts).get("SIZE") for image in result.images if image.qualname == "one"}
    assert free == {"7"}
    assert sent


@pytest.mark.parametrize(("name", "message"), [("dusk:1", "bad executor"), ("dask:", "expected: 'processes'")])
def test_a_wrong_executor_is_told(project: Project, name: str, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        run_build(project, replace(SETTINGS, executor=name))


def test_dask_that_is_not_installed_is_told(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ToolError, match=r"needs the package distributed.*cudabuild\[dask\]"):
        run_build(project, replace(SETTINGS, executor="dask:tcp://127.0.0.1:1"))


def test_a_site_cache_is_compiled_from_by_nobody(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh_cache: Callable[[str], None]
) -> None:
    fresh_cache("site")
    assert run_build(project, SETTINGS).compiled == 6
    fresh_cache("mine")
    monkeypatch.setenv("CUDABUILD_SITE_CACHE", str(tmp_path / "site"))
    result = run_build(project, SETTINGS)
    assert (result.compiled, result.cached) == (0, 6)


# Workers that die


class _Dying:
    """A worker that a task for one target kills."""

    def __init__(self, deadly: str) -> None:
        self.deadly = deadly

    def keep_made(self) -> None:
        """It has made nothing."""

    def ask(self, task: Task) -> CompileResult:
        if self.deadly in task.targets:
            raise WorkerEnded(-11)
        return CompileResult(task, [], cached=len(task.targets), errors=("something else",))


def test_of_a_task_that_kills_its_worker_the_target_is_named() -> None:
    task = Task("m", "k", "int32", ("sm_80", "sm_90", "sm_100"), (64,))
    workers: list[_Dying] = []

    def renew() -> Worker:
        workers.append(_Dying("sm_90"))
        return workers[-1]  # type: ignore[return-value]

    worker, result = compile_with(renew(), task, renew)
    assert worker is workers[-1]
    assert len(workers) == 3
    assert result.task is task
    assert result.cached == 2
    assert result.errors == (
        "something else",
        "m:k(int32) for sm_90: the process that compiled it was ended by signal 11; its last words stand above",
    )


HOOK = """\
import sys
if "-c" in sys.orig_argv and "cudabuild.build.worker" in sys.orig_argv[2]:
    import os, time, cudabuild.backend.cubin as c
    link = c.link_cubin
    def hooked(ptx, target, options, name="kernel", *more):
        {action}
        return link(ptx, target, options, name, *more)
    c.link_cubin = hooked
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    package = root / "src" / "p"
    package.mkdir(parents=True)
    (root / "pyproject.toml").write_text(
        '[project]\nname = "p"\nversion = "1"\n[tool.setuptools.packages.find]\nwhere = ["src"]\n'
        '[tool.cudabuild]\narchs = ["80", "90"]\nptx = "none"\nindex = "64"\n',
        encoding="utf-8",
    )
    (package / "__init__.py").touch()
    (package / "table.txt").write_text("1.5", encoding="utf-8")
    (package / "kernels.py").write_text(KERNELS, encoding="utf-8")
    return root


def test_a_death_costs_its_own_image_only(tree: Path, tmp_path: Path, setuptools: Setuptools) -> None:
    hook = tmp_path / "hook"
    hook.mkdir()
    action = "if target.name == 'sm_90' and name.startswith('one'): os.kill(os.getpid(), 9)"
    (hook / "sitecustomize.py").write_text(HOOK.format(action=action), encoding="utf-8")
    cache = str(tmp_path / "cache")
    arguments = ("-m", "cudabuild", "build", "-j", "2")
    done = setuptools.attempt(*arguments, cwd=tree, path=[hook], CUDABUILD_CACHE_DIR=cache)
    assert done.returncode == 1
    assert "p.kernels:one(float32[::1]) for sm_90: the process that compiled it was ended by signal 9" in done.stderr
    assert "1 kernel error; nothing was written" in done.stderr
    assert not (tree / "src" / "p" / "_cudabuild").exists()
    again = setuptools.python(*arguments, cwd=tree, CUDABUILD_CACHE_DIR=cache)
    assert "1 image compiled, 5 from the cache" in again


@pytest.mark.skipif(os.name == "nt", reason="Ctrl-C of another process")
def test_ctrl_c_leaves_no_process_and_no_file(tree: Path, tmp_path: Path, setuptools: Setuptools) -> None:
    hook = tmp_path / "hook"
    hook.mkdir()
    action = f"open(os.path.join({str(tmp_path)!r}, f'at-{{os.getpid()}}'), 'w').close(); time.sleep(60)"
    (hook / "sitecustomize.py").write_text(HOOK.format(action=action), encoding="utf-8")
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(hook), *setuptools.path]),
        "CUDABUILD_CACHE_DIR": str(tmp_path / "cache"),
    }
    # In a group of its own, as a shell starts it: Ctrl-C reaches the workers as well. In the background it is ignored.
    code = (
        "import runpy, signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "sys.argv = ['cudabuild', 'build', '-j', '2']; runpy.run_module('cudabuild', run_name='__main__')"
    )
    build = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=tree,
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    workers: list[int] = []
    deadline = time.monotonic() + 120
    while len(workers) < 2 and time.monotonic() < deadline and build.poll() is None:
        workers = [int(path.name[3:]) for path in tmp_path.glob("at-*")]
        time.sleep(0.02)
    assert len(workers) == 2
    os.killpg(build.pid, signal.SIGINT)
    start = time.monotonic()
    _, errors = build.communicate(timeout=60)
    assert time.monotonic() - start < 10
    assert build.returncode == 130
    assert "Traceback" not in errors
    for worker in workers:
        with contextlib.suppress(ProcessLookupError):
            os.kill(worker, 0)
            pytest.fail(f"worker {worker} is alive")
    assert not (tree / "src" / "p" / "_cudabuild").exists()


def test_a_worker_ends_with_its_parent(tree: Path, tmp_path: Path) -> None:
    worker = Worker({"CUDABUILD_CACHE_DIR": str(tmp_path / "cache")})
    worker.start(Project(str(tree), {}), SETTINGS)
    assert worker.process.poll() is None
    assert worker.close() == 0


# The build as a function


def test_a_project_is_built_by_a_function(
    tree: Path, tmp_path: Path, fresh_cache: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    fresh_cache("function")
    with concurrent.futures.ThreadPoolExecutor(2) as executor:
        outcome = build_project(tree, out=tmp_path / "out", executor=executor, archs="90", index="both")
    assert list_images(tmp_path / "out" / "p" / "_cudabuild") == {
        (name, signature, "sm_90", width)
        for name, signature in (("one", "float32[::1]"), ("two", "float32[::1]"), ("two", "float64[::1]"))
        for width in (32, 64)
    }
    assert outcome.written["p"][2] == outcome.result.compiled == 6
    assert not (tree / "src" / "p" / "_cudabuild").exists()
    assert capsys.readouterr().out == ""
    (tree / "src" / "p" / "kernels.py").write_text(KERNELS.replace("x[0] = 2", "x[0] = nonsense"), encoding="utf-8")
    with pytest.raises(BuildError, match="nonsense"):
        build_project(tree)
    with pytest.raises(CudabuildError, match="no project"):
        build_project(tmp_path / "nowhere")
