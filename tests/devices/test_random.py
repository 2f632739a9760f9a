# SPDX-License-Identifier: Apache-2.0
"""xoroshiro128+ in kernels, against the algorithm in Python integers and numbers that numba gives."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from cudabuild import cuda
from cudabuild.cuda.random import (
    create_xoroshiro128p_states,
    init_xoroshiro128p_state,
    init_xoroshiro128p_states,
    xoroshiro128p_dtype,
    xoroshiro128p_jump,
    xoroshiro128p_next,
    xoroshiro128p_normal_float32,
    xoroshiro128p_normal_float64,
    xoroshiro128p_type,
    xoroshiro128p_uniform_float32,
    xoroshiro128p_uniform_float64,
)

MASK = (1 << 64) - 1


class Reference:
    """One generator, as its authors publish it."""

    def __init__(self, seed: int, jumps: int = 0) -> None:
        z = (seed + 0x9E3779B97F4A7C15) & MASK
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & MASK
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB & MASK
        self.state = [z ^ (z >> 31)] * 2
        for _ in range(jumps):
            self.jump()

    def next(self) -> int:
        a, b = self.state
        result = (a + b) & MASK
        b ^= a
        self.state = [((a << 55 | a >> 9) ^ b ^ (b << 14)) & MASK, (b << 36 | b >> 28) & MASK]
        return result

    def uniform(self) -> float:
        return (self.next() >> 11) * 2.0**-53

    def normal(self) -> float:
        """Of two uniform numbers rounded to float32, as numba-cuda takes them."""
        radius, angle = (float(np.float32(self.uniform())) for _ in range(2))
        return math.sqrt(-2 * float(np.float32(math.log(radius)))) * math.cos(2 * math.pi * angle)

    def jump(self) -> None:
        total = [0, 0]
        for word in (0xBEAC0467EBA5FACB, 0xD86B048B86AA9922):
            for bit in range(64):
                if word >> bit & 1:
                    total = [t ^ s for t, s in zip(total, self.state, strict=True)]
                self.next()
        self.state = total


def draw(states, u32, u64, n32, n64, raw):
    i = cuda.grid(1)
    if i < states.shape[0]:
        for k in range(u32.shape[1]):
            raw[i, k] = xoroshiro128p_next(states, i)
            u32[i, k] = xoroshiro128p_uniform_float32(states, i)
            u64[i, k] = xoroshiro128p_uniform_float64(states, i)
            n32[i, k] = xoroshiro128p_normal_float32(states, i)
            n64[i, k] = xoroshiro128p_normal_float64(states, i)


STATES = "Record(s0: uint64 at 0, s1: uint64 at 8; 16)[::1]"
DRAW = f"{STATES}, float32[:, ::1], float64[:, ::1], float32[:, ::1], float64[:, ::1], uint64[:, ::1]"


def test_numbers(run: Any) -> None:
    n, draws, seed = 70, 5, 12345
    states = create_states(n, seed, 3)
    u32, n32 = np.zeros((2, n, draws), np.float32)
    u64, n64 = np.zeros((2, n, draws))
    raw = np.zeros((n, draws), np.uint64)
    run(draw, DRAW, 3, 32, states, u32, u64, n32, n64, raw)
    generator = Reference(seed, 3)
    for i in range(n):
        start = list(generator.state)
        for k in range(draws):
            assert raw[i, k] == generator.next()
            assert u32[i, k] == np.float32(generator.uniform())
            assert u64[i, k] == generator.uniform()
            np.testing.assert_allclose(n32[i, k], generator.normal(), rtol=2e-5, atol=2e-6)
            np.testing.assert_allclose(n64[i, k], generator.normal(), rtol=3e-7, atol=1e-15)
        assert [int(word) for word in states[i]] == generator.state
        generator.state = start
        generator.jump()


def test_numbers_of_numba(run: Any) -> None:
    """What numba 0.68.1 gives on a CPU for the same draws; the normal numbers depend on each device's log and cos."""
    expected = {
        (0, 0): ["0x1.d870bc0000000p-1", "0x1.51842b620a339p-1", "0x1.31d5380000000p+1", "0x1.829111ca97d29p-2"],
        (63, 49): ["0x1.fc35060000000p-1", "0x1.7063178218e3ap-2", "-0x1.21e5e20000000p-2", "0x1.db62a092d3d62p-1"],
    }
    states = create_states(64, 12345, 3)
    out = [np.zeros((64, 50), dtype) for dtype in (np.float32, np.float64, np.float32, np.float64)]
    run(
        draw_like_numba,
        f"{STATES}, float32[:, ::1], float64[:, ::1], float32[:, ::1], float64[:, ::1]",
        2,
        32,
        states,
        *out,
    )
    for place, texts in expected.items():
        values = [float.fromhex(text) for text in texts]
        assert [float(array[place]) for array in out[:2]] == values[:2]
        np.testing.assert_allclose([float(array[place]) for array in out[2:]], values[2:], rtol=3e-5)


