# SPDX-License-Identifier: Apache-2.0
from . import base

base.N = 50
base.table.append(50)
