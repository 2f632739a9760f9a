# SPDX-License-Identifier: Apache-2.0
"""Worker processes: starting one, giving it tasks, and saying what killed it.

A worker is a process because LLVM ends its process when something is wrong, because LLVM holds one lock, and because
one process holds one nvJitLink. It lives as long as its standard input is open: when the parent goes, so does it.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import IO, TYPE_CHECKING, Any

from cudabuild import config
from cudabuild.cache.store import Cache
from cudabuild.errors import ToolError

if TYPE_CHECKING:
    from cudabuild.build.project import Project
    from cudabuild.build.settings import BuildSettings
    from cudabuild.build.worker import CompileResult, Discovery, Task
    from cudabuild.image.image import KernelImage

__all__ = ["Worker", "WorkerEnded", "compile_with", "receive", "send"]

#: ``sys.path`` is handed on as it is: an isolated build's packages may have come from anywhere. Ctrl-C is the parent's
#: to handle: it ends us.
_START = (
    "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); "
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from cudabuild.build.worker import main; sys.exit(main())"
)


def send(stream: IO[bytes], message: Any) -> None:
    """Writes one message: its length, then a pickle. Both ends are ours, and nothing of it reaches a disk."""
    data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    stream.write(len(data).to_bytes(8, "little") + data)
    stream.flush()


def receive(stream: IO[bytes]) -> Any:
    """Reads one message.

    Raises:
        EOFError: the other end is gone.
    """
    head = stream.read(8)
    data = stream.read(int.from_bytes(head, "little")) if len(head) == 8 else b""
    if len(head) < 8 or len(data) < int.from_bytes(head, "little"):
        raise EOFError
    return pickle.loads(data)


class WorkerEnded(Exception):
    """A worker ended before it had answered; ``how`` says with which status or signal."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.how = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"


class Worker:
    """One worker process.

    Attributes:
        discovery: the kernels that it found, after :meth:`start`.
        made: what it has answered with; it publishes several images at once, so of a dead one some are not published.
    """

    def __init__(self, variables: Mapping[str, str | None] | None = None) -> None:
        """Starts the process.

        Args:
            variables: of its environment, where they differ from those of this process; None for one that is not set.

        Raises:
            ToolError: it cannot be started.
        """
        paths = [os.path.abspath(path) for path in sys.path]
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-c", _START, json.dumps(paths)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=config.changed_environment(variables) if variables else None,
            )
        except OSError as error:
            raise ToolError(f"no compiler process can be started with {sys.executable}: {error}") from None
        self._closing = threading.Lock()
        self.made: list[KernelImage] = []

    def start(self, project: Project, settings: BuildSettings, **request: Any) -> Discovery:
        """Tells it what to build; returns what it found.

        Args:
            project, settings: what to build.
            request: further attributes of :class:`cudabuild.build.worker.Start`.

        Raises:
            WorkerEnded: it ended before it was done.
        """
        from cudabuild.build.worker import Start

        files = {name: (file.name, file.path, file.is_package) for name, file in project.files.items()}
        found: Discovery = self._ask(Start(project.root, files, settings, **request))
        self.discovery = found
        return found

    def ask(self, task: Task) -> CompileResult:
        """Has a task done.

        Raises:
            WorkerEnded: it ended before it was done.
        """
        result: CompileResult = self._ask(task)
        self.made += result.images
        return result

    def flush(self) -> None:
        """Has it publish what it made, so that nobody waits for the locks of an idle worker.

        Raises:
            WorkerEnded: it ended before it was done.
        """
        self._ask(None)

    def _ask(self, message: Any) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            send(self.process.stdin, message)
            return receive(self.process.stdout)
        except (OSError, EOFError, ValueError):  # ValueError: closed by another thread, which ends the build
            raise WorkerEnded(self.close()) from None

    def kill(self) -> None:
        """Ends the process at once: nothing of what it does is wanted any more."""
        self.process.kill()

    def keep_made(self) -> None:
        """Publishes what a dead worker had made and not published."""
        cache = Cache.open()
        cache.publish(*(image for image in self.made if cache.find(image.key, image.target) is None))

    def close(self) -> int:
        """Lets the process publish what it made, and end; returns its exit status."""
        with self._closing:
            for stream in (self.process.stdin, self.process.stdout):
                if stream is not None:
                    with contextlib.suppress(OSError):  # what it could not be told any more
                        stream.close()
            try:
                return self.process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                return self.process.wait()


def compile_with(worker: Worker, task: Task, renew: Callable[[], Worker]) -> tuple[Worker, CompileResult]:
    """Has a task done even if the worker dies of it; returns a living worker and the result.

    The targets of a task that killed its worker are tried one by one in new workers, so that the one to blame is named
    and the images of the others are not lost.

    Args:
        worker: a started worker.
        task: what to compile.
        renew: starts another worker.
    """
    from cudabuild.build.worker import CompileResult

    try:
        return worker, worker.ask(task)
    except WorkerEnded as death:
        worker.keep_made()
        worker = renew()
        if len(task.targets) == 1:
            return worker, CompileResult(task, [], errors=(_name_death(task, death),))
    total = CompileResult(task, [])
    for target in task.targets:
        worker, part = compile_with(worker, replace(task, targets=(target,)), renew)
        total.images += part.images
        total.cached += part.cached
        total.seconds += part.seconds
        total.errors += tuple(error for error in part.errors if error not in total.errors)
        total.left = part.left or total.left
        total.reached |= part.reached
    return worker, total


def _name_death(task: Task, death: WorkerEnded) -> str:
    return f"{task} for {task.targets[0]}: the process that compiled it {death.how}; its last words stand above"
