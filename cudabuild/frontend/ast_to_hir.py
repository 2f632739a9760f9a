# SPDX-License-Identifier: Apache-2.0
"""The AST of a function to HIR: control flow becomes blocks, variables become SSA values.

Before: ``for i in range(n): s += x[i]``. After: a block that computes ``iterate(range(n))`` and ``steps(…)``, a
header with phis for the counter and ``s`` that branches on the counter, a body with ``step``, ``item`` and ``binary
+``, and an exit. Whatever the kernel language has no meaning for is refused here, with its place, and building goes
on.
"""

from __future__ import annotations

import ast

from cudabuild.errors import Location
from cudabuild.faults import ASSERTION
from cudabuild.frontend.ast_expressions import BINARY, ExpressionBuilder
from cudabuild.frontend.ast_scopes import stored_names
from cudabuild.frontend.diagnostics import DiagnosticSink
from cudabuild.frontend.refused_syntax import refuse_syntax
from cudabuild.ir.hir import HirBlock, HirFunction, HirInstr
from cudabuild.source import FunctionSource

__all__ = ["build_hir"]


def build_hir(source: FunctionSource, sink: DiagnosticSink, *, debug: bool = False) -> HirFunction:
    """The HIR of a function; what cannot be expressed goes to ``sink``. ``debug``: whether assert and raise count."""
    return _Builder(source, sink, debug).build()


