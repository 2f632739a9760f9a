// SPDX-License-Identifier: Apache-2.0
__device__ float attraction(float dx, float dy, float dz, float mass)
{
    float inverse = 1.0f / sqrtf(dx * dx + dy * dy + dz * dz + 1e-2f);
    return mass * inverse * inverse * inverse;
}

extern "C" __global__ void nbody_step(float* __restrict__ moved, int n_moved, int four_moved,
                                      const float* __restrict__ bodies, int n, int four, float* __restrict__ velocity,
                                      int n_velocity, int three, float dt)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float x = bodies[i * four], y = bodies[i * four + 1], z = bodies[i * four + 2];
        float ax = 0.0f, ay = 0.0f, az = 0.0f;
        for (int j = 0; j < n; j++) {
            float dx = bodies[j * four] - x;
            float dy = bodies[j * four + 1] - y;
            float dz = bodies[j * four + 2] - z;
            float pull = attraction(dx, dy, dz, bodies[j * four + 3]);
            ax += pull * dx;
            ay += pull * dy;
            az += pull * dz;
        }
        velocity[i * three] += dt * ax;
        velocity[i * three + 1] += dt * ay;
        velocity[i * three + 2] += dt * az;
        moved[i * four_moved] = x + dt * velocity[i * three];
        moved[i * four_moved + 1] = y + dt * velocity[i * three + 1];
        moved[i * four_moved + 2] = z + dt * velocity[i * three + 2];
        moved[i * four_moved + 3] = bodies[i * four + 3];
    }
}
