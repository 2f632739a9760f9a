# SPDX-License-Identifier: Apache-2.0
"""Random blocks: branches, loops, jumps, and what stands in them."""

from __future__ import annotations

from collections.abc import Callable

from program_meaning import COMPLEX
from program_rules import is_float, is_integer, is_weak
from program_statements import TURNS, PlainStatements
from program_tree import Clause, Expr, Statement

__all__ = ["Statements"]


class Statements(PlainStatements):
    """Writes statements of every kind into the scope of ``make``."""

    # blocks

    def block(self, count: int, depth: int, budget: int) -> list[Statement]:
        """``count`` statements, at the top level or in a scope that the caller opened."""
        made: list[Statement] = []
        for _ in range(count):
            made += self.statement(depth)
        return made

    def inner(self, depth: int) -> list[Statement]:
        """A block with a scope of its own."""
        outside = self.make.scope
        self.make.scope = outside.inner()
        try:
            return self.block(1 + self.make.random.randrange(2), depth, 3)
        finally:
            self.make.scope = outside

    def statement(self, depth: int) -> list[Statement]:
        make = self.make
        if depth > 0 and make.chance(30):
            return self.compound(depth)
        forms: list[Callable[[], list[Statement]]] = [self.assignment] * 5 + [self.augmented] * 3 + [self.swap]
        forms += [self.store] * 3 if self.outputs else []
        forms += [self.augmented_store, self.view] if self.outputs else []
        forms += [self.count] * 2 if self.counters else []
        forms += [self.inexact] * 2 if self.near is not None else []
        forms += [self.unpack, self.fill]
        forms += [self.retyped, self.joined] if make.rules.weak and not make.plain else []
        forms += [self.accumulate] if not make.plain or make.rules.weak else []
        forms += [self.exchange] * 6 if self.shared and self.weight == 1 and depth == 3 else []
        forms += [self.jump] * 2 if self.loops and depth < 3 else []
        forms += [self.early] if (self.returns or self.results) and depth < 3 else []
        return make.choose(forms)()

    def compound(self, depth: int) -> list[Statement]:
        forms: list[Callable[[int], list[Statement]]] = [self.branch, self.branch]
        if self.weight * 4 <= TURNS:
            forms += [self.counted, self.counted, self.turns, self.over_values]
        self.jumps_and_loops += 1
        return self.make.choose(forms)(depth - 1)

    # control flow

    def branch(self, depth: int) -> list[Statement]:
        make = self.make
        if make.chance(12):
            return self.match(depth)
        kinds = [k for k in make.pool if k not in COMPLEX]
        if make.chance(15) and kinds:
            kind, name, symbol = make.choose(kinds), self.new_name("b"), make.choose(("<", "!=", ">="))
            parts = [make.expr(kind, 2), make.expr(kind, 1)]
            make.scope.variables[name] = kind
            text = f"if ({name} := {{}}) {symbol} {{}}:"
            clauses = [Clause(text, text, parts, self.inner(depth))]
        else:
            clauses = [Clause("if {}:", "if {}:", [make.expr("bool", 2)], self.inner(depth))]
        while make.chance(20):
            clauses.append(Clause("elif {}:", "elif {}:", [make.expr("bool", 2)], self.inner(depth)))
        if make.chance(50):
            clauses.append(Clause("else:", "else:", [], self.inner(depth)))
        return [Statement("if", clauses)]

    def match(self, depth: int) -> list[Statement]:
        """On small integers."""
        make = self.make
        kinds = [k for k in make.pool if is_integer(k) and make.rules.result("and", k, make.rules.integer) == k]
        kind = make.choose(kinds or [make.rules.integer])
        subject = Expr(kind, "({} & 3)", f"and_{kind}({{}}, 3)", [make.expr(kind, 2)], "and")
        values = make.choose((("0", "1 | 2"), ("3", "0"), ("1 | 3",)))
        clauses = [Clause("match {}:", "match {}:", [subject])]
        for value in (*values, "_"):
            clauses.append(Clause(f"    case {value}:", f"    case {value}:", [], self.inner(depth)))
        return [Statement("match", clauses)]

    def _in_loop(self, depth: int, turns: int, names: dict[str, tuple[str, int, int]]) -> list[Statement]:
        outside, weight = self.make.scope, self.weight
        self.make.scope = outside.inner()
        self.make.scope.steady.update(names)
        self.weight *= turns
        self.loops += 1
        try:
            return self.block(1 + self.make.random.randrange(2), depth, 3)
        finally:
            self.make.scope, self.weight = outside, weight
            self.loops -= 1

    def _otherwise(self, depth: int) -> list[Clause]:
        return [Clause("else:", "else:", [], self.inner(depth))] if self.make.chance(25) else []

    def counted(self, depth: int) -> list[Statement]:
        """``for k in range(…)``."""
        make = self.make
        name, integer = self.new_name("k"), make.rules.integer
        form = make.choose(("stop", "start", "down", "dynamic", "dynamic start", "typed", "step"))
        low, size, step = make.random.randrange(-2, 3), 1 + make.random.randrange(4), 1 + make.random.randrange(3)
        parts: list[Expr] = []
        if form == "stop":
            text, values = f"range({size})", range(size)
        elif form == "start":
            text, values = f"range({low}, {low + size * step}, {step})", range(low, low + size * step, step)
        elif form == "down":
            text, values = f"range({low + size}, {low}, -{step})", range(low + size, low, -step)
        elif form == "step":
            parts = [Expr(integer, "({} & 1)", f"and_{integer}({{}}, 1)", [make.expr(integer, 2)], "and", True)]
            text, values = make.choose((("range(0, 4, {} + 1)", range(4)), ("range(3, -1, -1 - {})", range(3, -1, -1))))
        elif form == "typed":
            kinds = [k for k in make.pool if is_integer(k) and make.rules.result("and", k, integer) == k]
            kind = make.choose(kinds or [integer])
            parts = [Expr(kind, "({} & 3)", f"and_{kind}({{}}, 3)", [make.expr(kind, 2)], "and", True)]
            text, values = "range({})", range(3)
        else:
            parts = [Expr(integer, "({} & 3)", f"and_{integer}({{}}, 3)", [make.expr(integer, 2)], "and", True)]
            text, values = ("range({})", range(3)) if form == "dynamic" else ("range({}, 4)", range(4))
        known = {name: (integer, min(values), max(values))}
        again = self.variable([integer]) if make.chance(25) else None
        if again is not None:  # a variable that keeps its last value, and may be assigned in between
            name, known = again[0], {}
        head = f"for {name} in {text}:"
        clauses = [Clause(head, head, parts, self._in_loop(depth, len(values), known))]
        return [Statement("for", [*clauses, *self._otherwise(depth)])]

    def turns(self, depth: int) -> list[Statement]:
        """``while`` with a counter, and often with a condition beside it."""
        make = self.make
        name, most = self.new_name("g"), 1 + make.random.randrange(4)
        condition = [make.expr("bool", 2)] if make.chance(70) else []
        test = f"{name} < {most}" + " and {}" * len(condition)
        known = {name: (make.rules.integer, 1, most)}
        body = self._in_loop(depth, most, known)
        head = f"while {test}:\n    {name} += 1"
        clauses = [Clause(f"{name} = 0", f"{name} = 0"), Clause(head, head, condition, body)]
        return [Statement("while", [*clauses, *self._otherwise(depth)])]

    def over_values(self, depth: int) -> list[Statement]:
        """``for`` over an array, a tuple, or ``enumerate`` and ``zip`` of them."""
        make = self.make
        views = [
            v
            for v in make.scope.views
            if len(v.shape) == 1 and v.own is None and v.shape[0] is not None and v.shape[0] <= 8
        ]
        name = self.new_name("e")
        integer = make.rules.integer
        if views and make.chance(60):
            view = make.choose(views)
            extent = view.shape[0]
            assert extent is not None
            if self.weight * extent > TURNS:
                return self.branch(depth)
            position = self.new_name("k")
            if make.chance(40):
                head, meant = (
                    f"for {position}, {name} in enumerate({view.name}):",
                    f"for {position}, {name} in enumerate(items({view.name}, {view.kind!r})):",
                )
                known = {position: (integer, 0, extent - 1)}
            else:
                head, meant, known = (
                    f"for {name} in {view.name}:",
                    f"for {name} in items({view.name}, {view.kind!r}):",
                    {},
                )
            kind, turns, parts = view.kind, extent, []
        else:
            kinds = [k for k in make.pool if not is_float(k) or not is_weak(k)]
            kind = make.choose(kinds)
            parts = [make.expr(kind, 1) for _ in range(2 + make.random.randrange(2))]
            turns, known = len(parts), {}
            head = meant = f"for {name} in ({', '.join(['{}'] * turns)}):"
        outside = make.scope
        make.scope = outside.inner()
        make.scope.variables[name] = kind
        try:
            body = self._in_loop(depth, turns, known)
        finally:
            make.scope = outside
        return [Statement("for-each", [Clause(head, meant, parts, body), *self._otherwise(depth)])]

    def jump(self) -> list[Statement]:
        self.jumps_and_loops += 1
        word = self.make.choose(("break", "continue"))
        text = f"if {{}}:\n    {word}"
        return [Statement(word, [Clause(text, text, [self.make.expr("bool", 2)])])]

    def early(self) -> list[Statement]:
        """``return`` under a condition."""
        self.jumps_and_loops += 1
        condition = self.make.expr("bool", 2)
        if self.results is None:
            text = "if {}:\n    return"
            return [Statement("return", [Clause(text, text, [condition])])]
        inner = self.leave(1).clauses[0]
        text = f"if {{}}:\n    {inner.source}"
        return [Statement("return", [Clause(text, text, [condition, *inner.parts])])]

    def leave(self, depth: int) -> Statement:
        """A device function's ``return``."""
        assert self.results is not None
        parts = [self.make.expr(kind, depth) for kind in self.results]
        text = "return " + ", ".join(["{}"] * len(parts))
        return Statement("return", [Clause(text, text, parts)])
