# SPDX-License-Identifier: Apache-2.0
"""Runs a random program on a device and compares what it leaves with what it must."""

from __future__ import annotations

import contextlib
import itertools
import linecache
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
from agreement import copies
from launching import Device
from program_kept import KeptProgram
from program_oracle import make_arguments, run_oracle
from program_tree import Program
from ulp import limit_of, same_bits, ulp_distance

from cudabuild.definition import DEFAULT_OPTIONS, KernelDefinition
from cudabuild.types import parse_signature

__all__ = ["CONFIGURATIONS", "Judge", "Verdict"]

#: name -> the device's kind, the checks of the CPU device, the remainder by three of seeds that are optimised fully.
CONFIGURATIONS: dict[str, tuple[str, str, tuple[int, ...]]] = {
    "cpu": ("cpu", "bounds", (0,)),
    "cpu-unchecked": ("cpu", "none", (1,)),
    "gpu32": ("gpu32", "none", (0, 1, 2)),
    "gpu64": ("gpu64", "none", (0, 1, 2)),
    "python": ("python", "none", ()),
}

_numbers = itertools.count()


class Verdict:
    """Of one program: how each configuration differs, and which were not asked.

    Attributes:
        failures: configuration -> what is wrong.
        beyond: why the Python device was not asked.
    """

    def __init__(self) -> None:
        self.failures: dict[str, str] = {}
        self.beyond: set[str] = set()


class Judge:
    """Compares programs with the oracle.

    Args:
        configurations: names of ``CONFIGURATIONS``.
        devices: kind -> what launches there, if not ``launching.Device``.
    """

    def __init__(self, configurations: list[str], devices: dict[str, Any] | None = None) -> None:
        self.configurations = configurations
        self._devices: dict[str, Any] = dict(devices or {})

    def judge(self, program: Program | KeptProgram) -> Verdict:
        verdict = Verdict()
        start = make_arguments(program)
        wanted = copies(start)
        verdict.beyond = run_oracle(program, wanted)
        if program.python_differs:
            verdict.beyond.add("operations that mean something else to Python")
        if program.literals != "weak":
            verdict.beyond.add("the types of numba")
        kernel = define(program.source())
        for name in self.configurations:
            if name == "python" and verdict.beyond:
                continue
            found = copies(start)
            try:
                self._run(name, program, kernel, found)
            except Exception as error:  # whatever a compiler or launch raises is the result
                verdict.failures[name] = f"{type(error).__name__}: {error}"
                continue
            wrong = compare(program, wanted, found, CONFIGURATIONS[name][0])
            if wrong:
                verdict.failures[name] = wrong
        return verdict

    def _run(self, name: str, program: Program | KeptProgram, kernel: Any, arguments: list[Any]) -> None:
        kind, check, full = CONFIGURATIONS[name]
        level = 3 if program.seed % 3 in full else 1
        options = DEFAULT_OPTIONS.replace(fma=False, literals=program.literals, opt=level)
        block, grid = (*program.block, 1), (*program.grid, 1)
        if kind == "python":
            from cudabuild.interpreter.device import PythonDevice

            definition = KernelDefinition(kernel, program.signature, options=options)
            PythonDevice().bind(definition, parse_signature(program.signature))(grid, block, 0, 0, tuple(arguments))
            return
        gpu = kind.startswith("gpu")
        place = "gpu" if gpu and kind not in self._devices else kind  # one compilation has both index widths
        if place not in self._devices:
            self._devices[place] = Device(kind)
        device = self._devices[place]
        if place == "gpu":
            device.kind = kind
        with checking(check):
            device(kernel, program.signature, grid, block, *arguments, options=options)
        if gpu:
            from cudabuild import cuda

            cuda.synchronize()


@contextlib.contextmanager
def checking(what: str) -> Iterator[None]:
    """Kernels compiled meanwhile on the CPU device check this."""
    before = os.environ.get("CUDABUILD_CHECK")
    os.environ["CUDABUILD_CHECK"] = what
    try:
        yield
    finally:
        if before is None:
            del os.environ["CUDABUILD_CHECK"]
        else:
            os.environ["CUDABUILD_CHECK"] = before


def define(text: str) -> Any:
    """The kernel of a module's text, which the front end finds again."""
    name = f"<random program {next(_numbers)}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    namespace: dict[str, Any] = {}
    exec(compile(text, name, "exec"), namespace)  # the generator's own text
    return namespace["kernel"]


def compare(program: Program | KeptProgram, wanted: list[Any], found: list[Any], kind: str) -> str:
    """What differs, or nothing."""
    for spec, want, have in zip(program.arrays, wanted, found, strict=False):
        if spec.kind == "bfloat16":
            want, have = want.astype(np.float32), have.astype(np.float32)
        if spec.role == "near" and spec.limits:
            device = "cpu" if kind == "python" else kind
            limit = max(limit_of(name, want.dtype, device) for name in spec.limits) + (kind == "python") * 2
            apart = ulp_distance(np.ascontiguousarray(have), np.ascontiguousarray(want))
            wrong, allowed = apart > limit, f", more than {limit} ulp"
        else:
            wrong, allowed = ~np.asarray(same_bits(have, want)), ""
        if wrong.any():
            place = tuple(int(axis[0]) for axis in np.nonzero(wrong))
            return (
                f"{spec.name}{list(place)} is {have[place]!r}, not {want[place]!r}{allowed} ({wrong.sum()} such places)"
            )
    return ""
