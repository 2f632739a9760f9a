# SPDX-License-Identifier: Apache-2.0
"""Kernels that are wrong in what they call, unpack, iterate over or decide by."""

import enum
from collections import namedtuple

from cudabuild import cuda

Point = namedtuple("Point", "x y")


class Colour(enum.Enum):
    red = 1
    green = 2


def area(width, height=1, *, scale):
    return width * height * scale


def too_many_arguments(x):
    x[0] = area(1, 2, 3, scale=4)


def missing_keyword(x):
    x[0] = area(1)


def starred_array(x):
    x[0] = max(*x)


def wrong_field(x):
    p = Point(x[0], 2.0)
    x[0] = p.z


def wrong_constructor(x):
    p = Point(x[0], z=2.0)
    x[0] = p.x


def decorated_inner_function(x):
    @cuda.jit
    def double(value):
        return 2.0 * value

    x[0] = double(x[0])


def inner_function_before_its_variable(x):
    def scaled(value):
        return value * factor

    x[0] = scaled(x[0])
    factor = 2.0


def function_in_an_array(x):
    x[0] = area


def runaway(n):
    return runaway(n + 1)


def recursion_without_end(x):
    x[0] = runaway(1)


def grow(n):
    if n <= 0:
        return None
    return n, grow(n - 1)


def result_grows(x):
    grow(3)
    x[0] = 1.0


def growing_argument(n, t):
    if n == 0:
        return 0
    return growing_argument(n - 1, (t, n))


def argument_grows(x):
    x[0] = growing_argument(3, ())


def adds_a_member(x):
    x[0] = Colour.red + 1


def unknown_member(x):
    x[0] = Colour["blu"].value


def name_at_run_time(x):
    colour = Colour.red if x[0] > 0 else Colour.green
    x[0] = len(colour.name)


def pattern_of_a_class(x):
    match x[0]:
        case float():
            x[0] = 1.0


def iterates_over_a_number(x):
    for value in x[0]:
        x[1] = value


def deletes_an_element(x):
    del x[0]


def uses_a_deleted_variable(x):
    value = 1.0
    del value
    x[0] = value  # noqa: F821


def in_an_array(x):
    x[0] = 1.0 in x


def writes_a_global(x):
    global POSITION
    POSITION = 1
    x[0] = POSITION


def uses_with(x):
    with open("file") as stream:
        x[0] = stream.read()


def only_in_dead_code(x):
    if cuda.threadIdx is None:
        with open("file") as stream:
            x[0] = stream.read()
    x[0] = undefined_after_all  # noqa: F821


def kernel_of_keywords(x, **options):
    x[0] = 1.0


def isinstance_of_a_function(x):
    x[0] = isinstance(x[0], area)


def none_is_no_number(x):
    missing = None
    x[0] = missing + 1.0


TABLE = {"height": 3.0, "width": 2.0}


def unknown_entry(x):
    x[0] = TABLE["heigth"]


def entry_at_run_time(x):
    x[0] = TABLE[x[0]]


def tuple_of_an_array(x):
    x[0] = len(tuple(x))


def adds_vectors(x):
    v = cuda.float32x2(1, 2)
    w = v + v
    x[0] = w.x
