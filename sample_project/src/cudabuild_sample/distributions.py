# SPDX-License-Identifier: Apache-2.0
"""Distribution functions in plain Python: a kernel that calls one compiles it along with itself."""

import math

__all__ = ["normal_cdf"]

#: Abramowitz and Stegun, formula 26.2.17: |error| < 7.5e-8.
COEFFICIENTS = (0.31938153, -0.356563782, 1.781477937, -1.821255978, 1.330274429)
SCALE = 0.2316419
INVERSE_ROOT_2PI = 1 / math.sqrt(2 * math.pi)


def normal_cdf(x):
    """The cumulative distribution function of the standard normal distribution."""
    t = 1 / (1 + SCALE * abs(x))
    a1, a2, a3, a4, a5 = COEFFICIENTS
    tail = INVERSE_ROOT_2PI * math.exp(-0.5 * x * x) * (t * (a1 + t * (a2 + t * (a3 + t * (a4 + t * a5)))))
    return 1 - tail if x > 0 else tail
