# SPDX-License-Identifier: Apache-2.0
"""The process that runs slices and compiles: requests come on standard input, answers go to standard output.

Every worker of a build runs the same slice, so each holds live definitions of all kernels; then it compiles the
overloads that it is given. What a package's own statements print goes to standard error.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
import traceback
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from cudabuild.backend.cubin import choose_linker
from cudabuild.build.discover import Kernel, find_candidates, leave, load_kernels, open_modules
from cudabuild.build.imported import Imported
from cudabuild.build.pool import receive, send
from cudabuild.build.project import ModuleFile, Project
from cudabuild.build.reach import Reached, Recorder
from cudabuild.build.recorded import Recorded, leave_overload
from cudabuild.build.sandbox import Failure, Sandbox
from cudabuild.build.settings import BuildSettings
from cudabuild.build.slice import Slicer
from cudabuild.cache.batch import Batch
from cudabuild.cache.store import Cache
from cudabuild.definition import KernelDefinition
from cudabuild.errors import CompilationError, CudabuildError, Diagnostic, Location, SignatureError, ToolError
from cudabuild.image.image import KernelImage
from cudabuild.image.left import LeftToJit
from cudabuild.target import TARGETS
from cudabuild.types.signature import Signature, format_signature, parse_signatures

if TYPE_CHECKING:
    from cudabuild.definition import Options
    from cudabuild.fingerprint import Fingerprint

__all__ = ["CompileResult", "Discovery", "FoundKernel", "Session", "Start", "Task", "main"]


@dataclass(frozen=True)
class FoundKernel:
    """What the parent process knows of a kernel.

    Attributes:
        module, qualname, file, line: see :class:`cudabuild.build.discover.Kernel`.
        signatures: canonical texts; empty where it is left to JIT.
        left: why it is left to JIT, or None.
        error: what is wrong with it, or "".
        variant: what tells it from other kernels of its name, or "".
        recorded: those of the signatures that a signature file alone asks for.
    """

    module: str
    qualname: str
    file: str
    line: int
    signatures: tuple[str, ...] = ()
    left: LeftToJit | None = None
    error: str = ""
    variant: str = ""
    recorded: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Discovery:
    """All kernels of a project, in order of module and line, the files that cannot be parsed, and what else decided.

    ``notes`` are lines for the report.
    """

    kernels: tuple[FoundKernel, ...]
    unreadable: tuple[Failure, ...]
    reached: Reached = field(default_factory=Reached)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Task:
    """One overload to compile.

    Attributes:
        module, qualname, signature: the overload.
        targets, index_widths: what to compile it for.
        threads: how many cubins may be linked at once.
        look_up: True to take from the cache what is there, and compile nothing.
        variant: of the kernel, see :class:`FoundKernel`.
        recorded: whether only a signature file asks for it: then what cannot be compiled is left to JIT.
    """

    module: str
    qualname: str
    signature: str
    targets: tuple[str, ...]
    index_widths: tuple[int, ...]
    threads: int = 1
    look_up: bool = False
    variant: str = ""
    recorded: bool = False

    def __str__(self) -> str:
        variant = f" [{self.variant}]" if self.variant else ""
        return f"{self.module}:{self.qualname}({self.signature}){variant}"


@dataclass
class CompileResult:
    """What became of a task: its images, how many of them were in the cache, what is wrong, or left; what decided."""

    task: Task
    images: list[KernelImage]
    cached: int = 0
    errors: tuple[str, ...] = ()
    seconds: float = 0.0
    left: FoundKernel | None = None
    reached: Reached = field(default_factory=Reached)


class Session:
    """Discovery and compilation of one project in this process. Also used without a process of its own, by tests."""

    def __init__(self, project: Project, settings: BuildSettings, cache: Cache) -> None:
        self.project = project
        self.settings = settings
        self.batch = Batch(cache)
        self.recorder = Recorder(project)
        self._kernels: dict[tuple[str, str, str], Kernel] = {}
        self._signatures: dict[tuple[str, str, str], Signature] = {}

    def discover(self, sandbox: Sandbox | Imported) -> Discovery:
        """Finds the kernels; ``sandbox`` stays open while they are compiled."""
        candidates, unreadable = find_candidates(sandbox.slicer)
        included = [candidate for candidate in candidates if self.settings.includes(candidate.module)]
        chosen = [one for one in included if self.settings.takes(one.module, one.dialect)]
        recorded = Recorded(sandbox.slicer, self.settings)
        kernels = load_kernels(sandbox.slicer, chosen, sandbox, recorded.cells)
        kernels = recorded.join(kernels, sandbox)
        found = [described for kernel in kernels for described in self._describe_all(kernel, recorded)]
        notes = (*recorded.notes, *_note_numba([one.module for one in included if one not in chosen]))
        unreadable = [one for one in unreadable if self.settings.includes(one.about)]
        return Discovery(tuple(found), tuple(unreadable), notes=notes)

    def _describe_all(self, kernel: Kernel, recorded: Recorded) -> list[FoundKernel]:
        """A kernel with its own and its recorded signatures, and those of the recorded ones that do not fit."""
        left = recorded.add_signatures(kernel)
        return [self._describe(kernel), *map(self._describe, left)]

    def _describe(self, kernel: Kernel) -> FoundKernel:
        place = (kernel.module, kernel.qualname, kernel.file, kernel.line)
        if kernel.left is not None or kernel.definition is None:
            return FoundKernel(*place, left=kernel.left)
        try:
            declared = self._find_signatures(kernel.definition)
            signatures = list(dict.fromkeys([*declared, *kernel.recorded]))
            self.settings.options_of(kernel.module, kernel.qualname, kernel.definition.options)
        except CudabuildError as error:
            line = kernel.definition.function.__code__.co_firstlineno  # that of the first decorator
            where = f"{kernel.file}:{line}: {kernel.qualname}"
            return FoundKernel(*place, error=f"{where}: {error}")
        if not signatures:
            return FoundKernel(*place, left=leave(self.project, kernel, "no-signature", "it declares no signature"))
        self._kernels[kernel.module, kernel.qualname, kernel.variant] = kernel
        texts = tuple(map(format_signature, signatures))
        for text, signature in zip(texts, signatures, strict=True):
            self._signatures[kernel.module, kernel.qualname, text] = signature
        only = frozenset(format_signature(one) for one in kernel.recorded if one not in declared)
        return FoundKernel(*place, signatures=texts, variant=kernel.variant, recorded=only)

    def _find_signatures(self, definition: KernelDefinition) -> list[Signature]:
        """Those that the kernel declares, and those that the settings add.

        Raises:
            CudabuildError: one cannot be read, or does not fit the function.
        """
        signatures = list(definition.signatures)
        name = f"{definition.module}:{definition.qualname}"
        for text in self.settings.signatures_of(definition.module, definition.qualname):
            for signature in parse_signatures(text):
                try:
                    definition.check_arity(signature)
                except SignatureError as error:
                    raise CudabuildError(f"{error}\n  where:    signatures of {name!r} in [tool.cudabuild]") from None
                if signature not in signatures:
                    signatures.append(signature)
        return signatures

    def identify(self, task: Task) -> tuple[Fingerprint, Options]:
        """What an overload means, and its options; nothing is compiled.

        Raises:
            CudabuildError: it cannot be told.
        """
        from cudabuild.fingerprint import compute_fingerprint

        definition = self._kernels[task.module, task.qualname, task.variant].definition
        assert definition is not None
        signature = self._signatures[task.module, task.qualname, task.signature]
        options = self.settings.options_of(definition.module, definition.qualname, definition.options)
        return compute_fingerprint(definition, signature, options), options

    def compile(self, task: Task) -> CompileResult:
        """Compiles an overload, or takes it from the cache."""
        start = time.perf_counter()
        kernel = self._kernels[task.module, task.qualname, task.variant]
        definition = kernel.definition
        assert definition is not None
        signature = self._signatures[task.module, task.qualname, task.signature]
        result = CompileResult(task, [])
        refused: CudabuildError | None = None
        try:
            result.images, result.cached = self._images(definition, signature, task)
        except CompilationError as error:
            result.errors = tuple(str(self._relative(diagnostic)) for diagnostic in error.diagnostics)
            refused = error
        except ToolError as error:
            result.errors = (str(error),)  # the same for all kernels, so told once
        except CudabuildError as error:
            result.errors = (f"{task}: {error}",)
            refused = error
        except Exception:
            # A fault of ours: told with its traceback, beside the errors of the other kernels.
            result.errors = (f"{task}: internal error\n{traceback.format_exc()}",)
        if task.recorded and refused is not None and not self.settings.strict:
            result.errors, result.left = (
                (),
                self._describe(leave_overload(self.project, kernel, task.signature, refused)),
            )
        result.reached = self.recorder.take()
        result.seconds = time.perf_counter() - start
        return result

    def _images(self, definition: KernelDefinition, signature: Signature, task: Task) -> tuple[list[KernelImage], int]:
        from cudabuild.compiler import compile_images, toolchain
        from cudabuild.config import get
        from cudabuild.fingerprint import compute_fingerprint, image_key

        options = self.settings.options_of(definition.module, definition.qualname, definition.options)
        with self.recorder:  # it reads the sources of other packages' functions, and files of foreign code
            fingerprint = compute_fingerprint(definition, signature, options)
        if fingerprint.in_process:
            raise CudabuildError(
                f"{fingerprint.in_process} is a device array, whose address means something in one process only\n"
                "  do:       pass it as an argument of the kernel"
            )
        places = [(target, width) for target in task.targets for width in task.index_widths]
        keys = {}
        for target, width in places:
            tools = toolchain(TARGETS[target])
            keys[target, width] = image_key(fingerprint, TARGETS[target], width, options, tools, get("cache_salt"))
        found: dict[tuple[str, int], KernelImage] = {}

        def look(sure: bool = False) -> list[tuple[str, int]]:
            for place in places:
                image = found.get(place) or self.batch.find(keys[place], place[0], sure=sure)
                if image is not None:
                    found[place] = image
            return [place for place in places if place not in found]

        missing = look()
        if missing and not task.look_up:
            self.batch.claim(keys[missing[0]])
            missing = look(sure=True)  # another process may have made them meanwhile
        cached = len(found)
        if missing and not task.look_up:
            for targets, widths in _rectangles(missing):
                for image in compile_images(
                    definition, signature, [TARGETS[name] for name in targets], widths, options, threads=task.threads
                ):
                    place = (image.target, image.index_width)
                    image.key = keys[place]
                    found[place] = image
            self.batch.add(*(found[place] for place in missing if place in found))  # no PTX of linked kernels
        return [found[place].stamp(fingerprint) for place in places if place in found], cached

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


def _note_numba(modules: Sequence[str]) -> list[str]:
    """Says that a project has kernels of numba's, and what has them built."""
    if not modules:
        return []
    names = sorted(set(modules))
    where = ", ".join(names[:3]) + (f" and {len(names) - 3} more modules" if len(names) > 3 else "")
    return [
        f"{len(modules)} {'kernel' if len(modules) == 1 else 'kernels'} of numba.cuda in {where} left alone: "
        'dialect = "numba" in [tool.cudabuild] builds such, unchanged'
    ]


