# SPDX-License-Identifier: Apache-2.0
"""``python -m cudabuild_sample``: runs every kernel, compares with NumPy, prints a table; status 1 on a mismatch."""

import argparse
import sys
import time

import numpy as np

import cudabuild
from cudabuild_sample.cases import Case, make_cases


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m cudabuild_sample", description=__doc__)
    parser.add_argument("--scale", type=int, default=1, help="multiplies the amount of work")
    options = parser.parse_args()
    rows, wrong = [], set()
    kernels = {}
    for case in make_cases(options.scale):
        name = case.kernel.py_func.__name__
        kernels[name] = case.kernel
        source, seconds, error = run(case)
        if not error <= case.tolerance:
            wrong.add(name)
        verdict = "ok" if error <= case.tolerance else f"WRONG, permitted {case.tolerance:.0e}"
        measure = "of pixels" if case.share else "relative"
        rows.append((name, case.signature, source, f"{seconds * 1e3:.2f} ms", f"{error:.1e} {measure}", verdict))
    header = ("kernel", "signature", "image source", "time", "largest error", "")
    widths = [min(44, max(len(row[i]) for row in [header, *rows])) for i in range(len(header))]
    for row in [header, *rows]:
        cells = (shorten(cell, width).ljust(width) for cell, width in zip(row, widths, strict=True))
        print("  ".join(cells).rstrip())
    device = cudabuild.current_device().name
    print(f"sample: {len(kernels)} kernels, {len(kernels) - len(wrong)} correct, device={device}")
    return 1 if wrong else 0


def shorten(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def run(case: Case) -> tuple[str, float, float]:
    """Where the image came from, the duration of a second launch with its copies, and the larger of both errors."""
    errors = []
    for _ in range(2):
        arguments = tuple(np.copy(a) if isinstance(a, np.ndarray) else a for a in case.arguments)
        start = time.perf_counter()
        case.kernel[case.grid, case.block](*arguments)
        seconds = time.perf_counter() - start
        errors.append(case.error(arguments))
    return case.kernel.image_source(case.signature), seconds, max(errors)


if __name__ == "__main__":
    sys.exit(main())
