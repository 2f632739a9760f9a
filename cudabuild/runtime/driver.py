# SPDX-License-Identifier: Apache-2.0
"""The CUDA driver: the only importer of ``cuda.bindings``, and that on the first launch only.

Pointers, streams and contexts are Python integers here; a kernel is the object that ``cuLaunchKernel`` takes fastest.
Every failure is a :class:`DriverError` with the call's name, except in :attr:`Driver.launch`, which is the raw call.
"""

from __future__ import annotations

import os
import sys

from cudabuild.errors import DriverError, LinkedCodeError, ToolError
from cudabuild.image.image import DeviceInfo

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

__all__ = ["LOAD_REFUSALS", "LOST_BINDING", "REFUSALS", "Driver", "find_driver", "open_driver", "use_driver"]

INVALID_VALUE = 1
NOT_INITIALIZED = 3
NO_DEVICE = 100
INVALID_IMAGE = 200
INVALID_CONTEXT = 201
NO_BINARY_FOR_GPU = 209
INVALID_PTX = 218
JIT_COMPILER_NOT_FOUND = 221
UNSUPPORTED_PTX_VERSION = 222
JIT_COMPILATION_DISABLED = 223
INVALID_SOURCE = 300
INVALID_HANDLE = 400
NOT_FOUND = 500
NOT_READY = 600
COOPERATIVE_LAUNCH_TOO_LARGE = 720
OUT_OF_RESOURCES = 701
CONTEXT_IS_DESTROYED = 709

#: Results of a launch that say: this thread has no context, or another device's. The binding is made anew, once.
LOST_BINDING = frozenset({INVALID_CONTEXT, NO_BINARY_FOR_GPU, INVALID_HANDLE, CONTEXT_IS_DESTROYED})

#: Results that say: the driver does not take this code here. The next image is tried.
REFUSALS = frozenset(
    {
        INVALID_IMAGE, NO_BINARY_FOR_GPU, INVALID_PTX, JIT_COMPILER_NOT_FOUND, UNSUPPORTED_PTX_VERSION,
        JIT_COMPILATION_DISABLED, INVALID_SOURCE,
    }
)  # fmt: skip

#: Those of loading: the driver calls code that was cut off an invalid value, or finds no such kernel in it.
LOAD_REFUSALS = REFUSALS | {INVALID_VALUE, NOT_FOUND}

