# SPDX-License-Identifier: Apache-2.0
"""What a build tells: progress, a summary, what was left to JIT and why, and all errors together."""

from __future__ import annotations

import shutil
import sys
import time

from cudabuild.build.execute import BuildResult
from cudabuild.build.settings import BuildSettings, format_settings
from cudabuild.build.table import format_driver, format_notable, format_table
from cudabuild.build.worker import CompileResult
from cudabuild.build.write import Written
from cudabuild.config import find_unknown_variables
from cudabuild.image.image import KernelImage

__all__ = ["Meter", "format_errors", "format_left", "format_summary"]

#: What ``cuDriverGetVersion`` says of the first driver that takes cubins of 13.x tools.
_CUDA_13 = 13000

#: How many kernels that were left to JIT are named.
_MOST_LEFT = 20


#: Seconds between two plain lines where there is no terminal.
_PLAIN_PAUSE = 10.0


class Meter:
    """Shows progress: a bar on a terminal, a line every ten seconds elsewhere, nothing where it is told to be quiet."""

    def __init__(self, *, quiet: bool = False) -> None:
        self.started = time.perf_counter()
        self._stream = None if quiet else sys.stderr
        self._is_terminal = self._stream is not None and self._stream.isatty()
        self._told = self.started

    def __call__(self, done: int, total: int, result: CompileResult) -> None:
        now = time.perf_counter()
        if self._stream is None or (now - self._told < (0.05 if self._is_terminal else _PLAIN_PAUSE) and done < total):
            return
        self._told = now
        if not self._is_terminal:
            if self.seconds >= _PLAIN_PAUSE:  # a short build tells its end by its summary
                self._stream.write(f"cudabuild: {done} of {total} kernels and signatures, {self.seconds:.0f} s\n")
                self._stream.flush()
            return
        width = shutil.get_terminal_size().columns - 1
        if done == total:
            text = ""
        else:
            left = self.seconds / done * (total - done)
            bar = ("#" * (20 * done // total)).ljust(20, ".")
            text = f"cudabuild [{bar}] {done}/{total}, {left:.0f} s left  {result.task.module}:{result.task.qualname}"
        self._stream.write(f"\r{text[:width]:<{width}}" + ("" if text else "\r"))
        self._stream.flush()

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.started


def format_errors(result: BuildResult) -> str:
    """Everything that is wrong with a project's kernels, as one message."""
    return f"{_count(len(result.errors), 'kernel error')}; nothing was written\n\n" + "\n\n".join(result.errors)


def format_summary(
    result: BuildResult, written: Written, settings: BuildSettings, seconds: float, *, everything: bool = False
) -> list[str]:
    """Lines that say what was built, from which settings, and what was left to JIT.

    Args:
        result, written, settings: of the build.
        seconds: how long it took.
        everything: nothing is put together, however much there is.
    """
    origins = dict(settings.origins)
    targets = ", ".join(target.name for target in settings.targets)
    widths = " and ".join(map(str, settings.index_widths))
    lines = [f"targets {targets} (archs from {origins.get('archs', 'the default')}); index width {widths}"]
    lines += [line for line in format_settings(settings) if not line.startswith("archs = ")]
    lines += [f"warning: {text}" for text in find_unknown_variables()]
    lines += [f"warning: {text}; it was not looked into" for text in result.unreadable]
    lines += result.notes
    if not result.kernels:
        lines.append("no kernels found")
    lines += format_table(result.images, result.seconds, everything=everything)
    lines += format_notable(result.images, result.seconds)
    lines += _format_targets(result)
    overloads = sum(len(kernel.signatures) for kernel in result.kernels)
    built = sum(bool(kernel.signatures) for kernel in result.kernels)
    for owner, (folder, size, count) in sorted(written.items()):
        lines.append(f"{owner}: {_count(count, 'image')}, {size / 1e6:.2f} MB in {folder}")
    lines.append(
        f"{_count(built, 'kernel')} with {_count(overloads, 'signature')}: "
        f"{_count(result.compiled, 'image')} compiled, {result.cached} from the cache, {seconds:.1f} s"
    )
    return lines + format_left(result, everything=everything)


def _format_targets(result: BuildResult) -> list[str]:
    """What made the images of each target, and the oldest driver that takes them; and a warning."""
    groups: dict[str, list[KernelImage]] = {}
    for image in result.images:
        groups.setdefault(image.target, []).append(image)
    lines: dict[str, list[str]] = {}
    drivers = []
    for target, images in groups.items():
        oldest = max(int(image.attributes.get("minimum_driver", 0)) for image in images)
        tool = images[0].toolchain.get("nvjitlink")
        by = f"nvJitLink {tool}" if tool else "LLVM"
        lines.setdefault(f"by {by}, for {format_driver(oldest)} or newer", []).append(target)
        if images[0].kind == "cubin":
            drivers.append(oldest)
    found = [f"{', '.join(targets)}: {text}" for text, targets in lines.items()]
    if drivers and min(drivers) >= _CUDA_13:
        found.append(
            "warning: every cubin needs driver 580 or newer, because nvJitLink 13 makes such; with "
            "nvidia-nvjitlink-cu12>=12.9 in [build-system] requires, most run on 12.x drivers too"
        )
    return found


def format_left(result: BuildResult, *, everything: bool = False) -> list[str]:
    """What was left to JIT and why, with what to do for each kind of reason."""
    left = [kernel.left for kernel in result.kernels if kernel.left]
    shown = left if everything else left[:_MOST_LEFT]
    lines = [f"left to JIT: {one.module}:{one.qualname}: {one}" for one in shown]
    if len(left) > len(shown):
        lines.append(f"left to JIT: {len(left) - len(shown)} more; 'python -m cudabuild build -v' names all")
    remedies = {one.kind: one.remedies[0] for one in reversed(left) if one.remedies}
    return lines + [f"  do: {remedy}" for remedy in dict.fromkeys(reversed(remedies.values()))]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
