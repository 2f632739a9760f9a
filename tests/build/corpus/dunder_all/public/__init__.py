# SPDX-License-Identifier: Apache-2.0
"""``__all__`` that is computed, changed and made of other modules' lists."""
from . import numbers, tables
from .numbers import *
from .tables import *

__all__ = numbers.__all__ + tables.__all__
