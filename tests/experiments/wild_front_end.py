# SPDX-License-Identifier: Apache-2.0
"""Kernels that others wrote for numba: every kernel of hepaccelerate 0.2.3 and skopi 0.6.0, compiled and run.

    python3 tests/experiments/wild_front_end.py [--quick] [--downloads DIR]

Downloads both (their sources only, into a scratch folder; nothing of theirs is imported or kept), cuts the decorated
functions out of their files, changes the decorators and nothing else, compiles every kernel for sm_80 in both index
widths, runs it on the CPU device and compares with its own Python code run thread by thread. Each refusal is listed
with its message. ``--quick`` leaves out the 64-bit images.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import os
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from reporting import CHECKOUT, Report, clean_environment, run

if TYPE_CHECKING:
    from collections.abc import Callable

sys.path.insert(0, str(CHECKOUT))

__all__ = ["main"]

PACKAGES = {"hepaccelerate": "0.2.3", "skopi": "0.6.0"}
FILES = (
    "hepaccelerate/backend_cuda.py",
    "examples/cuda_kernels.py",
    "examples/full_analysis.py",
    "skopi/gpu/diffraction.py",
)
HEADER = """\
import math

import numpy as np

import cudabuild as numba
from cudabuild import cuda, device_function, kernel

"""
GRID, BLOCK = 2, 32
THREADS = GRID * BLOCK


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="compile the 32-bit images only")
    parser.add_argument("--downloads", type=Path, help="keep or find the two downloads in this folder")
    options = parser.parse_args()
    os.environ["CUDABUILD_DEVICE"] = "cpu"
    report = Report("kernels in the wild")
    with tempfile.TemporaryDirectory() as scratch:
        os.environ.setdefault("CUDABUILD_CACHE_DIR", str(Path(scratch) / "cache"))
        downloads = options.downloads or Path(scratch) / "downloads"
        for name, version in PACKAGES.items():
            download(name, version, downloads)
            unpack(next(downloads.glob(f"{name}-{version}*")), Path(scratch) / "sources")
        names: list[str] = []
        for number, file in enumerate(FILES):
            (path,) = (Path(scratch) / "sources").rglob(file)
            names += try_file(report, path, Path(scratch), number, options.quick)
        report.check("kernels found", len(names) == 24, len(names))
    return report.status()


def download(name: str, version: str, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if not any(folder.glob(f"{name}-{version}*")):
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-build-isolation", "-d", folder]
        done = run([*command, f"{name}=={version}"], clean_environment())
        if not any(folder.glob(f"{name}-{version}*")):
            raise SystemExit(f"could not download {name} {version}:\n{done.stderr[-2000:]}")


def unpack(path: Path, folder: Path) -> None:
    """Only .py files, and only below ``folder``."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                write(folder, name, archive.read(name))
    else:
        with tarfile.open(path) as tar:
            for member in tar:
                file = tar.extractfile(member) if member.isfile() else None
                if file is not None:
                    write(folder, member.name, file.read())


def write(folder: Path, name: str, data: bytes) -> None:
    target = (folder / name).resolve()
    if name.endswith(".py") and target.is_relative_to(folder.resolve()):
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)


def try_file(report: Report, path: Path, scratch: Path, number: int, quick: bool) -> list[str]:
    """Compiles and runs every kernel of one file; their names."""
    ours, plain, declared = cut_out(path)
    module = load(ours, scratch / f"wild_{number}.py")
    reference = load(plain, scratch / f"wild_{number}_python.py")
    for name in declared:
        try:
            verdict = try_kernel(getattr(module, name), getattr(reference, name), name, declared[name], quick)
        except Exception as error:  # a refusal's message is the result
            report.check(f"{path.stem}.{name}", False, type(error).__name__)
            report.note(str(error).strip().replace(str(scratch), "…").replace("\n", "\n       "))
        else:
            report.check(f"{path.stem}.{name}", verdict[0], verdict[1])
    return list(declared)


