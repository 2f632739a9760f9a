# SPDX-License-Identifier: Apache-2.0
"""What signature files add to a build: signatures of kernels that it finds, and kernels that functions made.

recorded = Recorded(slicer, settings)      # reads the files; ``cells`` must have run before the next steps
kernels = recorded.join(kernels, sandbox)  # kernels made inside functions, and what is not to be found
recorded.add_signatures(kernel)            # of a kernel that stands in a module
"""

from __future__ import annotations

import linecache
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from cudabuild.build.discover import Kernel
from cudabuild.build.project import Project
from cudabuild.build.rebuild import CannotRebuild, Codes, Located, Rebuilder, find_cells, needed_names
from cudabuild.build.resolve import Cell
from cudabuild.build.sandbox import Failure
from cudabuild.build.settings import BuildSettings
from cudabuild.build.slice import Slicer
from cudabuild.definition import KernelDefinition, parameter_names
from cudabuild.errors import CompilationError, SignatureError
from cudabuild.image.left import KINDS, LeftToJit
from cudabuild.recording import RecordedKernel, merge_kernels, read_signatures
from cudabuild.recording.write import format_value
from cudabuild.types.signature import parse_signatures

__all__ = ["Recorded", "leave_overload", "read_recorded"]

#: The most of captured values that a variant's name shows.
_LONGEST_VARIANT = 60


def read_recorded(settings: BuildSettings) -> list[RecordedKernel]:
    """All records of the signature files of a build.

    Raises:
        SettingError: something in a file is wrong; names file, line and key.
    """
    return merge_kernels(*(read_signatures(path) for path in settings.signature_files))


@dataclass
class _Made:
    """A kernel that a function made: its record, its function in the text, the names that must have run."""

    record: RecordedKernel
    located: Located
    cells: set[Cell] = field(default_factory=set)


