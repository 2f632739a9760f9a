# SPDX-License-Identifier: Apache-2.0
"""Random race-free kernels as source text: phases that write, synchronise, and read what other threads have written.

Each phase writes one element per thread, by a random permutation of the block's threads, and reads by another one. A
barrier stands after the writes and another after the reads; inside a warp ``syncwarp`` does. Some kernels return early
in part of their threads, repeat phases in loops, or count with atomics. ``break_one`` takes away a barrier.
"""

from __future__ import annotations

import importlib.util
import random
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["BLOCKS", "SIGNATURE", "THREADS", "PhaseKernel", "load_kernel", "make_arguments"]

THREADS = 64
BLOCKS = 2
SIGNATURE = "int32[::1], int32[::1], uint8[::1]"

_SYNC = "cuda.syncthreads()"


class PhaseKernel:
    """The kernel of one seed: ``source()`` is its module's text, and ``broken`` what ``break_one`` can take away."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.breakable: list[int] = []  #: lines whose removal makes a race
        self.depth = 1
        self.loops = 0
        self.live = 32 if self.random.random() < 0.3 else THREADS  # a whole warp leaves early
        self.add(
            "s = cuda.shared.array(64, int32)",
            "t = cuda.threadIdx.x",
            "base = cuda.blockIdx.x * 64",
            "a = x[base + t]",
            "s[t] = a",
            "out[base + t] = a",
            "small[base + t] = t",
            _SYNC,
        )
        if self.live < THREADS:
            self.add(f"if t >= {self.live}:", "    return")
        for _ in range(self.random.randint(2, 5)):
            self.make_phase(budget=1)
        self.add("x[base + t] = a")

    def add(self, *lines: str) -> None:
        self.lines += ["    " * self.depth + line for line in lines]

    def make_phase(self, budget: int) -> None:
        kinds = ["shared", "global", "bytes", "warp", "count", "private"] + ["loop", "uniform"] * budget
        getattr(self, "make_" + self.random.choice(kinds))()

    def permutation(self) -> str:
        """A one-to-one map of the live threads onto as many elements."""
        n = self.live
        kind = self.random.randrange(3)
        if kind == 0:
            return f"(t + {self.random.randrange(n)}) % {n}"
        if kind == 1:
            return f"t ^ {self.random.randrange(n)}"
        return f"(t * {self.random.randrange(1, n, 2)} + {self.random.randrange(n)}) % {n}"

    def exchange(self, array: str, value: str) -> None:
        write, read = self.permutation(), self.permutation()
        self.add(f"{array}{write}] = {value}", _SYNC)
        same = {}
        exec(f"same = all({write} == {read} for t in range({self.live}))", same)
        if not same["same"]:
            self.breakable.append(len(self.lines) - 1)
        self.add(f"a = (a + {array}{read}]) & 127", _SYNC)

    def make_shared(self) -> None:
        self.exchange("s[", "a")

    def make_global(self) -> None:
        self.exchange("out[base + ", "a")

    def make_bytes(self) -> None:
        self.exchange("small[base + ", "a & 127")

    def make_warp(self) -> None:
        lane = self.random.randrange(1, 32)
        self.add("s[t] = a", "cuda.syncwarp()")
        self.breakable.append(len(self.lines) - 1)
        self.add(f"a = (a * 3 + s[t ^ {lane}]) & 127", "cuda.syncwarp()")
        if self.random.random() < 0.5:  # a chain: halves of the warp, then all of it
            self.add("s[t] = a + 1", "if t & 16 == 0:", "    cuda.syncwarp(0x0000FFFF)", "else:")
            self.add("    cuda.syncwarp(0xFFFF0000)", f"a = (a + s[t ^ {lane & 15 or 1}]) & 127", "cuda.syncwarp()")
        self.add(_SYNC)

    def make_count(self) -> None:
        slot = self.random.randrange(1, 8)
        self.add(f"if t < {slot}:", "    s[t] = 0", _SYNC, f"cuda.atomic.add(s, t % {slot}, a)")
        self.breakable.append(len(self.lines) - 2)
        self.add(_SYNC, f"a = (a + s[t % {slot}]) & 127", _SYNC, "cuda.atomic.add(x, 128, 1)")

    def make_private(self) -> None:
        self.add(
            "s[t] = a * 2", f"for k in range({self.random.randint(1, 3)}):", "    s[t] += k", "a = s[t] & 127", _SYNC
        )

    def make_loop(self) -> None:
        self.loops += 1
        self.add(f"for n{self.loops} in range({self.random.randint(2, 3)}):")
        self.block()

    def make_uniform(self) -> None:
        self.add(f"if cuda.blockIdx.x % 2 == {self.random.randrange(2)}:")
        self.block()

    def block(self) -> None:
        self.depth += 1
        for _ in range(self.random.randint(1, 2)):
            self.make_phase(budget=0)
        self.depth -= 1

    def source(self) -> str:
        """The module's text; its kernel is ``k``."""
        head = "from cudabuild import cuda\nfrom cudabuild.types import int32\n\n\ndef k(x, out, small):\n"
        return head + "\n".join(self.lines) + "\n"

    def break_one(self) -> bool:
        """Takes one barrier away, so that the kernel has a race; False if it has none that matters."""
        if not self.breakable:
            return False
        index = self.random.choice(self.breakable)
        line = self.lines[index]
        self.lines[index] = line[: len(line) - len(line.lstrip())] + "pass"
        return True


def load_kernel(kernel: PhaseKernel, file: Path) -> Any:
    """The kernel function, from a module written to ``file``."""
    file.write_text(kernel.source(), encoding="utf-8")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.k


def make_arguments() -> tuple[np.ndarray, ...]:
    count = BLOCKS * THREADS
    return np.arange(count + 1, dtype=np.int32), np.zeros(count, np.int32), np.zeros(count, np.uint8)
