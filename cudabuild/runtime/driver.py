# SPDX-License-Identifier: Apache-2.0
"""The CUDA driver: the only importer of ``cuda.bindings``, and that on the first launch only.

Pointers, streams and contexts are Python integers here; a kernel is the object that ``cuLaunchKernel`` takes fastest.
Every failure is a :class:`DriverError` with the call's name, except in :attr:`Driver.launch`, which is the raw call.
"""

from __future__ import annotations

import os
import sys

from cudabuild.errors import DriverError
from cudabuild.image.image import DeviceInfo

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["LOST_BINDING", "Driver", "find_driver", "open_driver", "use_driver"]

INVALID_VALUE = 1
NOT_INITIALIZED = 3
NO_DEVICE = 100
INVALID_CONTEXT = 201
NO_BINARY_FOR_GPU = 209
INVALID_HANDLE = 400
OUT_OF_RESOURCES = 701
CONTEXT_IS_DESTROYED = 709

#: Results of a launch that say: this thread has no context, or another device's. The binding is made anew, once.
LOST_BINDING = frozenset({INVALID_CONTEXT, NO_BINARY_FOR_GPU, INVALID_HANDLE, CONTEXT_IS_DESTROYED})

_EVENT_DISABLE_TIMING = 2
_ATTRIBUTE_MAX_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_CC_MAJOR, _CC_MINOR = 75, 76  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_…
_INPUT_PTX = 1  # CU_JIT_INPUT_PTX
_RELAXED = 2  # CU_STREAM_CAPTURE_MODE_RELAXED

_FORKED = (
    "CUDA was initialised before this process was forked, and a forked child cannot use it: "
    "start it with the 'spawn' or 'forkserver' method, or launch nothing before the fork"
)


class Driver:
    """The calls that launching needs.

    Attributes:
        launch: ``cuLaunchKernel`` itself: (kernel, grid x y z, block x y z, shared bytes, stream, address of the
            parameter pointers, 0) -> (result,).
        success: the result that ``launch`` gives, by identity, when all is well.
    """

    __slots__ = ("_api", "_infos", "_pid", "_retained", "launch", "success")

    def __init__(self, api: Any) -> None:
        self._api = api
        self._pid = os.getpid()
        self._infos: dict[int, DeviceInfo] = {}
        self._retained: dict[int, Any] = {}
        self.launch: Callable[..., tuple[Any, ...]] = api.cuLaunchKernel
        self.success = api.CUresult.CUDA_SUCCESS

    def error(self, call: str, result: Any) -> DriverError:
        """The error for a result that is not success."""
        code = int(result)
        if code == NOT_INITIALIZED and os.getpid() != self._pid:
            text = _FORKED
        else:
            status, message = self._api.cuGetErrorString(result)
            text = message.decode() if status is self.success and message else ""
        return DriverError(call, code, getattr(result, "name", str(code)), text)

    def _call(self, name: str, *args: Any) -> Any:
        answer = getattr(self._api, name)(*args)
        if answer[0] is not self.success:
            raise self.error(name, answer[0])
        return answer[1] if len(answer) == 2 else answer[1:]

    # devices and contexts

    def version(self) -> int:
        """The newest CUDA version that the driver serves: 12090, 13000 …"""
        return int(self._call("cuDriverGetVersion"))

    def device_count(self) -> int:
        return int(self._call("cuDeviceGetCount"))

    def current_device(self) -> int:
        """The device of this thread's context; without one, device 0's primary context is made current first."""
        if int(self._call("cuCtxGetCurrent")) == 0:
            self._make_current(0)
        return int(self._call("cuCtxGetDevice"))

    def _make_current(self, ordinal: int) -> None:
        # Retained once per device and never released: releasing at exit would pull the context from under other
        # libraries' own clean-up, and the driver frees it with the process.
        context = self._retained.get(ordinal)
        if context is None:
            device = self._call("cuDeviceGet", ordinal)
            context = self._retained[ordinal] = self._call("cuDevicePrimaryCtxRetain", device)
        self._call("cuCtxSetCurrent", context)

    def device_info(self, ordinal: int) -> DeviceInfo:
        info = self._infos.get(ordinal)
        if info is None:
            device = self._call("cuDeviceGet", ordinal)
            attribute = self._api.CUdevice_attribute
            cc = tuple(int(self._call("cuDeviceGetAttribute", attribute(a), device)) for a in (_CC_MAJOR, _CC_MINOR))
            name = self._call("cuDeviceGetName", 128, device).split(b"\0", 1)[0].decode(errors="replace")
            info = self._infos[ordinal] = DeviceInfo((cc[0], cc[1]), self.version(), name)
        return info

    # code

    def load_library(self, data: bytes | memoryview) -> Any:
        """Loads a cubin, or PTX text that ends with a NUL, for every context of the process."""
        return self._call("cuLibraryLoadData", data, None, None, 0, None, None, 0)

    def get_kernel(self, library: Any, symbol: str) -> Any:
        """The kernel as :attr:`launch` takes it. Its handle serves every context."""
        kernel = self._call("cuLibraryGetKernel", library, symbol.encode())
        return self._api.CUfunction(int(kernel))  # a CUkernel works too, but converts slower at each launch

    def unload_library(self, library: Any) -> None:
        """Unloads; in the relaxed mode, so that another thread's stream capture survives it."""
        mode = self._api.CUstreamCaptureMode
        before = self._call("cuThreadExchangeStreamCaptureMode", mode(_RELAXED))
        try:
            self._call("cuLibraryUnload", library)
        finally:
            self._call("cuThreadExchangeStreamCaptureMode", before)

    def allow_dynamic_shared(self, kernel: Any, ordinal: int, size: int) -> None:
        """Lets launches of a kernel on one device ask for ``size`` bytes of dynamic shared memory."""
        attribute = self._api.CUfunction_attribute(_ATTRIBUTE_MAX_DYNAMIC_SHARED)
        device = self._call("cuDeviceGet", ordinal)
        self._call("cuKernelSetAttribute", attribute, size, self._api.CUkernel(int(kernel)), device)

    def link_ptx(self, ptx: bytes, name: str) -> bytes:
        """The cubin that the driver's own linker makes of PTX for the current device."""
        self.current_device()
        state = self._call("cuLinkCreate", 0, [], [])
        try:
            text = ptx if ptx.endswith(b"\0") else ptx + b"\0"
            kind = self._api.CUjitInputType(_INPUT_PTX)
            self._call("cuLinkAddData", state, kind, text, len(text), name.encode(), 0, [], [])
            address, size = self._call("cuLinkComplete", state)
            import ctypes

            return ctypes.string_at(int(address), int(size))
        finally:
            self._call("cuLinkDestroy", state)

    # memory and streams

    def allocate(self, size: int) -> int:
        return int(self._call("cuMemAlloc", size))

    def free(self, pointer: int) -> None:
        self._call("cuMemFree", pointer)

    def copy_in(self, pointer: int, host: int, size: int, stream: Any) -> None:
        """Queues a copy of host memory to the device."""
        self._call("cuMemcpyHtoDAsync", pointer, host, size, stream)

    def copy_out(self, host: int, pointer: int, size: int, stream: Any) -> None:
        """Queues a copy of device memory to the host."""
        self._call("cuMemcpyDtoHAsync", host, pointer, size, stream)

    def synchronize(self, stream: Any) -> None:
        self._call("cuStreamSynchronize", stream)

    def get_stream(self, handle: int) -> Any:
        """A stream handle as :attr:`launch` takes it; None is the default stream, and converts fastest."""
        return self._api.CUstream(handle) if handle else None

    def order(self, before: int, after: Any) -> None:
        """Makes stream ``after`` wait for what stream ``before`` (a handle) has been given so far."""
        event = self._call("cuEventCreate", _EVENT_DISABLE_TIMING)
        try:
            self._call("cuEventRecord", event, self._api.CUstream(before))
            self._call("cuStreamWaitEvent", after, event, 0)
        finally:
            self._call("cuEventDestroy", event)  # the driver keeps it until the wait is over


