# SPDX-License-Identifier: Apache-2.0
"""Passes over the typed IR: each keeps the representation and lives in a file of its own. See ``../README.md``."""

from __future__ import annotations

from cudabuild.ir.ir import Function
from cudabuild.ir.passes.cse import merge_common_subexpressions
from cudabuild.ir.passes.grid_index import recognise_grid
from cudabuild.ir.passes.inline import inline_long, inline_synchronising
from cudabuild.ir.passes.simplify import simplify
from cudabuild.ir.passes.weak_floats import narrow_weak_floats
from cudabuild.ir.verifier import verify_function, verify_stage

__all__ = [
    "inline_long",
    "inline_synchronising",
    "merge_common_subexpressions",
    "narrow_weak_floats",
    "recognise_grid",
    "run_passes",
    "simplify",
]


def run_passes(function: Function, *, target_kind: str) -> Function:
    """Runs every pass over ``function`` and the device functions that it reaches, in place, and verifies the result.

    Args:
        function: a kernel as ``build_ir`` makes it.
        target_kind: ``"nvptx"`` or ``"host"``. Both get the same passes today: one IR, one text to compare.
    """
    if target_kind not in ("nvptx", "host"):
        raise ValueError(f"target kind {target_kind!r}: expected 'nvptx' or 'host'")
    inline_synchronising(function)  # first: what a callee's constants and tuples are shows only in its caller
    inline_long(function)
    verify_stage(function)
    functions = [*function.callees, function]
    for one in functions:
        simplify(one)  # before narrowing: constants fold in float64, as Python computes them
        verify_stage(one)
        found = recognise_grid(one)
        if narrow_weak_floats(one) or found:
            simplify(one)  # the constants, casts and registers that they left
            verify_stage(one)
        if merge_common_subexpressions(one):  # last: only what is final can be seen to be equal
            simplify(one)  # phis of what is one value now
    verify_function(function)
    return function
