# SPDX-License-Identifier: Apache-2.0
"""Heat conduction in a plate."""

from cudabuild import cuda, kernel

__all__ = ["heat_step"]


@kernel("float32[:, ::1], float32[:, ::1], float32")
def heat_step(new, old, alpha):
    """One explicit step of the five-point scheme; the border keeps its temperature."""
    column, row = cuda.grid(2)
    rows, columns = old.shape
    if 0 < row < rows - 1 and 0 < column < columns - 1:
        around = old[row - 1, column] + old[row + 1, column] + old[row, column - 1] + old[row, column + 1]
        new[row, column] = old[row, column] + alpha * (around - 4 * old[row, column])
    elif row < rows and column < columns:
        new[row, column] = old[row, column]
