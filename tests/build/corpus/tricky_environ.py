# SPDX-License-Identifier: Apache-2.0
"""Values from the environment: read in every way, written by the module itself, in a function."""
# expect: k: N = 5; M = 7; P = 9; Q = 1
import os

import cudabuild as cb

os.environ["TRICKY_N"] = "5"
os.environ.setdefault("TRICKY_M", "7")
os.environ.update({"TRICKY_P": "9"})
N = int(os.environ["TRICKY_N"])
M = int(os.environ.get("TRICKY_M", "0"))
getenv = os.getenv
P = int(getenv("TRICKY_P") or 0)


def flag(name):
    return os.environ.get(name, "yes") == "yes"


Q = int(flag("TRICKY_NOT_SET"))


@cb.kernel("float32[::1]")
def k(x):
    x[0] = N + M + P + Q
