# SPDX-License-Identifier: Apache-2.0
"""The canonical text of a function's syntax tree, and the free names in it.

    def f(x: T, n=N):             (arguments [] [(arg 'x') (arg 'n')] ~ [] ~) [(Return (BinOp (Name 'x') (Mult)
        "Doc."              ->      (Attribute (Name 'config') 'K')))]
        return x * config.K       free names: config.K

An own walk over a fixed list of fields: no position, comment, annotation, docstring or decorator of the function
counts, and what ``ast`` adds from one Python to the next does not either (``ast.dump`` and bytecode change with the
version).
"""

from __future__ import annotations

import ast
from typing import Any

from cudabuild.digest import digest

__all__ = ["FunctionForm", "canonical_form"]

#: The fields that count, node by node. Annotations are left out: they are never evaluated and never change the code.
_FIELDS: dict[str, tuple[str, ...]] = {
    "FunctionDef": ("name", "args", "decorator_list", "body"),
    "AsyncFunctionDef": ("name", "args", "decorator_list", "body"),
    "ClassDef": ("name", "bases", "keywords", "decorator_list", "body"),
    "Lambda": ("args", "body"),
    "arguments": ("posonlyargs", "args", "vararg", "kwonlyargs", "kw_defaults", "kwarg", "defaults"),
    "arg": ("arg",),
    "keyword": ("arg", "value"),
    "Return": ("value",),
    "Delete": ("targets",),
    "Assign": ("targets", "value"),
    "AugAssign": ("target", "op", "value"),
    "AnnAssign": ("target", "value"),
    "For": ("target", "iter", "body", "orelse"),
    "AsyncFor": ("target", "iter", "body", "orelse"),
    "While": ("test", "body", "orelse"),
    "If": ("test", "body", "orelse"),
    "With": ("items", "body"),
    "AsyncWith": ("items", "body"),
    "withitem": ("context_expr", "optional_vars"),
    "Raise": ("exc", "cause"),
    "Try": ("body", "handlers", "orelse", "finalbody"),
    "TryStar": ("body", "handlers", "orelse", "finalbody"),
    "ExceptHandler": ("type", "name", "body"),
    "Assert": ("test", "msg"),
    "Import": ("names",),
    "ImportFrom": ("module", "names", "level"),
    "alias": ("name", "asname"),
    "Global": ("names",),
    "Nonlocal": ("names",),
    "Expr": ("value",),
    "Pass": (),
    "Break": (),
    "Continue": (),
    "BoolOp": ("op", "values"),
    "NamedExpr": ("target", "value"),
    "BinOp": ("left", "op", "right"),
    "UnaryOp": ("op", "operand"),
    "IfExp": ("test", "body", "orelse"),
    "Dict": ("keys", "values"),
    "Set": ("elts",),
    "ListComp": ("elt", "generators"),
    "SetComp": ("elt", "generators"),
    "DictComp": ("key", "value", "generators"),
    "GeneratorExp": ("elt", "generators"),
    "comprehension": ("target", "iter", "ifs", "is_async"),
    "Await": ("value",),
    "Yield": ("value",),
    "YieldFrom": ("value",),
    "Compare": ("left", "ops", "comparators"),
    "Call": ("func", "args", "keywords"),
    "FormattedValue": ("value", "conversion", "format_spec"),
    "JoinedStr": ("values",),
    "Constant": ("value",),
    "Attribute": ("value", "attr"),
    "Subscript": ("value", "slice"),
    "Starred": ("value",),
    "Name": ("id",),
    "List": ("elts",),
    "Tuple": ("elts",),
    "Slice": ("lower", "upper", "step"),
    "Match": ("subject", "cases"),
    "match_case": ("pattern", "guard", "body"),
    "MatchValue": ("value",),
    "MatchSingleton": ("value",),
    "MatchSequence": ("patterns",),
    "MatchMapping": ("keys", "patterns", "rest"),
    "MatchClass": ("cls", "patterns", "kwd_attrs", "kwd_patterns"),
    "MatchStar": ("name",),
    "MatchAs": ("pattern", "name"),
    "MatchOr": ("patterns",),
}

#: What a node that is not in the list leaves out.
_NEVER = frozenset({"ctx", "kind", "type_comment", "annotation", "returns", "type_params"})
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class FunctionForm:
    """What counts of a function's source.

    Attributes:
        digest: of the canonical text.
        free_names: the dotted names that it reads and does not bind, each as a tuple, sorted.
    """

    __slots__ = ("digest", "free_names")

    def __init__(self, digest: bytes, free_names: tuple[tuple[str, ...], ...]) -> None:
        self.digest = digest
        self.free_names = free_names


