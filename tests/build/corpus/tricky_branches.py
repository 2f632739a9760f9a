# SPDX-License-Identifier: Apache-2.0
"""Branches: on the platform, the version, on values; kernels in those that are taken and those that are not."""
# expect: k: A = 1; B = 2; DEEP = 5
# expect: taken: A = 1
# expect: twice: A = 1
# left: skipped: the branch that defines it was not taken
import platform
import sys

import cudabuild as cb

A = 1 if sys.version_info >= (3, 10) else 0
if sys.maxsize > 2**32:
    B = 2
elif A:
    B = 3
else:
    B = 4
DEEP = 0
if A:
    if not B:
        DEEP = 1
    elif platform.python_implementation():
        for DEEP in range(6):
            if DEEP == 7:
                break


@cb.kernel("float32[::1]")
def k(x):
    x[0] = A + B + DEEP


if B == 2:

    @cb.kernel("float32[::1]")
    def taken(x):
        x[0] = A

    @cb.kernel("float32[::1]")
    def twice(x):
        x[0] = A
else:

    @cb.kernel("float32[::1]")
    def skipped(x):  # blame: skipped
        x[0] = A

    @cb.kernel("float32[::1]")
    def twice(x):
        x[0] = B
