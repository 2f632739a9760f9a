# SPDX-License-Identifier: Apache-2.0
"""European options after Black and Scholes."""

import math

from cudabuild import cuda, kernel
from cudabuild_sample.distributions import normal_cdf

__all__ = ["black_scholes"]


@kernel("float32[::1], float32[::1], float32[::1], float32[::1], float32[::1], float32, float32")
def black_scholes(call, put, price, strike, years, rate, volatility):
    """Prices of one call and one put option per element."""
    i = cuda.grid(1)
    if i < price.size:
        spread = volatility * math.sqrt(years[i])
        d1 = (math.log(price[i] / strike[i]) + (rate + 0.5 * volatility * volatility) * years[i]) / spread
        d2 = d1 - spread
        discounted = strike[i] * math.exp(-rate * years[i])
        call[i] = price[i] * normal_cdf(d1) - discounted * normal_cdf(d2)
        put[i] = discounted * normal_cdf(-d2) - price[i] * normal_cdf(-d1)
