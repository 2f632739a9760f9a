# SPDX-License-Identifier: Apache-2.0
"""Every way to spell the decorator."""
import functools

import cudabuild
from cudabuild import cuda
from cudabuild import kernel as direct

jit = cudabuild.kernel
fast = functools.partial(cudabuild.kernel, fastmath=True)
chosen = direct if jit is direct else None
typed = jit("float32[::1]")
as_lambda = lambda *signatures, **options: cudabuild.kernel(*signatures, **options)


class Space:
    jit = staticmethod(cudabuild.kernel)
    other = cudabuild.kernel


table = {"kernel": cudabuild.kernel, "numba": cuda.jit}


def wrapped(*signatures):
    made = cudabuild.kernel(*signatures)
    return made


def inner_wrapped(signature):
    def decorate(function):
        return direct(signature)(function)

    return decorate
