# SPDX-License-Identifier: Apache-2.0
"""The parameter block as launches lay it out is the one that the assembler made the kernel read."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest
from operations import Kernel, make_ptx

from cudabuild.backend.cubin import link_cubin
from cudabuild.definition import DEFAULT_OPTIONS
from cudabuild.target import parse_target
from cudabuild.types import parse_signature
from cudabuild.types.layout import parameter_fields

#: Of the ELF note ``.nv.info.<kernel>``: one parameter's ordinal, offset and size.
_PARAMETER = 0x17

SIGNATURE = parse_signature(
    "bool, int8, int16, float16, uint8, int32, float32[:, :], bool, float64, int, uint8, Tuple(int8, float32, int16), "
    "float, int64, uint16, float64[:, ::1], uint32[::1, :], int64[::1]"
)


def sections(elf: bytes) -> Iterator[tuple[str, bytes]]:
    (table,) = struct.unpack_from("<Q", elf, 0x28)
    size, count, names = struct.unpack_from("<HHH", elf, 0x3A)
    headers = [struct.unpack_from("<IIQQQQIIQQ", elf, table + n * size) for n in range(count)]
    for header in headers:
        start = headers[names][4] + header[0]
        yield elf[start : elf.index(b"\0", start)].decode(), elf[header[4] : header[4] + header[5]]


def parameters(cubin: bytes) -> list[tuple[int, int, int]]:
    """(number, offset, size) of each parameter."""
    info = dict(sections(cubin))[".nv.info.kernel"]
    at, found = 0, []
    while at < len(info):
        form, attribute, size = struct.unpack_from("<BBH", info, at)
        if form == 4 and attribute == _PARAMETER:
            _, ordinal, offset, flags = struct.unpack_from("<IHHI", info, at + 4)
            found.append((ordinal, offset, flags >> 18))
        at += 4 + (size if form == 4 else 0)
    return sorted(found)


@pytest.mark.parametrize("width", [32, 64])
@pytest.mark.parametrize("target", ["sm_75", "sm_90", "sm_120"])
def test_parameters_lie_where_the_launch_puts_them(target: str, width: int) -> None:
    k = Kernel("arguments", *SIGNATURE)  # type: ignore[arg-type]
    k.params[:] = k.arguments
    for index, param in enumerate(k.params):
        param.index = index
    cubin = link_cubin(make_ptx(k.finish(), target, width), parse_target(target), DEFAULT_OPTIONS)
    fields = parameter_fields(SIGNATURE, width)
    assert parameters(cubin.data) == [(n, field.offset, field.size) for n, field in enumerate(fields)]
