# SPDX-License-Identifier: Apache-2.0
"""Launches a plain Python function as a kernel on one device: what the fixture ``run`` is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from cudabuild.definition import DEFAULT_OPTIONS, KernelDefinition, Options
from cudabuild.types import parse_signature

__all__ = ["Device", "Run"]


class Run(Protocol):
    """``kind`` is ``cpu``, ``gpu32`` (the variant that small arrays get) or ``gpu64`` (the other one)."""

    kind: str

    def __call__(
        self,
        function: Callable[..., Any],
        signature: str,
        grid: Any,
        block: Any,
        *args: Any,
        shared: int = 0,
        options: Options = DEFAULT_OPTIONS,
    ) -> None: ...


class Device:
    """One device; one binding for each function, signature and option set of the session."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._bound: dict[Any, Any] = {}
        if kind == "cpu":
            from cudabuild.cpu.device import CpuDevice

            self.device: Any = CpuDevice()
        else:
            from cudabuild.decorators import current_device

            self.device = current_device()
            assert self.device.kind == "gpu"

    def __call__(
        self,
        function: Any,
        signature: str,
        grid: Any,
        block: Any,
        *args: Any,
        shared: int = 0,
        options: Options = DEFAULT_OPTIONS,
    ) -> None:
        key = (function, signature, options)
        if key not in self._bound:
            definition = KernelDefinition(function, signature, options=options)
            self._bound[key] = self.device.bind(definition, parse_signature(signature))
        launcher = self._bound[key]
        if self.kind == "cpu":
            launcher(_three(grid), _three(block), 0, shared, args)
            return
        from cudabuild.runtime.arguments import read_argument
        from cudabuild.runtime.configuration import Configuration

        configuration = Configuration(_three(grid), _three(block), 0, shared, None)
        configuration.fits32 = self.kind == "gpu32"
        launcher.launch(configuration, [read_argument(value) for value in args])


def _three(dims: Any) -> tuple[int, int, int]:
    parts = dims if isinstance(dims, tuple) else (dims,)
    x, y, z = (*parts, 1, 1)[:3]
    return x, y, z