class Recorded:
    """The signature files of a build.

    Attributes:
        cells: the names of modules that must have run before :meth:`rebuild`.
        notes: one line each about records that have nothing to do with this project.
    """

    def __init__(self, slicer: Slicer, settings: BuildSettings) -> None:
        self.project: Project = slicer.project
        self.cells: set[Cell] = set()
        self.notes: tuple[str, ...] = ()
        self._codes = Codes(self.project)
        self._plain: dict[tuple[str, str], list[RecordedKernel]] = {}
        self._made: list[_Made] = []
        self._by_meaning: dict[tuple[Any, ...], _Made] = {}
        self._left: list[Kernel] = []
        foreign: list[RecordedKernel] = []
        for record in read_recorded(settings):
            if not self.project.owns(record.module) and not self.project.claims(record.module):
                foreign.append(record)
            elif not settings.includes(record.module) or not record.signatures:
                continue
            elif not record.is_local:
                self._plain.setdefault((record.module, record.qualname), []).append(record)
            else:
                self._locate(record, slicer)
        if foreign:
            modules = ", ".join(sorted({record.module.partition(".")[0] for record in foreign}))
            count = f"{len(foreign)} recorded kernel{'s' if len(foreign) > 1 else ''}"
            self.notes = (f"{count} of other packages ({modules}) not looked at",)

    def _locate(self, record: RecordedKernel, slicer: Slicer) -> None:
        try:
            located = self._codes.find(record.module, record.qualname, record.line, record.code)
            cells = needed_names(located, slicer.resolver)
            for form in [*record.captured.values(), *record.defaults.values()]:
                cells |= find_cells(self._codes, slicer.resolver, form)
        except CannotRebuild as error:
            self._left.append(self._leave(record, error))
            return
        self.cells |= cells
        key = (located.code, *_meaning(record))
        made = self._by_meaning.get(key)
        if made is not None:  # recorded before and after an edit of the source: one kernel by now
            made.record = made.record.with_signatures(dict.fromkeys([*made.record.signatures, *record.signatures]))
            return
        self._by_meaning[key] = made = _Made(record, located, cells)
        self._made.append(made)

    def join(self, kernels: Iterable[Kernel], sandbox: Any) -> list[Kernel]:
        """What a build found in the modules, with the recorded kernels in place of those that it had to leave.

        Args:
            kernels: what was found.
            sandbox: open, and :attr:`cells` have run.
        """
        made = self.rebuild(sandbox)
        names = {(kernel.module, kernel.qualname) for kernel in made}
        found = [one for one in kernels if one.definition is not None or (one.module, one.qualname) not in names]
        joined = [*found, *made, *self._leave_unknown(found)]
        return sorted(joined, key=lambda kernel: (kernel.module, kernel.line, kernel.qualname, kernel.variant))

    def add_signatures(self, kernel: Kernel) -> list[Kernel]:
        """Gives a kernel that stands in a module its recorded signatures; one entry for each that does not fit."""
        left = []
        if kernel.definition is None or kernel.variant or "<" in kernel.qualname:
            return []
        for record in self._plain.get((kernel.module, kernel.qualname), []):
            for text in record.signatures:
                signature = parse_signatures(text)[0]
                try:
                    kernel.definition.check_arity(signature)
                except SignatureError as error:
                    left.append(self._make_left(*_misfit(kernel, text, error, self._relative(record.where))))
                    continue
                if signature not in kernel.recorded:
                    kernel.recorded.append(signature)
        return left

    def _leave_unknown(self, kernels: Iterable[Kernel]) -> list[Kernel]:
        """What the files name at the top level of modules and the build did not find there."""
        known = {(kernel.module, kernel.qualname) for kernel in kernels}
        left = []
        for name, (record, *_) in sorted(self._plain.items()):
            if name not in known:
                there = record.module in self.project.files
                reason = "there is no such kernel any more" if there else "there is no such module any more"
                left.append(self._leave(record, CannotRebuild(reason, "stale")))
        return left

    # kernels made inside functions

    def rebuild(self, sandbox: Any) -> list[Kernel]:
        """The recorded kernels that functions make, with their recorded signatures as their own.

        Args:
            sandbox: open, and :attr:`cells` have run.
        """
        kernels = list(self._left)
        failures: dict[frozenset[Cell], Failure | None] = {}
        for made in self._made:
            cells = frozenset(made.cells)
            if cells not in failures:
                failures[cells] = sandbox.find_failure(sorted(cells))
            failure = failures[cells]
            if failure is not None:
                kernels.append(self._make_left(made.record.module, made.record.qualname, failure))
                continue
            try:
                kernels.append(self._make(made, Rebuilder(self._codes, sandbox, made.record.folder)))
            except CannotRebuild as error:
                kernels.append(self._leave(made.record, error, made.located.line))
        return _name_variants(kernels)

    def _make(self, made: _Made, rebuilder: Rebuilder) -> Kernel:
        record = made.record
        function = rebuilder.function(made.located, record.qualname, record.captured, record.defaults)
        signatures = [parse_signatures(text)[0] for text in record.signatures]
        for signature in signatures:
            names = parameter_names(function, len(signature))
            if len(names) != len(signature):
                raise CannotRebuild(
                    f"it has {len(names)} parameters, its recorded signatures {len(signature)}", "stale"
                )
        numba = record.dialect == "numba"
        definition = KernelDefinition(function, None, None, record.written_options, may_be_called=numba)
        definition.spec = []  # annotations say nothing here: they may need what the function around had
        file = self._file(record.module)
        kernel = Kernel(record.module, record.qualname, file, made.located.line, definition, None, _values(record))
        kernel.recorded = signatures
        return kernel

    # what is left

    def _leave(self, record: RecordedKernel, error: CannotRebuild, line: int = 0) -> Kernel:
        where = f" (recorded at {self._relative(record.where)})" if record.where else ""
        failure = Failure(self._file(record.module), line or record.line or 1, f"{error.reason}{where}", error.kind)
        return self._make_left(record.module, record.qualname, failure)

    def _make_left(self, module: str, qualname: str, failure: Failure) -> Kernel:
        return _left_kernel(self.project, module, qualname, failure)

    def _file(self, module: str) -> str:
        known = self.project.files.get(module)
        return f"{module.replace('.', '/')}.py" if known is None else self.project.relative(known.path)

    def _relative(self, where: str) -> str:
        path, colon, line = where.rpartition(":")
        return f"{self.project.relative(path)}{colon}{line}" if colon and line.isdigit() else where


