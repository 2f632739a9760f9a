# SPDX-License-Identifier: Apache-2.0
"""Where kernels run: what a device must offer, and the choice of one, once per process."""

from __future__ import annotations

from cudabuild import config
from cudabuild.errors import LaunchError
from cudabuild.runtime.driver import Driver, find_driver

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    from cudabuild.definition import KernelDefinition
    from cudabuild.image.image import DeviceInfo
    from cudabuild.types import Signature

    Dim = tuple[int, int, int]

    class Launcher(Protocol):
        """One overload, bound to a device."""

        #: Where its code came from: ``shipped cubin sm_90``, ``cpu`` …; "" before the first launch.
        source: str

        def __call__(self, grid: Dim, block: Dim, stream: int, shared: int, args: tuple[Any, ...]) -> None:
            """Launches; the configuration is checked and the arguments fit the signature."""
            ...

    class Device(Protocol):
        """Runs kernels."""

        #: ``gpu``, ``cpu`` or ``python``.
        kind: str

        @property
        def name(self) -> str:
            """For people."""
            ...

        @property
        def info(self) -> DeviceInfo:
            """What choosing an image needs to know."""
            ...

        def bind(self, definition: KernelDefinition, signature: Signature) -> Launcher:
            """Makes one overload ready to run."""
            ...


__all__ = ["DeviceChoice"]


class DeviceChoice:
    """Chooses the device at the first question, by ``CUDABUILD_DEVICE`` and by what the machine has.

    Args:
        make_gpu: makes the GPU device from the driver.
        make_cpu: makes the CPU device.
        make_python: makes the Python device, which only ``CUDABUILD_DEVICE=python`` chooses.
    """

    def __init__(
        self,
        make_gpu: Callable[[Driver], Device],
        make_cpu: Callable[[], Device],
        make_python: Callable[[], Device] | None = None,
    ) -> None:
        self._make_gpu = make_gpu
        self._make_cpu = make_cpu
        self._make_python = make_python
        self._device: Device | None = None

    def get(self) -> Device:
        """The device.

        Raises:
            LaunchError: ``CUDABUILD_DEVICE=gpu`` and there is no GPU.
        """
        if self._device is None:
            self._device = self._choose()
        return self._device

    def _choose(self) -> Device:
        wanted = config.get("device")
        if wanted == "cpu":
            return self._make_cpu()
        if wanted == "python" and self._make_python is not None:
            return self._make_python()
        driver, reason = find_driver()
        if driver is not None:
            return self._make_gpu(driver)
        if wanted == "gpu":
            raise LaunchError(
                f"no GPU\n  found:    {reason}\n  expected: an NVIDIA GPU, because CUDABUILD_DEVICE=gpu\n"
                "  do:       set CUDABUILD_DEVICE=auto or cpu to run on the CPU device"
            )
        config.warn(f"{reason}: kernels run on the CPU device (CUDABUILD_DEVICE=cpu says so without this notice)")
        return self._make_cpu()
