// SPDX-License-Identifier: Apache-2.0
__device__ float normal_cdf(float x)
{
    const float a1 = 0.31938153f, a2 = -0.356563782f, a3 = 1.781477937f, a4 = -1.821255978f, a5 = 1.330274429f;
    float t = 1.0f / (1.0f + 0.2316419f * fabsf(x));
    float tail = 0.39894228040143267794f * expf(-0.5f * x * x) * (t * (a1 + t * (a2 + t * (a3 + t * (a4 + t * a5)))));
    return x > 0.0f ? 1.0f - tail : tail;
}

extern "C" __global__ void black_scholes(
    float* __restrict__ call, int n_call, float* __restrict__ put, int n_put, const float* __restrict__ price, int n,
    const float* __restrict__ strike, int n_strike, const float* __restrict__ years, int n_years, float rate,
    float volatility)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float spread = volatility * sqrtf(years[i]);
        float d1 = (logf(price[i] / strike[i]) + (rate + 0.5f * volatility * volatility) * years[i]) / spread;
        float d2 = d1 - spread;
        float discounted = strike[i] * expf(-rate * years[i]);
        call[i] = price[i] * normal_cdf(d1) - discounted * normal_cdf(d2);
        put[i] = discounted * normal_cdf(-d2) - price[i] * normal_cdf(-d1);
    }
}
