# SPDX-License-Identifier: Apache-2.0
"""Garbage collection is paused while kernels are compiled, and comes back."""

from __future__ import annotations

import gc
import threading

import pytest

from cudabuild import float32, kernel
from cudabuild.collection import PausedCollection
from cudabuild.compiler import compile_images
from cudabuild.target import parse_target


def test_it_comes_back() -> None:
    assert gc.isenabled()
    with PausedCollection():
        assert not gc.isenabled()
        with PausedCollection():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_it_comes_back_after_an_error() -> None:
    with pytest.raises(ZeroDivisionError), PausedCollection():
        raise ZeroDivisionError
    assert gc.isenabled()


def test_what_was_off_stays_off() -> None:
    gc.disable()
    try:
        with PausedCollection():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_several_threads() -> None:
    """It stays paused until the last one is done, whichever that is."""
    inside, leave = threading.Event(), threading.Event()

    def pause() -> None:
        with PausedCollection():
            inside.set()
            leave.wait(60)

    thread = threading.Thread(target=pause)
    with PausedCollection():
        thread.start()
        assert inside.wait(60)
    assert not gc.isenabled()
    leave.set()
    thread.join()
    assert gc.isenabled()


@kernel
def mix(x: float32[::1], y: float32[::1]) -> None:  # type: ignore[valid-type]
    for i in range(x.size):
        x[i] = 2 * x[i] + y[i]
        y[i] = 3 * y[i] - x[i]
        x[i] = 4 * x[i] + y[i]
        y[i] = 5 * y[i] - x[i]
        x[i] = 6 * x[i] + y[i]
        y[i] = 7 * y[i] - x[i]
        x[i] = 8 * x[i] + y[i]
        y[i] = 9 * y[i] - x[i]


def test_a_compilation_leaves_little_garbage() -> None:
    """What it has made refers to itself in circles; most of them are opened at its end."""
    arguments = (mix.definition, mix.definition.signatures[0], [parse_target("compute_80")], [32])
    compile_images(*arguments)
    gc.collect()
    gc.disable()
    try:
        compile_images(*arguments)
        assert gc.collect() < 900  # with all that inference found out, 1,228
    finally:
        gc.enable()
