# SPDX-License-Identifier: Apache-2.0
"""Makes recorded launches again: with cudabuild and nothing but shipped archives, or with numba-cuda.

    python adopted_replay.py cudabuild ROOT LAUNCHES.pickle RESULTS.pickle     CUDABUILD_ADOPT, CUDABUILD_ARCHIVES set
    python adopted_replay.py numba     ROOT LAUNCHES.pickle RESULTS.pickle
    python adopted_replay.py fake      ROOT LAUNCHES.pickle RESULTS.pickle 90  as cudabuild, on a GPU that is not there
    python adopted_replay.py installed ROOT LAUNCHES.pickle RESULTS.pickle 90  likewise, with the installed packages

ROOT holds the packages' Python files. What else they import is not there: their ``__init__`` is not run, and stand-ins
take the place of what is missing (``tests/wild/standins.py``). Modules with kernels are imported as they are.
"""

from __future__ import annotations

import importlib
import pickle
import sys
import time
import warnings
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS / "wild"), str(TESTS / "runtime")]

import numpy as np  # noqa: E402
from standins import Finder, mount  # noqa: E402

__all__ = ["run"]


def run(who: str, root: str, launches: str, results: str) -> int:
    warnings.simplefilter("ignore")
    if who == "numba":
        mount(Path(root), {})
        cuda: Any = importlib.import_module("numba.cuda")
    elif who == "installed":
        cuda = importlib.import_module("cudabuild.cuda")
    else:
        sys.meta_path.insert(0, WithoutNumba(Path(root), {}))
        cuda = importlib.import_module("cudabuild.cuda")  # its finder goes before the stand-ins'
    if who in ("fake", "installed"):
        use_fake_driver()
    with open(launches, "rb") as stream:
        todo = pickle.load(stream)
    cuda.to_device(np.zeros(1))
    cuda.synchronize()  # a context, before anything is timed
    made = [launch(entry, cuda) for entry in todo]
    with open(results, "wb") as stream:
        pickle.dump(made, stream)
    return 0


class WithoutNumba(Finder):
    """Stand-ins for everything that is missing but numba: adopted packages do without, and would take one for it."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        return None if name.partition(".")[0] == "numba" else super().find_spec(name, path, target)


def use_fake_driver() -> None:
    from fake_driver import FakeDriver

    from cudabuild.runtime.driver import use_driver

    fake = FakeDriver(((int(sys.argv[5][:-1]), int(sys.argv[5][-1])),))
    fake.takes_any_code = True
    use_driver(fake)


def launch(entry: dict[str, Any], cuda: Any) -> dict[str, Any]:
    """One launch: its results, where the code came from, and seconds: of importing the kernel's module, of the launch.

    numba-cuda compiles a kernel with a signature when its module is imported, one without at the first launch.
    """
    start = time.perf_counter()
    kernel = find_kernel(entry["kernel"])
    imported = time.perf_counter() - start
    args = [cuda.to_device(value) if isinstance(value, np.ndarray) else value for value in entry["args"]]
    start = time.perf_counter()
    kernel[entry["grid"], entry["block"]](*args)
    cuda.synchronize()
    seconds = time.perf_counter() - start
    source = kernel.image_source() if hasattr(kernel, "image_source") else ""
    after = [value.copy_to_host() if hasattr(value, "copy_to_host") else value for value in args]
    return {"kernel": entry["kernel"], "after": after, "seconds": seconds, "imported": imported, "source": source}


def find_kernel(full: str) -> Any:
    """A kernel by ``module:qualname``; one that a function made, under whatever name its module keeps it."""
    module, _, name = full.partition(":")
    found: Any = importlib.import_module(module)
    if "<locals>" in name:
        kernels = [value for value in vars(found).values() if hasattr(value, "py_func")]
        return next(value for value in kernels if value.py_func.__qualname__ == name)
    for part in name.split("."):
        found = getattr(found, part)
    return found


if __name__ == "__main__":
    sys.exit(run(*sys.argv[1:5]))
