# SPDX-License-Identifier: Apache-2.0
"""Kernels that are made at run time: listed by name, at every depth, and never mistaken for others."""
# left: make.<locals>.inner: it is made at run time, inside a function
# left: Factory.build.<locals>.k: it is made at run time, inside a function
# left: call.<locals>.made: it is made at run time, inside a function
# left: maker.<locals>.Local.k: it is made at run time, inside a function
# left: held: it is made at run time, inside a function
# expect: plain: N = 2
import functools

import cudabuild as cb

N = 2


def make(n):
    @cb.kernel("float32[::1]")
    def inner(x):  # blame: make.<locals>.inner
        x[0] = n

    return inner


class Factory:
    def build(self):
        @functools.wraps(make)
        @cb.kernel
        def k(x):  # blame: Factory.build.<locals>.k
            x[0] = 1

        return k


def body(x):
    x[0] = N


def call():
    made = cb.kernel("float32[::1]")(body)  # blame: call.<locals>.made
    return made


def maker():
    class Local:
        @staticmethod
        @cb.kernel("float32[::1]")
        def k(x):  # blame: maker.<locals>.Local.k
            x[0] = 1

    return Local


class Compiled:
    def __init__(self, function):
        self.function = function

    def __call__(self, *arguments):
        cb.kernel(self.function)[1, 1](*arguments)


@Compiled
def held(x):  # blame: held
    x[0] = 1


@cb.kernel("float32[::1]")
def plain(x):
    x[0] = N
