# SPDX-License-Identifier: Apache-2.0
"""Before any launch: what every kernel of a package would load, on this machine's GPU or on one that is only named."""

from __future__ import annotations

import sys

from cudabuild.errors import CudabuildError, LaunchError, TargetError
from cudabuild.image.image import DeviceInfo, ImageRequest
from cudabuild.runtime.dispatcher import Dispatcher
from cudabuild.runtime.images import describe_device, find_nearest, foresee_image
from cudabuild.target import TARGETS, minimum_driver, parse_target
from cudabuild.types.signature import format_signature, parse_signatures

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from cudabuild.image.image import ImageProvider
    from cudabuild.importer.loads import Load
    from cudabuild.types import Signature

    #: What the archives and the index say of a kernel: signature -> widths of its images.
    Names = dict[tuple[str, str], list[str]]

__all__ = ["Coverage", "OverloadCoverage", "coverage", "explain_overload"]

#: The index widths that a launch may ask for.
_WIDTHS = (32, 64)

#: The driver of a GPU that is only named: one that takes everything this version makes.
_NEWEST_DRIVER = max(map(minimum_driver, TARGETS.values()))


class OverloadCoverage:
    """What one overload would load.

    Attributes:
        module, qualname, signature: which.
        sources: by index width, 32 and 64 (launches whose sizes stay below 2^31, and all), what would be loaded, as
            ``Dispatcher.image_source`` says it: ``shipped cubin sm_90``, ``compiled cubin sm_90`` …; "" for nothing.
        reasons: why nothing better, by index width.
        is_live: whether the kernel itself was compared with what it would load. False where only the archives tell: of
            kernels that a function makes when it is called, and of modules that could not be imported.
    """

    __slots__ = ("is_live", "module", "qualname", "reasons", "signature", "sources")

    def __init__(self, module: str, qualname: str, signature: str) -> None:
        self.module = module
        self.qualname = qualname
        self.signature = signature
        self.sources: dict[int, str] = {}
        self.reasons: dict[int, list[str]] = {}
        self.is_live = True

    @property
    def is_precompiled(self) -> bool:
        """Whether no launch of it needs the compiler."""
        return all(source and not source.startswith("compiled") for source in self.sources.values())

    @property
    def is_covered(self) -> bool:
        """Whether every launch of it has code, compiled on first use if need be."""
        return all(self.sources.values())

    def __str__(self) -> str:
        name = f"{self.module}.{self.qualname}({self.signature})"
        widths: dict[tuple[str, tuple[str, ...]], list[int]] = {}
        for width, source in self.sources.items():
            widths.setdefault((source, tuple(self.reasons[width])), []).append(width)
        lines = []
        for (source, reasons), which in widths.items():
            only = f"{which[0]}-bit indices: " if len(which) == 1 else ""
            lines.append(f"  {only}{source or 'nothing'}")
            lines += [f"    {reason}" for reason in reasons]
        note = "" if self.is_live else "  (told from the archives alone)"
        return "\n".join([name + note, *lines])

    def __repr__(self) -> str:
        return f"<{self.module}.{self.qualname}({self.signature}): {self.sources}>"


class Coverage:
    """What every kernel of a package would load on one GPU.

    Attributes:
        package: its name.
        device: the GPU.
        overloads: in order of names.
        problems: modules that could not be imported and signatures that are wrong, each with its reason.
    """

    def __init__(
        self, package: str, device: DeviceInfo, overloads: Sequence[OverloadCoverage], problems: Sequence[str]
    ) -> None:
        self.package = package
        self.device = device
        self.overloads = list(overloads)
        self.problems = list(problems)

    @property
    def is_precompiled(self) -> bool:
        """Whether every overload is known to load without the compiler."""
        return not self.problems and all(one.is_precompiled for one in self.overloads)

    @property
    def is_covered(self) -> bool:
        """Whether every overload is known to have code, compiled on first use if need be."""
        return not self.problems and all(one.is_covered for one in self.overloads)

    def __iter__(self) -> Iterator[OverloadCoverage]:
        return iter(self.overloads)

    def __len__(self) -> int:
        return len(self.overloads)

    def __str__(self) -> str:
        ready = sum(one.is_precompiled for one in self.overloads)
        missing = sum(not one.is_covered for one in self.overloads)
        count = len(self.overloads)
        return "\n".join(
            [
                f"{self.package} on {describe_device(self.device)}",
                *map(str, self.overloads),
                *self.problems,
                f"{count} {'overload' if count == 1 else 'overloads'}: {ready} precompiled, "
                f"{count - ready - missing} compiled on first use, {missing} without code",
            ]
        )

    def __repr__(self) -> str:
        return f"<Coverage of {self.package} on {self.device.cc}: {len(self.overloads)} overloads>"


