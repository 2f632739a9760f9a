# SPDX-License-Identifier: Apache-2.0
"""What no target can do is refused with the user's line before LLVM or the assembler sees it."""

from __future__ import annotations

from pathlib import Path

import pytest
from operations import Kernel

from cudabuild.backend.check import check_function
from cudabuild.backend.nvptx import NvptxDialect
from cudabuild.errors import CompilationError, Location
from cudabuild.ir.ir import Function, Param
from cudabuild.types import Array, bfloat16, bool_, float32, int8, int16, int32, none, uint8, weak_int


def message(function: Function) -> str:
    with pytest.raises(CompilationError) as caught:
        check_function(function, NvptxDialect())
    return str(caught.value)


def test_an_atomic_operation_on_a_small_type(tmp_path: Path) -> None:
    path = tmp_path / "kernels.py"
    path.write_text("def k(x):\n    cuda.atomic.add(x, 0, 1)\n")
    k = Kernel("counts", Array(uint8, 1, "C"))
    instr = k.op("atomic", uint8, k.arguments[0], k.const(0), k.const(1, uint8), function="add")
    instr.location = Location(str(path), 2, 4, 2, 28)
    assert message(k.finish()) == (
        f"{path}:2: unsupported atomic operation (in counts)\n"
        "  2 | cuda.atomic.add(x, 0, 1)\n"
        "    | ^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "  found:    atomic.add on an array of uint8\n"
        "  expected: an array of int32, uint32, int64, uint64, float16, float32 or float64\n"
        "  do:       give the array a 32-bit or 64-bit element type"
    )


@pytest.mark.parametrize("kind", [int8, int16, uint8, bfloat16, bool_], ids=str)
def test_every_small_type_is_refused(kind: object) -> None:
    k = Kernel("counts", Array(kind, 1, "C"))  # type: ignore[arg-type]
    k.op(
        "atomic",
        kind,
        k.arguments[0],
        k.const(0),
        k.const({bfloat16: 1.0, bool_: True}.get(kind, 1), kind),
        function="max",
    )  # type: ignore[arg-type]
    assert "unsupported atomic operation" in message(k.finish())


def test_too_much_shared_memory_is_counted_over_all_arrays() -> None:
    k = Kernel("tiles", weak_int)
    kind = Array(float32, 1, "C", space="shared")
    for key, size in (("a", 8000), ("b", 4000), ("a", 8000)):
        array = k.op("shared", kind, shape=(size,), key=key)
        k.op("store", none, array, k.arguments[0], k.const(0.0, float32))
    function = k.finish()
    check_function(function, NvptxDialect())
    k.blocks[0].instructions.insert(0, k.blocks[0].instructions.pop())  # put the end aside while one more is added
    end = k.blocks[0].instructions.pop(0)
    k.op("shared", kind, shape=(289,), key="c")
    k.blocks[0].instructions.append(end)
    assert "found:    49156 bytes of shared arrays" in message(function)


def test_too_many_arguments() -> None:
    k = Kernel("wide", int32)
    k.params.extend(Param(Array(int32, 8, "A"), None, f"x{n}", 0) for n in range(32))
    for index, param in enumerate(k.params):
        param.index = index
    assert "found:    4600 bytes of arguments" in message(k.finish())
