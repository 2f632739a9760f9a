# SPDX-License-Identifier: Apache-2.0
"""Random kernels in Python's own syntax (nested loops with ``else``, ``break``, ``continue``, early returns, variables
that live through all of it) against themselves run by Python."""

from __future__ import annotations

import importlib.util
import random

import numpy as np
import pytest

VARIABLES = ["a", "b", "c", "d"]


class Writer:
    """Writes the body of one kernel. Values stay below 2**16 and every ``while`` counts, so all of them end."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.counters = 0

    def expression(self, depth=0):
        r, kind = self.random, self.random.random()
        if depth > 2 or kind < 0.35:
            return r.choice([*VARIABLES, "x[0]", "x[1]", "x[2]"])
        if kind < 0.5:
            return str(r.randint(-3, 9))
        left, right = self.expression(depth + 1), self.expression(depth + 1)
        if kind < 0.8:
            return f"({left} {r.choice('+-*&|^')} {right})"
        if kind < 0.9:
            return f"({left} if {self.condition(depth + 1)} else {right})"
        return f"({left} {r.choice(['//', '%'])} {r.randint(2, 5)})"

    def condition(self, depth=0):
        kind = self.random.random()
        if kind < 0.6 or depth > 2:
            operator = self.random.choice(["<", ">", "==", "!=", "<=", ">="])
            return f"{self.expression(depth + 1)} {operator} {self.expression(depth + 1)}"
        if kind < 0.8:
            return f"({self.condition(depth + 1)} {self.random.choice(['and', 'or'])} {self.condition(depth + 1)})"
        return f"not {self.condition(depth + 1)}"

    def block(self, indent, depth, in_loop):
        lines = []
        for _ in range(self.random.randint(1, 3)):
            lines += self.statement("    " * indent, indent, depth, in_loop)
        return lines or ["    " * indent + "pass"]

    def statement(self, pad, indent, depth, in_loop):
        r, kind = self.random, self.random.random()
        if kind < 0.4 or depth > 3:
            return [f"{pad}{r.choice(VARIABLES)} = ({self.expression()}) & 65535"]
        if kind < 0.5:
            targets, values = r.sample(VARIABLES, 2), [f"({self.expression()}) & 65535" for _ in range(2)]
            return [f"{pad}{', '.join(targets)} = {', '.join(values)}"]
        if kind < 0.68:
            lines = [f"{pad}if {self.condition()}:", *self.block(indent + 1, depth + 1, in_loop)]
            return lines + self.otherwise(pad, indent, depth, in_loop)
        if kind < 0.82:
            low, high, step = r.randint(0, 3), r.randint(2, 6), r.randint(1, 3)
            over = r.choice([f"range({low})", f"range({low}, {high})", f"range({high}, 0, -{step})", "x", "(1, 2, 3)"])
            lines = [f"{pad}for {r.choice([*VARIABLES, 'i'])} in {over}:", *self.block(indent + 1, depth + 1, True)]
            return lines + self.otherwise(pad, indent, depth, in_loop)
        if kind < 0.92:
            self.counters += 1
            name = f"turn{self.counters}"
            lines = [f"{pad}{name} = 0", f"{pad}while {name} < {r.randint(1, 4)} and {self.condition()}:"]
            lines += [f"{pad}    {name} += 1", *self.block(indent + 1, depth + 1, True)]
            return lines + self.otherwise(pad, indent, depth, in_loop)
        if in_loop:
            return [f"{pad}if {self.condition()}:", f"{pad}    {r.choice(['break', 'continue'])}"]
        return [f"{pad}if {self.condition()}:", f"{pad}    out[4] = {self.expression()} & 1023", f"{pad}    return"]

    def otherwise(self, pad, indent, depth, in_loop):
        if self.random.random() < 0.4:
            return [f"{pad}else:", *self.block(indent + 1, depth + 1, in_loop)]
        return []

    def kernel(self, name):
        body = [line for _ in range(3) for line in self.block(1, 0, False)]
        head = [f"def {name}(x, out):", "    a, b, c, d = x[0], x[1], 2, x[3]"]
        return "\n".join([*head, *body, "    out[0], out[1], out[2], out[3] = a, b, c, d", "", ""])


@pytest.mark.parametrize("seed", range(24))
def test_as_in_python(run, seed, tmp_path):
    path = tmp_path / "random_kernel.py"
    path.write_text(Writer(seed).kernel("kernel"), encoding="utf-8")
    spec = importlib.util.spec_from_file_location("random_kernel", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for values in ((5, 3, 2, 9), (0, 1, 0, -4)):
        out, expected = np.zeros(5, np.int64), np.zeros(5, np.int64)
        run(module.kernel, "int64[::1], int64[::1]", 1, 1, np.array(values), out)
        module.kernel(list(values), expected)
        np.testing.assert_array_equal(out, expected, path.read_text(encoding="utf-8"))
