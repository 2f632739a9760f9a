# SPDX-License-Identifier: Apache-2.0
FACTOR = [2]
FACTOR.append(5)
TOP = FACTOR[-1]


def inner(value):
    return value * TOP
