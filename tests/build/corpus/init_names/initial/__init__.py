# SPDX-License-Identifier: Apache-2.0
"""A package whose names come from its ``__init__``, which needs what is missing for other things."""
import missing_thing  # blame: initial.kernels:needs_missing

from .sizes import N
from . import sizes as dimensions
from .kernels import k

VERSION = (1, 2)
dimensions.LATE = 21
table = missing_thing.load() if k else None
