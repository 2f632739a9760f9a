# SPDX-License-Identifier: Apache-2.0
"""Random kernels (``tests/random_programs``) leave on every device what the language defines; ``random_programs.py``
among the experiments runs thousands of them."""

from __future__ import annotations

from collections import Counter

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from launching import Run
from program_runs import Judge
from program_shrink import shrink
from program_tree import Program
from program_writer import make_program

#: The configurations of ``run``'s devices; the Python device is asked along with the CPU device.
CONFIGURATIONS = {"cpu": ["cpu", "cpu-unchecked", "python"], "gpu32": ["gpu32"], "gpu64": ["gpu64"]}


@settings(
    max_examples=20,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # ``--shrink`` of the experiment makes programs smaller
)
@given(seed=st.integers(0, 1 << 32))
def test_devices_agree_with_the_oracle(run: Run, seed: int) -> None:
    program = make_program(seed)
    verdict = Judge(CONFIGURATIONS[run.kind], {run.kind: run}).judge(program)
    assert not verdict.failures, f"seed {seed}: {verdict.failures}\n{program.signature}\n{program.source()}"


def test_a_seed_is_a_program() -> None:
    for seed in range(30):
        one, two = make_program(seed), make_program(seed)
        assert (one.source(), one.meaning(), one.signature) == (two.source(), two.meaning(), two.signature)


def test_what_programs_hold() -> None:
    total: Counter[str] = Counter()
    for seed in range(400):
        total.update(make_program(seed).features())
    types = (
        "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16",
        "float32", "float64", "complex64", "complex128", "int", "float",
    )  # fmt: skip
    wanted = [f"type {name}" for name in types]
    wanted += [f"statement {name}" for name in ("for", "for-each", "while", "if", "break", "continue", "return")]
    wanted += [f"statement {name}" for name in ("view", "local", "barrier", "atomic", "tuple", "unpack", "accumulate")]
    wanted += [f"layout {name}" for name in ("C", "F", "A", "C of 3 axes", "F of 3 axes", "A of 3 axes")]
    wanted += ["operation call", "operation negative-index", "literals weak", "literals numba"]
    assert [name for name in wanted if total[name] < 8] == []
    assert total["statements"] >= 12 * 400


def test_a_wrong_kernel_is_found() -> None:
    """The kernel stores one more than the oracle does."""
    programs = [make_program(seed) for seed in range(60)]
    ends = [(program, program.kernel.body[-1]) for program in programs]
    program, store = next((p, s) for p, s in ends if s.tag == "store" and s.clauses[0].parts[-1].kind == "int64")
    assert not Judge(["cpu-unchecked"]).judge(program).failures
    clause = store.clauses[0]
    clause.source = clause.source.replace("= {}", "= 1 + {}")
    (found,) = Judge(["cpu-unchecked"]).judge(program).failures.values()
    assert "not" in found


def test_shrinking_keeps_what_is_wrong() -> None:
    def fails(program: Program) -> bool:
        return any(expression.tag == "floordiv" for expression in program.expressions()) and bool(program.meaning())

    program = next(program for program in map(make_program, range(100)) if fails(program))
    small = shrink(program, fails, 20)
    assert fails(small)
    assert len(list(small.statements())) <= 3
    assert len(small.source()) < len(program.source())
