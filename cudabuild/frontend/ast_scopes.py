# SPDX-License-Identifier: Apache-2.0
"""What can be told of a function's syntax tree before any HIR is made: the names that it binds, and which of its
expressions are cheap."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

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


def stored_names(node: ast.AST) -> frozenset[str]:
    """The names that a statement or expression binds in its own scope."""
    return _look_through(node).stored


class _Scope(NamedTuple):
    """What a statement or expression says of its scope: the names that it binds, and the functions inside it."""

    stored: frozenset[str]
    functions: tuple[ast.FunctionDef | ast.Lambda, ...]


def _look_through(node: ast.AST) -> _Scope:
    known = getattr(node, "_cudabuild_scope", None)
    if isinstance(known, _Scope):
        return known
    stored: set[str] = set()
    functions: list[ast.FunctionDef | ast.Lambda] = []
    pending = [node]
    while pending:
        child = pending.pop()
        kind = type(child)
        if kind is ast.Name:
            if not isinstance(child.ctx, ast.Load):  # type: ignore[attr-defined]
                stored.add(child.id)  # type: ignore[attr-defined]
        elif kind in _PARTS:
            pending += [getattr(child, field) for field in _PARTS[kind]]
        elif isinstance(child, ast.stmt) and child is not node:
            inside = _look_through(child)
            stored |= inside.stored
            functions += inside.functions
        elif kind is not ast.Constant:
            stored |= _bound_by(child)
            if isinstance(child, (ast.FunctionDef, ast.Lambda)):
                functions.append(child)
            pending += _evaluated_in(child)
    found = _Scope(frozenset(stored), tuple(functions))
    node._cudabuild_scope = found  # type: ignore[attr-defined]  # lives and dies with the tree, as a memo should
    return found


#: Expressions that bind nothing, with the fields that hold the expressions that they are made of.
_PARTS: dict[type[ast.AST], tuple[str, ...]] = {
    ast.Attribute: ("value",), ast.Subscript: ("value", "slice"), ast.BinOp: ("left", "right"),
    ast.UnaryOp: ("operand",),
}  # fmt: skip


def _bound_by(node: ast.AST) -> set[str]:
    """The names that a node binds itself, names aside."""
    if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)):
        return {node.name}
    if isinstance(node, ast.alias):
        return {(node.asname or node.name).split(".")[0]}
    if isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
        return {node.name}
    return {node.rest} if isinstance(node, ast.MatchMapping) and node.rest else set()


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
        for function in _look_through(statement).functions:
            names |= free_names(as_function(function)) & enclosing
    return sorted(names)


def _scope_of(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of one scope: of a function inside it, itself and what is evaluated where it is defined."""
    pending = [node]
    while pending:
        child = pending.pop()
        yield child
        if not isinstance(child, (ast.Name, ast.Constant)):  # below them is no name
            pending += _evaluated_in(child)


def _evaluated_in(node: ast.AST) -> list[ast.AST]:
    """The nodes right below one that belong to the same scope, and may hold names."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
        arguments = node.args
        defaults: list[ast.AST] = [
            default for default in (*arguments.defaults, *arguments.kw_defaults) if default is not None
        ]
        return defaults if isinstance(node, ast.Lambda) else [*defaults, *node.decorator_list]
    if isinstance(node, ast.AnnAssign):
        return [node.target] if node.value is None else [node.target, node.value]
    found: list[ast.AST] = []
    for field in node._fields:
        part = getattr(node, field, None)
        if isinstance(part, list):
            found += [item for item in part if isinstance(item, ast.AST)]
        elif isinstance(part, ast.AST) and field not in ("ctx", "op"):
            found.append(part)
    return found
