# SPDX-License-Identifier: Apache-2.0
"""A CUDA driver in Python, at the door of ``runtime/driver.py``: stands in for ``cuda.bindings.driver``.

Device memory is host memory, so a "kernel" is a Python function that reads and writes through addresses. Code is bytes
that were registered with :meth:`FakeDriver.add_code`. Contexts belong to threads, as they do in the real driver.
"""

from __future__ import annotations

import ctypes
import enum
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["FakeDriver", "Launch"]


class CUresult(enum.IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_INVALID_VALUE = 1
    CUDA_ERROR_NOT_INITIALIZED = 3
    CUDA_ERROR_NO_DEVICE = 100
    CUDA_ERROR_INVALID_IMAGE = 200
    CUDA_ERROR_INVALID_CONTEXT = 201
    CUDA_ERROR_NO_BINARY_FOR_GPU = 209
    CUDA_ERROR_INVALID_PTX = 218
    CUDA_ERROR_JIT_COMPILER_NOT_FOUND = 221
    CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222
    CUDA_ERROR_JIT_COMPILATION_DISABLED = 223
    CUDA_ERROR_INVALID_SOURCE = 300
    CUDA_ERROR_INVALID_HANDLE = 400
    CUDA_ERROR_NOT_FOUND = 500
    CUDA_ERROR_NOT_READY = 600
    CUDA_ERROR_ILLEGAL_ADDRESS = 700
    CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES = 701
    CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900
    CUDA_ERROR_STREAM_CAPTURE_IMPLICIT = 906


OK = CUresult.CUDA_SUCCESS


class CUmemorytype(enum.IntEnum):
    CU_MEMORYTYPE_HOST = 1
    CU_MEMORYTYPE_DEVICE = 2


class CUDA_MEMCPY2D:
    """A structure with what ``Driver.copy_rows`` sets."""

    __slots__ = (
        "Height", "WidthInBytes", "dstDevice", "dstHost", "dstMemoryType", "dstPitch", "srcDevice", "srcHost",
        "srcMemoryType", "srcPitch",
    )  # fmt: skip


class CUdevice_attribute(int):
    CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16


class Launch:
    """One launch as the driver saw it; ``block`` holds the parameter block's fields by the registered offsets."""

    def __init__(self, symbol: str, grid: tuple[int, ...], block: tuple[int, ...], shared: int, stream: int) -> None:
        self.symbol = symbol
        self.grid = grid
        self.block = block
        self.shared = shared
        self.stream = stream
        self.parameters: list[Any] = []
        self.device = 0
        self.thread = threading.get_ident()


class _Code:
    def __init__(
        self, cc: tuple[int, int] | None, symbols: dict[str, tuple[str, Callable[..., None]]], data: bytes
    ) -> None:
        self.cc = cc
        self.symbols = symbols
        self.data = data


class _AnySymbols(dict[str, tuple[str, "Callable[..., None]"]]):
    def __missing__(self, symbol: str) -> tuple[str, Callable[..., None]]:
        return "", lambda: None


def _accept(call: str, data: bytes) -> CUresult:
    return OK


_SIZES = {"?": 1, "b": 1, "B": 1, "h": 2, "H": 2, "i": 4, "I": 4, "q": 8, "Q": 8, "P": 8, "e": 2, "f": 4, "d": 8}


class FakeDriver:
    """See the module. Attributes that tests set or read:

    Attributes:
        ccs: compute capability of each device; none means no device.
        init_result: what ``cuInit`` answers.
        launches: every successful launch.
        calls: name of every other call, in order.
        fail_next: results that the next launches give instead of running.
        loaded: libraries that are loaded now.
        takes_any_code: code that was not registered loads too, and does nothing.
        answer: what calls for some code say, by the call's name and the code's bytes, before they do anything.
        busy: streams and events that have not come to their end.
        captured: streams that are captured, and in order with the default stream; loading and unloading code is refused
            meanwhile to threads that are not in the relaxed mode.
        memory: what is allocated: device memory, host memory, streams and events, by address or handle.
    """

    CUresult = CUresult
    CUmemorytype = CUmemorytype
    CUDA_MEMCPY2D = CUDA_MEMCPY2D
    CUdevice_attribute = CUdevice_attribute
    CUfunction = CUkernel = CUstream = CUfunction_attribute = CUstreamCaptureMode = int
    CUjitInputType = CUcontext = CUevent = CUdeviceptr = int

    def __init__(self, ccs: tuple[tuple[int, int], ...] = ((9, 0),), version: int = 13000) -> None:
        self.ccs = ccs
        self.driver_version = version
        self.init_result = OK
        self.launches: list[Launch] = []
        self.calls: list[str] = []
        self.fail_next: list[CUresult] = []
        self.loaded: dict[int, _Code] = {}
        self.takes_any_code = False
        self.answer: Callable[[str, bytes], CUresult] = _accept
        self.memory: dict[int, Any] = {}
        self.busy: set[int] = set()
        self.captured: set[int] = set()
        self.max_shared: dict[int, int] = {}
        self._codes: dict[bytes, _Code] = {}
        self._kernels: dict[int, tuple[int, str]] = {}
        self._next = 0x1000
        self._thread = threading.local()

    def add_code(
        self, data: bytes, symbol: str, formats: str, body: Callable[..., None], cc: tuple[int, int] | None = None
    ) -> None:
        """Makes ``data`` loadable: one kernel, the ``struct`` characters of its parameters, the devices it is for."""
        data = bytes(data).rstrip(b"\0")
        code = self._codes.setdefault(data, _Code(cc, {}, data))
        code.symbols[symbol] = (formats, body)

    def _handle(self) -> int:
        self._next += 0x10
        return self._next

    # devices and contexts

    def cuInit(self, flags: int) -> tuple[Any, ...]:
        return (self.init_result if self.ccs or self.init_result else CUresult.CUDA_ERROR_NO_DEVICE,)

    def cuDriverGetVersion(self) -> tuple[Any, ...]:
        return OK, self.driver_version

    def cuGetErrorString(self, result: Any) -> tuple[Any, ...]:
        return OK, f"text of {result.name}".encode()

    def cuDeviceGetCount(self) -> tuple[Any, ...]:
        return OK, len(self.ccs)

    def cuDeviceGet(self, ordinal: int) -> tuple[Any, ...]:
        return OK, ordinal

    def cuDeviceGetAttribute(self, attribute: int, device: int) -> tuple[Any, ...]:
        return OK, 132 if attribute == 16 else self.ccs[device][{75: 0, 76: 1}[attribute]]

    def cuDeviceGetName(self, length: int, device: int) -> tuple[Any, ...]:
        return OK, f"Fake {device}".encode().ljust(length, b"\0")

    def cuCtxGetCurrent(self) -> tuple[Any, ...]:
        return OK, getattr(self._thread, "context", 0)

    def cuDevicePrimaryCtxRetain(self, device: int) -> tuple[Any, ...]:
        self.calls.append("cuDevicePrimaryCtxRetain")
        return OK, 100 + device

    def cuCtxSetCurrent(self, context: int) -> tuple[Any, ...]:
        self._thread.context = context
        return (OK,)

    def cuCtxGetDevice(self) -> tuple[Any, ...]:
        return OK, self._thread.context - 100

    def use_device(self, ordinal: int) -> None:
        """Makes a device's context current in this thread."""
        self._thread.context = 100 + ordinal

    # code

    def cuLibraryLoadData(self, data: Any, *options: Any) -> tuple[Any, ...]:
        self.calls.append("cuLibraryLoadData")
        if self._is_forbidden():
            return CUresult.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, None
        code = self._codes.get(bytes(data).rstrip(b"\0"))
        if code is None and self.takes_any_code:
            code = _Code(None, _AnySymbols(), bytes(data))
        if code is None:
            return CUresult.CUDA_ERROR_INVALID_IMAGE, None
        if self.answer("cuLibraryLoadData", code.data):
            return self.answer("cuLibraryLoadData", code.data), None
        handle = self._handle()
        self.loaded[handle] = code
        return OK, handle

    def cuLibraryGetKernel(self, library: int, symbol: bytes) -> tuple[Any, ...]:
        refusal = self.answer("cuLibraryGetKernel", self.loaded[library].data)
        if refusal:
            return refusal, None
        try:
            self.loaded[library].symbols[symbol.decode()]
        except KeyError:
            return CUresult.CUDA_ERROR_NOT_FOUND, None
        handle = self._handle()
        self._kernels[handle] = (library, symbol.decode())
        return OK, handle

    def cuKernelGetFunction(self, kernel: int) -> tuple[Any, ...]:
        return self.answer("cuKernelGetFunction", self.loaded[self._kernels[kernel][0]].data), kernel

    def cuLibraryUnload(self, library: int) -> tuple[Any, ...]:
        self.calls.append("cuLibraryUnload")
        if self._is_forbidden():
            return (CUresult.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,)
        del self.loaded[library]
        return (OK,)

    def cuThreadExchangeStreamCaptureMode(self, mode: int) -> tuple[Any, ...]:
        before = getattr(self._thread, "mode", 0)
        self._thread.mode = mode
        return OK, before

    def _is_forbidden(self) -> bool:
        return bool(self.captured) and getattr(self._thread, "mode", 0) != 2

    def cuStreamIsCapturing(self, stream: Any) -> tuple[Any, ...]:
        if stream is None and self.captured:
            return CUresult.CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, None
        return OK, int(int(stream or 0) in self.captured)

    def cuKernelSetAttribute(self, attribute: int, value: int, kernel: int, device: int) -> tuple[Any, ...]:
        refusal = self.answer("cuKernelSetAttribute", self.loaded[self._kernels[kernel][0]].data)
        if value > 227 * 1024:
            refusal = CUresult.CUDA_ERROR_INVALID_VALUE
        if refusal:
            return (refusal,)
        self.max_shared[kernel] = value
        return (OK,)

    def cuLaunchKernel(
        self, kernel: int, gx: int, gy: int, gz: int, bx: int, by: int, bz: int, shared: int, stream: Any, address: int,
        extra: int,
    ) -> tuple[Any, ...]:  # fmt: skip
        if self.fail_next:
            return (self.fail_next.pop(0),)
        context = getattr(self._thread, "context", 0)
        if not context:
            return (CUresult.CUDA_ERROR_INVALID_CONTEXT,)
        library, symbol = self._kernels[kernel]
        code = self.loaded.get(library)
        if code is None:
            return (CUresult.CUDA_ERROR_INVALID_HANDLE,)
        if code.cc is not None and code.cc != self.ccs[context - 100]:
            return (CUresult.CUDA_ERROR_NO_BINARY_FOR_GPU,)
        refusal = self.answer("cuLaunchKernel", code.data)
        if refusal:
            return (refusal,)
        if shared > self.max_shared.get(kernel, 48 * 1024):
            return (CUresult.CUDA_ERROR_INVALID_VALUE,)
        formats, body = code.symbols[symbol]
        launch = Launch(symbol, (gx, gy, gz), (bx, by, bz), shared, int(stream or 0))
        launch.device = context - 100
        pointers = (ctypes.c_size_t * len(formats)).from_address(address)
        launch.parameters = [_read(pointers[i], form) for i, form in enumerate(formats)]
        self.launches.append(launch)
        body(*launch.parameters)
        return (OK,)

    # memory and streams

    def cuMemAlloc(self, size: int) -> tuple[Any, ...]:
        memory = (ctypes.c_char * (size + 256))()
        address = -(-ctypes.addressof(memory) // 256) * 256
        self.memory[address] = memory
        return OK, address

    def cuMemFree(self, address: int) -> tuple[Any, ...]:
        if not getattr(self._thread, "context", 0):
            return (CUresult.CUDA_ERROR_INVALID_CONTEXT,)
        del self.memory[address]
        return (OK,)

    cuMemFreeHost = cuStreamDestroy = cuEventDestroy = cuMemFree

    def cuMemHostAlloc(self, size: int, flags: int) -> tuple[Any, ...]:
        assert flags == 3
        return self.cuMemAlloc(size)

    def cuMemGetInfo(self) -> tuple[Any, ...]:
        return OK, 1 << 30, 2 << 30

    def cuMemcpyDtoDAsync(self, target: int, source: int, size: int, stream: Any) -> tuple[Any, ...]:
        self.calls.append("cuMemcpyDtoDAsync")
        ctypes.memmove(target, source, size)
        return (OK,)

    def cuMemcpy2DAsync(self, copy: CUDA_MEMCPY2D, stream: Any) -> tuple[Any, ...]:
        self.calls.append("cuMemcpy2DAsync")
        if copy.srcPitch < copy.WidthInBytes or copy.dstPitch < copy.WidthInBytes:
            return (CUresult.CUDA_ERROR_INVALID_VALUE,)
        source = copy.srcHost if copy.srcMemoryType == 1 else copy.srcDevice
        target = copy.dstHost if copy.dstMemoryType == 1 else copy.dstDevice
        for row in range(copy.Height):
            ctypes.memmove(target + row * copy.dstPitch, source + row * copy.srcPitch, copy.WidthInBytes)
        return (OK,)

    def _fill(self, address: int, value: int, width: int, count: int) -> tuple[Any, ...]:
        self.calls.append(f"cuMemsetD{width * 8}Async")
        ctypes.memmove(address, value.to_bytes(width, "little") * count, width * count)
        return (OK,)

    def cuMemsetD8Async(self, address: int, value: int, count: int, stream: Any) -> tuple[Any, ...]:
        return self._fill(address, value, 1, count)

    def cuMemsetD16Async(self, address: int, value: int, count: int, stream: Any) -> tuple[Any, ...]:
        return self._fill(address, value, 2, count)

    def cuMemsetD32Async(self, address: int, value: int, count: int, stream: Any) -> tuple[Any, ...]:
        return self._fill(address, value, 4, count)

    def cuStreamCreate(self, flags: int) -> tuple[Any, ...]:
        handle = self._handle()
        self.memory[handle] = "stream"
        return OK, handle

    def cuStreamQuery(self, stream: Any) -> tuple[Any, ...]:
        return (CUresult.CUDA_ERROR_NOT_READY if int(stream or 0) in self.busy else OK,)

    def cuEventQuery(self, event: int) -> tuple[Any, ...]:
        return (CUresult.CUDA_ERROR_NOT_READY if event in self.busy else OK,)

    def cuEventSynchronize(self, event: int) -> tuple[Any, ...]:
        self.busy.discard(event)
        return (OK,)

    def cuEventElapsedTime(self, start: int, end: int) -> tuple[Any, ...]:
        return OK, (end - start) / 16

    def cuCtxSynchronize(self) -> tuple[Any, ...]:
        self.calls.append("cuCtxSynchronize")
        return (OK,)

    def cuCtxPushCurrent(self, context: int) -> tuple[Any, ...]:
        self._thread.below = [*getattr(self._thread, "below", []), getattr(self._thread, "context", 0)]
        self._thread.context = context
        return (OK,)

    def cuCtxPopCurrent(self) -> tuple[Any, ...]:
        popped = self._thread.context
        self._thread.context = self._thread.below.pop()
        return OK, popped

    def cuMemcpyHtoDAsync(self, target: int, source: int, size: int, stream: Any) -> tuple[Any, ...]:
        self.calls.append("cuMemcpyHtoDAsync")
        ctypes.memmove(target, source, size)
        return (OK,)

    def cuMemcpyDtoHAsync(self, target: int, source: int, size: int, stream: Any) -> tuple[Any, ...]:
        self.calls.append("cuMemcpyDtoHAsync")
        ctypes.memmove(target, source, size)
        return (OK,)

    def cuStreamSynchronize(self, stream: Any) -> tuple[Any, ...]:
        self.calls.append("cuStreamSynchronize")
        return (OK,)

    def cuEventCreate(self, flags: int) -> tuple[Any, ...]:
        handle = self._handle()
        self.memory[handle] = "event"
        return OK, handle

    def cuEventRecord(self, event: int, stream: Any) -> tuple[Any, ...]:
        self.calls.append(f"record {int(stream or 0)}")
        return (OK,)

    def cuStreamWaitEvent(self, stream: Any, event: int, flags: int) -> tuple[Any, ...]:
        self.calls.append(f"wait {int(stream or 0)}")
        return (OK,)

    # linking

    def cuLinkCreate(self, *options: Any) -> tuple[Any, ...]:
        return OK, {}

    def cuLinkAddData(self, state: dict[str, Any], kind: int, data: bytes, size: int, *rest: Any) -> tuple[Any, ...]:
        self.calls.append("cuLinkAddData")
        if self.answer("cuLinkAddData", data):
            return (self.answer("cuLinkAddData", data),)
        assert kind in (0, 1)
        assert size == len(data)
        assert data.endswith(b"\0") == (kind == 1)
        if "cubin" not in state:
            state["cubin"] = ctypes.create_string_buffer(b"linked " + data[:-1])
        return (OK,)

    def cuLinkComplete(self, state: dict[str, Any]) -> tuple[Any, ...]:
        return OK, ctypes.addressof(state["cubin"]), len(state["cubin"]) - 1

    def cuLinkDestroy(self, state: dict[str, Any]) -> tuple[Any, ...]:
        self.calls.append("cuLinkDestroy")
        return (OK,)


def _read(address: int, form: str) -> Any:
    import struct

    size = _SIZES[form]
    return struct.unpack("<Q" if form == "P" else f"<{form}", ctypes.string_at(address, size))[0]
