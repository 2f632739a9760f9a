# SPDX-License-Identifier: Apache-2.0
"""Which image a device takes: the rule, compared with the table that it stands for, over every target and device."""

from __future__ import annotations

import pytest

from cudabuild.image.image import DeviceInfo
from cudabuild.target import TARGETS, Target, find_target, minimum_driver, parse_target, rank_targets

NEWEST_DRIVER = 13050
DEVICES = [(7, 5), (8, 0), (8, 6), (8, 7), (8, 8), (8, 9), (9, 0), (10, 0), (10, 3), (10, 7), (11, 0), (12, 0), (12, 1)]

#: device -> every cubin that it takes, best first. Written out by hand from NVIDIA's compatibility rules.
CUBINS = {
    "7.5": "75",
    "8.0": "80",
    "8.6": "86 80",
    "8.7": "87",
    "8.8": "88 86 80",
    "8.9": "89 88 86 80",
    "9.0": "90a 90",
    "10.0": "100a 100f 100",
    "10.3": "103a 103f 103 100f 100",
    "10.7": "103f 100f 103 100",
    "11.0": "110a 110f 110",
    "12.0": "120a 120f 120",
    "12.1": "121a 121f 121 120f 120",
}


@pytest.mark.parametrize("cc", DEVICES)
def test_order_of_everything_that_runs(cc: tuple[int, int]) -> None:
    ranked = rank_targets(DeviceInfo(cc, NEWEST_DRIVER), reversed(list(TARGETS.values())))
    usable = [target.name for target, reason in ranked if reason is None]
    ptx = [target for target in TARGETS.values() if target.is_ptx and target.cc <= cc]
    expected = [f"sm_{number}" for number in CUBINS[f"{cc[0]}.{cc[1]}"].split()]
    assert usable == expected + [target.name for target in sorted(ptx, key=lambda target: target.cc, reverse=True)]


@pytest.mark.parametrize("cc", DEVICES)
@pytest.mark.parametrize("driver", [10000, 11080, 12000, 12080, 12090, 13000, 13050])
def test_every_triple_is_ranked_or_refused_with_a_reason(cc: tuple[int, int], driver: int) -> None:
    ranked = rank_targets(DeviceInfo(cc, driver), TARGETS.values())
    assert sorted(target.name for target, _ in ranked) == sorted(TARGETS)
    reasons = [reason for _, reason in ranked]
    assert reasons == sorted(reasons, key=lambda reason: reason is not None), "usable ones come first"
    for target, reason in ranked:
        alone = rank_targets(DeviceInfo(cc, driver), [target])
        assert alone == [(target, reason)], "a target's verdict does not depend on the others"
        oldest = {75: 11000, 80: 11000, 86: 11010, 87: 11040, 88: 13000, 89: 11080, 90: 11080, 100: 12070, 103: 12090,
                  110: 13000, 120: 12080, 121: 12090}[target.cc[0] * 10 + target.cc[1]]  # fmt: skip
        if not target.is_ptx:
            oldest = 13000 if target.cc in ((8, 8), (11, 0)) else 12000
        if driver < oldest:
            assert reason is not None
        elif reason is not None:
            assert "driver" not in reason


#: What a driver for a CUDA version knows: the newest PTX ISA version (PTX ISA, "Release Notes").
KNOWN_ISA = {
    10000: (6, 3), 10010: (6, 4), 10020: (6, 5), 11000: (7, 0), 11010: (7, 1), 11020: (7, 2), 11030: (7, 3),
    11040: (7, 4), 11050: (7, 5), 11060: (7, 6), 11070: (7, 7), 11080: (7, 8), 12000: (8, 0), 12010: (8, 1),
    12020: (8, 2), 12030: (8, 3), 12040: (8, 4), 12050: (8, 5), 12060: (8, 5), 12070: (8, 6), 12080: (8, 7),
    12090: (8, 8), 13000: (9, 0), 13010: (9, 1), 13020: (9, 2), 13030: (9, 3), 13040: (9, 4), 13050: (9, 5),
}  # fmt: skip

#: Target -> the devices that its cubin runs on; the same rules as in ``CUBINS``, seen from the other side.
RUNS_ON = {
    name: {device for device, cubins in CUBINS.items() if name.removeprefix("sm_") in cubins.split()}
    for name in TARGETS
}


def is_taken(target: Target, device: str, driver: int) -> bool:
    """Whether a device with a driver takes an image for a target, told from the tables of this file alone."""
    if not target.is_ptx:  # made by the oldest linker that can: 13 for the parts that came with CUDA 13, else 12
        return device in RUNS_ON[target.name] and driver >= (13000 if target.cc in ((8, 8), (11, 0)) else 12000)
    reaches = tuple(map(int, device.split("."))) >= target.cc
    return reaches and KNOWN_ISA[driver] >= target.ptx_isa


