# SPDX-License-Identifier: Apache-2.0
"""What finding a kernel's code costs us, the driver apart: decorating, binding a shipped image, a hit in the cache.

    python3 tests/benchmarks/bench_bind.py [--gpu] [--quick] [--out FILE]

With ``--gpu`` the code is the installed sample's saxpy for this GPU, and binding is compared to loading the same bytes
by the driver alone; otherwise it is 6 KB of anything, and a driver in Python takes it. The cache is filled by the
compiler, so llvmlite and nvJitLink must be there. Processes of different kinds run in turn; figures are medians, with
``--quick`` the least.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from bind_packages import SIGNATURE, Code, image_name, kernels_text, make_images, make_package  # noqa: E402

import cudabuild  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from types import ModuleType

__all__ = ["Costs", "Scale", "main", "measure"]


class Scale:
    """How much is measured.

    Attributes:
        kernels: in the archives that a first bind is measured with.
        cached: images in the caches that a hit is measured with.
        processes: of each kind.
        rounds: of decorating.
        loads: kernels that are loaded one after the other.
        typical: of several figures. The least, where there are few and other work shares the machine.
    """

    def __init__(self, quick: bool) -> None:
        self.kernels = (10, 1000) if quick else (10, 1000, 10000)
        self.cached = (1, 1000) if quick else (1, 1000, 10000)
        self.processes = 5 if quick else 15
        self.rounds = 7 if quick else 31
        self.loads = 20 if quick else 100
        self.typical: Callable[[Iterable[float]], float] = min if quick else statistics.median


class Costs:
    """What was found; all in seconds.

    Attributes:
        decorating: form of the decorator -> for one kernel, over a decorator that returns the function.
        first_bind: kernels in the archive -> step of a program -> ours.
        cache_hit: images in the cache -> step of a program -> ours.
        loads: ``ours``, ``library`` and ``module`` (the driver alone), ``driver`` (its share of ours).
        sources: where images came from.
        imported: what the first bind, the first hit, and that of the process after the one that compiled imported.
    """

    def __init__(self) -> None:
        self.decorating: dict[str, float] = {}
        self.first_bind: dict[int, dict[str, float]] = {}
        self.cache_hit: dict[int, dict[str, float]] = {}
        self.loads: dict[str, float] = {}
        self.sources: set[str] = set()
        self.imported: dict[str, list[str]] = {}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpu", action="store_true", help="with the GPU and the installed sample")
    parser.add_argument("--quick", action="store_true", help="fewer kernels and repeats")
    parser.add_argument("--clock", default="perf_counter", help="thread_time where other work shares the machine")
    parser.add_argument("--out", type=Path, help="write the figures to this JSON file")
    options = parser.parse_args()
    costs = measure(Scale(options.quick), gpu=options.gpu, clock=options.clock)
    print(f"{'decorating one kernel, over an identity decorator':58} {'µs':>8}")
    for form, seconds in costs.decorating.items():
        print(f"  {form:56} {seconds * 1e6:8.2f}")
    for title, rows in (("kernels in the archive", costs.first_bind), ("images in the cache", costs.cache_hit)):
        print(f"{title:>30}{''.join(f'{step:>10}' for step in STEPS)}   ms of our own")
        for count, row in rows.items():
            print(f"{count:30,}{''.join(f'{row[step] * 1e3:10.3f}' for step in STEPS)}")
    for name, seconds in costs.loads.items():
        print(f"bind and load, {name:10} {seconds * 1e6:8.1f} µs")
    for name, modules in costs.imported.items():
        print(f"imported by {name}: {', '.join(modules)}")
    print(f"images: {', '.join(sorted(costs.sources))}")
    if options.out:
        options.out.write_text(json.dumps(vars(costs), indent=1, default=sorted), "utf-8")
    return 0


#: Of a program: importing cudabuild's names, the module with its kernels, the first launch (the question to the cache
#: in it), the same again, that of another kernel.
STEPS = ("import", "module", "first", "cache", "again", "second")


def measure(scale: Scale, *, gpu: bool = False, clock: str = "perf_counter") -> Costs:
    """All costs.

    Args:
        scale: how much.
        gpu: with the GPU and the installed sample; else with the driver in Python.
        clock: ``perf_counter``, or ``thread_time`` where other work shares the machine.
    """
    costs = Costs()
    with tempfile.TemporaryDirectory() as folder:
        code = find_code() if gpu else Code(os.urandom(6000), "saxpy", "sm_90")
        root, driver = Path(folder), "gpu" if gpu else "fake"
        half_written = shutil.ignore_patterns("*.pyc.*")  # another process's bytecode, under its temporary name
        shutil.copytree(Path(cudabuild.__file__).parent, root / "installed" / "cudabuild", ignore=half_written)
        packages = root / "packages"
        shipped = {n: (*make_package(packages, n, code), packages, root / "none") for n in scale.kernels}
        costs.decorating = decorating(scale, getattr(time, clock), sys.modules[shipped[scale.kernels[0]][0]])
        cached = prepare_caches(root, scale.cached, code, clock, driver)
        answers: dict[Any, list[dict[str, Any]]] = {}
        commands = {**{("bind", n): c for n, c in shipped.items()}, **{("hit", n): c for n, c in cached.items()}}
        for number in range(scale.processes + 1):
            for key in list(commands) if number % 2 else list(reversed(commands)):
                answer = run_probe("first", clock, driver, *commands[key])
                if number:  # the first round leaves bytecode for the others
                    answers.setdefault(key, []).append(answer)
                elif key[0] == "hit":
                    costs.imported["the next process's hit"] = answer["modules"]
        for (kind, count), found in sorted(answers.items()):
            rows = costs.first_bind if kind == "bind" else costs.cache_hit
            rows[count] = {step: scale.typical(answer[step] for answer in found) for step in STEPS}
            costs.sources.update(f"{kind}: {answer['source']}" for answer in found)
            costs.imported[f"a first {kind}"] = found[-1]["modules"]
        module, names = make_package(root / "many", scale.loads, code, per_module=scale.loads)
        rows = run_probe("loads", clock, driver, module, names, root / "many", root / "none")
        costs.loads = {way: scale.typical(row[way] for row in rows) for way in rows[0]}
    return costs


#: Decorators as they stand in modules; the last one types the function at once where its package ships no images.
FORMS = (
    "@kernel",
    '@kernel("float32, float32[::1], float32[::1]")',
    '@kernel("float32, float32[::1], float32[::1]", fastmath=True)',
    '@kernel("T, T[::1], T[::1]", T=(float32, float64))',
    "@device_function",
    "@cuda.jit",
    "@cuda.jit(device=True)",
    "@cuda.jit(fastmath=True)",
    '@cuda.jit("void(float32, float32[::1], float32[::1])")',
)


def decorating(scale: Scale, clock: Callable[[], float], module: ModuleType) -> dict[str, float]:
    """Form of the decorator -> seconds for one kernel, over a decorator that returns the function.

    Args:
        scale: how often.
        clock: in seconds.
        module: the kernels are defined as if in this module, of a package that ships images.
    """
    from cudabuild import cuda, device_function, float32, float64, kernel

    def identity(function: Any) -> Any:
        return function

    names = {"cuda": cuda, "device_function": device_function, "float32": float32, "float64": float64, "kernel": kernel}
    count = 1000
    codes = {}
    for form in ("@identity", *FORMS):
        text = "".join(f"{form}\ndef kernel_{number}(a, x, y):\n    y[0] = a * x[0]\n" for number in range(count))
        codes[form] = compile(text, "<kernels>", "exec")
    seconds: dict[str, list[float]] = {form: [] for form in codes}
    for number in range(scale.rounds + 1):
        for form in list(codes) if number % 2 else list(reversed(codes)):
            namespace = {**vars(module), "identity": identity, **names}
            start = clock()
            exec(codes[form], namespace)
            if number:
                seconds[form].append((clock() - start) / count)
    bare = seconds.pop("@identity")
    return {form: scale.typical(found) - scale.typical(bare) for form, found in seconds.items()}


EXTRACT = """
import sys
from pathlib import Path
import cudabuild_sample, numpy
from cudabuild.image.archive import Archive
x, y = numpy.zeros((2, 256), "f4")
cudabuild_sample.saxpy[4, 64](2.0, x, y)
target = cudabuild_sample.saxpy.image_source(sys.argv[2]).split()[-1]
archive = Archive(str(Path(cudabuild_sample.__file__).parent / "_cudabuild" / f"{target}.cuar"))
records = archive.find_named("cudabuild_sample.vectors", "saxpy", sys.argv[2])
record = next(record for record in records if record.index_width == 32)
Path(sys.argv[1]).write_bytes(bytes(record.load_image("shipped").data))
print(record.symbol, target)
"""


def find_code() -> Code:
    """saxpy for this GPU, out of the installed sample's archive."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "saxpy.cubin"
        command = [sys.executable, "-c", EXTRACT, str(path), SIGNATURE]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"the sample's saxpy for this GPU cannot be had:\n{done.stderr[-3000:]}")
        symbol, target = done.stdout.split()[-2:]
        return Code(path.read_bytes(), symbol, target)


