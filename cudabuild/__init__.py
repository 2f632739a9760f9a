# SPDX-License-Identifier: Apache-2.0
"""CUDA kernels in Python as a normal build artefact."""
