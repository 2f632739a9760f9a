# SPDX-License-Identifier: Apache-2.0
"""Which image a device takes: the rule, compared with the table that it stands for, over every target and device."""

from __future__ import annotations

import pytest

from cudabuild.image.image import DeviceInfo
from cudabuild.target import TARGETS, find_target, parse_target, rank_targets

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
