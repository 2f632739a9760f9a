# SPDX-License-Identifier: Apache-2.0
"""Gravity among many bodies, every pair counted."""

import math

from cudabuild import cuda, device_function, kernel

__all__ = ["nbody_step"]

#: Added to squared distances: close encounters stay finite, and a body does not pull itself.
SOFTENING = 1e-2


@device_function
def attraction(dx, dy, dz, mass):
    """The factor that turns a distance vector into an acceleration: mass / distance**3."""
    inverse = 1 / math.sqrt(dx * dx + dy * dy + dz * dz + SOFTENING)
    return mass * inverse * inverse * inverse


@kernel("float32[:, ::1], float32[:, ::1], float32[:, ::1], float32")
def nbody_step(moved, bodies, velocity, dt):
    """One step of n bodies (x, y, z, mass): updates ``velocity``, writes the new places to ``moved``."""
    i = cuda.grid(1)
    if i < bodies.shape[0]:
        x = bodies[i, 0]
        y = bodies[i, 1]
        z = bodies[i, 2]
        ax = ay = az = 0.0
        for j in range(bodies.shape[0]):
            dx = bodies[j, 0] - x
            dy = bodies[j, 1] - y
            dz = bodies[j, 2] - z
            pull = attraction(dx, dy, dz, bodies[j, 3])
            ax += pull * dx
            ay += pull * dy
            az += pull * dz
        velocity[i, 0] += dt * ax
        velocity[i, 1] += dt * ay
        velocity[i, 2] += dt * az
        moved[i, 0] = x + dt * velocity[i, 0]
        moved[i, 1] = y + dt * velocity[i, 1]
        moved[i, 2] = z + dt * velocity[i, 2]
        moved[i, 3] = bodies[i, 3]
