# SPDX-License-Identifier: Apache-2.0
"""Random statements, which only their surroundings make a program."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from program_expressions import Expressions
from program_meaning import COMPLEX
from program_rules import is_float, is_weak
from program_scope import SYMBOLS, View, cast
from program_tree import ArraySpec, Clause, Expr, Statement

__all__ = ["Statements"]

#: The most turns of all loops around a statement together.
_TURNS = 40


class Statements:
    """Writes statements into the scope of ``make``.

    Attributes:
        returns: whether ``return`` may stand in a branch.
        results: what a device function returns; None in a kernel.
        weight: turns of the loops around the place at hand.
        jumps_and_loops: loops and branches so far.
    """

    def __init__(
        self,
        make: Expressions,
        counters: Sequence[tuple[ArraySpec, str]],
        near: ArraySpec | None,
        outputs: Sequence[View],
    ) -> None:
        self.make = make
        self.counters = counters
        self.near = near
        self.near_places = 0
        self.outputs = outputs
        self.returns = False
        self.results: list[str] | None = None
        self.weight = 1
        self.loops = 0
        self.names = 0
        self.jumps_and_loops = 0
        self.shared: list[tuple[View, int]] = []

    def new_name(self, letter: str) -> str:
        self.names += 1
        return f"{letter}{self.names}"

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
        forms += [self.unpack, self.unpack] if make.functions else []
        forms += [self.accumulate] if not make.plain or make.rules.weak else []
        forms += [self.exchange] * 6 if self.shared and self.weight == 1 and depth == 3 else []
        forms += [self.jump] * 2 if self.loops and depth < 3 else []
        forms += [self.early] if (self.returns or self.results) and depth < 3 else []
        return make.choose(forms)()

    def compound(self, depth: int) -> list[Statement]:
        forms: list[Callable[[int], list[Statement]]] = [self.branch, self.branch]
        if self.weight * 4 <= _TURNS:
            forms += [self.counted, self.counted, self.turns, self.over_values]
        self.jumps_and_loops += 1
        return self.make.choose(forms)(depth - 1)

    # plain statements

    def variable(self, kinds: Sequence[str] | None = None) -> tuple[str, str] | None:
        found = [(n, k) for n, k in self.make.scope.variables.items() if kinds is None or k in kinds]
        return self.make.choose(found) if found else None

    def assign(self, name: str, value: Expr) -> Statement:
        return Statement("assign", [Clause(f"{name} = {{}}", f"{name} = {{}}", [value])])

    def assignment(self) -> list[Statement]:
        chosen = self.variable()
        if chosen is None:
            return []
        return [self.assign(chosen[0], self.make.expr(chosen[1], 3))]

    def augmented(self) -> list[Statement]:
        """``v op= x``: only what leaves the type as it is."""
        chosen = self.variable()
        if chosen is None:
            return []
        name, kind = chosen
        fitting = [(op, right) for op, left, right in self.make.pairs.get(kind, ()) if left == kind and op in SYMBOLS]
        if not fitting:
            return self.assignment()
        op, right = self.make.choose(fitting)
        value = self.make.combined(op, kind, name, self.make.operand(right, 2, kind), kind, kind)
        clause = Clause(f"{name} {SYMBOLS[op]}= {{}}", f"{name} = {{}}", [value])
        return [Statement("augmented", [clause])]

    def swap(self) -> list[Statement]:
        """``p, q = q, p`` and other tuples, packed and unpacked."""
        first, second = self.variable(), self.variable()
        if first is None or second is None or first[0] == second[0]:
            return []
        values = [self.make.expr(first[1], 1), self.make.expr(second[1], 1)]
        if first[1] == second[1] and self.make.chance(50):
            values = [Expr(kind, name, name) for name, kind in (second, first)]
        text = f"{first[0]}, {second[0]} = {{}}, {{}}"
        if self.make.chance(30):
            name = self.new_name("t")
            text = f"{name} = ({{}}, {{}})\n{first[0]}, {second[0]} = {name}[0], {name}[-1]"
        return [Statement("tuple", [Clause(text, text, values)])]

    def unpack(self) -> list[Statement]:
        """``v, w = f(…)``, variables of the scope at hand."""
        pairs = [function for function in self.make.functions if len(function.results) == 2]
        if not pairs:
            return self.assignment()
        function = self.make.choose(pairs)
        call = self.make.call_of(function, 2)
        if call.tag != "call":
            return self.assignment()
        names = [self.new_name("r"), self.new_name("r")]
        text = f"{names[0]}, {names[1]} = {{}}"
        self.make.scope.variables.update(zip(names, function.results, strict=True))
        return [Statement("unpack", [Clause(text, text, [call])])]

    def accumulate(self) -> list[Statement]:
        """A sum that begins with a Python number, and has the type of what is added."""
        make = self.make
        kinds = [k for k in make.pool if not is_weak(k) and k not in COMPLEX]
        if not make.rules.weak:
            kinds = [k for k in kinds if k in ("int64", "float64")]
        if not kinds or self.weight * 3 > _TURNS:
            return self.assignment()
        kind, name, turn = make.choose(kinds), self.new_name("s"), self.new_name("k")
        outside = make.scope
        make.scope = outside.inner()
        make.scope.steady[turn] = (make.rules.integer, 0, 2)
        value = make.expr(kind, 2)
        make.scope = outside
        make.scope.variables[name] = kind
        zero = "0.0" if is_float(kind) and make.chance(50) else "0"
        op = make.choose(("add", "sub", "add", "max")) if make.rules.weak else "add"
        update = f"{name} = max({name}, {{}})" if op == "max" else f"{name} {SYMBOLS[op]}= {{}}"
        head = f"for {turn} in range(3):"
        source = f"{name} = {zero}\n{head}\n    {update}"
        meaning = f"{name} = int_to_{kind}(0)\n{head}\n    {name} = {op}_{kind}({name}, {{}})"
        tag = "max!" if op == "max" else "accumulate"
        value = Expr(kind, "{}", "{}", [value], tag)
        return [Statement("accumulate", [Clause(source, meaning, [value])])]

    # arrays

    def store_at(self, view: View, place: int, value: Expr) -> Statement:
        index = f"i, {place}" if view.own == 0 else f"{place}, i"
        clause = Clause(f"{view.name}[{index}] = {{}}", f"store({view.name}, {{}}, {index})", [cast(value, view.kind)])
        return Statement("store", [clause])

    def writable(self) -> View | None:
        views = [view for view in self.make.scope.views if view.writable]
        return self.make.choose(views) if views else None

    def value_for(self, kind: str, depth: int) -> Expr:
        """Of the element type, or of another one that is converted."""
        if kind in COMPLEX or self.make.chance(70):
            return self.make.expr(kind, depth)
        others = [k for k in (*self.make.pool, "bool") if k not in COMPLEX]
        return self.make.expr(self.make.choose(others), depth)

    def store(self) -> list[Statement]:
        view = self.writable()
        if view is None:
            return []
        parts = self.make.indices(view, 1)
        places = ", ".join(["{}"] * len(parts))
        value = cast(self.value_for(view.kind, 3), view.kind)
        # the oracle evaluates the value after the indices; nothing has side effects
        return [
            Statement(
                "store",
                [
                    Clause(
                        f"{view.name}[{places}] = {{}}",
                        f"store({view.name}, *last_first({places}, {{}}))",
                        [*parts, value],
                    )
                ],
            )
        ]

    def augmented_store(self) -> list[Statement]:
        view = self.writable()
        if view is None:
            return []
        rules = self.make.rules
        fitting = [
            (op, right, kind)
            for op in SYMBOLS
            for right in self.make.pool
            if (kind := rules.result(op, view.kind, right)) is not None
            and kind != "float"
            and (kind in COMPLEX) == (view.kind in COMPLEX)
        ]
        if not fitting:
            return self.store()
        op, right, kind = self.make.choose(fitting)
        parts = self.make.indices(view, -1)
        if not all(part.parts == [] for part in parts):
            return self.store()
        place = ", ".join(part.as_source() for part in parts)
        meaning_place = ", ".join(part.as_meaning() for part in parts)
        old = f"load_{view.kind}({view.name}, {meaning_place})"
        value = self.make.combined(op, view.kind, old, self.make.operand(right, 2, view.kind), kind, view.kind)
        clause = Clause(
            f"{view.name}[{place}] {SYMBOLS[op]}= {{}}", f"store({view.name}, {{}}, {meaning_place})", [value]
        )
        return [Statement("augmented-store", [clause])]

    def view(self) -> list[Statement]:
        """``w = a[1:4]`` and other views, which live as long as the scope."""
        make = self.make
        bases = [v for v in make.scope.views if None not in v.shape]
        if not bases:
            return []
        base = make.choose(bases)
        name = self.new_name("w")
        parts: list[str] = []
        shape: list[int | None] = []
        own = None
        for axis, extent in enumerate(base.shape):
            assert extent is not None
            if axis == base.own:
                if make.chance(60):
                    parts.append("i")
                else:
                    own = len(shape)
                    parts.append(":")
                    shape.append(extent)
                continue
            text, left = self._slice(extent)
            parts.append(text)
            if left is not None:
                shape.append(left)
        transposed = len(shape) > 1 and make.chance(30)
        if not shape:
            return []
        if transposed:
            shape.reverse()
            own = None if own is None else len(shape) - 1 - own
        text = f"{name} = {base.name}[{', '.join(parts)}]{'.T' if transposed else ''}"
        make.scope.views.append(View(name, base.kind, tuple(shape), own, base.writable))
        return [Statement("view", [Clause(text, text)])]

    def _slice(self, extent: int) -> tuple[str, int | None]:
        """One axis of a view: its text, and how many elements are left (None: an index)."""
        random, choose = self.make.random, self.make.choose
        form = choose(("all", "from", "range", "step", "back", "index"))
        if form == "index":
            return str(random.randrange(-extent, extent)), None
        start = random.randrange(extent)
        stop = start + 1 + random.randrange(extent - start)
        text = {
            "all": ":", "from": f"{start}:", "range": f"{start}:{stop}", "step": f"{start}::2", "back": "::-1",
        }[form]  # fmt: skip
        bounds = {"all": slice(None), "from": slice(start, None), "range": slice(start, stop),
                  "step": slice(start, None, 2), "back": slice(None, None, -1)}[form]  # fmt: skip
        return text, len(range(*bounds.indices(extent)))

    def local_arrays(self) -> list[Statement]:
        make = self.make
        made = []
        for _ in range(make.random.randrange(3)):
            kind = make.choose([k for k in make.pool if not is_weak(k) and k not in COMPLEX] or ["int64"])
            name, extent = self.new_name("l"), make.choose((2, 3, 4))
            spelled = kind if kind == "bfloat16" else make.choose((kind, f"np.{kind}"))
            value = make.expr(kind, 1)
            source = f"{name} = cuda.local.array({extent}, {spelled})\nfor q in range({extent}):\n    {name}[q] = {{}}"
            meaning = f"{name} = new_array({extent}, {kind!r})\nfor q in range({extent}):\n    store({name}, {{}}, q)"
            made.append(Statement("local", [Clause(source, meaning, [value])]))
            make.scope.views.append(View(name, kind, (extent,), None, True))
        return made

    def shared_arrays(self, extent: int) -> list[Statement]:
        """Declared only: they are read and written by ``exchange``."""
        make = self.make
        made = []
        for _ in range(1 + make.random.randrange(2)):
            kind = make.choose([k for k in make.scope.variables.values() if k not in ("int", *COMPLEX)] or ["int64"])
            name = self.new_name("h")
            spelled = kind if kind == "bfloat16" else f"np.{kind}"
            source = f"{name} = cuda.shared.array({extent}, {spelled})"
            made.append(Statement("shared", [Clause(source, f"{name} = th.shared({name!r}, {extent}, {kind!r})")]))
            self.shared.append((View(name, kind, (extent,)), extent))
        return made

    def exchange(self) -> list[Statement]:
        """All threads write, and read what others wrote, between barriers; sometimes in a loop."""
        make = self.make
        view, extent = make.choose(self.shared)
        chosen = self.variable([view.kind])
        if chosen is None:
            return []
        name = chosen[0]
        value = make.expr(view.kind, 2)
        shift = make.random.randrange(extent)
        there = make.choose((f"(cuda.threadIdx.x + {shift}) % {extent}", f"{extent - 1} - cuda.threadIdx.x"))
        meant = f"(th.t + {shift}) % {extent}" if "%" in there else f"{extent - 1} - th.t"
        loop = make.chance(30)
        pad = "    " if loop else ""
        head = [f"for q in range({2 + make.random.randrange(2)}):"] if loop else []
        source = [*head, f"{pad}{view.name}[cuda.threadIdx.x] = {{}}", f"{pad}cuda.syncthreads()"]
        source += [f"{pad}{name} = {view.name}[{there}]", f"{pad}cuda.syncthreads()"]
        meaning = [*head, f"{pad}store({view.name}, {{}}, th.t)", f"{pad}yield"]
        meaning += [f"{pad}{name} = load_{view.kind}({view.name}, {meant})", f"{pad}yield"]
        return [Statement("barrier", [Clause("\n".join(source), "\n".join(meaning), [value])])]

    def count(self) -> list[Statement]:
        """An atomic operation whose result nobody looks at."""
        array, op = self.make.choose(self.counters)
        index = self.make.index(array.shape[0], 1)
        value = cast(self.value_for_counter(array.kind), array.kind)
        names = {"and": "and_", "or": "or_"}
        clause = Clause(
            f"cuda.atomic.{names.get(op, op)}({array.name}, {{}}, {{}})",
            f"atomic_{op}_{array.kind}({array.name}, *last_first({{}}, {{}}))",
            [index, value],
        )
        return [Statement("atomic", [clause])]

    def value_for_counter(self, kind: str) -> Expr:
        return self.make.expr(kind if self.make.chance(70) else self.make.rules.integer, 2)

    def inexact(self) -> list[Statement]:
        array = self.near
        assert array is not None
        value, bound = self.make.near(array.kind, 2)
        array.limits.append(bound)
        place = self.near_places % array.shape[1]
        self.near_places += 1
        clause = Clause(f"{array.name}[i, {place}] = {{}}", f"store({array.name}, {{}}, i, {place})", [value])
        return [Statement("math", [clause])]

    # control flow

    def branch(self, depth: int) -> list[Statement]:
        make = self.make
        clauses = [Clause("if {}:", "if {}:", [make.expr("bool", 2)], self.inner(depth))]
        while make.chance(20):
            clauses.append(Clause("elif {}:", "elif {}:", [make.expr("bool", 2)], self.inner(depth)))
        if make.chance(50):
            clauses.append(Clause("else:", "else:", [], self.inner(depth)))
        return [Statement("if", clauses)]

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
        form = make.choose(("stop", "start", "down", "dynamic", "dynamic start"))
        low, size, step = make.random.randrange(-2, 3), 1 + make.random.randrange(4), 1 + make.random.randrange(3)
        parts: list[Expr] = []
        if form == "stop":
            text, values = f"range({size})", range(size)
        elif form == "start":
            text, values = f"range({low}, {low + size * step}, {step})", range(low, low + size * step, step)
        elif form == "down":
            text, values = f"range({low + size}, {low}, -{step})", range(low + size, low, -step)
        else:
            parts = [Expr(integer, "({} & 3)", f"and_{integer}({{}}, 3)", [make.expr(integer, 2)], "and")]
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
            if self.weight * extent > _TURNS:
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
