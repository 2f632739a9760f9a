# SPDX-License-Identifier: Apache-2.0
"""Effects at a distance: properties, operators, iteration, context, comparison, ``__call__``, threads, deletion."""
# expect: k: A = 1; B = 2; C = 3; D = 4; E = 5; F = 6; G = 7; H = 8; I = 9
import threading

import cudabuild as cb

log = []


class Loud:
    @property
    def value(self):
        log.append("property")
        return 0

    def __add__(self, other):
        log.append("operator")
        return self

    def __iter__(self):
        log.append("iteration")
        return iter(())

    def __call__(self):
        log.append("call")

    def __getitem__(self, key):
        log.append("item")
        return 0

    def __lt__(self, other):
        log.append("compare")
        return True

    def __format__(self, spec):
        log.append("format")
        return ""

    def __bool__(self):
        log.append("truth")
        return True


loud = Loud()
loud.value
A = len(log)
loud + 1
B = len(log)
for _ in loud:
    pass
C = len(log)
loud()
D = len(log)
loud[0]
E = len(log)
loud < 3
F = len(log)
f"{loud}"
G = len(log)
if loud:
    pass
H = len(log)


def fill():
    log.append("thread")


worker = threading.Thread(target=fill)
worker.start()
worker.join()
I = len(log)


@cb.kernel("float32[::1]")
def k(x):
    x[0] = A + B + C + D + E + F + G + H + I
