# SPDX-License-Identifier: Apache-2.0
"""The CPU device: runs kernels on this computer's cores, with the results a GPU gives."""

from __future__ import annotations

import ctypes
import platform
import struct
from typing import TYPE_CHECKING, Any

from cudabuild import config
from cudabuild.cpu.abi import (
    CHECKS,
    COUNTER_SIZE,
    LAUNCH,
    LAUNCH_SIZE,
    STATUS_NO_MEMORY,
    STATUS_OK,
    STATUS_STUCK_GRID,
    STATUS_STUCK_WARP,
    pack_launch,
)
from cudabuild.cpu.arguments import Packer
from cudabuild.cpu.library import find_handover
from cudabuild.cpu.objects import find_object, load_kernel
from cudabuild.cpu.order import choose_order
from cudabuild.cpu.workers import Job, core_count, run_job
from cudabuild.definition import parameter_names
from cudabuild.errors import LaunchError
from cudabuild.faults import make_fault
from cudabuild.image.image import DeviceInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cudabuild.cpu.findings import CheckedLaunch
    from cudabuild.cpu.objects import HostKernel
    from cudabuild.cpu.store import ImageStore
    from cudabuild.definition import KernelDefinition, Options
    from cudabuild.types import Signature

    Dim = tuple[int, int, int]

__all__ = ["CpuDevice", "CpuLauncher"]

#: Static and dynamic shared memory of a block, the most that any GPU has (CUDA C++ Programming Guide, CC 9.0).
_MAX_SHARED = 227 * 1024

#: ``status`` and ``fault`` of a ``LAUNCH``, from the first on.
_OUTCOME = struct.Struct(f"=i{LAUNCH['fault'].offset - LAUNCH['status'].offset - 4}xi")

#: Below this many threads a second worker costs more to wake than it does.
_THREADS_PER_WORKER = 2048

#: Threads of blocks that have begun and wait for others: about five times what the largest GPU holds.
_MAX_RESIDENT = 1 << 20


class CpuDevice:
    """All cores of this process. Kernels are compiled by llvmlite, when they are first bound.

    Args:
        store: where their object code is kept between processes; None: nowhere.
        options_of: the options of an overload, where they may be others than the definition's.
    """

    kind = "cpu"
    #: Threads of the blocks that it lets wait for one another at once.
    most_resident_threads = _MAX_RESIDENT

    def __init__(
        self,
        store: ImageStore | None = None,
        options_of: Callable[[KernelDefinition, Signature], Options] | None = None,
    ) -> None:
        self._store = store
        self._options_of = options_of
        cores = core_count()
        self.name = f"cpu ({platform.machine()}, {cores} {'core' if cores == 1 else 'cores'})"
        self.info = DeviceInfo((0, 0), 0, self.name)

    def bind(self, definition: KernelDefinition, signature: Signature) -> CpuLauncher:
        """Finds or compiles one overload and makes it ready to launch.

        Raises:
            CompilationError: the kernel is wrong.
            ToolError: llvmlite is missing.
        """
        checks = frozenset(config.get("check"))
        options = definition.options if self._options_of is None else self._options_of(definition, signature)
        if options != definition.options:
            definition = definition.with_options(options)
        if checks & CHECKS:  # what is told of it names lines and holds no plain values: never kept
            from cudabuild.cpu.compile import compile_kernel

            kernel = compile_kernel(definition, signature, checks)
        else:
            kernel = load_kernel(find_object(definition, signature, self._store, checks), store=self._store)
        names = parameter_names(definition.function, len(signature))
        return CpuLauncher(kernel, definition.qualname, names, signature, self._store)


