# SPDX-License-Identifier: Apache-2.0
"""Whole machines in one process: dispatcher, providers, cache and a fake driver; the compiler makes known bytes.

The code that it makes says whose it is and ends with its own digest, so a test sees at the driver's door whether what
came through is whole, and at each launch whose code ran.
"""

from __future__ import annotations

import importlib.util
import itertools
import linecache
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from fake_driver import CUresult, FakeDriver

from cudabuild import config
from cudabuild.cache.provider import CacheProvider
from cudabuild.cache.store import Cache
from cudabuild.definition import DEFAULT_OPTIONS, KernelDefinition
from cudabuild.digest import digest
from cudabuild.fingerprint import compute_fingerprint, image_key
from cudabuild.image.archive import write_archive
from cudabuild.image.image import DeviceInfo, ImageRequest, KernelImage
from cudabuild.importer import binding
from cudabuild.jit import choose_target
from cudabuild.runtime.dispatcher import Dispatcher
from cudabuild.runtime.driver import Driver
from cudabuild.runtime.launch import GpuDevice
from cudabuild.target import Target, parse_target, rank_targets
from cudabuild.types import format_signature

__all__ = ["TOOLS", "Array", "Machine", "WatchedDriver", "age", "is_whole", "load", "make_code", "ship"]

TOOLS = {"compiler": "c1", "llvmlite": "0.50", "libdevice": "aa", "nvjitlink": "12.9"}

SPEC = "float32[::1]"


class Array:
    """Four floats in device memory."""

    __cuda_array_interface__ = {"shape": (4,), "typestr": "<f4", "data": (4096, False), "version": 3}


def make_code(symbol: str, target: str, width: int) -> bytes:
    """Bytes that stand for the code of a kernel."""
    text = f"code of {symbol} for {target}, {width}-bit indices ".encode() * 8
    return text + digest(text)


def is_whole(code: bytes) -> bool:
    """Whether bytes are as :func:`make_code` made them."""
    return len(code) > 32 and digest(code[:-32]) == code[-32:]


class WatchedDriver(FakeDriver):
    """Takes what :func:`make_code` makes and nothing else.

    Attributes:
        given: everything that it was given to load.
        cooperative: how many launches were cooperative ones.
        carveouts: what kernels asked for as shared memory, in percent.
        ran: the device and the target of each launch.
    """

    def __init__(self, ccs: tuple[tuple[int, int], ...] = ((9, 0),), version: int = 13000) -> None:
        super().__init__(ccs, version)
        self.given: list[bytes] = []
        self.cooperative = 0
        self.carveouts: list[int] = []
        self.ran: list[tuple[int, str]] = []
        self._targets: dict[int, Target] = {}
        self._pid = os.getpid()

    def cuLibraryLoadData(self, data: Any, *options: Any) -> tuple[Any, ...]:
        code = bytes(data)
        if code.endswith(b"\0") and is_whole(code[:-1]):  # PTX ends with one
            code = code[:-1]
        self.given.append(code)
        if not is_whole(code):
            return CUresult.CUDA_ERROR_INVALID_IMAGE, None
        words = code.split(b" ")
        self.add_code(data, words[2].decode(), "", lambda *values: None)
        status, library = super().cuLibraryLoadData(data, *options)
        self._targets[library] = parse_target(words[4].decode().rstrip(","))
        return status, library

    def cuCtxGetCurrent(self) -> tuple[Any, ...]:
        if os.getpid() != self._pid:  # as every call of the driver's in a forked child
            return CUresult.CUDA_ERROR_NOT_INITIALIZED, None
        return super().cuCtxGetCurrent()

    def cuLaunchKernel(self, kernel: int, *args: Any) -> tuple[Any, ...]:
        if os.getpid() != self._pid:
            return (CUresult.CUDA_ERROR_NOT_INITIALIZED,)
        context = getattr(self._thread, "context", 0)
        if context:
            device = DeviceInfo(self.ccs[context - 100], self.driver_version)
            target = self._targets[self._kernels[kernel][0]]
            ((_, obstacle),) = rank_targets(device, [target])
            if obstacle is not None:
                return (CUresult.CUDA_ERROR_NO_BINARY_FOR_GPU,)
            self.ran.append((context - 100, target.name))
        return super().cuLaunchKernel(kernel, *args)

    def cuLaunchCooperativeKernel(self, *args: Any) -> tuple[Any, ...]:
        self.cooperative += 1
        return self.cuLaunchKernel(*args, 0)

    def cuKernelSetAttribute(self, attribute: int, value: int, kernel: int, device: int) -> tuple[Any, ...]:
        if int(attribute) == 9:  # CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT
            self.carveouts.append(value)
            return (CUresult.CUDA_SUCCESS,)
        return super().cuKernelSetAttribute(attribute, value, kernel, device)


