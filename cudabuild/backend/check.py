# SPDX-License-Identifier: Apache-2.0
"""Refuses, with the user's line, what a target cannot do: LLVM would end the process over it, the assembler give up."""

from __future__ import annotations

import linecache
from math import prod
from typing import TYPE_CHECKING

from cudabuild.errors import CompilationError, Diagnostic, Location
from cudabuild.types import Array
from cudabuild.types.layout import block_size, parameter_fields

if TYPE_CHECKING:
    from cudabuild.backend.dialects import Dialect
    from cudabuild.ir.ir import Function

__all__ = ["check_function"]

#: Bytes of static shared memory per block on every target (CUDA C++ Programming Guide, "Compute Capabilities").
_STATIC_SHARED = 48 * 1024
#: Bytes of constant memory on every target (CUDA C++ Programming Guide, "Compute Capabilities").
_CONSTANT = 64 * 1024
#: Bytes of kernel parameters that every PTX ISA version takes (PTX ISA, "Kernel Function Parameters").
_PARAMETERS = 4096


def check_function(function: Function, dialect: Dialect) -> None:
    """Checks the kernel ``function`` and what it calls against the target's operations and limits.

    Raises:
        CompilationError: with one diagnostic per operation.
    """
    found: list[Diagnostic] = []

    def add(location: Location | None, title: str, what: str, expected: str, do: str) -> None:
        where = location or function.location or Location("<unknown>", 1, 0, 1, 0)
        text = linecache.getline(where.file, where.line).rstrip("\r\n")
        found.append(Diagnostic(title, where, text, kernel=function.name, found=what, expected=expected, do=do))

    shared: dict[str, int] = {}
    constants: dict[str, int] = {}
    for one in [*function.callees, function]:
        for instr in one.instructions():
            refusal = dialect.refuse(instr)
            if refusal is not None:
                add(instr.location, *refusal)
            if instr.op == "shared":
                assert isinstance(instr.type, Array)
                before = sum(shared.values())
                shared[str(instr.attrs["key"])] = prod(instr.attrs["shape"]) * instr.type.dtype.size
                total = sum(shared.values())
                if before <= _STATIC_SHARED < total:
                    add(
                        instr.location,
                        "too much shared memory",
                        f"{total} bytes of shared arrays",
                        f"at most {_STATIC_SHARED} bytes of static shared memory per block",
                        "make the arrays smaller, or use dynamic shared memory (shape 0)",
                    )
            if instr.op == "array_at" and instr.attrs.get("home") == "host":
                add(
                    instr.location,
                    "a captured array in host memory, on a GPU",
                    f"an array of {instr.type} at an address of the host",
                    "an array in GPU memory",
                    "make it with cuda.to_device(numpy.asarray(…))",
                )
            if instr.op == "constant":
                before = sum(constants.values())
                constants[instr.attrs["data"]] = len(instr.attrs["data"]) // 2
                total = sum(constants.values())
                if before <= _CONSTANT < total:
                    add(
                        instr.location,
                        "too many constant arrays",
                        f"{total} bytes of constant arrays",
                        f"at most {_CONSTANT} bytes of constant memory",
                        "pass an array as an argument of the kernel",
                    )
    size = block_size(parameter_fields(tuple(param.type for param in function.params), 64))
    if size > _PARAMETERS:
        add(
            function.location,
            "too many arguments",
            f"{size} bytes of arguments",
            f"at most {_PARAMETERS} bytes",
            "pass an array instead of many values",
        )
    if found:
        raise CompilationError(found)
