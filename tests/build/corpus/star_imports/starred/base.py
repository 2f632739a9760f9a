# SPDX-License-Identifier: Apache-2.0
import missing_thing

BASE = 11
N = 100
_PRIVATE = 5


def plot():
    missing_thing.show(BASE)