def cut_out(path: Path) -> tuple[str, str, dict[str, str | None]]:
    """The decorated functions of a file: with our decorators, with none, and each kernel's signature as written."""
    text = path.read_text("utf-8")
    ours, plain, kernels = [HEADER], [HEADER], {}
    for node in ast.parse(text).body:
        if not isinstance(node, ast.FunctionDef) or not any("cuda.jit" in ast.unparse(d) for d in node.decorator_list):
            continue
        body = "\n".join(text.splitlines()[node.lineno - 1 : node.end_lineno])
        arguments = [d for d in node.decorator_list if isinstance(d, ast.Call)]
        is_device = any(keyword.arg == "device" for call in arguments for keyword in call.keywords)
        signature = next((ast.literal_eval(call.args[0]) for call in arguments if call.args), None)
        if not is_device:
            kernels[node.name] = signature
        ours.append(f"@{'device_function' if is_device else 'kernel'}\n{body}\n")
        plain.append(f"{body}\n")
    return "\n".join(ours), "\n".join(plain), kernels


def load(text: str, path: Path) -> Any:
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def try_kernel(kernel: Any, python: Any, name: str, signature: str | None, quick: bool) -> tuple[bool, str]:
    from cudabuild.compiler import compile_image
    from cudabuild.target import parse_target
    from cudabuild.types import parse_signature

    make, threads = CASES[name]
    arguments = make(np.random.default_rng(11))
    kinds = parse_signature(signature or ", ".join(map(spell, arguments)))
    sizes = []
    for width in (32,) if quick else (32, 64):
        image = compile_image(kernel.definition, kinds, target=parse_target("sm_80"), index_width=width)
        sizes.append(f"{len(image.data)} B")
    compiled, expected = (tuple(map(np.copy, arguments)) for _ in range(2))
    compiled = tuple(c if isinstance(a, np.ndarray) else a for a, c in zip(arguments, compiled, strict=True))
    expected = tuple(c if isinstance(a, np.ndarray) else a for a, c in zip(arguments, expected, strict=True))
    grid, block = (GRID, BLOCK) if threads > 1 else (1, 1)
    kernel[grid, block](*compiled)
    run_python(python, grid, block, expected)
    worst = max(difference(a, b) for a, b in zip(compiled, expected, strict=True) if isinstance(a, np.ndarray))
    changed = any(not np.array_equal(a, b) for a, b in zip(arguments, expected, strict=True))
    return worst <= 2e-5 and changed, f"sm_80 {' + '.join(sizes)}, largest difference from Python {worst:.1e}"


def spell(argument: Any) -> str:
    if isinstance(argument, np.ndarray):
        return f"{argument.dtype.name}[{':, ' * (argument.ndim - 1)}::1]"
    return {int: "int", float: "float"}.get(type(argument)) or str(argument.dtype.name)


def difference(a: Any, b: Any) -> float:
    if a.dtype.kind != "f":
        return 0.0 if np.array_equal(a, b) else float("inf")
    scale = max(1e-30, float(np.max(np.abs(b))))
    return float(np.max(np.abs(a.astype(np.float64) - b))) / scale


def run_python(function: Callable[..., None], grid: int, block: int, arguments: tuple[Any, ...]) -> None:
    """The kernel's own Python code, one thread after the other; none of these kernels has a barrier."""
    from cudabuild.lang.name import interpreter

    for thread in range(grid * block):
        answers = {
            "grid": lambda ndim, thread=thread: thread,
            "gridsize": lambda ndim: grid * block,
            "blockIdx.x": lambda thread=thread: thread // block,
            "threadIdx.x": lambda thread=thread: thread % block,
            "blockDim.x": lambda: block,
            "atomic.add": atomic_add,
            "local.array": lambda shape, dtype: np.zeros(shape, dtype.name),
        }
        token = interpreter.set(lambda name, args, kwargs, answers=answers: answers[name](*args, **kwargs))
        try:
            function(*arguments)
        finally:
            interpreter.reset(token)


def atomic_add(array: Any, index: Any, value: Any) -> Any:
    old = array[index]
    array[index] += value
    return old


# Arguments, kernel by kernel. Events hold between 1 and 6 objects each; float32 throughout, as the packages use.

Random = np.random.Generator


def floats(random: Random, n: Any, low: float = 0.0, high: float = 1.0) -> Any:
    return random.uniform(low, high, n).astype(np.float32)


