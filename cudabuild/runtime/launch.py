# SPDX-License-Identifier: Apache-2.0
"""The GPU device: has the image of an overload found, loads it, launches it, and makes its fast launchers."""

from __future__ import annotations

from _thread import RLock
from time import perf_counter

from cudabuild import config
from cudabuild.digest import digest
from cudabuild.errors import DriverError, LaunchError
from cudabuild.image.image import ImageRequest
from cudabuild.runtime import driver as results
from cudabuild.runtime.arguments import is_contiguous, read_argument
from cudabuild.runtime.arrays import HostArrays, flatten
from cudabuild.runtime.configuration import Configuration
from cudabuild.runtime.images import find_image
from cudabuild.runtime.marshal import BlockFormat, block_values, make_launcher_factory, needs_wide
from cudabuild.runtime.module import Module, tidy
from cudabuild.types.layout import parameter_fields
from cudabuild.types.signature import format_signature

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from cudabuild.definition import KernelDefinition
    from cudabuild.image.image import DeviceInfo, ImageProvider, KernelImage
    from cudabuild.runtime.arguments import Argument
    from cudabuild.runtime.driver import Driver
    from cudabuild.runtime.marshal import Link
    from cudabuild.types import Signature

__all__ = ["BoundKernel", "GpuDevice", "GpuLauncher"]

#: Dynamic and static shared memory together, up to which no permission is needed (CUDA C++ Programming Guide).
_FREE_SHARED = 48 * 1024


class BoundKernel:
    """One loaded image of an overload, as one device runs it."""

    __slots__ = ("format", "image", "module", "shared_allowed")

    def __init__(self, image: KernelImage, module: Module, format: BlockFormat) -> None:
        self.image = image
        self.module = module
        self.format = format
        self.shared_allowed: dict[int, int] = {}

    def allow_shared(self, driver: Driver, ordinal: int, size: int) -> None:
        """Asks for more dynamic shared memory than every kernel may have, where ``size`` needs it."""
        static = int(self.image.attributes.get("shared_bytes", 0))
        if size + static > _FREE_SHARED and size > self.shared_allowed.get(ordinal, 0):
            try:
                driver.allow_dynamic_shared(self.module.kernel, ordinal, size)
            except DriverError as error:
                if error.code in results.REFUSALS:
                    raise
                raise LaunchError(
                    f"too much shared memory\n  found:    {size} bytes of dynamic shared memory, "
                    f"{static} bytes in the kernel itself\n  expected: what the device grants ({error})"
                ) from None
            self.shared_allowed[ordinal] = size


def _launch_call(driver: Driver, bound: BoundKernel) -> Callable[..., tuple[Any, ...]]:
    return driver.launch_cooperative if bound.image.attributes.get("cooperative") else driver.launch


def _is_same_code(one: KernelImage, other: KernelImage) -> bool:
    """Whether two images are one, wherever they were found: what one device compiled, the next finds in the cache."""
    return (one.symbol, one.index_width, one.target) == (other.symbol, other.index_width, other.target) and (
        one.data == other.data
    )


class GpuDevice:
    """All GPUs of the process: a launch goes to the one of the calling thread's current context."""

    kind = "gpu"

    def __init__(self, driver: Driver, providers: Callable[[], Sequence[ImageProvider]]) -> None:
        self.driver = driver
        self.providers = providers

    @property
    def info(self) -> DeviceInfo:
        return self.driver.device_info(self.driver.current_device())

    @property
    def name(self) -> str:
        return self.info.name

    def bind(self, definition: KernelDefinition, signature: Signature) -> GpuLauncher:
        """Images are found when the first launch tells device and index width."""
        return GpuLauncher(self, definition, signature)


