# SPDX-License-Identifier: Apache-2.0
"""The process that runs slices and compiles: requests come on standard input, answers go to standard output.

Every worker of a build runs the same slice, so each holds live definitions of all kernels; then it compiles the
overloads that it is given. What a package's own statements print goes to standard error.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import sys
import time
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import IO, Any

from cudabuild.build.discover import Kernel, find_candidates, leave, load_kernels
from cudabuild.build.project import ModuleFile, Project
from cudabuild.build.sandbox import Failure, Sandbox
from cudabuild.build.settings import BuildSettings
from cudabuild.build.slice import Slicer
from cudabuild.cache.store import Cache
from cudabuild.definition import KernelDefinition, Options
from cudabuild.errors import CompilationError, CudabuildError, Diagnostic, Location, ToolError
from cudabuild.image.image import KernelImage
from cudabuild.image.left import LeftToJit
from cudabuild.target import TARGETS, Target
from cudabuild.types.signature import Signature, format_signature

__all__ = ["CompileResult", "Discovery", "FoundKernel", "Session", "Task", "main", "receive", "send"]


@dataclass(frozen=True)
class FoundKernel:
    """What the parent process knows of a kernel.

    Attributes:
        module, qualname, file, line: see :class:`cudabuild.build.discover.Kernel`.
        signatures: canonical texts; empty where it is left to JIT.
        left: why it is left to JIT, or None.
        error: what is wrong with it, or "".
    """

    module: str
    qualname: str
    file: str
    line: int
    signatures: tuple[str, ...] = ()
    left: LeftToJit | None = None
    error: str = ""


@dataclass(frozen=True)
class Discovery:
    """All kernels of a project, in order of module and line, and the files that cannot be parsed."""

    kernels: tuple[FoundKernel, ...]
    unreadable: tuple[Failure, ...]


@dataclass(frozen=True)
class Task:
    """One overload to compile, for several targets and index widths."""

    module: str
    qualname: str
    signature: str
    targets: tuple[str, ...]
    index_widths: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.module}:{self.qualname}({self.signature})"


@dataclass
class CompileResult:
    """What became of a task: its images, how many of them were in the cache, or what is wrong."""

    task: Task
    images: list[KernelImage]
    cached: int = 0
    errors: tuple[str, ...] = ()
    seconds: float = 0.0


class Session:
    """Discovery and compilation of one project in this process. Also used without a process of its own, by tests."""

    def __init__(self, project: Project, settings: BuildSettings, cache: Cache) -> None:
        self.project = project
        self.settings = settings
        self.cache = cache
        self._kernels: dict[tuple[str, str], Kernel] = {}
        self._signatures: dict[tuple[str, str, str], Signature] = {}

    def discover(self, sandbox: Sandbox) -> Discovery:
        """Finds the kernels; ``sandbox`` stays open while they are compiled."""
        candidates, unreadable = find_candidates(sandbox.slicer)
        chosen = [
            candidate
            for candidate in candidates
            if self.settings.includes(candidate.module) and candidate.dialect == "cudabuild"
        ]
        kernels = load_kernels(sandbox.slicer, chosen, sandbox)
        return Discovery(tuple(self._describe(kernel) for kernel in kernels), tuple(unreadable))

    def _describe(self, kernel: Kernel) -> FoundKernel:
        place = (kernel.module, kernel.qualname, kernel.file, kernel.line)
        if kernel.left is not None or kernel.definition is None:
            return FoundKernel(*place, left=kernel.left)
        try:
            signatures = kernel.definition.signatures
        except CudabuildError as error:
            line = kernel.definition.function.__code__.co_firstlineno  # that of the first decorator
            where = f"{kernel.file}:{line}: {kernel.qualname}"
            return FoundKernel(*place, error=f"{where}: {error}")
        if not signatures:
            return FoundKernel(*place, left=leave(self.project, kernel, "no-signature", "it declares no signature"))
        self._kernels[kernel.module, kernel.qualname] = kernel
        texts = tuple(map(format_signature, signatures))
        for text, signature in zip(texts, signatures, strict=True):
            self._signatures[kernel.module, kernel.qualname, text] = signature
        return FoundKernel(*place, signatures=texts)

    def compile(self, task: Task) -> CompileResult:
        """Compiles an overload, or takes it from the cache."""
        start = time.perf_counter()
        definition = self._kernels[task.module, task.qualname].definition
        assert definition is not None
        signature = self._signatures[task.module, task.qualname, task.signature]
        result = CompileResult(task, [])
        try:
            result.images, result.cached = self._images(definition, signature, task)
        except CompilationError as error:
            result.errors = tuple(str(self._relative(diagnostic)) for diagnostic in error.diagnostics)
        except ToolError as error:
            result.errors = (str(error),)  # the same for all kernels, so told once
        except CudabuildError as error:
            result.errors = (f"{task}: {error}",)
        except Exception:
            # A fault of ours: told with its traceback, beside the errors of the other kernels.
            result.errors = (f"{task}: internal error\n{traceback.format_exc()}",)
        result.seconds = time.perf_counter() - start
        return result

    def _images(self, definition: KernelDefinition, signature: Signature, task: Task) -> tuple[list[KernelImage], int]:
        from cudabuild.compiler import compile_images, toolchain
        from cudabuild.config import get
        from cudabuild.fingerprint import compute_fingerprint, image_key

        options = build_options(definition.options, self.settings)
        fingerprint = compute_fingerprint(definition, signature, options)
        if fingerprint.in_process:
            raise CudabuildError(
                f"{fingerprint.in_process} is a device array, whose address means something in one process only\n"
                "  do:       pass it as an argument of the kernel"
            )
        keys: dict[tuple[str, int], bytes] = {}
        found: dict[tuple[str, int], KernelImage] = {}
        for name in task.targets:
            tools = toolchain(TARGETS[name])
            for width in task.index_widths:
                key = image_key(fingerprint, TARGETS[name], width, options, tools, get("cache_salt"))
                keys[name, width] = key
                image = self.cache.find(key, name)
                if image is not None:
                    found[name, width] = image
        cached = len(found)
        missing = [place for place in keys if place not in found]
        if missing:

            def make() -> KernelImage:
                targets = [TARGETS[name] for name in dict.fromkeys(name for name, _ in missing)]
                images = compile_images(definition, signature, targets, _widths(missing), options)
                made = {(image.target, image.index_width): image for image in images}
                for place in missing:
                    made[place].key = keys[place]
                    found[place] = made[place]
                # The first is published by the cache, under whose lock this runs: whoever waited finds them all.
                self.cache.publish(*(made[place] for place in missing[1:]))
                return made[missing[0]]

            found[missing[0]] = self.cache.build_once(keys[missing[0]], missing[0][0], make)
            for place in missing[1:]:
                if place not in found:  # another process made the first meanwhile, and with it the others
                    found[place] = self.cache.find(keys[place], place[0]) or self._compile_one(
                        definition, signature, place, options, keys[place]
                    )
        return [found[place].stamp(fingerprint) for place in keys], cached

    def _compile_one(
        self,
        definition: KernelDefinition,
        signature: Signature,
        place: tuple[str, int],
        options: Options,
        key: bytes,
    ) -> KernelImage:
        from cudabuild.compiler import compile_image

        target, width = TARGETS[place[0]], place[1]
        return self.cache.build_once(
            key,
            target.name,
            lambda: compile_image(definition, signature, target=target, index_width=width, options=options),
        )

    def _relative(self, diagnostic: Diagnostic) -> Diagnostic:
        where = diagnostic.location
        file = self.project.relative(where.file)
        return Diagnostic(
            diagnostic.title,
            Location(file, where.line, where.column, where.end_line, where.end_column),
            diagnostic.text,
            kernel=diagnostic.kernel,
            found=diagnostic.found,
            expected=diagnostic.expected,
            do=diagnostic.do,
        )


def _widths(places: Iterable[tuple[str, int]]) -> list[int]:
    return sorted({width for _, width in places})


def build_options(written: Options, settings: BuildSettings) -> Options:
    """A kernel's options with the build's own where the decorator says nothing."""
    values = dict(written.values)
    for name in ("fastmath", "lineinfo"):
        if name not in written.written and getattr(settings, name):
            values[name] = True
    return Options(values, written.written)


def split_targets(targets: Sequence[Target]) -> list[tuple[Target, ...]]:
    """Targets by the linker that they need: one process loads one nvJitLink."""
    older = tuple(target for target in targets if target.is_ptx or target.linker[0] < 13)
    newer = tuple(target for target in targets if target not in older)
    return [group for group in (older, newer) if group]


# The process


def send(stream: IO[bytes], message: Any) -> None:
    """Writes one message: its length, then a pickle. Both ends are ours, and nothing of it reaches a disk."""
    data = pickle.dumps(message)
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


def main() -> None:
    """Serves one parent process until it closes our standard input."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle: it ends us
    requests = sys.stdin.buffer
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a slice prints must not stand between our answers
    try:
        root, files, settings = receive(requests)
    except EOFError:
        return
    project = Project(root, {name: ModuleFile(*file) for name, file in files.items()})
    slicer = Slicer(project)
    session = Session(project, settings, Cache.open())
    with Sandbox(project, slicer, settings.allow_imports) as sandbox:
        send(answers, session.discover(sandbox))
        with contextlib.suppress(EOFError):  # the parent has no more work
            while True:
                result = session.compile(receive(requests))
                for image in result.images:
                    image.data = bytes(image.data)
                send(answers, result)
