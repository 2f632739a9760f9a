# SPDX-License-Identifier: Apache-2.0
from . import base

base.Scheme.order = 4
base.Scheme.weight = lambda self: self.order * 10
base.coefficient = lambda: 7
setattr(base, "N", 9)
vars(base)["M"] = 5
