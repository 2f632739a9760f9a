# SPDX-License-Identifier: Apache-2.0
"""What mistakes in calls, tuples, enums and patterns look like to their writer."""

from __future__ import annotations

import types
from pathlib import Path

import pytest
import wrong_calls
from golden_files import Golden

from cudabuild.definition import KernelDefinition
from cudabuild.errors import CompilationError
from cudabuild.frontend import build_ir
from cudabuild.types import parse_signature

HELPERS = ("area", "runaway", "grow", "growing_argument", "namedtuple")
KERNELS = [
    name for name, value in vars(wrong_calls).items() if isinstance(value, types.FunctionType) and name not in HELPERS
]


@pytest.mark.parametrize("name", KERNELS)
def test_message(name: str, golden: Golden) -> None:
    function = getattr(wrong_calls, name)
    with pytest.raises(CompilationError) as caught:
        build_ir(KernelDefinition(function), parse_signature("float64[::1]"))
    text = str(caught.value).replace(str(Path(wrong_calls.__file__).parent) + "/", "")
    golden.check(f"wrong_calls/{name}.txt", text)
