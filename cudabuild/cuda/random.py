# SPDX-License-Identifier: Apache-2.0
"""Random numbers in kernels: xoroshiro128+, one state per thread, with numba-cuda's names and its numbers, bit for bit.

::

    from cudabuild.cuda.random import create_xoroshiro128p_states, xoroshiro128p_uniform_float32

    states = create_xoroshiro128p_states(threads, seed=1)     # on the host
    x = xoroshiro128p_uniform_float32(states, cuda.grid(1))   # in a kernel

States are records of two uint64, ``s0`` and ``s1``: ``xoroshiro128p_type`` in signatures. Each lies 2⁶⁴ steps after
the one before, so that no two sequences meet. The generator is Blackman's and Vigna's (2016, constants 55, 14, 36),
seeded by SplitMix64; the uniform numbers have 53 random bits, the normal ones are Box and Muller's cosine half. What
numba-cuda does is kept where it is odd, too: both words of the first state are the same number, and the normal
float64 is made of two uniform float32, the logarithm in float32.

The functions of ``states`` and ``index`` are written in the kernel language and run in kernels; ``create_…`` and
``init_xoroshiro128p_states`` are called on the host.
"""

from __future__ import annotations

import math

from cudabuild.types import Member, Record, as_dtype, float32, float64, uint64

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "create_xoroshiro128p_states",
    "init_xoroshiro128p_state",
    "init_xoroshiro128p_states",
    "xoroshiro128p_jump",
    "xoroshiro128p_next",
    "xoroshiro128p_normal_float32",
    "xoroshiro128p_normal_float64",
    "xoroshiro128p_type",
    "xoroshiro128p_uniform_float32",
    "xoroshiro128p_uniform_float64",
]

#: A state, as the element of an array of them.
xoroshiro128p_type = Record([Member("s0", uint64, 0), Member("s1", uint64, 8)], 16)

# The polynomial by which the generator jumps 2⁶⁴ steps ahead, lowest power first.
_JUMP_LOW = 0xBEAC0467EBA5FACB
_JUMP_HIGH = 0xD86B048B86AA9922


def init_xoroshiro128p_state(states: Any, index: Any, seed: Any) -> None:
    """Makes ``states[index]`` of a 64-bit seed, by one step of SplitMix64."""
    z = uint64(seed) + uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> 30)) * uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> 27)) * uint64(0x94D049BB133111EB)
    z = z ^ (z >> 31)
    states[index]["s0"] = z
    states[index]["s1"] = z


def xoroshiro128p_next(states: Any, index: Any) -> Any:
    """The next random uint64; advances ``states[index]``."""
    low = states[index]["s0"]
    high = states[index]["s1"]
    mixed = low ^ high
    states[index]["s0"] = ((low << 55) | (low >> 9)) ^ mixed ^ (mixed << 14)
    states[index]["s1"] = (mixed << 36) | (mixed >> 28)
    return low + high


def xoroshiro128p_jump(states: Any, index: Any) -> None:
    """Advances ``states[index]`` by 2⁶⁴ steps."""
    low = uint64(0)
    high = uint64(0)
    for step in range(128):
        word = uint64(_JUMP_LOW) if step < 64 else uint64(_JUMP_HIGH)
        if (word >> (step % 64)) & 1:
            low ^= states[index]["s0"]
            high ^= states[index]["s1"]
        xoroshiro128p_next(states, index)
    states[index]["s0"] = low
    states[index]["s1"] = high


def xoroshiro128p_uniform_float64(states: Any, index: Any) -> Any:
    """A float64, at least 0 and less than 1; advances ``states[index]`` by one step."""
    return float64(xoroshiro128p_next(states, index) >> 11) * 1.1102230246251565e-16  # 2⁻⁵³


def xoroshiro128p_uniform_float32(states: Any, index: Any) -> Any:
    """A float32 from 0 to 1, both possible; advances ``states[index]`` by one step."""
    return float32(xoroshiro128p_uniform_float64(states, index))