def draw_like_numba(states, u32, u64, n32, n64):
    i = cuda.grid(1)
    for k in range(u32.shape[1]):
        u32[i, k] = xoroshiro128p_uniform_float32(states, i)
        u64[i, k] = xoroshiro128p_uniform_float64(states, i)
        n32[i, k] = xoroshiro128p_normal_float32(states, i)
        n64[i, k] = xoroshiro128p_normal_float64(states, i)


def seed_and_jump(states, seed):
    i = cuda.grid(1)
    init_xoroshiro128p_state(states, i, seed)
    for _ in range(i):
        xoroshiro128p_jump(states, i)


def test_states_can_be_made_in_a_kernel(run: Any) -> None:
    states = np.zeros(8, xoroshiro128p_dtype)
    run(seed_and_jump, f"{STATES}, uint64", 1, 8, states, np.uint64(99))
    np.testing.assert_array_equal(states, create_states(8, 99))


def odd_ones_start_anew(states, seed, raw):
    i = cuda.grid(1)
    if i % 2:
        init_xoroshiro128p_state(states, i, seed)
        xoroshiro128p_jump(states, i)
    if i % 3:
        raw[i] = xoroshiro128p_next(states, i)


def test_some_threads_draw_and_some_start_anew(run: Any) -> None:
    states, raw = create_states(12, 5), np.zeros(12, np.uint64)
    run(odd_ones_start_anew, f"{STATES}, uint64, uint64[::1]", 2, 6, states, np.uint64(99), raw)
    for i in range(12):
        generator = Reference(99, 1) if i % 2 else Reference(5, i)
        assert raw[i] == (generator.next() if i % 3 else 0)
        assert [int(word) for word in states[i]] == generator.state


def create_states(n: int, seed: int, start: int = 0) -> Any:
    return create_xoroshiro128p_states(n, seed, start).copy_to_host()


@pytest.fixture(autouse=True)
def on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """``run`` launches with NumPy arrays: where the states are made first is of no concern."""
    from cudabuild import host_api
    from cudabuild.cpu.device import CpuDevice

    device = CpuDevice()
    monkeypatch.setattr(host_api.choice, "current_device", lambda: device)


def test_states_on_the_host() -> None:
    for seed, start, n in ((0, 0, 5), (1, 1, 9), (-1, 1000, 3), (1 << 63, 0, 1)):
        generator = Reference(seed & MASK, start)
        for state in create_states(n, seed, start):
            assert [int(word) for word in state] == generator.state
            generator.jump()
    many = create_states(1000, 7)
    assert len(np.unique(many["s0"])) == 1000
    np.testing.assert_array_equal(create_states(10, 7, 990), many[990:])
    states = cuda.device_array(4, xoroshiro128p_dtype)
    init_xoroshiro128p_states(states, 7, 2)
    np.testing.assert_array_equal(states.copy_to_host(), many[2:6])
    assert create_states(0, 1).shape == (0,)
    assert xoroshiro128p_type.name in STATES
