# SPDX-License-Identifier: Apache-2.0
"""Records: NumPy's structured types in arrays, alone, nested, packed, in shared, local and constant memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from launching import Run
from python_twin import run_both

from cudabuild import cuda
from cudabuild.definition import Options
from cudabuild.errors import CompilationError
from cudabuild.types import Record, from_dtype

FIELDS = [("a", "f8"), ("b", "i4"), ("flag", "?"), ("c", "i1"), ("h", "f4", 2), ("j", "i2", (3, 2))]
ALIGNED = np.dtype(FIELDS, align=True)
PACKED = np.dtype(FIELDS)
TIGHT = np.dtype([("lead", "i1"), *FIELDS])
INNER = np.dtype([("i", "i4"), ("j", "f4", (3, 3))])
NESTED = np.dtype([("x", "i1"), ("y", INNER), ("z", INNER, (2,))])
UNION = np.dtype({"names": ["lo", "hi", "all"], "formats": ["u2", "u2", "u4"], "offsets": [0, 2, 0], "itemsize": 4})
LAYOUTS = pytest.mark.parametrize("dtype", [ALIGNED, PACKED, TIGHT], ids=["aligned", "packed", "tight"])


def sample(dtype: np.dtype, count: int, seed: int = 1) -> Any:
    """A recarray of records with random fields; the bytes between them are zero."""
    rng = np.random.default_rng(seed)
    made = np.zeros(count, dtype)

    def fill(part: Any) -> None:
        if part.dtype.names:
            for name in part.dtype.names:
                fill(part[name])
        else:
            part[...] = rng.integers(0, 100, part.shape)

    fill(made)
    return made.view(np.recarray)


def read_and_write(r: Any, out: Any) -> None:
    for i in range(r.shape[0]):
        r[i].a = r[i].b * 1.5
        r[i]["b"] += 3
        r[i].c = -r[i].c
        r[i].flag = r[i].b > 50
        r[i].h[1] = r[i].h[0] + 0.5
        r[i]["j"][2, 1] = r[i]["j"][0, 1] + i
        r[i].j[1, 0] -= 1
        out[i] = r[i].a + r[i].j[-1, -1] + r[-1].h[1]


@LAYOUTS
def test_fields_are_read_and_written(run: Run, dtype: np.dtype) -> None:
    run_both(run, read_and_write, sample(dtype, 5), np.zeros(5))
    run_both(run, read_and_write, sample(dtype, 10)[::2], np.zeros(5))
    run_both(run, read_and_write, sample(dtype, 5)[::-1], np.zeros(5))


def columns(r: Any, out: Any) -> None:
    r.a[1] = 2.5
    r["b"][0] = r.b[1] + r.b.shape[0]
    r.j[1, 2, 0] = 7
    r["h"][2][1] = 8.5
    out[0] = len(r.j)
    out[1] = r.j.shape[1] * 10 + r.j.shape[2]
    out[2] = r.h.ndim + r.b.size
    out[3] = r.j.strides[1] + r.j.strides[2]
    out[4] = r.a.itemsize


@LAYOUTS
def test_a_field_of_every_record_is_an_array(run: Run, dtype: np.dtype) -> None:
    run_both(run, columns, sample(dtype, 4), np.zeros(5))


def whole_records(r: Any, s: Any) -> None:
    r[0] = r[2]
    s[1] = r[1]
    s[0] = s[2]
    s[2].h = r[2].j[0]
    r[1].j = r[2].j


@LAYOUTS
def test_whole_records_and_arrays_in_them_are_assigned(run: Run, dtype: np.dtype) -> None:
    run_both(run, whole_records, sample(dtype, 3), sample(ALIGNED if dtype is not TIGHT else TIGHT, 3, 2))


def test_arrays_in_one_record(run: Run) -> None:
    array = sample(ALIGNED, 2)

    def kernel(r: Any, x: Any) -> None:
        r.j[:, :] = 4
        r["j"][1] = x
        r.h = 3
        x[:] = r.h
        r[1] = 5  # the field b

    run_both(run, kernel, array[1], np.array([1.5, 2.5], "f4"))


def nested(r: Any, out: Any) -> None:
    for i in range(r.shape[0]):
        r[i].y.i += 1
        r[i].y.j[i, 1] = r[i].y.i * 0.5
        r[i]["z"][1]["i"] = r[i].x
        r[i].z[0].j[2, 2] = 9
        out[i] = r[i].y.j[0, 0] + r[i].z[1].i
    r[0].y = r[1].y
    r[1].z[0] = r[0].z[1]
    r[2].z = r[0].z


def test_records_in_records(run: Run) -> None:
    run_both(run, nested, sample(NESTED, 3), np.zeros(3))


def matrix(r: Any) -> None:
    for i in range(r.shape[0]):
        row = r[i]
        for k in range(row.shape[0]):
            row[k].b = i * 10 + k
        r[i, -1].h[0] = r[i, 0].h[1]
    r[0, 1] = r[1, 0]
    r[2] = r[1]
    r[:, 1]["c"] = 5


@pytest.mark.parametrize("order", ["C", "F", "A"])
def test_records_of_two_dimensions(run: Run, order: str) -> None:
    array = sample(ALIGNED, 24).reshape(4, 6)
    made = {"C": array[:, :3].copy(), "F": np.asfortranarray(array[:, :3]), "A": array[::-1, ::2]}[order]
    run_both(run, matrix, made.view(np.recarray))


def test_a_record_of_one_type_into_another(run: Run) -> None:
    def kernel(r: Any, s: Any) -> None:
        r[0] = s[1]
        r[1] = (1, 2.5, 3)

    source = np.array([(1, 2, 3), (4, 5, 6)], [("x", "i4"), ("y", "i2"), ("z", "f4")])
    run_both(run, kernel, np.zeros(2, [("p", "f4"), ("q", "f8"), ("r", "i4")]), source)


def test_fields_that_share_bytes(run: Run) -> None:
    def kernel(r: Any) -> None:
        r[0]["lo"] = 0x1234
        r[0]["hi"] = 0x5678
        r[1] = r[0]
        r[2]["all"] = r[1]["all"] + 1

    run_both(run, kernel, np.zeros(3, UNION))


NAMES = ("a", "b", "c")
KEY = "b"


def by_name(r: Any, out: Any) -> None:
    key = "a"
    out[0] = r[0][key]
    out[1] = r[0][KEY]
    out[2] = r[0][NAMES[2]]
    name = "b" if NAMES[0] == "a" else "c"
    out[3] = r[1][name]


def test_names_of_fields_are_constants(run: Run) -> None:
    run_both(run, by_name, sample(ALIGNED, 2), np.zeros(4))


def add_up(r: Any) -> Any:
    return r.a + r.h[0] + r["j"][1, 1]


def later(r: Any, other: Any, which: bool) -> Any:
    return r if which else other


def through_functions(r: Any, out: Any) -> None:
    for i in range(r.shape[0]):
        out[i] = add_up(r[i])
        chosen = later(r[i], r[0], i % 2 == 0)
        chosen.b = 100 + i
        place = r[i]
        if out[i] > 100:
            place = r[1]
        place.c += 1


@LAYOUTS
def test_records_are_arguments_and_results_of_functions(run: Run, dtype: np.dtype) -> None:
    run_both(run, through_functions, sample(dtype, 5), np.zeros(5))


def test_a_kernel_of_many_threads(run: Run) -> None:
    def kernel(r: Any, out: Any) -> None:
        i = cuda.grid(1)
        if i < r.shape[0]:
            r[i].a = i * 0.5
            r[i].h[1] = i
            r[i].j[2, 1] = i % 100
            out[i] = r[i].b

    for dtype in (ALIGNED, TIGHT):
        name = from_dtype(dtype).name
        array, out = sample(dtype, 1000), np.zeros(1000, "i4")
        run(kernel, f"{name}[::1], int32[::1]", 8, 128, array, out)
        np.testing.assert_array_equal(array.a, np.arange(1000) * 0.5)
        np.testing.assert_array_equal(array.h[:, 1], np.arange(1000))
        np.testing.assert_array_equal(array.j[:, 2, 1], np.arange(1000) % 100)
        np.testing.assert_array_equal(out, array.b)


@LAYOUTS
def test_records_in_shared_and_local_memory(run: Run, dtype: np.dtype) -> None:
    kind = from_dtype(dtype)

    def kernel(r: Any, out: Any) -> None:
        tile = cuda.shared.array(32, kind)
        own = cuda.local.array((2, 2), kind)
        t = cuda.threadIdx.x
        i = cuda.grid(1)
        if i < r.shape[0]:
            tile[t] = r[i]
        cuda.syncthreads()
        last = cuda.blockDim.x - 1 - t
        if cuda.blockIdx.x * cuda.blockDim.x + last < r.shape[0]:
            own[1, 0] = tile[last]
            own[1, 0].b += 1
            own[0, 1].j[:, :] = 2
            own[1, 0].j[1] = own[0, 1].j[2]
            out[i] = own[1, 0]

    source, out = sample(dtype, 64), np.zeros(64, dtype)
    run(kernel, f"{kind.name}[::1], {kind.name}[::1]", 2, 32, source, out)
    wanted = source.reshape(2, 32)[:, ::-1].reshape(64).copy()
    wanted.b += 1
    wanted.j[:, 1] = 2
    np.testing.assert_array_equal(out, wanted)


def test_dynamic_shared_memory_of_records(run: Run) -> None:
    kind = from_dtype(ALIGNED)

    def kernel(r: Any) -> None:
        tile = cuda.shared.array(0, kind)
        t = cuda.threadIdx.x
        tile[t] = r[t]
        cuda.syncthreads()
        r[t] = tile[tile.shape[0] - 1 - t]

    array = sample(ALIGNED, 8)
    wanted = array[::-1].copy()
    run(kernel, f"{kind.name}[::1]", 1, 8, array, shared=8 * ALIGNED.itemsize)
    np.testing.assert_array_equal(array, wanted)


CONSTANT = sample(TIGHT, 3)
CONSTANT_NESTED = sample(NESTED, 2)
ONE = sample(ALIGNED, 2)[1]


def constants(r: Any, out: Any) -> None:
    for i in range(3):
        out[i] = CONSTANT[i].a + CONSTANT[i]["j"][i, 1]
    r[0] = CONSTANT[2]
    out[3] = CONSTANT_NESTED[1].y.j[1, 2]
    out[4] = len(CONSTANT) + ONE.b


def test_constant_records(run: Run) -> None:
    run_both(run, constants, sample(TIGHT, 1, 9), np.zeros(5))


def test_atomics_on_fields(run: Run) -> None:
    def kernel(r: Any) -> None:
        i = cuda.grid(1)
        cuda.atomic.add(r.b, i % 3, 2)
        cuda.atomic.max(r["a"], 0, float(i))
        cuda.atomic.add(r[1].h, i % 2, 1.0)
        cuda.atomic.add(r.h, (2, 1), 1.0)

    array = np.zeros(3, ALIGNED).view(np.recarray)
    run(kernel, f"{from_dtype(ALIGNED).name}[::1]", 2, 48, array)
    assert array.b.tolist() == [64, 64, 64]
    assert array.a.tolist() == [95, 0, 0]
    assert array.h.tolist() == [[0, 0], [48, 48], [0, 96]]


def test_no_atomics_where_a_field_lies_askew(run: Run) -> None:
    def kernel(r: Any) -> None:
        cuda.atomic.add(r.b, 0, 1)

    with pytest.raises(CompilationError, match="askew"):
        run(kernel, f"{from_dtype(TIGHT).name}[::1]", 1, 1, np.zeros(1, TIGHT))


def test_iterating_over_records(run: Run) -> None:
    def kernel(r: Any, out: Any) -> None:
        total = 0.0
        for one in r:
            total += one.a
            one.c = 1
        out[0] = total

    run_both(run, kernel, sample(ALIGNED, 6), np.zeros(1))


def test_read_only_records(run: Run) -> None:
    def kernel(r: Any, out: Any) -> None:
        out[0] = r[1].a
        out[1] = r.h[0, 1]

    array = sample(ALIGNED, 2)
    array.flags.writeable = False
    run_both(run, kernel, array, np.zeros(2))


@pytest.mark.parametrize("shift", [0, 1, 2, 4])
def test_records_that_lie_askew_in_host_memory(run: Run, shift: int) -> None:
    def kernel(r: Any) -> None:
        for i in range(r.shape[0]):
            r[i].a = r[i].a + r[i].b

    memory = np.zeros(4 * ALIGNED.itemsize + 16, "u1")
    start = -memory.ctypes.data % 16 + shift
    array = memory[start : start + 4 * ALIGNED.itemsize].view(ALIGNED).view(np.recarray)
    array[...] = sample(ALIGNED, 4)
    wanted = array.a + array.b
    run(kernel, f"{from_dtype(ALIGNED).name}[::1]", 1, 1, array)
    np.testing.assert_array_equal(array.a, wanted)


def test_a_record_that_is_not_there_is_told_and_nothing_is_touched(run: Run) -> None:
    def write(r: Any) -> None:
        r.b = 77
        r.h[0] = 1.0

    def kernel(r: Any, i: int) -> None:
        write(r[i])
        r[i].c = 5
        r[i] = r[0]

    array = sample(ALIGNED, 4)
    before = array.copy()
    with pytest.raises(IndexError):
        run(kernel, f"{from_dtype(ALIGNED).name}[::1], int", 1, 1, array, 9, options=Options({"debug": True}))
    np.testing.assert_array_equal(array, before)


def test_sizes_and_types_of_records(run: Run) -> None:
    kind = from_dtype(ALIGNED)
    assert isinstance(kind, Record)

    def kernel(r: Any, out: Any) -> None:
        out[0] = r.itemsize
        out[1] = r.nbytes
        out[2] = r.dtype == kind
        out[3] = r[0].a + 1

    array = sample(ALIGNED, 3)
    out = np.zeros(4)
    run(kernel, f"{kind.name}[::1], float64[::1]", 1, 1, array, out)
    assert out.tolist() == [ALIGNED.itemsize, 3 * ALIGNED.itemsize, 1, array[0].a + 1]


def test_slices_of_records(run: Run) -> None:
    def kernel(r: Any) -> None:
        r[1:3] = r[3:5]
        r[::2]["b"] = 9
        r[-2:].c[:] = 4
        r[0:2].h = r[4].h

    run_both(run, kernel, sample(ALIGNED, 6))


def make_point(x: float, y: float) -> Any:
    point = cuda.local.array(1, POINT)
    point[0].x = x
    point[0].y = y
    return point[0]


def swapped(p: Any) -> Any:
    return make_point(p.y, p.x)


POINT = from_dtype([("x", "f4"), ("y", "f4")])


def test_functions_return_records_that_they_make(run: Run) -> None:
    def kernel(out: Any) -> None:
        i = cuda.grid(1)
        first = make_point(i, 2.0)
        second = swapped(first)
        third = swapped(second)
        out[i, 0] = first.x * 100 + second.x * 10 + third.x
        out[i, 1] = first.y * 100 + second.y * 10 + third.y

    out = np.zeros((8, 2), "f4")
    run(kernel, "float32[:, ::1]", 1, 8, out)
    t = np.arange(8)
    np.testing.assert_array_equal(out, np.stack([t * 101 + 20, 202 + t * 10], axis=1))


def test_places_of_several_memories_and_alignments_meet(run: Run) -> None:
    kind = from_dtype(ALIGNED)
    outer = np.dtype([("lead", "i1"), ("inner", ALIGNED)])

    def kernel(r: Any, s: Any, out: Any) -> None:
        own = cuda.local.array(1, kind)
        own[0].b = 30
        place = r[0]
        if out.shape[0] > 2:
            place = s[1].inner
        out[0] = place.b
        place.b = 11
        if out.shape[0] > 3:
            place = own[0]
        out[1] = place.b

    for size in (2, 3, 4):
        r, s, out = sample(ALIGNED, 1), sample(outer, 2, 5), np.zeros(size, "i4")
        want = [r[0].b if size == 2 else s[1].inner.b, 30 if size == 4 else 11]
        signature = f"{kind.name}[::1], {from_dtype(outer).name}[::1], int32[::1]"
        run(kernel, signature, 1, 1, r, s, out)
        assert out.tolist()[:2] == want
        assert (r[0].b if size == 2 else s[1].inner.b) == 11


def test_literal_names_in_a_loop_written_out(run: Run) -> None:
    def kernel(r: Any, out: Any) -> None:
        for name in ("a", "b", "c"):
            out[0] += r[0][name]

    run_both(run, kernel, sample(ALIGNED, 1), np.zeros(1))