class _Builder(ExpressionBuilder):
    def __init__(self, source: FunctionSource, sink: DiagnosticSink, debug: bool) -> None:
        super().__init__(source, sink, debug)
        self.loops: list[tuple[HirBlock, HirBlock]] = []  # (where continue goes, where break goes)

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
        return HirFunction(tree.name, [name for name, _ in parameters], blocks, self._header_location())

    def _parameters(self, tree: ast.FunctionDef) -> list[tuple[str, ast.arg]]:
        arguments = tree.args
        for star, what in ((arguments.vararg, "*"), (arguments.kwarg, "**")):
            if star is not None:
                self._refuse(
                    star,
                    f"'{what}{star.arg}' parameter",
                    found=f"{what}{star.arg}",
                    expected="a fixed list of parameters",
                    do="name each parameter",
                )
        return [(a.arg, a) for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]

    def _header_location(self) -> Location:
        where = self.source.locate(self.source.tree)
        return Location(where.file, where.line, where.column, where.line, len(self.source.line_text(where.line)))

    # statements

    def _statements(self, body: list[ast.stmt]) -> None:
        for statement in body:
            method = getattr(self, f"_stmt_{type(statement).__name__}", None)
            if method is None:
                refusal = refuse_syntax(statement)
                self.sink.add(refusal, self._head_of(statement))
                for name in sorted(stored_names(statement)):
                    self.ssa.write(name, self.ssa.emit("poison", self._at(statement)))
            else:
                method(statement)

    def _head_of(self, statement: ast.stmt) -> Location:
        """A compound statement is shown by its first line."""
        where = self._at(statement)
        if where.end_line == where.line:
            return where
        return Location(where.file, where.line, where.column, where.line, len(self.source.line_text(where.line)))

    def _stmt_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):
            self._expression(node.value)

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
            self._refuse_attribute_store(target)

    def _refuse_attribute_store(self, target: ast.AST) -> None:
        self._refuse(
            target,
            "attribute assignment",
            found=ast.unparse(target),
            expected="a variable or an array element on the left of '='",
            do="pass an array and assign to one of its elements",
        )

    def _assign(self, target: ast.expr, value: HirInstr, node: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self.ssa.write(target.id, value)
        elif isinstance(target, (ast.Tuple, ast.List)):
            count = len(target.elts)
            for index, element in enumerate(target.elts):
                if isinstance(element, ast.Starred):
                    self._refuse(
                        element,
                        "starred target",
                        found=ast.unparse(element),
                        expected="one name for each element",
                        do="name each element, or index the tuple",
                    )
                    continue
                item = self.ssa.emit("unpack", self._at(node), value, index=index, count=count)
                item.nodes = (node,)
                self._assign(element, item, node)
        elif isinstance(target, ast.Subscript):
            base = self._expression(target.value)
            index_value = self._expression(target.slice)
            where = self._at(target)
            store = self.ssa.emit("set_item", where, base, index_value, value)
            store.nodes = (target.value, target.slice, node)
        else:
            self._refuse_attribute_store(target)

    def _stmt_Return(self, node: ast.Return) -> None:
        where = self._at(node)
        if node.value is None or (isinstance(node.value, ast.Constant) and node.value.value is None):
            self.ssa.ret(where)
        else:
            self.ssa.ret(where, self._expression(node.value), node=node.value)

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

    def _stmt_While(self, node: ast.While) -> None:
        header = self.ssa.new_block("while")
        body = self.ssa.new_block("body")
        done = self.ssa.new_block("endwhile")
        otherwise = self.ssa.new_block("whileelse") if node.orelse else done
        self.ssa.jump(header, self._at(node))
        self.ssa.current = header
        self._condition(node.test, body, otherwise)
        self.ssa.seal(body)
        self._loop_body(node.body, body, header, done)
        self.ssa.jump(header, self._at(node))
        self.ssa.seal(header)
        self._finish_loop(node.orelse, otherwise, done, node)

    def _stmt_For(self, node: ast.For) -> None:
        where = self._at(node.iter)
        iterator = self.ssa.emit("iterate", where, self._expression(node.iter))
        iterator.nodes = (node.iter,)
        steps = self.ssa.emit("steps", where, iterator)
        self.temporaries += 1
        counter = f"<counter {self.temporaries}>"  # no user can spell it
        self.ssa.write(counter, self.ssa.emit("first", where, iterator))
        header = self.ssa.new_block("for")
        body = self.ssa.new_block("body")
        advance = self.ssa.new_block("next")
        done = self.ssa.new_block("endfor")
        otherwise = self.ssa.new_block("forelse") if node.orelse else done
        self.ssa.jump(header, where)
        self.ssa.current = header
        position = self.ssa.read(counter, where)
        more = self.ssa.emit("more", where, iterator, position, steps)
        self.ssa.branch(more, body, otherwise, where)
        self.ssa.seal(body)
        self.ssa.current = body
        self._assign(node.target, self.ssa.emit("step", where, iterator, position), node.iter)
        self._loop_body(node.body, self.ssa.current, advance, done)
        self.ssa.jump(advance, where)
        self.ssa.seal(advance)
        if advance.predecessors:
            self.ssa.current = advance
            old = self.ssa.read(counter, where)
            self.ssa.write(counter, self.ssa.emit("advance", where, iterator, old))
            self.ssa.jump(header, where)
        self.ssa.seal(header)
        self._finish_loop(node.orelse, otherwise, done, node)

    def _loop_body(self, body: list[ast.stmt], block: HirBlock, again: HirBlock, done: HirBlock) -> None:
        self.ssa.current = block
        self.loops.append((again, done))
        self._statements(body)
        self.loops.pop()

    def _finish_loop(self, orelse: list[ast.stmt], otherwise: HirBlock, done: HirBlock, node: ast.stmt) -> None:
        if orelse:
            self.ssa.seal(otherwise)
            self.ssa.current = otherwise
            self._statements(orelse)
            self.ssa.jump(done, self._at(node))
        self.ssa.seal(done)
        self.ssa.current = done if done.predecessors else None

    def _stmt_Break(self, node: ast.Break) -> None:
        self.ssa.jump(self.loops[-1][1], self._at(node))

    def _stmt_Continue(self, node: ast.Continue) -> None:
        self.ssa.jump(self.loops[-1][0], self._at(node))


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
