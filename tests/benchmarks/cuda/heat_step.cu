// SPDX-License-Identifier: Apache-2.0
extern "C" __global__ void heat_step(float* __restrict__ next, int next_rows, int next_columns,
                                     const float* __restrict__ old, int rows, int columns, float alpha)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int i = row * columns + column;
    if (0 < row && row < rows - 1 && 0 < column && column < columns - 1) {
        float around = old[i - columns] + old[i + columns] + old[i - 1] + old[i + 1];
        next[row * next_columns + column] = old[i] + alpha * (around - 4.0f * old[i]);
    } else if (row < rows && column < columns) {
        next[row * next_columns + column] = old[i];
    }
}
