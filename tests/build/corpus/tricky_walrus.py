# SPDX-License-Identifier: Apache-2.0
"""Assignment expressions wherever an expression may stand, comprehensions included."""
# expect: k: A = 3; B = 5; LAST = 4; D = 9; E = (1, 2, ); F = 2; HIT = 3
import cudabuild as cb

if (A := 3) > 2 and (B := A + 2):
    pass
squares = [LAST := n for n in range(5)]
while (D := len(squares)) < 9:
    squares.append(0)
E = ((first := 1), first + 1)
F = len(E) if (flag := True) else 0
any((HIT := n) > 2 for n in range(10))


@cb.kernel("float32[::1]")
def k(x):
    x[0] = A + B + LAST + D + E[1] + F + HIT
