# SPDX-License-Identifier: Apache-2.0
"""Device functions in tuples, and tables of them that are changed before the kernel takes one."""
# expect: k: chosen = function chosen; chosen/WEIGHT = 6; pair = (function pair, function chosen, )
import cudabuild as cb

WEIGHT = 2


def light(a):
    return a + 1


def heavy(a):
    return a * WEIGHT


table = {"fast": light}
table["exact"] = light
table.update(exact=heavy)
chosen = table["exact"]
pair = tuple(sorted([heavy, light], key=lambda f: -len(f.__name__)))[::-1]
pair = (light, heavy)
WEIGHT *= 3


@cb.kernel("float32[::1]")
def k(x):
    x[0] = chosen(x[0]) + pair[0](x[1])