def canonical_form(tree: ast.FunctionDef) -> FunctionForm:
    """The canonical form of one ``def``; remembered on the tree.

    Its name, decorators and docstring do not count, and its defaults count by value elsewhere.
    """
    known = getattr(tree, "_cudabuild_form", None)
    if isinstance(known, FunctionForm):
        return known
    arguments = tree.args
    pieces: list[str] = []
    for field in ("posonlyargs", "args", "vararg", "kwonlyargs", "kwarg"):
        _write(getattr(arguments, field), pieces)
    _write(_without_docstring(tree.body), pieces)
    scope = _Scope()
    scope.bind_arguments(arguments)
    for statement in tree.body:
        scope.visit(statement)
    form = FunctionForm(digest(" ".join(pieces).encode()), tuple(sorted(scope.free())))
    tree._cudabuild_form = form  # type: ignore[attr-defined]  # lives and dies with the tree, as a memo should
    return form


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    first = body[0] if body else None
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        return body[1:]
    return body


def _write(value: Any, pieces: list[str]) -> None:
    if isinstance(value, ast.AST):
        name = type(value).__name__
        pieces.append(f"({name}")
        fields = _FIELDS.get(name)
        if fields is None:
            fields = tuple(field for field in value._fields if field not in _NEVER)
        for field in fields:
            child: Any = getattr(value, field, None)
            if field == "body" and name in ("FunctionDef", "AsyncFunctionDef"):
                child = _without_docstring(child)
            elif name == "JoinedStr":  # Python 3.12 adds empty constants
                child = [part for part in child if not (isinstance(part, ast.Constant) and part.value == "")]
            _write(child, pieces)
        pieces.append(")")
    elif isinstance(value, list):
        pieces.append("[")
        for item in value:
            _write(item, pieces)
        pieces.append("]")
    elif value is None:
        pieces.append("~")
    elif isinstance(value, int) and not isinstance(value, bool):
        pieces.append(hex(value))
    elif isinstance(value, str):
        pieces.append(ascii(value))
    else:  # bool, float, complex, bytes, Ellipsis
        pieces.append(f"{type(value).__name__} {value!r}")


class _Scope:
    """The names that one function scope binds and reads; comprehensions and nested functions are scopes inside it."""

    def __init__(self) -> None:
        self.bound: set[str] = set()
        self.outer: set[str] = set()
        self.reads: set[tuple[str, ...]] = set()

    def free(self) -> set[tuple[str, ...]]:
        local = self.bound - self.outer
        return {chain for chain in self.reads if chain[0] not in local}

    def bind_arguments(self, arguments: ast.arguments) -> None:
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        self.bound.update(arg.arg for arg in every + [extra for extra in (arguments.vararg, arguments.kwarg) if extra])

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Load):
                self.reads.add((node.id,))
            else:
                self.bound.add(node.id)
        elif isinstance(node, ast.Attribute):
            self._visit_attribute(node)
        elif isinstance(node, _FUNCTIONS):
            self._visit_function(node)
        elif isinstance(node, _COMPREHENSIONS):
            self._visit_comprehension(node)
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            self.outer.update(node.names)
        elif isinstance(node, ast.AnnAssign):
            self.visit(node.target)
            if node.value is not None:
                self.visit(node.value)
        else:
            self._bind_names(node)
            for child in ast.iter_child_nodes(node):
                self.visit(child)

    def _bind_names(self, node: ast.AST) -> None:
        """Names that a node binds by itself, not through a Name."""
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            self.bound.update((alias.asname or alias.name).partition(".")[0] for alias in node.names)
        elif isinstance(node, (ast.ExceptHandler, ast.ClassDef, ast.MatchAs, ast.MatchStar)) and node.name:
            self.bound.add(node.name)
        elif isinstance(node, ast.MatchMapping) and node.rest:
            self.bound.add(node.rest)
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            self.reads.add((node.target.id,))

    def _visit_attribute(self, node: ast.Attribute) -> None:
        names: list[str] = []
        base: ast.expr = node
        while isinstance(base, ast.Attribute):
            names.append(base.attr)
            base = base.value
        if isinstance(base, ast.Name) and isinstance(base.ctx, ast.Load):
            self.reads.add((base.id, *reversed(names)))
        else:
            self.visit(base)

    def _visit_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> None:
        for default in [*node.args.defaults, *(default for default in node.args.kw_defaults if default is not None)]:
            self.visit(default)
        inner = _Scope()
        inner.bind_arguments(node.args)
        if isinstance(node, ast.Lambda):
            inner.visit(node.body)
        else:
            self.bound.add(node.name)
            for decorator in node.decorator_list:
                self.visit(decorator)
            for statement in node.body:
                inner.visit(statement)
        self.reads |= inner.free()

    def _visit_comprehension(self, node: Any) -> None:
        self.visit(node.generators[0].iter)  # evaluated outside
        inner = _Scope()
        for index, generator in enumerate(node.generators):
            inner.visit(generator.target)
            for part in [*([generator.iter] if index else []), *generator.ifs]:
                inner.visit(part)
        for part in (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,):
            inner.visit(part)
        for inside in ast.walk(node):
            if isinstance(inside, ast.NamedExpr):  # binds in the enclosing function
                inner.bound.discard(inside.target.id)
                self.bound.add(inside.target.id)
        self.reads |= inner.free()