def leave_overload(project: Project, kernel: Kernel, text: str, error: Exception) -> Kernel:
    """Says that a recorded overload of a kernel cannot be compiled any more, and where in the source."""
    module, qualname, failure = _misfit(kernel, text, error, "")
    if isinstance(error, CompilationError) and error.diagnostics:
        first = error.diagnostics[0]
        place = (project.relative(first.location.file), first.location.line)
        failure = Failure(*place, f"{failure.reason.partition(':')[0]}: {first.title}{_gist(str(first))}", "stale")
    return _left_kernel(project, module, qualname, failure)


def _misfit(kernel: Kernel, text: str, error: Exception, where: str) -> tuple[str, str, Failure]:
    place = f" ({where})" if where else ""
    gist = _gist(str(error)).removeprefix(", ") or str(error).partition("\n")[0]
    reason = f"its recorded signature {text!r}{place} does not fit it any more: {gist}"
    return kernel.module, kernel.qualname, Failure(kernel.file, kernel.line, reason, "stale")


def _gist(message: str) -> str:
    """What a message of several lines found and expected, on one line."""
    lines = [line.strip() for line in message.splitlines()]
    parts = []
    for label in ("found:", "expected:"):
        told = next((line for line in lines if line.startswith(label)), "")
        parts += [f", {label[:-1]} {told.removeprefix(label).strip()}"] if told else []
    return "".join(parts)


def _left_kernel(project: Project, module: str, qualname: str, failure: Failure) -> Kernel:
    text = linecache.getline(os.path.join(project.root, failure.file), failure.line).strip()
    remedies = [remedy.format(name=repr(failure.about)) for remedy in KINDS[failure.kind]]
    left = LeftToJit(module, qualname, failure.kind, failure.file, failure.line, text, "", failure.reason, remedies)
    return Kernel(module, qualname, failure.file, failure.line, None, left)


def _meaning(record: RecordedKernel) -> tuple[str, ...]:
    """What makes a kernel of a function in the text, whatever that text was when it was recorded."""
    values = (_without_places(dict(record.captured)), _without_places(dict(record.defaults)))
    return (record.dialect, repr(sorted(record.options.items(), key=str)), repr(values))


def _without_places(form: Any) -> Any:
    if isinstance(form, dict):
        ignored = ("line", "code") if "function" in form else ("file",) if "digest" in form else ()
        return {key: _without_places(value) for key, value in form.items() if key not in ignored}
    return [_without_places(item) for item in form] if isinstance(form, list) else form


def _values(record: RecordedKernel) -> str:
    """What tells a kernel from others of its name, for people: ``n = 4, combine = mypkg:add``."""
    whole = ", ".join(f"{name} = {_short(form)}" for name, form in [*record.captured.items(), *record.defaults.items()])
    return whole if len(whole) <= _LONGEST_VARIANT else whole[: _LONGEST_VARIANT - 1] + "…"


def _short(form: Any) -> str:
    """A recorded value in a few words."""
    if not isinstance(form, dict):
        return format_value(form)
    if "array" in form:
        kind = form["array"] if isinstance(form["array"], str) else "record"
        values = form.get("values", [])
        shape = tuple(form.get("shape", ()))
        return f"{kind} {format_value(values)}" if 0 < len(values) <= 4 else f"{kind} array {shape}"
    if "function" in form:
        inner = ", ".join(f"{name} = {_short(value)}" for name, value in form.get("captured", {}).items())
        name = str(form["function"]).rpartition(":")[2].rpartition(".")[2]
        return name + (f" ({inner})" if inner else "")
    if "attributes" in form:
        return "(" + ", ".join(f"{name} = {_short(value)}" for name, value in form["attributes"].items()) + ")"
    if "scalar" in form:
        return format_value(form.get("value", form.get("bytes", "")))
    first = next(iter(form.values()), "")
    return first if isinstance(first, str) else format_value(first)


def _name_variants(kernels: list[Kernel]) -> list[Kernel]:
    """Makes the variants of one name differ; where there is one kernel of a name, it needs no more."""
    groups: dict[tuple[str, str], list[Kernel]] = {}
    for kernel in kernels:
        if kernel.definition is not None:
            groups.setdefault((kernel.module, kernel.qualname), []).append(kernel)
    for group in groups.values():
        seen: dict[str, int] = {}
        for kernel in group:
            number = seen[kernel.variant] = seen.get(kernel.variant, 0) + 1
            if number > 1:
                kernel.variant += f" #{number}"
            elif len(group) == 1:
                kernel.variant = ""
    return kernels
