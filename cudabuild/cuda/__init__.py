# SPDX-License-Identifier: Apache-2.0
"""The numba-cuda-shaped namespace: ``from cudabuild import cuda``.

Kernel-side names are objects of :mod:`cudabuild.lang`. Host-side ones are imported when they are first used.
"""

from __future__ import annotations

from cudabuild.lang.atomic import atomic
from cudabuild.lang.bits import brev, cbrt, clz, ffs, fma, popc, rsqrt, selp
from cudabuild.lang.cache import ldca, ldcg, ldcs, ldcv, ldlu, stcg, stcs, stwb, stwt
from cudabuild.lang.cooperative import cg
from cudabuild.lang.literal import literal_unroll, literally
from cudabuild.lang.memory import const, local, shared, threadfence, threadfence_block, threadfence_system
from cudabuild.lang.pointer import carray, farray, from_buffer
from cudabuild.lang.thread import blockDim, blockIdx, grid, gridDim, gridsize, laneid, threadIdx, warpsize
from cudabuild.lang.timing import clock, globaltimer, nanosleep
from cudabuild.lang.warp import (
    activemask,
    all_sync,
    any_sync,
    ballot_sync,
    eq_sync,
    lanemask_lt,
    match_all_sync,
    match_any_sync,
    shfl_down_sync,
    shfl_sync,
    shfl_up_sync,
    shfl_xor_sync,
    syncthreads,
    syncthreads_and,
    syncthreads_count,
    syncthreads_or,
    syncwarp,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cudabuild.cuda_compile import compile as compile
    from cudabuild.cuda_compile import compile_all as compile_all
    from cudabuild.cuda_compile import compile_for_current_device as compile_for_current_device
    from cudabuild.cuda_compile import compile_ptx as compile_ptx
    from cudabuild.cuda_compile import compile_ptx_for_current_device as compile_ptx_for_current_device
    from cudabuild.cuda_jit import jit as jit
    from cudabuild.host_api import Context as Context
    from cudabuild.host_api import DeviceArray as DeviceArray
    from cudabuild.host_api import DeviceDescriptor as DeviceDescriptor
    from cudabuild.host_api import Event as Event
    from cudabuild.host_api import GUFunc as GUFunc
    from cudabuild.host_api import Reduce as Reduce
    from cudabuild.host_api import Stream as Stream
    from cudabuild.host_api import UFunc as UFunc
    from cudabuild.host_api import as_cuda_array as as_cuda_array
    from cudabuild.host_api import close as close
    from cudabuild.host_api import cuda_error as cuda_error
    from cudabuild.host_api import current_context as current_context
    from cudabuild.host_api import default_stream as default_stream
    from cudabuild.host_api import defer_cleanup as defer_cleanup
    from cudabuild.host_api import detect as detect
    from cudabuild.host_api import device_array as device_array
    from cudabuild.host_api import device_array_like as device_array_like
    from cudabuild.host_api import event as event
    from cudabuild.host_api import event_elapsed_time as event_elapsed_time
    from cudabuild.host_api import external_stream as external_stream
    from cudabuild.host_api import from_cuda_array_interface as from_cuda_array_interface
    from cudabuild.host_api import get_current_device as get_current_device
    from cudabuild.host_api import gpus as gpus
    from cudabuild.host_api import guvectorize as guvectorize
    from cudabuild.host_api import is_available as is_available
    from cudabuild.host_api import is_bfloat16_supported as is_bfloat16_supported
    from cudabuild.host_api import is_cuda_array as is_cuda_array
    from cudabuild.host_api import is_float16_supported as is_float16_supported
    from cudabuild.host_api import is_supported_version as is_supported_version
    from cudabuild.host_api import legacy_default_stream as legacy_default_stream
    from cudabuild.host_api import list_devices as list_devices
    from cudabuild.host_api import managed_array as managed_array
    from cudabuild.host_api import mapped as mapped
    from cudabuild.host_api import mapped_array as mapped_array
    from cudabuild.host_api import mapped_array_like as mapped_array_like
    from cudabuild.host_api import per_thread_default_stream as per_thread_default_stream
    from cudabuild.host_api import pinned as pinned
    from cudabuild.host_api import pinned_array as pinned_array
    from cudabuild.host_api import pinned_array_like as pinned_array_like
    from cudabuild.host_api import profile_start as profile_start
    from cudabuild.host_api import profile_stop as profile_stop
    from cudabuild.host_api import profiling as profiling
    from cudabuild.host_api import reduce as reduce
    from cudabuild.host_api import require_context as require_context
    from cudabuild.host_api import select_device as select_device
    from cudabuild.host_api import stream as stream
    from cudabuild.host_api import synchronize as synchronize
    from cudabuild.host_api import to_device as to_device
    from cudabuild.host_api import vectorize as vectorize
    from cudabuild.lang.half import fp16 as fp16
    from cudabuild.lang.libdevice import libdevice as libdevice
    from cudabuild.linking import LTOIR as LTOIR
    from cudabuild.linking import Archive as Archive
    from cudabuild.linking import Cubin as Cubin
    from cudabuild.linking import CUSource as CUSource
    from cudabuild.linking import Fatbin as Fatbin
    from cudabuild.linking import LinkableCode as LinkableCode
    from cudabuild.linking import Object as Object
    from cudabuild.linking import PTXSource as PTXSource
    from cudabuild.linking import declare_device as declare_device
    from cudabuild.runtime.hints import In as In
    from cudabuild.runtime.hints import InOut as InOut
    from cudabuild.runtime.hints import Out as Out

__all__ = [
    "activemask",
    "all_sync",
    "any_sync",
    "atomic",
    "ballot_sync",
    "blockDim",
    "blockIdx",
    "brev",
    "carray",
    "cbrt",
    "cg",
    "clock",
    "clz",
    "const",
    "eq_sync",
    "farray",
    "ffs",
    "fma",
    "from_buffer",
    "globaltimer",
    "grid",
    "gridDim",
    "gridsize",
    "laneid",
    "lanemask_lt",
    "ldca",
    "ldcg",
    "ldcs",
    "ldcv",
    "ldlu",
    "literal_unroll",
    "literally",
    "local",
    "match_all_sync",
    "match_any_sync",
    "nanosleep",
    "popc",
    "rsqrt",
    "selp",
    "shared",
    "shfl_down_sync",
    "shfl_sync",
    "shfl_up_sync",
    "shfl_xor_sync",
    "stcg",
    "stcs",
    "stwb",
    "stwt",
    "syncthreads",
    "syncthreads_and",
    "syncthreads_count",
    "syncthreads_or",
    "syncwarp",
    "threadIdx",
    "threadfence",
    "threadfence_block",
    "threadfence_system",
    "warpsize",
]

#: What answers on the host, by the module that it comes from.
_HOMES = {
    "cudabuild.cuda_jit": ("jit",),
    "cudabuild.linking": (
        "Archive", "CUSource", "Cubin", "Fatbin", "LTOIR", "LinkableCode", "Object", "PTXSource", "declare_device",
    ),
    "cudabuild.runtime.hints": ("In", "InOut", "Out"),
    "cudabuild.cuda_compile": (
        "compile", "compile_all", "compile_for_current_device", "compile_ptx", "compile_ptx_for_current_device",
    ),
    "cudabuild.cuda.errors": ("CudaSupportError", "KernelRuntimeError"),
    "cudabuild.host_api": (
        "Context", "DeviceArray", "DeviceDescriptor", "Event", "GUFunc", "Reduce", "Stream", "UFunc",
        "as_cuda_array", "close", "cuda_error",
        "current_context", "default_stream", "defer_cleanup", "detect", "device_array", "device_array_like",
        "event", "event_elapsed_time", "external_stream", "from_cuda_array_interface", "get_current_device",
        "gpus", "guvectorize", "is_available", "is_bfloat16_supported", "is_cuda_array", "is_float16_supported",
        "is_supported_version", "legacy_default_stream", "list_devices", "managed_array", "mapped",
        "mapped_array", "mapped_array_like", "per_thread_default_stream", "pinned", "pinned_array",
        "pinned_array_like", "profile_start", "profile_stop", "profiling", "reduce", "require_context", "select_device",
        "stream", "synchronize", "to_device", "vectorize",
    ),
}  # fmt: skip
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
#: Namespaces by the module of ``lang`` that makes them.
_TABLES = {"fp16": "half", "libdevice": "libdevice"}
_MODULES = frozenset({"bf16", "config", "errors", "random", "types"})
__all__ += sorted(_HOME_OF)


def __getattr__(name: str) -> Any:
    if name[-1:] in ("1", "2", "3", "4"):
        vectors = __import__("cudabuild.lang.vector", fromlist=("",))
        vector = vectors.VECTORS.get(name) or vectors.ALIASES.get(name)
        if vector is not None:
            globals()[name] = vector
            return vector
    if name in _TABLES:  # hundreds of names, made when they are wanted
        globals()[name] = found = getattr(__import__(f"cudabuild.lang.{_TABLES[name]}", fromlist=("",)), name)
        return found
    if name in _MODULES:
        return __import__(f"cudabuild.cuda.{name}", fromlist=("",))
    # By name: this package is on the ground floor, and what answers on the host stands above it.
    home = _HOME_OF.get(name) or ("cudabuild.cuda.types" if not name.startswith("_") else None)
    value = getattr(__import__(home, fromlist=("",)), name, _MISSING) if home else _MISSING
    if value is _MISSING:
        raise AttributeError(f"module 'cudabuild.cuda' has no attribute {name!r}")
    globals()[name] = value
    return value


_MISSING = object()


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
