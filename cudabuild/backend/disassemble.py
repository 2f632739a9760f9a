# SPDX-License-Identifier: Apache-2.0
"""Machine code as text, by NVIDIA's nvdisasm."""

from __future__ import annotations

import os
import subprocess
import tempfile

from cudabuild.errors import ToolError

__all__ = ["disassemble"]


def disassemble(cubin: bytes) -> str:
    """The machine code of a cubin.

    Raises:
        ToolError: nvdisasm is missing, or does not take the cubin.
    """
    from cuda.pathfinder import find_nvidia_binary_utility

    found = find_nvidia_binary_utility("nvdisasm")
    if found is None:
        raise ToolError("showing machine code needs nvdisasm: pip install nvidia-cuda-nvdisasm")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "kernel.cubin")
        with open(path, "wb") as file:
            file.write(cubin)
        done = subprocess.run([found, path], capture_output=True, text=True, check=False)
    if done.returncode:
        raise ToolError(f"nvdisasm failed: {done.stderr.strip()}")
    return done.stdout
