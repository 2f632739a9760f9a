# SPDX-License-Identifier: Apache-2.0
"""The comparison of devices finds what differs, and nothing else."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from agreement import COMPOSED, GPU_ONLY, NOT_COMPARED, Agreement, Notes, copies, key_of
from corpus import find_uses
from launching import Device

from cudabuild import cuda
from cudabuild.definition import DEFAULT_OPTIONS
from cudabuild.errors import BoundsError


class Other:
    """The CPU device, with something done to the arguments after a launch, or an error in place of its own."""

    kind = "gpu32"

    def __init__(self, device, change=None, error=None):
        self.device, self.change, self.error = device, change, error
        self.options = []

    def __call__(self, function, signature, grid, block, *args, shared, options):
        self.options.append(options)
        if self.error is not None:
            raise self.error
        self.device(function, signature, grid, block, *args, shared=shared, options=options)
        if self.change is not None:
            self.change(*args)


@pytest.fixture(scope="module")
def device():
    return Device("cpu")


def scale(a, x, out):
    i = cuda.grid(1)
    out[i] = a * x[i] + 1
    print("thread", i)


def sines(a, x, out):
    i = cuda.grid(1)
    out[i] = math.sin(x[i])


def beyond(x):
    x[cuda.grid(1) + 5] = 1


SIGNATURE = "float32, float32[:], float32[::1]"


def arguments():
    return 0.3, np.linspace(0, 5, 64, dtype=np.float32)[::-2], np.zeros(32, np.float32)


def compare(device, other, function=scale, args=None):
    notes = Notes()
    args = arguments() if args is None else args
    Agreement(device, notes, [other])(function, SIGNATURE, 1, 32, *args)
    return notes, args


def test_agreement_is_noted_and_the_test_sees_its_own_launch(device, capsys):
    other = Other(device)
    notes, args = compare(device, other)
    wanted = arguments()
    device(scale, SIGNATURE, 1, 32, *wanted)
    np.testing.assert_array_equal(args[2], wanted[2])
    assert notes.disagreements == []
    assert other.options == [DEFAULT_OPTIONS.replace(fma=False)]
    kernel = notes.kernels["test_agreement.scale"]
    assert (kernel.launches, kernel.values, kernel.max_ulp, kernel.functions) == (1, 64, 0.0, [])
    assert capsys.readouterr().out.count("thread") == 64  # the test's launch and ours; none of those compared


def test_one_bit_is_found(device):
    def change(a, x, out):
        out[3] = np.nextafter(out[3], np.float32(9))

    notes, _ = compare(device, Other(device, change))
    (told,) = notes.disagreements
    assert told.startswith("test_agreement.scale on gpu32: out[3] is ")
    assert told.endswith("1 of 32 differ by more than 0 ulp")


@pytest.mark.parametrize(("value", "other"), [(0.0, -0.0), (np.nan, 1.0)])
def test_signs_of_zeros_and_nans_are_found(device, value, other):
    x = np.zeros(32, np.float32)
    x[:] = value

    def change(a, x, out):
        out[7] = other

    notes, _ = compare(device, Other(device, change), sines, (0.0, x, np.zeros(32, np.float32)))
    assert len(notes.disagreements) == (1 if math.isnan(value) else 0)  # sin is not exact: zeros are 0 ulp apart


def test_inexact_functions_have_what_the_guide_allows_both(device):
    def up(steps):
        def change(a, x, out):
            out[5] = (out[5:6].view(np.int32) + steps).view(np.float32)[0]

        return change

    notes, _ = compare(device, Other(device, up(4)), sines)
    assert notes.disagreements == []
    kernel = notes.kernels["test_agreement.sines"]
    assert (kernel.functions, kernel.max_ulp, kernel.max_ulp_allowed) == (["sin"], 4.0, 4)
    notes, _ = compare(device, Other(device, up(5)), sines)
    assert len(notes.disagreements) == 1


def test_errors_must_agree(device):
    error = RuntimeError("lost")
    notes, _ = compare(device, Other(device, error=error), sines)
    assert notes.disagreements == [
        "test_agreement.sines on gpu32: raised ('RuntimeError', None, 'lost'), not None",
    ]
    notes = Notes()
    debug = DEFAULT_OPTIONS.replace(debug=True)
    with pytest.raises(BoundsError):
        Agreement(device, notes, [Other(device)])(beyond, "int32[::1]", 1, 8, np.zeros(8, np.int32), options=debug)
    assert notes.disagreements == []


def test_printed_lines_must_agree(device):
    def change(a, x, out):
        print("thread 0 again")

    notes, _ = compare(device, Other(device, change))
    assert len(notes.disagreements) == 1
    assert "printed" in notes.disagreements[0]


def test_copies_keep_strides_flags_and_identity():
    base = np.arange(24, dtype=np.int16).reshape(4, 6)
    frozen = np.arange(3)
    frozen.flags.writeable = False
    views = [base[::-2, ::3], base.T, base[:0], np.array(4.5), frozen, 7]
    made = copies([*views, views[0]])
    for one, copy in zip(views[:-1], made[:-2], strict=True):
        np.testing.assert_array_equal(one, copy)
        assert (one.strides, one.dtype, one.flags.writeable) == (copy.strides, copy.dtype, copy.flags.writeable)
        assert not np.shares_memory(one, copy)
    assert made[-2] == 7
    assert made[-1] is made[0]


def test_report_is_written(tmp_path):
    notes = Notes()
    notes.note_error("math.sin float32", "cpu", 1.0)
    notes.note_error("math.sin float32", "cpu", 0.0)
    notes.write(tmp_path / "notes.json")
    assert json.loads((tmp_path / "notes.json").read_text())["errors"] == {"math.sin float32": {"cpu": 1.0}}


def test_every_exception_to_the_comparison_names_a_kernel_and_its_argument():
    import ast
    from pathlib import Path

    folder = Path(__file__).parent
    assert key_of(scale) == "test_agreement.scale"
    assert key_of(scale) in find_uses(folder)["grid"]
    for table in (NOT_COMPARED, COMPOSED, dict.fromkeys(GPU_ONLY, ())):
        for key, arguments in table.items():
            file, name = key.split(".")
            tree = ast.parse((folder / f"{file}.py").read_text("utf-8"))
            (kernel,) = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name]
            assert set(arguments) <= {arg.arg for arg in kernel.args.args}, key
