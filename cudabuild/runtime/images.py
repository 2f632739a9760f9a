# SPDX-License-Identifier: Apache-2.0
"""Which image an overload gets: the providers in order, as the settings allow; and what is told where none has one."""

from __future__ import annotations

from cudabuild import config
from cudabuild.digest import digest
from cudabuild.errors import NoImageError
from cudabuild.image.image import KNOWN_LAUNCH_ABIS
from cudabuild.types.signature import format_signature

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cudabuild.image.image import DeviceInfo, ImageProvider, ImageRequest, KernelImage

__all__ = ["describe_device", "find_image", "find_nearest", "foresee_image"]

#: ``CUDABUILD_IMAGES`` -> the providers that it leaves, by name.
_PROVIDERS = {
    "all": ("shipped", "cached", "ptx", "compiled"),
    "shipped": ("shipped", "ptx"),
    "ptx": ("ptx",),
    "none": ("compiled",),
}


def find_image(providers: Sequence[ImageProvider], request: ImageRequest, may_compile: bool = True) -> KernelImage:
    """Asks the providers in order, as the settings allow.

    Raises:
        NoImageError: none has an image that the driver did not refuse; says what each has, what the device is, and the
            ways out.
    """
    for provider in _allowed(providers, request, may_compile):
        if provider.name == "compiled" and config.get("log") != "off":
            _look_up_left(providers, request)
        image = _ask(provider, request)
        if image is not None:
            return image
    _look_up_left(providers, request)
    request.notes += find_nearest(providers, request)
    raise NoImageError(_no_image(request, may_compile))


def foresee_image(providers: Sequence[ImageProvider], request: ImageRequest, may_compile: bool = True) -> str:
    """What :func:`find_image` would find, as ``KernelImage.source`` says it; "" if nothing. Compiles nothing.

    What was passed over before it is in ``request.notes``, and in ``request.left`` why a build left it to JIT.
    """
    for provider in _allowed(providers, request, may_compile):
        if provider.name != "compiled":
            image = _ask(provider, request)
            if image is not None:
                return image.source
            continue
        _look_up_left(providers, request)
        foresee = getattr(provider, "foresee", None)
        source: str = foresee(request) if foresee is not None else ""
        if source:
            return source
    _look_up_left(providers, request)
    return ""


def find_nearest(providers: Sequence[ImageProvider], request: ImageRequest, *, named: bool = False) -> list[str]:
    """For every provider that has none of a kernel's images, what of its images comes nearest, and how that differs.

    Looks through all that there is: for messages only.

    Args:
        providers, request: as in :func:`find_image`.
        named: also where there is an image of this name and signature, which the notes tell of already.
    """
    found: dict[str, str] = {}
    for provider in () if request.afresh else providers:
        describe = getattr(provider, "find_nearest", None)
        if describe is None or provider.name not in _PROVIDERS[config.get("images")]:
            continue
        if provider.name == "ptx" and "shipped" in found:  # the same overload's, most likely
            continue
        nearest = describe(request, named=named)
        if nearest:
            found[provider.name] = f"{provider.name}: nearest is {nearest}"
    return list(found.values())


def _allowed(providers: Sequence[ImageProvider], request: ImageRequest, may_compile: bool) -> Iterator[ImageProvider]:
    """The providers that may be asked; why the others may not is noted."""
    allowed = _PROVIDERS[config.get("images")]
    never = config.get("jit") == "never"
    for provider in providers:
        if provider.name == "compiled" and (never or not may_compile) and provider.name in allowed:
            why = "CUDABUILD_JIT=never" if never else "compilation is disabled for this kernel"
        elif provider.name not in allowed:
            why = f"CUDABUILD_IMAGES={config.get('images')}"
        elif request.afresh and provider.name != "compiled":
            why = "recompile() was called"
        else:
            yield provider
            continue
        request.notes.append(f"{provider.name}: not asked ({why})")


def _ask(provider: ImageProvider, request: ImageRequest) -> KernelImage | None:
    image = provider.find(request)
    obstacle = _find_obstacle(image, request) if image is not None else ""
    if image is None or not obstacle:
        return image
    request.notes.append(f"{provider.name}: {image.source} {obstacle}")
    return None


def _find_obstacle(image: KernelImage, request: ImageRequest) -> str:
    """Why an image that a provider offers is not taken, or ""."""
    if image.launch_abi not in KNOWN_LAUNCH_ABIS:
        known = ", ".join(map(str, sorted(KNOWN_LAUNCH_ABIS)))
        return f"has launch ABI {image.launch_abi}, this version knows {known}"
    refusal = request.refused.get(digest(image.data)) if request.refused else None
    return f"was refused by the driver: {refusal}" if refusal is not None else ""


def _look_up_left(providers: Sequence[ImageProvider], request: ImageRequest) -> None:
    """Finds out why the kernel's build made no image of it. Reads a file: only before compiling or failing."""
    for provider in providers:
        find_left = getattr(provider, "find_left", None)
        if request.left is None and find_left is not None:
            request.left = find_left(request)


def _no_image(request: ImageRequest, may_compile: bool) -> str:
    definition, device = request.definition, request.device
    module = definition.module or "(no module)"  # a function made by exec may have none
    package = module.partition(".")[0]
    number = f"{device.cc[0]}{device.cc[1]}"
    lines = [
        f"no image of {module}.{definition.qualname} for this device",
        f"  kernel:   {definition.qualname}({format_signature(request.signature)}), {request.index_width}-bit indices",
        f"  device:   {describe_device(device)}",
        *(f"  {note}" for note in request.notes),
    ]
    left = request.left
    may_be_built = left is None or left.kind in ("stale", "not-rebuilt")  # then other overloads of it may ship
    if left is not None:
        lines.append(f"  its build left it to JIT: {left}")
        if left.statement:
            lines.append(f"            {left.statement}")
    compiled = any(note.startswith("compiled: compiled ") for note in request.notes)
    too_old = bool(request.refused) or any("needs a driver" in note for note in request.notes)
    lines += [
        "  do:       one of",
        *([] if compiled else [f"            {_way_to_compile(may_compile)}, to compile on first use"]),
        *(["            install a newer NVIDIA driver"] if too_old else []),
        *([f'            rebuild {package} with "{number}" in archs of [tool.cudabuild]'] if may_be_built else ()),
        "            set CUDABUILD_DEVICE=cpu, to run on the CPU device",
    ]
    if left is not None and left.remedies:
        lines.append(f"            have it built into {package}, by one of")
        lines += [f"              {remedy}" for remedy in left.remedies]
    return "\n".join(lines)


def _way_to_compile(may_compile: bool) -> str:
    """What keeps a kernel from being compiled: a setting, this program, or the missing compiler."""
    if config.get("jit") == "never":
        return "unset CUDABUILD_JIT"
    if "compiled" not in _PROVIDERS[config.get("images")]:
        return "unset CUDABUILD_IMAGES"
    return "pip install 'cudabuild[jit]'" if may_compile else "call the kernel's disable_compile(False)"


def describe_device(device: DeviceInfo) -> str:
    """For people: name, compute capability and the CUDA version of the driver."""
    version = f"{device.driver_version // 1000}.{device.driver_version % 1000 // 10}"
    return f"{device.name or 'GPU'}, compute capability {device.cc[0]}.{device.cc[1]}, driver for CUDA {version}"
