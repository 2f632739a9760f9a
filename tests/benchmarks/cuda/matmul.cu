// SPDX-License-Identifier: Apache-2.0
#define TILE 16

extern "C" __global__ void matmul(float* __restrict__ c, int c_rows, int c_columns, const float* __restrict__ a, int rows,
                                  int inner, const float* __restrict__ b, int b_rows, int columns)
{
    __shared__ float left[TILE][TILE];
    __shared__ float right[TILE][TILE];
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int tx = threadIdx.x, ty = threadIdx.y;
    float total = 0.0f;
    for (int start = 0; start < inner; start += TILE) {
        left[ty][tx] = row < rows && start + tx < inner ? a[row * inner + start + tx] : 0.0f;
        right[ty][tx] = start + ty < inner && column < columns ? b[(start + ty) * columns + column] : 0.0f;
        __syncthreads();
        for (int k = 0; k < TILE; k++)
            total += left[ty][k] * right[k][tx];
        __syncthreads();
    }
    if (row < rows && column < columns)
        c[row * c_columns + column] = total;
}