def xoroshiro128p_normal_float32(states: Any, index: Any) -> Any:
    """A float32 of mean 0 and variance 1; advances ``states[index]`` by two steps."""
    radius = xoroshiro128p_uniform_float32(states, index)
    angle = xoroshiro128p_uniform_float32(states, index)
    return math.sqrt(float32(-2.0) * math.log(radius)) * math.cos(float32(6.283185307179586) * angle)


def xoroshiro128p_normal_float64(states: Any, index: Any) -> Any:
    """A float64 of mean 0 and variance 1; advances ``states[index]`` by two steps."""
    radius = xoroshiro128p_uniform_float32(states, index)
    angle = xoroshiro128p_uniform_float32(states, index)
    return math.sqrt(float64(-2.0) * math.log(radius)) * math.cos(float64(6.283185307179586) * angle)


def __getattr__(name: str) -> Any:
    if name != "xoroshiro128p_dtype":  # needs NumPy
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return as_dtype(xoroshiro128p_type)


# on the host


def create_xoroshiro128p_states(n: int, seed: int, subsequence_start: int = 0, stream: Any = 0) -> Any:
    """A device array of ``n`` states.

    Args:
        n: how many.
        seed: 64 bits.
        subsequence_start: the first state lies so many times 2⁶⁴ steps after the one that ``seed`` makes.
        stream: where the copy to the device is queued.
    """
    from cudabuild import cuda

    return cuda.to_device(_make_states(n, seed, subsequence_start), stream)


def init_xoroshiro128p_states(states: Any, seed: int, subsequence_start: int = 0, stream: Any = 0) -> None:
    """Gives the states in a device array new values; see :func:`create_xoroshiro128p_states`."""
    states.copy_to_device(_make_states(states.shape[0], seed, subsequence_start), stream)


def _make_states(n: int, seed: int, subsequence_start: int) -> Any:
    """The states as a NumPy array.

    A jump is a linear map of 128 bits, so its powers are too: the states so far, jumped as far as they are many, are
    the next ones, and a million of them take twenty rounds instead of a million times 128 steps.
    """
    import numpy

    made = numpy.zeros(max(n, 0), as_dtype(xoroshiro128p_type))
    if n < 1:
        return made
    states = made.view(numpy.uint64).reshape(n, 2)
    images = _basis(numpy)
    with numpy.errstate(over="ignore"):
        init_xoroshiro128p_state(made, 0, numpy.uint64(seed & 0xFFFFFFFFFFFFFFFF))
        images = _jump_all(numpy, images)
    power, left = images, int(subsequence_start)
    while left > 0:
        if left & 1:
            states[:1] = _apply(numpy, power, states[:1])
        power = _apply(numpy, power, power)
        left >>= 1
    count = 1
    while count < n:
        more = min(count, n - count)
        states[count : count + more] = _apply(numpy, images, states[:more])
        images = _apply(numpy, images, images)
        count += more
    return made


def _basis(numpy: Any) -> Any:
    """The 128 states of a single bit: row ``n`` has bit ``n``, those of the second word after those of the first."""
    rows = numpy.zeros((128, 2), numpy.uint64)
    bits = numpy.uint64(1) << numpy.arange(64, dtype=numpy.uint64)
    rows[:64, 0] = bits
    rows[64:, 1] = bits
    return rows


def _jump_all(numpy: Any, states: Any) -> Any:
    """Every row 2⁶⁴ steps further; the functions above take a slice as an index as well."""
    jumped = states.copy()
    xoroshiro128p_jump(jumped.view(as_dtype(xoroshiro128p_type))[:, 0], slice(None))
    return jumped


def _apply(numpy: Any, images: Any, states: Any) -> Any:
    """A linear map, given by the images of ``_basis``, of every row: the sum of the images of its bits, by bytes."""
    made = numpy.zeros_like(states)
    octets = numpy.ascontiguousarray(states).astype("<u8").view(numpy.uint8)
    for octet in range(16):
        table = numpy.zeros((256, 2), numpy.uint64)
        for bit in range(8):
            table[1 << bit : 2 << bit] = table[: 1 << bit] ^ images[8 * octet + bit]
        made ^= table[octets[:, octet]]
    return made
