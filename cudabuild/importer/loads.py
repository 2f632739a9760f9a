# SPDX-License-Identifier: Apache-2.0
"""Which shipped image each kernel would load on a device; told from the archives alone, nothing is imported."""

from __future__ import annotations

from cudabuild.image.provider import KNOWN_LAUNCH_ABIS, format_driver
from cudabuild.target import find_target, rank_targets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from cudabuild.image.archive import Archive, Record
    from cudabuild.image.image import DeviceInfo

__all__ = ["Load", "find_loads"]


class Load:
    """What one overload would load.

    Attributes:
        module, qualname, signature: which.
        target: of the images that it would load; "" if none fits.
        kind: ``cubin``, ``ptx`` or "".
        index_widths: of these images; 32-bit ones serve launches whose sizes all stay below 2^31.
        reasons: why other targets were passed over, or why nothing fits.
    """

    __slots__ = ("index_widths", "kind", "module", "qualname", "reasons", "signature", "target")

    def __init__(self, name: tuple[str, str, str]) -> None:
        self.module, self.qualname, self.signature = name
        self.target = ""
        self.kind = ""
        self.index_widths: tuple[int, ...] = ()
        self.reasons: list[str] = []


def find_loads(archives: Sequence[Archive], device: DeviceInfo) -> list[Load]:
    """What every overload of some archives would load on a device, in order of names.

    Raises:
        ImageFormatError: an archive is damaged.
    """
    records: dict[tuple[str, str, str], dict[str, list[Record]]] = {}
    for archive in archives:
        for record in archive.records():
            named = records.setdefault((record.module, record.qualname, record.signature), {})
            named.setdefault(archive.target, []).append(record)
    return [_choose(Load(name), found, device) for name, found in sorted(records.items())]


def _choose(load: Load, records: dict[str, list[Record]], device: DeviceInfo) -> Load:
    targets = [target for target in map(find_target, records) if target is not None]
    # Cubins come first in the ranking, as shipped cubins do when a kernel is bound.
    for target, reason in rank_targets(device, targets):
        if reason is not None:
            load.reasons.append(f"{target.name} {reason}")
            continue
        fitting = [record for record in records[target.name] if not _find_obstacle(record, device)]
        if fitting:
            load.target, load.kind = target.name, fitting[0].kind
            load.index_widths = tuple(sorted({record.index_width for record in fitting}))
            return load
        load.reasons.append(f"{target.name} {_find_obstacle(records[target.name][0], device)}")
    return load


def _find_obstacle(record: Record, device: DeviceInfo) -> str:
    if record.launch_abi not in KNOWN_LAUNCH_ABIS:
        return f"has launch ABI {record.launch_abi}, which this version does not serve"
    if record.minimum_driver > device.driver_version:
        return f"needs a driver for CUDA {format_driver(record.minimum_driver)} or newer"
    return ""
