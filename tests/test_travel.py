# SPDX-License-Identifier: Apache-2.0
"""Kernels and device functions in pickles: by name, or by text, free values and options."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cudabuild import cuda, device_function, float32, kernel
from cudabuild.fingerprint import compute_fingerprint


def make(n: int, table: Any = ()) -> Any:
    """A kernel with everything that it may capture."""
    tau = np.arange(3, dtype=np.float32)

    def plain(a: Any) -> Any:
        return other(a) * n if a > 1 else a

    def other(a: Any) -> Any:  # the two call each other
        return plain(a - 1) + tau[0]

    @device_function
    def device(a: Any) -> Any:
        return plain(a) + abs(n)

    @kernel("float32[::1], T", T=(float32,), fastmath=True, launch_bounds=64)
    def captured(x: Any, y: Any = 2.0) -> None:
        """Of a closure."""
        i = cuda.grid(1)
        if i < x.size:
            x[i] = device(y) + (lambda v: v + n)(y) + np.float32(len(x)) + (table[0](y) if len(table) else 0)

    return captured


def digests(thing: Any) -> Any:
    definition = thing.definition
    signatures = definition.signatures or [(float32,)]
    return [compute_fingerprint(definition, signature).digest for signature in signatures]


def far(value: Any) -> Any:
    """A value after a journey within this process."""
    return pickle.loads(pickle.dumps(value))


@pytest.mark.parametrize("protocol", [2, pickle.HIGHEST_PROTOCOL])
def test_a_closure_means_the_same_where_it_arrives(protocol: int) -> None:
    made = make(7)
    arrived = pickle.loads(pickle.dumps(made, protocol))
    assert arrived is not made
    assert digests(arrived) == digests(made)
    assert digests(arrived) != digests(make(8))
    assert arrived.definition.options == made.definition.options
    assert arrived.definition.options.written == made.definition.options.written
    assert (arrived.__name__, arrived.__qualname__, arrived.__module__, arrived.__doc__) == (
        made.__name__, made.__qualname__, made.__module__, made.__doc__,
    )  # fmt: skip
    assert digests(far(arrived)) == digests(made)  # and on to the next


def test_functions_of_a_table_and_lambdas() -> None:
    def first(a: Any) -> Any:
        return a + 1

    made = make(1, (first, lambda a: a * 2))
    assert digests(far(made)) == digests(made)
    assert digests(far(made)) != digests(make(1))


def test_a_kernel_that_knows_itself() -> None:
    @device_function
    def down(a: Any) -> Any:
        return down(a - 1) if a > 0 else a

    arrived = far(down)
    assert arrived(3) == 0
    assert arrived.py_func.__globals__["down"] is arrived
    assert digests(arrived) == digests(down)


def test_jit_functions() -> None:
    def build(n: int) -> Any:
        @cuda.jit("void(float32[:])", fastmath=True)
        def scaled(x: Any) -> None:
            x[0] *= n

        return scaled

    made = build(3)
    arrived = far(made)
    assert type(arrived) is type(made)
    assert digests(arrived) == digests(made)
    assert arrived.targetoptions == made.targetoptions
    assert arrived.definition.signatures == made.definition.signatures


@device_function
def named(a: Any) -> Any:
    return a


def test_what_has_a_name_goes_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, __name__, sys.modules.get(__name__, sys.modules[make.__module__]))
    assert far(named) is named
    assert len(pickle.dumps(named)) < 200


def test_copies_are_the_kernel_itself() -> None:
    made = make(1)
    assert copy.deepcopy([made])[0] is made
    assert copy.copy(made) is made
    assert copy.deepcopy(named) is named


def test_no_code_object_travels() -> None:
    data = pickle.dumps(make(1))
    assert b"marshal" not in data
    assert make(1).py_func.__code__.co_code not in data
    assert os.fsencode(__file__) not in data


def test_a_kernel_without_text() -> None:
    space: dict[str, Any] = {"__name__": "nowhere", "cuda": cuda}
    exec("def f(x): x[0] = 1", space)
    with pytest.raises(TypeError) as told:
        pickle.dumps(kernel("float32[::1]")(space["f"]))
    text = str(told.value)
    assert text.startswith("cannot pickle <kernel nowhere.f>\n  found:    nowhere.f, which its module does not have")
    assert text.endswith("\n  expected: a name, or source text to send\n  do:       define it at the top of a module")


def test_memory_of_a_device_stays_there() -> None:
    class OnDevice:
        __cuda_array_interface__ = {"shape": (4,), "typestr": "<f4", "data": (4096, False), "version": 3}

    def build(array: Any) -> Any:
        @kernel("float32[::1]")
        def reads(x: Any) -> None:
            x[0] = array[0]

        return reads

    with pytest.raises(TypeError) as told:
        pickle.dumps(build(OnDevice()))
    assert "  found:    array, an array in device memory\n" in str(told.value)
    assert "  do:       pass it to the kernel as an argument" in str(told.value)


def test_another_process_that_has_not_the_module(tmp_path: Path) -> None:
    """The closure's text runs there, with the tracebacks' lines, and gives the same numbers."""
    (tmp_path / "sender.py").write_text(
        "from cudabuild import cuda, kernel\nimport math\n"
        "def make(n):\n"
        "    def helper(a): return a * n + math.floor(2.5)\n"
        "    @kernel('float64[::1]')\n"
        "    def k(x):\n        i = cuda.grid(1)\n        if i < x.size: x[i] = helper(x[i])\n"
        "    return k\n"
    )
    environment = {**os.environ, "CUDABUILD_DEVICE": "cpu", "CUDABUILD_CACHE_DIR": str(tmp_path / "cache")}
    root = str(Path(__file__).resolve().parent.parent)
    send = "import pickle, sys, sender; sys.stdout.buffer.write(pickle.dumps(sender.make(3)))"
    sent = subprocess.run(
        [sys.executable, "-c", send],
        env={**environment, "PYTHONPATH": os.pathsep.join([str(tmp_path), root])},
        capture_output=True,
        check=True,
    )
    receive = (
        "import pickle, sys, numpy, linecache; k = pickle.loads(sys.stdin.buffer.read()); x = numpy.arange(4.0)\n"
        "k[1, 4](x); code = k.py_func.__code__\n"
        "assert 'sender' not in sys.modules\n"
        "print(x.tolist(), repr(linecache.getline(code.co_filename, code.co_firstlineno)))"
    )
    got = subprocess.run(
        [sys.executable, "-c", receive],
        input=sent.stdout,
        env={**environment, "PYTHONPATH": root},
        capture_output=True,
        check=True,
    )
    assert got.stdout.decode().strip() == "[2.0, 5.0, 8.0, 11.0] 'def k(x):\\n'"
