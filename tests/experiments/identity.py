# SPDX-License-Identifier: Apache-2.0
"""What kernels and images are known by: every labelled part counts, nothing else does, shipped images stay bound.

    python3 tests/experiments/identity.py [--quick] [--keep DIR]
    python3 tests/experiments/identity.py --gpu --wheels DIR

1. Each labelled part of a fingerprint and of an image key is varied alone: the digest changes, and of the other parts
   none. What is no part (comments, places, times …) is varied: nothing changes.
2. The same kernels are identified in other processes: under every Python found here, hash seeds, optimisation flags, in
   another checkout of the project and of cudabuild, with the modules imported in other orders.
3. The sample's wheel is built by the previous commit of cudabuild, and with other llvmlites (downloaded; not with
   ``--quick``). With this cudabuild every kernel binds to its images, without source parsed and without a compiler; an
   edited comment in every file leaves that so. ``--keep`` leaves the wheels in a new folder; ``--wheels`` takes them
   from there, on a machine that can neither build nor download, without 1 and 2; ``--gpu`` runs the sample from each.
"""

from __future__ import annotations

import argparse
import itertools
import os
import shutil
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import identity_parts as parts
from reporting import CHECKOUT, Report, build_wheel, clean_environment, copy_sample, run, unpack

__all__ = ["main"]

#: What ``pip`` is asked for, beside the version that this interpreter has.
LLVMLITES = ("llvmlite==0.48.*", "llvmlite==0.49.*", "llvmlite")

#: Options of a decorator, with another value than the default.
OPTIONS = {
    "fastmath": True, "fma": False, "literals": "numba", "debug": True, "opt": 0, "lineinfo": True,
    "max_registers": 32, "launch_bounds": 128,
}  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few processes, one wheel, one target, no download")
    parser.add_argument("--gpu", action="store_true", help="run the sample from each wheel on this machine's GPU")
    parser.add_argument("--keep", metavar="DIR", type=Path, help="leave the wheels there")
    parser.add_argument("--wheels", metavar="DIR", type=Path, help="bind the wheels that were left there")
    options = parser.parse_args()
    report = Report("identity")
    os.environ["CUDABUILD_EARLY_ERRORS"] = "0"  # the kernels are identified, not compiled
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        if options.wheels is None:
            vary_fingerprint(report, folder / "parts")
            vary_key(report, folder / "key")
            compare_processes(report, folder / "processes", options.quick)
            compare_forms(report, options.quick)
            options.wheels = build_wheels(report, folder / "build", options.keep or folder / "kept", options.quick)
        for wheel in sorted(options.wheels.glob("*/*.whl")):
            bind_wheel(report, folder / "installed" / wheel.parent.name, wheel, options.quick, options.gpu)
    return report.status()


# 1. parts


def vary_fingerprint(report: Report, folder: Path) -> None:
    from cudabuild.definition import OPTIONS as SPECS
    from cudabuild.fingerprint import compute_fingerprint

    def take(kernel, **options):  # type: ignore[no-untyped-def]
        chosen = kernel.definition.options.replace(**options) if options else None
        return compute_fingerprint(kernel.definition, kernel.signatures[0], chosen)

    kernel = parts.load_kernel(parts.write_files(folder / "base"))
    base = take(kernel)
    seen = {base.digest}
    alone = {}
    for number, (label, edit) in enumerate(parts.EDITS.items()):
        found = take(parts.load_kernel(parts.write_files(folder / str(number), edit)))
        alone[label] = changed(base.parts, found.parts)
        seen.add(found.digest)
    for spec in SPECS:
        now = kernel.definition.options[spec.name]
        found = take(kernel, **{spec.name: OPTIONS[spec.name] if now != OPTIONS[spec.name] else spec.default})
        label = f"(option {spec.name})"
        if spec.changes_results:
            alone[label] = changed(base.parts, found.parts) - ({"(source file)"} if spec.name == "debug" else set())
            alone[label] = {one for one in alone[label] if not one.endswith("/(source file)")}
            seen.add(found.digest)
        else:
            report.check(f"{label} is of the image key only", found.digest == base.digest)
    wrong = {label: sorted(found) for label, found in alone.items() if found != {label} | parts.ALSO.get(label, set())}
    report.check("each part varied alone changes itself and no other part", not wrong, wrong or f"{len(alone)} parts")
    report.check("… and every one changes the digest", len(seen) == 1 + len(alone), len(seen) - 1)
    left = {label for label, _ in base.parts} - set(alone) - FIXED
    report.check("there is no part that was not varied", not left, sorted(left) or "none")
    wrong = {}
    for number, (what, *edit) in enumerate(parts.NEUTRAL):
        place = parts.write_files(folder / f"neutral {number}", tuple(edit))  # type: ignore[arg-type]
        for path in place.iterdir():
            os.utime(path, (number, number))
        found = take(parts.load_kernel(place))
        if (found.parts, found.digest) != (base.parts, base.digest):
            wrong[what] = sorted(changed(base.parts, found.parts))
    report.check("what is no part changes nothing", not wrong, wrong or f"{len(parts.NEUTRAL)} edits, each elsewhere")