def _rectangles(places: Iterable[tuple[str, int]]) -> list[tuple[list[str], list[int]]]:
    """(Target, width) pairs as products: what is compiled together shares work, and nothing is compiled for nothing."""
    widths_of: dict[str, list[int]] = {}
    for target, width in places:
        widths_of.setdefault(target, []).append(width)
    groups: dict[tuple[int, ...], list[str]] = {}
    for target, widths in widths_of.items():
        groups.setdefault(tuple(widths), []).append(target)
    return [(targets, list(widths)) for widths, targets in groups.items()]


# The process


@dataclass(frozen=True)
class Start:
    """What a worker is told first.

    Attributes:
        root: the project's folder.
        files: module name -> (name, path, whether it is a package).
        settings: of the build.
        linker: the major version of nvJitLink that it loads; None for what its targets need.
    """

    root: str
    files: Mapping[str, tuple[str, str, bool]]
    settings: BuildSettings
    linker: int | None = None


def main() -> None:
    """Serves one parent process until it closes our standard input."""
    requests = sys.stdin.buffer
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a slice prints must not stand between our answers
    try:
        start: Start = receive(requests)
    except EOFError:
        return
    if start.linker is not None:
        choose_linker(start.linker)
    project = Project(start.root, {name: ModuleFile(*file) for name, file in start.files.items()})
    slicer = Slicer(project)
    session = Session(project, start.settings, Cache.open())
    # OSError: the parent is gone; EOFError: it has no more work.
    with open_modules(project, slicer, start.settings) as sandbox, contextlib.suppress(EOFError, OSError):
        with session.recorder:
            found = session.discover(sandbox)
        send(answers, replace(found, reached=session.recorder.take()))
        try:
            while True:
                task: Task | None = receive(requests)
                if task is None:
                    session.batch.flush()
                    send(answers, None)
                    continue
                result = session.compile(task)
                for image in result.images:
                    image.data = bytes(image.data)
                send(answers, result)
        finally:
            session.batch.flush()
