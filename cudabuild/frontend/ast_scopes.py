# SPDX-License-Identifier: Apache-2.0
"""What can be told of a function's syntax tree before any HIR is made: the names that it binds, and which of its
expressions are cheap."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from cudabuild.source import as_function

__all__ = ["captured_names", "free_names", "is_cheap", "local_names", "stored_names"]


def is_cheap(node: ast.expr) -> bool:
    """True for an expression that costs an instruction or two and can neither fail nor have an effect.

    Such a right-hand side of ``and``/``or`` is evaluated without a branch, so that the loads of both sides' operands
    overlap. Array elements and calls stay behind the branch that guards them.
    """
    if isinstance(node, (ast.Name, ast.Constant)):
        return not (isinstance(node, ast.Constant) and isinstance(node.value, str))
    if isinstance(node, ast.Attribute):
        return node.attr in ("size", "ndim", "x", "y", "z") and isinstance(node.value, ast.Name)
    if isinstance(node, ast.Subscript):
        return (
            isinstance(node.value, ast.Attribute)
            and node.value.attr == "shape"
            and isinstance(node.value.value, ast.Name)
            and isinstance(node.slice, ast.Constant)
        )
    if isinstance(node, ast.UnaryOp):
        return is_cheap(node.operand)
    if isinstance(node, ast.BinOp):
        simple = isinstance(node.op, (ast.Add, ast.Sub, ast.Mult, ast.BitAnd, ast.BitOr, ast.BitXor))
        return simple and is_cheap(node.left) and is_cheap(node.right)
    if isinstance(node, ast.Compare):
        ordered = not any(isinstance(op, (ast.In, ast.NotIn)) for op in node.ops)
        return ordered and is_cheap(node.left) and all(map(is_cheap, node.comparators))
    if isinstance(node, ast.BoolOp):
        return all(map(is_cheap, node.values))
    return False


def local_names(tree: ast.FunctionDef) -> set[str]:
    """The names that are local by Python's rule: parameters, and whatever the body binds."""
    arguments = tree.args
    names = {a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    names |= {star.arg for star in (arguments.vararg, arguments.kwarg) if star is not None}
    for statement in tree.body:
        names |= stored_names(statement)
    return names


def stored_names(node: ast.AST) -> set[str]:
    """The names that a statement or expression binds in its own scope."""
    names: set[str] = set()
    for child in _scope_of(node):
        if isinstance(child, ast.Name) and isinstance(child.ctx, (ast.Store, ast.Del)):
            names.add(child.id)
        elif isinstance(child, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)):
            names.add(child.name)
        elif isinstance(child, ast.alias):
            names.add((child.asname or child.name).split(".")[0])
        elif isinstance(child, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and child.name:
            names.add(child.name)
        elif isinstance(child, ast.MatchMapping) and child.rest:
            names.add(child.rest)
    return names


def free_names(tree: ast.FunctionDef) -> set[str]:
    """The names that a function, or one inside it, reads and does not bind."""
    names: set[str] = set()
    for statement in tree.body:
        for child in _scope_of(statement):
            if isinstance(child, ast.Name):
                names.add(child.id)
            elif isinstance(child, (ast.FunctionDef, ast.Lambda)):
                names |= free_names(as_function(child))
    return names - local_names(tree)


def captured_names(tree: ast.FunctionDef, enclosing: set[str]) -> list[str]:
    """The variables of the enclosing function that the functions written inside ``tree`` capture, sorted.

    Args:
        tree: a function.
        enclosing: the names that are local to it, or that it captures itself.
    """
    names: set[str] = set()
    for statement in tree.body:
        for child in _scope_of(statement):
            if isinstance(child, (ast.FunctionDef, ast.Lambda)):
                names |= free_names(as_function(child)) & enclosing
    return sorted(names)


def _scope_of(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of one scope: of a function inside it, itself and what is evaluated where it is defined."""
    pending = [node]
    while pending:
        child = pending.pop()
        yield child
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            arguments = child.args
            pending += [*arguments.defaults, *(default for default in arguments.kw_defaults if default is not None)]
            pending += [] if isinstance(child, ast.Lambda) else child.decorator_list
        elif isinstance(child, ast.AnnAssign):
            pending += [child.target, *([] if child.value is None else [child.value])]
        elif not isinstance(child, (ast.Name, ast.Constant)):  # below them is no name
            for field in child._fields:
                part = getattr(child, field, None)
                if isinstance(part, list):
                    pending += [item for item in part if isinstance(item, ast.AST)]
                elif isinstance(part, ast.AST) and field not in ("ctx", "op"):
                    pending.append(part)
