# SPDX-License-Identifier: Apache-2.0
"""H. Long names and deep folders."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from cases_kit import Machine, load, ship

LONG = "a_kernel_whose_name_goes_on_" + "and_on_" * 25 + "to_its_end"
TEXT = f"class {'Outer' * 20}:\n    def {LONG}(x):\n        x[0] = 1\nk = {'Outer' * 20}.{LONG}\n"


def test_a_long_name_in_a_deep_cache(tmp_path: Path) -> None:
    module = load(tmp_path, TEXT, "case_" + "m" * 60)
    assert len(module.k.__qualname__) > 300
    root = tmp_path.joinpath(*["deep" * 20] * 8)
    assert len(str(root)) > 600
    symbol = Machine(root).launch(module.k)
    machine = Machine(root)
    assert machine.launch(module.k) == symbol
    assert machine.compiled == []
    ship(tmp_path / f"_cudabuild_{module.__name__}", [module.k], "sm_90")
    made = [path.relative_to(tmp_path) for path in (*root.rglob("*"), *tmp_path.glob("_cudabuild*/*"))]
    assert len(made) > 3
    assert max(len(part) for path in made for part in path.parts) <= 100
    assert not any("a_kernel_whose_name" in str(path) for path in made)


def test_a_cache_whose_path_is_too_long_is_one_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    module = load(tmp_path, "def k(x):\n    x[0] = 1\n")
    root = tmp_path / ("x" * 300)
    with pytest.raises(OSError, match=os.strerror(errno.ENAMETOOLONG)):
        root.mkdir()
    machine = Machine(root)
    symbol = machine.launch(module.k)
    assert machine.launch(module.k) == symbol
    assert machine.compiled == [symbol], "kept in memory"
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 1
    assert os.strerror(errno.ENAMETOOLONG) in told[0]
