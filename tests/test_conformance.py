# SPDX-License-Identifier: Apache-2.0
"""The conformance harness: its data, its counting, what it makes of bad children; and the quick shard of the suite."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import children
import pytest
import scores
import suite

HERE = Path(__file__).resolve().parent / "conformance"

# A suite of our own, with a function made by exec, a test that ends its process, one that hangs, and a broken file.
FAKE = {
    "cudapy/test_powi.py": """
import os, time, unittest
from numba import cuda
from numba.cuda.testing import CUDATestCase

MADE = {}
exec("def g():\\n    return 2\\n", {}, MADE)

class TestFake(CUDATestCase):
    def test_1_passes(self):
        self.assertPreciseEqual(cuda.grid.__class__, cuda.gridsize.__class__)

    def test_2_fails(self):
        self.assertEqual(1 + 1, 3)

    def test_3_ends_the_process(self):
        os._exit(7)

    def test_4_comes_after(self):
        with self.subTest(number=1):
            self.assertTrue(True)

    def test_5_hangs(self):
        while True:
            try:
                time.sleep(1000)
            except BaseException:
                continue

    def test_6_has_no_text(self):
        import inspect
        made = {}
        exec("def f():\\n    return 1\\n", {}, made)
        self.assertIn("return 1", inspect.getsource(made["f"]))

    def test_6_has_no_text_at_import(self):
        import inspect
        self.assertIn("return 2", inspect.getsource(MADE["g"]))

    def test_7_skips(self):
        self.skipTest("for a reason")

    def test_8_asks_for_insides(self):
        from numba.cuda.core import ir
        ir.Block()

    def test_9_fails_in_a_part(self):
        with self.subTest(number=1):
            self.fail("in a part")
