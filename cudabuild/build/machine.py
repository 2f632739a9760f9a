# SPDX-License-Identifier: Apache-2.0
"""What a slice may not ask of the machine that builds: its GPUs, and what kernels compute on them.

There, ``cuda.is_available()`` is true: a kernel is built for machines with a GPU, and what stands under it is meant for
them. Everything else about devices, and every launch, is refused: the answer would be this machine's.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

__all__ = ["hide_devices"]

#: Names of ``cudabuild.cuda`` that answer for the machine, apart from those that only ask for the current device.
_ASKING = ("close", "current_context", "detect", "get_current_device", "list_devices", "select_device", "synchronize")


class _Devices:
    """``cuda.gpus``: any use is refused."""

    def __init__(self, refuse: Callable[..., NoReturn]) -> None:
        self._refuse = refuse

    def __getattr__(self, name: str) -> NoReturn:
        self._refuse()

    def __len__(self) -> NoReturn:
        self._refuse()

    def __iter__(self) -> NoReturn:
        self._refuse()

    def __getitem__(self, index: object) -> NoReturn:
        self._refuse()

    def __bool__(self) -> NoReturn:
        self._refuse()


@contextmanager
def hide_devices(refuse: Callable[[str], NoReturn]) -> Iterator[None]:
    """Makes the names of ``cudabuild.cuda`` answer as a build must see them.

    Args:
        refuse: is given the reason, and raises.
    """
    # By name, for the build step imports neither: they are what a project's modules import.
    cuda: Any = importlib.import_module("cudabuild.cuda")
    services: Any = importlib.import_module("cudabuild.decorators").SERVICES

    def asking(name: str) -> Callable[..., NoReturn]:
        reason = f"asks cuda.{name}, which answers for the machine that it runs on"
        return lambda *arguments, **options: refuse(reason)

    def launching() -> NoReturn:
        refuse("uses a device, and a build has none")

    names: dict[str, Any] = {name: asking(name) for name in _ASKING}
    names["gpus"] = _Devices(asking("gpus"))
    names["is_available"] = names["is_supported_version"] = lambda: True
    before = {name: vars(cuda)[name] for name in names if name in vars(cuda)}
    vars(cuda).update(names)
    services.current_device = launching
    try:
        yield
    finally:
        del services.current_device
        for name in names:
            del vars(cuda)[name]
        vars(cuda).update(before)
