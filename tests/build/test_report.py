# SPDX-License-Identifier: Apache-2.0
"""What a build tells: the table, what stands out, the oldest drivers, what was left to JIT; progress."""

from __future__ import annotations

import io
from collections.abc import Iterable

import pytest

from cudabuild.build.execute import BuildResult
from cudabuild.build.report import Meter, format_left, format_summary
from cudabuild.build.settings import BuildSettings
from cudabuild.build.table import format_driver, format_notable, format_table
from cudabuild.build.worker import CompileResult, FoundKernel, Task
from cudabuild.image.image import KernelImage
from cudabuild.image.left import LeftToJit
from cudabuild.target import TARGETS


def image(
    name: str = "m:k", target: str = "sm_80", width: int = 64, *, size: int = 100, linker: str = "12.9.86", **usage: int
) -> KernelImage:
    module, _, qualname = name.partition(":")
    is_ptx = target.startswith("compute")
    return KernelImage(
        module=module, qualname=qualname, signature="int32", fingerprint=bytes(32), options={},
        kind="ptx" if is_ptx else "cubin", target=target, index_width=width, symbol=qualname, data=bytes(size),
        attributes={**usage, "minimum_driver": 11080 if is_ptx else int(linker.partition(".")[0]) * 1000},
        toolchain={} if is_ptx else {"nvjitlink": linker},
    )  # fmt: skip


def seconds_of(images: Iterable[KernelImage]) -> dict[tuple[str, str, str], float]:
    return {(image.module, image.qualname, image.signature): 0.25 for image in images}


def test_a_row_for_each_kernel_and_target() -> None:
    images = [
        image("m:k", "sm_80", 64, registers=24, shared_bytes=64, size=900),
        image("m:k", "sm_80", 32, registers=20, shared_bytes=64, size=800),
        image("m:k", "sm_100", 64, registers=30, local_bytes=16, spill_store_bytes=8, spill_load_bytes=4),
        image("m:k", "compute_80", 64, size=1000),
        image("a:long_name", "sm_80", registers=8),
    ]
    assert format_table(images, seconds_of(images)) == [
        "kernel              target      registers  shared  local  spill    bytes  seconds",
        "a:long_name(int32)  sm_80               8       0      0      0      100     0.25",
        "m:k(int32)          sm_80           20/24      64      0      0  800/900     0.25",
        "                    sm_100             30       0     16     12      100",
        "                    compute_80                                      1000",
    ]
    assert format_notable(images, seconds_of(images)) == ["spills: m:k(int32), 12 bytes on sm_100"]
    assert format_table([], {}) == []


def test_many_kernels_are_put_together_until_they_fit() -> None:
    few = [image(f"m{n % 2}:k{n}", "sm_80", registers=n, size=10 + n) for n in range(61)]
    assert format_table(few, seconds_of(few)) == [
        "module           target  registers  shared  local  spill  bytes  seconds",
        "m0 (31 kernels)  sm_80        0-60       0      0      0  10-70     7.75",
        "m1 (30 kernels)  sm_80        1-59       0      0      0  11-69     7.50",
    ]
    assert len(format_table(few, seconds_of(few), everything=True)) == 62
    many = [image(f"m{n}:k", target, registers=n) for n in range(100) for target in ("sm_80", "sm_90")]
    assert format_table(many, seconds_of(many)) == [
        "               target  registers  shared  local  spill  bytes  seconds",
        "(100 kernels)  sm_80        0-99       0      0      0    100    25.00",
        "               sm_90        0-99       0      0      0    100",
    ]
    assert format_notable(many, {**seconds_of(many), ("m7", "k", "int32"): 3.0})[0].startswith(
        "slowest: m7:k 3.00 s, m0:k 0.25 s"
    )


def summary(result: BuildResult, *names: str) -> str:
    return "\n".join(format_summary(result, {}, BuildSettings(tuple(TARGETS[name] for name in names)), 1.0))


def test_the_oldest_driver_of_each_target_is_told() -> None:
    images = [image(target="sm_80"), image(target="sm_88", linker="13.5.37"), image(target="compute_80")]
    text = summary(BuildResult(images=images), "sm_80", "sm_88", "compute_80")
    assert "sm_80: by nvJitLink 12.9.86, for driver 525 (CUDA 12.0) or newer" in text
    assert "sm_88: by nvJitLink 13.5.37, for driver 580 (CUDA 13.0) or newer" in text
    assert "compute_80: by LLVM, for a driver of CUDA 11.8 or newer" in text
    assert "warning" not in text  # sm_80 runs on older drivers


def test_one_warning_where_every_cubin_needs_a_new_driver() -> None:
    images = [image(target=target, linker="13.5.37") for target in ("sm_80", "sm_90")] + [image(target="compute_80")]
    text = summary(BuildResult(images=images), "sm_80", "sm_90", "compute_80")
    assert text.count("warning: every cubin needs driver 580 or newer") == 1
    assert "nvidia-nvjitlink-cu12>=12.9" in text


@pytest.mark.parametrize(
    ("version", "text"),
    [(12000, "driver 525 (CUDA 12.0)"), (13000, "driver 580 (CUDA 13.0)"), (12080, "a driver of CUDA 12.8")],
)
def test_drivers(version: int, text: str) -> None:
    assert format_driver(version) == text


def test_what_was_left_to_jit_and_what_to_do() -> None:
    left = [
        LeftToJit("m", f"k{n}", "no-signature", "m.py", n, "", "", "it declares no signature", ["write its signature"])
        for n in range(25)
    ]
    kernels = tuple(FoundKernel("m", one.qualname, "m.py", one.line, left=one) for one in left)
    lines = format_left(BuildResult(kernels=kernels))
    assert lines[0] == "left to JIT: m:k0: m.py:0: it declares no signature"
    assert lines[20] == "left to JIT: 5 more; 'python -m cudabuild build -v' names all"
    assert lines[21:] == ["  do: write its signature"]
    assert len(format_left(BuildResult(kernels=kernels), everything=True)) == 26


class Screen(io.StringIO):
    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


def run_meter(monkeypatch: pytest.MonkeyPatch, terminal: bool, *, quiet: bool = False, pause: float = 1.0) -> str:
    screen = Screen(terminal)
    monkeypatch.setattr("sys.stderr", screen)
    now = [100.0]
    monkeypatch.setattr("cudabuild.build.report.time.perf_counter", lambda: now[0])
    monkeypatch.setenv("COLUMNS", "80")
    meter = Meter(quiet=quiet)
    for done in range(1, 31):
        now[0] += pause
        meter(done, 30, CompileResult(Task("m", f"kernel_{done}", "int32", ("sm_80",), (64,)), []))
    return screen.getvalue()


def test_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    text = run_meter(monkeypatch, True)
    shown = text.split("\r")
    assert shown[15].rstrip() == "cudabuild [##########..........] 15/30, 15 s left  m:kernel_15"
    assert all(len(part) <= 79 for part in shown)
    assert shown[-2].strip() == ""  # the line is free again for what follows
    assert "\n" not in text


def test_plain_lines_elsewhere_and_none_of_short_builds(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_meter(monkeypatch, False).splitlines() == [
        f"cudabuild: {done} of 30 kernels and signatures, {done} s" for done in (10, 20, 30)
    ]
    assert run_meter(monkeypatch, False, pause=0.1) == ""
    assert run_meter(monkeypatch, False, quiet=True) == run_meter(monkeypatch, True, quiet=True) == ""
