// SPDX-License-Identifier: Apache-2.0
extern "C" __global__ void saxpy(float a, const float* __restrict__ x, int nx, float* __restrict__ y, int ny)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < ny)
        y[i] = a * x[i] + y[i];
}
