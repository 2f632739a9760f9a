# SPDX-License-Identifier: Apache-2.0
"""A kernel image: loadable code of one overload for one target, with what a launch needs to know of it.

The launch path imports this module: no dataclasses, no typing at run time, no NumPy.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any, Protocol

    from cudabuild.definition import KernelDefinition, Options
    from cudabuild.fingerprint import Check, Fingerprint
    from cudabuild.image.left import LeftToJit
    from cudabuild.types import Signature

    class ImageProvider(Protocol):
        """Finds an image of an overload. The dispatcher asks its providers in order; the first answer wins."""

        #: ``shipped``, ``cached``, ``compiled`` …: named in logs and messages.
        name: str

        def find(self, request: ImageRequest) -> KernelImage | None:
            """The image for ``request``, or None with the reason appended to ``request.notes``."""
            ...

    #: Toolchain and parts of an image.
    Extra = tuple[dict[str, str], tuple[tuple[str, str], ...]]


__all__ = ["KNOWN_LAUNCH_ABIS", "LAUNCH_ABI", "DeviceInfo", "ImageRequest", "KernelImage"]

#: The number of the parameter block's layout (``types/layout.py``) and of everything else both wings must agree on.
LAUNCH_ABI = 2

#: The launch ABIs that this version serves: every one that was ever released, from the first that was frozen.
KNOWN_LAUNCH_ABIS = frozenset({LAUNCH_ABI})


class KernelImage:
    """Code of one overload.

    Attributes:
        module, qualname: the kernel's name.
        signature: canonical signature text.
        fingerprint: 32 bytes: what the overload means.
        options: the compile options that differ from their defaults.
        kind: ``"cubin"`` or ``"ptx"``.
        target: ``sm_90``, ``sm_90a``, ``compute_75`` …
        index_width: 32 or 64; 32 serves only launches whose sizes all fit (see ``types/layout.py``).
        symbol: the entry point's name in ``data``.
        data: the bytes handed to the driver; a memoryview into a mapped archive, or bytes.
        launch_abi: the launch-ABI number it was built for.
        attributes: facts a launch or a person wants: ``registers``, ``shared_bytes``, ``local_bytes``, …,
            ``exceptions`` (the sites of a debug image, see ``faults.py``) and
            ``minimum_driver`` (an integer as cuDriverGetVersion returns it, e.g. 12000).
        origin: where it was found: ``shipped``, ``cached`` or ``compiled``.
        key: the image key, or b"" where none was made.
        checks: what tells, without parsing source, that a kernel still is what this was built from.
    """

    __slots__ = (
        "_extra", "attributes", "checks", "data", "fingerprint", "index_width", "key", "kind", "launch_abi", "module",
        "options", "origin", "qualname", "signature", "symbol", "target",
    )  # fmt: skip

    def __init__(
        self,
        *,
        module: str,
        qualname: str,
        signature: str,
        fingerprint: bytes,
        options: Mapping[str, Any],
        kind: str,
        target: str,
        index_width: int,
        symbol: str,
        data: bytes | memoryview,
        launch_abi: int = LAUNCH_ABI,
        attributes: Mapping[str, Any] | None = None,
        toolchain: Mapping[str, str] | None = None,
        origin: str = "compiled",
        key: bytes = b"",
        checks: Iterable[Check] = (),
        parts: Iterable[tuple[str, str]] = (),
    ) -> None:
        self.module = module
        self.qualname = qualname
        self.signature = signature
        self.fingerprint = fingerprint
        self.options = dict(options)
        self.kind = kind
        self.target = target
        self.index_width = index_width
        self.symbol = symbol
        self.data = data
        self.launch_abi = launch_abi
        self.attributes = dict(attributes or {})
        self.origin = origin
        self.key = key
        self.checks = tuple(checks)
        self._extra: Extra | Callable[[], Extra] = (dict(toolchain or {}), tuple(parts))

    def stamp(self, fingerprint: Fingerprint) -> KernelImage:
        """Takes over whose image this is, and what a later process compares, from a fingerprint of now.

        An image from a cache was built from the same meaning, perhaps from another text of the source file.
        """
        if fingerprint.digest != self.fingerprint:
            raise ValueError(f"{self!r} has another fingerprint than {fingerprint!r}")
        self.module = fingerprint.module
        self.qualname = fingerprint.qualname
        self.checks = fingerprint.checks
        self.attributes["decorated"] = fingerprint.decorated
        self._extra = (self.toolchain, fingerprint.parts)
        return self

    def set_extra(self, read: Callable[[], Extra]) -> None:
        """Reads ``toolchain`` and ``parts`` by ``read`` when they are first asked for: a launch needs neither."""
        self._extra = read

    def read_extra(self) -> Extra:
        """``toolchain`` and ``parts``, read from where the image came from if they were not yet.

        Raises:
            ImageFormatError: they are damaged.
        """
        if not isinstance(self._extra, tuple):
            self._extra = self._extra()
        return self._extra

    @property
    def toolchain(self) -> dict[str, str]:
        """Label -> version of everything that made it; shown, never compared for shipped images."""
        return self.read_extra()[0]

    @property
    def parts(self) -> tuple[tuple[str, str], ...]:
        """The labelled parts of its fingerprint, for explaining a miss."""
        return self.read_extra()[1]

    @property
    def source(self) -> str:
        """For people: ``shipped cubin sm_90``, ``cached cubin sm_90``, ``shipped ptx compute_75`` …"""
        return f"{self.origin} {self.kind} {self.target}"

    def __repr__(self) -> str:
        return f"<KernelImage {self.module}:{self.qualname}({self.signature}) {self.target} index={self.index_width}>"


class DeviceInfo:
    """What choosing an image needs to know of a device: compute capability and driver version (12090, 13000, …)."""

    __slots__ = ("cc", "driver_version", "name")

    def __init__(self, cc: tuple[int, int], driver_version: int, name: str = "") -> None:
        self.cc = cc
        self.driver_version = driver_version
        self.name = name


class ImageRequest:
    """What the dispatcher asks its providers for.

    ``index_width`` 32 may be answered by a 64-bit image (it serves any launch), never the other way round.
    ``notes`` collects, provider by provider, why each had nothing: it becomes the log line or the final error.
    ``left`` says why the build of the kernel's package made no image of it, where that is known and was looked up.
    ``refused`` holds what the driver did not take, by the digests of the bytes, with what it said: not offered again.
    ``afresh`` asks for an image that is compiled now, whatever there is.
    """

    __slots__ = (
        "_fingerprint", "afresh", "definition", "device", "index_width", "left", "notes", "options", "refused",
        "signature",
    )  # fmt: skip

    def __init__(
        self,
        definition: KernelDefinition,
        signature: Signature,
        device: DeviceInfo,
        index_width: int,
        fingerprint: Callable[[], bytes],
    ) -> None:
        self.definition = definition
        self.signature = signature
        self.device = device
        self.index_width = index_width
        self.options: Options = definition.options
        self.notes: list[str] = []
        self.left: LeftToJit | None = None
        self.refused: dict[bytes, str] = {}
        self.afresh = False
        self._fingerprint: Callable[[], bytes] | bytes = fingerprint

    @property
    def fingerprint(self) -> bytes:
        """The overload's fingerprint, computed when first asked for (an untouched shipped image never asks)."""
        if not isinstance(self._fingerprint, bytes):
            self._fingerprint = self._fingerprint()
        return self._fingerprint
