# SPDX-License-Identifier: Apache-2.0
"""``for`` and ``while`` to HIR, ``break`` and ``continue``.

A ``for`` becomes a counted loop. Where its items have no type in common (a tuple of different things), inference asks
for the HIR once more with that loop *unrolled*: its body once per item, one behind the other.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

from cudabuild.frontend.ast_expressions import ExpressionBuilder
from cudabuild.frontend.diagnostics import DiagnosticSink
from cudabuild.ir.hir import HirBlock, HirInstr, LoopKey
from cudabuild.source import FunctionSource

__all__ = ["LoopBuilder"]


class LoopBuilder(ExpressionBuilder):
    """The part of the builder that makes loops."""

    def __init__(
        self,
        source: FunctionSource,
        sink: DiagnosticSink,
        debug: bool,
        captured: tuple[str, ...],
        unrolled: Mapping[LoopKey, int],
    ) -> None:
        super().__init__(source, sink, debug, captured)
        self.loops: list[tuple[HirBlock, HirBlock]] = []  # (where continue goes, where break goes)
        self.unrolled = unrolled
        self.turns: tuple[int, ...] = ()  # of the unrolled loops around

    def _statements(self, body: list[ast.stmt]) -> None:
        raise NotImplementedError

    def _assign(self, target: ast.expr, value: HirInstr, node: ast.expr) -> None:
        raise NotImplementedError

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
        key = (self.turns, node.lineno, node.col_offset)
        turns = self.unrolled.get(key)
        iterator = self.ssa.emit("iterate", where, self._refreshed(self._sequence(node.iter)), loop=key)
        iterator.nodes = (node.iter,)
        if turns is not None:
            self._unrolled(node, iterator, turns)
            return
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

    def _unrolled(self, node: ast.For, iterator: HirInstr, turns: int) -> None:
        where = self._at(node.iter)
        iterator.attrs["turns"] = turns
        done = self.ssa.new_block("endfor")
        outer = self.turns
        for turn in range(turns):
            if self.ssa.current is None:  # every path has left the loop
                break
            self.turns = (*outer, turn)
            following = self.ssa.new_block("next")
            self._assign(node.target, self.ssa.emit("item_at", where, iterator, position=turn), node.iter)
            self._loop_body(node.body, self.ssa.current, following, done)
            self.ssa.jump(following, where)
            self.ssa.seal(following)
            self.ssa.current = following if following.predecessors else None
        self.turns = outer
        if self.ssa.current is not None:
            self._statements(node.orelse)
        self.ssa.jump(done, where)
        self.ssa.seal(done)
        self.ssa.current = done if done.predecessors else None

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
