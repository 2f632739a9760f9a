# SPDX-License-Identifier: Apache-2.0
N = 6
LATE = 20
table = 5
