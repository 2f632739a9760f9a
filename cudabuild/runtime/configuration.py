# SPDX-License-Identifier: Apache-2.0
"""Launch configurations: what ``kernel[grid, block, stream, shared]`` means, checked once."""

from __future__ import annotations

from cudabuild.errors import ConfigurationError, ConfigurationTypeError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from cudabuild.runtime.marshal import Link

__all__ = ["Configuration", "LauncherTable", "parse_configuration", "stream_handle", "whole_number"]

#: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability": the same for all since 3.0.
MAX_GRID = ((1 << 31) - 1, 65535, 65535)
MAX_BLOCK = (1024, 1024, 64)
MAX_THREADS = 1024
_AXES = "xyz"


class LauncherTable(dict[tuple[type, ...], "Callable[..., None]"]):
    """Python types of the arguments -> the generated launcher for them; for types not seen yet, the careful path."""

    __slots__ = ("careful",)

    careful: Callable[..., None]

    def __missing__(self, kinds: tuple[type, ...]) -> Callable[..., None]:
        return self.careful


class Configuration:
    """One launch configuration of one kernel.

    Attributes:
        grid, block: three numbers each.
        stream: the stream's handle; 0 is the default stream.
        shared: dynamic shared memory in bytes.
        stream_owner: the object that the stream came from, kept alive.
        fits32: grid × block is below 2³¹ on every axis.
        launchers: the generated launchers by the Python types of the arguments.
        ends: the same types -> the last link of their chain of launchers.
        known: (types, signature, what it serves, which of several sorts of GPUs) of every launcher in a chain.
        settle: tells the configuration's front the types and the launcher of the first chain.
    """

    __slots__ = (
        "block", "ends", "fits32", "grid", "known", "launchers", "settle", "shared", "stream", "stream_owner",
    )  # fmt: skip

    def __init__(
        self, grid: tuple[int, int, int], block: tuple[int, int, int], stream: int, shared: int, stream_owner: Any
    ) -> None:
        self.grid = grid
        self.block = block
        self.stream = stream
        self.shared = shared
        self.stream_owner = stream_owner
        self.fits32 = all(blocks * threads < 1 << 31 for blocks, threads in zip(grid, block, strict=True))
        self.launchers = LauncherTable()
        self.ends: dict[tuple[type, ...], Link] = {}
        self.known: set[tuple[Any, ...]] = set()
        self.settle: Callable[[tuple[type, ...], Callable[..., None]], None] | None = None

    def __repr__(self) -> str:
        extra = f", {self.stream}, {self.shared}" if self.stream or self.shared else ""
        return f"[{self.grid}, {self.block}{extra}]"


def parse_configuration(key: Any) -> Configuration:
    """The configuration written between the brackets.

    Args:
        key: ``grid, block[, stream[, shared]]``; grid and block are a number or up to three.

    Raises:
        ConfigurationError: says which number is wrong and what it may be.
        ConfigurationTypeError: something that is no number.
    """
    if not isinstance(key, tuple) or not 2 <= len(key) <= 4:
        found = f"{len(key)} values" if isinstance(key, tuple) else repr(key)
        raise ConfigurationError(
            f"bad launch configuration\n  found:    kernel[{found}]\n  expected: kernel[grid, block], "
            "kernel[grid, block, stream] or kernel[grid, block, stream, shared_bytes]"
        )
    grid = _dimensions("grid", key[0], MAX_GRID)
    block = _dimensions("block", key[1], MAX_BLOCK)
    threads = block[0] * block[1] * block[2]
    if threads > MAX_THREADS:
        raise ConfigurationError(_bad("block", f"{key[1]!r}: {threads} threads", f"at most {MAX_THREADS} threads"))
    stream = key[2] if len(key) > 2 else 0
    shared = whole_number(key[3]) if len(key) > 3 else 0
    if shared is None or not 0 <= shared < 1 << 31:
        raise ConfigurationError(_bad("dynamic shared memory", repr(key[3]), "a number of bytes, 0 or more"))
    return Configuration(grid, block, stream_handle(stream), shared, stream)


def _dimensions(what: str, value: Any, limits: tuple[int, int, int]) -> tuple[int, int, int]:
    parts = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    numbers = [whole_number(part) for part in parts]
    if not 1 <= len(numbers) <= 3 or any(number is None for number in numbers):
        error = ConfigurationTypeError if None in numbers else ConfigurationError
        raise error(_bad(what, repr(value), "a whole number, or a tuple of one to three"))
    full = [number or 0 for number in numbers] + [1] * (3 - len(numbers))
    for axis, number, limit in zip(_AXES, full, limits, strict=True):
        if not 1 <= number <= limit:
            hint = (
                "" if number else "\n  do:       launch nothing where there is nothing to do, or use kernel.forall(n)"
            )
            raise ConfigurationError(_bad(what, repr(value), f"1 to {limit} along {axis}") + hint)
    return full[0], full[1], full[2]


def whole_number(value: Any) -> int | None:
    """``value`` as an int if it is one (NumPy's count too), else None."""
    if type(value) is int:
        return value
    index = getattr(type(value), "__index__", None)
    if index is None or isinstance(value, bool):
        return None
    try:
        return int(index(value))
    except TypeError:  # an array that is not one number
        return None


def _bad(what: str, found: str, expected: str) -> str:
    return f"bad launch configuration: {what}\n  found:    {found}\n  expected: {expected}"


def stream_handle(stream: Any) -> int:
    """The handle of a stream: an integer or None, or an object of any library that has streams.

    Takes ``__cuda_stream__`` (cuda.core and others), ``cuda_stream`` (torch), ``ptr`` (CuPy), ``handle`` (numba-cuda),
    and what ``int()`` takes (cuda.bindings).

    Raises:
        ConfigurationTypeError: nothing of these.
    """
    if stream is None:
        return 0
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        answer = protocol() if callable(protocol) else protocol
        return int(answer[1])
    for name in ("cuda_stream", "ptr", "handle"):
        handle = getattr(stream, name, None)
        if handle is not None:
            handle = getattr(handle, "value", handle)  # ctypes, where numba-cuda uses it
            return int(handle or 0)
    try:
        handle = int(stream)
    except (TypeError, ValueError):
        handle = -1
    if isinstance(stream, (str, bytes, float)) or handle < 0:
        expected = "0, a stream handle, or a stream of torch, CuPy or cuda.core"
        raise ConfigurationTypeError(_bad("stream", repr(stream), expected))
    return handle
