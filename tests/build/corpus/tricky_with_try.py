# SPDX-License-Identifier: Apache-2.0
"""Values that ``with`` and ``try`` statements of every shape give, and statements in each of their parts."""
# expect: k: N = 2; E = 1; F = 4; G = 3; H = (1, 2, 3, ); I = 6; J = 1
import contextlib

import cudabuild as cb

try:
    N = int("two")
except ValueError:
    N = 2
else:
    N = 3

log = []
try:
    E = 1
finally:
    log.append(4)
F = log[0]


@contextlib.contextmanager
def recording(name):
    log.append(1)
    try:
        yield len(log)
    finally:
        log.append(2)


with recording("a"):
    pass
G = len(log)

h = []
with contextlib.ExitStack() as stack:
    stack.callback(h.append, 3)
    stack.callback(h.append, 2)
    h.append(1)
H = tuple(h)


class Guard:
    def __init__(self):
        self.value = 0

    def __enter__(self):
        self.value += 2
        return self

    def __exit__(self, *error):
        self.value += 4
        return True


with Guard() as guard:
    raise KeyError("swallowed")
I = guard.value

try:
    try:
        raise IndexError
    except KeyError:
        J = 0
except LookupError as error:
    J = int(isinstance(error, IndexError))


@cb.kernel("float32[::1]")
def k(x):
    x[0] = N + E + F + G + H[0] + I + J
