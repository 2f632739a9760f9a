# SPDX-License-Identifier: Apache-2.0
_TABLE = {"SIZE": 16}
_TABLE["DEPTH"] = 4


def __getattr__(name):
    try:
        return _TABLE[name]
    except KeyError:
        raise AttributeError(name) from None
