// SPDX-License-Identifier: Apache-2.0
__device__ float warp_sum(float value)
{
    for (int offset = 16; offset > 0; offset /= 2)
        value += __shfl_down_sync(0xFFFFFFFF, value, offset);
    return value;
}

extern "C" __global__ void block_sum(float* __restrict__ total, int n_total, const float* __restrict__ x, int n)
{
    __shared__ float partial[32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float value = 0.0f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        value += x[i];
    value = warp_sum(value);
    if (lane == 0)
        partial[warp] = value;
    __syncthreads();
    if (warp == 0) {
        value = warp_sum(lane < blockDim.x / 32 ? partial[lane] : 0.0f);
        if (lane == 0)
            atomicAdd(total, value);
    }
}
