# SPDX-License-Identifier: Apache-2.0
"""Compiles the kernels of an installed package, whoever published it: into the user cache, a site cache or archives.

Kernels that declare no signature are compiled for those that 'cudabuild record' wrote down. A package written for numba
is compiled as it runs when it is adopted (cudabuild.adopt, CUDABUILD_ADOPT).
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from cudabuild import config
from cudabuild.build.project import ModuleFile, Project
from cudabuild.cache.location import check_private
from cudabuild.cache.upkeep import share_cache
from cudabuild.cli.output import add_json_argument, json_of_outcome, print_json
from cudabuild.cli.project import add_settings_arguments, written_settings
from cudabuild.errors import BuildError, CudabuildError

if TYPE_CHECKING:
    from cudabuild.build.execute import BuildResult
    from cudabuild.build.job import Outcome
    from cudabuild.build.plan import Artefacts
    from cudabuild.build.settings import BuildSettings

__all__ = ["add_arguments", "find_installed", "find_modules", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    place_usage = "[--site DIR | --into-package | --out DIR]"
    parser.usage = f"%(prog)s [-h] {place_usage} [--signatures FILE] [--archs LIST] [--SETTING …] package"
    parser.add_argument("package", help="the name of an installed package or module")
    place = parser.add_mutually_exclusive_group()
    place.add_argument(
        "--site",
        metavar="DIR",
        help="write into a cache in DIR that all users may read, for container images; CUDABUILD_SITE_CACHE=DIR has it "
        "looked into when kernels run",
    )
    place.add_argument("--into-package", action="store_true", help="write archives beside the package's modules")
    place.add_argument(
        "--out", metavar="DIR", help="write archives below DIR; CUDABUILD_ARCHIVES=DIR has them found when kernels run"
    )
    parser.add_argument("--quiet", "-q", action="store_true", help="tell nothing but errors")
    add_json_argument(parser)
    add_settings_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Compiles; returns the exit status."""
    from cudabuild.build.settings import describe_settings, load_settings
    from cudabuild.build.write import write_packages

    project = find_installed(options.package)
    place = _find_place(options, project)
    if options.site:
        _open_site(options.site)
    written = written_settings(options)
    if place is None:
        written.setdefault("archs", ["native"])
        written.setdefault("ptx", ["none"])
    settings = load_settings(project.root, written)
    written_keys = {key for key, _, _ in describe_settings(settings)}
    if "dialect" not in written_keys:
        settings = replace(settings, dialect="numba")
    if "allow-imports" not in written_keys:
        settings = replace(settings, allow_imports=_installed_modules())
    outcome = _build(project, settings, "discovery" in written, options.quiet or options.json)
    if options.json and outcome.result.errors:
        print_json("warm", json_of_outcome(outcome))
        return 1
    outcome.check()
    if (place is not None or options.site) and not outcome.result.images:
        raise BuildError(_nothing(options.package, outcome.summary()))
    if options.site:
        share_cache(options.site)
    if place is not None:
        outcome.written = write_packages(project, outcome.result, place, in_tree=False)
    if options.json:
        print_json("warm", json_of_outcome(outcome))
    elif not options.quiet:
        for line in outcome.summary():
            sys.stdout.write(f"cudabuild: {line}\n")
        if options.out:
            sys.stdout.write(f"cudabuild: found by kernels where CUDABUILD_ARCHIVES={os.path.abspath(options.out)}\n")
        if options.site:
            _tell_site(os.path.abspath(options.site))
    return 0


def _open_site(path: str) -> None:
    """Has everything compiled into a cache in ``path``, whatever is in other caches already.

    Raises:
        CudabuildError: it cannot be one.
        OSError: it cannot be made.
    """
    path = os.path.abspath(path)
    os.makedirs(path, exist_ok=True)
    reason = check_private(path) or ("" if os.access(path, os.W_OK) else "it is read-only")
    if reason:
        raise CudabuildError(
            f"{path} cannot be filled\n  found:    {reason}\n  expected: a folder that belongs to this user, and that "
            "nobody else may write to; or none, to make it"
        )
    config.set_variable("CUDABUILD_CACHE_DIR", path)
    config.set_variable("CUDABUILD_SITE_CACHE", None)


def _tell_site(path: str) -> None:
    sys.stdout.write(f"cudabuild: looked into where CUDABUILD_SITE_CACHE={path}\n")
    if hasattr(os, "geteuid") and os.geteuid() != 0:
        sys.stdout.write("cudabuild: other users refuse a cache of this user's: run this as root, or give it to root\n")


