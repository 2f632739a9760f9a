# SPDX-License-Identifier: Apache-2.0
"""Shows what is here: Python, tools and where they were found, driver and GPUs, the cache, the settings in force.

Given packages or wheels, also which image each of their kernels would load here, or on the device that --device names;
then the status is 1 if a kernel would load none. Packages are not imported.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from cudabuild import config
from cudabuild.build.native import find_gpus, find_tools
from cudabuild.cache.upkeep import Layer, find_layers, measure
from cudabuild.cli.output import add_json_argument, count, format_rows, json_of_settings, print_json
from cudabuild.cli.project import is_project
from cudabuild.errors import CudabuildError, TargetError
from cudabuild.image.image import DeviceInfo
from cudabuild.image.provider import format_driver
from cudabuild.importer.listing import find_shipped
from cudabuild.importer.loads import Load, find_loads
from cudabuild.target import format_cc

__all__ = ["PACKAGES", "add_arguments", "format_facts", "gather_facts", "run"]

#: Distribution -> what it is for.
PACKAGES = {
    "cudabuild": "",
    "numpy": "arrays",
    "cuda-bindings": "launches on GPUs",
    "llvmlite": "compiles: extra 'cpu'",
    "nvidia-nvvm": "libdevice, for math functions: extra 'jit'",
    "nvidia-nvjitlink-cu12": "makes cubins: extra 'build'",
    "nvidia-nvjitlink": "makes cubins for drivers from 580 on: extra 'build13'",
    "setuptools": "builds packages: extra 'build'",
    "filelock": "the cache",
    "platformdirs": "the cache",
}

#: Where no driver is named, one that knows everything.
_ANY_DRIVER = 1 << 30


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.add_argument("packages", nargs="*", metavar="PACKAGE", help="an installed package, a wheel or an archive")
    parser.add_argument(
        "--device", metavar="CC", action="append", help="compute capability of a device to ask for, such as 9.0"
    )
    parser.add_argument(
        "--driver", metavar="VERSION", help="the CUDA version of its driver, such as 12.9 (default: any)"
    )
    add_json_argument(parser)


def run(options: argparse.Namespace) -> int:
    """Prints what is here."""
    facts = gather_facts(options.packages, options.device or [], options.driver)
    if options.json:
        print_json("doctor", facts)
    else:
        print("\n".join(format_facts(facts)))
    return 1 if any(not kernel["target"] for one in facts["kernels"] for kernel in one["loads"]) else 0


def gather_facts(packages: Sequence[str] = (), ccs: Sequence[str] = (), driver: str | None = None) -> dict[str, Any]:
    """Everything that ``doctor`` tells; see ``schemas/doctor.json``.

    Args:
        packages: whose kernels to ask for.
        ccs: compute capabilities of devices, in place of those of this machine.
        driver: the CUDA version of their driver.

    Raises:
        CudabuildError: a package ships nothing, or a device cannot be read.
    """
    problems: list[str] = []
    gpus = find_gpus()
    devices = [
        DeviceInfo((device["cc"][0], device["cc"][1]), gpus["version"], device["name"]) for device in gpus["devices"]
    ]
    if ccs:
        version = _ANY_DRIVER if driver is None else _parse_version(driver)
        asked = [DeviceInfo(_parse_cc(text), version, f"a device of compute capability {text}") for text in ccs]
    else:
        asked = devices
    if packages and not asked:
        problems.append(f"no GPU here to load the kernels of {', '.join(packages)}: name a device, as in --device 9.0")
    return {
        "python": {
            "version": platform.python_version(),
            "implementation": platform.python_implementation(),
            "executable": sys.executable,
            "platform": platform.platform(),
        },
        "packages": [
            {"name": name, "version": _find_version(name), "purpose": purpose} for name, purpose in PACKAGES.items()
        ],
        "tools": find_tools(),
        "driver": {"version": gpus["version"], "reason": gpus.get("error") or gpus["reason"]},
        "devices": [{"name": device.name, "cc": format_cc(device.cc)} for device in devices],
        "cache": _describe_cache(problems),
        "environment": _describe_environment(problems),
        "settings": _describe_settings(problems),
        "kernels": [_describe_loads(package, device) for package in packages for device in asked],
        "problems": _each_once(problems),
    }


def _each_once(problems: list[str]) -> list[str]:
    return list(dict.fromkeys(problems))


def _find_version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _describe_cache(problems: list[str]) -> dict[str, Any]:
    try:
        user, *sites = find_layers()
    except CudabuildError as error:
        user, sites = Layer("", "user", "refused", str(error).partition("\n")[0]), []
    files, size = measure(user.path)
    writable = user.state in ("ready", "absent")
    if not writable:
        reason = user.reason or "it is read-only"
        problems.append(
            f"the cache {user.path or '(no folder)'} is not used: {reason}; set CUDABUILD_CACHE_DIR to a folder"
        )
    for site in sites:
        if not site.is_read:
            problems.append(f"the site cache {site.path} is not used: {site.reason or 'there is none'}")
    return {"path": user.path or None, "bytes": size, "files": files, "writable": writable}


def _describe_environment(problems: list[str]) -> list[dict[str, str]]:
    problems += config.find_unknown_variables()
    given = config.all_variables("CUDABUILD_")
    for setting in config.SETTINGS:
        if given.get(setting.variable, "").strip():
            try:
                config.get(setting.name)
            except CudabuildError as error:
                problems.append(str(error))
    return [{"variable": variable, "value": value} for variable, value in given.items()]


def _describe_settings(problems: list[str]) -> list[dict[str, str]]:
    """What a build in this folder would go by."""
    if not is_project("."):
        return []
    from cudabuild.build.settings import load_settings

    try:
        return json_of_settings(load_settings(os.getcwd()))
    except CudabuildError as error:
        problems.append(str(error))
        return []


def _describe_loads(package: str, device: DeviceInfo) -> dict[str, Any]:
    shipped = find_shipped(package)
    return {
        "package": package,
        "device": device.name,
        "cc": format_cc(device.cc),
        "loads": [_json_of_load(load) for load in find_loads(shipped.archives, device)],
        "left_to_jit": [left.as_entry() for left in shipped.left],
    }


def _json_of_load(load: Load) -> dict[str, Any]:
    return {
        "module": load.module,
        "qualname": load.qualname,
        "signature": load.signature,
        "target": load.target or None,
        "kind": load.kind or None,
        "index_widths": list(load.index_widths),
        "reasons": load.reasons,
    }


def _parse_cc(text: str) -> tuple[int, int]:
    number = text.strip().lower().removeprefix("sm_").replace(".", "")
    if not (number.isascii() and number.isdigit() and 2 <= len(number) <= 3):
        raise TargetError(f"bad --device\n  found:    {text!r}\n  expected: a compute capability such as 9.0")
    return int(number[:-1]), int(number[-1])


def _parse_version(text: str) -> int:
    major, _, minor = text.partition(".")
    if not (major.isascii() and major.isdigit() and (minor or "0").isascii() and (minor or "0").isdigit()):
        raise TargetError(f"bad --driver\n  found:    {text!r}\n  expected: a CUDA version such as 12.9")
    return int(major) * 1000 + int(minor or "0") * 10


def format_facts(facts: dict[str, Any]) -> list[str]:
    """What :func:`gather_facts` found, as lines."""
    lines: list[str] = []
    for title, rows in _sections(facts):
        if rows:
            lines += ["", title, *format_rows(rows, indent="  ")]
    for one in facts["kernels"]:
        lines += ["", f"kernels of {one['package']} on {one['device']} ({one['cc']})"]
        rows = []
        for load in one["loads"]:
            name = f"{load['module']}.{load['qualname']}({load['signature']})"
            widths = " and ".join(f"{width}-bit" for width in load["index_widths"])
            what = f"{load['kind']} {load['target']}, {widths} indices" if load["target"] else "nothing"
            rows.append([name, what])
            if not load["target"]:
                rows += [["", reason] for reason in load["reasons"]]
        lines += format_rows(rows, indent="  ")
        lines += [
            f"  {left['module']}.{left['qualname']}: left to JIT: {left['file']}:{left['line']}: {left['reason']}"
            for left in one["left_to_jit"]
        ]
    if facts["problems"]:
        lines += ["", count(len(facts["problems"]), "problem")]
        lines += [f"  {line}" for problem in facts["problems"] for line in problem.splitlines()]
    return lines[1:]


def _sections(facts: dict[str, Any]) -> Iterator[tuple[str, list[list[str]]]]:
    python, tools, driver = facts["python"], facts["tools"], facts["driver"]
    yield (
        "python",
        [[f"{python['implementation']} {python['version']}", python["executable"]], [python["platform"]]],
    )
    yield "packages", [[one["name"], one["version"] or "not installed", one["purpose"]] for one in facts["packages"]]
    rows = [["LLVM", tools["llvm"] or tools["llvm_error"].partition("\n")[0]]]
    for linker in tools["nvjitlink"]:
        rows.append(["nvJitLink", linker["error"] or linker["version"], "" if linker["error"] else linker["path"]])
    rows.append(["libdevice", tools["libdevice"] or "not found"])
    yield "tools", rows
    version = f"for CUDA {format_driver(driver['version'])}" if driver["version"] else f"none: {driver['reason']}"
    devices = [
        [f"device {number}", f"{one['name']}, compute capability {one['cc']}"]
        for number, one in enumerate(facts["devices"])
    ]
    yield "GPU", [["driver", version], *devices]
    cache = facts["cache"]
    size = f"{count(cache['files'], 'file')}, {cache['bytes'] / 1e6:.1f} MB"
    yield "cache", [[cache["path"] or "none", size + ("" if cache["writable"] else ", cannot be written")]]
    rows = [[one["variable"], one["value"], "from the environment"] for one in facts["environment"]]
    rows += [[one["key"], one["value"], f"from {one['origin']}"] for one in facts["settings"]]
    yield "settings", rows or [["none set"]]
