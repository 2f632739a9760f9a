# SPDX-License-Identifier: Apache-2.0
"""Counts the kernels of a package by its syntax, with none of the product's code: what discovery is held against."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

__all__ = ["count_kernels"]

_JIT = {"numba.cuda.jit", "numba.cuda.decorators.jit"}

Name = tuple[str, tuple[str, ...]]


def count_kernels(root: Path) -> set[Name]:
    """(module, path through classes) of every kernel outside of functions, in all ``.py`` files below a folder.

    A kernel is what a decorator that the file's own imports lead to ``numba.cuda.jit`` is applied to, by ``@`` or by a
    call, unless it says ``device=True`` or its signature has a result.
    """
    found: set[Name] = set()
    for path in sorted(root.rglob("*.py")):
        text = path.read_text(encoding="utf-8", errors="replace")
        if "cuda" not in text:
            continue
        try:
            tree = ast.parse(text)
        except SyntaxError:
            continue
        parts = path.relative_to(root).with_suffix("").parts
        module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        names = _imported(tree)
        found |= {(module, name) for name in _kernels(tree.body, names, ())}
    return found


def _imported(tree: ast.Module) -> dict[str, str]:
    """Name in the file -> what it stands for, by every import statement in it."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                names[alias.asname or alias.name.partition(".")[0]] = (
                    alias.name if alias.asname else alias.name.partition(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return names


def _kernels(body: list[ast.stmt], names: dict[str, str], path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for node in body:
        if isinstance(node, ast.FunctionDef):
            if any(_makes_kernel(decorator, names) for decorator in node.decorator_list):
                yield (*path, node.name)
        elif isinstance(node, ast.ClassDef):
            yield from _kernels(node.body, names, (*path, node.name))
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and _applies(node.value, names):
            yield from ((*path, target.id) for target in node.targets if isinstance(target, ast.Name))
        else:
            for field in ("body", "orelse", "finalbody", "handlers"):
                inner = getattr(node, field, [])
                parts = [part for one in inner for part in (one.body if isinstance(one, ast.ExceptHandler) else [one])]
                yield from _kernels(parts, names, path)


def _makes_kernel(decorator: ast.expr, names: dict[str, str]) -> bool:
    call = decorator if isinstance(decorator, ast.Call) else None
    if _spell(call.func if call else decorator, names) not in _JIT:
        return False
    if call is None:
        return True
    if any(one.arg == "device" and isinstance(one.value, ast.Constant) and one.value.value for one in call.keywords):
        return False
    first = call.args[0] if call.args else None
    return not (len(call.args) > 1 and isinstance(call.args[1], ast.Constant) and call.args[1].value is True) and (
        not isinstance(first, ast.Constant) or not str(first.value).split("(")[0].strip(" ").replace("void", "")
    )


def _applies(call: ast.Call, names: dict[str, str]) -> bool:
    """``cuda.jit(f)`` or ``cuda.jit(…)(f)``."""
    if isinstance(call.func, ast.Call):
        return _makes_kernel(call.func, names)
    is_function = bool(call.args) and isinstance(call.args[0], ast.Name | ast.Lambda)
    return is_function and _makes_kernel(call, names)


def _spell(node: ast.expr, names: dict[str, str]) -> str:
    """``cuda.jit`` -> ``numba.cuda.jit``."""
    if isinstance(node, ast.Attribute):
        return f"{_spell(node.value, names)}.{node.attr}"
    return names.get(node.id, node.id) if isinstance(node, ast.Name) else "?"
