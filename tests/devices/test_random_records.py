# SPDX-License-Identifier: Apache-2.0
"""Records of random layouts: whole ones assigned, their numbers summed, in global, shared and local memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from launching import Run

from cudabuild import cuda
from cudabuild.types import from_dtype

NUMBERS = ("i1", "u2", "i4", "u8", "f2", "f4", "f8", "?", "c8", "c16", "M8[D]", "S3", "U2")
SHAPES = ((), (), (2,), (2, 3))


@st.composite
def layouts(draw: st.DrawFn, depth: int = 2) -> Any:
    """A structured dtype: packed, aligned, or with gaps; the fields may be records and sub-arrays."""
    fields = []
    for index in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(NUMBERS))
        inner: Any = draw(layouts(depth - 1)) if depth and draw(st.integers(0, 3)) == 0 else np.dtype(kind)
        fields.append((f"f{index}", inner, draw(st.sampled_from(SHAPES))))
    how = draw(st.sampled_from(["packed", "aligned", "gaps"]))
    made = np.dtype(fields, align=how == "aligned")
    if how != "gaps":
        return made
    gaps = draw(st.lists(st.integers(0, 5), min_size=len(fields), max_size=len(fields)))
    offsets = [made.fields[name][1] + sum(gaps[: at + 1]) for at, name in enumerate(made.names)]
    return np.dtype(
        {
            "names": made.names,
            "formats": [made.fields[name][0] for name in made.names],
            "offsets": offsets,
            "itemsize": made.itemsize + sum(gaps) + draw(st.integers(0, 3)),
        }
    )


def filled(dtype: np.dtype, count: int, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    array = np.frombuffer(bytearray(rng.integers(0, 60, count * dtype.itemsize, "u1").tobytes()), dtype)

    def tidy(part: Any) -> None:
        if part.dtype.names:
            for name in part.dtype.names:
                tidy(part[name])
        elif part.dtype.kind in "USb?":
            part[...] = rng.integers(0, 2, part.shape).astype(part.dtype)

    tidy(array)
    return array


@settings(max_examples=12, deadline=None)
@given(layouts(), st.integers(0, 1000))
def test_whole_records(run: Run, dtype: np.dtype, seed: int) -> None:
    kind = from_dtype(dtype)

    def kernel(a: Any, b: Any) -> None:
        tile = cuda.shared.array(4, kind)
        own = cuda.local.array(2, kind)
        t = cuda.threadIdx.x
        b[t] = a[3 - t]
        tile[t] = a[t]
        cuda.syncthreads()
        own[1] = tile[(t + 1) % 4]
        own[0] = own[1]
        b[4 + t] = own[0]
        if t == 0:
            b[8:10] = a[1:3]

    source, target = filled(dtype, 4, seed), filled(dtype, 10, seed + 1)
    wanted = target.copy()
    wanted[:4] = source[::-1]
    wanted[4:8] = source[[1, 2, 3, 0]]
    wanted[8:] = source[1:3]
    run(kernel, f"{kind.name}[::1], {kind.name}[::1]", 1, 4, source, target)
    same(target, wanted)


def same(found: Any, wanted: Any) -> None:
    """Field by field and bit by bit: bytes between fields are nobody's."""
    if found.dtype.names:
        for name in found.dtype.names:
            same(found[name], wanted[name])
    else:
        assert found.tobytes() == wanted.tobytes()
