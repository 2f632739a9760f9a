# SPDX-License-Identifier: Apache-2.0
"""Edits in an installed copy of the sample: exactly the kernels they touch are compiled anew, and the log says why.

    python3 tests/experiments/edited_copy.py [--quick] [--wheels DIR]

One kernel's body is edited, then a helper in another file, then a constant; after each edit every kernel is asked for
its image in a fresh process. Kernels that the edit does not reach stay ``shipped cubin``, those of the same file
included. On a GPU the kernels also run and are compared with NumPy; elsewhere they are looked up and compiled for an
sm_90 device. ``--wheels`` as in ``no_llvmlite.py``; ``--quick`` builds for one target.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from no_llvmlite import BASE, COMPILER, build_wheels, install, own_wheels
from reporting import Report, clean_environment, make_environment, run, site_packages

__all__ = ["main"]

#: What is edited: title, file, text, what it becomes, the kernels that the edit reaches, a word of the reason.
EDITS = (
    (
        "a kernel",
        "vectors.py",
        "y[i] = a * x[i] + y[i]",
        "y[i] = y[i] + a * x[i]",
        {"saxpy"},
        "the code of saxpy differs",
    ),
    (
        "a helper in another file",
        "distributions.py",
        "return 1 - tail if x > 0 else tail",
        "return tail if x <= 0 else 1 - tail",
        {"black_scholes"},
        "the code of normal_cdf differs",
    ),
    (
        "a constant",
        "bodies.py",
        "SOFTENING = 1e-2",
        "SOFTENING = 0.5e-2",
        {"nbody_step"},
        "SOFTENING was 0.01 when built and is 0.005 now",
    ),
)

#: In a fresh process: one line per overload, ``name|image source|why``, by launching where there is a GPU.
PROBE = """
import cudabuild
from cudabuild.decorators import SERVICES
from cudabuild.fingerprint import compute_fingerprint
from cudabuild.image.image import DeviceInfo, ImageRequest
from cudabuild.runtime.images import find_image
from cudabuild.types import parse_signature
from cudabuild_sample import cases
gpu = cudabuild.current_device().kind == "gpu"
for case in cases.make_cases():
    definition, signature = case.kernel.definition, parse_signature(case.signature)
    device = cudabuild.current_device().info if gpu else DeviceInfo((9, 0), 13000, "an sm_90 device")
    digest = lambda: compute_fingerprint(definition, signature).digest
    request = ImageRequest(definition, signature, device, 32, digest)
    image = find_image(SERVICES.providers(), request, True)
    if gpu:
        case.kernel[case.grid, case.block](*case.arguments)
        assert case.error(case.arguments) <= case.tolerance, case
        assert case.kernel.image_source(case.signature).split()[1:] == image.source.split()[1:]
    print(case.kernel.__name__, image.source, "; ".join(request.notes), sep="|")
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="build the sample for one target only")
    parser.add_argument("--wheels", metavar="DIR", type=Path, help="take everything from there")
    options = parser.parse_args()
    report = Report("edits in an installed copy")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        wheels = options.wheels or build_wheels(folder, options.quick)
        python = make_environment(folder / "edited", *own_wheels(wheels))
        install(
            (*BASE, *COMPILER, "nvidia_nvjitlink", "nvidia_nvjitlink_cu12"), wheels, site_packages(folder / "edited")
        )
        look(report, python, "nothing edited", set(), "")
        package = site_packages(folder / "edited") / "cudabuild_sample"
        for title, file, old, new, reached, why in EDITS:
            path = package / file
            before = path.read_text("utf-8")
            assert before.count(old) == 1, f"{file} does not hold {old!r} once"
            path.write_text(before.replace(old, new), "utf-8")
            look(report, python, title, reached, why)
            path.write_text(before, "utf-8")
        look(report, python, "everything as it was", set(), "")
    return report.status()


def look(report: Report, python: Path, title: str, reached: set[str], why: str) -> None:
    """Every overload's image in a fresh process with an empty cache; ``reached`` are to be compiled, for reason
    ``why``."""
    with tempfile.TemporaryDirectory() as cache:
        environment = clean_environment(CUDABUILD_CACHE_DIR=cache, CUDABUILD_LOG="info")
        done = run([python, "-c", PROBE], environment, cwd=python.parent)
    lines = [line.split("|") for line in done.stdout.splitlines()]
    if not report.check(f"{title}: every kernel has an image", done.returncode == 0 and len(lines) == 9, len(lines)):
        report.note(done.stderr.strip()[-2000:])
        return
    compiled = {name for name, source, _ in lines if not source.startswith("shipped cubin")}
    report.check(f"{title}: compiled are exactly", compiled == reached, sorted(compiled) or "none")
    for name, source, notes in lines:
        if name in reached:
            report.check(f"{title}: {name} is {source}, and why", why in notes, notes)


if __name__ == "__main__":
    sys.exit(main())
