# SPDX-License-Identifier: Apache-2.0
"""Decorators of the module's own: registries, wrappers around kernels, factories, stacks, classes."""
# expect: k: SIZE = 3
# expect: counted: SIZE = 3
# expect: stacked: SIZE = 3
# expect: mine: SIZE = 3
# left: replaced: it is a int in the end, not a cudabuild kernel
import functools

import cudabuild as cb

registry = []


def register(function):
    registry.append(function)
    return function


def named(name):
    def decorate(function):
        registry.append(name)
        return function

    return decorate


class Counted:
    def __init__(self, kernel):
        self.__wrapped__ = kernel
        self.launches = 0


def own_kernel(*signatures):
    def decorate(function):
        return cb.kernel(list(signatures))(function)

    return decorate


@register
def first():
    pass


@named("x")
def second():
    pass


SIZE = len(registry)


@register
@cb.kernel("float32[::1]")
def k(x):
    x[0] = SIZE


@Counted
@cb.kernel("float32[::1]")
def counted(x):
    x[0] = SIZE


@named("stacked")
@register
@functools.partial(cb.kernel, fastmath=True)("float32[::1]")
def stacked(x):
    x[0] = SIZE


@own_kernel("float32[::1]")
def mine(x):
    x[0] = SIZE


@len
@lambda kernel: [kernel, kernel]
@cb.kernel("float32[::1]")
def replaced(x):  # blame: replaced
    x[0] = SIZE


SIZE = 3
