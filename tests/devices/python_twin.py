# SPDX-License-Identifier: Apache-2.0
"""A kernel of one thread beside the same function run by Python: whatever they write must be the same."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from cudabuild.runtime.arguments import read_argument
from cudabuild.types import format_signature

if TYPE_CHECKING:
    from conftest import Run

__all__ = ["run_both"]


def run_both(run: Run, function: Callable[..., Any], *args: Any, signature: str | None = None) -> None:
    """Runs ``function`` as a kernel and in Python, each on its own copy of ``args``, and compares all arrays.

    Args:
        run: the fixture.
        function: uses nothing but its arguments, Python and NumPy.
        args: arrays and numbers; records are elements of arrays.
        signature: of the kernel; by default the arguments' own types.
    """
    mine, python = copy.deepcopy(args), copy.deepcopy(args)
    types = signature or format_signature(tuple(read_argument(value).type for value in args))
    run(function, types, 1, 1, *mine)
    function(*python)
    for found, wanted, before in zip(mine, python, args, strict=True):
        assert type(found) is type(before)
        np.testing.assert_array_equal(found, wanted)
