# SPDX-License-Identifier: Apache-2.0
"""Functions from IR text, with their values by the names that the text gives them."""

from __future__ import annotations

import re

from cudabuild.ir.ir import Function, Value
from cudabuild.ir.parser import parse_function
from cudabuild.ir.verifier import verify_function

__all__ = ["parse"]


def parse(text: str) -> tuple[Function, dict[str, Value]]:
    """The last function of ``text``, verified, and its values by name (without the ``%``)."""
    function = parse_function(text)
    verify_function(function)
    lines = [line.strip() for line in text[max(text.rfind("kernel "), text.rfind("device ")) :].splitlines()[1:]]
    instructions = [line for line in lines if line and not re.match(r"[\w.]+:( |$)", line)]
    values: dict[str, Value] = {param.name: param for param in function.params}
    for line, instr in zip(instructions, function.instructions(), strict=True):
        name = re.match(r"%(\w+): ", line)
        if name is not None:
            values[name[1]] = instr
    return function, values
