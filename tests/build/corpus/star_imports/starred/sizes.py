# SPDX-License-Identifier: Apache-2.0
from .base import *

__all__ = ["N", "SHAPE", "helper", "W"]
N = 3
SHAPE = (N, BASE)
_HIDDEN = 9
W = 1


def helper(a):
    return a + _HIDDEN
