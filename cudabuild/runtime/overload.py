# SPDX-License-Identifier: Apache-2.0
"""One overload of a ``cuda.jit`` function as a program asks about it: what it uses, what it may be launched with.

On a GPU the driver answers, for the image that is loaded. The other devices have no registers and no assembler; there
the answers are those of the code that would be made for the default target, where the tools to make it are installed.
"""

from __future__ import annotations

from cudabuild.errors import LaunchError
from cudabuild.types.type import FunctionSignature, none

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cudabuild.runtime.jit_dispatcher import JitDispatcher
    from cudabuild.types import Signature

__all__ = ["Overload"]

#: What the driver calls an attribute of a kernel -> what an image calls it.
_ATTRIBUTES = {
    "NUM_REGS": "registers",
    "SHARED_SIZE_BYTES": "shared_bytes",
    "LOCAL_SIZE_BYTES": "local_bytes",
    "CONST_SIZE_BYTES": "const_bytes",
    "MAX_THREADS_PER_BLOCK": "max_threads",
}

#: Threads of a block on every device (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability").
_MAX_THREADS = 1024


class Overload:
    """One overload.

    Attributes:
        dispatcher: whose.
        argument_types: its argument types.
        signature: the same, with what it returns.
    """

    def __init__(self, dispatcher: JitDispatcher, argument_types: Signature) -> None:
        self.dispatcher = dispatcher
        self.argument_types = tuple(argument_types)
        self.signature = FunctionSignature(argument_types, getattr(argument_types, "return_type", none))

    def __repr__(self) -> str:
        return f"<{self.dispatcher.__qualname__}{self.signature!r}>"

    # resources

    @property
    def regs_per_thread(self) -> int:
        """Registers of a thread."""
        return self._attribute("NUM_REGS")

    @property
    def shared_mem_per_block(self) -> int:
        """Bytes of shared memory that the kernel itself declares."""
        return self._attribute("SHARED_SIZE_BYTES")

    @property
    def local_mem_per_thread(self) -> int:
        """Bytes of local memory of a thread."""
        return self._attribute("LOCAL_SIZE_BYTES")

    @property
    def const_mem_size(self) -> int:
        """Bytes of constant memory that the kernel itself fills."""
        return self._attribute("CONST_SIZE_BYTES")

    @property
    def max_threads_per_block(self) -> int:
        """The most threads of a block that a launch may have."""
        return self._attribute("MAX_THREADS_PER_BLOCK")

    def max_cooperative_grid_blocks(self, blockdim: int | tuple[int, ...], dynsmemsize: int = 0) -> int:
        """The most blocks that run at once on the current device.

        Args:
            blockdim: threads of a block, along up to three axes.
            dynsmemsize: dynamic shared memory of a block, in bytes.
        """
        threads = 1
        for extent in blockdim if isinstance(blockdim, tuple) else (blockdim,):
            threads *= extent
        device, launcher = self.dispatcher.bind_overload(self.argument_types)
        if device.kind != "gpu":
            return int(device.most_resident_threads // max(threads, 1))
        driver, bound = device.driver, launcher.bound()
        ordinal = driver.current_device()
        bound.allow_shared(driver, ordinal, dynsmemsize)
        per_processor = driver.resident_blocks(bound.module.kernel, threads, dynsmemsize)
        return int(per_processor * driver.device_attribute(ordinal, "MULTIPROCESSOR_COUNT"))

    @property
    def cooperative(self) -> bool:
        """Whether its blocks wait for one another, so that all of a launch must run at once."""
        device, launcher = self.dispatcher.bind_overload(self.argument_types)
        if device.kind == "gpu":
            return bool(launcher.bound().image.attributes.get("cooperative"))
        return bool(self._image_attributes().get("cooperative"))

    def _attribute(self, name: str) -> int:
        device, launcher = self.dispatcher.bind_overload(self.argument_types)
        if device.kind == "gpu":
            return int(device.driver.kernel_attribute(launcher.bound().module.kernel, name))
        if name == "MAX_THREADS_PER_BLOCK":
            bounds = self.dispatcher.definition.options["launch_bounds"]
            most = bounds[0] if isinstance(bounds, tuple) else bounds
            return int(most or _MAX_THREADS)
        label = _ATTRIBUTES[name]
        attributes = self._image_attributes()
        if label not in attributes:
            raise LaunchError(
                f"{self!r} has no {label.replace('_', ' ')} on this device\n  found:    {device.name}\n"
                "  expected: a GPU, or the tools that compile for one"
            )
        return int(attributes[label])

    def _image_attributes(self) -> dict[str, Any]:
        return self.dispatcher.image_attributes(self.argument_types)

    # text

    def inspect_llvm(self) -> str:
        """The LLVM IR."""
        return self.dispatcher.inspect_text("llvm", self.argument_types)

    def inspect_asm(self, cc: tuple[int, int] | None = None) -> str:
        """The PTX, for a compute capability or the current device."""
        target = None if cc is None else f"sm_{cc[0]}{cc[1]}"
        return self.dispatcher.inspect_text("ptx", self.argument_types, target)

    def inspect_sass(self) -> str:
        """The machine code, disassembled."""
        return self.dispatcher.inspect_text("sass", self.argument_types)
