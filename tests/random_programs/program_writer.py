# SPDX-License-Identifier: Apache-2.0
"""Random kernels: ``make_program(seed)``.

Threads write only what is theirs, or count with atomic operations whose order does not matter; shared memory is read
between two barriers. Loops are short. What is wrong with a thread (an index out of range) does not occur; everything
else that the language defines may.
"""

from __future__ import annotations

import random
from typing import Any

from program_expressions import Expressions
from program_flow import Statements
from program_meaning import COMPLEX, INTEGERS
from program_rules import Rules, is_weak
from program_scope import Callable_, Scope, View
from program_tree import ArraySpec, Clause, Expr, Function, Program, Statement

__all__ = ["make_program", "write_program"]

_TYPES = (
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32",
    "float64", "complex64", "complex128",
)  # fmt: skip


def make_program(seed: int) -> Program:
    """The program of a seed."""
    return write_program(random.Random(seed), seed)


def write_program(source: Any, seed: int = 0) -> Program:
    """A program whose every choice is one of ``source.randrange``."""
    return _Writer(source, seed).program()


class _Writer:
    def __init__(self, source: Any, seed: int) -> None:
        self.random = source
        self.seed = seed
        percent = source.randrange
        literals = "numba" if percent(100) < 25 else "weak"
        self.rules = Rules(literals)
        self.wild = bool(percent(100) < 45)
        self.plain = bool(percent(100) < 60)
        kinds = self._pool()
        self.make = Expressions(source, self.rules, kinds, self.wild, self.plain)
        self.pool = kinds
        self.style = ("guard", "return", "exact", "exact")[percent(4)]
        self.two_axes = self.style != "exact" and percent(4) == 0
        self.block = ((4, 2), (2, 3))[percent(2)] if self.two_axes else ((4, 1), (8, 1), (5, 1))[percent(3)]
        self.grid = (1 + percent(2), 1)
        self.total = self.grid[0] * self.block[0] * self.block[1]
        self.threads = self.total if self.style == "exact" else max(1, self.total - percent(4))
        self.arrays: list[ArraySpec] = []
        self.functions: list[Function] = []
        self.scalars = [("n", self.rules.integer)]
        self.constants: list[str] = []

    def _pool(self) -> list[str]:
        """The types of this program: three to five and the plain integer."""
        weights = [kind for kind in _TYPES for _ in range(1 if kind in COMPLEX or kind == "bfloat16" else 2)]
        if self.plain or not self.rules.weak:
            weights = [kind for kind in weights if kind != "bfloat16"]
        kinds: list[str] = []
        for _ in range(3 + self.random.randrange(3)):
            kind = weights[self.random.randrange(len(weights))]
            if kind not in kinds:
                kinds.append(kind)
        if self.rules.integer not in kinds:
            kinds.append(self.rules.integer)
        return kinds

    # arguments

    def _layout(self, axes: int) -> str:
        return self.make.choose(("C", "C", "A") if axes == 1 else ("C", "C", "F", "A", "A"))

    def _inputs(self) -> list[View]:
        views = []
        for kind in [*(k for k in self.pool if not is_weak(k)), *(["bool"] if self.make.chance(40) else [])]:
            for _ in range(1 + self.make.chance(25)):
                axes = self.make.choose((1, 1, 2, 3))
                shape = tuple(2 + self.random.randrange(4) for _ in range(axes))
                if axes == 1 and self.make.chance(50):
                    shape = (self.total,)
                self.arrays.append(ArraySpec(f"a{len(self.arrays)}", kind, shape, self._layout(axes), "in"))
                views.append(View(self.arrays[-1].name, kind, shape))
        return views

    def _module_arrays(self) -> list[View]:
        """A NumPy array of the module, which a kernel takes as a constant."""
        kinds = [k for k in self.pool if k in INTEGERS[:-1]]
        if not kinds or self.make.chance(70):
            return []
        kind = self.make.choose(kinds)
        values = [self.make.random.randrange(8) for _ in range(4)]
        self.constants.append(f"TABLE = np.array({values}, np.{kind})")
        return [View("TABLE", kind, (4,))]

    def _outputs(self) -> list[View]:
        """One array for each type, with a place for every variable and two more, or elements of the thread's own."""
        views = []
        for kind in [*(k for k in self.pool if not is_weak(k)), "int64"]:
            name = f"o{len(self.arrays)}"
            if any(view.kind == kind for view in views):
                continue
            own = self.make.choose((0, 0, 1))
            shape = (self.total, 5) if own == 0 else (5, self.total)
            self.arrays.append(ArraySpec(name, kind, shape, self._layout(2), "out"))
            views.append(View(name, kind, shape, own, True))
        return views

    def _counters(self) -> list[tuple[ArraySpec, str]]:
        found = []
        for kind in ("int32", "int64", "uint32", "uint64"):
            if self.make.chance(20):
                self.arrays.append(ArraySpec(f"c{len(self.arrays)}", kind, (4,), "C", "count"))
                found.append((self.arrays[-1], self.make.choose(("add", "max", "min", "and", "or", "xor"))))
        return found

    # the program

    def program(self) -> Program:
        inputs, outputs, counters = self._inputs(), self._outputs(), self._counters()
        near = self._near_array()
        for number in range(self.random.randrange(3)):
            self._write_function(number)
        if self.make.chance(50):
            kind = self.make.choose([k for k in self.pool if not is_weak(k) and k != "bfloat16"] or ["int32"])
            self.scalars.append(("s", kind))
        statements = Statements(self.make, counters, near, outputs)
        statements.returns = self.style != "exact"
        scope = Scope(views=[*inputs, *outputs, *self._module_arrays()])
        if self.make.chance(40):
            value = self.random.randrange(1, 4)
            self.constants.append(f"LIMIT = {value}")
            scope.steady["LIMIT"] = (self.rules.integer, value, value)
        scope.steady["i"] = (self.rules.integer, 0, self.threads - 1)
        scope.steady["n"] = (self.rules.integer, self.threads, self.threads)
        if len(self.scalars) > 1:
            scope.variables["s"] = self.scalars[1][1]
        self.make.scope = scope
        body = self._kernel_body(statements)
        names = ", ".join([*(array.name for array in self.arrays), *(name for name, _ in self.scalars)])
        kernel = Function(f"def kernel({names}):", body, f"def kernel(th, {names}):")
        return Program(
            self.seed, self.rules.literals, self.wild, self.grid, self.block, self.threads, self.arrays, self.scalars,
            self.constants, self.functions, kernel,
        )  # fmt: skip

    def _near_array(self) -> ArraySpec | None:
        kinds = [
            k
            for k in self.pool
            if k in (("float16", "float32", "float64") if self.rules.weak else ("float32", "float64"))
        ]
        if not kinds:
            return None
        self.arrays.append(ArraySpec(f"u{len(self.arrays)}", self.make.choose(kinds), (self.total, 3), "C", "near"))
        return self.arrays[-1]

    def _kernel_body(self, statements: Statements) -> list[Statement]:
        lines = [self._place()]
        if self.style == "return":
            lines.append(Statement("return", [Clause("if i >= n:\n    return", "if i >= n:\n    return")]))
        block = self._declarations(statements)
        if self.style == "exact":
            block += statements.shared_arrays(self.block[0])
        block += statements.local_arrays()
        count = 3 + self.random.randrange(5)
        block += statements.block(count, 3, count)
        while statements.jumps_and_loops < 2:
            block += statements.compound(2)
        block += self._results(statements)
        if self.style == "guard":
            lines.append(Statement("if", [Clause("if i < n:", "if i < n:", [], block)]))
            return lines
        return [*lines, *block]

    def _place(self) -> Statement:
        if self.two_axes:
            across = self.grid[0] * self.block[0]
            source = f"x, y = cuda.grid(2)\ni = y * {across} + x"
            return Statement("place", [Clause(source, f"i = th.y * {across} + th.x")])
        if self.make.chance(70):
            return Statement("place", [Clause("i = cuda.grid(1)", "i = th.x")])
        if not self.rules.weak:
            source = "i = np.int64(cuda.blockIdx.x) * cuda.blockDim.x + cuda.threadIdx.x"
        else:
            source = "i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x"
        return Statement("place", [Clause(source, "i = th.x")])

    def _declarations(self, statements: Statements) -> list[Statement]:
        """Variables of this program's types, each with a first value."""
        made: list[Statement] = []
        kinds = [*self.pool, "bool", *self.pool]
        count = 3 + self.random.randrange(4)
        chosen = [self.make.choose(kinds) for _ in range(count)]
        for number, kind in enumerate(chosen):
            value = self.make.expr(kind, 1)
            made.append(statements.assign(f"v{number}", value))
            self.make.scope.variables[f"v{number}"] = kind
        return made

    def _results(self, statements: Statements) -> list[Statement]:
        """Every variable ends up in an array."""
        made = []
        places: dict[str, int] = {}
        for name, kind in self.make.scope.variables.items():
            if name == "s":
                continue
            target = {"bool": "int64", "int": "int64"}.get(kind, kind)
            view = next(view for view in statements.outputs if view.kind == target)
            place = places.get(target, 0)
            places[target] = place + 1
            made.append(statements.store_at(view, place % 5, Expr(kind, name, name)))
        return made

    # device functions

    def _write_function(self, number: int) -> None:
        make = self.make
        kinds = [k for k in self.pool if k != "float"]
        parameters: list[str | View | list[str]] = [make.choose(kinds) for _ in range(1 + self.random.randrange(3))]
        names = [f"p{place}" for place in range(len(parameters))]
        scope = Scope(dict(zip(names, [str(p) for p in parameters], strict=True)))
        if make.chance(30):
            view = View("pa", make.choose([k for k in kinds if not is_weak(k)] or ["int64"]), (None,))
            parameters.append(view)
            names.append("pa")
            scope.views.append(view)
        if make.chance(30):
            pair = [make.choose(kinds), make.choose(kinds)]
            parameters.append(pair)
            names.append("pt")
            scope.readable.update({"pt[0]": pair[0], "pt[-1]": pair[1]})
        heads, defaults = list(names), 0
        if make.chance(40):
            value = self.random.randrange(1, 6)
            heads.append(f"d={value}")
            parameters.append(self.rules.integer)
            scope.variables["d"] = self.rules.integer
            defaults = 1
        make.scope = scope
        statements = Statements(make, [], None, [])
        results = [make.choose(kinds) for _ in range(1 + make.chance(45))]
        statements.results = results
        statements.weight = 8
        body = statements.block(1 + self.random.randrange(3), 2, 4)
        body.append(statements.leave(2))
        self.functions.append(Function(f"def f{number}({', '.join(heads)}):", body))
        make.functions.append(Callable_(f"f{number}", parameters, results, defaults))
