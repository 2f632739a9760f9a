# SPDX-License-Identifier: Apache-2.0
"""The AST of a function to HIR: control flow becomes blocks, variables become SSA values.

Before: ``for i in range(n): s += x[i]``. After: a block that computes ``iterate(range(n))`` and ``steps(…)``, a
header with phis for the counter and ``s`` that branches on the counter, a body with ``step``, ``item`` and ``binary
+``, and an exit. Whatever the kernel language has no meaning for is refused here, with its place, and building goes
on.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from cudabuild.faults import ASSERTION
from cudabuild.frontend.ast_expressions import BINARY
from cudabuild.frontend.ast_loops import LoopBuilder
from cudabuild.frontend.ast_patterns import PatternBuilder
from cudabuild.frontend.ast_scopes import stored_names
from cudabuild.frontend.diagnostics import DiagnosticSink, Refusal
from cudabuild.frontend.refused_syntax import refuse_syntax
from cudabuild.ir.hir import HirFunction, HirInstr, LoopKey
from cudabuild.source import FunctionSource

__all__ = ["build_hir"]


def build_hir(
    source: FunctionSource,
    sink: DiagnosticSink,
    *,
    debug: bool = False,
    captured: tuple[str, ...] = (),
    unrolled: Mapping[LoopKey, int] = MappingProxyType({}),
) -> HirFunction:
    """The HIR of a function; what cannot be expressed goes to ``sink``.

    Args:
        source: the function.
        sink: for what is refused whether it is reached or not.
        debug: whether assert and raise count.
        captured: the variables of enclosing functions that it reads; they follow its parameters.
        unrolled: the loops that are written out, and how many turns they take.
    """
    return _Builder(source, sink, debug, captured, unrolled).build()


class _Builder(LoopBuilder, PatternBuilder):
    def build(self) -> HirFunction:
        tree = self.source.tree
        parameters = self._parameters(tree)
        entry = self.ssa.new_block("entry", sealed=True)
        self.ssa.current = entry
        for index, (name, node) in enumerate(parameters):
            self.ssa.write(name, self.ssa.emit("param", self._at(node), index=index))
        self._statements(tree.body)
        self.ssa.ret(self._at(tree.body[-1]))
        blocks = self.ssa.finish(entry)
        names = [name for name, _ in parameters]
        return HirFunction(tree.name, names, blocks, self._head(tree), frozenset(self.locals))

    def _parameters(self, tree: ast.FunctionDef) -> list[tuple[str, ast.AST]]:
        arguments = tree.args
        if arguments.kwarg is not None:
            refusal = Refusal(
                f"'**{arguments.kwarg.arg}' parameter",
                found=f"**{arguments.kwarg.arg}",
                expected="parameters with names of their own",
                do="name each parameter",
            )
            self.sink.add(refusal, self._at(arguments.kwarg))
        rest = [] if arguments.vararg is None else [arguments.vararg]
        listed = [*arguments.posonlyargs, *arguments.args, *rest, *arguments.kwonlyargs]
        return [*((a.arg, a) for a in listed), *((name, tree) for name in self.captured)]

    # statements

    def _statements(self, body: list[ast.stmt]) -> None:
        for statement in body:
            method = getattr(self, f"_stmt_{type(statement).__name__}", None)
            if method is None:
                self.ssa.emit("refused", self._head(statement), refusal=refuse_syntax(statement))
                for name in sorted(stored_names(statement)):
                    self.ssa.write(name, self.ssa.emit("poison", self._at(statement)))
            else:
                method(statement)

    def _stmt_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):
            self._expression(node.value)

    def _stmt_FunctionDef(self, node: ast.FunctionDef) -> None:
        if node.decorator_list:
            made = self._refuse(
                node.decorator_list[0],
                "a decorator of a function inside a kernel",
                found=f"@{ast.unparse(node.decorator_list[0])}",
                expected="a plain 'def'",
                do="drop the decorator: the function is compiled with the kernel",
            )
        else:
            made = self._inner_function(node)
        self.ssa.write(node.name, made)

    def _stmt_Delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            if isinstance(target, ast.Name):
                self.ssa.write(target.id, self.ssa.emit("undef", self._at(target), variable=target.id))
            else:
                self._refuse(
                    target,
                    "'del' of something that is not a variable",
                    found=f"del {ast.unparse(target)}",
                    expected="the name of a variable",
                    do="remove the statement: a kernel's arrays keep their elements",
                )

    def _stmt_Pass(self, node: ast.Pass) -> None:
        pass

    def _stmt_Assert(self, node: ast.Assert) -> None:
        """Outside debug, an assert means nothing: not even its test is evaluated."""
        if not self.debug:
            return
        passed, failed = self.ssa.new_block("asserted"), self.ssa.new_block("failed")
        self._condition(node.test, passed, failed)
        self.ssa.seal(passed)
        self.ssa.seal(failed)
        if failed.predecessors:
            self.ssa.current = failed
            self.ssa.emit("raise", self._at(node), exception=ASSERTION, message=_message_of(node.msg))
            self._end_raised(node)
        self.ssa.current = passed if passed.predecessors else None

    def _stmt_Raise(self, node: ast.Raise) -> None:
        """Outside debug, a raise ends the function: nothing after it runs."""
        if self.ssa.current is None:
            return
        if self.debug and node.exc is not None:
            call = node.exc if isinstance(node.exc, ast.Call) else None
            kind = self._expression(node.exc if call is None else call.func)
            message = ", ".join(map(_message_of, call.args)) if call is not None else ""
            instr = self.ssa.emit("raise", self._at(node), kind, message=message)
            instr.nodes = (node.exc if call is None else call.func,)
        elif self.debug:
            message = "no active exception to raise again"
            self.ssa.emit("raise", self._at(node), exception="builtins:RuntimeError", message=message)
        self._end_raised(node)

    def _end_raised(self, node: ast.stmt) -> None:
        if self.ssa.current is not None:
            self.ssa.emit("return", self._at(node), raised=True)
            self.ssa.current = None

    def _stmt_Assign(self, node: ast.Assign) -> None:
        value = self._expression(node.value)
        for target in node.targets:
            self._assign(target, value, node.value)

    def _stmt_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._assign(node.target, self._expression(node.value), node.value)

    def _stmt_AugAssign(self, node: ast.AugAssign) -> None:
        operator = BINARY[type(node.op)]
        where = self._at(node)
        target = node.target
        if isinstance(target, ast.Name):
            old = self.ssa.read(target.id, self._at(target))
            value = self._expression(node.value)
            new = self.ssa.emit("binary", where, old, value, operator=operator)
            new.nodes = (target, node.value)
            self.ssa.write(target.id, new)
        elif isinstance(target, ast.Subscript):
            base = self._expression(target.value)
            index = self._expression(target.slice)
            old = self.ssa.emit("item", self._at(target), base, index)
            old.nodes = (target.value, target.slice)
            value = self._expression(node.value)
            new = self.ssa.emit("binary", where, old, value, operator=operator)
            new.nodes = (target, node.value)
            store = self.ssa.emit("set_item", where, base, index, new)
            store.nodes = (target.value, target.slice, node.value)
        else:
            assert isinstance(target, ast.Attribute)
            base = self._expression(target.value)
            old = self.ssa.emit("attribute", self._at(target), base, name=target.attr)
            old.nodes = (target.value,)
            value = self._expression(node.value)
            new = self.ssa.emit("binary", where, old, value, operator=operator)
            new.nodes = (target, node.value)
            self._set_attribute(target, base, new, node.value)

    def _set_attribute(self, target: ast.Attribute, base: HirInstr, value: HirInstr, node: ast.expr) -> None:
        store = self.ssa.emit("set_attribute", self._at(target), base, value, name=target.attr)
        store.nodes = (target.value, node)

    def _assign(self, target: ast.expr, value: HirInstr, node: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self.ssa.write(target.id, value)
        elif isinstance(target, (ast.Tuple, ast.List)):
            stars = [index for index, element in enumerate(target.elts) if isinstance(element, ast.Starred)]
            attrs: dict[str, Any] = {"count": len(target.elts), **({"star": stars[0]} if stars else {})}
            for index, element in enumerate(target.elts):
                item = self.ssa.emit("unpack", self._at(node), value, index=index, **attrs)
                item.nodes = (node,)
                self._assign(element.value if isinstance(element, ast.Starred) else element, item, node)
        elif isinstance(target, ast.Subscript):
            base = self._expression(target.value)
            index_value = self._expression(target.slice)
            where = self._at(target)
            store = self.ssa.emit("set_item", where, base, index_value, value)
            store.nodes = (target.value, target.slice, node)
        else:
            assert isinstance(target, ast.Attribute)
            self._set_attribute(target, self._expression(target.value), value, node)

    def _stmt_Return(self, node: ast.Return) -> None:
        where = self._at(node)
        if node.value is None or (isinstance(node.value, ast.Constant) and node.value.value is None):
            self.ssa.ret(where)
        else:
            self.ssa.ret(where, self._refreshed(self._expression(node.value)), node=node.value)

    def _stmt_If(self, node: ast.If) -> None:
        then = self.ssa.new_block("then")
        done = self.ssa.new_block("endif")
        otherwise = self.ssa.new_block("else") if node.orelse else done
        self._condition(node.test, then, otherwise)
        self.ssa.seal(then)
        self.ssa.current = then
        self._statements(node.body)
        self.ssa.jump(done, self._at(node))
        if node.orelse:
            self.ssa.seal(otherwise)
            self.ssa.current = otherwise
            self._statements(node.orelse)
            self.ssa.jump(done, self._at(node))
        self.ssa.seal(done)
        self.ssa.current = done if done.predecessors else None


def _message_of(node: ast.expr | None) -> str:
    """An exception's message as far as it is known before the kernel runs: expressions stand for their values."""
    if node is None:
        return ""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(_message_of(part) for part in node.values)
    if isinstance(node, ast.FormattedValue):
        return f"{{{ast.unparse(node.value)}}}"
    return f"{{{ast.unparse(node)}}}"
