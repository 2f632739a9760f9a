# SPDX-License-Identifier: Apache-2.0
from . import c
from .. import LEVEL

LEVEL = LEVEL + 1
