# SPDX-License-Identifier: Apache-2.0
"""Names that are bound again: before the kernel, after it, in part, in a chain, deleted in between."""
# expect: k: N = 12; M = 3; P = 7; Q = 5; R = 1.5
# expect: late: N = 12
import cudabuild as cb

N = 4
N *= 2
M, P = 7, 3
M, P = P, M
Q = R = 1
R /= 2
R += 1
del Q
Q = 5


@cb.kernel("float32[::1]")
def k(x):
    x[0] = N + M + P + Q + R


@cb.kernel("float32[::1]")
def late(x):
    x[0] = N


N += 4
