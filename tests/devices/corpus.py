# SPDX-License-Identifier: Apache-2.0
"""Which kernels of these tests use which kernel-side and Python names, and whether where not all threads go."""

from __future__ import annotations

import ast
import builtins
import importlib
import math
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy

import cudabuild.types
from cudabuild import cuda
from cudabuild.cuda import random
from cudabuild.frontend.impl import registry
from cudabuild.lang.name import Dim3, KernelName, Namespace

__all__ = ["TOGETHER", "find_uses", "kernel_names", "python_names"]

#: Names that every thread must reach together, or whose use is a declaration: a branch has no place for them.
TOGETHER = {
    "syncthreads", "syncthreads_count", "syncthreads_and", "syncthreads_or", "cg.this_grid", "cg.grid_group.sync",
    "shared.array", "local.array",
}  # fmt: skip

_ON_THE_HOST = ("create_xoroshiro128p_states", "init_xoroshiro128p_states", "xoroshiro128p_type")
_RANDOM = [name for name in random.__all__ if name not in _ON_THE_HOST]


def kernel_names() -> list[str]:
    """What ``cuda`` offers in kernels: ``atomic.add``, ``threadIdx``, ``random.xoroshiro128p_next``."""
    names = _below("", {name: getattr(cuda, name) for name in cuda.__all__})
    return sorted([*names, *(f"random.{name}" for name in _RANDOM)])


def _below(prefix: str, members: dict[str, object]) -> Iterator[str]:
    for name, member in members.items():
        if isinstance(member, (KernelName, Dim3)):
            yield prefix + name
        elif isinstance(member, Namespace):
            yield from _below(f"{prefix}{name}.", vars(member))


def python_names() -> dict[Any, str]:
    """The functions of Python, ``math`` and NumPy, and NumPy's real types, that have a rule; with one spelling each."""
    found: dict[Any, str] = {}
    for module, prefix in ((builtins, ""), (math, "math."), (numpy, "numpy.")):
        for name in registry.supported_members(module):
            item = getattr(module, name)
            numpy_type = isinstance(item, type) and module is numpy
            real = (numpy.integer, numpy.floating, numpy.bool_)
            if not numpy_type or (issubclass(item, real) and item is not numpy.timedelta64):
                found.setdefault(item, prefix + name)
    return found


def find_uses(folder: Path) -> dict[str, dict[str, bool]]:
    """Name -> the kernels and device functions that use it (``test_kernels.saxpy``), and whether in a branch."""
    found: dict[str, dict[str, bool]] = defaultdict(dict)
    known = python_names()
    for path in sorted(folder.glob("test_*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        scope = _imported(tree)
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("test_"):
                for name, branch in _uses(node, False, scope, known):
                    kernel = f"{path.stem}.{node.name}"
                    found[name][kernel] = found[name].get(kernel, False) or branch
    return found


def _imported(tree: ast.Module) -> dict[str, Any]:
    """What the names that a test file imports stand for; only of the modules whose members may be in kernels."""
    scope: dict[str, Any] = dict(vars(builtins))
    for node in tree.body:
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name in ("math", "numpy"):
                    scope[alias.asname or alias.name] = importlib.import_module(alias.name)
        elif isinstance(node, ast.ImportFrom) and node.module in ("cudabuild.types", "cudabuild.cuda.random"):
            module = cudabuild.types if node.module == "cudabuild.types" else random
            scope.update({alias.asname or alias.name: getattr(module, alias.name) for alias in node.names})
    return scope


def _uses(node: ast.AST, branch: bool, scope: dict[str, Any], known: dict[Any, str]) -> Iterator[tuple[str, bool]]:
    """The names below ``node``, and whether each is inside an if, a loop or a conditional expression."""
    name = _spelled(node) or _python_name(node, scope, known)
    if name is not None:
        yield name, branch
    for field, value in ast.iter_fields(node):
        inside = branch or (isinstance(node, (ast.If, ast.IfExp, ast.While, ast.For)) and field in ("body", "orelse"))
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _uses(child, inside, scope, known)


def _spelled(node: ast.AST) -> str | None:
    """``atomic.add`` for the expression ``cuda.atomic.add``."""
    if isinstance(node, ast.Attribute):
        if isinstance(node.value, ast.Name) and node.value.id == "cuda":
            return node.attr
        base = _spelled(node.value)
        return f"{base}.{node.attr}" if base else None
    if isinstance(node, ast.Call):  # cuda.cg.this_grid().sync
        return {"cg.this_grid": "cg.grid_group"}.get(_spelled(node.func) or "")
    return None


def _python_name(node: ast.AST, scope: dict[str, Any], known: dict[Any, str]) -> str | None:
    """``math.sin`` or ``abs`` for an expression that stands for it; a type of ours counts as NumPy's of its name."""
    value = None
    if isinstance(node, ast.Name):
        value = scope.get(node.id)
    elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        module = scope.get(node.value.id)
        value = getattr(module, node.attr, None) if isinstance(module, ModuleType) else None
    if value is None:
        return None
    if getattr(value, "__module__", None) == random.__name__:
        return f"random.{value.__name__}"
    if isinstance(value, cudabuild.types.Scalar):
        value = getattr(numpy, value.name, None)
    try:
        return known.get(value)
    except TypeError:  # not hashable, so no such name
        return None
