// SPDX-License-Identifier: Apache-2.0
#define BINS 256

extern "C" __global__ void histogram(unsigned* __restrict__ counts, int n_counts, const unsigned char* __restrict__ data,
                                     int n)
{
    __shared__ unsigned block_counts[BINS];
    for (int value = threadIdx.x; value < BINS; value += blockDim.x)
        block_counts[value] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&block_counts[data[i]], 1u);
    __syncthreads();
    for (int value = threadIdx.x; value < BINS; value += blockDim.x)
        atomicAdd(&counts[value], block_counts[value]);
}