def _build(project: Project, settings: BuildSettings, discovery_is_written: bool, quiet: bool) -> Outcome:
    """Compiles into the user cache, from slices; where kernels are left to JIT that way, the package is imported.

    It is installed with what it needs, so that this mostly works, and gives what a program has.
    """
    from cudabuild.build.execute import run_build
    from cudabuild.build.job import Outcome
    from cudabuild.build.report import Meter

    meter = Meter(quiet=quiet)
    outcome = Outcome(settings, run_build(project, settings, meter))
    if not discovery_is_written and _has_leftovers(outcome.result):
        imported = replace(settings, discovery="import")
        other = run_build(project, imported, meter)
        if not other.errors and len(other.images) > len(outcome.result.images):
            outcome = Outcome(imported, other)
    outcome.seconds = meter.seconds
    return outcome


def _has_leftovers(result: BuildResult) -> bool:
    """Whether a kernel was left that an import may give: not for its own sake."""
    return any(kernel.left is not None and kernel.left.kind not in _OWN_FAULTS for kernel in result.kernels)


#: Reasons to leave a kernel to JIT that importing changes nothing about.
_OWN_FAULTS = frozenset({"foreign", "no-signature", "run-time", "stale", "unreadable"})


def _nothing(package: str, summary: list[str]) -> str:
    told = "\n".join(f"  {line}" for line in summary)
    return (
        f"no kernel of {package} could be compiled\n{told}\n"
        f"  do:       CUDABUILD_ADOPT={package} cudabuild record --out signatures.toml -- PROGRAM, then --signatures "
        "signatures.toml"
    )


def _find_place(options: argparse.Namespace, project: Project) -> Callable[[Artefacts], str] | None:
    """Where the archives go, None for nowhere; what is wrong with it is told before anything is compiled.

    Raises:
        CudabuildError: nothing can be written there.
    """
    if options.out:
        out = os.path.abspath(options.out)
        os.makedirs(out, exist_ok=True)
        return lambda artefacts: os.path.join(out, *artefacts.inside.split("/"))
    if not options.into_package:
        return None
    folder = project.root
    if not os.access(folder, os.W_OK):
        raise CudabuildError(
            f"nothing can be written beside {options.package}\n  found:    {folder}, which is read-only here\n"
            "  do:       --out DIR, and CUDABUILD_ARCHIVES=DIR where the kernels run; or leave both out, for the user "
            "cache"
        )
    return lambda artefacts: artefacts.in_tree


def find_installed(name: str) -> Project:
    """The modules of an installed package, from its files alone.

    Args:
        name: of a top-level package or module, or a dotted name inside of one: then only what is below it.

    Raises:
        CudabuildError: there is no such package, or none of its Python source.
    """
    top = name.partition(".")[0]
    try:
        spec = importlib.util.find_spec(top) if top.isidentifier() else None
    except (ImportError, ValueError):
        spec = None
    if spec is None:
        raise CudabuildError(
            f"no package {top!r} here\n  found:    none that {sys.executable} can import\n"
            "  expected: the name that 'import' takes of an installed package or module"
        )
    files: dict[str, ModuleFile] = {}
    locations = [os.path.abspath(location) for location in spec.submodule_search_locations or ()]
    for location in locations:
        _walk(location, top, files)
    if not locations and spec.origin is not None and spec.origin.endswith(".py"):
        files[top] = ModuleFile(top, os.path.abspath(spec.origin), False)
    parts = name.split(".")
    around = {".".join(parts[:end]) for end in range(1, len(parts) + 1)}
    inside = [one for one in files if one == name or one.startswith(f"{name}.")]
    if not inside:
        where = ", ".join(locations) or spec.origin or "no file"
        raise CudabuildError(
            f"no Python source of {name}\n  found:    {where}\n  expected: .py files, which kernels are compiled from"
        )
    root = locations[0] if locations else os.path.dirname(files[top].path)
    return Project(root, {one: file for one, file in files.items() if name == top or one in inside or one in around})


def find_modules(root: str | os.PathLike[str]) -> Project:
    """The modules below a folder that would be on ``sys.path``."""
    files: dict[str, ModuleFile] = {}
    _walk(os.path.abspath(root), "", files)
    return Project(os.path.abspath(root), files)


def _walk(folder: str, package: str, files: dict[str, ModuleFile]) -> None:
    """Adds the modules in a package's folder and in those below it."""
    around = f"{package}." if package else ""
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        stem, ending = os.path.splitext(entry.name)
        if entry.is_dir() and entry.name.isidentifier() and entry.name != "__pycache__":
            _walk(entry.path, around + entry.name, files)
        elif ending == ".py" and stem.isidentifier() and (package or stem != "__init__"):
            name = package if stem == "__init__" else around + stem
            files.setdefault(name, ModuleFile(name, entry.path, stem == "__init__"))


def _installed_modules() -> tuple[str, ...]:
    """The top-level names of everything that is installed: what a package takes from there is there where it runs."""
    return tuple(sorted(importlib.metadata.packages_distributions()))
