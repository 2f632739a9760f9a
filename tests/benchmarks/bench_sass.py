# SPDX-License-Identifier: Apache-2.0
"""The sample's eight kernels against the same kernels in CUDA C++ compiled by ``nvcc -O3``, on the GPU of this machine.

    python3 tests/benchmarks/bench_sass.py            instructions and run times (needs a GPU and nvcc)
    python3 tests/benchmarks/bench_sass.py --static   instruction counts only (needs no GPU), for sm_90

An installed sample is measured as it ships; the checkout's is compiled first, which needs the ``build`` extra.

Ratio: nvcc's time / ours, medians of interleaved launches; above 1 is faster than nvcc. Goal: geomean >= 0.95, none
below 0.85. Outputs of both are compared. Instructions: SASS lines of the whole kernel, without NOP.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parent.parent
sys.path.insert(0, str(HERE))
sys.path += [str(CHECKOUT), str(CHECKOUT / "sample_project" / "src")]  # behind what is installed

__all__ = ["main"]

GOAL, FLOOR = 0.95, 0.85


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--static", action="store_true", help="count instructions, run nothing")
    parser.add_argument("--repeats", type=int, default=40, help="timed launches of each kernel and compiler")
    parser.add_argument("--scale", type=float, default=1.0, help="problem size; 1 fills an H200 well")
    parser.add_argument("--nvcc", default=shutil.which("nvcc") or "nvcc")
    parser.add_argument("--out", type=Path, help="write the rows to this JSON file")
    options = parser.parse_args()
    target = "sm_90"
    if not options.static:
        import raw_cuda

        print(f"device: {raw_cuda.start()}")
        target = device_target()
    rows = []
    titles = f"{'kernel':14} {'ours':>5} {'nvcc':>5} {'SASS':>6} {'regs':>8}"
    print(f"{titles}  {'ours us':>9} {'nvcc us':>9}  ratio  spread")
    for name in sorted(path.stem for path in (HERE / "cuda").glob("*.cu")):
        try:
            row = compare(name, target, options)
        except Exception as error:  # one kernel that fails must not hide the other seven
            print(f"{name:14} FAILED: {type(error).__name__}: {str(error)[:300]}")
            row = {"kernel": name, "failed": str(error)}
        else:
            print(format_row(row), flush=True)
        rows.append(row)
    ratios = [row["ratio"] for row in rows if "ratio" in row]
    if ratios:
        geomean = math.exp(statistics.fmean(map(math.log, ratios)))
        print(f"geomean {geomean:.3f} (goal {GOAL}), worst {min(ratios):.3f} (goal {FLOOR}), {len(ratios)} kernels")
    counts = [row["sass"] / row["sass_nvcc"] for row in rows if "sass" in row]
    if counts:
        print(f"SASS instructions, ours / nvcc: geomean {math.exp(statistics.fmean(map(math.log, counts))):.3f}")
    if options.out:
        options.out.write_text(json.dumps(rows, indent=1))
    return 1 if any("failed" in row for row in rows) else 0


def format_row(row: dict[str, Any]) -> str:
    text = f"{row['kernel']:14} {row['sass']:5} {row['sass_nvcc']:5} {row['sass'] / row['sass_nvcc']:6.2f} "
    text += f"{row['registers']:>3}/{row['registers_nvcc']:<4}"
    if "ratio" in row:
        text += f"  {row['us']:9.1f} {row['us_nvcc']:9.1f} {row['ratio']:6.3f}  {row['spread']:.3f}"
    return text


def compare(name: str, target: str, options: argparse.Namespace) -> dict[str, Any]:
    import cudabuild_sample

    kernel = getattr(cudabuild_sample, name)
    ours, symbol = find_ours(kernel, target)
    theirs = compile_nvcc(options.nvcc, HERE / "cuda" / f"{name}.cu", target)
    row: dict[str, Any] = {"kernel": name, "sass": count_sass(ours), "sass_nvcc": count_sass(theirs)}
    row["registers"], row["registers_nvcc"] = count_registers(ours), count_registers(theirs)
    if not options.static:
        row.update(run_both(name, kernel, (ours, symbol), (theirs, name), options))
    return row


def find_ours(kernel: Any, target: str) -> tuple[bytes, str]:
    """The 32-bit variant of a kernel's first signature: as shipped, or compiled where the sample has no archives."""
    from cudabuild.types import format_signature

    definition = kernel.definition
    package = Path(sys.modules[definition.module.partition(".")[0]].__file__ or "").parent
    archive = package / "_cudabuild" / f"{target}.cuar"
    if archive.exists():
        from cudabuild.image.archive import Archive

        signature = format_signature(definition.signatures[0])
        records = Archive(str(archive)).find_named(definition.module, definition.qualname, signature)
        image = next(record for record in records if record.index_width == 32).load_image("shipped")
        return bytes(image.data), image.symbol
    from cudabuild.compiler import compile_image
    from cudabuild.target import parse_target

    image = compile_image(definition, definition.signatures[0], target=parse_target(target), index_width=32)
    return bytes(image.data), image.symbol


