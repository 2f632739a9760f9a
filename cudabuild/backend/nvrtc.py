# SPDX-License-Identifier: Apache-2.0
"""CUDA C++ to relocatable PTX with NVRTC: the only module that uses it. Needed for kernels with such code alone.

Its PTX is of its own version, so it should be of nvJitLink's: that one is loaded by its path before the first call,
where NVIDIA's packages hold it, because cuda-bindings would otherwise take the newest.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
from typing import TYPE_CHECKING, Any

from cudabuild.errors import LinkedCodeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cudabuild.target import Target

__all__ = ["compile_source"]

#: Where NVIDIA's packages put the library, below the ``nvidia`` folder of a site-packages.
_PLACES = {
    12: ("cuda_nvrtc/lib/libnvrtc.so.12", "cuda_nvrtc/bin/nvrtc64_120_0.dll"),
    13: ("cu13/lib/libnvrtc.so.13", "cu13/bin/x86_64/nvrtc64_130_0.dll"),
}
_REQUIREMENTS = {12: "'nvidia-cuda-nvrtc-cu12>=12.9'", 13: "'nvidia-cuda-nvrtc>=13'"}


def compile_source(source: bytes, name: str, target: Target, major: int, folders: Sequence[str] = ()) -> bytes:
    """The PTX of CUDA C++ for the virtual architecture of ``target``.

    Args:
        source: the text.
        name: of the file, for messages, and for what it includes beside it.
        target: what the kernel is linked for.
        major: the version of the linker, 12 or 13.
        folders: further ones to look for headers in.

    Raises:
        LinkedCodeError: NVRTC is missing, or refuses the text; with its log.
    """
    nvrtc = _load(major)
    flags = [
        f"--gpu-architecture=compute_{target.cc[0]}{target.cc[1]}{target.suffix}",
        "--relocatable-device-code=true",
        "--std=c++17",
        *(f"--include-path={folder}" for folder in _folders(name, folders)),
    ]
    program = _checked(nvrtc, nvrtc.nvrtcCreateProgram(source, name.encode(), 0, [], []))
    try:
        (status,) = nvrtc.nvrtcCompileProgram(program, len(flags), [flag.encode() for flag in flags])
        if int(status):
            log = bytearray(_checked(nvrtc, nvrtc.nvrtcGetProgramLogSize(program)))
            nvrtc.nvrtcGetProgramLog(program, log)
            text = log.rstrip(bytes(1)).decode(errors="replace").strip()
            raise LinkedCodeError(f"NVRTC cannot compile {name} for {target.name}\n{text}")
        ptx = bytearray(_checked(nvrtc, nvrtc.nvrtcGetPTXSize(program)))
        _checked(nvrtc, nvrtc.nvrtcGetPTX(program, ptx))
    finally:
        nvrtc.nvrtcDestroyProgram(program)
    return bytes(ptx)


def _load(major: int) -> Any:
    spec = importlib.util.find_spec("nvidia")
    folders = spec.submodule_search_locations or () if spec is not None else ()
    paths = [os.path.join(folder, *place.split("/")) for folder in folders for place in _PLACES[major]]
    try:
        for path in paths:
            if os.path.exists(path):
                ctypes.CDLL(path)
                break
        from cuda.bindings import nvrtc

        nvrtc.nvrtcVersion()
    except Exception as error:
        # cuda-bindings raises RuntimeError or cuda-pathfinder's own classes, by version
        raise LinkedCodeError(
            f"CUDA C++ that is linked into a kernel needs NVRTC, which was not found ({type(error).__name__})\n"
            f"  do:       pip install {_REQUIREMENTS[major]}, or link PTX or an object made by nvcc"
        ) from None
    return nvrtc


def _checked(nvrtc: Any, answer: tuple[Any, ...]) -> Any:
    status, *values = answer
    if int(status):
        raise LinkedCodeError(f"NVRTC failed: {nvrtc.nvrtcGetErrorString(status)[1].decode()}")
    return values[0] if values else None


def _folders(name: str, further: Sequence[str]) -> list[str]:
    """Where headers are looked for: beside the file, what the user names, and CUDA's own."""
    found = [os.path.dirname(os.path.abspath(name))] if os.path.dirname(name) else []
    found += further
    try:
        from cuda.pathfinder import find_nvidia_header_directory

        cudart = find_nvidia_header_directory("cudart")
    except (ImportError, RuntimeError):  # an older cuda-pathfinder: only code that includes the headers misses them
        cudart = None
    return [*found, cudart] if cudart else found
