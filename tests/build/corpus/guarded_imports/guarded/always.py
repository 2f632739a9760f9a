# SPDX-License-Identifier: Apache-2.0
from . import base

base.N += 1
base.table.append(2)
