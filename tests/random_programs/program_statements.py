# SPDX-License-Identifier: Apache-2.0
"""Random statements without a block: assignments, stores, views, atomics, barriers."""

from __future__ import annotations

from collections.abc import Sequence

from program_expressions import Expressions
from program_meaning import COMPLEX
from program_rules import is_float, is_integer, is_weak
from program_scope import SYMBOLS, View, cast, late
from program_tree import ArraySpec, Clause, Expr, Statement

__all__ = ["TURNS", "PlainStatements"]

#: The most turns of all loops around a statement together.
TURNS = 40


class PlainStatements:
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
        name, kind = chosen
        alike = [other for other, its in self.make.scope.variables.items() if its == kind and other != name]
        if alike and self.make.chance(12):
            name = f"{name} = {self.make.choose(alike)}"
        return [self.assign(name, self.make.expr(kind, 3))]

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
        if not pairs or self.make.chance(30):
            return self.quotient()
        function = self.make.choose(pairs)
        call = self.make.call_of(function, 2)
        if call.tag != "call":
            return self.assignment()
        names = [self.new_name("r"), self.new_name("r")]
        text = f"{names[0]}, {names[1]} = {{}}"
        self.make.scope.variables.update(zip(names, function.results, strict=True))
        return [Statement("unpack", [Clause(text, text, [call])])]

    def quotient(self) -> list[Statement]:
        """``q, r = divmod(a, b)``."""
        make = self.make
        kinds = [k for k in make.pool if k not in COMPLEX and make.rules.result("floordiv", k, k) == k]
        if make.plain:
            kinds = [k for k in kinds if k != "int"]
        if not kinds:
            return self.assignment()
        kind = make.choose(kinds)
        names = [self.new_name("r"), self.new_name("r")]
        parts = [make.expr(kind, 1), make.expr(kind, 1)]
        source = f"{names[0]}, {names[1]} = divmod({{}}, {{}})"
        meaning = f"{names[0]}, {names[1]} = divided_{kind}({{}}, {{}})"
        make.scope.variables.update(dict.fromkeys(names, kind))
        return [Statement("unpack", [Clause(source, meaning, parts)])]

    def _typed(self) -> str | None:
        kinds = [k for k in self.make.pool if not is_weak(k) and k not in COMPLEX]
        return self.make.choose(kinds) if kinds else None

    def retyped(self) -> list[Statement]:
        """A variable that is a Python number first, and a typed one from the next line on."""
        kind = self._typed()
        if kind is None:
            return self.assignment()
        make, name = self.make, self.new_name("z")
        op = make.choose(("add", "sub", "mul"))
        parts = [make.expr("int", 2), make.expr(kind, 2)]
        number = late(parts[0], kind) if is_integer(kind) else "{}"
        source = f"{name} = {number}\n{name} = {name} {SYMBOLS[op]} {{}}"
        meaning = f"{name} = {{}}\n{name} = {op}_{kind}(int_to_{kind}({name}), {{}})"
        make.scope.variables[name] = kind
        return [Statement("retyped", [Clause(source, meaning, parts)])]

    def joined(self) -> list[Statement]:
        """A variable that is a Python number on one way and a typed one on the other."""
        kind = self._typed()
        if kind is None:
            return self.assignment()
        make, name = self.make, self.new_name("z")
        values = [make.expr(kind, 2), cast(make.expr("int", 2), kind)]
        if make.chance(50):
            values.reverse()
        text = f"if {{}}:\n    {name} = {{}}\nelse:\n    {name} = {{}}"
        clause = Clause(text, text, [make.late_condition(2), *values])
        make.scope.variables[name] = kind
        return [Statement("joined", [clause], python_differs=True)]

    def fill(self) -> list[Statement]:
        """``w[1:3] = x``."""
        make = self.make
        views = [v for v in make.scope.views if v.writable and len(v.shape) == 1 and v.own is None]
        if not views:
            return self.store()
        view = make.choose(views)
        extent = view.shape[0]
        assert extent is not None
        start = make.random.randrange(extent)
        bounds = make.choose((":", f"{start}:", f":{start}", "::2", "::-1"))
        value = cast(make.expr(view.kind, 2), view.kind)
        meaning = f"fill({view.name}[{bounds}], {{}})"
        return [Statement("fill", [Clause(f"{view.name}[{bounds}] = {{}}", meaning, [value])])]

    def accumulate(self) -> list[Statement]:
        """A sum that begins with a Python number, and has the type of what is added."""
        make = self.make
        kinds = [k for k in make.pool if not is_weak(k) and k not in COMPLEX]
        if not make.rules.weak:
            kinds = [k for k in kinds if k in ("int64", "float64")]
        if not kinds or self.weight * 3 > TURNS:
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
            counts = [name for name, kind in make.scope.variables.items() if kind == make.rules.integer]
            if counts and extent > 2 and make.chance(15):
                start = f"{make.choose(counts)} % {extent - 1}"
                parts.append(f"{start}:{start} + 2")
                shape.append(2)
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
