# SPDX-License-Identifier: Apache-2.0
"""Tables that loops fill: nested, with break, continue and else, by index, by append, over other tables."""
# expect: k: SQUARES = (0, 1, 4, 9, ); PRIMES = (2, 3, 5, 7, 11, 13, ); LAST = 3; STEPS = 111; FLAT = (1, 2, 3, 4, )
import cudabuild as cb

squares = [0] * 4
for i in range(4):
    squares[i] = i * i
SQUARES = tuple(squares)
LAST = i

primes = []
for n in range(2, 15):
    for p in primes:
        if n % p == 0:
            break
    else:
        primes.append(n)
PRIMES = tuple(primes)

STEPS, value = 0, 27
while value != 1:
    value = value // 2 if value % 2 == 0 else 3 * value + 1
    STEPS += 1

nested = [[1, 2], [3, 4]]
flat = []
for row in nested:
    for element in row:
        if element == 3:
            flat += [element]
            continue
        flat.append(element)
FLAT = tuple(flat)


@cb.kernel("float32[::1]")
def k(x):
    x[0] = SQUARES[1] + PRIMES[2] + LAST + STEPS + FLAT[3]
