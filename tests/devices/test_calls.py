# SPDX-License-Identifier: Apache-2.0
"""Calls: functions as values, functions inside functions, starred and named arguments; each kernel against itself run
by Python."""

from __future__ import annotations

import functools
import math
import operator

import numpy as np
import pytest

from cudabuild import cuda, device_function, kernel
from cudabuild.errors import LaunchError
from cudabuild.runtime.arguments import read_argument

OFFSET = 100


def add(a, b):
    return a + b


def mul(a, b=3, *, c=2):
    return a * b + c


@device_function
def decorated(f, a):
    return f(a, a + 1)


class Wrapped:
    """As other compilers' decorators leave a function."""

    def __init__(self, function):
        self.py_func = function

    def __call__(self, *args):
        return self.py_func(*args)


wrapped = Wrapped(add)
twice, thrice = (lambda v: v * 2), (lambda v: v * 3)


class Tools:
    @staticmethod
    def sub(a, b):
        return a - b


def apply(f, *args):
    return f(*args)


def apply_all(functions, a, b):
    total = 0
    for f in functions:
        total += f(a, b)
    return total


def count(*args):
    return len(args)


def total(*args):
    s = 0
    for a in args:
        s += a
    return s


def choose(flag):
    if flag:
        return add
    return Tools.sub


def make_adder(n):
    def adder(v):
        return v + n

    return adder


def function_values(x, o):
    o[0] = apply(add, x[0], x[1])
    o[1] = decorated(add, x[0])
    o[2] = wrapped(x[0], x[1])
    o[3] = twice(x[0]) + thrice(x[1])
    o[4] = Tools.sub(x[0], x[1])
    o[5] = apply_all((add, Tools.sub, wrapped), x[0], x[1])
    o[6] = apply(choose(True), x[0], x[1]) + apply(choose(False), x[0], x[1])
    o[7] = make_adder(x[2])(x[0])
    f = make_adder(5)
    o[8] = f(x[0]) + f(x[1])
    o[9] = apply(max, x[0], x[1], x[2])
    o[10] = apply(later, x[0])
    o[11] = apply(lambda a, b: a * 10 + b, x[0], x[1])
    g = add if OFFSET == 100 else not_defined_anywhere  # noqa: F821
    o[12] = g(1, x[0])
    o[13] = apply(math.floor, x[0] + 0.5)


CONFIG = {"offset": 7, 3: (add, mul), "weights": (2, 5)}
scaled = functools.partial(mul, c=4)
bound = functools.partial(scaled, 10)
negated = functools.partial(operator.neg)


def constants(x, o):
    o[0] = CONFIG["offset"] + CONFIG["weights"][1]
    o[1] = CONFIG[3][0](x[0], 1)
    o[2] = scaled(x[0]) + scaled(x[0], x[1]) + scaled(x[0], c=1)
    o[3] = bound() + bound(x[1])
    o[4] = apply(bound, x[1]) + negated(x[0])
    part = slice(1, 3)
    y = x[part]
    o[5] = y[0] * 10 + len(y) + len(x[slice(2)]) + x[slice(None, None, -1)][0]
    o[6] = window(x, slice(1, None)) + window(x, slice(x[1] * 0, 2, 1))


def window(x, part):
    return x[part][0]


def arguments(x, o):
    o[0] = mul(x[0])
    o[1] = mul(x[0], x[1])
    o[2] = mul(b=x[1], a=x[0], c=x[2])
    o[3] = mul(x[0], c=7)
    t = (x[0], x[1])
    o[4] = mul(*t)
    o[5] = add(*t) + total(*t, 1, *(x[2], 4))
    o[6] = count() + 10 * count(1) + 100 * count(*t, *t)
    o[7] = total()
    u = (*t, 5)
    o[8] = u[2] + len(u)
    first, *rest = (x[0], x[1], x[2], 4)
    o[9] = first + total(*rest)
    *front, last = u
    o[10] = last * 10 + len(front)
    a, *_, b = (1, 2, x[0], 9)
    o[11] = a + b


