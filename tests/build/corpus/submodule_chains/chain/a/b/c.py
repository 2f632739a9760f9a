# SPDX-License-Identifier: Apache-2.0
from ... import a

N = a.LEVEL * 10
N += 1
