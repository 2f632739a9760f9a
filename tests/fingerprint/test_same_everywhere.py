# SPDX-License-Identifier: Apache-2.0
"""A fingerprint is the same in every process, under every hash seed and every Python, wherever the file lies."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parent.parent


def interpreters() -> list[str]:
    """One interpreter for each supported Python that is installed here, this one first."""
    found = {sys.version_info[:2]: sys.executable}
    versions = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    for minor in range(10, 20):
        candidates = [shutil.which(f"python3.{minor}"), *map(str, versions.glob(f"3.{minor}.*/bin/python"))]
        for path in filter(None, candidates):
            works = subprocess.run([path, "-c", ""], capture_output=True, check=False).returncode == 0
            if works and (3, minor) not in found:
                found[3, minor] = path
    return list(found.values())


def fingerprints(python: str, script: Path, seed: int) -> str:
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT), "PYTHONHASHSEED": str(seed)}
    environment.pop("PYTHONHOME", None)
    done = subprocess.run(
        [python, "-B", str(script)], env=environment, capture_output=True, text=True, check=False, cwd=script.parent
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def here() -> str:
    return fingerprints(sys.executable, HERE / "subject.py", 0)


def test_the_subject_has_distinct_kernels(here: str) -> None:
    lines = here.splitlines()
    assert len(lines) == 5
    assert len({line.split()[0] for line in lines}) == 5


@pytest.mark.parametrize("seed", [1, 4242])
def test_equal_under_other_hash_seeds(seed: int, here: str) -> None:
    assert fingerprints(sys.executable, HERE / "subject.py", seed) == here


@pytest.mark.parametrize("python", interpreters())
def test_equal_under_other_pythons(python: str, here: str) -> None:
    assert fingerprints(python, HERE / "subject.py", 7) == here


def test_equal_in_another_folder_with_other_lines_and_comments(tmp_path: Path, here: str) -> None:
    text = (HERE / "subject.py").read_text("utf-8")
    assert "    i: int32 = cuda.grid(1)\n" in text
    text = text.replace('    """A docstring."""\n', '    """Another."""\n\n    # a comment\n')
    text = text.replace("    i: int32 = cuda.grid(1)\n", "    i : undefined = (cuda.grid(\n        1))\n")
    text = text.replace("def add(x):", "def unrelated():\n    return 1\n\n\ndef add(x: undefined) -> undefined:  # !")
    copy = tmp_path / "with a space" / "subject.py"
    copy.parent.mkdir()
    copy.write_text(text, "utf-8")
    os.utime(copy, (1, 1))
    assert fingerprints(sys.executable, copy, 3) == here


def test_equal_from_a_module_of_which_only_a_part_was_run() -> None:
    """As the build does: the statements that a kernel needs, at their true lines, and nothing else."""
    import ast

    from cudabuild.definition import KernelDefinition
    from cudabuild.fingerprint import compute_fingerprint
    from cudabuild.types import float32

    path = HERE / "subject.py"
    tree = ast.parse(path.read_text("utf-8"))
    needed = [node for node in tree.body if isinstance(node, ast.Assign) and ast.unparse(node) == "N = 4"]
    needed += [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "add"]  # type: ignore[misc]
    namespace: dict[str, object] = {"__name__": "subject"}
    code = compile(ast.Module(needed, []), str(path), "exec")
    eval(code, namespace)
    import subject

    sliced, imported = (
        compute_fingerprint(KernelDefinition(function), (float32[::1],))  # type: ignore[arg-type]
        for function in (namespace["add"], subject.add)
    )
    assert (sliced.digest, sliced.parts, sliced.checks) == (imported.digest, imported.parts, imported.checks)
