# SPDX-License-Identifier: Apache-2.0
"""SSA construction on shapes that are rare in hand-written kernels."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from cudabuild.definition import KernelDefinition
from cudabuild.errors import Location
from cudabuild.frontend import build_ir
from cudabuild.ir.hir import HirInstr
from cudabuild.ir.ir import Function
from cudabuild.types import int32


def lower(text: str, folder: Path) -> Function:
    path = folder / "generated_kernel.py"
    path.write_text(text, "utf-8")
    spec = importlib.util.spec_from_file_location("generated_kernel", path)
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return build_ir(KernelDefinition(module.k), (int32[::1],))


def test_a_variable_is_found_behind_a_thousand_branches(tmp_path: Path) -> None:
    lines = ["def k(x):", "    first = x[0]", "    total = 0", "    for i in range(x.size):"]
    for number in range(1000):
        lines += [f"        if x[i] > {number}:", f"            total += {number}"]
    lines += ["        x[i] = first", "    x[0] = total + first"]
    function = lower("\n".join(lines) + "\n", tmp_path)
    phis = [instr for block in function.blocks for instr in block.instructions if instr.op == "phi"]
    assert len(phis) == 1002  # the total after every branch and at the loop's head, and the counter; none for ``first``


def test_a_loop_that_nothing_enters(tmp_path: Path) -> None:
    text = """
def k(x):
    v = 1
    return
    while x[0] > 0:
        x[0] = 2
    x[1] = v
"""
    assert [block.instructions[-1].op for block in lower(text, tmp_path).blocks] == ["return"]


def test_a_value_of_many_paths_has_a_short_text() -> None:
    value: HirInstr | None = None
    for line in range(1, 200):
        value = HirInstr("binary", [value, value], {"operator": "+"}, Location("file.py", line, 0, line, 1))
    assert "binary" in repr(value)
    assert len(repr(value)) < 100
