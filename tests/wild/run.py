#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kernels that others wrote for numba-cuda: compiled, run on seeded inputs, compared.

    python tests/wild/run.py --project all --device cpu --out FILE     the CPU device against the kernels' own Python
    python tests/wild/run.py --project sgkit --device none --out FILE      compiled only
    python tests/wild/run.py --project all --device gpu --against numba --out FILE    on a GPU, against numba-cuda
    python tests/wild/run.py --pack DIR                                    what ``--wheels`` takes on another machine

Every kernel is compiled for sm_80 and sm_90 in both index widths. ``FILE`` receives the table and every reason. Exits
with 1 where a kernel is refused or differs, with 3 where a project cannot be downloaded.
"""

from __future__ import annotations

import argparse
import os
import pickle
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from judge import Judgement, judge, survey
from projects import DownloadError, Project, fetch, load_projects, pack, unpack

__all__ = ["main"]

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parent.parent
SHIM = HERE.parent / "conformance" / "shim"
NO_PROJECT = 3


def main() -> int:
    options = parse_options()
    projects = load_projects()
    chosen = list(projects.values()) if options.project == "all" else [projects[n] for n in options.project.split(",")]
    scratch = options.scratch or default_scratch()
    downloads = options.wheels or scratch / "downloads"
    try:
        if options.pack:
            pack(chosen, downloads, options.pack)
            return 0
        roots = {project.name: unpack(project, fetch(project, downloads), scratch) for project in chosen}
    except DownloadError as error:
        print(error)
        return NO_PROJECT
    judgements = []
    with tempfile.TemporaryDirectory(prefix="run-", dir=scratch) as work, ThreadPoolExecutor(options.jobs) as pool:
        for judgement in pool.map(lambda p: run_project(p, roots[p.name], Path(work), options), chosen):
            print(judgement.line(), flush=True)
            judgements.append(judgement)
    lines = report(judgements)
    if options.out:
        options.out.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))
    return 1 if any(judgement.is_bad for judgement in judgements) else 0


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--project", default="all", help="names by commas, or all")
    parser.add_argument("--device", choices=("cpu", "gpu", "none"), default="cpu")
    parser.add_argument("--against", choices=("python", "numba"), default="python", help="who else runs the kernels")
    parser.add_argument("--numba-python", default=sys.executable, help="the interpreter that has numba-cuda")
    parser.add_argument("--numba-path", default="", help="what goes before its own modules: a NumPy that numba takes")
    parser.add_argument("--only", default="", help="ids of kernels (file:name), by bars")
    parser.add_argument("--targets", default="sm_80,sm_90", help="what is compiled for; may be empty")
    parser.add_argument("--widths", default="32,64", help="index widths that are compiled")
    parser.add_argument("--wheels", type=Path, help="the distributions, or what --pack made of them")
    parser.add_argument("--scratch", type=Path, help="where distributions and their files are kept")
    parser.add_argument("--jobs", type=int, default=2, help="projects at a time")
    parser.add_argument("--limit", type=float, default=900, help="seconds for one project on one device")
    parser.add_argument("--pack", type=Path, metavar="DIR", help="write the projects' Python files here, and stop")
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


def default_scratch() -> Path:
    """A folder of the user's cache, outside the checkout."""
    from platformdirs import user_cache_path

    return user_cache_path("cudabuild") / "wild"


def run_project(project: Project, root: Path, work: Path, options: argparse.Namespace) -> Judgement:
    devices = {options.device: options.targets}
    if options.device != "none":
        devices[options.against] = ""
    with ThreadPoolExecutor(len(devices)) as pool:
        made = {
            d: pool.submit(run_children, project, root, work, d, options, targets) for d, targets in devices.items()
        }
        results = {device: future.result() for device, future in made.items()}
    found, other = results[options.device], results.get(options.against, {})
    return judge(project, survey(project, root), found, other, options)


def run_children(
    project: Project, root: Path, work: Path, device: str, options: argparse.Namespace, targets: str
) -> dict[str, dict[str, Any]]:
    """What one device gave, by kernel: a process that dies costs the kernel that it was running."""
    output = work / f"{project.name}-{device}"
    found: dict[str, dict[str, Any]] = {}
    while True:
        python = options.numba_python if device == "numba" else sys.executable
        command = [python, str(HERE / "child.py"), project.name, "--device", device, "--root", str(root)]
        command += ["--out", str(output), "--targets", targets, "--widths", options.widths, "--only", options.only]
        command += ["--skip", "|".join(found)]
        environment = make_environment(device, work, options.numba_path)
        try:
            done = subprocess.run(
                command, env=environment, cwd=work, capture_output=True, text=True, timeout=options.limit, check=False
            )
            ended = f"the process ended with status {done.returncode}: {done.stderr.strip()[-600:]}"
        except subprocess.TimeoutExpired:
            ended = f"no answer within {options.limit:.0f} s"
        started = read(output, found)
        if started is None:
            if not found:
                raise SystemExit(f"{project.name} on {device}: {ended}")
            return found
        found[started] = {"error": ended}


def make_environment(device: str, work: Path, numba_path: str) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("CUDABUILD_")}
    if device == "numba":
        path = numba_path
    else:
        path = os.pathsep.join(filter(None, (str(SHIM), str(CHECKOUT), os.environ.get("PYTHONPATH"))))
    return {
        **kept,
        "PYTHONPATH": path,
        "CUDABUILD_DEVICE": {"none": "cpu", "numba": "auto"}.get(device, device),
        "CUDABUILD_CACHE_DIR": str(work / "cache"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def read(path: Path, found: dict[str, dict[str, Any]]) -> str | None:
    """Adds the entries of a child's file; the kernel that was begun and never finished."""
    started = None
    with path.open("rb") as stream:
        while True:
            try:
                entry = pickle.load(stream)
            except EOFError:
                break
            if "start" in entry:
                started = entry["start"]
            else:
                found[entry["id"]] = entry
    return started if started not in found else None


def report(judgements: list[Judgement]) -> list[str]:
    """The table, and under it every reason."""
    lines = [Judgement.HEAD]
    for apart in (False, True):
        chosen = [judgement for judgement in judgements if judgement.project.apart is apart]
        lines += [judgement.line() for judgement in chosen]
        if len(chosen) > 1:
            lines.append(Judgement.total(chosen, "counted apart" if apart else "together"))
    for judgement in judgements:
        lines += judgement.details()
    return lines


if __name__ == "__main__":
    sys.exit(main())