class Machine:
    """What a fresh process would be: nothing is remembered but what is in the cache and beside the modules.

    Attributes:
        fake: its driver.
        compiled: the symbol of everything that was compiled here, in order.
        attributes: what the compiler finds out about its code.
        compile_time: how long it takes for one image, in seconds.
        on_compile: called when a compilation begins.
    """

    name = "compiled"

    def __init__(
        self,
        root: Path | str | None,
        ccs: tuple[tuple[int, int], ...] = ((9, 0),),
        *,
        version: int = 13000,
        tools: Mapping[str, str] = TOOLS,
        site: Iterable[str] = (),
    ) -> None:
        config._warned.clear()
        binding._folders.clear()
        binding._left.clear()
        linecache.clearcache()
        self.fake = WatchedDriver(ccs, version)
        self.tools = dict(tools)
        self.cache = Cache(str(root) if root is not None else None, site)
        self.compiled: list[str] = []
        self.attributes: dict[str, Any] = {}
        self.compile_time = 0.0
        self.on_compile: Callable[[], object] = lambda: None
        providers = (
            binding.ShippedProvider("cubin"), CacheProvider(self.cache, lambda target: self.tools),
            binding.ShippedProvider("ptx"), self,
        )  # fmt: skip
        self._device = GpuDevice(Driver(self.fake), lambda: providers)

    def current_device(self) -> GpuDevice:
        return self._device

    def find(self, request: ImageRequest) -> KernelImage | None:
        """The provider that is asked last: it compiles, through the cache."""
        target = choose_target(request.device)
        fingerprint = compute_fingerprint(request.definition, request.signature, request.options)
        key = image_key(fingerprint, target, request.index_width, request.options, self.tools)

        def make() -> KernelImage:
            self.on_compile()
            time.sleep(self.compile_time)
            image = make_image_of(request.definition, request.signature, target.name, request.index_width)
            self.compiled.append(image.symbol)
            image.attributes.update(self.attributes)
            image.set_extra(lambda: (self.tools, fingerprint.parts))
            return image.stamp(fingerprint)

        return self.cache.build_once(key, target.name, make)

    def kernel(self, function: FunctionType, *, carveout: int | None = None, **options: Any) -> Dispatcher:
        """A kernel of one array."""
        chosen = DEFAULT_OPTIONS.replace(**options) if options else DEFAULT_OPTIONS
        return Dispatcher(KernelDefinition(function, SPEC, None, chosen, carveout=carveout), self)  # type: ignore[arg-type]

    def launch(self, function: FunctionType, **options: Any) -> str:
        """Launches a new kernel of ``function``; whose code ran."""
        self.kernel(function, **options)[1, 32](Array())
        assert all(map(is_whole, self.fake.given)), "the driver was given damaged code"
        return self.fake.launches[-1].symbol


def make_image_of(definition: KernelDefinition, signature: Any, target: str, width: int) -> KernelImage:
    """An image as a compiler makes it, of known bytes."""
    fingerprint = compute_fingerprint(definition, signature)
    symbol = f"{definition.function.__name__}_{fingerprint.digest.hex()[:16]}"
    return KernelImage(
        module=fingerprint.module, qualname=fingerprint.qualname, signature=format_signature(signature),
        fingerprint=fingerprint.digest, kind="ptx" if target.startswith("compute") else "cubin", target=target,
        options={name: value for name, value in definition.options.values.items() if value != DEFAULT_OPTIONS[name]},
        index_width=width, symbol=symbol, data=make_code(symbol, target, width),
        attributes={"exceptions": ()} if definition.options["debug"] else {},
    ).stamp(fingerprint)  # fmt: skip


def ship(folder: Path, functions: Iterable[FunctionType], targets: str, **attributes: Any) -> None:
    """Archives of kernels of one array, as a build would put them into ``folder``."""
    definitions = [KernelDefinition(function, SPEC) for function in functions]
    folder.mkdir(parents=True, exist_ok=True)
    for target in targets.split():
        images = [
            make_image_of(definition, definition.signatures[0], target, width)
            for definition in definitions
            for width in (32, 64)
        ]
        for image in images:
            image.attributes.update(attributes)
        write_archive(folder / f"{target}.cuar", images, target)


_numbers = itertools.count()


def load(folder: Path, text: str | None = None, name: str = "") -> ModuleType:
    """Imports ``folder/name.py`` anew, as a fresh process would, bytecode left aside.

    Args:
        folder: where it is.
        text: what it holds; what stands there by default.
        name: the module's name; one that no other module has by default.
    """
    name = name or f"case_{next(_numbers)}"
    path = folder / f"{name}.py"
    if text is not None:
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    code = compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
    exec(code, module.__dict__)
    return module


def age(path: Path, seconds: float = 1e9) -> None:
    """Gives a file a time far in the past."""
    os.utime(path, (seconds, seconds))
