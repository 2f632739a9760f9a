# SPDX-License-Identifier: Apache-2.0
"""numba's switches: cudabuild's own ``cuda.config``, and those that the suite reads or sets and that mean nothing."""

from __future__ import annotations

import sys

from cudabuild.cuda import config

__all__: list[str] = []

_MEANINGLESS = {
    "ALWAYS_WARN_UNINIT_VAR": 0,
    "CUDA_ARRAY_INTERFACE_SYNC": 1,
    "CUDA_DEALLOCS_COUNT": 10,
    "CUDA_DEALLOCS_RATIO": 0.2,
    "CUDA_DEBUGINFO_DEFAULT": 0,
    "CUDA_DEBUG_POLY": 0,
    "CUDA_DEBUG_POLY_USE_TYPED_CONST": 1,
    "CUDA_DEFAULT_PTX_CC": (7, 5),
    "CUDA_ENABLE_MINOR_VERSION_COMPATIBILITY": 0,
    "CUDA_ENABLE_NRT": 0,
    "CUDA_INCLUDE_PATH": "",
    "CUDA_MEMORY_MANAGER": "default",
    "CUDA_NRT_STATS": 0,
    "CUDA_NVRTC_EXTRA_SEARCH_PATHS": "",
    "CUDA_PER_THREAD_DEFAULT_STREAM": 0,
    "CUDA_USE_NVIDIA_BINDING": 1,
    "DEBUGINFO_DEFAULT": 0,
    "DUMP_ASSEMBLY": 0,
    "DUMP_BYTECODE": 0,
    "DUMP_CFG": 0,
    "DUMP_IR": 0,
    "DUMP_LLVM": 0,
    "DUMP_OPTIMIZED": 0,
    "FORCE_CUDA_CC": None,
    "HTML": None,
    "IS_WIN32": sys.platform.startswith("win32"),
    "NRT_STATS": 0,
    "OPT": 3,
}

for _name, _value in _MEANINGLESS.items():
    if not hasattr(config, _name):
        setattr(config, _name, _value)
sys.modules[__name__] = config