def events(random: Random, n: int = 90) -> Any:
    """Offsets of ``n`` events."""
    return np.concatenate([[0], np.cumsum(random.integers(1, 7, n))]).astype(np.int64)


def masks(random: Random, n: int) -> Any:
    return random.random(n) < 0.7


def vectors(random: Random) -> tuple[Any, ...]:
    n = 150
    return floats(random, n, 20, 90), floats(random, n, -2, 2), floats(random, n, -3, 3), floats(random, n, 50, 90)


def spherical(random: Random) -> tuple[Any, ...]:
    return (*vectors(random), *(np.zeros(150, np.float32) for _ in range(4)))


def cartesian(random: Random) -> tuple[Any, ...]:
    pt, eta, phi, mass = (part.astype(np.float64) for part in vectors(random))
    parts = (pt * np.cos(phi), pt * np.sin(phi), pt * np.sinh(eta))
    energy = np.sqrt(sum(part**2 for part in parts) + mass**2)
    outputs = (np.zeros(150, np.float32) for _ in range(4))
    return (*(part.astype(np.float32) for part in (*parts, energy)), *outputs)


def search(random: Random) -> tuple[Any, ...]:
    return floats(random, 150, -1, 2), np.linspace(0, 1, 12, dtype=np.float32), np.full(150, -7, np.int32)


def histogram(random: Random, *mask: Any) -> tuple[Any, ...]:
    outputs = (np.zeros((GRID, 11), np.float32) for _ in range(2))
    bins = np.linspace(0, 1, 12, dtype=np.float32)
    return (floats(random, 150, -1, 2), floats(random, 150), bins, *mask, *outputs)


def histogram_several(random: Random) -> tuple[Any, ...]:
    outputs = (np.zeros((2, GRID, 12), np.float32) for _ in range(2))
    bins = np.concatenate([np.linspace(0, 1, 12), np.linspace(0, 1, 8)]).astype(np.float32)
    sizes = np.array([12, 8])
    return (
        floats(random, (2, 150)),
        floats(random, 150),
        masks(random, 150),
        bins,
        sizes,
        np.array([0, 12, 20]),
        *outputs,
    )


def opposite_sign(random: Random) -> tuple[Any, ...]:
    offsets = events(random)
    n = int(offsets[-1])
    charges = random.choice(np.array([-1, 1], np.int32), n)
    return offsets, charges, masks(random, n), np.zeros(n, bool)


def in_offsets(random: Random, out: float = 0.0) -> tuple[Any, ...]:
    offsets = events(random)
    n = int(offsets[-1])
    result = np.full(len(offsets) - 1, out, np.float32)
    return offsets, floats(random, n, 0.5, 2), masks(random, len(offsets) - 1), masks(random, n), result


def get_in_offsets(random: Random) -> tuple[Any, ...]:
    offsets, content, rows, mask, result = in_offsets(random)
    return offsets, content, random.integers(0, 4, len(rows), dtype=np.int32), rows, mask, result


def set_in_offsets(random: Random) -> tuple[Any, ...]:
    offsets, content, rows, mask, _ = in_offsets(random)
    return offsets, content, random.integers(0, 4, len(rows), dtype=np.int32), floats(random, len(rows)), rows, mask


def broadcast(random: Random) -> tuple[Any, ...]:
    offsets = events(random)
    return offsets, floats(random, len(offsets) - 1), np.zeros(int(offsets[-1]), np.float32)


def bin_contents(random: Random) -> tuple[Any, ...]:
    edges = np.linspace(0, 1, 12, dtype=np.float32)
    return floats(random, 150), edges, floats(random, 11), np.zeros(150, np.float32)


def copy_to(random: Random) -> tuple[Any, ...]:
    return np.zeros(300, np.float32), floats(random, 150), random.permutation(300)[:150]


def new_offsets(random: Random) -> tuple[Any, ...]:
    offsets = events(random)
    n = len(offsets) - 1
    return offsets, masks(random, int(offsets[-1])), np.zeros(n, np.int32), np.zeros(n + 1, np.int64)


