# SPDX-License-Identifier: Apache-2.0
"""``run``: compiles a plain Python function as a kernel for the CPU device and launches it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from cudabuild.cpu.device import CpuDevice, CpuLauncher
from cudabuild.definition import DEFAULT_OPTIONS, KernelDefinition, Options
from cudabuild.types import parse_signature

__all__ = ["Runner"]


class Runner:
    """Launches kernels; one compilation for each function, signature and option set of the session."""

    def __init__(self) -> None:
        self.device = CpuDevice()
        self._bound: dict[tuple[Any, ...], CpuLauncher] = {}

    def bind(self, function: Callable[..., Any], signature: str, options: Options = DEFAULT_OPTIONS) -> CpuLauncher:
        key = (function, signature, options)
        if key not in self._bound:
            definition = KernelDefinition(function, signature, options=options)
            self._bound[key] = self.device.bind(definition, parse_signature(signature))
        return self._bound[key]

    def __call__(
        self,
        function: Callable[..., Any],
        signature: str,
        grid: Any,
        block: Any,
        *args: Any,
        shared: int = 0,
        options: Options = DEFAULT_OPTIONS,
    ) -> None:
        self.bind(function, signature, options)(_three(grid), _three(block), 0, shared, args)


def _three(dims: Any) -> tuple[int, int, int]:
    parts = dims if isinstance(dims, tuple) else (dims,)
    x, y, z = (*parts, 1, 1)[:3]
    return x, y, z


@pytest.fixture(scope="session")
def run() -> Runner:
    return Runner()


@pytest.fixture(autouse=True)
def _interruptible() -> Iterator[None]:
    """Ctrl-C raises KeyboardInterrupt, also where the tests run in the background of a shell, which ignores SIGINT."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
