# SPDX-License-Identifier: Apache-2.0
"""Random kernels of functions inside functions, tuples, None and patterns, against themselves run by Python.

A function sees its captured variables as they are when it is called; tuples and None-or-a-value live through loops and
branches; loops go over tuples of different things.
"""

from __future__ import annotations

import importlib.util
import random

import numpy as np
import pytest

NUMBERS = ["a", "b", "c", "d"]


class Writer:
    """Writes the body of one kernel; numbers stay small, and every loop ends."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.functions = []  # those that are defined wherever control comes from
        self.made = 0
        self.inside = 0  # how many functions deep

    def number(self, depth=0):
        r, kind = self.random, self.random.random()
        if depth > 2 or kind < 0.3:
            return r.choice([*NUMBERS, "p[0]", "p[1]", "q[1][0]", "x[0]", "x[1]"])
        if kind < 0.4:
            return str(r.randint(-3, 9))
        one, two = self.number(depth + 1), self.number(depth + 1)
        if kind < 0.6:
            return f"({one} {r.choice('+-*')} {two}) % 97"
        if kind < 0.7:
            return f"({one} if {self.condition(depth + 1)} else {two})"
        if kind < 0.75:
            return f"({one} if m is None else m)"
        if kind < 0.8:
            return f"total({r.choice(['*p', '*p, ' + one, one + ', ' + two, '*q[1], *p'])})"
        if not self.functions or self.inside > 1:
            return f"(lambda v: v - {one})({two})"
        function = r.choice(self.functions)
        call = r.choice(["{f}({a})", "{f}({a}, {b})", "{f}({a}, y={b})", "{f}(*p)", "call({f}, {a})", "call({f}, *p)"])
        return call.format(f=function, a=one, b=two)

    def condition(self, depth=0):
        one, two = self.number(depth + 1), self.number(depth + 1)
        kind = self.random.random()
        if kind < 0.1:
            return f"m {self.random.choice(['is', 'is not', '==', '!='])} None"
        if kind < 0.2:
            return f"p {self.random.choice(['==', '<', '>='])} ({one}, {two})"
        if kind < 0.3:
            return f"{one} in ({two}, 1, 2)"
        return f"{one} {self.random.choice(['<', '>', '==', '!='])} {two}"

    def block(self, depth, size):
        known = list(self.functions)
        lines = [line for _ in range(size) for line in self.statement(depth)]
        self.functions = known
        return ["    " + line for line in lines]

    def statement(self, depth):
        r = self.random
        kind = r.choice(list(self.SIMPLE) if depth > 2 else list(self.SIMPLE + self.COMPOUND))
        return getattr(self, kind)(depth)

    SIMPLE = ("assign", "assign", "assign_none", "assign_pair", "assign_nested", "unpack", "loop_over_pair")
    COMPOUND = ("define", "define", "choose", "repeat", "loop_over_anything", "loop_over_zip", "match", "take")
    COMPOUND += ("maker", "loop_over_functions", "recursion")

    def assign(self, depth):
        return [f"{self.random.choice(NUMBERS)} {self.random.choice(['=', '+=', '-='])} {self.number()}"]

    def assign_none(self, depth):
        return [
            f"m = {self.random.choice(['None', self.number(), f'({self.number()} if {self.condition()} else None)'])}"
        ]

    def assign_pair(self, depth):
        return [f"p = {self.random.choice([f'({self.number()}, {self.number()})', 'p[::-1]', 'swapped(p)', 'q[1]'])}"]

    def assign_nested(self, depth):
        return [f"q = ({self.number()}, {self.random.choice(['p', 'q[1]', f'({self.number()}, b)'])})"]

    def unpack(self, depth):
        return [self.random.choice(["a, b = p", "c, (d, a) = q", "a, *r = (c, *p, 4)", "b, c = c, b"])]

    def loop_over_pair(self, depth):
        return ["for v in p:", f"    a += v + {self.number()}"]

    def define(self, depth):
        name, self.made = f"f{self.made}", self.made + 1
        self.inside += 1
        body = []
        if self.random.random() < 0.4:
            body += [f"if {self.condition()}:", f"    return {self.number()}"]
        if self.random.random() < 0.3:
            body += ["def inner(u):", f"    return u + y + {self.random.choice(NUMBERS)}"]
            body += [f"return inner({self.number()}) % 89"]
        else:
            body += [f"return (v + y * {self.number()}) % 89"]
        self.inside -= 1
        self.functions.append(name)
        default = self.random.choice(["3", "a", "p[1]"])
        return [f"def {name}(v, y={default}):", *("    " + line for line in body)]

    def choose(self, depth):
        lines = [f"if {self.condition()}:", *self.block(depth + 1, self.random.randint(1, 3))]
        return lines + (["else:", *self.block(depth + 1, 2)] if self.random.random() < 0.6 else [])

    def repeat(self, depth):
        inner = self.block(depth + 1, self.random.randint(1, 3))
        if self.random.random() < 0.4:
            inner += [f"    if {self.condition()}:", f"        {self.random.choice(['break', 'continue'])}"]
        return [f"for k{depth} in range({self.random.randint(1, 4)}):", *inner, f"    b += k{depth}"]

    def loop_over_anything(self, depth):
        items = [self.random.choice([self.number(), "p", "q", "None"]) for _ in range(self.random.randint(1, 3))]
        return [
            f"for w in ({', '.join(items)},):",
            "    if w is None:",
            "        d += 1",
            "    elif isinstance(w, tuple):",
            "        d += w[0]",
            "    else:",
            f"        c += w + {self.number()}",
            *self.block(depth + 1, 1),
            *self.random.choice(
                [[], [f"    if {self.condition()}:", f"        {self.random.choice(['break', 'continue'])}"]]
            ),
            *self.random.choice([[], ["else:", *self.block(depth + 1, 1)]]),
        ]

    def maker(self, depth):
        name, self.made = f"f{self.made}", self.made + 1
        lines = [f"{name} = adder({self.number()})"] if self.random.random() < 0.5 else [
            f"def make{name}(k):",
            f"    return lambda v, y=1: v + k * y - {self.random.choice(NUMBERS)}",
            f"{name} = make{name}({self.number()})",
        ]  # fmt: skip
        self.functions.append(name)
        return lines

    def loop_over_functions(self, depth):
        if not self.functions:
            return self.assign(depth)
        chosen = [self.random.choice(self.functions) for _ in range(self.random.randint(1, 3))]
        return [f"for g in ({', '.join(chosen)},):", f"    b += g({self.number()}) % 89"]

    def recursion(self, depth):
        name, self.made = f"f{self.made}", self.made + 1
        self.functions.append(name)
        body = ["    if y < 1 or y > 9:", f"        return v + {self.random.choice(NUMBERS)}"]
        return [
            f"def {name}(v, y={self.random.randint(0, 5)}):",
            *body,
            f"    return ({name}(v + 1, y - 1) * 2 - y) % 89",
        ]

    def loop_over_zip(self, depth):
        return [f"for n, (u, w) in enumerate(zip(p, ({self.number()}, {self.number()}, 1))):", "    a += n * u - w"]

    def match(self, depth):
        lines = [f"match ({self.number()} % 4, m):", "    case (0, None):", "        a += 1", "    case (1 | 2, None):"]
        lines += ["        b += 1", "    case (3, _) if a > 2:", *("    " + line for line in self.block(depth + 1, 1))]
        return [*lines, "    case (k, _):", "        c += k"]

    def take(self, depth):
        return ["if m is not None:", f"    d += m * {self.random.randint(1, 3)} + {self.number()}"]


HEAD = """
def total(*values):
    result = 0
    for v in values:
        result += v
    return result


def swapped(pair):
    return pair[1], pair[0]


def adder(k):
    def add(v, y=2):
        return (v + k * y) % 89

    return add


def call(function, *values):
    return function(*values)


def kernel(x, o):
    a, b, c, d = x[0], x[1], 3, 4
    m = None
    p = (a, 2)
    q = (1, (b, 5))
"""

TAIL = """
    o[0] = a
    o[1] = b
    o[2] = c
    o[3] = d
    o[4] = -1 if m is None else m
    o[5] = p[0]
    o[6] = p[1]
    o[7] = q[0] + q[1][1]
"""


@pytest.mark.parametrize("seed", [*range(18), 58])
def test_as_in_python(run, seed, tmp_path):
    lines = Writer(seed).block(0, 12)
    path = tmp_path / f"random_closures_{seed}.py"
    path.write_text(HEAD + "\n".join(lines) + TAIL)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for values in ((5, 3), (0, -7)):
        x = np.array(values)
        out, expected = np.zeros(8, np.int64), np.zeros(8, np.int64)
        module.kernel(x, expected)
        run(module.kernel, "int64[::1], int64[::1]", 1, 1, x, out)
        np.testing.assert_array_equal(out, expected, err_msg=path.read_text())
