# SPDX-License-Identifier: Apache-2.0
N = 1
HEAVY = 0
table = [1]
