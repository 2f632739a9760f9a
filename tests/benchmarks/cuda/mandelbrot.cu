// SPDX-License-Identifier: Apache-2.0
extern "C" __global__ void mandelbrot(int* __restrict__ counts, int height, int width, float left, float top, float step,
                                      int limit)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < height && column < width) {
        float real = left + column * step;
        float imaginary = top + row * step;
        float x = 0.0f, y = 0.0f;
        int count = 0;
        while (count < limit && x * x + y * y < 4.0f) {
            float next = x * x - y * y + real;
            y = 2.0f * x * y + imaginary;
            x = next;
            count += 1;
        }
        counts[row * width + column] = count;
    }
}
