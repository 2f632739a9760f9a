# SPDX-License-Identifier: Apache-2.0
"""Names that ``exec``, ``eval``, ``globals``, ``setattr`` on the module and ``type`` make."""
# expect: k: A = 2; B = 6; C = 8; D = 5; Made.E = 4
import sys

import cudabuild as cb

for name, value in (("A", 1), ("B", 3)):
    exec(f"{name} = {value} * 2")
C = eval("A * 4")
globals().update(D=4)
vars()["D"] += 1
Made = type("Made", (), {"E": 4})
A = A if "A" in globals() else 0


@cb.kernel("float32[::1]")
def k(x):
    x[0] = A + B + C + D + Made.E
