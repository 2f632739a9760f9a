# SPDX-License-Identifier: Apache-2.0
"""PTX to cubin with nvJitLink: the only module that uses it.

One major version of nvJitLink serves a process. Its version 12 (from 12.9 on) is taken unless a target needs 13: its
cubins load on 12.x and 13.x drivers, those of 13 only from driver 580 on. Where both are installed (torch brings 13)
the chosen library is loaded by its path before the first call, because cuda-bindings would otherwise take 13 silently.

nvJitLink assembles as ``ptxas -c`` does: without launch bounds it aims at 32 registers, and of a shared array it knows
only the declared alignment.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import re
import threading
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from cudabuild.backend import libdevice, llvm, nvrtc
from cudabuild.cuda import config as switches
from cudabuild.errors import LinkedCodeError, ToolError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cudabuild.definition import Options
    from cudabuild.linking import LinkableCode
    from cudabuild.target import Target

__all__ = [
    "CubinResult", "choose_linker", "find_files", "find_linker", "find_loaded", "installed_linkers", "link_cubin",
    "linker_major", "prepare_links", "toolchain",
]  # fmt: skip

#: Where NVIDIA's packages put the library, below the ``nvidia`` folder of a site-packages.
_PLACES = {
    12: ("nvjitlink/lib/libnvJitLink.so.12", "nvjitlink/bin/nvJitLink_120_0.dll"),
    13: ("cu13/lib/libnvJitLink.so.13", "cu13/bin/x86_64/nvJitLink_130_0.dll"),
}
_PACKAGES = {12: "nvidia-nvjitlink-cu12", 13: "nvidia-nvjitlink"}
_REQUIREMENTS = {12: "'nvidia-nvjitlink-cu12>=12.9'", 13: "'nvidia-nvjitlink>=13'"}

#: What the assembler reports of an entry, in the log of ``-verbose``.
_USAGE = {
    "registers": re.compile(r"Used (\d+) registers"),
    "shared_bytes": re.compile(r"Used .*?(\d+) bytes smem"),
    "local_bytes": re.compile(r"(\d+) bytes stack frame"),
    "spill_store_bytes": re.compile(r"(\d+) bytes spill stores"),
    "spill_load_bytes": re.compile(r"(\d+) bytes spill loads"),
    "barriers": re.compile(r"Used .*?used (\d+) barriers"),
}
#: nvJitLink itself knows only two levels; the assembler inside knows four.
_LEVELS = {0: ("-O0",), 1: ("-Xptxas=-O1",), 2: ("-Xptxas=-O2",), 3: ("-O3",)}

#: nvJitLink's names of what it takes.
_INPUTS = {
    "ptx": "PTX", "cubin": "CUBIN", "fatbin": "FATBIN", "object": "OBJECT", "archive": "LIBRARY", "ltoir": "LTOIR",
}  # fmt: skip

_lock = threading.Lock()


@dataclass(frozen=True)
class CubinResult:
    """A cubin, the linker's log, the resources of the kernel, and the linker's version."""

    data: bytes
    log: str
    usage: dict[str, int]
    version: tuple[int, int]


_chosen: int | None = None


def choose_linker(major: int | None) -> None:
    """Has this process load one major version of nvJitLink, whatever its targets; None: what they need."""
    global _chosen
    _chosen = major


def linker_major(target: Target, wanted: int | None = None) -> int:
    """The major version of nvJitLink that a process linking for ``target`` loads: 12 unless only 13 will do.

    Args:
        target: a cubin target.
        wanted: the major version to take whatever is installed; what :func:`choose_linker` chose by default.
    """
    wanted = wanted or _chosen
    if wanted is not None:
        return wanted
    installed = _installed()
    return 12 if target.linker[0] <= 12 and (_is_usable(12) or 13 not in installed) else 13


def installed_linkers() -> dict[int, str]:
    """Major version -> full version (as far as it is known) of the nvJitLink packages found, without loading any."""
    return {major: _package_version(major) or str(major) for major in sorted(_installed())}


def find_files() -> list[str]:
    """The libraries that NVIDIA's packages hold."""
    return sorted(_installed().values())


