# SPDX-License-Identifier: Apache-2.0
"""Random kernels with barriers and shuffles under uniform control flow, against a simulator made of Python generators.

The same text is compiled for the CPU device and executed by Python with every synchronisation turned into a ``yield``.
"""

from __future__ import annotations

import importlib.util
import random

import numpy as np
import pytest

from cudabuild.definition import DEFAULT_OPTIONS

THREADS = 48  # a full warp and half a warp
MASK = 0xFFFF  # keeps numbers small, so that Python's integers need not wrap


class Program:
    """Writes one random kernel ``k(x, out)``: ``x`` has one int64 per thread, ``out`` two."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines = [
            "def k(x, out):",
            "    s = cuda.shared.array(64, int64)",
            "    t = cuda.threadIdx.x",
            "    a = x[t]",
            "    b = int64(t)",
            "    u = int64(1)",
            "    s[t] = 7",
            "    cuda.syncthreads()",
        ]
        self.depth = 1
        self.counters = 0
        for _ in range(self.random.randint(3, 7)):
            self.statement(budget=3)
        self.add("out[t, 0] = a", "out[t, 1] = b + s[t]")

    def add(self, *lines: str) -> None:
        self.lines += ["    " * self.depth + line for line in lines]

    def statement(self, budget: int) -> None:
        kinds = ["local", "exchange", "shuffle", "divergent", "leave"]
        if budget:
            kinds += ["for", "while", "if", "for", "if"]
        getattr(self, "make_" + self.random.choice(kinds))(budget - 1)

    def block(self, budget: int) -> None:
        self.depth += 1
        for _ in range(self.random.randint(1, 3)):
            self.statement(budget)
        self.depth -= 1

    def make_local(self, budget: int) -> None:
        self.add(f"a = (a * {self.random.randint(2, 9)} + b) & {MASK}", "b = b ^ (a >> 3)")

    def make_exchange(self, budget: int) -> None:
        self.add(
            "s[t] = a",
            "cuda.syncthreads()",
            f"b = (b + s[(t + {self.random.randint(1, THREADS - 1)}) % {THREADS}]) & {MASK}",
            "cuda.syncthreads()",
        )

    def make_shuffle(self, budget: int) -> None:
        self.add(f"a = (a + cuda.shfl_down_sync(0xFFFFFFFF, b, {self.random.randint(0, 20)})) & {MASK}")

    def make_divergent(self, budget: int) -> None:
        modulus = self.random.randint(2, 5)
        self.add(
            f"if t % {modulus} == {self.random.randrange(modulus)}:", "    a = (a + 11) ^ b", "else:", "    b += 1"
        )

    def make_leave(self, budget: int) -> None:
        """Some threads return; the others go on with whatever those left in shared memory."""
        self.add(f"if (a + t) % 7 == {self.random.randrange(7)}:", "    out[t, 0] = -1", "    return")

    def make_for(self, budget: int) -> None:
        self.counters += 1
        self.add(f"for i{self.counters} in range({self.random.randint(0, 3)}):", f"    u += i{self.counters}")
        self.block(budget)

    def make_while(self, budget: int) -> None:
        self.counters += 1
        name = f"n{self.counters}"
        self.add(f"{name} = {self.random.randint(0, 3)}", f"while {name} > 0:", f"    {name} -= 1")
        self.block(budget)
        if self.random.random() < 0.3:
            self.add(f"    if u % 5 == {self.random.randrange(5)}:", "        break")

    def make_if(self, budget: int) -> None:
        self.add(f"if u % 3 == {self.random.randrange(3)}:")
        self.block(budget)
        if self.random.random() < 0.5:
            self.add("else:")
            self.block(budget)

    def source(self) -> str:
        return "from cudabuild import cuda\nfrom cudabuild.types import int64\n\n\n" + "\n".join(self.lines) + "\n"

    def simulate(self, x: np.ndarray) -> np.ndarray:
        text = "\n".join(self.lines)
        text = text.replace("cuda.syncthreads()", "yield None").replace("cuda.shared.array(64, int64)", "shared")
        text = text.replace("cuda.shfl_down_sync(0xFFFFFFFF, b, ", "(yield b, ").replace("cuda.threadIdx.x", "thread")
        text = text.replace("def k(x, out):", "def k(x, out, shared, thread):")
        scope: dict = {"int64": int}
        exec(text, scope)
        out, shared = np.full((THREADS, 2), -5), [0] * 64
        values = x.tolist()
        live = {t: scope["k"](values, out, shared, t) for t in range(THREADS)}
        stops: dict[int, object] = {}

        def resume(t: int, answer: object) -> None:
            try:
                stops[t] = live[t].send(answer)
            except StopIteration:
                del live[t]
                stops.pop(t, None)

        while live:
            for first in (0, 32):
                warp = [t for t in range(first, first + 32) if t in live]
                for t in warp:
                    resume(t, None)
                while any(stops.get(t) is not None for t in warp):
                    here = [t for t in warp if t in live]
                    assert all(stops[t] is not None for t in here), "a program whose warps do not stay together"
                    read = {t: stops[t][0] for t in here}
                    for t in here:
                        source = t + stops[t][1]
                        resume(t, read.get(source, read[t]) if source < first + 32 else read[t])
        return out


@pytest.mark.parametrize("seed", range(40))
def test_random_kernels(run, seed, tmp_path):
    program = Program(seed)
    file = tmp_path / f"random_kernel_{seed}.py"
    file.write_text(program.source())
    spec = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    x = np.random.default_rng(seed).integers(0, 1000, THREADS)
    out = np.full((THREADS, 2), -5)
    run(module.k, "int64[::1], int64[:, ::1]", 1, THREADS, x, out, options=DEFAULT_OPTIONS.replace(opt=seed % 4))
    np.testing.assert_array_equal(out, program.simulate(x), err_msg=program.source())
