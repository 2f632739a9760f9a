# SPDX-License-Identifier: Apache-2.0
# expect: k1: N = 1
# expect: k2: N = 1
# expect: k3: N = 1
# expect: k4: N = 1
# expect: k5: N = 1
# expect: k6: N = 1
# expect: k7: N = 1
# expect: k8: N = 1
# expect: k9: N = 1
# expect: k10: N = 1
# expect: k11: N = 1
# expect: k12: N = 1
# expect: k13: N = 1
# expect: k14: N = 1
# expect: first: N = 1
# expect: second: N = 1
# expect: third: N = 1
# expect: <lambda>: N = 1
# expect: fifth: N = 1
import cudabuild as cb
from cudabuild.cuda import float32
from cudabuild.cuda import jit as cuda_jit

from . import _compat
from ._compat import as_lambda, chosen, fast, inner_wrapped, jit, table, typed, wrapped
from ._compat import Space

N = 1


@jit("float32[::1]")
def k1(x):
    x[0] = N


@fast("float32[::1]")
def k2(x):
    x[0] = N


@_compat.chosen("float32[::1]")
def k3(x):
    x[0] = N


@typed
def k4(x):
    x[0] = N


@as_lambda("float32[::1]")
def k5(x):
    x[0] = N


@Space.other("float32[::1]")
def k6(x):
    x[0] = N


@table["kernel"]("float32[::1]")
def k7(x):
    x[0] = N


@wrapped("float32[::1]")
def k8(x):
    x[0] = N


@inner_wrapped("float32[::1]")
def k9(x):
    x[0] = N


@cuda_jit("void(float32[::1])")
def k10(x):
    x[0] = N


@_compat.cuda.jit("void(float32[::1])", fastmath=True)
def k11(x):
    x[0] = N


for _ in range(1):
    with open(__file__):

        @cb.kernel("float32[::1]")
        def k12(x):
            x[0] = N


try:

    @cb.kernel
    def k13(x: float32[::1]):
        x[0] = N
finally:
    pass


@(jit if N else chosen)("float32[::1]")
def k14(x):
    x[0] = N


def first(x):
    x[0] = N


def second(x):
    x[0] = N


def third(x):
    x[0] = N


def fifth(x):
    x[0] = N


called = cb.kernel("float32[::1]")(first)
held = {"second": cb.kernel("float32[::1]")(second)}
held["third"] = typed(third)
anonymous = cb.kernel("float32[::1]")(lambda x: None if N else None)
held.setdefault("fifth", jit("float32[::1]")(fifth))
