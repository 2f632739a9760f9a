# SPDX-License-Identifier: Apache-2.0
"""Every kernel-side name is in at least two kernels of these tests, and in one where not all threads go."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from cudabuild import cuda
from cudabuild.lang.name import Dim3, KernelName, Namespace

#: Names that every thread must reach together, or whose use is a declaration: a branch has no place for them.
TOGETHER = {
    "syncthreads", "syncthreads_count", "syncthreads_and", "syncthreads_or", "cg.this_grid", "cg.grid_group.sync",
    "shared.array", "local.array",
}  # fmt: skip


def names_below(prefix: str, members: dict[str, object]) -> Iterator[str]:
    for name, member in members.items():
        if isinstance(member, (KernelName, Dim3)):
            yield prefix + name
        elif isinstance(member, Namespace):
            yield from names_below(f"{prefix}{name}.", vars(member))


NAMES = sorted(names_below("", {name: getattr(cuda, name) for name in cuda.__all__}))


def spelled(node: ast.AST) -> str | None:
    """``atomic.add`` for the expression ``cuda.atomic.add``."""
    if isinstance(node, ast.Attribute):
        if isinstance(node.value, ast.Name) and node.value.id == "cuda":
            return node.attr
        base = spelled(node.value)
        return f"{base}.{node.attr}" if base else None
    if isinstance(node, ast.Call):  # cuda.cg.this_grid().sync
        return {"cg.this_grid": "cg.grid_group"}.get(spelled(node.func) or "")
    return None


def uses(node: ast.AST, branch: bool) -> Iterator[tuple[str, bool]]:
    """The names below ``node``, and whether each is inside an if, a loop or a conditional expression."""
    name = spelled(node)
    if name is not None:
        yield name, branch
    for field, value in ast.iter_fields(node):
        inside = branch or (isinstance(node, (ast.If, ast.IfExp, ast.While, ast.For)) and field in ("body", "orelse"))
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from uses(child, inside)


@pytest.fixture(scope="module")
def corpus() -> dict[str, dict[str, bool]]:
    """Name -> the kernels that use it, and whether in a branch."""
    found: dict[str, dict[str, bool]] = defaultdict(dict)
    for path in sorted(Path(__file__).parent.glob("test_*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("test_"):
                for name, branch in uses(node, False):
                    kernel = f"{path.name}:{node.name}"
                    found[name][kernel] = found[name].get(kernel, False) or branch
    return found


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_in_two_kernels_and_in_a_branch(corpus: dict[str, dict[str, bool]], name: str) -> None:
    kernels = corpus[name]
    assert len(kernels) >= 2, kernels
    assert name in TOGETHER or any(kernels.values()), kernels
