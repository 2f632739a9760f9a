# SPDX-License-Identifier: Apache-2.0
"""What a build tells: progress, a summary, what was left to JIT and why, and all errors together."""

from __future__ import annotations

import sys
import time

from cudabuild.build.execute import BuildResult
from cudabuild.build.settings import BuildSettings, format_settings
from cudabuild.build.worker import CompileResult
from cudabuild.build.write import Written

__all__ = ["Meter", "format_errors", "format_summary"]


class Meter:
    """Shows progress on a terminal, in one line that is written over; elsewhere nothing."""

    def __init__(self) -> None:
        self.started = time.perf_counter()
        stream = sys.stderr
        self._stream = stream if stream is not None and stream.isatty() else None

    def __call__(self, done: int, total: int, result: CompileResult) -> None:
        if self._stream is not None:
            text = f"cudabuild: {done}/{total} {result.task.module}:{result.task.qualname}"
            self._stream.write(f"\r{text[:100]:<100}" + ("\r" + " " * 100 + "\r" if done == total else ""))
            self._stream.flush()

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.started


def format_errors(result: BuildResult) -> str:
    """Everything that is wrong with a project's kernels, as one message."""
    return f"{_count(len(result.errors), 'kernel error')}; nothing was written\n\n" + "\n\n".join(result.errors)


def format_summary(result: BuildResult, written: Written, settings: BuildSettings, seconds: float) -> list[str]:
    """Lines that say what was built, from which settings, and what was left to JIT."""
    origins = dict(settings.origins)
    targets = ", ".join(target.name for target in settings.targets)
    widths = " and ".join(map(str, settings.index_widths))
    lines = [f"targets {targets} (archs from {origins.get('archs', 'the default')}); index width {widths}"]
    lines += [line for line in format_settings(settings) if not line.startswith("archs = ")]
    lines += [f"warning: {text}; it was not looked into" for text in result.unreadable]
    if not result.kernels:
        lines.append("no kernels found")
    overloads = sum(len(kernel.signatures) for kernel in result.kernels)
    built = sum(bool(kernel.signatures) for kernel in result.kernels)
    for owner, (folder, size, count) in sorted(written.items()):
        lines.append(f"{owner}: {_count(count, 'image')}, {size / 1e6:.2f} MB in {folder}")
    lines.append(
        f"{_count(built, 'kernel')} with {_count(overloads, 'signature')}: "
        f"{_count(result.compiled, 'image')} compiled, {result.cached} from the cache, {seconds:.1f} s"
    )
    for kernel in result.kernels:
        if kernel.left:
            lines.append(f"left to JIT: {kernel.module}:{kernel.qualname}: {kernel.left}")
    return lines


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
