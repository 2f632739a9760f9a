# SPDX-License-Identifier: Apache-2.0
"""Stores into attributes, subscripts and what lies behind them, through tuples of targets and starred ones."""
# expect: k: N = 3; Config.depth = 8; T = (0, 5, 6, ); Q = 9; LEAF = 4; Z = 2
import cudabuild as cb


class Config:
    depth = 1
    inner = None


class Node:
    def __init__(self):
        self.child = None
        self.table = [0, 0, 0]


root = Node()
root.child = Node()
root.child.table[1], *root.child.table[2:] = 5, 6
T = tuple(root.child.table)
Config.inner = root
Config.inner.leaf = 4
LEAF = root.leaf
Config.depth = 2
(Config.depth, N), Q = (8, 3), 9
grid = {}
grid["a", 0] = 1
grid["a", 0] += 1
Z = grid["a", 0]
del root.child.table


@cb.kernel("float32[::1]")
def k(x):
    x[0] = N + Config.depth + T[1] + Q + LEAF + Z
