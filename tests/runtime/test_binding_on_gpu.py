# SPDX-License-Identifier: Apache-2.0
"""Loading on a real GPU: inside a stream capture, for kernels that come and go, and code that the driver refuses."""

from __future__ import annotations

import gc
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases_kit import load

from cudabuild import cuda, kernel
from cudabuild.decorators import SERVICES
from cudabuild.fingerprint import compute_fingerprint
from cudabuild.image.archive import write_archive
from cudabuild.image.image import KernelImage
from cudabuild.runtime import module
from cudabuild.runtime.driver import open_driver
from cudabuild.types import format_signature

pytestmark = pytest.mark.gpu


def make_adder(amount: int) -> Any:
    """A kernel of its own for each amount."""

    @kernel("int32[::1]")
    def add(out: Any) -> None:
        out[0] += amount

    return add


def call(name: str, *args: Any) -> Any:
    """A call of the driver's."""
    return open_driver()._call(name, *args)


@pytest.mark.parametrize("mode", [0, 1, 2])  # global, of the thread, relaxed
def test_a_first_launch_inside_a_capture(mode: int) -> None:
    from cuda.bindings import driver as api

    out = cuda.to_device(np.zeros(1, np.int32))
    cuda.synchronize()
    make_adder(1000 + mode)[1, 1](out)  # dead afterwards: what is loaded next may unload it
    gc.collect()
    stream = call("cuStreamCreate", 1)  # CU_STREAM_NON_BLOCKING
    call("cuStreamBeginCapture", stream, api.CUstreamCaptureMode(mode))
    inside = make_adder(10 + mode)
    inside[1, 1, int(stream)](out)
    graph = call("cuStreamEndCapture", stream)
    assert inside.image_source()
    del inside
    gc.collect()
    for n in range(3):
        make_adder(2000 + 10 * mode + n)[1, 1](out)
    made = call("cuGraphInstantiate", graph, 0)
    cuda.synchronize()
    before = int(out.copy_to_host()[0])
    for _ in range(4):
        call("cuGraphLaunch", made, stream)
    call("cuStreamSynchronize", stream)
    assert int(out.copy_to_host()[0]) == before + 4 * (10 + mode)


def test_kernels_that_come_and_go_give_their_memory_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is dropped while it may still be running, and none is lost."""
    monkeypatch.setattr(module._Limit, "count", 64)
    monkeypatch.setattr(module._Limit, "LEAST", 64)
    out = cuda.to_device(np.zeros(1, np.int32))
    make_adder(0)[1, 1](out)
    gc.collect()
    others = len(module._living)
    free = open_driver().memory_info()[0]
    for amount in range(600):
        make_adder(amount)[1, 1](out)
        if amount == 200:
            middle = open_driver().memory_info()[0]
    assert int(out.copy_to_host()[0]) == sum(range(600))
    assert len(module._living) <= 2 * others + 130
    end = open_driver().memory_info()[0]
    assert middle - end <= 32 << 20, (free, middle, end)


def images(function: Any, target: str, data: bytes) -> list[KernelImage]:
    """What an archive would say, with code of our choice."""
    definition = function.definition
    fingerprint = compute_fingerprint(definition, definition.signatures[0])
    return [
        KernelImage(
            module=fingerprint.module, qualname=fingerprint.qualname, fingerprint=fingerprint.digest, options={},
            signature=format_signature(definition.signatures[0]), kind="ptx" if "compute" in target else "cubin",
            target=target, index_width=width, symbol="k", data=data,
        ).stamp(fingerprint)
        for width in (32, 64)
    ]  # fmt: skip


PTX = """.version {version}
.target sm_75
.address_size 64
.visible .entry k(.param .u64 x, .param .u32 n) {{ {body} }}
"""

TEXT = "from cudabuild import kernel\n@kernel('int32[::1]')\ndef k(x):\n    x[0] = {answer}\n"


@pytest.mark.parametrize("kind", ["garbage", "another GPU's", "no such kernel", "newer PTX", "wrong PTX"])
def test_code_that_the_driver_refuses_gives_way(tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Under right digests: only the driver can tell."""
    answer = time.time_ns() % 1_000_000_000  # a kernel that no cache has
    made = load(tmp_path, TEXT.format(answer=answer))
    cc = SERVICES.current_device().info.cc
    own = f"sm_{cc[0]}{cc[1]}"
    if kind.endswith("PTX"):
        version, body = ("99.0", "ret;") if kind.startswith("newer") else ("7.0", "no such instruction;")
        target, data = "compute_75", PTX.format(version=version, body=body).encode()
    else:
        target, data = own, b"garbage" * 100 + bytes(64)  # the driver is not told the length: it must find an end
    if kind == "no such kernel":
        good = make_adder(1)
        good[1, 1](cuda.to_device(np.zeros(1, np.int32)))
        (launcher,) = good._launchers.values()
        data = bytes(launcher.bound().image.data)
    if kind == "another GPU's":
        from cudabuild.compiler import Compilation, Request
        from cudabuild.target import parse_target

        other = parse_target("80" if cc[0] != 8 else "90")
        work = Compilation(made.k.definition, made.k.definition.signatures[0], made.k.definition.options)
        data = bytes(work.get("image", Request(other, 32)).data)
    folder = tmp_path / f"_cudabuild_{made.__name__}"
    folder.mkdir()
    write_archive(folder / f"{target}.cuar", images(made.k, target, data), target)
    capsys.readouterr()
    out = cuda.to_device(np.zeros(1, np.int32))
    for _ in range(3):
        made.k[1, 1](out)
    assert int(out.copy_to_host()[0]) == answer
    assert made.k.image_source() == f"compiled cubin {own}"
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert f"{target}, 32-bit indices: the driver refuses it: CUDA_ERROR_" in lines[0]
    with capsys.disabled():
        print(f"\n{kind}: {lines[0]}")
