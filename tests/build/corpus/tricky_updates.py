# SPDX-License-Identifier: Apache-2.0
"""Every method and operator that changes a list, dict, set or bytearray in place, through other names too."""
# expect: k: A = (1, 2, 3, 9, ); D = 6; S = 3; B = 65; U = (3, 2, 1, ); W = (1, 0, )
import cudabuild as cb

a = [3]
a.insert(0, 1)
a[1:1] = [2]
alias = a
alias.extend([9, 9])
a.pop()
A = tuple(a)

d = {"n": 1}
d.update(n=2)
d |= {"m": 3}
d.setdefault("o", 1)
D = sum(d.values())

s = {1}
s.add(2)
s |= {3, 4}
s.discard(4)
S = len(s)

b = bytearray(b"xyz")
b[0] = 65
B = b[0]

u = [1, 2, 3]
u.reverse()
U = tuple(u)

w = [0, 0]
views = {"w": w}
views["w"][0] += 1
W = tuple(w)


@cb.kernel("float32[::1]")
def k(x):
    x[0] = A[0] + D + S + B + U[0] + W[0]