def find_loaded() -> str | None:
    """The path of the nvJitLink that this process has loaded, wherever that came from; None if that cannot be told."""
    if _version is None:
        return None
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as stream:
            paths = [line.split(maxsplit=5)[-1].strip() for line in stream if "nvJitLink" in line]
    except OSError:  # not Linux
        return _installed().get(_version[0])
    return paths[0] if paths else None


def _is_usable(major: int) -> bool:
    """Whether NVIDIA's package of a major version is there and new enough: 12.8 lacks targets that 12.9 has."""
    if major not in _installed():
        return False
    words = (_package_version(major) or "").split(".")
    return not (words[0].isdigit() and len(words) > 1 and words[1].isdigit()) or (int(words[0]), int(words[1])) >= (
        (12, 9) if major == 12 else (13, 0)
    )


def find_linker(target: Target) -> tuple[int, int]:
    """Loads nvJitLink, if no target has yet, and returns its version.

    Raises:
        ToolError: it is missing, or the one this process has loaded is too old for ``target``; says what to install.
    """
    version = _load(linker_major(target))
    if _chosen is not None and version[0] != _chosen:
        raise ToolError(
            f"nvjitlink = {_chosen} asks for nvJitLink {_chosen}; found {_dotted(version)}: "
            f"pip install {_REQUIREMENTS[_chosen]}"
        )
    if version < target.linker:
        wanted = target.linker[0]
        if wanted in _installed() and version[0] != wanted:
            raise ToolError(
                f"{target.name} needs nvJitLink {wanted}, and this process has loaded nvJitLink "
                f"{_dotted(version)} already; one process holds one: compile {target.name} in a process of its own"
            )
        raise ToolError(
            f"{target.name} needs nvJitLink {_dotted(target.linker)} or newer; found {_dotted(version)}: "
            f"pip install {_REQUIREMENTS[wanted]}"
        )
    return version


def link_cubin(
    ptx: str, target: Target, options: Options, name: str = "kernel", links: Sequence[LinkableCode] = ()
) -> CubinResult:
    """Assembles ``ptx`` for ``target``, and links it with foreign code.

    Args:
        ptx: of ``target``, or of a target that it covers.
        target: a cubin target.
        options: ``opt``, ``lineinfo`` and ``max_registers`` count here.
        name: names the input in messages.
        links: foreign code.

    Raises:
        ToolError: nvJitLink is missing, or refuses; with its log.
    """
    version = find_linker(target)
    from cuda.bindings import nvjitlink

    foreign = prepare_links(links, target)

    flags = [f"-arch={target.processor}", "-verbose", *_LEVELS[options["opt"]]]
    if options["lineinfo"]:
        flags.append("-lineinfo")
    if options["max_registers"] is not None:
        flags.append(f"-maxrregcount={options['max_registers']}")
    if any(kind == "ltoir" for kind, _, _ in foreign):
        flags.append("-lto")
    text = ptx.encode()
    try:
        handle = nvjitlink.create(len(flags), flags)
    except nvjitlink.nvJitLinkError as error:
        raise ToolError(f"nvJitLink {_dotted(version)} refuses {' '.join(flags)}: {error}") from error
    try:
        nvjitlink.add_data(handle, nvjitlink.InputType.PTX, text, len(text), name)
        for kind, data, label in foreign:
            nvjitlink.add_data(handle, getattr(nvjitlink.InputType, _INPUTS[kind]), data, len(data), label)
        nvjitlink.complete(handle)
        linked = bytearray(nvjitlink.get_linked_cubin_size(handle))
        nvjitlink.get_linked_cubin(handle, linked)
        log = _read(nvjitlink.get_info_log_size, nvjitlink.get_info_log, handle)
    except nvjitlink.nvJitLinkError as error:
        log = _read(nvjitlink.get_error_log_size, nvjitlink.get_error_log, handle)
        what = f"assemble {name}" if not foreign else f"link {name} with {', '.join(label for _, _, label in foreign)}"
        raise (LinkedCodeError if foreign else ToolError)(
            f"nvJitLink {_dotted(version)} cannot {what} for {target.name}: {log or error}"
        ) from error
    finally:
        nvjitlink.destroy(handle)
    return CubinResult(bytes(linked), log, _read_usage(log, name), version)