def inner_functions(x, o):
    k = x[0]

    def plus(a, b=10):
        return a + b + k + OFFSET

    o[0] = plus(1)
    o[1] = plus(1, 2)
    o[2] = plus(1, b=x[1])
    k = x[1]
    o[3] = plus(1)  # the variable's value when it is called

    def outer(a):
        def inner(b):
            return a * b + k

        return inner(3) + plus(a)

    o[4] = outer(x[2])
    o[5] = apply(plus, 1, 2)
    o[6] = apply(outer, x[2])
    for i in range(4):
        o[7] += (lambda v: v * i + k)(2)
    square = lambda v: v * v  # noqa: E731
    o[8] = square(x[0]) + apply(square, 4)

    def compose(f, g):
        return lambda v: g(f(v))

    o[9] = compose(square, plus)(3)
    o[10] = later_inner(2)

    def power(base, n):
        return 1 if n == 0 else base * power(base, n - 1) + (k - k)

    o[11] = power(x[2], 5) + apply(power, 2, x[2])

    def maker(n):
        return lambda v: v * n + k  # k as it is when this is called, not when it is made

    f = maker(10)
    k = x[2]
    o[12] = f(1)
    for _ in range(3):
        g = maker(2)
        h = lambda v: g(v) + f(v)  # noqa: B023, E731
        k = k + 1
        o[13] += h(x[0])


def later_inner(a):
    def first(b):
        return second(b) + 1

    def second(b):
        return b * a

    return first(5)


def later(v):
    return v + 1


KERNELS = [function_values, constants, arguments, inner_functions]


@pytest.mark.parametrize("values", [(5, 3, 2), (0, -1, 7)])
@pytest.mark.parametrize("kernel", KERNELS)
def test_as_in_python(run, kernel, values):
    x = np.array(values)
    out, expected = np.zeros(16, np.int64), np.zeros(16, np.int64)
    run(kernel, "int64[::1], int64[::1]", 1, 1, x, out)
    kernel(x, expected)
    np.testing.assert_array_equal(out, expected)


def make_kernel(operation, size, flag):
    """What a program does that makes kernels: function, number and flag are chosen on the host."""

    def kernel(x, o):
        buffer = cuda.local.array(size, np.int64)
        for k in range(size):
            buffer[k] = operation(x[k], 2)
        if flag:
            host_only()
        o[0] = buffer[size - 1]

    return kernel


def host_only():
    return open("nothing")


@pytest.mark.parametrize("operation", [add, Tools.sub, lambda a, b: a * b, Wrapped(add), device_function(add)])
@pytest.mark.parametrize("size", [2, 3])
def test_kernels_made_by_functions(run, operation, size):
    x, out = np.array([4, 6, 9]), np.zeros(1, np.int64)
    run(make_kernel(operation, size, False), "int64[::1], int64[::1]", 1, 1, x, out)
    assert out[0] == operation(int(x[size - 1]), 2)


def sized(shape, dtype, value):
    buffer = cuda.local.array(shape, dtype)
    buffer[0, 0] = value
    return buffer[0, 0] + buffer.size + buffer.itemsize


def passes_constants(o):
    o[0] = sized((2, 3), np.float32, 1.5)
    o[1] = sized(shape=(4, 4), dtype=np.int8, value=o[0])
    o[2] = named("b", None)
    o[3] = named("a", None)
    o[4] = named("a", 3)
    o[5] = named("c", (1, 2))


def named(name, extra):
    if name == "a":
        if extra is None:
            return 1.0
        return 2.0 * extra
    if isinstance(extra, tuple):
        return extra[1] * 100.0
    return 3.0


def test_constants_reach_the_callee(run):
    out = np.zeros(6)
    run(passes_constants, "float64[::1]", 1, 1, out)
    np.testing.assert_array_equal(out, [1.5 + 6 + 4, 11 + 16 + 1, 3.0, 1.0, 6.0, 200.0])


def is_even(n):
    if n == 0:
        return True
    return is_odd(n - 1)


def is_odd(n):
    if n == 0:
        return False
    return is_even(n - 1)


