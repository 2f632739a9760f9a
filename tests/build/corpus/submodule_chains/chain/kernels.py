# SPDX-License-Identifier: Apache-2.0
"""Dotted names over several packages, each spelled as Python allows."""
# expect: k: chain.a.LEVEL = 1; chain.a.b.LEVEL = 2; chain.a.b.c.N = 11; cc.N = 11; bb.c.N = 11; M = 11
import chain.a.b.c
import chain.a.b.c as cc
import cudabuild as cb
from chain.a import b as bb
from chain.a.b.c import N as M


@cb.kernel("float32[::1]")
def k(x):
    x[0] = chain.a.LEVEL + chain.a.b.LEVEL + chain.a.b.c.N + cc.N + bb.c.N + M