def coverage(package: str, target: str | None = None, driver: str | None = None) -> Coverage:
    """What every kernel of a package would load, told before any launch.

    Imports the modules that its archives name, and looks at those that are imported already: a kernel counts as it is
    now, with the values it reads. Nothing is compiled and nothing loaded into a driver.

    Args:
        package: the package or module, as it is imported.
        target: a GPU in place of this machine's, as ``sm_90``; needs no GPU and no driver.
        driver: the CUDA version of its driver, as ``"12.8"``; by default this machine's, or one that takes everything.

    Raises:
        ImportError: there is no such package.
        LaunchError: no ``target``, and no GPU here.
        TargetError: no such target or driver.
    """
    from importlib import import_module

    from cudabuild.decorators import SERVICES

    device = _find_device(target, driver)
    import_module(package)
    loads, left = _read_archives(package, device)
    names: Names = {}
    for load in loads:
        names.setdefault((load.module, load.qualname), []).append(load.signature)
    problems = _import_modules(package, {module for module, _ in [*names, *left]})
    found: dict[tuple[str, str, str], OverloadCoverage] = {}
    providers = SERVICES.providers()
    for kernel in _find_kernels(package):
        place = (str(kernel.definition.module), kernel.definition.qualname)
        try:
            signatures = [*kernel.signatures, *(parse_signatures(text)[0] for text in names.get(place, ()))]
        except CudabuildError as error:
            problems.append(f"{kernel.__module__}.{kernel.__qualname__}: {error}")
            continue
        for signature in dict.fromkeys(map(tuple, signatures)):
            one = _cover(kernel, signature, device, providers)
            found[one.module, one.qualname, one.signature] = one
    for load in loads:
        if (load.module, load.qualname, load.signature) not in found:
            one = _from_archives(load)
            found[one.module, one.qualname, one.signature] = one
    return Coverage(package, device, [found[key] for key in sorted(found)], problems)


def explain_overload(kernel: Dispatcher, signature: Signature, target: str | None, driver: str | None) -> str:
    """What one overload would load and why nothing better; see ``Dispatcher.explain``."""
    from cudabuild.decorators import SERVICES

    device = _find_device(target, driver)
    one = _cover(kernel, signature, device, SERVICES.providers(), nearest=True)
    head, *rest = str(one).splitlines()
    return "\n".join([head, f"  on {describe_device(device)}", *rest])


def _find_device(target: str | None, driver: str | None) -> DeviceInfo:
    version = _parse_driver(driver) if driver is not None else None
    if target is not None:
        wanted = parse_target(target)
        return DeviceInfo(wanted.cc, version or _NEWEST_DRIVER, f"a GPU of {wanted.name.replace('compute', 'sm')}")
    from cudabuild.decorators import current_device

    device = current_device()
    if device.kind != "gpu":
        raise LaunchError(
            f"no GPU to tell of\n  found:    the {device.name}\n  expected: a GPU, or the name of a target\n"
            f'  do:       name one, for example target="{next(iter(TARGETS))}"'
        )
    info = device.info
    return DeviceInfo(info.cc, version or info.driver_version, info.name)


def _parse_driver(text: str) -> int:
    major, _, minor = text.partition(".")
    if not (major.isascii() and major.isdigit() and (minor or "0").isascii() and (minor or "0").isdigit()):
        raise TargetError(
            f"no such driver\n  found:    {text!r}\n  expected: the CUDA version that it is for, such as '12.8'"
        )
    return int(major) * 1000 + int(minor or 0) * 10


def _read_archives(package: str, device: DeviceInfo) -> tuple[list[Load], set[tuple[str, str]]]:
    """What the archives of a package say, and the kernels that its build left to JIT."""
    from cudabuild.importer.listing import find_shipped
    from cudabuild.importer.loads import find_loads

    try:
        shipped = find_shipped(package)
    except CudabuildError:  # it ships nothing; damaged files are told where they are looked into for an image
        return [], set()
    return find_loads(shipped.archives, device), {(one.module, one.qualname) for one in shipped.left}


def _import_modules(package: str, names: Iterable[str]) -> list[str]:
    """Imports what was not; what cannot be imported, and why."""
    from importlib import import_module

    problems = []
    for name in sorted(names):
        if name in sys.modules or not _belongs(name, package):
            continue
        try:
            import_module(name)
        except Exception as error:  # whatever a module's own code raises; it is told, and its kernels by the archives
            problems.append(f"{name} cannot be imported: {type(error).__name__}: {error}")
    return problems


def _belongs(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def _find_kernels(package: str) -> list[Dispatcher]:
    """The kernels of a package's imported modules and their classes, each once, in order of names."""
    found: dict[tuple[str, str], Dispatcher] = {}
    for name, module in list(sys.modules.items()):
        if not _belongs(name, package) or module is None:
            continue
        scopes: list[object] = [module]
        for scope in scopes:  # it grows
            for value in list(vars(scope).values()):
                if isinstance(value, type) and value.__module__ == name and value not in scopes:
                    scopes.append(value)
                elif isinstance(value, Dispatcher) and value.__module__ == name:
                    found.setdefault((name, value.__qualname__), value)
    return [found[key] for key in sorted(found)]


def _cover(
    kernel: Dispatcher,
    signature: Signature,
    device: DeviceInfo,
    providers: Sequence[ImageProvider],
    nearest: bool = False,
) -> OverloadCoverage:
    definition = kernel.definition
    one = OverloadCoverage(str(definition.module), definition.qualname, format_signature(signature))

    def fingerprint() -> bytes:
        from cudabuild.fingerprint import compute_fingerprint

        return compute_fingerprint(definition, signature).digest

    for width in _WIDTHS:
        request = ImageRequest(definition, signature, device, width, fingerprint)
        request.afresh = kernel.is_afresh
        source = foresee_image(providers, request, kernel.may_compile)
        one.sources[width] = source
        reasons = one.reasons[width] = list(request.notes)
        if not source or source.startswith("compiled"):
            reasons += find_nearest(providers, request, named=nearest)
            if request.left is not None:
                reasons.append(f"its build left it to JIT: {request.left}")
    return one


def _from_archives(load: Load) -> OverloadCoverage:
    one = OverloadCoverage(load.module, load.qualname, load.signature)
    one.is_live = False
    for width in _WIDTHS:
        fits = any(found >= width for found in load.index_widths)
        one.sources[width] = f"shipped {load.kind} {load.target}" if fits else ""
        one.reasons[width] = list(load.reasons)
    return one