_EVENT_DISABLE_TIMING = 2
_ATTRIBUTE_MAX_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_ATTRIBUTE_CARVEOUT = 9  # CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT
_CC_MAJOR, _CC_MINOR = 75, 76  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_…
#: CUjitInputType, by the kinds of `cudabuild.linking`.
_INPUTS = {"cubin": 0, "ptx": 1, "fatbin": 2, "object": 3, "archive": 4}
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

    __slots__ = ("_api", "_infos", "_mixed", "_pid", "_retained", "launch", "success")

    def __init__(self, api: Any) -> None:
        self._api = api
        self._pid = os.getpid()
        self._mixed: bool | None = None
        self._infos: dict[int, DeviceInfo] = {}
        self._retained: dict[int, Any] = {}
        self.launch: Callable[..., tuple[Any, ...]] = api.cuLaunchKernel
        self.success = api.CUresult.CUDA_SUCCESS

    def launch_cooperative(self, *args: Any) -> tuple[Any, ...]:
        """``launch`` for a kernel whose blocks wait for one another: all run at once, or none."""
        return self._api.cuLaunchCooperativeKernel(*args[:-1])  # type: ignore[no-any-return]  # it takes no options

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

    def is_mixed(self) -> bool:
        """Whether the process sees GPUs of several compute capabilities, which take different images."""
        if self._mixed is None:
            self._mixed = len({self.device_info(ordinal).cc for ordinal in range(self.device_count())}) > 1
        return self._mixed

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

    def current_context(self) -> int:
        """The handle of this thread's context, made as :meth:`current_device` makes it."""
        self.current_device()
        return int(self._call("cuCtxGetCurrent"))

    def select_device(self, ordinal: int) -> None:
        """Makes a device's primary context the current one of this thread."""
        self._make_current(ordinal)

    def in_context(self, context: int, call: Callable[..., Any], *args: Any) -> Any:
        """Calls with another context current: what a finaliser needs, which may run in any thread."""
        self._call("cuCtxPushCurrent", self._api.CUcontext(context))
        try:
            return call(*args)
        finally:
            self._call("cuCtxPopCurrent")

    def device_attribute(self, ordinal: int, name: str) -> int:
        """An attribute of a device by its name without the prefix: ``MULTIPROCESSOR_COUNT``.

        Raises:
            AttributeError: the driver's header has no such attribute.
        """
        attribute = getattr(self._api.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(self._call("cuDeviceGetAttribute", attribute, self._call("cuDeviceGet", ordinal)))

    def memory_info(self) -> tuple[int, int]:
        """Free and total bytes of the current device."""
        self.current_device()
        free, total = self._call("cuMemGetInfo")
        return int(free), int(total)

    def synchronize_context(self) -> None:
        self.current_device()
        self._call("cuCtxSynchronize")

    # code

    def load_library(self, data: bytes | memoryview) -> Any:
        """Loads a cubin, or PTX text that ends with a NUL, for every context of the process."""
        return self._call("cuLibraryLoadData", data, None, None, 0, None, None, 0)

    def get_kernel(self, library: Any, symbol: str) -> Any:
        """The kernel as :attr:`launch` takes it. Its handle serves every context."""
        kernel = self._call("cuLibraryGetKernel", library, symbol.encode())
        return self._api.CUfunction(int(kernel))  # a CUkernel works too, but converts slower at each launch

    def load_kernel(self, kernel: Any) -> None:
        """Loads a kernel into the current context now. Of PTX, the driver may wait with compiling it until then."""
        self._call("cuKernelGetFunction", self._api.CUkernel(int(kernel)))

    def unload_library(self, library: Any) -> None:
        """Unloads; for nobody to use, in a graph neither."""
        self.relaxed(self._call, "cuLibraryUnload", library)

    def relaxed(self, call: Callable[..., Any], *args: Any) -> Any:
        """Calls what a stream capture, this thread's or another's, would forbid, and has nothing to do with it."""
        mode = self._api.CUstreamCaptureMode
        before = self._call("cuThreadExchangeStreamCaptureMode", mode(_RELAXED))
        try:
            return call(*args)
        finally:
            self._call("cuThreadExchangeStreamCaptureMode", before)

    def is_capturing(self, stream: Any) -> bool:
        """Whether what is launched on a stream is recorded now, as far as the driver says; also where it cannot say.

        Asked of the default stream, it says so where any stream that is in order with that one is captured.
        """
        for one in (stream, None) if stream is not None else (None,):
            status, *found = self._api.cuStreamIsCapturing(one)
            if status is not self.success or int(found[0]) != 0:  # CU_STREAM_CAPTURE_STATUS_NONE
                return True
        return False

    def allow_dynamic_shared(self, kernel: Any, ordinal: int, size: int) -> None:
        """Lets launches of a kernel on one device ask for ``size`` bytes of dynamic shared memory."""
        attribute = self._api.CUfunction_attribute(_ATTRIBUTE_MAX_DYNAMIC_SHARED)
        device = self._call("cuDeviceGet", ordinal)
        self._call("cuKernelSetAttribute", attribute, size, self._api.CUkernel(int(kernel)), device)

    def prefer_shared_memory(self, kernel: Any, ordinal: int, percent: int) -> None:
        """How much of a multiprocessor's on-chip memory launches of a kernel want as shared memory; -1: no matter."""
        attribute = self._api.CUfunction_attribute(_ATTRIBUTE_CARVEOUT)
        device = self._call("cuDeviceGet", ordinal)
        self._call("cuKernelSetAttribute", attribute, percent, self._api.CUkernel(int(kernel)), device)

    def kernel_attribute(self, kernel: Any, name: str) -> int:
        """An attribute of a kernel on the current device by its name without the prefix: ``NUM_REGS``."""
        attribute = getattr(self._api.CUfunction_attribute, f"CU_FUNC_ATTRIBUTE_{name}")
        device = self._call("cuDeviceGet", self.current_device())
        return int(self._call("cuKernelGetAttribute", attribute, self._api.CUkernel(int(kernel)), device))

    def resident_blocks(self, kernel: Any, threads: int, dynamic_shared: int) -> int:
        """The most blocks of so many threads that a multiprocessor of the current device runs at once."""
        self.current_device()
        return int(self._call("cuOccupancyMaxActiveBlocksPerMultiprocessor", kernel, threads, dynamic_shared))

    def link_ptx(self, ptx: bytes, name: str, foreign: Sequence[tuple[str, bytes, str]] = ()) -> bytes:
        """The cubin that the driver's own linker makes of PTX for the current device.

        Args:
            ptx: the kernel.
            name: of the kernel, for messages.
            foreign: other code to link with it: kind, bytes, name; the driver takes no LTO-IR.

        Raises:
            LinkedCodeError: there is LTO-IR among it.
            ToolError: the driver refuses the code; mostly since its compiler is older than the PTX.
        """
        self.current_device()
        state = self._call("cuLinkCreate", 0, [], [])
        try:
            for kind, data, label in [("ptx", ptx, name), *foreign]:
                if kind not in _INPUTS:
                    raise LinkedCodeError(
                        f"the driver's linker does not take {label}\n  found:    {kind}\n"
                        f"  expected: {', '.join(_INPUTS)}\n  do:       pip install 'cudabuild[jit]', for nvJitLink"
                    )
                text = data + b"\0" if kind == "ptx" and not data.endswith(b"\0") else data
                number = self._api.CUjitInputType(_INPUTS[kind])
                self._call("cuLinkAddData", state, number, text, len(text), label.encode(), 0, [], [])
            address, size = self._call("cuLinkComplete", state)
            import ctypes

            return ctypes.string_at(int(address), int(size))
        except DriverError as error:
            if error.code not in REFUSALS:
                raise
            raise ToolError(
                f"the driver's linker refuses the code ({error}): install a newer NVIDIA driver, or "
                "pip install 'cudabuild[jit]', for nvJitLink"
            ) from None
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

    def copy_within(self, target: int, source: int, size: int, stream: Any) -> None:
        """Queues a copy from device memory to device memory."""
        self._call("cuMemcpyDtoDAsync", target, source, size, stream)

    def copy_rows(
        self,
        target: tuple[bool, int, int],
        source: tuple[bool, int, int],
        width: int,
        rows: int,
        stream: Any,
    ) -> None:
        """Queues a copy of ``rows`` runs of ``width`` bytes.

        Args:
            target, source: whether it is host memory, address of the first run, bytes from one to the next.
            width, rows: bytes in a run, number of runs.
            stream: as :meth:`get_stream` gives it.
        """
        kind = self._api.CUmemorytype
        copy = self._api.CUDA_MEMCPY2D()
        if source[0]:
            copy.srcMemoryType, copy.srcHost = kind.CU_MEMORYTYPE_HOST, source[1]
        else:
            copy.srcMemoryType, copy.srcDevice = kind.CU_MEMORYTYPE_DEVICE, self._api.CUdeviceptr(source[1])
        if target[0]:
            copy.dstMemoryType, copy.dstHost = kind.CU_MEMORYTYPE_HOST, target[1]
        else:
            copy.dstMemoryType, copy.dstDevice = kind.CU_MEMORYTYPE_DEVICE, self._api.CUdeviceptr(target[1])
        copy.srcPitch, copy.dstPitch, copy.WidthInBytes, copy.Height = source[2], target[2], width, rows
        self._call("cuMemcpy2DAsync", copy, stream)

    def fill(self, pointer: int, value: int, width: int, count: int, stream: Any) -> None:
        """Queues the writing of ``count`` equal elements of 1, 2 or 4 bytes."""
        self._call(f"cuMemsetD{8 * width}Async", pointer, value, count, stream)

    def allocate_host(self, size: int) -> int:
        """Page-locked host memory that every device can read and write at the same address."""
        self.current_device()
        flags = 1 | 2  # CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP
        return int(self._call("cuMemHostAlloc", size, flags))

    def allocate_managed(self, size: int, attach_global: bool) -> int:
        """Memory that host and devices use at the same address."""
        self.current_device()
        return int(self._call("cuMemAllocManaged", size, 1 if attach_global else 2))  # CU_MEM_ATTACH_GLOBAL, _HOST

    def lock_host(self, address: int, size: int) -> None:
        """Page-locks host memory, for every device to use."""
        self.current_device()
        self._call("cuMemHostRegister", address, size, 1 | 2)  # CU_MEMHOSTREGISTER_PORTABLE | _DEVICEMAP

    def is_locked(self, address: int, size: int) -> bool:
        """Whether the first and the last byte are page-locked."""
        ends = (self._api.cuMemHostGetDevicePointer(at, 0)[0] for at in (address, address + size - 1))
        return all(status is self.success for status in ends)

    def unlock_host(self, address: int) -> None:
        self._call("cuMemHostUnregister", address)

    def device_address(self, address: int) -> int:
        """Where the current device sees page-locked host memory."""
        return int(self._call("cuMemHostGetDevicePointer", address, 0))

    def set_profiling(self, collect: bool) -> None:
        """Begins or ends a profiler's collecting."""
        self.current_device()
        self._call("cuProfilerStart" if collect else "cuProfilerStop")

    def free_host(self, pointer: int) -> None:
        self._call("cuMemFreeHost", pointer)

    def create_stream(self) -> int:
        """A new stream; it is in order with the legacy default stream."""
        self.current_device()
        return int(self._call("cuStreamCreate", 0))

    def destroy_stream(self, handle: int) -> None:
        self._call("cuStreamDestroy", self._api.CUstream(handle))

    def create_event(self, timing: bool) -> int:
        self.current_device()
        return int(self._call("cuEventCreate", 0 if timing else _EVENT_DISABLE_TIMING))

    def destroy_event(self, event: int) -> None:
        self._call("cuEventDestroy", self._api.CUevent(event))

    def record_event(self, event: int, stream: Any) -> None:
        self._call("cuEventRecord", self._api.CUevent(event), stream)

    def wait_event(self, stream: Any, event: int) -> None:
        """Makes what is queued on ``stream`` from now on wait for the event."""
        self._call("cuStreamWaitEvent", stream, self._api.CUevent(event), 0)

    def synchronize_event(self, event: int) -> None:
        self._call("cuEventSynchronize", self._api.CUevent(event))

    def is_event_done(self, event: int) -> bool:
        return self._is_ready("cuEventQuery", self._api.CUevent(event))

    def is_stream_done(self, stream: Any) -> bool:
        return self._is_ready("cuStreamQuery", stream)

    def _is_ready(self, call: str, handle: Any) -> bool:
        (result,) = getattr(self._api, call)(handle)
        if result is self.success:
            return True
        if int(result) == NOT_READY:
            return False
        raise self.error(call, result)

    def elapsed(self, start: int, end: int) -> float:
        """Milliseconds between two recorded events."""
        return float(self._call("cuEventElapsedTime", self._api.CUevent(start), self._api.CUevent(end)))

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
