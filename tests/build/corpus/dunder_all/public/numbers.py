# SPDX-License-Identifier: Apache-2.0
__all__ = ["N"]
__all__ += ["M"]
__all__.append("P")
N, M, P, _Q = 1, 2, 3, 4
__all__.extend(["_Q"])
