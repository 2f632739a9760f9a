# SPDX-License-Identifier: Apache-2.0
"""The AST of a function to HIR: control flow becomes blocks, variables become SSA values.

Before: ``for i in range(n): s += x[i]``. After: a block that computes ``iterate(range(n))`` and ``steps(…)``, a
header with phis for the counter and ``s`` that branches on the counter, a body with ``step``, ``item`` and ``binary
+``, and an exit. Whatever the kernel language has no meaning for is refused here, with its place, and building goes
on.
"""

from __future__ import annotations

import ast
from typing import cast

from cudabuild.errors import Location
from cudabuild.faults import ASSERTION
from cudabuild.frontend.diagnostics import DiagnosticSink, Refusal
from cudabuild.frontend.refused_syntax import refuse_syntax
from cudabuild.frontend.ssa import SsaBuilder
from cudabuild.ir.hir import HirBlock, HirFunction, HirInstr
from cudabuild.source import FunctionSource

__all__ = ["build_hir"]

_BINARY: dict[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.LShift: "<<", ast.RShift: ">>", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.MatMult: "@",
}  # fmt: skip
_UNARY: dict[type[ast.unaryop], str] = {ast.USub: "-", ast.UAdd: "+", ast.Invert: "~", ast.Not: "not"}
_COMPARE: dict[type[ast.cmpop], str] = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
    ast.Is: "is", ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in",
}  # fmt: skip


def build_hir(source: FunctionSource, sink: DiagnosticSink, *, debug: bool = False) -> HirFunction:
    """The HIR of a function; what cannot be expressed goes to ``sink``. ``debug``: whether assert and raise count."""
    return _Builder(source, sink, debug).build()


class _Builder:
    def __init__(self, source: FunctionSource, sink: DiagnosticSink, debug: bool) -> None:
        self.debug = debug
        self.source = source
        self.sink = sink
        self.ssa = SsaBuilder()
        self.locals = _local_names(source.tree)
        self.loops: list[tuple[HirBlock, HirBlock]] = []  # (where continue goes, where break goes)
        self.temporaries = 0

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

    # places and refusals

    def _at(self, node: ast.AST) -> Location:
        return self.source.locate(node)

    def _refuse(self, node: ast.AST, title: str, *, found: str, expected: str = "", do: str = "") -> HirInstr:
        self.sink.add(Refusal(title, found=found, expected=expected, do=do), self._at(node))
        return self.ssa.emit("poison", self._at(node))

    # statements

    def _statements(self, body: list[ast.stmt]) -> None:
        for statement in body:
            method = getattr(self, f"_stmt_{type(statement).__name__}", None)
            if method is None:
                refusal = refuse_syntax(statement)
                self.sink.add(refusal, self._head_of(statement))
                for name in sorted(_stored_names(statement)):
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
        operator = _BINARY[type(node.op)]
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

    # conditions

    def _condition(self, node: ast.expr, then: HirBlock, otherwise: HirBlock) -> None:
        """Branches on the truth of ``node``; short circuit where the right-hand side is not cheap and safe."""
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            self._condition(node.operand, otherwise, then)
        elif isinstance(node, ast.BoolOp) and not all(_is_cheap(value) for value in node.values[1:]):
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
        method = getattr(self, f"_expr_{type(node).__name__}", None)
        if method is None:
            self.sink.add(refuse_syntax(node), self._at(node))
            return self.ssa.emit("poison", self._at(node))
        return cast(HirInstr, method(node))

    def _expr_Constant(self, node: ast.Constant) -> HirInstr:
        return self.ssa.emit("const", self._at(node), value=node.value)

    def _expr_Name(self, node: ast.Name) -> HirInstr:
        if node.id in self.locals:
            return self.ssa.read(node.id, self._at(node))
        return self.ssa.emit("name", self._at(node), identifier=node.id)

    def _expr_BinOp(self, node: ast.BinOp) -> HirInstr:
        left = self._expression(node.left)
        right = self._expression(node.right)
        result = self.ssa.emit("binary", self._at(node), left, right, operator=_BINARY[type(node.op)])
        result.nodes = (node.left, node.right)
        return result

    def _expr_UnaryOp(self, node: ast.UnaryOp) -> HirInstr:
        value = self._expression(node.operand)
        result = self.ssa.emit("unary", self._at(node), value, operator=_UNARY[type(node.op)])
        result.nodes = (node.operand,)
        return result

    def _expr_Compare(self, node: ast.Compare) -> HirInstr:
        left = self._expression(node.left)
        if len(node.ops) == 1:
            right = self._expression(node.comparators[0])
            one = self.ssa.emit("compare", self._at(node), left, right, operator=_COMPARE[type(node.ops[0])])
            one.nodes = (node.left, node.comparators[0])
            return one
        if not all(_is_cheap(value) for value in node.comparators[1:]):
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
        if all(_is_cheap(value) for value in node.values[1:]):
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

    def _expr_Tuple(self, node: ast.Tuple) -> HirInstr:
        result = self.ssa.emit("tuple", self._at(node), *[self._expression(element) for element in node.elts])
        result.nodes = tuple(node.elts)
        return result

    def _expr_Call(self, node: ast.Call) -> HirInstr:
        function = self._expression(node.func)
        operands: list[HirInstr | None] = [function]
        for argument in node.args:
            if isinstance(argument, ast.Starred):
                return self._refuse(
                    argument,
                    "starred argument",
                    found=ast.unparse(argument),
                    expected="one expression for each parameter",
                    do="write the arguments out",
                )
            operands.append(self._expression(argument))
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
            operands.append(self._expression(keyword.value))
        result = self.ssa.emit("call", self._at(node), *operands, keywords=tuple(keywords))
        result.nodes = (node.func, *node.args, *(keyword.value for keyword in node.keywords))
        return result


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


def _is_cheap(node: ast.expr) -> bool:
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
        return _is_cheap(node.operand)
    if isinstance(node, ast.BinOp):
        simple = isinstance(node.op, (ast.Add, ast.Sub, ast.Mult, ast.BitAnd, ast.BitOr, ast.BitXor))
        return simple and _is_cheap(node.left) and _is_cheap(node.right)
    if isinstance(node, ast.Compare):
        ordered = not any(isinstance(op, (ast.In, ast.NotIn)) for op in node.ops)
        return ordered and _is_cheap(node.left) and all(map(_is_cheap, node.comparators))
    if isinstance(node, ast.BoolOp):
        return all(map(_is_cheap, node.values))
    return False


def _local_names(tree: ast.FunctionDef) -> set[str]:
    """The names that are local by Python's rule: parameters, and whatever the body binds."""
    arguments = tree.args
    names = {a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    names |= {star.arg for star in (arguments.vararg, arguments.kwarg) if star is not None}
    for statement in tree.body:
        names |= _stored_names(statement)
    return names


def _stored_names(node: ast.AST) -> set[str]:
    names: set[str] = set()
    for child in ast.walk(node):
        if isinstance(child, ast.Name) and isinstance(child.ctx, (ast.Store, ast.Del)):
            names.add(child.id)
        elif isinstance(child, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)):
            names.add(child.name)
        elif isinstance(child, ast.alias):
            names.add((child.asname or child.name).split(".")[0])
        elif isinstance(child, ast.ExceptHandler) and child.name:
            names.add(child.name)
    return names
