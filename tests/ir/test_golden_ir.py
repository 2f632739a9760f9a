# SPDX-License-Identifier: Apache-2.0
"""The typed IR of four sample kernels after all passes, as text."""

from __future__ import annotations

import pytest
from cudabuild_sample import heat, products, sums, vectors
from golden_files import Golden

from cudabuild.frontend import build_ir
from cudabuild.ir.passes import run_passes
from cudabuild.ir.printer import format_function
from cudabuild.ir.verifier import verify_function

KERNELS = {"saxpy": vectors.saxpy, "heat_step": heat.heat_step, "matmul": products.matmul, "block_sum": sums.block_sum}


@pytest.mark.parametrize("name", KERNELS)
def test_text_after_all_passes(name: str, golden: Golden) -> None:
    definition = KERNELS[name].definition
    function = build_ir(definition, definition.signatures[0])
    run_passes(function, target_kind="nvptx")
    verify_function(function)
    golden.check(f"ir/{name}.txt", format_function(function))


@pytest.mark.parametrize("name", KERNELS)
def test_both_kinds_of_target_get_one_text(name: str) -> None:
    definition = KERNELS[name].definition
    texts = set()
    for kind in ("nvptx", "host"):
        function = build_ir(definition, definition.signatures[0])
        texts.add(format_function(run_passes(function, target_kind=kind)))
    assert len(texts) == 1
