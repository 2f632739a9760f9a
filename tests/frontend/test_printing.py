# SPDX-License-Identifier: Apache-2.0
"""What ``print`` becomes in the IR, and what it refuses."""

from __future__ import annotations

import pytest

from cudabuild.compiler import dump, lower_ir
from cudabuild.definition import KernelDefinition
from cudabuild.errors import CompilationError
from cudabuild.ir.parser import parse_function
from cudabuild.ir.printer import format_function
from cudabuild.target import parse_target
from cudabuild.types import parse_signature


def speak(x, n):
    print("n =", n, x[0] + 0.5, "100%", n > 2)


def lowered(function, signature):
    return lower_ir(KernelDefinition(function, signature), parse_signature(signature))


def test_text_and_operands() -> None:
    text = format_function(lowered(speak, "float32[::1], int16"))
    assert "text='n = %lld %f 100%% %s\\n'" in text
    assert format_function(parse_function(text)) == text


def test_ptx_calls_vprintf_with_packed_slots() -> None:
    definition = KernelDefinition(speak, "float32[::1], int16")
    ptx = dump(definition, parse_signature("float32[::1], int16"), "ptx", parse_target("sm_75"), 32)
    assert ".extern .func  (.param .b32 func_retval0) vprintf" in ptx
    assert ptx.count("vprintf,") == 1


def array(x):
    print(x)


def function(x):
    print("f", array)


def separator(x):
    print(x[0], sep=x[1])


def stream(x):
    print(x[0], file=None)


@pytest.mark.parametrize(
    ("kernel", "found", "do"),
    [
        (array, "array", "print elements: x[i]"),
        (function, "array", "print what it gives"),
        (separator, "float32", 'write sep="…"'),
        (stream, "keyword 'file'", "print(*values, sep=None, end=None)"),
    ],
)
def test_what_is_refused(kernel, found: str, do: str) -> None:
    with pytest.raises(CompilationError) as caught:
        lowered(kernel, "float32[::1]")
    assert "print" in str(caught.value)
    assert found in str(caught.value)
    assert do in str(caught.value)
