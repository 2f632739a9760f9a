# SPDX-License-Identifier: Apache-2.0
from . import _deeper

OFFSET = 3
OFFSET += 1


def helper(value):
    return _deeper.inner(value) + OFFSET