""",
    "cudapy/test_ssa.py": "from numba.cuda import no_such_name\n",
}


def items_of(folder: Path, text: dict[str, str]) -> list[suite.Item]:
    """Items for the tests of a suite, written to ``folder``."""
    found = []
    for file, source in text.items():
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source, encoding="utf-8")
        names = [line.split("(")[0].removeprefix("    def ") for line in source.splitlines() if "def test_" in line]
        tests = [f"{file}::TestFake::{name}" for name in [*names, "test_that_is_not_there"]]
        found += [suite.Item(test, *suite.classify(test), dict.fromkeys(suite.DEVICES, "-")) for test in tests]
    return found


def test_outcomes(tmp_path: Path) -> None:
    items = items_of(tmp_path / "tests", FAKE)
    settings = children.Settings(tmp_path / "tests", "cpu", tmp_path, item_limit=3, grace=1, tell=lambda line: None)
    outcomes = children.run_items(items, settings)
    verdicts = {item.id.rpartition("::")[2]: outcomes[item.id].verdict for item in items if "powi" in item.id}
    assert verdicts == {
        "test_1_passes": "passed",
        "test_2_fails": "failed",
        "test_3_ends_the_process": "died",
        "test_4_comes_after": "passed",
        "test_5_hangs": "died",
        "test_6_has_no_text": "passed",
        "test_6_has_no_text_at_import": "passed",
        "test_7_skips": "skipped",
        "test_8_asks_for_insides": "skipped",
        "test_9_fails_in_a_part": "failed",
        "test_that_is_not_there": "missing",
    }
    reasons = {item.id.rpartition("::")[2]: outcomes[item.id].reason for item in items if "powi" in item.id}
    assert reasons["test_2_fails"] == "AssertionError: 2 != 3"
    assert "status 7" in reasons["test_3_ends_the_process"]
    assert reasons["test_5_hangs"] == "no answer within 3 s"
    assert reasons["test_7_skips"] == "for a reason"
    assert "numba.cuda.core.ir.Block" in reasons["test_8_asks_for_insides"]
    broken = outcomes["cudapy/test_ssa.py::TestFake::test_that_is_not_there"]
    assert broken.verdict == "error"
    assert broken.reason == "AttributeError: cudabuild has no no_such_name (asked of numba.cuda)"


def test_source_hook_is_counted_apart(tmp_path: Path) -> None:
    items = [item for item in items_of(tmp_path / "tests", FAKE) if item.id.endswith("test_6_has_no_text")]
    settings = children.Settings(tmp_path / "tests", "cpu", tmp_path, tell=lambda line: None)
    outcomes = children.run_items(items, settings)
    unaided = children.run_items(items, children.replace(settings, source_hook=False))
    (item,) = items
    assert outcomes[item.id].hooked
    assert scores.standing(item, outcomes, unaided) == "hook"


# data and counting


def test_floor_has_the_items_that_count() -> None:
    items = suite.load_items()
    assert Counter(item.kind for item in items) == {"A": 854, "B": 544, "C": 278}
    assert sum(item.in_scope for item in items) == 714
    assert len({item.id for item in items}) == len(items)
    assert {value for item in items for value in item.floor.values()} <= {"-", "hook", "pass"}


def outcomes_of(**verdicts: str) -> tuple[list[suite.Item], dict[str, children.Outcome]]:
    items = [suite.Item(name, "A", "pure", {"cpu": "-", "gpu": "-"}) for name in verdicts]
    return items, {name: children.Outcome(verdict, f"because of {name}") for name, verdict in verdicts.items()}


def test_floor_only_rises() -> None:
    items, outcomes = outcomes_of(one="passed", two="failed", three="passed")
    (raised,) = [scores.raise_floor(items, outcomes, {"three": children.Outcome("failed")}, "cpu")]
    assert [item.floor["cpu"] for item in raised] == ["pass", "-", "hook"]
    assert {item.floor["gpu"] for item in raised} == {"-"}
    worse = {name: children.Outcome("failed", "worse") for name in outcomes}
    assert [item.floor for item in scores.raise_floor(raised, worse, {}, "cpu")] == [item.floor for item in raised]
    assert scores.below_floor(raised, worse, {}, "cpu") == ["one: failed: worse", "three: failed: worse"]
    assert scores.below_floor(raised, worse, {}, "gpu") == []


def test_pass_without_hook_is_part_of_the_floor() -> None:
    items, outcomes = outcomes_of(one="passed")
    raised = scores.raise_floor(items, outcomes, {}, "gpu")
    unaided = {"one": children.Outcome("failed", "no text")}
    assert scores.below_floor(raised, outcomes, unaided, "gpu") == ["one: failed: no text"]


def test_reasons_are_ranked() -> None:
    items, outcomes = outcomes_of(one="passed", two="failed", three="failed", four="died")
    outcomes["two"] = children.Outcome("failed", "ValueError: 17 at 0xdead in /a/b/c.py:12")
    outcomes["three"] = children.Outcome("failed", "ValueError: 18.5 at 0xbeef in /d/c.py:7")
    text = "\n".join(scores.ranking(items, outcomes))
    assert text.startswith("3 of 4 items do not pass, for 2 reasons.")
    assert text.index("## 2 (2 in scope): failed: ValueError: N at 0x… in FILE") < text.index("## 1 (1 in scope): died")


def test_unknown_items_have_no_class() -> None:
    with pytest.raises(KeyError):
        suite.classify("cudapy/test_nothing_of_the_kind.py::test_x")


# the suite itself


def test_quick_shard() -> None:
    command = [sys.executable, str(HERE / "run.py"), "--device", "cpu", "--shard", "quick"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    if done.returncode == 3:
        pytest.skip(f"no suite to run: {done.stdout.strip()}")
    assert done.returncode == 0, f"{done.stdout[-6000:]}\n{done.stderr[-3000:]}"


def test_no_index_is_told(tmp_path: Path) -> None:
    command = [
        sys.executable,
        str(HERE / "run.py"),
        "--device",
        "cpu",
        "-k",
        "test_boolean",
        "--scratch",
        str(tmp_path),
    ]
    environment = {**os.environ, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)
    assert done.returncode == 3
    assert done.stdout.startswith("pip cannot download numba-cuda 0.30.4: ")
