# SPDX-License-Identifier: Apache-2.0
"""G. Code that stands in no file: exec, prompts, command lines, standard input, notebook cells, bytecode alone."""

from __future__ import annotations

import code
import linecache
import os
import py_compile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from cases_kit import Machine
from package_kit import KERNEL, build_archives, run, write_files

from cudabuild.errors import SourceError


def test_a_kernel_typed_at_a_prompt_says_what_to_do(root: Path) -> None:
    console = code.InteractiveConsole()
    for line in ("def k(x):", "    x[0] = 1", ""):
        console.push(line)
    machine = Machine(root)
    with pytest.raises(SourceError) as told:
        machine.launch(console.locals["k"])  # type: ignore[arg-type]
    assert "the source text of k (<console>:1) cannot be had" in str(told.value)
    assert "define it in a file or an IPython cell, or give the text that exec ran: kernel(…, source=text)" in str(
        told.value
    )


@pytest.mark.parametrize("name", ["gone/{0}.py", "<frozen pkg.{0}>"])
def test_bytecode_alone_binds_what_was_shipped(tmp_path: Path, name: str) -> None:
    """As an application has it that was compiled, frozen into an interpreter or obfuscated."""
    helper = "def twice(a):\n    return a * FACTOR\n\nFACTOR = 2\n"
    kernel = KERNEL.replace("x[i] * SCALE", "twice(x[i]) * SCALE").replace(
        "SCALE = 3", "from pkg.helper import twice\nSCALE = 3"
    )
    root = write_files(tmp_path, {"pkg/__init__.py": "", "pkg/sub.py": kernel, "pkg/helper.py": helper})
    build_archives(root, "pkg/_cudabuild", "pkg.sub")
    for path in (root / "pkg").glob("*.py"):
        compiled = str(path.with_suffix(".pyc"))
        py_compile.compile(str(path), cfile=compiled, dfile=name.format(path.stem), doraise=True)
        path.unlink()
    assert run("import pkg.sub; print(source(pkg.sub.scale))", root) == "shipped cubin sm_90"
    changed = "import pkg.helper, pkg.sub; pkg.helper.FACTOR = 5; print(*source(pkg.sub.scale), sep='\\n')"
    assert "shipped: sm_90 twice/FACTOR was 2 when built and is 5 now" in run(changed, root).split("\n")


class Notebook:
    """Cells as IPython's kernel runs them: a file name in a folder that is not there, the text in ``linecache``."""

    def __init__(self) -> None:
        self.module = ModuleType("__main__")
        self.count = 0

    def run(self, text: str) -> Any:
        self.count += 1
        name = f"/tmp/ipykernel_{os.getpid()}/{abs(hash(text))}.py"
        linecache.cache[name] = (len(text), None, text.splitlines(True), name)
        exec(compile(text, name, "exec"), self.module.__dict__)
        return self.module.__dict__.get("k")


def test_cells_of_a_notebook_are_known_by_what_they_say(root: Path) -> None:
    """The files of cells do not exist; a name that is defined again is another kernel."""
    cell = "def k(x):\n    x[0] = N\n"
    notebook, machine = Notebook(), Machine(root)
    notebook.run("N = 1\n")
    first = machine.launch(notebook.run(cell))
    assert machine.launch(notebook.run(cell)) == first, "the cell was run again"
    assert len(machine.compiled) == 1
    edited = machine.launch(notebook.run(cell.replace("N", "N + 1")))
    assert edited != first
    notebook.run("N = 3\n")
    assert machine.launch(notebook.run(cell)) not in (first, edited)
    assert len(machine.compiled) == 3
    later, next_day = Notebook(), Machine(root)
    later.run("N = 1\n")
    assert next_day.launch(later.run(cell)) == first
    assert next_day.launch(later.run(cell.replace("N", "N + 1"))) == edited
    assert next_day.compiled == []


def test_an_old_function_of_a_cell_that_was_run_again_keeps_its_own_code(root: Path) -> None:
    notebook, machine = Notebook(), Machine(root)
    old = notebook.run("def k(x):\n    x[0] = 1\n")
    new = notebook.run("def k(x):\n    x[0] = 2\n")
    symbols = [machine.launch(function) for function in (new, old)]
    assert symbols[0] != symbols[1]
    assert Machine(root).launch(notebook.run("def k(x):\n    x[0] = 2\n")) == symbols[0]
