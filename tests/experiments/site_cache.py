# SPDX-License-Identifier: Apache-2.0
"""A container image: kernels are compiled in one step, and run in another from a cache that can only be read.

    python3 tests/experiments/site_cache.py [--quick] [--wheels DIR] [--archs LIST] [--gpu]

1. A step that builds the image: an environment with llvmlite, an installed package without archives, no GPU asked:
   ``cudabuild warm --site DIR`` compiles everything once; a second run compiles nothing.
2. What runs from the image: another environment without llvmlite, another user (where this is root), no HOME that can
   be written, DIR read-only, CUDABUILD_JIT=never: every kernel of the sample loads its cubin from DIR, whose bytes are
   those that were compiled; nothing is written anywhere. Here a fake driver takes the code; on a GPU the kernels run
   and are compared with NumPy.
3. Without DIR, the same is one error that says what to do.

``--wheels DIR`` holds what else the environments need, as in ``no_llvmlite.py``, and nvidia-nvjitlink-cu12; without it
that is this interpreter's.
``--gpu`` runs the kernels on this machine's GPU. ``--quick`` compiles for one target.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from no_llvmlite import BASE, COMPILER, install
from reporting import CHECKOUT, SAMPLE, Report, clean_environment, run, site_packages

__all__ = ["main"]

#: A user without an entry in the user database.
STRANGER = 54321
AS_STRANGER: dict[str, Any] = {"user": STRANGER, "group": STRANGER, "extra_groups": []}
IS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0

#: Launches every case of the sample on a fake driver of one device; what each loaded.
_FAKE = """
import hashlib, json, os, sys
sys.path.insert(0, sys.argv[1])
from fake_driver import FakeDriver
from cudabuild.runtime.driver import use_driver

class Watched(FakeDriver):
    given = []
    def cuLibraryLoadData(self, data, *options):
        self.given.append(hashlib.sha256(bytes(data)).hexdigest())
        return super().cuLibraryLoadData(data, *options)

fake = Watched(ccs=(tuple(map(int, sys.argv[2].split("."))),))
fake.takes_any_code = True
use_driver(fake)
from cudabuild_sample.cases import make_cases
sources = {}
for case in make_cases():
    case.kernel[case.grid, case.block](*case.arguments)
    sources[f"{case.kernel.py_func.__name__}({case.signature})"] = case.kernel.image_source(case.signature)
loaded = [name for name in sys.modules if name.partition(".")[0] in ("llvmlite", "filelock")]
print(json.dumps({"sources": sources, "given": sorted(set(Watched.given)), "launches": len(fake.launches),
                  "loaded": loaded, "user": os.getuid() if hasattr(os, "getuid") else -1}))
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="compile for one target only")
    parser.add_argument("--wheels", metavar="DIR", type=Path, help="take everything from there")
    parser.add_argument("--archs", default="75 80 86 90 100 120", help="what the image is for")
    parser.add_argument("--gpu", action="store_true", help="run the kernels on this machine's GPU")
    options = parser.parse_args()
    report = Report("a site cache")
    archs = "90" if options.quick else options.archs
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        folder.chmod(0o755)  # for the other user
        python = make_place(folder / "building", Path(sys.executable))
        install(
            (*BASE, *COMPILER, "nvidia_nvjitlink_cu12"), options.wheels or folder, site_packages(folder / "building")
        )
        site = folder / "opt" / "kernels"
        compiled = fill(report, python, site, archs)
        python = make_place(folder / "running", find_common_interpreter())
        install(BASE, options.wheels or folder, site_packages(folder / "running"))
        runner = Runner(report, python, folder / "work", site)
        if options.gpu:
            on_gpu(report, runner)
        else:
            for cc in ("9.0",) if options.quick else ("7.5", "8.0", "8.6", "9.0", "10.0", "12.0"):
                on_fake_driver(report, runner, cc, compiled)
        without(report, runner)
    return report.status()


def make_place(folder: Path, interpreter: Path) -> Path:
    """An environment with cudabuild and the sample in it, without archives, as from source distributions."""
    run([interpreter, "-m", "venv", "--without-pip", folder])
    ignore = shutil.ignore_patterns("__pycache__", "_cudabuild*")
    for source in (CHECKOUT / "cudabuild", SAMPLE / "src" / "cudabuild_sample"):
        shutil.copytree(source, site_packages(folder) / source.name, ignore=ignore)
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def find_common_interpreter() -> Path:
    """An interpreter of this version that another user may run too, if there is one."""
    own = Path(sys.executable)
    if not IS_ROOT or allows_stranger(own):
        return own
    common = Path(f"/usr/bin/python{sys.version_info[0]}.{sys.version_info[1]}")
    return common if common.exists() else own


def allows_stranger(python: Path, code: str = "") -> bool:
    try:
        done = subprocess.run([str(python), "-c", code], capture_output=True, check=False, cwd="/", **AS_STRANGER)
    except PermissionError:
        return False
    return done.returncode == 0


