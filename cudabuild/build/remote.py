# SPDX-License-Identifier: Apache-2.0
"""Compiles through a ``concurrent.futures.Executor``: threads, processes, a Dask cluster.

What a task is given is bytes: the project's sources (and the files that its slices read) with the settings, and the
overloads to compile. What it returns is bytes. Wherever it runs, it starts worker processes of its own, so that nothing
of a project is imported into a process that is somebody else's, and nothing that LLVM does can end it.
"""

from __future__ import annotations

import atexit
import concurrent.futures
import contextlib
import os
import pickle
import platform
import shutil
import tempfile
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

from cudabuild import config
from cudabuild.build.pool import Worker, WorkerEnded, compile_with
from cudabuild.build.project import ModuleFile, Project
from cudabuild.build.reach import Reached
from cudabuild.build.settings import BuildSettings
from cudabuild.build.worker import CompileResult, Task
from cudabuild.cache.store import Cache
from cudabuild.digest import digest, digest_sources
from cudabuild.errors import SettingError, ToolError

__all__ = ["compile_all", "compile_batch", "look_up", "open_executor"]

#: Overloads a task: sending the sources costs the more, the smaller tasks are; the last ones end the later, the larger.
_BATCH = 8

#: Seconds after which a worker process that nobody asks for anything ends.
_PATIENCE = 60.0


@dataclass(frozen=True)
class _Snapshot:
    """All that a build on another machine needs.

    Attributes:
        compiler: the digest of this package's sources, which must be the same there.
        files: path relative to the project's root -> contents.
        modules: module name -> (path relative to the root, whether it is a package).
        variables: of the environment that slices read, with their values here.
        settings, linker: of the build.
    """

    compiler: str
    files: dict[str, bytes]
    modules: dict[str, tuple[str, bool]]
    variables: tuple[tuple[str, str | None], ...]
    settings: BuildSettings
    linker: int | None


