# SPDX-License-Identifier: Apache-2.0
"""One process of ``bench_bind.py``. Prints JSON.

    bind_probe.py first CLOCK DRIVER MODULE KERNEL KERNEL    the first launches of a process
    bind_probe.py loads CLOCK DRIVER MODULE KERNEL …         bind and load, against the driver alone with the same bytes

DRIVER is ``gpu``, or ``fake``: a driver in Python that takes any bytes for code. Its time, like that of importing
NumPy, cuda-bindings and this file's own modules, is not ours. CLOCK is a function of ``time``: ``perf_counter``, or
``thread_time`` where other work shares the machine.
"""

from __future__ import annotations

import contextlib
import gc
import json
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

__all__ = ["main"]

clock = getattr(time, sys.argv[2])


class TimedDriver:
    """``cuda.bindings.driver``, or what stands for it, with a clock.

    Attributes:
        spent: seconds in its functions so far.
    """

    def __init__(self, api: Any) -> None:
        self._api = api
        self.spent = 0.0

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._api, name)
        if name.startswith("cu") and callable(value):
            value = self._timed(value)
        setattr(self, name, value)
        return value

    def _timed(self, call: Any) -> Any:
        def timed(*args: Any) -> Any:
            start = clock()
            answer = call(*args)
            self.spent += clock() - start
            return answer

        return timed


class Array:
    def __init__(self, pointer: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (256,),
            "typestr": "<f4",
            "data": (pointer, False),
            "strides": None,
            "version": 3,
        }


def main() -> None:
    what, _, driver, module, *names = sys.argv[1:]
    with contextlib.suppress(ImportError):
        import_module("numpy")  # programs have it
    api = open_driver(driver)
    x, y = (Array(int(api.cuMemAlloc(1024)[1])) for _ in range(2))
    answer = first_launches if what == "first" else loads
    print(json.dumps(answer(api, module, names, (2.0, x, y))))


def open_driver(name: str) -> TimedDriver:
    """The driver with its clock, a context made; it is what cudabuild will find."""
    if name == "gpu":
        import cuda.bindings
        from cuda.bindings import driver

        api = cuda.bindings.driver = TimedDriver(driver)
    else:
        sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "runtime"))
        from fake_driver import FakeDriver

        fake = FakeDriver()
        fake.takes_any_code = True
        api = TimedDriver(fake)
    api.cuInit(0)
    api.cuCtxSetCurrent(api.cuDevicePrimaryCtxRetain(api.cuDeviceGet(0)[1])[1])
    return api


def use_driver(api: TimedDriver) -> None:
    """Where there is no libcuda to be found, cudabuild is given the fake driver."""
    if type(api._api).__name__ == "FakeDriver":
        from cudabuild.runtime.driver import use_driver as use

        use(api)


def first_launches(api: TimedDriver, module: str, names: list[str], args: tuple[Any, ...]) -> dict[str, Any]:
    """Seconds of our own for each step of a program, and what was imported for the first launch."""
    gc.collect()
    gc.freeze()  # collecting what others have made is not ours either
    start = clock()
    import cudabuild  # noqa: F401
    from cudabuild import cuda, device_function, float32, kernel  # noqa: F401

    imported = clock()
    found = vars(import_module(module))
    defined = clock()
    use_driver(api)
    in_cache = time_cache()
    known = set(sys.modules)
    first, again, second = (time_launch(api, found[name], args) for name in (names[0], names[0], names[1]))
    source: str = found[names[0]].image_source()
    new = sorted(set(sys.modules) - known)
    steps = {"import": imported - start, "module": defined - imported, "first": first, "again": again, "second": second}
    return {**steps, "cache": in_cache[0] if in_cache else 0.0, "source": source, "modules": new}


def time_cache() -> list[float]:
    """Seconds of each question to the cache; its modules are imported with the first."""
    from cudabuild import decorators

    seconds: list[float] = []
    find = decorators._LateProvider.find

    def timed(provider: Any, request: Any) -> Any:
        start = clock()
        image = find(provider, request)
        if provider.name == "cached":
            seconds.append(clock() - start)
        return image

    decorators._LateProvider.find = timed
    return seconds


def time_launch(api: TimedDriver, kernel: Any, args: tuple[Any, ...]) -> float:
    """Seconds of one launch, without the driver's."""
    spent = api.spent
    start = clock()
    kernel[4, 64](*args)
    return clock() - start - (api.spent - spent)


def loads(api: TimedDriver, module: str, names: list[str], args: tuple[Any, ...]) -> list[dict[str, float]]:
    """For every kernel: bind and load; cuLibraryLoadData and cuModuleLoadData of the same bytes; in turn."""
    found = vars(import_module(module))
    use_driver(api)
    found[names[0]][4, 64](*args)  # imports, opens the archive
    driver = api._api  # the limit has no clock in it
    rows = []
    for number, name in enumerate(names[1:]):
        kernel = found[name]
        (signature,) = kernel.signatures
        image = image_of(kernel, signature)
        data, symbol = bytes(image.data), image.symbol.encode()
        ways = {
            "library": lambda data=data, symbol=symbol: raw_library(driver, data, symbol),
            "module": lambda data=data, symbol=symbol: raw_module(driver, data, symbol),
            "ours": lambda kernel=kernel, signature=signature: kernel._get_launcher(signature).bound(),
        }
        row = {}
        order = list(ways) if number % 2 else list(reversed(ways))
        spent = api.spent
        for way in order:
            start = clock()
            ways[way]()
            row[way] = clock() - start
        row["driver"] = api.spent - spent
        rows.append(row)
    return rows


def image_of(kernel: Any, signature: Any) -> Any:
    """What the kernel will bind: found once more in an archive of its own, so that nothing of it is known yet."""
    from cudabuild.image.archive import Archive
    from cudabuild.types import format_signature

    folder = Path(kernel.py_func.__code__.co_filename).parent / "_cudabuild"
    (path,) = folder.glob("sm_*.cuar")
    records = Archive(str(path)).find_named(kernel.__module__, kernel.__qualname__, format_signature(signature))
    return next(record for record in records if record.index_width == 32).load_image("shipped")


def raw_library(driver: Any, data: bytes, symbol: bytes) -> None:
    _, library = driver.cuLibraryLoadData(data, None, None, 0, None, None, 0)
    status, _ = driver.cuLibraryGetKernel(library, symbol)
    assert int(status) == 0, status


def raw_module(driver: Any, data: bytes, symbol: bytes) -> None:
    if not hasattr(driver, "cuModuleLoadData"):  # the fake driver's code belongs to no context
        raw_library(driver, data, symbol)
        return
    _, module = driver.cuModuleLoadData(data)
    status, _ = driver.cuModuleGetFunction(module, symbol)
    assert int(status) == 0, status


if __name__ == "__main__":
    main()