def compile_nvcc(nvcc: str, source: Path, target: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "out.cubin"
        subprocess.run(
            [nvcc, "-O3", f"-arch={target}", "-cubin", "-o", output, source], check=True, capture_output=True
        )
        return output.read_bytes()


def tool(name: str) -> str:
    """A CUDA binary utility: from PATH, else from its package."""
    found = shutil.which(name)
    if found is None:
        from cuda.pathfinder import find_nvidia_binary_utility

        found = find_nvidia_binary_utility(name)
    if found is None:
        raise RuntimeError(f"{name} not found: pip install nvidia-cuda-{name}")
    return found


def dump(program: str, flag: str, cubin: bytes) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "in.cubin"
        path.write_bytes(cubin)
        return subprocess.run([tool(program), flag, path], check=True, capture_output=True, text=True).stdout


def count_sass(cubin: bytes) -> int:
    lines = re.findall(r"^\s*/\*[0-9a-f]{4,}\*/\s+(.*)$", dump("nvdisasm", "-c", cubin), re.MULTILINE)
    return sum(1 for line in lines if not re.match(r"(@!?U?P\w+\s+)?NOP\b", line))


def count_registers(cubin: bytes) -> str:
    try:
        found = re.findall(r"REG:(\d+)", dump("cuobjdump", "-res-usage", cubin))
    except RuntimeError:
        return "?"
    return max(found, key=int) if found else "?"


def device_target() -> str:
    import raw_cuda

    device = raw_cuda.call("cuDeviceGet", 0)
    major, minor = (raw_cuda.call("cuDeviceGetAttribute", attribute(n), device) for n in (75, 76))
    return f"sm_{major}{minor}"


def attribute(number: int) -> Any:
    from cuda.bindings import driver

    return driver.CUdevice_attribute(number)


def run_both(
    name: str, kernel: Any, ours: tuple[bytes, str], theirs: tuple[bytes, str], options: argparse.Namespace
) -> dict[str, Any]:
    """Times both on the same inputs, each with outputs of its own, and compares these after one launch."""
    import raw_cuda

    from cudabuild.types.layout import parameter_fields

    grid, block, arguments, outputs = PROBLEMS[name](options.scale)
    signature = kernel.definition.signatures[0]
    fields = parameter_fields(signature, 32)
    shared_inputs = {i: raw_cuda.DeviceArray.of(a) for i, a in enumerate(arguments) if isinstance(a, np.ndarray)}
    launches, results, made = {}, {}, list(shared_inputs.values())
    for who, (cubin, symbol) in (("ours", ours), ("nvcc", theirs)):
        arrays = dict(shared_inputs)
        for index in outputs:
            arrays[index] = raw_cuda.DeviceArray.of(arguments[index])
            made.append(arrays[index])
        values = [(field.format, value_of(field, arguments, arrays)) for field in fields]
        launches[who] = raw_cuda.RawLaunch(raw_cuda.load_function(cubin, symbol), grid, block, values)
        launches[who]()
        raw_cuda.synchronize()
        results[who] = [arrays[index].download(np.empty_like(arguments[index])) for index in outputs]
    check_equal(name, results["ours"], results["nvcc"])
    times = raw_cuda.time_launches(launches, options.repeats)
    for array in made:
        array.free()
    us, us_nvcc = statistics.median(times["ours"]), statistics.median(times["nvcc"])
    quarters = statistics.quantiles([n / o for n, o in zip(times["nvcc"], times["ours"], strict=True)], n=4)
    return {"us": us, "us_nvcc": us_nvcc, "ratio": us_nvcc / us, "spread": quarters[2] - quarters[0]}


def value_of(field: Any, arguments: tuple[Any, ...], arrays: dict[int, Any]) -> Any:
    argument = arguments[field.argument]
    if field.part == "data":
        return arrays[field.argument].pointer
    return argument.shape[field.axis] if field.part == "shape" else argument


def check_equal(name: str, ours: list[Any], theirs: list[Any]) -> None:
    for a, b in zip(ours, theirs, strict=True):
        if name == "mandelbrot":
            share = float(np.mean(a != b))
            if share > 0.05:
                raise RuntimeError(f"{share:.1%} of the pixels differ from nvcc's")
        else:
            worst = float(np.max(np.abs(a.astype(np.float64) - b)) / max(1e-30, float(np.max(np.abs(b)))))
            if not worst <= 1e-4:
                raise RuntimeError(f"differs from nvcc's result by {worst:.1e}")


# Problems: grid, block, arguments, indices of the arguments that a launch writes.

Problem = tuple[Any, Any, tuple[Any, ...], tuple[int, ...]]


def uniform(shape: Any, low: float = 0.0, high: float = 1.0) -> Any:
    random = np.random.default_rng(7)
    return random.random(shape, dtype=np.float32) * np.float32(high - low) + np.float32(low)


def blocks(n: int, block: int) -> int:
    return -(-n // block)


def saxpy_problem(scale: float) -> Problem:
    n = int(2**26 * scale)
    return blocks(n, 256), 256, (np.float32(1e-3), uniform(n), uniform(n)), (2,)


def black_scholes_problem(scale: float) -> Problem:
    n = int(2**24 * scale)
    made = (
        np.zeros(n, np.float32),
        np.zeros(n, np.float32),
        uniform(n, 5, 30),
        uniform(n, 1, 100),
        uniform(n, 0.25, 10),
    )
    return blocks(n, 256), 256, (*made, np.float32(0.02), np.float32(0.3)), (0, 1)


def mandelbrot_problem(scale: float) -> Problem:
    side = int(4096 * math.sqrt(scale))
    counts = np.zeros((side, side), np.int32)
    arguments = (counts, np.float32(-2.2), np.float32(-1.5), np.float32(3 / side), np.int32(256))
    return (blocks(side, 16), blocks(side, 16)), (16, 16), arguments, (0,)


def heat_step_problem(scale: float) -> Problem:
    side = int(8192 * math.sqrt(scale))
    old = uniform((side, side), 0, 100)
    return (blocks(side, 32), blocks(side, 8)), (32, 8), (np.zeros_like(old), old, np.float32(0.2)), (0,)


def nbody_step_problem(scale: float) -> Problem:
    n = int(2**15 * math.sqrt(scale))
    arguments = (np.zeros((n, 4), np.float32), uniform((n, 4)), np.zeros((n, 3), np.float32), np.float32(1e-3))
    return blocks(n, 128), 128, arguments, (0, 2)


def matmul_problem(scale: float) -> Problem:
    n = int(2048 * scale ** (1 / 3)) // 16 * 16
    return (n // 16, n // 16), (16, 16), (np.zeros((n, n), np.float32), uniform((n, n)), uniform((n, n))), (0,)


def block_sum_problem(scale: float) -> Problem:
    return 132 * 8, 256, (np.zeros(1, np.float32), uniform(int(2**27 * scale))), (0,)


def histogram_problem(scale: float) -> Problem:
    data = np.random.default_rng(7).integers(0, 256, int(2**27 * scale), dtype=np.uint8)
    return 132 * 8, 256, (np.zeros(256, np.uint32), data), (0,)


PROBLEMS = {
    "saxpy": saxpy_problem,
    "black_scholes": black_scholes_problem,
    "mandelbrot": mandelbrot_problem,
    "heat_step": heat_step_problem,
    "nbody_step": nbody_step_problem,
    "matmul": matmul_problem,
    "block_sum": block_sum_problem,
    "histogram": histogram_problem,
}

if __name__ == "__main__":
    sys.exit(main())