class _Opened:
    """The process's driver, or why there is none; None until the first question."""

    driver: Driver | None = None
    reason: str | None = None


def find_driver() -> tuple[Driver | None, str]:
    """The driver, initialised, with at least one device; or None and the reason. Asked of the machine once."""
    if _Opened.reason is None:
        _Opened.driver, _Opened.reason = _open()
    return _Opened.driver, _Opened.reason


def open_driver() -> Driver:
    """The driver; raises :class:`DriverError` with the reason if there is none."""
    driver, reason = find_driver()
    if driver is None:
        raise DriverError("cuInit", NO_DEVICE, "no GPU", reason)
    return driver


def use_driver(api: Any = None) -> Driver | None:
    """Replaces ``cuda.bindings.driver`` for this process, for tests; None forgets what is known."""
    _Opened.driver, _Opened.reason = (None, None) if api is None else _initialise(api)
    return _Opened.driver


def _open() -> tuple[Driver | None, str]:
    # A look for the library first: importing cuda.bindings costs 40-90 ms, in vain on a machine without a driver.
    import ctypes

    library = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
    try:
        ctypes.CDLL(library)
    except OSError:
        return None, f"no NVIDIA driver ({library} cannot be loaded)"
    try:
        from cuda.bindings import driver as api
    except ImportError as error:
        return None, f"cuda-bindings cannot be imported ({error}): pip install cuda-bindings"
    return _initialise(api)


def _initialise(api: Any) -> tuple[Driver | None, str]:
    try:
        result = api.cuInit(0)[0]
    except RuntimeError as error:  # cuda-bindings' own loader
        return None, f"no NVIDIA driver ({str(error).splitlines()[0]})"
    driver = Driver(api)
    if result is not driver.success:
        if int(result) == NO_DEVICE:
            return None, "the NVIDIA driver finds no device (CUDA_ERROR_NO_DEVICE)"
        return None, str(driver.error("cuInit", result))
    if driver.device_count() == 0:
        return None, "the NVIDIA driver finds no device"
    return driver, ""
