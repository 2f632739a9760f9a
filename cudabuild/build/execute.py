# SPDX-License-Identifier: Apache-2.0
"""Runs a build: workers discover and compile, this process keeps the plan and collects what comes back.

One worker process per job, each compiling one kernel's overload at a time, so that none waits long for the last. A
worker that dies is told by the kernel and target that it was compiling, and replaced. With an executor, the compiling
is done wherever that runs its tasks (see ``remote.py``), and this process asks its own cache first.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import os
import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from cudabuild.build.plan import TaskGroup, plan_tasks, split_targets
from cudabuild.build.pool import Worker, WorkerEnded, compile_with
from cudabuild.build.project import Project
from cudabuild.build.reach import Reached
from cudabuild.build.recorded import read_recorded
from cudabuild.build.settings import BuildSettings
from cudabuild.build.worker import CompileResult, Discovery, FoundKernel, Task
from cudabuild.errors import ToolError
from cudabuild.image.image import KernelImage

__all__ = ["BuildResult", "Progress", "count_processors", "run_build"]

#: Called after each overload: (how many are done, how many there are, the latest result).
Progress = Callable[[int, int, CompileResult], None]


@dataclass
class BuildResult:
    """What a build made.

    Attributes:
        kernels: all that were found, in order of module and line.
        images: of the kernels that were built.
        errors: everything that is wrong, each once.
        compiled, cached: how many images were made now, and how many were there already.
        unreadable: the files that cannot be parsed, as ``file:line: reason``.
        seconds: overload, as (module, qualified name, signature) -> what its images took a worker.
        reached: what the slices looked at besides the project's modules.
        notes: lines for the report.
    """

    kernels: tuple[FoundKernel, ...] = ()
    images: list[KernelImage] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    compiled: int = 0
    cached: int = 0
    unreadable: tuple[str, ...] = ()
    seconds: dict[tuple[str, str, str], float] = field(default_factory=dict)
    reached: Reached = field(default_factory=Reached)
    notes: tuple[str, ...] = ()


def run_build(
    project: Project,
    settings: BuildSettings,
    progress: Progress | None = None,
    executor: concurrent.futures.Executor | None = None,
) -> BuildResult:
    """Discovers and compiles all kernels of a project.

    Args:
        project: the project.
        settings: what to build.
        progress: called after each overload.
        executor: where to compile, in place of processes of this one; by default what ``settings.executor`` names. What
            it is given are plain bytes, so it may run its tasks on other machines that have the same cudabuild.

    Raises:
        SettingError: something in a signature file is wrong.
        ToolError: a worker process cannot be started, or the executor cannot be had.
    """
    result = BuildResult()
    read_recorded(settings)  # what is wrong in a signature file is told here, not by a process that ends
    with _find_executor(settings, executor) as chosen, _Workers(project, settings) as workers:
        found = workers.discover()
        result.kernels = found.kernels
        result.notes = found.notes
        result.unreadable = tuple(map(str, found.unreadable))
        result.errors += [kernel.error for kernel in found.kernels if kernel.error]
        result.errors += settings.find_unknown_kernels(f"{one.module}:{one.qualname}" for one in found.kernels)
        if settings.strict:
            result.errors += [f"{kernel.left} (strict)" for kernel in found.kernels if kernel.left]
            result.errors += [f"{failure} (strict)" for failure in found.unreadable]
        groups = plan_tasks(found.kernels, settings)
        total = sum(len(group.tasks) for group in groups)
        results: list[CompileResult] = []

        def collect(done: CompileResult) -> None:
            results.append(done)
            if progress is not None:
                progress(len(results), total, done)

        for group in groups:
            if chosen is None:
                workers.compile(group, collect)
            else:
                workers.compile_elsewhere(group, chosen, collect)
        result.reached = workers.reached
    for done in sorted(results, key=lambda done: (str(done.task), done.task.targets)):
        result.images += done.images
        result.cached += done.cached
        result.errors += [error for error in done.errors if error not in result.errors]
        if done.left is not None and done.left not in result.kernels:
            result.kernels += (done.left,)
        overload = (done.task.module, done.task.qualname, done.task.signature)
        result.seconds[overload] = result.seconds.get(overload, 0.0) + done.seconds
        if done.reached != Reached():
            result.reached |= done.reached
    result.compiled = len(result.images) - result.cached
    return result


def count_processors() -> int:
    """How many processors this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS or Windows
        return os.cpu_count() or 1


