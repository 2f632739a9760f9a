# SPDX-License-Identifier: Apache-2.0
"""What the launches of a test session say of the kernel language: ``--language FILE`` keeps it.

Every name that a launched kernel uses is noted for the device, if the launch and its test succeed; and the first kernel
that uses a name is compiled for the targets asked for. Sessions whose files lie in one folder share that work.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from launching import Device
from vocabulary import names_of

from cudabuild.backend.cubin import find_linker
from cudabuild.compiler import Compilation, Request
from cudabuild.definition import DEFAULT_OPTIONS, KernelDefinition, Options
from cudabuild.errors import CudabuildError, ToolError
from cudabuild.target import Target
from cudabuild.types import parse_signature

__all__ = ["Book", "Recording"]


class Book:
    """What is known of each name.

    Attributes:
        file: where it is kept, rewritten after each test: a process that ends early leaves what it had.
        targets: what kernels are compiled for.
        stages: target -> what is made for it: ``cubin``; or ``ptx``, where that is what it stands for, or where no
            nvJitLink of this process makes its cubin.
        compiled: name -> target -> ``""``, or why it cannot be compiled for it.
        results: device -> name -> a kernel whose test passed there.
    """

    def __init__(self, file: Path, targets: Iterable[Target]) -> None:
        self.file = file
        self.targets = list(targets)
        self.stages = {target.name: find_stage(target) for target in self.targets}
        self.compiled: dict[str, dict[str, str]] = {}
        self.results: dict[str, dict[str, str]] = {}
        self._test: list[tuple[str, str, set[str]]] = []
        self._names: dict[Any, set[str]] = {}

    def launched(self, device: str, function: Any, signature: str, options: Options) -> None:
        """Notes a launch of the test that runs."""
        key = (function, signature)
        names = self._names.get(key)
        if names is None:
            names = self._names[key] = names_of(function, signature)
            if names - self.compiled.keys() and names - self._compiled_elsewhere():
                self._compile(function, signature, options, names)
        self._test.append((device, function.__name__, names))

    def finish(self, passed: bool) -> None:
        """The test is over: what it launched counts if it passed."""
        if passed:
            for device, kernel, names in self._test:
                known = self.results.setdefault(device, {})
                for name in names:
                    known.setdefault(name, kernel)
        if self._test:
            self.write()
        self._test = []

    def write(self) -> None:
        content = {"stages": self.stages, "compiled": self.compiled, "results": self.results}
        whole = self.file.with_suffix(".part")
        whole.write_text(json.dumps(content, indent=1, sort_keys=True), encoding="utf-8")
        whole.replace(self.file)  # others read it meanwhile

    def _compiled_elsewhere(self) -> set[str]:
        """The names that sessions beside this one have compiled for all targets."""
        found = set(self.compiled)
        for path in self.file.parent.glob("*.json"):
            if path != self.file:
                content = json.loads(path.read_text(encoding="utf-8"))
                found.update(name for name, reasons in content["compiled"].items() if not any(reasons.values()))
        return found

    def _compile(self, function: Any, signature: str, options: Options, names: set[str]) -> None:
        work = Compilation(KernelDefinition(function, signature, options=options), parse_signature(signature))
        found = {}
        for target in self.targets:
            try:
                work.get(self.stages[target.name], Request(target, 64))
                found[target.name] = ""
            except CudabuildError as error:
                found[target.name] = str(error)
        for name in names:
            known = self.compiled.setdefault(name, {})
            for made_for, reason in found.items():
                if known.get(made_for, "unknown"):
                    known[made_for] = reason


def find_stage(target: Target) -> str:
    """The last stage of the compiler that this process has for a target."""
    if target.is_ptx:
        return "ptx"
    try:
        find_linker(target)
    except ToolError:
        return "ptx"
    return "cubin"


class Recording:
    """A device whose launches are noted in a book."""

    def __init__(self, device: Device, book: Book) -> None:
        self.device = device
        self.kind = device.kind
        self.book = book

    def __call__(
        self,
        function: Any,
        signature: str,
        grid: Any,
        block: Any,
        *args: Any,
        shared: int = 0,
        options: Options = DEFAULT_OPTIONS,
    ) -> None:
        self.device(function, signature, grid, block, *args, shared=shared, options=options)
        self.book.launched(self.kind, function, signature, options)
