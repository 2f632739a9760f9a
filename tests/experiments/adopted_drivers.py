# SPDX-License-Identifier: Apache-2.0
"""Drives an adopted package on the CPU device, by the examples of its own documentation, and keeps what it launches.

    CUDABUILD_ADOPT=stumpy CUDABUILD_DEVICE=cpu python adopted_drivers.py stumpy LAUNCHES.pickle

Each launch is kept with its arguments before and after, so that it can be made again elsewhere.
"""

from __future__ import annotations

import pickle
import sys
import warnings
from collections import Counter
from typing import Any

import numpy as np

import cudabuild  # noqa: F401 - adopts what CUDABUILD_ADOPT names
from cudabuild.runtime.jit_dispatcher import JitDispatcher

__all__ = ["DRIVERS", "run"]

#: Launches of one kernel with arguments of the same types and shapes that are kept.
_KEPT = 4


def drive_stumpy() -> None:
    """The examples of ``gpu_stump`` and ``gpu_aamp``, on their own series and on longer ones with gaps."""
    import stumpy

    example = np.array([584.0, -11.0, 23.0, 79.0, 1001.0, 0.0, -19.0])
    longer = np.random.default_rng(11).random(300)
    longer[40:43] = np.nan
    longer[100:140] = 0.5
    for function in (stumpy.gpu_stump, stumpy.gpu_aamp):
        function(example, m=3)
        function(longer, m=12, k=3)
        function(longer[:200], m=12, T_B=longer[80:], ignore_trivial=False)


def drive_sgkit() -> None:
    """The examples of ``pairwise_distance``, with ``device="gpu"``."""
    from sgkit.distance.api import pairwise_distance

    example = np.array([[6, 4, 1], [4, 5, 2], [9, 7, 3]])
    genotypes = np.random.default_rng(12).integers(-1, 3, (24, 40)).astype("i1")
    for x in (example.astype("f4"), genotypes, genotypes.astype("f4"), genotypes.astype("f8")):
        for metric in ("euclidean", "correlation"):
            pairwise_distance(x, metric=metric, device="gpu").compute(scheduler="sync")


def drive_skopi() -> None:
    """The diffraction pattern of a small particle with and without a layer of water.

    512 pixels, as many as one block has threads: with others its kernel reads beyond the end of an array, which the CPU
    device tells.
    """
    import skopi
    from skopi.gpu.diffraction import calculate_diffraction_pattern_gpu

    random = np.random.default_rng(13)
    particle = skopi.Particle()
    particle.create_from_atoms([("O", list(random.uniform(-10, 10, 3))) for _ in range(40)])
    space = random.uniform(-1e9, 1e9, (16, 32, 3))
    for return_type in ("intensity", "complex_field"):
        calculate_diffraction_pattern_gpu(space, particle, return_type)
    particle.mesh = random.uniform(-1e-9, 1e-9, (60, 3))
    particle.solvent_mask = random.random(60) < 0.6
    particle.other_mask = None
    particle.solvent_mean_electron_density, particle.mesh_voxel_size = 0.33e30, 1e-10
    calculate_diffraction_pattern_gpu(space, particle, "complex_field")


def drive_oldpkg() -> None:
    """The package that the quick form writes itself."""
    import oldpkg

    oldpkg.run(np.random.default_rng(14))


DRIVERS = {"oldpkg": drive_oldpkg, "sgkit": drive_sgkit, "skopi": drive_skopi, "stumpy": drive_stumpy}


class Log:
    """The launches of this process."""

    def __init__(self) -> None:
        self.launches: list[dict[str, Any]] = []
        self._counts: Counter[Any] = Counter()

    def install(self) -> None:
        """Sees every launch of a ``cuda.jit`` kernel from now on."""
        original = JitDispatcher.__getitem__

        def getitem(dispatcher: JitDispatcher, configuration: Any) -> Any:
            launch = original(dispatcher, configuration)
            return lambda *args: self.launch(dispatcher, configuration, launch, args)

        JitDispatcher.__getitem__ = getitem  # type: ignore[method-assign, assignment]

    def launch(self, dispatcher: JitDispatcher, configuration: Any, launch: Any, args: tuple[Any, ...]) -> None:
        definition = dispatcher.definition
        name = f"{definition.module}:{definition.qualname}"
        key = (name, *((type(value), getattr(value, "dtype", None), getattr(value, "shape", None)) for value in args))
        self._counts[key] += 1
        if self._counts[key] > _KEPT:
            launch(*args)
            return
        before = [to_host(value) for value in args]
        launch(*args)
        grid, block, *_ = configuration
        self.launches.append(
            {"kernel": name, "grid": grid, "block": block, "args": before, "after": [to_host(value) for value in args]}
        )


def to_host(value: Any) -> Any:
    """A copy of an array in host memory; anything else as it is."""
    if hasattr(value, "copy_to_host"):
        return value.copy_to_host()
    return value.copy(order="K") if isinstance(value, np.ndarray) else value


def run(name: str, path: str) -> int:
    warnings.simplefilter("ignore")
    log = Log()
    log.install()
    DRIVERS[name]()
    with open(path, "wb") as stream:
        pickle.dump(log.launches, stream)
    return 0


if __name__ == "__main__":
    sys.exit(run(*sys.argv[1:]))