def prepare_links(links: Sequence[LinkableCode], target: Target) -> list[tuple[str, bytes, str]]:
    """Foreign code as a linker takes it: its kind, its bytes, its name. CUDA C++ is compiled to PTX.

    Raises:
        LinkedCodeError: it cannot be read or compiled.
    """
    found = []
    for link in links:
        data = link.read()
        if link.kind == "cu":
            paths = switches.CUDA_NVRTC_EXTRA_SEARCH_PATHS
            folders = [path for path in paths.split(os.pathsep) if path]
            data = nvrtc.compile_source(data, link.name, target, linker_major(target), folders)
        found.append(("ptx" if link.kind == "cu" else link.kind, data, link.name))
    return found


def toolchain(target: Target) -> dict[str, str]:
    """Label -> version of every tool that makes an image for ``target``: part of the image key.

    Raises:
        ToolError: llvmlite, or for a cubin nvJitLink, is missing.
    """
    tools = {"llvmlite": llvm.find_version(), "libdevice": libdevice.find_digest() or "none"}
    if not target.is_ptx:
        version = find_linker(target)
        tools["nvjitlink"] = _package_version(version[0]) or _dotted(version)
    return tools


def _read(size_of: Any, read: Any, handle: int) -> str:
    buffer = bytearray(size_of(handle))
    if buffer:
        read(handle, buffer)
    return buffer.rstrip(b"\0").decode(errors="replace").strip()


def _read_usage(log: str, name: str) -> dict[str, int]:
    """Resources by name of the kernel ``name``; what the log does not mention is 0."""
    start = log.find(f"'{name}'")  # behind what foreign functions use
    log = log[max(start, 0) :]
    found = {label: pattern.search(log) for label, pattern in _USAGE.items()}
    return {label: int(match[1]) if match else 0 for label, match in found.items()}


def _dotted(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


@cache
def _folders() -> tuple[str, ...]:
    """The folders of the ``nvidia`` namespace package."""
    spec = importlib.util.find_spec("nvidia")
    return tuple(spec.submodule_search_locations or ()) if spec is not None else ()


@cache
def _installed() -> dict[int, str]:
    """Major version -> path of the library, where NVIDIA's Python packages hold it."""
    found: dict[int, str] = {}
    for folder in _folders():
        for major, places in _PLACES.items():
            for place in places:
                path = os.path.join(folder, *place.split("/"))
                if major not in found and os.path.exists(path):
                    found[major] = path
    return found


@cache
def _package_version(major: int) -> str | None:
    """The full version of the package that holds the library (``12.9.86``), from the name of its metadata folder."""
    prefix = _PACKAGES[major].replace("-", "_") + "-"
    path = _installed().get(major, "")
    for folder in _folders():
        if path.startswith(folder):
            for entry in os.listdir(os.path.dirname(folder)):
                if entry.startswith(prefix) and entry.endswith(".dist-info"):
                    return entry[len(prefix) : -len(".dist-info")]
    return None


_version: tuple[int, int] | None = None


def _load(major: int) -> tuple[int, int]:
    """Loads nvJitLink ``major``, unless one is loaded; returns the version of the one that is."""
    global _version
    with _lock:
        if _version is None:
            try:
                from cuda.bindings import nvjitlink
            except ImportError as error:
                raise ToolError(
                    f"making a cubin needs cuda-bindings, which cannot be imported ({error}): pip install cuda-bindings"
                ) from error
            path = _installed().get(major)
            if path is not None:
                try:
                    ctypes.CDLL(path)
                except OSError as error:
                    raise ToolError(
                        f"nvJitLink cannot be loaded: {error}: pip install --force-reinstall {_REQUIREMENTS[major]}"
                    ) from error
            try:
                _version = tuple(nvjitlink.version())
            except Exception as error:
                # cuda-bindings raises RuntimeError or cuda-pathfinder's own classes, by version
                raise ToolError(
                    f"making a cubin needs nvJitLink, and it was not found: pip install {_REQUIREMENTS[major]} "
                    "(the extra 'cudabuild[build]')"
                ) from error
        return _version