def delta_r(random: Random) -> tuple[Any, ...]:
    made = []
    for _ in range(2):
        offsets = events(random)
        n = int(offsets[-1])
        made += [floats(random, n, -2, 2), floats(random, n, -3, 3), masks(random, n), offsets]
    return (*made, np.float32(0.5), np.zeros(len(made[0]), bool))


def invariant_mass(random: Random) -> tuple[Any, ...]:
    offsets = events(random)
    n, m = int(offsets[-1]), len(offsets) - 1
    parts = (floats(random, n, 20, 90), floats(random, n, -2, 2), floats(random, n, -3, 3), floats(random, n, 50, 90))
    # Every event keeps an object: an empty one would take the root of a rounding error.
    return (offsets, *parts, masks(random, m), np.ones(n, bool), np.zeros(m, np.float32), np.zeros(m, np.float32))


def combinations(random: Random) -> tuple[Any, ...]:
    offsets = np.arange(0, 90, 3)
    n, m = int(offsets[-1]), len(offsets) - 1
    parts = (floats(random, n, 20, 90), floats(random, n, -2, 2), floats(random, n, -3, 3), floats(random, n, 50, 90))
    return (*parts, offsets, np.float32(172), np.zeros(m, np.float32), np.zeros((m, 3), np.int32))


def best_value(random: Random) -> tuple[Any, ...]:
    offsets = np.arange(0, 300, 5)
    m = len(offsets) - 1
    return floats(random, 300), offsets, random.integers(0, 5, (m, 3), dtype=np.int32), np.zeros(m, np.float32)


def atoms(random: Random) -> tuple[Any, ...]:
    places = random.uniform(-1, 1, (THREADS, 3)), random.uniform(-1, 1, (20, 3))
    outputs = np.zeros(THREADS), np.zeros(THREADS)
    return (random.random((2, THREADS)), *places, *outputs, 2, np.array([0, 12, 20]), THREADS)


def water(random: Random) -> tuple[Any, ...]:
    places = random.uniform(-1, 1, (THREADS, 3)), random.uniform(-1, 1, (20, 3))
    return (*places, np.zeros(THREADS), np.zeros(THREADS), 0.7, 20, THREADS)


#: Kernel name -> what makes its arguments, and the number of threads (1 where its threads race by design).
CASES: dict[str, tuple[Callable[[Random], tuple[Any, ...]], int]] = {
    "spherical_to_cartesian_kernel": (spherical, THREADS),
    "cartesian_to_spherical_kernel": (cartesian, THREADS),
    "searchsorted_kernel_right": (search, THREADS),
    "searchsorted_kernel_left": (search, THREADS),
    "fill_histogram_several": (histogram_several, THREADS),
    "fill_histogram": (histogram, THREADS),
    "fill_histogram_masked": (lambda random: histogram(random, masks(random, 150)), THREADS),
    "select_opposite_sign_cudakernel": (opposite_sign, THREADS),
    "sum_in_offsets_cudakernel": (in_offsets, THREADS),
    "prod_in_offsets_cudakernel": (lambda random: in_offsets(random, 1.0), THREADS),
    "max_in_offsets_cudakernel": (in_offsets, THREADS),
    "min_in_offsets_cudakernel": (in_offsets, THREADS),
    "get_in_offsets_cudakernel": (get_in_offsets, THREADS),
    "set_in_offsets_cudakernel": (set_in_offsets, THREADS),
    "broadcast_cudakernel": (broadcast, THREADS),
    "get_bin_contents_cudakernel": (bin_contents, THREADS),
    "copyto_dst_indices_cudakernel": (copy_to, THREADS),
    "compute_new_offsets_cudakernel": (new_offsets, 1),
    "mask_deltar_first_cudakernel": (delta_r, THREADS),
    "compute_inv_mass_cudakernel": (invariant_mass, THREADS),
    "comb_3_invmass_closest": (combinations, THREADS),
    "max_val_comb": (best_value, THREADS),
    "calculate_pattern_gpu_back_engine": (atoms, THREADS),
    "calculate_solvent_pattern_gpu_back_engine": (water, THREADS),
}

if __name__ == "__main__":
    sys.exit(main())
