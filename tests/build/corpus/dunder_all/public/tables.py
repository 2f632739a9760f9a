# SPDX-License-Identifier: Apache-2.0
import missing_thing

__all__ = [name for name in ("TABLE", "plot")]
TABLE = (5, 6)


def plot():
    return missing_thing.plot(TABLE)
