# SPDX-License-Identifier: Apache-2.0
"""Small questions about syntax: dotted names, what a function binds, what a pattern or target names."""

from __future__ import annotations

import ast

__all__ = [
    "Chain",
    "arguments_of",
    "chain_of",
    "is_host_method",
    "local_names",
    "pairs_up",
    "pattern_names",
    "target_names",
]

#: ``a.b.c`` as ``("a", "b", "c")``.
Chain = tuple[str, ...]


def chain_of(node: ast.expr) -> Chain | None:
    """``a.b.c`` as ``("a", "b", "c")``; None for anything but a dotted name."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    return (node.id, *reversed(parts))


#: Decorators of methods that are called from host code only.
_HOST_DECORATORS = frozenset({"abstractmethod", "cached_property", "classmethod", "getter", "property", "setter"})


def is_host_method(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """A plain method runs only where host code calls it; a kernel or device function of a class is a static method."""
    chains = [chain_of(decorator) for decorator in node.decorator_list]
    return all(chain is not None and chain[-1] in _HOST_DECORATORS for chain in chains)


def pairs_up(target: ast.Tuple, value: ast.Tuple) -> bool:
    """``a, b = x, y``: as many values as names, and no star among them."""
    parts = [*target.elts, *value.elts]
    return len(target.elts) == len(value.elts) and not any(isinstance(part, ast.Starred) for part in parts)


def arguments_of(arguments: ast.arguments) -> list[ast.arg]:
    """Every parameter of a function, ``*args`` and ``**kwargs`` included."""
    extra = [argument for argument in (arguments.vararg, arguments.kwarg) if argument is not None]
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *extra]


def target_names(target: ast.expr) -> set[str]:
    """The names that an assignment's target binds."""
    return {node.id for node in ast.walk(target) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def pattern_names(node: ast.AST) -> set[str]:
    """The names that the patterns of a ``match`` bind."""
    names: set[str] = set()
    for part in ast.walk(node):
        for attribute in ("name", "rest"):
            value = getattr(part, attribute, None)
            if isinstance(part, ast.MatchAs | ast.MatchStar | ast.MatchMapping) and isinstance(value, str):
                names.add(value)
    return names


def local_names(node: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """The local variables of a function: parameters and what its own statements bind, without its ``global`` names."""
    names = {argument.arg for argument in arguments_of(node.args)}
    outside: set[str] = set()
    pending: list[ast.AST] = list(node.body)
    while pending:
        part = pending.pop()
        if isinstance(part, ast.Global | ast.Nonlocal):
            outside.update(part.names)
        elif isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(part.name)
            continue
        elif isinstance(part, ast.Lambda):
            continue
        elif isinstance(part, ast.comprehension):
            pending += [part.iter, *part.ifs]  # its target is local to the comprehension
            continue
        elif isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store | ast.Del):
            names.add(part.id)
        elif isinstance(part, ast.Import | ast.ImportFrom):
            names.update(alias.asname or alias.name.partition(".")[0] for alias in part.names)
        elif isinstance(part, ast.ExceptHandler) and part.name:
            names.add(part.name)
        elif isinstance(part, ast.Match):
            names |= pattern_names(part)
        pending.extend(ast.iter_child_nodes(part))
    return names - outside