@contextlib.contextmanager
def _find_executor(
    settings: BuildSettings, given: concurrent.futures.Executor | None
) -> Iterator[concurrent.futures.Executor | None]:
    """The executor that was given or that the settings name; None for worker processes of this one."""
    if given is not None or settings.executor in ("", "processes", "threads"):
        yield given
        return
    from cudabuild.build.remote import open_executor

    with open_executor(settings.executor) as executor:
        yield executor


class _Workers:
    """The worker processes of a build; the first one discovers."""

    def __init__(self, project: Project, settings: BuildSettings) -> None:
        self.project = project
        self.settings = settings
        self.discovery: Discovery | None = None
        self.reached = Reached()
        self._idle: list[Worker] = []
        self._all: list[Worker] = []
        self._lock = threading.Lock()
        self._closed = False

    def __enter__(self) -> _Workers:
        return self

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._closed = True
            workers, self._all = self._all, []
        if error[0] is not None:  # the workers are in the middle of something: nothing of it is wanted any more
            for worker in workers:
                worker.kill()
        for worker in workers:
            worker.close()
            if error[0] is not None:
                worker.keep_made()

    def _start(self, linker: int | None) -> Worker:
        """A worker that has made its discovery.

        Raises:
            ToolError: it cannot be started, or ended before it was done.
        """
        worker = Worker()
        with self._lock:
            self._all.append(worker)
            closed = self._closed
        if closed:  # between our start and the end of the build
            worker.kill()
        try:
            worker.start(self.project, self.settings, linker=linker)
        except WorkerEnded as death:
            raise ToolError(f"the process that looks for kernels {death.how}; its message stands above") from None
        return worker

    def discover(self) -> Discovery:
        """Starts the first worker, which then compiles the first group of targets."""
        linker, _ = split_targets(self.settings.targets, self.settings.nvjitlink)[0]
        worker = self._start(linker)
        self._idle.append(worker)
        self.reached = worker.discovery.reached
        return worker.discovery

    def compile(self, group: TaskGroup, collect: Callable[[CompileResult], None]) -> None:
        """Compiles tasks that one nvJitLink serves, calling ``collect`` from this thread for each."""
        jobs = self.settings.jobs or count_processors()
        count = 1 if self.settings.executor == "threads" else min(jobs, len(group.tasks))
        # More processors than kernels: the images of a kernel are linked side by side.
        threads = max(1, jobs // max(count, 1))
        waiting: queue.SimpleQueue[Task] = queue.SimpleQueue()
        for task in group.tasks:
            waiting.put(replace(task, threads=threads))
        done: queue.SimpleQueue[CompileResult | BaseException] = queue.SimpleQueue()
        serve = [
            threading.Thread(target=self._serve, args=(group.linker, waiting, done), daemon=True) for _ in range(count)
        ]
        for thread in serve:
            thread.start()
        for _ in group.tasks:
            result = done.get()
            if isinstance(result, BaseException):
                raise result
            collect(result)
        for thread in serve:  # they close their workers, which have loaded this group's nvJitLink
            thread.join()
        self._idle.clear()

    def _serve(
        self,
        linker: int | None,
        waiting: queue.SimpleQueue[Task],
        done: queue.SimpleQueue[CompileResult | BaseException],
    ) -> None:
        worker: Worker | None = None
        try:
            while True:
                try:
                    task = waiting.get_nowait()
                except queue.Empty:
                    break
                worker = worker or self._take(linker)
                worker, result = compile_with(worker, task, lambda: self._start(linker))
                done.put(result)
        except BaseException as error:
            done.put(error)  # raised where the results are collected
        else:
            if worker is not None:
                worker.close()

    def _take(self, linker: int | None) -> Worker:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        return self._start(linker)

    def compile_elsewhere(
        self, group: TaskGroup, executor: concurrent.futures.Executor, collect: Callable[[CompileResult], None]
    ) -> None:
        """As ``compile``, with an executor; what the cache has is not sent to it."""
        from cudabuild.build.remote import compile_all, look_up

        worker = self._take(group.linker)
        missing: list[Task] = []
        for task in group.tasks:
            found, complete = look_up(worker, task)
            if complete:
                collect(found)
            else:
                missing.append(task)
            self.reached |= found.reached
        worker.close()
        self._idle.clear()
        compile_all(self.project, self.settings, self.reached, group.linker, missing, executor, collect)
