# SPDX-License-Identifier: Apache-2.0
"""The Python device: a kernel's own bytecode, one thread of control per CUDA thread."""