class CpuLauncher:
    """One overload on the CPU device.

    Args:
        kernel: its machine code.
        name, names: the kernel's name and those of its parameters, for messages.
        signature: the parameters' types.
        store: where the code of the pool of workers is kept between processes.
    """

    source = "cpu"

    def __init__(
        self,
        kernel: HostKernel,
        name: str,
        names: Sequence[str],
        signature: Signature,
        store: ImageStore | None = None,
    ) -> None:
        self.kernel = kernel
        self._name = name
        self._packer = Packer(name, names, signature, frozenset(kernel.object.written))
        self._handover = find_handover(store)

    def __call__(self, grid: Dim, block: Dim, stream: object, shared: int, args: tuple[Any, ...]) -> None:
        """Runs the kernel and waits for it; streams are in order by that.

        Raises:
            LaunchError: an argument that does not fit, too much shared memory, or threads that wait for each other.
            CheckError: what the checks that were asked for have found.
            BoundsError: an index out of range; under debug also what else went wrong in the kernel.
        """
        static = self.kernel.object.static_shared
        if shared + static > _MAX_SHARED:
            raise LaunchError(
                f"too much shared memory for {self._name}\n  found:    {shared} bytes of dynamic shared memory, "
                f"{static} bytes in the kernel itself\n  expected: at most {_MAX_SHARED} together"
            )
        packed = self._packer.pack(args)
        blocks = grid[0] * grid[1] * grid[2]
        cores = core_count()
        workers = min(cores, blocks, -(-blocks * block[0] * block[1] * block[2] // _THREADS_PER_WORKER))
        # Eight turns for each worker even out blocks of different length. Up to 256 blocks stay together: what lies
        # side by side in memory is then one core's.
        chunk = 1 if self.kernel.object.takes_turns else max(1, min(256, blocks // (workers * 8)))
        resident = self._count_resident(blocks, block) if self.kernel.object.takes_turns else 1
        parts = 1 if self.kernel.object.takes_turns else workers
        launch = _Launch(packed.data, parts)
        launch.fill(
            pack_launch(
                launch.params,
                block,
                grid,
                chunk,
                shared,
                order=choose_order(blocks),
                resident=resident,
                together=self.kernel.object.syncs_grid,
                parts=parts,
            )
        )
        checked = None
        if self.kernel.sites:
            from cudabuild.cpu.findings import CheckedLaunch

            checked = CheckedLaunch(self._name, self.kernel.sites, grid, block)
            launch.set_check(checked.address)
        keep = self, packed, launch, checked
        run_job(Job(self.kernel.address, launch.address, launch.stop, keep), workers, cores, self._handover)
        packed.write_back()
        if checked is None and launch.is_sound():
            return
        fault = self._find_fault(launch, grid, block)
        if fault is not None:
            if checked is not None:
                checked.close()
            raise fault
        if checked is not None:
            _finish(checked, launch)
        if launch.status != STATUS_OK:
            raise LaunchError(self._explain(launch, grid, block))

    def _count_resident(self, blocks: int, block: Dim) -> int:
        """How many blocks a worker may have begun and not ended: all that there is room for."""
        room = max(1, _MAX_RESIDENT // (block[0] * block[1] * block[2]))
        if self.kernel.object.syncs_grid and blocks > room:
            raise LaunchError(
                f"{self._name} synchronises the grid, so all its blocks must run together\n"
                f"  found:    {blocks} blocks of {block} threads\n"
                f"  expected: at most {room} blocks of that size\n"
                "  do:       launch fewer blocks, and let each do more in a loop"
            )
        return min(blocks, room)

    def _find_fault(self, launch: _Launch, grid: Dim, block: Dim) -> Exception | None:
        number = launch.read("fault")
        if number == 0:
            return None
        thread, index, extent = (launch.read(f"fault.{name}") for name in ("thread", "index", "extent"))
        site = self.kernel.object.faults[number - 1]
        where = _position(thread, block), _position(launch.read("fault.block"), grid)
        return make_fault(site, self._name, site[2], *where, index, extent)

    def _explain(self, launch: _Launch, grid: Dim, block: Dim) -> str:
        where = f"{self._name}, block {_position(launch.block, grid)}"
        if launch.status == STATUS_NO_MEMORY:
            text = f"{where}: no memory left for the threads and shared arrays of a block of {block} threads"
            if self.kernel.sites:
                text += ", or for what the checks keep: 48 bytes for each element that the kernel touches"
            return text
        where += f", thread {_position(launch.thread, block)}"
        if launch.status == STATUS_STUCK_GRID:
            return (
                f"{where}: a grid sync waits for ever\n"
                "  found:    other threads of the block wait at a barrier\n"
                "  expected: every live thread comes to the grid sync"
            )
        assert launch.status == STATUS_STUCK_WARP
        return (
            f"{where}: a warp operation waits for ever\n"
            "  found:    lanes named in its mask wait at a barrier or at a warp operation with another mask\n"
            "  expected: every live lane of the mask comes to the operation with the same mask\n"
            "  do:       call it outside divergent branches, or name only the lanes that take the branch"
        )


def _finish(checked: CheckedLaunch, launch: _Launch) -> None:
    """Raises what the checks have found."""
    error = checked.make_error()
    if error is None and launch.status in (STATUS_STUCK_WARP, STATUS_STUCK_GRID):
        error = checked.make_stuck_error(launch.block, launch.thread)
    checked.close()
    if error is not None:
        raise error


class _Launch:
    """A ``LAUNCH`` structure, counters, and the parameter block, in memory that workers share; on a cache line."""

    __slots__ = ("_memory", "_start", "address", "params")

    def __init__(self, data: bytes, parts: int) -> None:
        offset = LAUNCH_SIZE + parts * COUNTER_SIZE
        self._memory = ctypes.create_string_buffer(64 + offset + len(data))
        place = ctypes.addressof(self._memory)
        self._start = -place % 64
        self.address = place + self._start
        self.params = self.address + offset
        ctypes.memmove(self.params, data, len(data))

    def fill(self, data: bytes) -> None:
        """Stores what ``pack_launch`` made."""
        ctypes.memmove(self.address, data, LAUNCH_SIZE)

    def is_sound(self) -> bool:
        """Whether the launch, which is over, has met no fault and no failure."""
        status, fault = _OUTCOME.unpack_from(self._memory, self._start + LAUNCH["status"].offset)
        return bool(status == STATUS_OK and fault == 0)

    def stop(self) -> None:
        """Lets no worker start another block."""
        ctypes.c_int32.from_address(self.address + LAUNCH["stop"].offset).value = 1

    def set_check(self, address: int) -> None:
        """Says where a checked kernel tells what it does."""
        ctypes.c_uint64.from_address(self.address + LAUNCH["check"].offset).value = address

    def read(self, name: str) -> int:
        """One number of the structure."""
        kind = ctypes.c_int32 if LAUNCH[name].type == "i32" else ctypes.c_int64
        return int(kind.from_address(self.address + LAUNCH[name].offset).value)

    @property
    def status(self) -> int:
        return self.read("status")

    @property
    def block(self) -> int:
        return self.read("block")

    @property
    def thread(self) -> int:
        return self.read("thread")


def _position(number: int, shape: Dim) -> Dim:
    """The indices of the ``number``-th element, x fastest."""
    rest, x = divmod(number, shape[0])
    z, y = divmod(rest, shape[1])
    return x, y, z
