# SPDX-License-Identifier: Apache-2.0
"""Compares what two runs of a project's kernels gave, and counts."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from projects import Kernel, Project

__all__ = ["Judgement", "difference", "judge", "survey"]

_DECORATOR = re.compile(r"\bcuda\.jit\b|_cuda\.jit\b|\bcompile_cupy\b|\bperformance_function$")
#: What a file with one of these holds somewhere.
_HINT = re.compile(r"cuda\.jit|compile_cupy|performance_function")
#: Differences that rounding makes, by the narrowest floats among the arguments.
_TOLERANCES = {2: 4e-3, 4: 2e-5, 8: 1e-11}


@dataclass
class Judgement:
    """What is known of one project."""

    project: Project
    kernels: int = 0
    closures: int = 0
    given: int = 0
    compiled: int = 0
    equal: int = 0
    device: str = "cpu"
    against: str = "python"
    coverages: dict[str, float] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    largest: float = 0.0

    HEAD: ClassVar[str] = (
        f"{'project':34} {'kernels':>7} {'tried':>5} {'compiled':>8} {'equal':>5} {'lines run: least, mean':>22} "
        f"{'differ by':>9} {'factories':>9}"
    )

    @property
    def is_bad(self) -> bool:
        return bool(self.problems)

    def line(self) -> str:
        values = list(self.coverages.values())
        coverage = f"{min(values):.0%}, {sum(values) / len(values):.1%}" if values else "-"
        return (
            f"{self.project.name + ' ' + self.project.version:34} {self.kernels:7} {self.given:5} {self.compiled:8} "
            f"{self.equal:5} {coverage:>22} {self.largest:9.1e} {self.closures:9}"
        )

    @staticmethod
    def total(judgements: list[Judgement], title: str) -> str:
        def add(name: str) -> int:
            return sum(getattr(judgement, name) for judgement in judgements)

        values = [value for judgement in judgements for value in judgement.coverages.values()]
        coverage = f"{min(values):.0%}, {sum(values) / len(values):.1%}" if values else "-"
        return (
            f"{title:34} {add('kernels'):7} {add('given'):5} {add('compiled'):8} {add('equal'):5} {coverage:>22} "
            f"{max(j.largest for j in judgements):9.1e} {add('closures'):9}"
        )

    def details(self) -> list[str]:
        name = self.project.name
        lines = [f"{name}: {self.project.note}"] if self.project.note else []
        lines += [f"{name}: FAILED {text}" for text in self.problems]
        lines += [f"{name}: {text}" for text in self.notes]
        low = {key: value for key, value in self.coverages.items() if value < 0.9}
        return lines + [f"{name}: only {value:.0%} of its lines run: {key}" for key, value in sorted(low.items())]


def survey(project: Project, root: Path) -> tuple[set[str], set[str]]:
    """Kernels as their files have them: module-level and in classes (``file:name``), and those made in functions."""
    paths: list[Path] = []
    for place in project.scan:
        paths += sorted((root / place).rglob("*.py")) if (root / place).is_dir() else [root / place]
    plain: set[str] = set()
    made: set[str] = set()
    for path in paths:
        text = path.read_text("utf-8", errors="replace")
        if "/tests/" not in str(path.relative_to(root)) and _HINT.search(text):
            _walk(ast.parse(text), f"{path.relative_to(root)}:", "", plain, made)
    return plain, made


def _walk(node: ast.AST, file: str, prefix: str, plain: set[str], made: set[str], inside: bool = False) -> None:
    for part in ast.iter_child_nodes(node):
        if isinstance(part, ast.FunctionDef):
            decorators = [ast.unparse(d) for d in part.decorator_list]
            wanted = [text for text in decorators if _DECORATOR.search(text)]
            if wanted and not any("device=True" in text for text in wanted):
                (made if inside else plain).add(f"{file}{prefix}{part.name}")
            _walk(part, file, f"{prefix}{part.name}.", plain, made, True)
        elif isinstance(part, ast.ClassDef):
            _walk(part, file, f"{prefix}{part.name}.", plain, made, inside)
        else:
            _walk(part, file, prefix, plain, made, inside)


def judge(
    project: Project,
    surveyed: tuple[set[str], set[str]],
    found: dict[str, Any],
    other: dict[str, Any],
    options: argparse.Namespace,
) -> Judgement:
    """Compares, kernel by kernel."""
    plain, made = surveyed
    verdict = Judgement(project, len(plain), len(made), device=options.device, against=options.against)
    only = set(filter(None, options.only.split("|")))
    chosen = [kernel for kernel in project.kernels if not only or kernel.id in only]
    for kernel in chosen:
        _judge_kernel(verdict, kernel, found.get(kernel.id, {}), other.get(kernel.id, {}), options)
    if not only:
        _note_the_rest(verdict, plain)
    return verdict


def _note_the_rest(verdict: Judgement, plain: set[str]) -> None:
    project = verdict.project
    named = {kernel.id for kernel in project.kernels}
    for name in sorted(plain - named):
        reason = project.unreached.get(name) or project.unreached.get(name.partition(":")[0])
        if reason:
            verdict.notes.append(f"not run: {name}: {reason}")
        elif project.apart:
            verdict.notes.append(f"not run: {name}: no arguments are written for it")
        else:
            verdict.problems.append(f"not run: {name}: no arguments are written for it")
    verdict.notes += [f"{kernel.id}: {kernel.note}" for kernel in project.kernels if kernel.note]


def _judge_kernel(
    verdict: Judgement, kernel: Kernel, ours: dict[str, Any], theirs: dict[str, Any], options: argparse.Namespace
) -> None:
    verdict.given += 1
    verdict.compiled += "compiled" in ours or (not options.targets and "error" not in ours)
    if "error" in ours or not ours:
        verdict.problems.append(f"{kernel.id} on {options.device}: {ours.get('error', 'no result')}")
        return
    if options.device == "none":
        return
    if "error" in theirs or not theirs:
        verdict.problems.append(f"{kernel.id} on {options.against}: {theirs.get('error', 'no result')}")
        return
    if theirs.get("statements"):
        verdict.coverages[kernel.id] = 1 - len(theirs["missed"]) / theirs["statements"]
        if theirs["missed"] and verdict.coverages[kernel.id] < 0.9:
            verdict.notes.append(f"{kernel.id}: lines not run: {theirs['missed']}")
    worst, place = 0.0, ""
    for number, (mine, its) in enumerate(zip(ours["results"], theirs["results"], strict=True)):
        for index, (a, b) in enumerate(zip(mine, its, strict=True)):
            value = difference(a, b)
            if value > worst:
                worst, place = value, f"launch {number}, array {index}: {show(a, b)}"
    limit = kernel.tolerance
    if limit is None:
        limit = _tolerance([array for arrays in ours["results"] for array in arrays])
    if worst <= limit:
        verdict.equal += 1
        verdict.largest = max(verdict.largest, worst)
    else:
        verdict.problems.append(f"{kernel.id} differs by {worst:.2e} from {options.against}: {place}")


def _tolerance(arrays: list[Any]) -> float:
    sizes = [a.dtype.itemsize // (2 if a.dtype.kind == "c" else 1) for a in arrays if a.dtype.kind in "fc"]
    return _TOLERANCES[min(sizes)] if sizes else 0.0


def difference(a: Any, b: Any) -> float:
    """The largest difference relative to the largest element; infinite where NaN, infinities or integers differ."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return float("inf")
    if a.dtype.kind not in "fc":
        return 0.0 if np.array_equal(a, b) else float("inf")
    if not a.size:
        return 0.0
    with np.errstate(all="ignore"):
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        if not np.array_equal(np.isfinite(a), np.isfinite(b)) or not np.all(same[~np.isfinite(a)]):
            return float("inf")
        wide = "c16" if a.dtype.kind == "c" else "f8"
        scale = max(1e-30, float(np.max(np.abs(b[np.isfinite(b)]), initial=0.0)))
        return float(np.max(np.where(same, 0.0, np.abs(a.astype(wide) - b.astype(wide))), initial=0.0)) / scale


def show(a: Any, b: Any) -> str:
    """Where two arrays differ, and how."""
    if a.shape != b.shape:
        return f"{a.shape} and {b.shape}"
    with np.errstate(all="ignore"):
        different = ~((a == b) | ((a != a) & (b != b)))
        places = np.argwhere(different)
    if not len(places):
        return "equal"
    gaps = np.abs(np.where(np.isfinite(a) & np.isfinite(b), a, 0) - np.where(np.isfinite(a) & np.isfinite(b), b, 0))
    nonfinite = np.argwhere(different & (np.isfinite(a) != np.isfinite(b)))
    where = tuple(nonfinite[0]) if len(nonfinite) else np.unravel_index(np.argmax(gaps), a.shape)
    where = tuple(int(part) for part in where)
    return f"{len(places)} of {a.size} elements, at {where} {a[where]!r} and {b[where]!r}"