class GpuLauncher:
    """One overload on the GPUs of the process: its images by device and index width.

    Attributes:
        source: where the latest image came from.
        may_compile: whether a missing image may be compiled, as far as this kernel goes.
        afresh: whether only what is compiled now will do.
        on_image: called once, when an image has been found and loaded.
    """

    def __init__(self, device: GpuDevice, definition: KernelDefinition, signature: Signature) -> None:
        self.definition = definition
        self.signature = signature
        self.source = ""
        self.may_compile = True
        self.afresh = False
        self.on_image: Callable[[], None] | None = None
        self._device = device
        self._driver = device.driver
        self._bound: dict[tuple[int, int], BoundKernel] = {}
        self._refused: dict[int, dict[bytes, str]] = {}  # by device, as in a request
        self._new: Module | None = None  # loaded, and not launched yet
        # Re-entrant: a finaliser that runs inside a bind may launch the same kernel.
        self._lock = RLock()

    def __call__(
        self, grid: tuple[int, int, int], block: tuple[int, int, int], stream: int, shared: int, args: tuple[Any, ...]
    ) -> None:
        self.launch(Configuration(grid, block, stream, shared, None), [read_argument(value) for value in args])

    def launch(self, configuration: Configuration, arguments: Sequence[Argument]) -> tuple[BoundKernel, str] | None:
        """Launches carefully.

        Returns:
            The kernel, and what a fast launcher for the like may serve: ``narrow``, ``wide`` or ``all``. None where no
            fast launcher can be made (NumPy arrays, debug images).
        """
        driver = self._driver
        ordinal = driver.current_device()
        host = None
        if any(argument.reader == "host" for _, argument in flatten(self.signature, arguments)):
            host = HostArrays(self.signature, arguments)
        wide = not configuration.fits32 or needs_wide(self.signature, arguments)
        bound = self._get_bound(ordinal, 64 if wide else 32)
        bound = self._allow_shared(ordinal, bound, configuration.shared)
        stream = driver.get_stream(configuration.stream)
        for _, argument in flatten(self.signature, arguments):
            if argument.stream is not None and argument.stream != (configuration.stream or 1):
                driver.order(argument.stream, stream)
        if host is not None:
            self._launch_host(host, bound, ordinal, configuration, arguments, stream)
            return None
        bound, fault = self._launch_once(
            bound, ordinal, configuration, arguments, stream, lambda argument: argument.pointer
        )
        if fault is not None:
            raise fault
        if "exceptions" in bound.image.attributes:  # every launch of a debug image looks at its record
            return None
        if not configuration.fits32 or (not wide and bound.image.index_width == 64):
            return bound, "all"
        return bound, "wide" if wide else "narrow"

    def _launch_host(
        self,
        host: HostArrays,
        bound: BoundKernel,
        ordinal: int,
        configuration: Configuration,
        arguments: Sequence[Argument],
        stream: Any,
    ) -> None:
        failed = True
        try:
            host.copy_in(self._driver, stream)
            _, fault = self._launch_once(bound, ordinal, configuration, arguments, stream, host.pointer_of)
            host.copy_out(self._driver, stream)
            failed = False
        finally:
            host.free(self._driver, failed=failed)
        if fault is not None:
            raise fault

    def _launch_once(
        self,
        bound: BoundKernel,
        ordinal: int,
        configuration: Configuration,
        arguments: Sequence[Argument],
        stream: Any,
        pointers: Callable[[Argument], int],
    ) -> tuple[BoundKernel, Exception | None]:
        """Packs and launches; a kernel that the context does not know is loaded anew, once, and then another tried.

        Returns:
            The kernel, and what a debug image's first offender met.
        """
        lost = False
        while True:
            format = bound.format
            slot = format.take_slot()
            fields, record = format.fields, None
            if "exceptions" in bound.image.attributes:
                from cudabuild.runtime.fault_record import FaultRecord

                fields, record = fields[:-1], FaultRecord(self._driver)
            values = block_values(self.signature, fields, arguments, pointers)
            format.pack_into(slot[0], 0, *values, *(() if record is None else (record.pointer,)))
            (result,) = _launch_call(self._driver, bound)(
                bound.module.kernel, *configuration.grid, *configuration.block, configuration.shared, stream, slot[1], 0
            )
            format.slots.append(slot)
            success = result is self._driver.success
            fault = record.finish(stream, self.definition, bound.image, launched=success) if record else None
            if success:
                break
            if int(result) in results.LOST_BINDING and not lost:
                lost = True
                bound = self._rebind(ordinal, bound)
            elif int(result) in results.REFUSALS:
                bound = self._replace(ordinal, bound, self._driver.error("cuLaunchKernel", result))
            else:
                raise self.error(result, configuration, bound)
            bound = self._allow_shared(ordinal, bound, configuration.shared)
        if self._new is not None:
            module, self._new = self._new, None
            tidy(self._driver, stream, module)
        return bound, fault

    def _allow_shared(self, ordinal: int, bound: BoundKernel, size: int) -> BoundKernel:
        """The kernel with the permission that a launch needs; another one where the driver refuses it only now."""
        while True:
            try:
                bound.allow_shared(self._driver, ordinal, size)
            except DriverError as error:
                bound = self._replace(ordinal, bound, error)
            else:
                return bound

    def error(self, result: Any, configuration: Configuration, bound: BoundKernel) -> Exception:
        """The error for a launch that failed."""
        code = int(result)
        what = f"{self.definition.qualname}{configuration!r}"
        if code in (results.INVALID_VALUE, results.OUT_OF_RESOURCES):
            facts = {name: bound.image.attributes.get(name) for name in ("registers", "shared_bytes", "max_threads")}
            known = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in facts.items() if value is not None)
            return LaunchError(
                f"the device refuses this launch: {getattr(result, 'name', code)}\n  found:    {what}"
                f"{f', a kernel with {known}' if known else ''}\n"
                "  expected: a block whose registers and shared memory fit the device\n"
                "  do:       launch fewer threads per block, or less dynamic shared memory"
            )
        if code == results.COOPERATIVE_LAUNCH_TOO_LARGE:
            return LaunchError(
                f"too many blocks for a grid that waits for all of them\n  found:    {what}\n"
                "  expected: no more blocks than the device runs at once, for this_grid().sync()\n"
                "  do:       launch fewer blocks, each doing more: for i in range(cuda.grid(1), n, cuda.gridsize(1))"
            )
        error = self._driver.error("cuLaunchKernel", result)
        return DriverError(f"launching {what}", error.code, error.name, error.text)

    # binding

    def bound(self) -> BoundKernel:
        """The kernel as the current device runs it with small arrays, loaded if it was not."""
        bound = self._get_bound(self._driver.current_device(), 32)
        if self._new is not None:
            tidy(self._driver, None)
        return bound

    def _get_bound(self, ordinal: int, width: int) -> BoundKernel:
        bound = self._bound.get((ordinal, width))
        if bound is None:
            with self._lock:  # threads that miss together compile once
                bound = self._bound.get((ordinal, width)) or self._bind(ordinal, width)
        return bound

    def _rebind(self, ordinal: int, lost: BoundKernel) -> BoundKernel:
        with self._lock:
            served = [width for (device, width), bound in self._bound.items() if bound is lost and device == ordinal]
            self._bound = {key: bound for key, bound in self._bound.items() if bound is not lost}
            return self._bind(ordinal, min(served, default=lost.image.index_width))

    def _replace(self, ordinal: int, bound: BoundKernel, error: DriverError) -> BoundKernel:
        """The kernel from the next image, after the driver has refused one that it had taken at first."""
        self._refuse(ordinal, bound.image, error)
        return self._rebind(ordinal, bound)

    def _refuse(self, ordinal: int, image: KernelImage, error: DriverError) -> None:
        said = f"{error.name} ({error.text})" if error.text else error.name
        self._refused.setdefault(ordinal, {})[digest(image.data)] = said
        name = f"{self.definition.qualname}({format_signature(self.signature)})"
        what = f"{name}: {image.source}, {image.index_width}-bit indices"
        told = f"{what}: the driver refuses it: {said}; looking for another image"
        if config.get("log") == "off":  # one line for all kernels of a package that have the same fault
            config.warn(told, f"{str(self.definition.module).partition('.')[0]} {image.source} {said}")
        else:
            config.log("info", told)

    def _bind(self, ordinal: int, width: int) -> BoundKernel:
        start = perf_counter()
        info = self._driver.device_info(ordinal)
        request = ImageRequest(self.definition, self.signature, info, width, self._fingerprint)
        request.afresh = self.afresh
        while True:
            request.refused = self._refused.get(ordinal, request.refused)
            image = find_image(self._device.providers(), request, self.may_compile)
            try:
                bound = self._load(image, ordinal)
            except DriverError as error:
                loading = error.call.startswith("cuLibrary")
                if error.code not in (results.LOAD_REFUSALS if loading else results.REFUSALS):
                    raise
                self._refuse(ordinal, image, error)
                request.notes.clear()
            else:
                break
        self._bound[ordinal, width] = bound
        if image.index_width == 64:
            self._bound.setdefault((ordinal, 64), bound)
        self.source = image.source
        if self.on_image is not None:
            self.on_image()
            self.on_image = None
        elapsed = (perf_counter() - start) * 1e3
        reasons = [*request.notes, *([f"left to JIT: {request.left}"] if request.left is not None else [])]
        why = f"; {'; '.join(reasons)}" if image.origin == "compiled" and reasons else ""
        config.log(
            "info",
            f"{self.definition.qualname}({format_signature(self.signature)}): {image.source}, "
            f"{image.index_width}-bit indices, {elapsed:.2f} ms{why}",
        )
        return bound

    def _load(self, image: KernelImage, ordinal: int) -> BoundKernel:
        bound = self._find_loaded(image)
        if bound is None:
            fields = parameter_fields(self.signature, image.index_width, fault=bool(image.options.get("debug")))
            self._new = Module(self._driver, image)
            bound = BoundKernel(image, self._new, BlockFormat(fields))
        if self.definition.carveout is not None:
            self._driver.prefer_shared_memory(bound.module.kernel, ordinal, self.definition.carveout)
        return bound

    def _find_loaded(self, image: KernelImage) -> BoundKernel | None:
        """The same image if another device or width has loaded it: a library serves every context."""
        for bound in self._bound.values():
            if bound.image is image or _is_same_code(bound.image, image):
                return bound
        return None

    def _fingerprint(self) -> bytes:
        from cudabuild.fingerprint import compute_fingerprint

        return compute_fingerprint(self.definition, self.signature).digest

    # the fast way

    def specialise(
        self,
        bound: BoundKernel,
        serves: str,
        configuration: Configuration,
        arguments: Sequence[Argument],
        rivals: str,
        link: Link,
        failed: Callable[[Any, tuple[Any, ...]], None],
    ) -> Callable[..., None]:
        """A generated launcher for arguments like these.

        Args:
            bound, serves: what ``launch`` returned.
            configuration: where it is to launch.
            arguments: those of the call just made.
            rivals: see ``make_launcher_factory``.
            link: where it passes what is not its own.
            failed: takes a result that is not success and the arguments.
        """
        driver, format = self._driver, bound.format
        factory, constants = make_launcher_factory(
            self.signature, format.fields, arguments, serves=serves, rivals=rivals
        )
        stream = driver.get_stream(configuration.stream)
        launcher = factory(
            _launch_call(driver, bound),
            driver.success,
            bound.module.kernel,
            *configuration.grid,
            *configuration.block,
            configuration.shared,
            stream,
            configuration.stream or 1,
            lambda before: driver.order(before, stream),
            format.slots.pop,
            format.slots.append,
            format.pack_into,
            link,
            failed,
            is_contiguous,
            constants,
        )
        # A kernel's handle does not keep its library loaded: the launcher must, even after a rebinding.
        launcher.module = bound.module  # type: ignore[attr-defined]
        return self._keep_to_devices(launcher, bound, link) if driver.is_mixed() else launcher

    def sort_of(self, bound: BoundKernel) -> BoundKernel | None:
        """What tells launchers for the same arguments apart: nothing where all GPUs are alike."""
        return bound if self._driver.is_mixed() else None

    def _keep_to_devices(self, launcher: Callable[..., None], bound: BoundKernel, link: Link) -> Callable[..., None]:
        """A launcher for some of several unlike GPUs. The driver would let PTX, and cubins of a lower minor, run on
        others too, which have better images; asking for the device at each launch is paid for on such machines only."""
        current_device = self._driver.current_device

        def launch(*args: Any) -> None:
            ordinal = current_device()
            known = self._bound
            if known.get((ordinal, 32)) is bound or known.get((ordinal, 64)) is bound:
                launcher(*args)
            else:
                link.next(*args)

        return launch
