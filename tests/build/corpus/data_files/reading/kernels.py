# SPDX-License-Identifier: Apache-2.0
"""Tables that are read from files of the package and from texts."""
# expect: k: TABLE = (3, 5, 8, ); WIDTH = 12; FALLBACK = 4
import json
import os
from pathlib import Path

import cudabuild as cb

folder = Path(__file__).parent
with open(folder / "table.txt", encoding="utf-8") as stream:
    TABLE = tuple(int(line) for line in stream)
WIDTH = json.loads('{"width": 12}')["width"]
here = os.path.join(os.path.dirname(__file__), "not_there.txt")
FALLBACK = 4 if not os.path.exists(here) else 0


@cb.kernel("float32[::1]")
def k(x):
    x[0] = TABLE[0] + WIDTH + FALLBACK
