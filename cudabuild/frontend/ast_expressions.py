# SPDX-License-Identifier: Apache-2.0
"""Expressions to HIR: values, conditions with their short circuits, calls."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from cudabuild.errors import Location
from cudabuild.frontend.ast_scopes import captured_names, free_names, is_cheap, local_names
from cudabuild.frontend.diagnostics import DiagnosticSink, Refusal
from cudabuild.frontend.folding import literal_number
from cudabuild.frontend.refused_syntax import refuse_syntax
from cudabuild.frontend.ssa import SsaBuilder
from cudabuild.ir.hir import HirBlock, HirInstr, InnerFunction
from cudabuild.source import FunctionSource, as_function

__all__ = ["BINARY", "ExpressionBuilder"]

BINARY: dict[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.LShift: "<<", ast.RShift: ">>", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.MatMult: "@",
}  # fmt: skip
_UNARY: dict[type[ast.unaryop], str] = {ast.USub: "-", ast.UAdd: "+", ast.Invert: "~", ast.Not: "not"}
_COMPARE: dict[type[ast.cmpop], str] = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
    ast.Is: "is", ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in",
}  # fmt: skip


class ExpressionBuilder:
    """The part of the builder that makes values of expressions."""

    def __init__(
        self, source: FunctionSource, sink: DiagnosticSink, debug: bool, captured: tuple[str, ...] = ()
    ) -> None:
        self.debug = debug
        self.source = source
        self.sink = sink
        self.ssa = SsaBuilder()
        self.captured = captured
        self.locals = local_names(source.tree) | set(captured)
        self.cells = captured_names(source.tree, self.locals)  # variables that functions inside this one capture
        self.temporaries = 0

    # places and refusals

    def _at(self, node: ast.AST) -> Location:
        return self.source.locate(node)

    def _refuse(self, node: ast.AST, title: str, *, found: str, expected: str = "", do: str = "") -> HirInstr:
        refusal = Refusal(title, found=found, expected=expected, do=do)
        return self.ssa.emit("refused", self._at(node), refusal=refusal)

    # conditions

    def _condition(self, node: ast.expr, then: HirBlock, otherwise: HirBlock) -> None:
        """Branches on the truth of ``node``; short circuit where the right-hand side is not cheap and safe."""
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            self._condition(node.operand, otherwise, then)
        elif isinstance(node, ast.BoolOp) and not all(is_cheap(value) for value in node.values[1:]):
            is_and = isinstance(node.op, ast.And)
            for value in node.values[:-1]:
                more = self.ssa.new_block("and" if is_and else "or")
                if is_and:
                    self._condition(value, more, otherwise)
                else:
                    self._condition(value, then, more)
                self.ssa.seal(more)
                self.ssa.current = more if more.predecessors else None
            self._condition(node.values[-1], then, otherwise)
        else:
            truth = self.ssa.emit("truth", self._at(node), self._expression(node))
            truth.nodes = (node,)
            self.ssa.branch(truth, then, otherwise, self._at(node))

    # expressions

    def _expression(self, node: ast.expr) -> HirInstr:
        method: Callable[[ast.expr], HirInstr] | None = getattr(self, f"_expr_{type(node).__name__}", None)
        if method is None:
            return self.ssa.emit("refused", self._at(node), refusal=refuse_syntax(node))
        return method(node)

    def _expr_Constant(self, node: ast.Constant) -> HirInstr:
        return self.ssa.emit("const", self._at(node), value=node.value)

    def _expr_Name(self, node: ast.Name) -> HirInstr:
        if node.id in self.locals:
            return self.ssa.read(node.id, self._at(node))
        return self.ssa.emit("name", self._at(node), identifier=node.id)

    def _expr_BinOp(self, node: ast.BinOp) -> HirInstr:
        number = literal_number(node)
        if number is not None:
            return self.ssa.emit("const", self._at(node), value=number)
        left = self._expression(node.left)
        right = self._expression(node.right)
        result = self.ssa.emit("binary", self._at(node), left, right, operator=BINARY[type(node.op)])
        result.nodes = (node.left, node.right)
        return result

    def _expr_UnaryOp(self, node: ast.UnaryOp) -> HirInstr:
        number = literal_number(node)
        if number is not None:
            return self.ssa.emit("const", self._at(node), value=number)
        value = self._expression(node.operand)
        result = self.ssa.emit("unary", self._at(node), value, operator=_UNARY[type(node.op)])
        result.nodes = (node.operand,)
        return result

    def _expr_Compare(self, node: ast.Compare) -> HirInstr:
        left = self._expression(node.left)
        if len(node.ops) == 1:
            membership = isinstance(node.ops[0], (ast.In, ast.NotIn))
            right = (self._sequence if membership else self._expression)(node.comparators[0])
            one = self.ssa.emit("compare", self._at(node), left, right, operator=_COMPARE[type(node.ops[0])])
            one.nodes = (node.left, node.comparators[0])
            return one
        if not all(is_cheap(value) for value in node.comparators[1:]):
            return self._chained_compare(node, left)
        result: HirInstr | None = None
        for operator, comparator in zip(node.ops, node.comparators, strict=True):
            right = self._expression(comparator)
            one = self.ssa.emit("compare", self._at(node), left, right, operator=_COMPARE[type(operator)])
            result = one if result is None else self.ssa.emit("logical", self._at(node), result, one, operator="and")
            left = right
        assert result is not None
        return result

    def _chained_compare(self, node: ast.Compare, left: HirInstr) -> HirInstr:
        """``a < f(b) < c``: each side is evaluated once, and only while the comparisons hold."""
        name = self._temporary()
        done = self.ssa.new_block("compared")
        where = self._at(node)
        for position, (operator, comparator) in enumerate(zip(node.ops, node.comparators, strict=True)):
            right = self._expression(comparator)
            one = self.ssa.emit("compare", where, left, right, operator=_COMPARE[type(operator)])
            self.ssa.write(name, one)
            if position < len(node.ops) - 1:
                more = self.ssa.new_block("chain")
                self.ssa.branch(one, more, done, where)
                self.ssa.seal(more)
                self.ssa.current = more if more.predecessors else None
            left = right
        self.ssa.jump(done, where)
        self.ssa.seal(done)
        self.ssa.current = done
        return self.ssa.read(name, where)

    def _temporary(self) -> str:
        self.temporaries += 1
        return f"<value {self.temporaries}>"

    def _expr_BoolOp(self, node: ast.BoolOp) -> HirInstr:
        operator = "and" if isinstance(node.op, ast.And) else "or"
        where = self._at(node)
        if all(is_cheap(value) for value in node.values[1:]):
            result = self._expression(node.values[0])
            for value in node.values[1:]:
                result = self.ssa.emit("logical", where, result, self._expression(value), operator=operator)
            return result
        name = self._temporary()
        done = self.ssa.new_block("bool")
        for position, part in enumerate(node.values):
            one = self._expression(part)
            self.ssa.write(name, one)
            if position < len(node.values) - 1:
                more = self.ssa.new_block(operator)
                truth = self.ssa.emit("truth", self._at(part), one)
                then, otherwise = (more, done) if operator == "and" else (done, more)
                self.ssa.branch(truth, then, otherwise, where)
                self.ssa.seal(more)
                self.ssa.current = more if more.predecessors else None
        self.ssa.jump(done, where)
        self.ssa.seal(done)
        self.ssa.current = done
        return self.ssa.read(name, where)

    def _expr_IfExp(self, node: ast.IfExp) -> HirInstr:
        name = self._temporary()
        where = self._at(node)
        then, otherwise, done = (self.ssa.new_block(hint) for hint in ("ifexp", "elseexp", "endexp"))
        self._condition(node.test, then, otherwise)
        for block, choice in ((then, node.body), (otherwise, node.orelse)):
            self.ssa.seal(block)
            self.ssa.current = block if block.predecessors else None
            self.ssa.write(name, self._expression(choice))
            self.ssa.jump(done, where)
        self.ssa.seal(done)
        self.ssa.current = done
        return self.ssa.read(name, where)

    def _expr_NamedExpr(self, node: ast.NamedExpr) -> HirInstr:
        value = self._expression(node.value)
        self.ssa.write(node.target.id, value)
        return value

    def _expr_Attribute(self, node: ast.Attribute) -> HirInstr:
        result = self.ssa.emit("attribute", self._at(node), self._expression(node.value), name=node.attr)
        result.nodes = (node.value,)
        return result

    def _expr_Subscript(self, node: ast.Subscript) -> HirInstr:
        base = self._expression(node.value)
        result = self.ssa.emit("item", self._at(node), base, self._expression(node.slice))
        result.nodes = (node.value, node.slice)
        return result

    def _expr_Slice(self, node: ast.Slice) -> HirInstr:
        parts = [None if part is None else self._expression(part) for part in (node.lower, node.upper, node.step)]
        return self.ssa.emit("slice", self._at(node), *parts)

    def _expr_Tuple(self, node: ast.Tuple | ast.List) -> HirInstr:
        starred = tuple(index for index, element in enumerate(node.elts) if isinstance(element, ast.Starred))
        nodes = [element.value if isinstance(element, ast.Starred) else element for element in node.elts]
        attrs = {"starred": starred} if starred else {}
        result = self.ssa.emit("tuple", self._at(node), *map(self._expression, nodes), **attrs)
        result.nodes = tuple(nodes)
        return result

    def _sequence(self, node: ast.expr) -> HirInstr:
        """An expression of which only the elements are looked at: there a list is a tuple."""
        return self._expr_Tuple(node) if isinstance(node, ast.List) else self._expression(node)

    def _expr_Call(self, node: ast.Call) -> HirInstr:
        operands: list[HirInstr | None] = [self._refreshed(self._expression(node.func))]
        nodes: list[ast.AST] = [node.func]
        starred: list[int] = []
        for position, argument in enumerate(node.args, 1):
            if isinstance(argument, ast.Starred):
                starred.append(position)
                argument = argument.value
            operands.append(self._refreshed(self._expression(argument)))
            nodes.append(argument)
        keywords: list[str] = []
        for keyword in node.keywords:
            if keyword.arg is None:
                return self._refuse(
                    keyword.value,
                    "double-starred argument",
                    found=f"**{ast.unparse(keyword.value)}",
                    expected="name=value for each keyword",
                    do="write the keyword arguments out",
                )
            keywords.append(keyword.arg)
            operands.append(self._refreshed(self._expression(keyword.value)))
            nodes.append(keyword.value)
        attrs: dict[str, Any] = {"starred": tuple(starred)} if starred else {}
        result = self.ssa.emit("call", self._at(node), *operands, keywords=tuple(keywords), **attrs)
        result.nodes = tuple(nodes)
        return result

    # functions inside this one

    def _expr_Lambda(self, node: ast.Lambda) -> HirInstr:
        return self._inner_function(as_function(node))

    def _inner_function(self, tree: ast.FunctionDef) -> HirInstr:
        captured = tuple(sorted(free_names(tree) & self.locals))
        source = FunctionSource(self.source.file, self.source.lines, tree, self.source.is_ascii)
        where = self._at(tree)
        operands = [self.ssa.read(name, where) for name in captured]
        arguments = tree.args
        positional = [*arguments.posonlyargs, *arguments.args]
        given = list(zip(positional[len(positional) - len(arguments.defaults) :], arguments.defaults, strict=True))
        given += [(a, d) for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if d is not None]
        operands += [self._expression(default) for _, default in given]
        inner = InnerFunction(source, captured)
        defaults = tuple(argument.arg for argument, _ in given)
        return self.ssa.emit("function", self._head(tree), *operands, inner=inner, defaults=defaults)

    def _head(self, node: ast.AST) -> Location:
        """The first line of something of several lines."""
        where = self._at(node)
        if where.end_line == where.line:
            return where
        return Location(where.file, where.line, where.column, where.line, len(self.source.line_text(where.line)))

    def _refreshed(self, value: HirInstr) -> HirInstr:
        """``value`` with the captured variables as they are by now, in case it is or holds a function from inside."""
        if not self.cells or value.op in ("const", "binary", "unary", "compare", "attribute", "name", "refused"):
            return value
        cells = [self.ssa.read(name, value.location) for name in self.cells]
        return self.ssa.emit("refresh", value.location, value, *cells, names=tuple(self.cells))
