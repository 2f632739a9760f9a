# SPDX-License-Identifier: Apache-2.0
"""NumPy tables: filled in loops, through views, by ``out=``, in-place functions and methods, with a seeded generator."""
# expect: k: A = 6.0; B = 10.0; C = 9.0; D = 3.0; E = 2.0; F = 1; G = 4.5; H = 0.77395605
import numpy as np

import cudabuild as cb

a = np.zeros((2, 2))
for i in range(2):
    for j in range(2):
        a[i, j] = i + 2 * j
A = float(a.sum())

b = np.zeros(4)
np.add.at(b, [0, 0, 1], 5)
B = float(b[0])

c = np.arange(3.0)
view = c[::-1]
np.square(c, out=c)
np.copyto(view[:1], 5)
c.sort()
C = float(c[1] + c[2] * 1.6)

d = np.array([3.0, 1.0])
d.fill(1.5)
D = float(d.sum())

e = np.ones(2)
e *= 2
E = float(e[0])

t = np.zeros(2, dtype=[("n", "i4"), ("x", "f8")])
t["n"][1] = 1
F = int(t[1]["n"])

g = np.empty(3)
g[...] = 1.5
g.setflags(write=True)
G = float(g.sum())

rng = np.random.default_rng(42)
H = round(float(rng.random()), 8)


@cb.kernel("float64[::1]")
def k(x):
    x[0] = A + B + C + D + E + F + G + H
