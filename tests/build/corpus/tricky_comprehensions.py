# SPDX-License-Identifier: Apache-2.0
"""Comprehensions: names that they hide, effects inside, several levels, generators that run later."""
# expect: k: n = 7; TABLE = (1, 4, 9, ); TOTAL = 12; PAIRS = 4; LATER = (5, 6, ); KEYS = 3
import cudabuild as cb

n = 7
TABLE = tuple(n * n for n in (1, 2, 3))
effects = []
[effects.extend(row) for row in [[1, 2], [4, 5]]]
TOTAL = sum(effects)
PAIRS = len({(a, b) for a in range(3) for b in range(a + 1) if (a + b) % 2 == 0})
late = (effects.append(m) or m for m in (5, 6))
LATER = tuple(late)
index = {name: [position for position in range(n)] for n, name in enumerate("abc")}
KEYS = len(index) if len(effects) == 6 else 0


@cb.kernel("float32[::1]")
def k(x):
    x[0] = n + TABLE[2] + TOTAL + PAIRS + LATER[1] + KEYS
