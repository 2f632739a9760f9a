# SPDX-License-Identifier: Apache-2.0
"""The tests of the CPU device's results, on the GPU: one table of defined results, two devices, the same bits."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cudabuild.decorators import kernel
from cudabuild.definition import DEFAULT_OPTIONS, Options
from cudabuild.runtime.dispatcher import Dispatcher

sys.path.append(str(Path(__file__).resolve().parent.parent / "cpu"))

from test_defined_results import (  # noqa: F401
    test_comparisons,
    test_conversion_to_float_rounds_once,
    test_float_division_as_numpy,
    test_float_to_integer_saturates,
    test_integers,
    test_integers_with_constants,
    test_multiply_and_add_round_once_unless_told_not_to,
)
from test_kernels import (  # noqa: F401
    test_atomics_from_all_cores,
    test_block_reduction,
    test_device_functions_with_and_without_barriers,
    test_dynamic_shared_memory,
    test_fortran_order,
    test_histogram,
    test_local_arrays_live_across_barriers,
    test_negative_indices_wrap,
    test_registers,
    test_saxpy,
    test_shared_arrays_do_not_overlap,
    test_strided_views_are_used_in_place,
    test_three_dimensional_grid,
    test_tiled_matmul,
    test_tree_reduction,
)
from test_warps import test_every_mode_and_width, test_every_type  # noqa: F401

pytestmark = pytest.mark.gpu


class GpuRunner:
    """As the CPU device's: one dispatcher for each function, signature and option set of the session."""

    def __init__(self) -> None:
        self._kernels: dict[tuple[Any, ...], Dispatcher] = {}

    def __call__(
        self,
        function: Callable[..., Any],
        signature: str,
        grid: Any,
        block: Any,
        *args: Any,
        shared: int = 0,
        options: Options = DEFAULT_OPTIONS,
    ) -> None:
        key = (function, signature, options)
        if key not in self._kernels:
            changed = {name: value for name, value in options.values.items() if value != DEFAULT_OPTIONS[name]}
            self._kernels[key] = kernel(signature, **changed)(function)
        self._kernels[key][grid, block, 0, shared](*args)


@pytest.fixture(scope="session")
def run(session_device: None) -> GpuRunner:
    return GpuRunner()


@pytest.fixture(scope="session")
def session_device() -> None:
    from cudabuild.decorators import current_device

    assert current_device().kind == "gpu"
