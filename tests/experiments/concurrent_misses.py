# SPDX-License-Identifier: Apache-2.0
"""Processes that miss on the same kernels at once: each kernel is compiled once, whoever comes first.

    python3 tests/experiments/concurrent_misses.py [--quick] [--processes N] [--kernels N]

64 processes want the same 200 kernels of an empty cache, at once and in orders of their own: with images that are made
up in milliseconds, so that little but the cache is between them; with threads in them; through the batches of builds;
and with kernels that are really compiled. Then the same on a file system that hides new names from others for three
seconds (``hidden_names.py``), as network file systems do. Every process must have every right image, none may say
anything, and no kernel is compiled twice.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hidden_names import HiddenNames
from reporting import CHECKOUT, Report

sys.path[:0] = [str(CHECKOUT), str(CHECKOUT / "tests")]

from image_making import make_image  # noqa: E402

from cudabuild import config  # noqa: E402
from cudabuild.cache.batch import Batch  # noqa: E402
from cudabuild.cache.store import Cache  # noqa: E402
from cudabuild.compiler import compile_image, toolchain  # noqa: E402
from cudabuild.definition import KernelDefinition, Options  # noqa: E402
from cudabuild.fingerprint import compute_fingerprint, image_key  # noqa: E402
from cudabuild.image.image import KernelImage  # noqa: E402
from cudabuild.target import TARGETS  # noqa: E402
from cudabuild.types import parse_signature  # noqa: E402

__all__ = ["main"]

#: Seconds for which a new name is hidden.
HIDDEN, QUICKLY_HIDDEN = 3.0, 0.3

#: What making up an image takes, in seconds.
MAKING = 0.004


class Kernel:
    """Something to be had from a cache: how it is made, and whether an image is the right one."""

    target = "sm_90"

    def __init__(self, name: str) -> None:
        self.name = name
        self.key = make_image(name).key

    def make(self) -> KernelImage:
        time.sleep(MAKING)
        return make_image(self.name, key=b"")

    def is_right(self, image: KernelImage) -> bool:
        return image.qualname == self.name and bytes(image.data) == make_image(self.name).data


def write_kernel(number: int) -> Any:
    def k(x, n):  # type: ignore[no-untyped-def]
        for i in range(n):
            x[i] = x[i] * number + i

    return k


class CompiledKernel(Kernel):
    """A kernel that is compiled, to PTX: LLVM does all of it."""

    target = "compute_75"
    _signature = parse_signature("float32[::1], int32")

    def __init__(self, name: str) -> None:
        self.name = name
        self._definition = KernelDefinition(write_kernel(int(name.lstrip("k"))))
        self._fingerprint = compute_fingerprint(self._definition, self._signature)
        target = TARGETS[self.target]
        self.key = image_key(self._fingerprint, target, 32, Options({}), toolchain(target), "")

    def make(self) -> KernelImage:
        made = compile_image(self._definition, self._signature, target=TARGETS[self.target], index_width=32)
        return made.stamp(self._fingerprint)

    def is_right(self, image: KernelImage) -> bool:
        return image.fingerprint == self._fingerprint.digest and image.symbol.encode() in bytes(image.data)


class Crowd:
    """Processes that start at once on one empty cache; each appends the names of what it makes to one file."""

    def __init__(self, folder: Path, kernels: list[Kernel], hidden: float, *, is_new: bool) -> None:
        self.root = str(folder / "cache")
        self.kernels = kernels
        self._folder = folder
        self._names = HiddenNames(self.root, str(folder / "names"), hidden) if hidden else None
        if not is_new:
            Cache(self.root).publish(make_image("other"))
        self._made = os.open(folder / "made", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def order(self, number: int) -> list[Kernel]:
        """A third wants them in one order, a third from different beginnings on, a third as chance will have it."""
        start = number * len(self.kernels) // 64 % len(self.kernels)
        kernels = self.kernels[start:] + self.kernels[:start] if number % 3 == 1 else list(self.kernels)
        if number % 3 == 2:
            random.Random(number).shuffle(kernels)
        return kernels

    def make(self, kernel: Kernel) -> KernelImage:
        os.write(self._made, f"{kernel.name}\n".encode())
        return kernel.make()

    def run(self, count: int, work: Callable[[Crowd, int], None]) -> float:
        """Seconds that ``work`` took in ``count`` processes."""
        start = time.monotonic() + 0.3 + count * 0.005
        children = [self._start(number, start, work) for number in range(count)]
        self.failed = sum(os.waitpid(child, 0)[1] != 0 for child in children)
        return time.monotonic() - start

    def _start(self, number: int, start: float, work: Callable[[Crowd, int], None]) -> int:
        child = os.fork()
        if child:
            return child
        status = 1
        try:
            sys.stderr = open(self._folder / f"told-{number}", "w", encoding="utf-8")  # noqa: SIM115
            config._warned.clear()
            if self._names is not None:
                self._names.hide()
            time.sleep(max(0.0, start - time.monotonic()))
            work(self, number)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            hidden = self._names.hidden if self._names is not None else 0
            (self._folder / f"hidden-{number}").write_text(str(hidden), encoding="utf-8")
            sys.stderr.close()
            os._exit(status)

    def judge(self, report: Report, name: str, count: int, seconds: float) -> None:
        made = Counter((self._folder / "made").read_text(encoding="utf-8").split())
        told = "".join(path.read_text(encoding="utf-8") for path in self._folder.glob("told-*"))
        twice = sum(made.values()) - len(made)
        once = set(made) == {kernel.name for kernel in self.kernels} and not twice
        hidden = sum(int(path.read_text(encoding="utf-8")) for path in self._folder.glob("hidden-*"))
        files = sum(len(names) for _, _, names in os.walk(self.root))
        figures = f"{len(made)} kernels, {twice} again; {self.failed} of {count} processes failed"
        report.check(name, once and not self.failed and not told, f"{figures}; {files} files; {seconds:.1f} s")
        if told:
            report.note(told[-2000:])
        if self._names is not None:
            report.check("names were hidden", hidden > 0, f"{hidden} times")
        cache = Cache(self.root)
        wrong = [kernel.name for kernel in self.kernels if not is_right(kernel, cache.find(kernel.key, kernel.target))]
        report.check("afterwards all are in the cache", not wrong, ", ".join(wrong[:9]) or f"{len(self.kernels)}")


def is_right(kernel: Kernel, image: KernelImage | None) -> bool:
    return image is not None and image.key == kernel.key and kernel.is_right(image)


def build(crowd: Crowd, number: int) -> None:
    """One thread of a process."""
    build_in(Cache(crowd.root), crowd, number)


def build_in(cache: Cache, crowd: Crowd, number: int) -> None:
    for kernel in crowd.order(number):
        image = cache.build_once(kernel.key, kernel.target, lambda kernel=kernel: crowd.make(kernel))  # type: ignore[misc]
        assert is_right(kernel, image), kernel.name


def build_in_threads(crowd: Crowd, number: int) -> None:
    """Four threads of a process share its cache."""
    cache, errors = Cache(crowd.root), []

    def work(place: int) -> None:
        try:
            build_in(cache, crowd, number * 4 + place)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(place,)) for place in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors


def build_in_batches(crowd: Crowd, number: int) -> None:
    """As the workers of a build do."""
    batch = Batch(Cache(crowd.root))
    for kernel in crowd.order(number):
        image = batch.find(kernel.key, kernel.target)
        if image is None:
            batch.claim(kernel.key)
            image = batch.find(kernel.key, kernel.target, sure=True)
        if image is None:
            image = crowd.make(kernel)
            image.key = kernel.key
            batch.add(image)
        assert is_right(kernel, image), kernel.name
    batch.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer kernels, nothing compiled, names hidden for less")
    parser.add_argument("--processes", type=int, default=64, help="how many want them (default: 64)")
    parser.add_argument("--kernels", type=int, default=0, help="how many they want (default: 200, 40 if quick)")
    options = parser.parse_args()
    count = options.processes
    names = [f"k{number}" for number in range(options.kernels or (40 if options.quick else 200))]
    report = Report(f"{count} processes that want the same {len(names)} kernels of an empty cache")
    made_up = [Kernel(name) for name in names]
    compiled: list[Kernel] = [] if options.quick else [CompiledKernel(name) for name in names]
    for kernel in compiled[:1]:
        kernel.make()  # what is loaded once is loaded before the processes part
    for hidden in (0.0, QUICKLY_HIDDEN if options.quick else HIDDEN):
        report.note(f"new names are hidden for {hidden:g} s" if hidden else "new names are seen at once")
        # Where folders are hidden too, who makes them is alone for so long; where they are there, all begin at once.
        parts: list[tuple[str, bool, list[Kernel], int, Callable[[Crowd, int], None]]] = [
            ("made up, each compiled once", True, made_up, count, build),
            ("... where the folders are there", False, made_up, count, build),
            ("... in threads of fewer processes", False, made_up, max(count // 8, 2), build_in_threads),
            ("... in builds, which publish in batches", False, made_up, 4, build_in_batches),
        ]
        if compiled:
            parts.append(("compiled by LLVM, each once", False, compiled, count, build))
        for name, is_new, kernels, processes, work in parts:
            with tempfile.TemporaryDirectory(prefix="misses-") as scratch:
                crowd = Crowd(Path(scratch), kernels, hidden, is_new=is_new)
                crowd.judge(report, name, processes, crowd.run(processes, work))
    return report.status()


if __name__ == "__main__":
    sys.exit(main())
