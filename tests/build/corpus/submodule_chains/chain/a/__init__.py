# SPDX-License-Identifier: Apache-2.0
LEVEL = 1
