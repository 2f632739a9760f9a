# SPDX-License-Identifier: Apache-2.0
"""``match`` to HIR: each pattern becomes the tests that it stands for, tried in order."""

from __future__ import annotations

import ast

from cudabuild.frontend.ast_expressions import ExpressionBuilder
from cudabuild.ir.hir import HirBlock, HirInstr

__all__ = ["PatternBuilder"]


class PatternBuilder(ExpressionBuilder):
    """The part of the builder that makes ``match``."""

    def _statements(self, body: list[ast.stmt]) -> None:
        raise NotImplementedError

    def _stmt_Match(self, node: ast.Match) -> None:
        subject = self._expression(node.subject)
        done = self.ssa.new_block("endmatch")
        for case in node.cases:
            body, following = self.ssa.new_block("case"), self.ssa.new_block("nocase")
            matched = body if case.guard is None else self.ssa.new_block("guard")
            self._pattern(case.pattern, subject, matched, following)
            if case.guard is not None:
                self._enter(matched)
                self._condition(case.guard, body, following)
            self._enter(body)
            self._statements(case.body)
            self.ssa.jump(done, self._at(node.subject))
            self._enter(following)
        self.ssa.jump(done, self._at(node.subject))
        self._enter(done)

    def _enter(self, block: HirBlock) -> None:
        self.ssa.seal(block)
        self.ssa.current = block if block.predecessors else None

    def _pattern(self, pattern: ast.pattern, subject: HirInstr, then: HirBlock, otherwise: HirBlock) -> None:
        """Goes to ``then`` if ``subject`` fits, with the pattern's names bound, else to ``otherwise``."""
        where = self._at(pattern)
        if isinstance(pattern, ast.MatchValue):
            value = self._expression(pattern.value)
            self._test(self.ssa.emit("compare", where, subject, value, operator="=="), pattern, then, otherwise)
        elif isinstance(pattern, ast.MatchSingleton):
            value = self.ssa.emit("const", where, value=pattern.value)
            self._test(self.ssa.emit("compare", where, subject, value, operator="is"), pattern, then, otherwise)
        elif isinstance(pattern, ast.MatchOr):
            for alternative in pattern.patterns[:-1]:
                following = self.ssa.new_block("or")
                self._pattern(alternative, subject, then, following)
                self._enter(following)
            self._pattern(pattern.patterns[-1], subject, then, otherwise)
        elif isinstance(pattern, ast.MatchAs):
            if pattern.pattern is not None:
                inside = self.ssa.new_block("as")
                self._pattern(pattern.pattern, subject, inside, otherwise)
                self._enter(inside)
            if pattern.name is not None:
                self.ssa.write(pattern.name, subject)
            self.ssa.jump(then, where)
        elif isinstance(pattern, ast.MatchSequence):
            self._sequence_pattern(pattern, subject, then, otherwise)
        else:
            self._refuse(
                pattern,
                "a pattern of classes or mappings",
                found=ast.unparse(pattern),
                expected="values, names, '_', tuples of these, and alternatives with '|'",
                do="use if/elif/else",
            )
            self.ssa.jump(otherwise, where)

    def _sequence_pattern(
        self, pattern: ast.MatchSequence, subject: HirInstr, then: HirBlock, otherwise: HirBlock
    ) -> None:
        where = self._at(pattern)
        stars = [index for index, part in enumerate(pattern.patterns) if isinstance(part, ast.MatchStar)]
        count = len(pattern.patterns)
        least, most = (count - 1, None) if stars else (count, count)
        inside = self.ssa.new_block("sequence")
        self._test(self.ssa.emit("length", where, subject, least=least, most=most), pattern, inside, otherwise)
        self._enter(inside)
        for index, part in enumerate(pattern.patterns):
            star = {"star": stars[0]} if stars else {}
            item = self.ssa.emit("unpack", where, subject, index=index, count=count, **star)
            if isinstance(part, ast.MatchStar):
                if part.name is not None:
                    self.ssa.write(part.name, item)
                continue
            following = self.ssa.new_block("element")
            self._pattern(part, item, following, otherwise)
            self._enter(following)
        self.ssa.jump(then, where)

    def _test(self, value: HirInstr, pattern: ast.pattern, then: HirBlock, otherwise: HirBlock) -> None:
        truth = self.ssa.emit("truth", self._at(pattern), value)
        self.ssa.branch(truth, then, otherwise, self._at(pattern))
