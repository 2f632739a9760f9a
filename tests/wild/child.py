# SPDX-License-Identifier: Apache-2.0
"""Runs the kernels of one project on one device, and writes down what they gave. Started by ``run.py``.

With ``--device numba`` the interpreter's own numba-cuda runs them; otherwise the conformance suite's stand-in for numba
is on the path, and ``from numba import cuda`` leads to cudabuild. ``python`` is cudabuild's Python device.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import linecache
import os
import pickle
import sys
import time
import warnings
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import functions
import numpy as np
from line_coverage import Coverage
from makers import evaluate
from projects import Kernel, load_projects
from standins import mount

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

__all__ = ["main"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("project")
    parser.add_argument("--device", required=True)
    parser.add_argument("--root", type=Path, required=True, help="the unpacked project")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--targets", default="", help="compile for these too, in both index widths")
    parser.add_argument("--widths", default="32,64")
    parser.add_argument("--only", default="", help="ids of kernels, by bars")
    parser.add_argument("--skip", default="", help="ids of kernels, by bars")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    project = load_projects()[options.project]
    mount(options.root.resolve(), project.replace)
    for name in project.has_exec:
        give_texts(importlib.import_module(name))
    only, skipped = set(filter(None, options.only.split("|"))), set(options.skip.split("|"))
    with options.out.open("ab") as stream:
        child = Child(options, stream)
        for file in dict.fromkeys(kernel.file for kernel in project.kernels):
            wanted = [k for k in project.kernels if k.file == file and k.id not in skipped]
            wanted = [k for k in wanted if not only or k.id in only]
            if wanted:
                child.run_file(file, wanted)
    return 0


def give_texts(module: ModuleType) -> None:
    """Lets functions that this module makes with ``exec`` be compiled: Python keeps no text of them."""
    import numba

    hook = getattr(numba, "_source_hook", None)
    if hook is None:
        return
    hook.attach(module)

    def compile_tree(tree: Any, file: str, mode: str) -> Any:
        if isinstance(tree, ast.AST):
            tree, file = ast.unparse(tree), f"{file[:-1]} {len(linecache.cache)}>"
            linecache.cache[file] = (len(tree), None, tree.splitlines(keepends=True), file)
        return compile(tree, file, mode)

    module.compile = compile_tree  # type: ignore[attr-defined]


class Child:
    """The kernels of one project on one device."""

    def __init__(self, options: argparse.Namespace, stream: Any) -> None:
        self.options = options
        self.root = str(options.root.resolve())
        self.device = options.device
        self.stream = stream

    def tell(self, **entry: Any) -> None:
        pickle.dump(entry, self.stream)
        self.stream.flush()

    def run_file(self, file: str, kernels: list[Kernel]) -> None:
        try:
            module = importlib.import_module(file.removesuffix(".py").replace("/", "."))
        except Exception as error:
            for kernel in kernels:
                self.tell(id=kernel.id, error=f"{file} cannot be imported: {_text(error)}")
            return
        for kernel in kernels:
            self.tell(start=kernel.id)
            start = time.perf_counter()
            entry: dict[str, Any] = {}
            try:
                self.run_kernel(kernel, module, entry)
            except Exception as error:
                entry["error"] = _text(error)
            self.tell(id=kernel.id, seconds=time.perf_counter() - start, **entry)

    def run_kernel(self, kernel: Kernel, module: ModuleType, entry: dict[str, Any]) -> None:
        function = eval(kernel.name, {"np": np, **vars(module), "ours": functions})
        function = getattr(function, "__func__", function)
        results = entry["results"] = []
        coverage = Coverage(self.root)
        for number, text in enumerate(kernel.launches):
            arguments, configuration = evaluate(text, f"{kernel.id} {number}", vars(module))
            made: list[Any] = []
            watched = coverage if self.device == "python" else nullcontext()
            if not is_dispatcher(function):  # a function that makes its kernel when it is called
                with recorded(made), watched:
                    function(*arguments)
            elif self.device != "none":
                with watched:
                    function[configuration](*arguments)
            if self.options.targets and number == 0:
                entry["compiled"] = self.compile(made[0] if made else function, arguments)
            results.append([np.array(value) for value in flatten(arguments) if isinstance(value, np.ndarray)])
        if self.device == "numba":
            from numba import cuda

            cuda.synchronize()
        if self.device == "python":
            written = (function.py_func,) if is_dispatcher(function) else (function.__wrapped__,)
            found = [coverage.missed(part) for part in functions.COVERED.get(function, written)]
            entry["statements"] = sum(count for count, _ in found)
            entry["missed"] = [line for _, missed in found for line in missed]

    def compile(self, function: Any, arguments: tuple[Any, ...]) -> list[int]:
        """Sizes of the images for all targets in all index widths."""
        from cudabuild.compiler import compile_images
        from cudabuild.runtime.jit_dispatcher import type_of_argument
        from cudabuild.target import parse_target

        declared = list(function.overloads)
        signature = declared[0] if declared else tuple(map(type_of_argument, arguments))
        targets = [parse_target(name) for name in self.options.targets.split(",")]
        widths = [int(width) for width in self.options.widths.split(",")]
        images = compile_images(function.definition, signature, targets, widths)
        return [len(image.data) for image in images]


@contextmanager
def recorded(made: list[Any]) -> Iterator[None]:
    """Keeps the kernels that ``cuda.jit`` makes meanwhile."""
    from numba import cuda

    own = cuda.jit

    def jit(*args: Any, **kwargs: Any) -> Any:
        result = own(*args, **kwargs)
        if is_dispatcher(result) and not is_device(result):
            made.append(result)
        return result

    cuda.jit = jit
    try:
        yield
    finally:
        cuda.jit = own


def flatten(values: Any) -> Iterator[Any]:
    for value in values:
        if isinstance(value, tuple):
            yield from flatten(value)
        else:
            yield value


def is_dispatcher(value: Any) -> bool:
    return type(value).__module__.startswith(("cudabuild.", "numba.cuda")) and hasattr(value, "py_func")


def is_device(value: Any) -> bool:
    return bool(getattr(value, "targetoptions", {}).get("device"))


def _text(error: BaseException) -> str:
    text = f"{type(error).__name__}: {error}"
    if os.environ.get("WILD_TRACEBACK"):
        import traceback

        text = "".join(traceback.format_exception(error))
    return text.strip()[:4000]


if __name__ == "__main__":
    sys.exit(main())
