# SPDX-License-Identifier: Apache-2.0
"""Modules that change others, imported under conditions: those that hold, and those that do not."""
import sys

from . import base

if sys.platform == "nowhere":
    from . import never
elif len(base.table) == 1:
    from . import always
if base.HEAVY:
    import missing_thing

    from . import heavy