#: Names that lead to what is known by name: functions of cudabuild and of the language. They vary with the code.
FIXED = {"cuda.grid", "len"}


def changed(before: tuple[tuple[str, str], ...], after: tuple[tuple[str, str], ...]) -> set[str]:
    """The labels of the parts that differ."""
    old, new = dict(before), dict(after)
    return {label for label in {**old, **new} if old.get(label) != new.get(label)}


def vary_key(report: Report, folder: Path) -> None:
    from cudabuild.definition import OPTIONS as SPECS
    from cudabuild.definition import Options
    from cudabuild.fingerprint import compute_fingerprint, image_key
    from cudabuild.fingerprint.key import key_parts
    from cudabuild.target import TARGETS, parse_target

    def take(edit=None):  # type: ignore[no-untyped-def]
        number = len(list(folder.glob("*")))
        kernel = parts.load_kernel(parts.write_files(folder / str(number), edit))
        return compute_fingerprint(kernel.definition, kernel.signatures[0])

    renamed = take()
    renamed.qualname = "another"
    base = {"fingerprint": take(), "target": parse_target("90"), "index_width": 32, "options": Options({}),
            "toolchain": parts.TOOLS, "salt": ""}  # fmt: skip
    variants = {
        "fingerprint": {"fingerprint": take(parts.EDITS["N"])},
        "kernel": {"fingerprint": renamed},
        "index width": {"index_width": 64},
        "salt": {"salt": "mine"},
        **{f"option {spec.name}": {"options": Options({spec.name: OPTIONS[spec.name]})}
           for spec in SPECS if not spec.changes_results},
        **{f"tool {name}": {"toolchain": {**parts.TOOLS, name: "other"}} for name in parts.TOOLS},
    }  # fmt: skip
    alone = {label: changed(key_parts(**base), key_parts(**{**base, **change})) for label, change in variants.items()}
    keys = {image_key(**{**base, **change}) for change in variants.values()}
    others = [target for target in TARGETS.values() if target.name != "sm_90"]
    keys |= {image_key(**{**base, "target": target}) for target in others}
    wrong = {label: sorted(found) for label, found in alone.items() if found != {label}}
    report.check("each part of an image key varied alone changes itself only", not wrong, wrong or len(alone))
    left = {label for label, _ in key_parts(**base)} - set(alone) - {"target"}
    report.check("… none was left out", not left, sorted(left) or "none")
    report.check("… and all keys differ", len(keys | {image_key(**base)}) == 1 + len(alone) + len(others), len(keys))
    mixed = {**base, "toolchain": dict(reversed(parts.TOOLS.items())), "options": Options({"fastmath": True})}
    report.check(
        "the order of tools is no part; what changes results is the fingerprint's",
        image_key(**mixed) == image_key(**base),
    )


# 2. processes