def fill(report: Report, python: Path, site: Path, archs: str) -> dict[str, str]:
    """The first step; each image that it made: digest of its code -> its target."""
    environment = clean_environment(CUDABUILD_CACHE_DIR=str(python.parent / "unused"))
    command = [python, "-m", "cudabuild", "warm", "--site", site, "--archs", archs, "--json", "cudabuild_sample"]
    made = json_of(report, run(command, environment, cwd=python.parent))
    report.check("the step compiles", bool(made["compiled"]) and not made["errors"], f"{made['compiled']} images")
    again = json_of(report, run(command, environment, cwd=python.parent))
    report.check("again, it compiles nothing", again["compiled"] == 0, f"{again['cached']} from the cache")
    report.check("the user's own cache is left alone", not (python.parent / "unused").exists())
    here = {**environment, "CUDABUILD_CACHE_DIR": str(site)}
    verified = json_of(report, run([python, "-m", "cudabuild", "cache", "verify", "--json"], here))
    report.check("what it wrote is whole", verified["images"] == made["compiled"] and not verified["faults"])
    most = max(len(list(shelf.glob("seg-*"))) for shelf in site.iterdir())
    report.check("few files: at most 8 of images for each target", most <= 8, most)
    for path in (site, *site.rglob("*")):  # the layer of an image that nobody writes to any more
        path.chmod(path.stat().st_mode & ~0o222)
    return codes_of(site)


def codes_of(site: Path) -> dict[str, str]:
    sys.path.insert(0, str(CHECKOUT))
    import hashlib

    from cudabuild.image.archive import Archive

    return {
        hashlib.sha256(bytes(record.load_image("cached").data)).hexdigest(): record.target
        for path in site.rglob("*.cuar")
        for record in Archive(str(path)).records()
    }


def json_of(report: Report, done: subprocess.CompletedProcess[str]) -> Any:
    if not report.check("a command ends well", done.returncode == 0):
        report.note((done.stdout + done.stderr)[-3000:])
        raise SystemExit(report.status())
    return json.loads(done.stdout)


class Runner:
    """Runs programs as a container would: another user where that can be, no home, nothing of ours set."""

    def __init__(self, report: Report, python: Path, folder: Path, site: Path) -> None:
        self.python = python
        self.site = site
        self.folder = folder
        folder.mkdir()
        self.identity: dict[str, Any] = {}
        if IS_ROOT and allows_stranger(python, "import numpy, cudabuild_sample"):
            self.identity = AS_STRANGER
        else:
            report.note("as this user: no other one may run this interpreter and its packages")

    def run(self, *arguments: str, site: bool = True) -> subprocess.CompletedProcess[str]:
        changes = {"HOME": "/nonexistent", "CUDABUILD_JIT": "never", "PYTHONDONTWRITEBYTECODE": "1"}
        environment = clean_environment(**changes, **({"CUDABUILD_SITE_CACHE": str(self.site)} if site else {}))
        for variable in ("XDG_CACHE_HOME", "LLVM_PROFILE_FILE"):
            environment.pop(variable, None)
        command = [str(self.python), *arguments]
        return subprocess.run(
            command, env=environment, cwd=self.folder, capture_output=True, text=True, check=False, **self.identity
        )


def on_fake_driver(report: Report, runner: Runner, cc: str, compiled: dict[str, str]) -> None:
    # Beside the environment, where the other user may read it wherever the checkout is.
    fake = runner.folder.parent / "fake"
    if not fake.exists():
        fake.mkdir()
        shutil.copy(CHECKOUT / "tests" / "runtime" / "fake_driver.py", fake)
    before = snapshot(runner.site)
    done = runner.run("-c", _FAKE, str(fake), cc)
    if not report.check(f"{cc}: every kernel is launched, nothing is told", done.returncode == 0 and not done.stderr):
        report.note((done.stdout + done.stderr)[-3000:])
        return
    found = json.loads(done.stdout)
    target = f"sm_{cc.replace('.', '')}"
    sources = set(found["sources"].values())
    report.check(f"{cc}: all from the site cache", sources == {f"cached cubin {target}"}, sorted(sources))
    report.check(f"{cc}: {found['launches']} launches of {len(found['sources'])} overloads", found["launches"] > 7)
    right = {compiled.get(code, "foreign") for code in found["given"]} == {target}
    report.check(f"{cc}: the driver got the bytes that were compiled", right, f"{len(found['given'])} images")
    report.check(f"{cc}: no compiler, no locks", found["loaded"] == [], found["loaded"])
    if runner.identity:
        report.check(f"{cc}: as another user", found["user"] == STRANGER)
    report.check(f"{cc}: nothing is written", snapshot(runner.site) == before and not any(runner.folder.iterdir()))


def snapshot(folder: Path) -> list[tuple[str, int, int, int]]:
    return sorted((str(path), *(path.stat()[index] for index in (0, 6, 8))) for path in folder.rglob("*"))  # type: ignore[misc]


def on_gpu(report: Report, runner: Runner) -> None:
    before = snapshot(runner.site)
    done = runner.run("-m", "cudabuild_sample")
    lines = done.stdout.splitlines()
    report.check("every kernel is right", done.returncode == 0)
    start = lines[0].find("image source") if lines else 0
    sources = {line[start:].split("  ")[0] for line in lines[1:-1]}
    report.check(
        "all from the site cache", bool(sources) and all(s.startswith("cached cubin") for s in sources), sources
    )
    report.check("nothing is written", snapshot(runner.site) == before and not any(runner.folder.iterdir()))
    for line in (done.stdout + done.stderr).splitlines()[-24:]:
        report.note(line)


def without(report: Report, runner: Runner) -> None:
    fake = runner.folder.parent / "fake"
    arguments = ("-c", _FAKE, str(fake), "9.0") if fake.exists() else ("-m", "cudabuild_sample")
    done = runner.run(*arguments, site=False)
    words = ("no image of cudabuild_sample", "CUDABUILD_JIT=never", "do:")
    right = done.returncode != 0 and all(word in done.stderr for word in words)
    report.check("without the site cache: one error that says what to do", right)
    for line in done.stderr.splitlines()[-12:]:
        report.note(line)


if __name__ == "__main__":
    sys.exit(main())
