# SPDX-License-Identifier: Apache-2.0
"""Compiling at run time: the provider that is asked last. Joins the compile wing, the cache and the driver's linker."""

from __future__ import annotations

import sys

from cudabuild import config
from cudabuild.cache.store import get_cache
from cudabuild.cache.toolchain import ToolchainMemo
from cudabuild.errors import SourceError, ToolError
from cudabuild.image.image import DeviceInfo, KernelImage
from cudabuild.importer.binding import find_recorded_options
from cudabuild.target import TARGETS, find_target, rank_targets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from cudabuild.definition import Options
    from cudabuild.fingerprint import Fingerprint
    from cudabuild.image.image import ImageRequest
    from cudabuild.target import Target

__all__ = ["CompiledProvider", "choose_target", "toolchain_of"]

#: The label of the driver's linker in a toolchain.
_DRIVER_LINKER = "driver linker"


def choose_target(device: DeviceInfo) -> Target:
    """What to compile for a device: its own cubin, else the best that it runs, however old its driver is.

    A driver that is too old for nvJitLink's cubins links the PTX itself.
    """
    ranked = rank_targets(DeviceInfo(device.cc, 1 << 30), [target for target in TARGETS.values() if not target.suffix])
    target, reason = ranked[0]
    if reason is not None:
        raise ToolError(f"no target of this version of cudabuild runs on this device: {target.name} {reason}")
    return target


def toolchain_of(name: str) -> Mapping[str, str] | None:
    """What would make the code of a target here, as in the image key; None where it cannot be made."""
    target = find_target(name)
    if not _may_compile():
        return None
    try:
        return None if target is None else _find_tools(target)[0]
    except ToolError:
        return None


def _may_compile() -> bool:
    """Whether llvmlite is installed, found out without importing it: asking the compiler imports all of it, 40 ms in
    every process that finds its images in a cache that it cannot write its notes to."""
    if "llvmlite" in sys.modules:
        return sys.modules["llvmlite"] is not None
    finders = (getattr(finder, "find_spec", None) for finder in sys.meta_path)
    return any(find("llvmlite", None) is not None for find in finders if find is not None)


def _find_tools(target: Target) -> tuple[dict[str, str], bool]:
    """The toolchain for a target, and whether the driver links because nvJitLink is missing or too new for it.

    Raises:
        ToolError: a kernel cannot be compiled here at all.
    """
    try:
        from cudabuild.backend import cubin
        from cudabuild.compiler import toolchain
    except ImportError as error:
        raise ToolError(f"compiling a kernel needs llvmlite ({error}): pip install 'cudabuild[jit]'") from None
    if target.is_ptx:
        return toolchain(target), False
    basis = toolchain(TARGETS[f"compute_{target.cc[0]}{target.cc[1]}"])
    version = _driver_version()
    try:
        linker = cubin.find_linker(target)
        if version is None or linker[0] * 1000 <= version:
            return toolchain(target), False
        obstacle = ToolError(f"nvJitLink {linker[0]} makes cubins for newer drivers than this one")
    except ToolError as error:
        obstacle = error
    if version is None:
        raise obstacle
    return {**basis, _DRIVER_LINKER: str(version)}, True


def _driver_version() -> int | None:
    from cudabuild.runtime.driver import find_driver

    driver, _ = find_driver()
    return None if driver is None else driver.version()


class CompiledProvider:
    """Compiles, in the index width that is asked for; what it made is in the cache for the next process."""

    name = "compiled"

    def __init__(self) -> None:
        self._has_noted_tools = False

    def find(self, request: ImageRequest) -> KernelImage | None:
        """The image for ``request``, or None with the reason appended to ``request.notes``.

        Raises:
            CompilationError: the kernel is wrong.
        """
        try:
            return self._find(request)
        except (ToolError, SourceError) as error:
            request.notes.append(f"{self.name}: {error}")
            return None

    def _find(self, request: ImageRequest) -> KernelImage:
        from cudabuild.cuda import config as switches
        from cudabuild.fingerprint import compute_fingerprint, image_key, log_in_process  # a hit needs none

        target = choose_target(request.device)
        tools, by_driver = _find_tools(target)
        options = find_recorded_options(request)
        fingerprint = compute_fingerprint(request.definition, request.signature, options)

        def make() -> KernelImage:
            return _compile(request, target, options, fingerprint, tools if by_driver else None)

        if fingerprint.in_process:
            log_in_process(fingerprint)
            return make()
        if config.get("images") == "none" or switches.ALWAYS_WARN_UNINIT_VAR:
            return make()
        salt = config.get("cache_salt")
        key = image_key(fingerprint, target, request.index_width, options, tools, salt)
        if request.afresh:  # what the cache has may be what is doubted
            image = make()
            image.key = key
            get_cache().publish(image)
            return image
        image = get_cache().build_once(key, target.name, make)
        if not self._has_noted_tools:  # later, what is installed may not be what has been loaded
            self._has_noted_tools = True
            ToolchainMemo(get_cache(), toolchain_of).remember(target.name, request.device.driver_version, tools)
        return image

    def foresee(self, request: ImageRequest) -> str:
        """What ``find`` would compile, as ``KernelImage.source`` says it; "" with the reason appended to
        ``request.notes``. Whether the kernel is right is not looked at."""
        try:
            target = choose_target(request.device)
            _find_tools(target)
            request.fingerprint  # noqa: B018, without source it raises
        except (ToolError, SourceError) as error:
            request.notes.append(f"{self.name}: {error}")
            return ""
        return f"compiled {target.kind} {target.name}"


def _compile(
    request: ImageRequest,
    target: Target,
    options: Options,
    fingerprint: Fingerprint,
    driver_tools: dict[str, str] | None,
) -> KernelImage:
    """Compiles; with ``driver_tools``, to PTX, which the driver then links."""
    from cudabuild.compiler import Compilation, Request

    made_for = target if driver_tools is None else TARGETS[f"compute_{target.cc[0]}{target.cc[1]}"]
    work = Compilation(request.definition, request.signature, options)
    image: KernelImage = work.get("image", Request(made_for, request.index_width))
    if driver_tools is None:
        return image
    from cudabuild.backend.cubin import prepare_links
    from cudabuild.runtime.driver import open_driver

    driver = open_driver()
    linked = KernelImage(
        module=image.module,
        qualname=image.qualname,
        signature=image.signature,
        fingerprint=image.fingerprint,
        options=image.options,
        kind="cubin",
        target=target.name,
        index_width=image.index_width,
        symbol=image.symbol,
        data=driver.link_ptx(bytes(image.data), image.symbol, prepare_links(work.get("ir", Request()).links, target)),
        # What a launch reads is the same; registers and the like are known to nvJitLink alone.
        attributes={**image.attributes, "minimum_driver": driver.version() // 1000 * 1000},
        toolchain=driver_tools,
    )
    return linked.stamp(fingerprint)
