# SPDX-License-Identifier: Apache-2.0
"""What holds for every file of the project: style, types, who imports whom, what an import costs."""

from __future__ import annotations

import ast
import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parent.parent
PACKAGE = CHECKOUT / "cudabuild"

#: What ``import cudabuild`` must not import: each costs more than the whole budget (architecture rule 3).
HEAVY = {
    "asyncio", "cuda", "dataclasses", "filelock", "inspect", "json", "llvmlite", "logging", "numba", "numpy",
    "platformdirs", "re", "setuptools", "subprocess", "tempfile", "typing",
}  # fmt: skip


def modules() -> list[str]:
    """Every module of the package by its dotted name."""
    paths = (path.relative_to(CHECKOUT).with_suffix("") for path in sorted(PACKAGE.rglob("*.py")))
    return [".".join(path.parts).removesuffix(".__init__") for path in paths]


def files_of_project() -> list[Path]:
    """Every source file that belongs to the project, whether committed or not."""
    folders = ("cudabuild", "tests", "sample_project", ".ci")
    skipped = {"__pycache__", ".work", "_cudabuild"}
    found = []
    for folder in folders:
        for root, names, files in os.walk(CHECKOUT / folder):
            names[:] = sorted(name for name in names if name not in skipped)
            found += [Path(root) / name for name in sorted(files)]
    return found


def run_tool(*arguments: str) -> None:
    """Runs a tool of the test extra from the checkout; its output is the failure message."""
    done = subprocess.run(
        [sys.executable, *arguments], cwd=CHECKOUT, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, f"{' '.join(arguments)}\n{done.stdout[-8000:]}{done.stderr[-4000:]}"


def test_ruff_check() -> None:
    run_tool("-m", "ruff", "check", ".")


def test_ruff_format() -> None:
    run_tool("-m", "ruff", "format", "--check", ".")


def test_mypy_strict() -> None:
    run_tool("-m", "mypy")
    for script in ("sample_project/run.py", "tests/run.py"):  # apart: both are a top-level module ``run``
        run_tool("-m", "mypy", "--strict", script)


def test_import_contracts() -> None:
    run_tool("-c", "from importlinter.cli import lint_imports_command; lint_imports_command()")


@pytest.mark.parametrize("name", modules())
def test_all_lists_what_exists(name: str) -> None:
    path = CHECKOUT.joinpath(*name.split("."))
    tree = ast.parse((path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text("utf-8"))
    if name.endswith("__main__") or not any(isinstance(n, ast.stmt) and not is_docstring(n) for n in tree.body):
        return  # an empty package, or the command line: nothing to import from there
    plain = {t.id for n in tree.body if isinstance(n, ast.Assign) for t in n.targets if isinstance(t, ast.Name)}
    annotated = {n.target.id for n in tree.body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)}
    assert "__all__" in plain | annotated, f"{name} has no __all__"
    module = importlib.import_module(name)
    missing = [public for public in module.__all__ if not hasattr(module, public)]
    assert not missing, f"{name}.__all__ names {missing}, which do not exist"
    assert len(set(module.__all__)) == len(module.__all__), f"{name}.__all__ repeats a name"


def is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def test_public_functions_have_docstrings() -> None:
    """Every function and class that some ``__all__`` names says what it is."""
    bare = []
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        public = public_names(tree)
        for node in tree.body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name in public:
                trivial = isinstance(node, ast.ClassDef) and all(isinstance(part, ast.Assign) for part in node.body)
                if ast.get_docstring(node) is None and not trivial and not is_plain_subclass(node):
                    bare.append(f"{path.relative_to(CHECKOUT)}:{node.lineno} {node.name}")
    assert not bare, "no docstring:\n" + "\n".join(bare)


def is_plain_subclass(node: ast.stmt) -> bool:
    """A class whose base says what it is (``class Boolean(Scalar)``), or one whose instances have a docstring each."""
    return isinstance(node, ast.ClassDef) and (bool(node.bases) or "'__doc__'" in ast.unparse(node))


def public_names(tree: ast.Module) -> set[str]:
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets):
            return {name for name in ast.literal_eval(node.value) if isinstance(name, str)}
    return set()


def test_every_source_file_names_its_licence() -> None:
    endings = (".py", ".cu", ".sh", ".c", ".pyx")
    unmarked = [
        str(path.relative_to(CHECKOUT))
        for path in files_of_project()
        if (path.suffix in endings or path.parent.name == ".ci")
        and "SPDX-License-Identifier: Apache-2.0" not in "".join(path.read_text("utf-8").splitlines(True)[:3])
    ]
    assert not unmarked, f"no SPDX line: {unmarked}"


def test_no_unfinished_business() -> None:
    """No note to self, no swallowed exception."""
    notes = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "XX" + "X")) + r")\b")
    silent = re.compile(r"except( Exception| BaseException)?:\s*\n?\s*pass\b")
    found = []
    for path in files_of_project():
        if path.suffix == ".py":
            text = path.read_text("utf-8")
            found += [f"{path.relative_to(CHECKOUT)}: {match.group()}" for match in notes.finditer(text)]
            found += [f"{path.relative_to(CHECKOUT)}: {match.group()!r}" for match in silent.finditer(text)]
    assert not found, "\n".join(found)


def test_environment_is_read_in_config_only() -> None:
    readers = [
        str(path.relative_to(CHECKOUT))
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.name != "config.py" and any(map(reads_environment, ast.walk(ast.parse(path.read_text("utf-8")))))
    ]
    assert not readers, f"reads the environment itself instead of through config.py: {readers}"


def reads_environment(node: ast.AST) -> bool:
    named = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "os"
    return named and isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv", "environb")


def imported_by(statement: str) -> list[str]:
    """The modules that a fresh interpreter imports for ``statement``, beyond those of its own start."""
    command = [sys.executable, "-X", "importtime", "-c", f"import sys; print('started', file=sys.stderr); {statement}"]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=60, check=True)
    trace = done.stderr.split("started\n", 1)[1]
    return [line.rpartition("|")[2].strip() for line in trace.splitlines() if line.startswith("import time:")]


def test_import_is_light() -> None:
    found = imported_by("import cudabuild; from cudabuild import cuda, float32, kernel")
    assert "cudabuild" in found
    heavy = sorted({name.split(".")[0] for name in found} & HEAVY)
    assert not heavy, f"import cudabuild imports {heavy}"


def test_decorating_is_light() -> None:
    found = imported_by("from cudabuild import kernel; kernel('float32, float32[::1]')(lambda a, x: None)")
    heavy = sorted({name.split(".")[0] for name in found} & HEAVY)
    assert not heavy, f"decorating a kernel imports {heavy}"