def prepare_caches(
    folder: Path, counts: Sequence[int], code: Code, clock: str, driver: str
) -> dict[int, tuple[Any, ...]]:
    """Caches of so many images, two of which were compiled for a module without archives; what ``run_probe`` takes."""
    from cudabuild.cache.store import Cache

    sources, filled = folder / "sources", folder / "compiled"
    sources.mkdir()
    (sources / "compiled_here.py").write_text(kernels_text(range(2)), "utf-8")
    names = [image_name(0), image_name(1)]
    compiled = run_probe("first", clock, driver, "compiled_here", names, sources, filled)
    assert compiled["source"].startswith("compiled"), compiled["source"]
    commands = {}
    for count in counts:
        root = folder / f"cache_{count}"
        shutil.copytree(filled, root)
        Cache(str(root)).publish(*make_images(max(count - 2, 0), code))
        commands[count] = ("compiled_here", names, sources, root)
    return commands


def run_probe(what: str, clock: str, driver: str, module: str, names: list[str], sources: Path, cache: Path) -> Any:
    """What a process of ``bind_probe.py`` answers."""
    ours = {key: value for key, value in os.environ.items() if not key.startswith(("CUDABUILD_", "PYTHON"))}
    paths = os.pathsep.join(map(str, (sources, sources.parent / "installed")))
    environment = {**ours, "PYTHONPATH": paths, "CUDABUILD_CACHE_DIR": str(cache)}
    command = [sys.executable, str(HERE / "bind_probe.py"), what, clock, driver, module, *names]
    done = subprocess.run(command, env=environment, cwd=sources, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    sys.exit(main())
