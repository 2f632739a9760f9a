# SPDX-License-Identifier: Apache-2.0
"""Eight CUDA kernels written in Python and compiled when this package's wheel was built."""

from cudabuild_sample.bodies import nbody_step
from cudabuild_sample.fractals import mandelbrot
from cudabuild_sample.heat import heat_step
from cudabuild_sample.histograms import histogram
from cudabuild_sample.pricing import black_scholes
from cudabuild_sample.products import matmul
from cudabuild_sample.sums import block_sum
from cudabuild_sample.vectors import saxpy

__all__ = ["black_scholes", "block_sum", "heat_step", "histogram", "mandelbrot", "matmul", "nbody_step", "saxpy"]
