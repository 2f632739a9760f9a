# SPDX-License-Identifier: Apache-2.0
"""One checked launch as Python sees it: the memory it is told in, and what was found, as errors show it."""

from __future__ import annotations

import ctypes
import linecache
import struct
from typing import TYPE_CHECKING, NamedTuple

from cudabuild.cpu.shadow import (
    BARRIER,
    CHECK,
    CHECK_SIZE,
    FAULT_SIZE,
    RACE,
    STATE,
    STATE_SIZE,
    THREAD,
    THREAD_SIZE,
    TOLD_LIMIT,
    TOLD_SIZE,
    UNINIT,
    check_symbols,
)
from cudabuild.errors import CheckError, Finding, Location, Party

if TYPE_CHECKING:
    from collections.abc import Sequence

    Dim = tuple[int, int, int]

__all__ = ["CheckedLaunch", "Site"]

_FAULT = struct.Struct("=6i2q")
_KINDS = {RACE: "races", BARRIER: "barriers", UNINIT: "uninit"}


class Site(NamedTuple):
    """A place in a checked kernel: what a thread does there, and the user's line."""

    does: str
    location: Location | None


class CheckedLaunch:
    """The memory of one launch: give ``address`` to the compiled code, and call :meth:`close` when it is over.

    Args:
        kernel: its name.
        sites: by number.
        grid, block: blocks of the grid and threads of a block along x, y, z.
    """

    def __init__(self, kernel: str, sites: Sequence[Site], grid: Dim, block: Dim) -> None:
        self._kernel = kernel
        self._sites = sites
        self._grid = grid
        self._block = block
        self._free = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(check_symbols()["check.free"])
        self._memory = ctypes.create_string_buffer(CHECK_SIZE + 64)
        self.address = -(-ctypes.addressof(self._memory) // 64) * 64
        ctypes.c_int64.from_address(self.address + CHECK["blocks"].offset).value = grid[0] * grid[1] * grid[2]

    def close(self) -> None:
        """Frees what the compiled code has allocated for this launch."""
        self._free(self.address)

    def __del__(self) -> None:
        # An interrupted launch: its workers may go on for a while, and keep this object until they leave.
        self.close()

    def make_error(self) -> CheckError | None:
        """What was found, or None."""
        count = ctypes.c_int32.from_address(self.address + CHECK["count"].offset).value
        start = self.address + CHECK["faults"].offset
        found = [self._read_fault(start + index * FAULT_SIZE) for index in range(count)]
        return CheckError(sorted(_merge(found), key=_order)) if found else None

    def make_stuck_error(self, number: int, thread: int) -> CheckError | None:
        """Why ``thread`` of block ``number`` waits for ever: where it waits, and where another thread does."""
        places = self._read_places(number)
        if places is None or not places[thread]:
            return None
        own = places[thread]
        others = [other for other, site in enumerate(places) if site not in (0, own)]
        # Those of its own warp first: a warp operation waits for them.
        others.sort(key=lambda other: (other // 32 != thread // 32, other))
        if not others:
            return None
        parties = [self._party(own, thread, number), self._party(places[others[0]], others[0], number)]
        return CheckError([Finding("barriers", self._kernel, parties)])

    def _read_places(self, number: int) -> list[int] | None:
        """Per thread of a block, the site where it waits or has waited last."""
        state = ctypes.c_uint64.from_address(self.address + CHECK["states"].offset).value
        while state:
            if ctypes.c_int64.from_address(state + STATE["number"].offset).value == number:
                first = state + STATE_SIZE + THREAD["where"].offset
                threads = self._block[0] * self._block[1] * self._block[2]
                return [ctypes.c_int32.from_address(first + t * THREAD_SIZE).value for t in range(threads)]
            state = ctypes.c_uint64.from_address(state + STATE["next"].offset).value
        return None

    def _read_fault(self, address: int) -> Finding:
        fields = _FAULT.unpack(ctypes.string_at(address, FAULT_SIZE))
        kind, site, other_site, count, thread, other_thread, number, other_number = fields
        count &= 0xFFFFFFFF
        if kind == RACE:
            count += self._count_again(site << 32 | other_site)
        parties = [self._party(site, thread, number)]
        if other_site:
            parties.append(self._party(other_site, other_thread, other_number))
        return Finding(_KINDS[kind], self._kernel, parties, count)

    def _count_again(self, key: int) -> int:
        """How often blocks have seen a race again that they had told."""
        total = 0
        state = ctypes.c_uint64.from_address(self.address + CHECK["states"].offset).value
        while state:
            told = ctypes.c_uint64.from_address(state + STATE["told"].offset).value
            for entry in range(told, told + TOLD_LIMIT * TOLD_SIZE, TOLD_SIZE):
                if ctypes.c_uint64.from_address(entry).value == key:
                    total += ctypes.c_uint64.from_address(entry + 8).value
            state = ctypes.c_uint64.from_address(state + STATE["next"].offset).value
        return total

    def _party(self, site: int, thread: int, number: int) -> Party:
        does, location = self._sites[site]
        location = location or Location("<unknown>", 0, 0, 0, 0)
        text = linecache.getline(location.file, location.line).rstrip("\r\n")
        return Party(location, text, does, _position(thread, self._block), _position(number, self._grid))


def _merge(found: Sequence[Finding]) -> list[Finding]:
    """The findings without those that show the same lines the other way round: which came first is chance."""
    kept: dict[object, Finding] = {}
    for finding in found:
        places = frozenset((party.location, party.does) for party in finding.parties)
        known = kept.setdefault((finding.kind, places), finding)
        if known is not finding:
            known.count += finding.count
    return list(kept.values())


def _order(finding: Finding) -> tuple[object, ...]:
    return tuple((party.location.file, party.location.line, party.location.column) for party in finding.parties)


def _position(number: int, shape: Dim) -> Dim:
    """The indices of the ``number``-th element, x fastest."""
    rest, x = divmod(number, shape[0])
    z, y = divmod(rest, shape[1])
    return x, y, z
