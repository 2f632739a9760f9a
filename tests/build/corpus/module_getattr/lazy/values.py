# SPDX-License-Identifier: Apache-2.0
"""A module whose names are made by ``__getattr__`` when they are asked for."""
import missing_thing  # blame: lazy.kernels:k

_made = []
_TABLE = {"SIZE": 16, "DEPTH": 3}
_TABLE["DEPTH"] += 1


def __getattr__(name):
    if name == "PLOT":
        return missing_thing.plot
    if name in _TABLE:
        _made.append(name)
        return _TABLE[name]
    if name == "COUNT":
        return len(_made)
    raise AttributeError(name)