def collatz(n, steps=0):
    if n == 1:
        return steps
    if n % 2 == 0:
        return collatz(n // 2, steps + 1)
    return collatz(3 * n + 1, steps=steps + 1)


def decreasing(x, y):
    if x > 1 and y > 0:
        return x + decreasing(x - y, y)
    return y


def bounded(n):
    if n > 100:
        return None
    if n > 50:
        return n, 1
    return bounded(n * 2)


def recursion(x, o):
    o[0] = is_even(x[0])
    o[1] = is_odd(x[0])
    o[2] = collatz(x[1])
    o[3] = int(decreasing(x[2], 0.5) * 8)
    pair = bounded(x[1])
    o[4] = -1 if pair is None else pair[0] + pair[1]


@pytest.mark.parametrize("values", [(6, 7, 5), (3, 27, 2), (0, 101, 9)])
def test_recursion(run, values):
    x = np.array(values)
    out, expected = np.zeros(5, np.int64), np.zeros(5, np.int64)
    run(recursion, "int64[::1], int64[::1]", 1, 1, x, out)
    recursion(x, expected)
    np.testing.assert_array_equal(out, expected)


class Kernels:
    @staticmethod
    def kernel(x, o):
        o[0] = Kernels.helper(x[0])

    @staticmethod
    def helper(v):
        return v + OFFSET


def test_static_methods(run):
    x, out = np.array([4]), np.zeros(1, np.int64)
    run(Kernels.kernel, "int64[::1], int64[::1]", 1, 1, x, out)
    assert out[0] == 104


def block_sum(x, o):
    shared = cuda.shared.array(64, np.int64)
    t = cuda.threadIdx.x

    def reduce_by(combine):
        shared[t] = x[t]
        step = 32
        while step > 0:
            cuda.syncthreads()
            if t < step:
                shared[t] = combine(shared[t], shared[t + step])
            step //= 2
        cuda.syncthreads()
        first = shared[0]
        cuda.syncthreads()  # before the array is filled anew
        return first

    result = reduce_by(lambda a, b: a + b)
    largest = reduce_by(max)
    if t == 0:
        o[0] = result
        o[1] = largest


def test_barriers_in_inner_functions(run):
    x, out = np.arange(64)[::-1].copy(), np.zeros(2, np.int64)
    run(block_sum, "int64[::1], int64[::1]", 1, 64, x, out)
    assert tuple(out) == (x.sum(), 63)


def any_number(o, *args):
    o[0] = len(args)
    for a in args:
        if isinstance(a, tuple):
            o[1] += total(*a)
        else:
            o[1] += a


@pytest.mark.parametrize("arguments", [(), (1,), (1, 2.5, (3, 4.5))])
def test_kernels_with_any_number_of_arguments(run, arguments):
    signature = ", ".join(["float64[::1]", *(read_argument(value).type.name for value in arguments)])
    out, expected = np.zeros(2), np.zeros(2)
    run(any_number, signature, 1, 1, out, *arguments)
    any_number(expected, *arguments)
    np.testing.assert_array_equal(out, expected)


def test_launches_with_any_number_of_arguments():
    launched = kernel(any_number)
    for arguments in ((), (1,), (1.5, 2), (1,), (3, 4.5)):
        out, expected = np.zeros(2), np.zeros(2)
        launched[1, 1](out, *arguments)
        any_number(expected, *arguments)
        np.testing.assert_array_equal(out, expected)
    with pytest.raises(LaunchError, match="wrong number of arguments"):
        launched[1, 1]()


def weigh(a, b, pair):
    return 1000 * a + 100 * b + 10 * pair[0] + pair[1]


def calls_that_are_alike(x, out):
    """Of the same types; only some name one value twice, at the top or in a tuple."""
    u, v = x[0], x[1]
    out[0] = weigh(u, v, (u, 5))
    out[1] = weigh(u, v, (v, 5))
    out[2] = weigh(v, v, (u, 5))
    out[3] = weigh(u, v, (x[2], 5))
    for i in range(3):
        u = weigh(u % 7, x[i], (weigh(u % 3, x[i], (u % 5, x[i])), x[0]))
    out[4] = u


def test_calls_that_are_alike_but_for_values_named_twice(run):
    x, out, expected = np.arange(2, 5), np.zeros(5, np.int64), np.zeros(5, np.int64)
    run(calls_that_are_alike, "int64[::1], int64[::1]", 1, 1, x, out)
    calls_that_are_alike(x, expected)
    np.testing.assert_array_equal(out, expected)
