# SPDX-License-Identifier: Apache-2.0
"""Kernels on the fake driver: a provider that holds every image, and arrays over raw pointers."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

from fake_driver import FakeDriver

from cudabuild.definition import DEFAULT_OPTIONS, KernelDefinition
from cudabuild.image.image import ImageRequest, KernelImage
from cudabuild.runtime.dispatcher import Dispatcher
from cudabuild.runtime.driver import Driver
from cudabuild.runtime.launch import GpuDevice
from cudabuild.types import format_signature
from cudabuild.types.layout import parameter_fields

if TYPE_CHECKING:
    from collections.abc import Callable

    from cudabuild.types import Signature

__all__ = ["DeviceArray", "Host", "interface"]


class DeviceArray:
    """Device memory by its interface alone, over a NumPy array's: the fake driver's memory is the host's."""

    def __init__(self, array: Any, **changes: Any) -> None:
        self.array = array
        self.__cuda_array_interface__ = interface(array, **changes)

    def __repr__(self) -> str:
        return f"DeviceArray({self.__cuda_array_interface__})"


class OtherArray(DeviceArray):
    """The same by another Python type."""


def interface(array: Any, **changes: Any) -> dict[str, Any]:
    """The array interface of a NumPy array's memory, with some entries changed."""
    found = {
        "shape": array.shape,
        "typestr": array.dtype.str,
        "data": (array.ctypes.data, not array.flags.writeable),
        "strides": None if array.flags.c_contiguous else array.strides,
        "version": 3,
    }
    found.update(changes)
    return found


class Host:
    """A process with a fake GPU: makes kernels whose bodies are Python functions of the parameter block's fields.

    Attributes:
        fake: the driver.
        requests: every image that was asked for.
    """

    name = "shipped"

    def __init__(self, fake: FakeDriver | None = None) -> None:
        self.fake = fake or FakeDriver()
        self.driver = Driver(self.fake)
        self.device = GpuDevice(self.driver, lambda: (self,))
        self.requests: list[ImageRequest] = []
        self.bodies: dict[str, Callable[..., None]] = {}
        self.widths = (32, 64)
        self.attributes: dict[str, Any] = {}

    def current_device(self) -> GpuDevice:
        return self.device

    def dump(
        self, definition: KernelDefinition, signature: Signature, stage: str, target: str | None, index_width: int
    ) -> str:
        return f"{stage} of {definition.qualname}({format_signature(signature)}) {target} {index_width}"

    def find(self, request: ImageRequest) -> KernelImage | None:
        """The provider: an image of any kernel that :meth:`kernel` made."""
        self.requests.append(request)
        width = min((width for width in self.widths if width >= request.index_width), default=0)
        if not width:
            request.notes.append("shipped: no image that wide")
            return None
        cc = request.device.cc
        signature = format_signature(request.signature)
        name = request.definition.qualname
        data = f"{name}({signature}) sm_{cc[0]}{cc[1]} {width}".encode()
        debug = bool(request.definition.options["debug"])
        formats = "".join(field.format for field in parameter_fields(request.signature, width, fault=debug))
        self.fake.add_code(data, name, formats, self.bodies[name], cc)
        return KernelImage(
            module="m", qualname=name, signature=signature, fingerprint=bytes(32),
            options={"debug": True} if debug else {}, kind="cubin", target=f"sm_{cc[0]}{cc[1]}", index_width=width,
            symbol=name, data=data, origin="shipped", attributes=self.attributes,
        )  # fmt: skip

    def kernel(
        self, spec: Any, parameters: str, body: Callable[..., None] | None = None, name: str = "kernel", **options: Any
    ) -> Dispatcher:
        """A kernel with these signatures and parameter names.

        Args:
            spec: the signatures; None for none.
            parameters: as they stand in a ``def``.
            body: called with the values of the parameter block's fields; nothing by default.
        """
        namespace: dict[str, Any] = {"__name__": "m"}
        exec(f"def {name}({parameters}): 'A kernel.'", namespace)
        self.bodies[name] = body or (lambda *values: None)
        chosen = DEFAULT_OPTIONS.replace(**options) if options else DEFAULT_OPTIONS
        return Dispatcher(KernelDefinition(namespace[name], spec, None, chosen), self)

    @property
    def launched(self) -> list[Any]:
        """The parameters of the last launch."""
        found: list[Any] = self.fake.launches[-1].parameters
        return found

    @property
    def symbol_width(self) -> int:
        """The index width that was asked for last."""
        return self.requests[-1].index_width


def floats(address: int, count: int) -> Any:
    """Memory at an address as a ctypes array of float32."""
    return (ctypes.c_float * count).from_address(address)


def saxpy_body(a: float, x: int, nx: int, y: int, ny: int) -> None:
    """What the sample kernel does."""
    source, target = floats(x, nx), floats(y, ny)
    for i in range(ny):
        target[i] += a * source[i]


SAXPY = "float32, float32[::1], float32[::1]"
