# SPDX-License-Identifier: Apache-2.0
"""Host code holds whole addresses: its sections, and what it calls, may lie anywhere in the address space."""

from __future__ import annotations

import math
import platform
import struct
import sys

import pytest

from cudabuild import cuda, float32
from cudabuild.cpu import library, store
from cudabuild.cpu.compile import compile_object
from cudabuild.definition import KernelDefinition
from cudabuild.types import parse_signature

WHOLE = {1, 24}  # R_X86_64_64, R_X86_64_PC64 (System V ABI, AMD64 supplement, "Relocation Types")
RELOCATIONS = 4  # SHT_RELA

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64", reason="reads relocations of ELF for x86-64"
)


def relocation_types(code: bytes) -> set[int]:
    """The types of all relocations of a 64-bit ELF object."""
    sections, size, count = struct.unpack_from("<Q10xHH", code, 0x28)
    found = set()
    for number in range(count):
        fields = struct.unpack_from("<IIQQQQIIQQ", code, sections + number * size)
        if fields[1] == RELOCATIONS:
            for at in range(fields[4], fields[4] + fields[5], fields[9]):
                found.add(struct.unpack_from("<I", code, at + 8)[0])
    return found


def kernel(x, out):
    shared = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    shared[t] = math.sin(x[t]) + math.exp(x[t])
    cuda.syncthreads()
    out[t] = math.pow(shared[63 - t], 1.7)
    if t == 3:
        print("value", out[t])


@pytest.mark.parametrize("checks", [(), ("bounds",)])
def test_kernels(checks):
    found = compile_object(KernelDefinition(kernel), parse_signature("float32[::1], float32[::1]"), frozenset(checks))
    types = relocation_types(found.code)
    assert types
    assert types <= WHOLE


def test_the_library(monkeypatch):
    kept = []
    find = store.find_code

    def keep(*args):
        kept.append(find(*args))
        return kept[-1]

    monkeypatch.setattr(library, "find_code", keep)
    library._load.__wrapped__(False, None)
    assert kept
    assert all(relocation_types(code) <= WHOLE for code in kept)
