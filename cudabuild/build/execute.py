# SPDX-License-Identifier: Apache-2.0
"""Runs a build: workers discover and compile, this process keeps the plan and collects what comes back.

Processes, because LLVM holds one lock; one kernel's overload at a time to each, so that none waits long for the last.
A worker that dies is told by the kernel that it was compiling, and replaced.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from cudabuild.build.plan import plan_tasks
from cudabuild.build.project import Project
from cudabuild.build.settings import BuildSettings
from cudabuild.build.worker import CompileResult, Discovery, FoundKernel, Task, receive, send
from cudabuild.errors import ToolError
from cudabuild.image.image import KernelImage

__all__ = ["BuildResult", "Progress", "run_build"]

#: Called after each overload: (how many are done, how many there are, the latest result).
Progress = Callable[[int, int, CompileResult], None]

#: ``sys.path`` is handed on as it is: an isolated build's packages may have come from anywhere.
_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from cudabuild.build.worker import main; sys.exit(main())"
)


@dataclass
class BuildResult:
    """What a build made.

    Attributes:
        kernels: all that were found, in order of module and line.
        images: of the kernels that were built.
        errors: everything that is wrong, each once.
        compiled, cached: how many images were made now, and how many were there already.
        unreadable: the files that cannot be parsed, as ``file:line: reason``.
    """

    kernels: tuple[FoundKernel, ...] = ()
    images: list[KernelImage] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    compiled: int = 0
    cached: int = 0
    unreadable: tuple[str, ...] = ()


def run_build(project: Project, settings: BuildSettings, progress: Progress | None = None) -> BuildResult:
    """Discovers and compiles all kernels of a project.

    Raises:
        ToolError: a worker process cannot be started.
    """
    result = BuildResult()
    with _Workers(project, settings) as workers:
        found = workers.discover()
        result.kernels = found.kernels
        result.unreadable = tuple(map(str, found.unreadable))
        result.errors += [kernel.error for kernel in found.kernels if kernel.error]
        if settings.strict:
            result.errors += [f"{kernel.left} (strict)" for kernel in found.kernels if kernel.left]
        tasks = plan_tasks(found.kernels, settings)
        total = sum(map(len, tasks))
        results: list[CompileResult] = []

        def collect(done: CompileResult) -> None:
            results.append(done)
            if progress is not None:
                progress(len(results), total, done)

        for group in tasks:
            workers.compile(group, collect)
    for done in sorted(results, key=lambda done: (str(done.task), done.task.targets)):
        result.images += done.images
        result.cached += done.cached
        result.errors += [error for error in done.errors if error not in result.errors]
    result.compiled = len(result.images) - result.cached
    return result


class _Worker:
    """One worker process."""

    def __init__(self, project: Project, settings: BuildSettings) -> None:
        paths = [os.path.abspath(path) for path in sys.path]
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-c", _START, json.dumps(paths)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
        except OSError as error:
            raise ToolError(f"no compiler process can be started with {sys.executable}: {error}") from None
        files = {name: (file.name, file.path, file.is_package) for name, file in project.files.items()}
        self._send((project.root, files, settings))

    def _send(self, message: Any) -> None:
        assert self.process.stdin is not None
        try:
            send(self.process.stdin, message)
        except OSError:
            raise EOFError from None

    def receive(self) -> Any:
        assert self.process.stdout is not None
        return receive(self.process.stdout)

    def ask(self, task: Task) -> CompileResult:
        self._send(task)
        result: CompileResult = self.receive()
        return result

    def close(self) -> int:
        """Ends the process and returns its exit status."""
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()
        try:
            return self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


class _Workers:
    """The worker processes of a build; the first one discovers."""

    def __init__(self, project: Project, settings: BuildSettings) -> None:
        self.project = project
        self.settings = settings
        self._idle: list[_Worker] = []
        self._all: list[_Worker] = []
        self._lock = threading.Lock()
        self._closed = False

    def __enter__(self) -> _Workers:
        return self

    def __exit__(self, *error: object) -> None:
        # After an error or Ctrl-C the workers are in the middle of something: nothing of it is wanted any more.
        with self._lock:
            self._closed = True
        self._close_all(kill=error[0] is not None)

    def _close_all(self, *, kill: bool = False) -> None:
        with self._lock:
            workers, self._all = self._all, []
        for worker in workers:
            if kill:
                worker.process.kill()
            worker.close()

    def _start(self) -> tuple[_Worker, Discovery]:
        """A worker that has made its discovery.

        Raises:
            ToolError: it cannot be started, or ended before it was done.
        """
        worker = _Worker(self.project, self.settings)
        with self._lock:
            self._all.append(worker)
            closed = self._closed
        if closed:  # between our start and the end of the build
            worker.process.kill()
        try:
            found: Discovery = worker.receive()
        except EOFError:
            raise ToolError(
                f"the process that looks for kernels ended with status {worker.close()}; its message stands above"
            ) from None
        return worker, found

    def discover(self) -> Discovery:
        """Starts the first worker."""
        worker, found = self._start()
        self._idle.append(worker)
        return found

    def compile(self, tasks: Sequence[Task], collect: Callable[[CompileResult], None]) -> None:
        """Compiles tasks that one nvJitLink serves, calling ``collect`` from this thread for each."""
        waiting: queue.SimpleQueue[Task] = queue.SimpleQueue()
        for task in tasks:
            waiting.put(task)
        done: queue.SimpleQueue[CompileResult | BaseException] = queue.SimpleQueue()
        count = min(self.settings.jobs or _processors(), len(tasks))
        threads = [threading.Thread(target=self._serve, args=(waiting, done), daemon=True) for _ in range(count)]
        for thread in threads:
            thread.start()
        for _ in tasks:
            result = done.get()
            if isinstance(result, BaseException):
                raise result
            collect(result)
        # They have loaded this group's nvJitLink, and are of no use to another's.
        self._idle.clear()
        for thread in threads:
            thread.join()
        self._close_all()

    def _serve(self, waiting: queue.SimpleQueue[Task], done: queue.SimpleQueue[CompileResult | BaseException]) -> None:
        worker: _Worker | None = None
        while True:
            try:
                task = waiting.get_nowait()
            except queue.Empty:
                return
            try:
                if worker is None:
                    worker = self._take()
                done.put(worker.ask(task))
            except EOFError:
                status = worker.close() if worker is not None else 0
                done.put(CompileResult(task, [], errors=(f"{task}: {_death(status)}",)))
                worker = None
            except BaseException as error:
                done.put(error)  # raised where the results are collected
                return

    def _take(self) -> _Worker:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        return self._start()[0]


def _death(status: int) -> str:
    how = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
    return f"the process that compiled it {how}; its last words stand above"


def _processors() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS or Windows
        return os.cpu_count() or 1