@contextlib.contextmanager
def open_executor(name: str) -> Iterator[concurrent.futures.Executor]:
    """The executor of a name: ``dask:ADDRESS``, such as ``dask:tcp://10.0.0.1:8786``.

    Raises:
        SettingError: no such executor.
        ToolError: the package ``distributed`` is missing, or the cluster does not answer.
    """
    kind, _, address = name.partition(":")
    if kind != "dask" or not address:
        raise SettingError(
            f"bad executor\n  found:    {name!r}\n  expected: 'processes', 'threads' or 'dask:ADDRESS', "
            "such as 'dask:tcp://10.0.0.1:8786'"
        )
    try:
        from distributed import Client
    except ImportError as error:
        raise ToolError(
            f"--executor {name} needs the package distributed, which cannot be imported ({error}): "
            "pip install 'cudabuild[dask]'"
        ) from None
    try:
        client = Client(address, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        raise ToolError(f"no Dask scheduler answers at {address}: {error or type(error).__name__}") from None
    try:
        yield client.get_executor(pure=False)
    finally:
        client.close()


# This side


def look_up(worker: Worker, task: Task) -> tuple[CompileResult, bool]:
    """What this machine's cache has of a task, and whether it is all of it."""
    try:
        found = worker.ask(replace(task, look_up=True))
    except WorkerEnded:
        raise ToolError(f"the process that looks into the cache ended at {task}; its last words stand above") from None
    complete = len(found.images) == len(task.targets) * len(task.index_widths)
    return replace(found, task=task), complete and not found.errors


def compile_all(
    project: Project,
    settings: BuildSettings,
    reached: Reached,
    linker: int | None,
    tasks: Sequence[Task],
    executor: concurrent.futures.Executor,
    collect: Callable[[CompileResult], None],
) -> None:
    """Compiles tasks with an executor, calling ``collect`` from this thread for each; what comes is kept in the cache.

    Args:
        project, settings: what is built.
        reached: what its slices looked at here.
        linker: the nvJitLink that serves the tasks.
        tasks: what to compile.
        executor: who does it.
        collect: is told each result.
    """
    snapshot = zlib.compress(pickle.dumps(_take_snapshot(project, settings, reached, linker)), 1)
    kept = Cache.open()
    # Few tasks for many workers: one each.
    size = max(1, min(_BATCH, len(tasks) // 16))
    batches = [tuple(tasks[start : start + size]) for start in range(0, len(tasks), size)]
    running = {executor.submit(compile_batch, snapshot, pickle.dumps(batch)): batch for batch in batches}
    try:
        while running:
            done, _ = concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED)
            for future in done:
                batch = running.pop(future)
                error = future.exception()
                if error is None:
                    results: list[CompileResult] = pickle.loads(zlib.decompress(future.result()))
                    for result in results:
                        kept.publish(*result.images)
                        result.reached = Reached()  # places on another machine
                        collect(result)
                elif len(batch) > 1 and not isinstance(error, concurrent.futures.BrokenExecutor | ToolError):
                    # Whoever ran it is gone: one by one, to find what it died of.
                    for task in batch:
                        running[executor.submit(compile_batch, snapshot, pickle.dumps((task,)))] = (task,)
                else:
                    for task in batch:
                        collect(CompileResult(task, [], errors=(_describe(task, error),)))
    finally:
        for future in running:
            future.cancel()
        _Place.end_all()  # of an executor's threads in this process


def _describe(task: Task, error: BaseException) -> str:
    if isinstance(error, ToolError):
        return str(error)  # the same for all kernels, so told once
    return f"{task} for {', '.join(task.targets)}: its task failed where it ran: {type(error).__name__}: {error}"


def _take_snapshot(project: Project, settings: BuildSettings, reached: Reached, linker: int | None) -> _Snapshot:
    files = {}
    modules = {}
    for name, file in project.files.items():
        modules[name] = (_inside(project, file.path), file.is_package)
        files[_inside(project, file.path)] = project.read(name)
    extra = [*(path for path, _ in reached.files), *settings.signature_files]
    for path in extra:
        if os.path.isfile(path) and not os.path.relpath(path, project.root).startswith(os.pardir):
            with open(path, "rb") as stream:
                files[_inside(project, path)] = stream.read()
    signatures = tuple(_inside(project, path) for path in settings.signature_files)
    plain = replace(settings, signature_files=signatures, executor="", origins=())
    variables = (*reached.variables, ("CUDABUILD_CACHE_SALT", config.environment("CUDABUILD_CACHE_SALT")))
    return _Snapshot(_own_digest(), files, modules, variables, plain, linker)


def _inside(project: Project, path: str) -> str:
    """A path below the project's root; a module elsewhere (``package-dir = {"": "../lib"}``) gets a place there."""
    return os.path.relpath(path, project.root).replace(os.pardir, "outside").replace(os.sep, "/")


@cache
def _own_digest() -> str:
    return digest_sources((".",))


# The other side


def compile_batch(snapshot: bytes, tasks: bytes) -> bytes:
    """Compiles tasks in a worker process of this one. All arguments and the result are plain bytes.

    Raises:
        ToolError: cudabuild here is not the one that asks, or a worker cannot be started.
    """
    place = _Place.find(snapshot)
    worker = place.take()
    results = []
    for task in pickle.loads(tasks):
        worker, result = compile_with(worker, task, place.start)
        results.append(result)
    with contextlib.suppress(WorkerEnded):  # it was done; the next task starts another
        worker.flush()
        place.give(worker)
    return zlib.compress(pickle.dumps(results), 1)


class _Place:
    """A project's sources on this machine, in a folder of their own, and the idle workers that have read them."""

    _all: dict[bytes, _Place] = {}
    _guard = threading.Lock()

    def __init__(self, data: bytes) -> None:
        snapshot: _Snapshot = pickle.loads(zlib.decompress(data))
        if snapshot.compiler != _own_digest():
            raise ToolError(
                f"{platform.node()} has another version of cudabuild than the machine that asks: the "
                "archives would differ. Install the same on both"
            )
        self.snapshot = snapshot
        self.root = tempfile.mkdtemp(prefix="cudabuild-")
        atexit.register(self.remove)
        for name, contents in snapshot.files.items():
            path = os.path.join(self.root, *name.split("/"))
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as stream:
                stream.write(contents)
        modules = {
            name: ModuleFile(name, os.path.join(self.root, *path.split("/")), is_package)
            for name, (path, is_package) in snapshot.modules.items()
        }
        self.project = Project(self.root, modules)
        self._idle: list[tuple[Worker, threading.Timer]] = []
        self._lock = threading.Lock()

    @classmethod
    def find(cls, data: bytes) -> _Place:
        """The place of a snapshot; another project's workers end."""
        key = digest(data)
        with cls._guard:
            place = cls._all.get(key)
            if place is None:
                while cls._all:
                    cls._all.popitem()[1].end_idle()
                place = cls._all[key] = cls(data)
        return place

    @classmethod
    def end_all(cls) -> None:
        """Ends all idle workers of this process."""
        with cls._guard:
            for place in cls._all.values():
                place.end_idle()

    def start(self) -> Worker:
        """A new worker that knows the project."""
        settings = self.snapshot.settings
        files = tuple(os.path.join(self.root, *path.split("/")) for path in settings.signature_files)
        worker = Worker(dict(self.snapshot.variables))
        try:
            worker.start(self.project, replace(settings, signature_files=files), linker=self.snapshot.linker)
        except WorkerEnded as death:
            raise ToolError(f"the process that looks for kernels on {platform.node()} {death.how}") from None
        return worker

    def take(self) -> Worker:
        """An idle worker, or a new one."""
        with self._lock:
            if self._idle:
                worker, timer = self._idle.pop()
                timer.cancel()
                return worker
        return self.start()

    def give(self, worker: Worker) -> None:
        """Keeps a worker for the next task, for a while."""
        timer = threading.Timer(_PATIENCE, self.end_idle)
        timer.daemon = True
        with self._lock:
            self._idle.append((worker, timer))
        timer.start()

    def end_idle(self) -> None:
        """Ends the workers that nobody asks for anything."""
        with self._lock:
            idle, self._idle = self._idle, []
        for worker, timer in idle:
            timer.cancel()
            worker.close()

    def remove(self) -> None:
        """At the end of the process: no worker and no file stays behind."""
        self.end_idle()
        shutil.rmtree(self.root, ignore_errors=True)