def test_every_triple_of_target_device_and_driver() -> None:
    triples = 0
    for device, cubins in CUBINS.items():
        cc = tuple(map(int, device.split(".")))
        ptx = sorted((t for t in TARGETS.values() if t.is_ptx), key=lambda target: target.cc, reverse=True)
        order = [*(TARGETS[f"sm_{number}"] for number in cubins.split()), *ptx]
        for driver in KNOWN_ISA:
            ranked = rank_targets(DeviceInfo(cc, driver), TARGETS.values())  # type: ignore[arg-type]
            usable = [target for target, reason in ranked if reason is None]
            assert usable == [target for target in order if is_taken(target, device, driver)], (device, driver)
            assert len(ranked) == len(TARGETS)
            triples += len(ranked)
    assert triples == len(CUBINS) * len(KNOWN_ISA) * len(TARGETS)


def test_what_ships_beside_an_image_never_changes_its_verdict_nor_its_place() -> None:
    """Every pair of targets, on every device, with drivers that know all, some and none of them."""
    for cc in DEVICES:
        for driver in (13050, 12080, 11040, 10000):
            device = DeviceInfo(cc, driver)
            ranked = rank_targets(device, TARGETS.values())
            places = {target: place for place, (target, _) in enumerate(ranked)}
            verdicts = dict(ranked)
            for one in TARGETS.values():
                for other in TARGETS.values():
                    pair = rank_targets(device, [one, other])
                    assert all(verdicts[target] == reason for target, reason in pair)
                    if all(reason is None for _, reason in pair):
                        assert [target for target, _ in pair] == sorted({one, other}, key=places.__getitem__)


def test_the_driver_that_an_image_was_made_for_decides_with_every_target() -> None:
    """A cubin needs a driver of its linker's major, PTX one that knows the ISA version that is written in it."""
    for target in TARGETS.values():
        for driver, known in KNOWN_ISA.items():
            device = DeviceInfo(target.cc, driver)
            for major in (12, 13):
                oldest = minimum_driver(target, linker=(major, 0), ptx_isa=(9, 0) if major == 13 else (8, 5))
                ((_, reason),) = rank_targets(device, [target], {target: oldest})
                enough = known >= ((9, 0) if major == 13 else (8, 5)) if target.is_ptx else driver >= major * 1000
                assert (reason is None) is enough, (target, driver, major)


@pytest.mark.parametrize(
    ("cc", "driver", "target", "reason"),
    [
        ((9, 0), 12080, "sm_80", "runs on 8.0 and newer of major 8 only; the device is 9.0"),
        ((8, 0), 12080, "sm_86", "runs on 8.6 and newer of major 8 only; the device is 8.0"),
        ((8, 7), 12080, "sm_86", "cubins for 8.6 do not run on 8.7: Tegra parts take their own only"),
        ((8, 9), 12080, "sm_87", "cubins for 8.7 do not run on 8.9: Tegra parts take their own only"),
        ((10, 3), 12090, "sm_100a", "runs on 10.0 only; the device is 10.3"),
        ((12, 0), 12090, "sm_100f", "runs on 10.0 and newer of its family only; the device is 12.0"),
        ((8, 6), 12090, "compute_90", "PTX for 9.0 and newer; the device is 8.6"),
        ((12, 1), 12080, "compute_121", "needs a driver for CUDA 12.9 or newer; this one is for CUDA 12.8"),
        ((11, 0), 12090, "sm_110", "needs a driver for CUDA 13.0 or newer; this one is for CUDA 12.9"),
    ],
)
def test_reasons(cc: tuple[int, int], driver: int, target: str, reason: str) -> None:
    assert rank_targets(DeviceInfo(cc, driver), [parse_target(target)]) == [(parse_target(target), reason)]


def test_recorded_drivers_replace_the_tables() -> None:
    target = parse_target("sm_90")
    device = DeviceInfo((9, 0), 12080)
    assert rank_targets(device, [target], {target: 12000}) == [(target, None)]
    ((_, reason),) = rank_targets(device, [target], {target: 13000})
    assert reason == "needs a driver for CUDA 13.0 or newer; this one is for CUDA 12.8"


def test_targets_of_a_newer_cudabuild_are_ranked_too() -> None:
    newer = find_target("sm_107a")
    assert newer is not None
    ranked = rank_targets(DeviceInfo((10, 7), 13050), [parse_target("sm_103f"), newer])
    assert [target.name for target, reason in ranked if reason is None] == ["sm_107a", "sm_103f"]


def test_two_devices_choose_apart() -> None:
    ships = [parse_target(name) for name in ("80", "90", "90a", "compute_75")]
    best = [rank_targets(DeviceInfo(cc, 12090), ships)[0][0].name for cc in ((8, 6), (9, 0), (7, 5), (8, 6))]
    assert best == ["sm_80", "sm_90a", "compute_75", "sm_80"]
