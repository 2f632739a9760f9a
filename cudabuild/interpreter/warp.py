# SPDX-License-Identifier: Apache-2.0
"""What the lanes of a warp get from an operation once all of them have come to it."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["exchange"]

WARP = 32


def exchange(name: str, given: dict[int, tuple[Any, ...]]) -> dict[int, Any]:
    """The result for each lane.

    Args:
        name: the operation: ``shfl_down_sync``, ``ballot_sync`` …
        given: lane -> its arguments without the mask.
    """
    if name == "syncwarp":
        return dict.fromkeys(given)
    if name.startswith("shfl"):
        return {lane: _shuffle(name, lane, given) for lane in given}
    if name.startswith("match"):
        return _match(name, given)
    flags = {lane: bool(values[0]) for lane, values in given.items()}
    if name == "ballot_sync":
        result: Any = _lanes(lane for lane, flag in flags.items() if flag)
    elif name == "all_sync":
        result = all(flags.values())
    elif name == "any_sync":
        result = any(flags.values())
    else:
        result = len(set(flags.values())) == 1
    return dict.fromkeys(given, result)


def _lanes(lanes: Any) -> Any:
    return np.uint32(sum(1 << lane for lane in lanes))


def _shuffle(name: str, lane: int, given: dict[int, tuple[Any, ...]]) -> Any:
    own, number = given[lane][0], int(given[lane][1])
    if name == "shfl_sync":
        source = number % WARP
    elif name == "shfl_up_sync":
        source = lane - number % WARP
    elif name == "shfl_down_sync":
        source = lane + number % WARP
    else:
        source = lane ^ number
    return given[source][0] if source in given else own


def _match(name: str, given: dict[int, tuple[Any, ...]]) -> dict[int, Any]:
    data = {lane: np.asarray(values[0]).tobytes() for lane, values in given.items()}
    if name == "match_all_sync":
        alike = len(set(data.values())) == 1
        return dict.fromkeys(given, (_lanes(given) if alike else np.uint32(0), alike))
    return {lane: _lanes(other for other in data if data[other] == data[lane]) for lane in data}