def interpreters() -> dict[str, str]:
    """Version -> interpreter, one for each supported minor version that is installed here."""
    found = {f"{sys.version_info[0]}.{sys.version_info[1]}": sys.executable}
    homes = [Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"]
    homes.append(Path(os.environ.get("UV_PYTHON_INSTALL_DIR") or Path.home() / ".local/share/uv/python"))
    for minor in range(10, 20):
        name = f"3.{minor}"
        paths = [str(path) for home in homes for path in sorted(home.glob(f"*{name}.*/bin/python3"))]
        for path in filter(None, [*paths, shutil.which(f"python{name}")]):
            asked = run([path, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"])
            if name not in found and asked.stdout.strip() == name:
                found[name] = path
    return found


def compare_processes(report: Report, folder: Path, quick: bool) -> None:
    first = parts.write_files(folder / "first")
    second = parts.write_files(folder / "a second checkout ü" / "deep")
    for path in second.iterdir():
        os.utime(path, (1, 1))
    copy = folder / "other cudabuild"
    shutil.copytree(CHECKOUT / "cudabuild", copy / "cudabuild", ignore=shutil.ignore_patterns("__pycache__"))
    pythons = interpreters()
    orders = list(itertools.permutations(parts.MODULES))
    orders = orders[:: 25 if quick else 3]
    seeds = (1, 4242) if quick else (1, 2, 3, 4242, 4294967295)
    jobs: dict[str, tuple[list[str], Path, dict[str, str], tuple[str, ...]]] = {}
    here = [sys.executable]
    for version, python in pythons.items():
        for seed in seeds[: 1 if quick else None]:
            jobs[f"Python {version}, hash seed {seed}"] = (
                [python],
                first,
                {"PYTHONHASHSEED": str(seed)},
                parts.MODULES,
            )
        if not quick:
            jobs[f"Python {version}, second checkout"] = ([python], second, {"PYTHONPATH": str(copy)}, parts.MODULES)
    for seed in seeds:
        jobs[f"hash seed {seed}"] = (here, first, {"PYTHONHASHSEED": str(seed)}, parts.MODULES)
    jobs["another checkout of the project"] = (here, second, {}, parts.MODULES)
    jobs["another checkout of cudabuild"] = (here, first, {"PYTHONPATH": str(copy)}, parts.MODULES)
    jobs["python -O"] = ([*here, "-O"], first, {}, parts.MODULES)
    jobs["python -OO"] = ([*here, "-OO"], first, {}, parts.MODULES)
    jobs["another locale, zone and folder"] = (
        here,
        first,
        {"LC_ALL": "C", "TZ": "Asia/Tokyo", "HOME": "/"},
        parts.MODULES,
    )
    for order in orders:
        jobs[f"imported as {' '.join(name.removeprefix('identity_') for name in order)}"] = (here, first, {}, order)

    def identify(job: tuple[list[str], Path, dict[str, str], tuple[str, ...]]) -> str:
        python, place, variables, order = job
        environment = clean_environment(**{"PYTHONPATH": str(CHECKOUT), **variables})
        environment.update(CUDABUILD_EARLY_ERRORS="0", PYTHONDONTWRITEBYTECODE="1")
        script = Path(__file__).with_name("identity_parts.py")
        done = run([*python, script, place, *order], environment, cwd=place)
        return done.stdout if done.returncode == 0 else f"failed: {done.stderr[-600:]}"

    with ThreadPoolExecutor(2) as pool:
        answers = dict(zip(jobs, pool.map(identify, jobs.values()), strict=True))
    expected = answers[f"hash seed {seeds[0]}"]
    lines = expected.splitlines()
    digests = {line.split()[-4] for line in lines}
    report.check("the kernels are all different", len(lines) == len(digests) == 8, f"{len(lines)} overloads")
    differing = {name: answer for name, answer in answers.items() if answer != expected}
    report.check(
        "fingerprints, debug fingerprints, image keys and checks are equal in every process",
        not differing, f"{len(answers)} processes, Python {', '.join(pythons)}, {len(orders)} import orders",
    )  # fmt: skip
    for name, answer in differing.items():
        report.note(f"{name}: {answer[-800:]}")


def compare_forms(report: Report, quick: bool) -> None:
    """Every Python makes the same of the functions of this one's standard library."""
    library = Path(os.__file__).parent
    environment = clean_environment(PYTHONPATH=str(CHECKOUT), PYTHONDONTWRITEBYTECODE="1")
    script = Path(__file__).with_name("identity_parts.py")

    def ask(python: str) -> dict[str, str]:
        done = run([python, script, "--forms", "40" if quick else "1", library], environment)
        lines = (line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)
        return {path: form for path, form in lines if form != "unparsable"}

    pythons = interpreters()
    with ThreadPoolExecutor(2) as pool:
        found = dict(zip(pythons, pool.map(ask, pythons.values()), strict=True))
    (first, *others) = found
    wrong = {
        version: [path for path, form in found[version].items() if found[first].get(path, form) != form]
        for version in others
    }
    shared = [path for path in found[first] if all(path in found[version] for version in others)]
    functions = sum(int(found[first][path].split()[0]) for path in shared)
    report.check(
        "functions of the standard library have one form and the same free names under every Python",
        functions > 500 and not any(wrong.values()),
        f"{functions} functions, Python {', '.join(found)}" if not any(wrong.values()) else wrong,
    )


# 3. wheels


#: In a fresh process: how many images of the sample bind, what does not, and what was imported for it.
PROBE = """
import importlib, pkgutil, sys
import cudabuild_sample
from cudabuild.fingerprint import compute_fingerprint
from cudabuild.image.image import DeviceInfo, ImageRequest
from cudabuild.importer.binding import ShippedProvider
from cudabuild.runtime.dispatcher import Dispatcher

parsed, bound, tools = [], 0, set()
for module in sorted(one.name for one in pkgutil.iter_modules(cudabuild_sample.__path__)):
    if module in ("__main__", "cases", "reference"):  # these need NumPy
        continue
    module = importlib.import_module("cudabuild_sample." + module)
    for kernel in vars(module).values():
        if not isinstance(kernel, Dispatcher) or kernel.__module__ != module.__name__:
            continue
        for signature in kernel.signatures:
            def digest():
                parsed.append(kernel)
                return compute_fingerprint(kernel.definition, signature).digest
            for width in (32, 64):
                for kind, cc in (("cubin", (9, 0)), ("ptx", (12, 1))):
                    request = ImageRequest(kernel.definition, signature, DeviceInfo(cc, 13000), width, digest)
                    image = ShippedProvider(kind).find(request)
                    if image is None:
                        print("missing:", kernel, width, kind, request.notes)
                    else:
                        bound += 1
                        tools.add(image.toolchain.get("llvmlite", "").partition(" ")[0])
print(bound, len(parsed), "llvmlite" in sys.modules, *sorted(tools))
"""

#: Of the sample's kernels: overloads, each in two widths, as a cubin and as PTX.
BINDINGS = 9 * 2 * 2


def build_wheels(report: Report, folder: Path, kept: Path, quick: bool) -> Path:
    """The sample's wheels, one in each folder below ``kept``, named after what it was built by."""
    folder.mkdir()
    kept.mkdir(parents=True)  # a new one: what lies in an old one would be bound too
    before = export_previous(folder / "previous")
    if before is None:
        report.note("the previous commit is not tested: this is no git checkout")
    else:
        build_by(report, "the previous commit", before, None, folder, kept)
    for wanted in () if quick else LLVMLITES:
        place = folder / wanted.replace("*", "x")
        done = run([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", place, wanted])
        if report.check(f"{wanted} can be had", done.returncode == 0, done.stderr[-200:] if done.returncode else ""):
            build_by(report, wanted.replace("*", "x"), CHECKOUT, place, folder, kept)
    return kept


def export_previous(place: Path) -> Path | None:
    """cudabuild as it was before the last commit that changed it; None where there is no history."""
    if shutil.which("git") is None:
        return None
    found = run(["git", "-C", CHECKOUT, "rev-list", "-2", "HEAD", "--", "cudabuild"]).stdout.split()
    if len(found) < 2:
        return None
    place.mkdir()
    packed = place / "cudabuild.tar"
    if run(["git", "-C", CHECKOUT, "archive", "-o", packed, found[1], "cudabuild"]).returncode:
        return None
    shutil.unpack_archive(packed, place)
    return place


def build_by(report: Report, title: str, tree: Path, llvmlite: Path | None, folder: Path, kept: Path) -> None:
    """Builds the sample by the cudabuild of ``tree`` and one llvmlite."""
    search = os.pathsep.join(map(str, filter(None, [llvmlite, tree])))
    environment = clean_environment(
        PYTHONPATH=search,
        CUDABUILD_CACHE_DIR=str(folder / f"cache of {title}"),
        CUDABUILD_ARCHS="90",
        CUDABUILD_PTX="75",
    )
    code = "import cudabuild, llvmlite; print(cudabuild.__file__, llvmlite.__file__, llvmlite.__version__)"
    asked = run([sys.executable, "-c", code], environment, cwd=folder)
    own, tool, version = asked.stdout.split() if asked.returncode == 0 else ("", asked.stderr[-300:], "none")
    right = own.startswith(str(tree)) and tool.startswith(str(llvmlite or ""))
    if report.check(f"{title} builds, with llvmlite {version}", right, "" if right else f"{own} {tool}"):
        try:
            build_wheel(copy_sample(folder / f"sample of {title}"), kept / title, environment)
        except RuntimeError as error:
            report.check(f"{title}: a wheel is built", False, error)
            return
        (kept / title / "made_by.txt").write_text(f"{version}\n{rules_of(tree)}\n", "utf-8")


def bind_wheel(report: Report, installed: Path, wheel: Path, quick: bool, gpu: bool) -> None:
    """Binds the kernels of an installed wheel with this cudabuild."""
    title = wheel.parent.name
    version, rules = wheel.with_name("made_by.txt").read_text("utf-8").split()
    unpack(wheel, installed)
    bind = clean_environment(PYTHONPATH=os.pathsep.join([str(installed), str(CHECKOUT)]), CUDABUILD_JIT="never")
    pythons = {"": sys.executable} if quick else interpreters()
    for python, path in pythons.items():
        name = f"{title}: every kernel binds{python and f' under Python {python}'}, nothing parsed, no compiler"
        look(report, name, bind, version, parsed=False, python=path)
    if gpu:
        done = run([sys.executable, "-m", "cudabuild_sample"], {**bind, "CUDABUILD_DEVICE": "gpu"}, cwd=installed)
        report.check(
            f"{title}: the sample runs on the GPU", done.returncode == 0, done.stdout[-200:] + done.stderr[-500:]
        )
    for file in installed.rglob("*.py"):
        file.write_text("# edited\n\n" + file.read_text("utf-8"), "utf-8")
    if rules != rules_of(CHECKOUT):
        report.note(f"{title}: fingerprints have other rules, so edited files are not bound")
        return
    for python, path in pythons.items():
        name = f"{title}: … with a comment in every file{python and f', Python {python}'}, by fingerprint"
        look(report, name, bind, version, parsed=True, python=path)


def look(report: Report, title: str, environment: dict[str, str], version: str, *, parsed: bool, python: str) -> None:
    """Whether everything binds in a fresh process; ``parsed``: whether each is to need its source."""
    done = run([python, "-c", PROBE], environment, cwd=Path(__file__).parent)
    *missing, last = done.stdout.splitlines() or [""]
    expected = f"{BINDINGS} {BINDINGS if parsed else 0} False {version}"
    holds = done.returncode == 0 and last == expected
    report.check(title, holds, f"{BINDINGS} images" if holds else f"{last!r}, not {expected!r} {missing[:2]}")
    if done.returncode:
        report.note(done.stderr[-800:])


def rules_of(tree: Path) -> str:
    """The number of the rules by which a cudabuild makes fingerprints."""
    text = (tree / "cudabuild" / "fingerprint" / "key.py").read_text("utf-8")
    return text.partition("\n_RULES = ")[2].partition("\n")[0]


if __name__ == "__main__":
    sys.exit(main())
