# SPDX-License-Identifier: Apache-2.0
"""Lists of architectures as other tools write them, in the words of our own grammar (``target.parse_archs``).

======================  ==============================  =====================================
written                 ``CUDAARCHS`` (CMake)           ``TORCH_CUDA_ARCH_LIST`` (torch)
======================  ==============================  =====================================
a bare number           ``80``: cubin and PTX           ``8.0``: cubin
cubin alone             ``80-real``                     ``8.0``
PTX besides             ``80``                          ``8.0+PTX``
PTX alone               ``80-virtual``                  not to be had
separator               ``;``                           ``;`` or space
words                   all, all-major, native          native, and names such as Ampere
======================  ==============================  =====================================
"""

from __future__ import annotations

import re
from collections.abc import Callable

from cudabuild.errors import SettingError, nearest_name

__all__ = ["FOREIGN_LISTS", "translate_cmake", "translate_torch"]

_CMAKE_ENTRY = re.compile(r"[0-9]+[af]?(-real|-virtual)?")
_TORCH_ENTRY = re.compile(r"[0-9]+\.[0-9]+a?(\+PTX)?")

#: The names that torch 2.14 knows (torch/utils/cpp_extension.py, _get_cuda_arch_flags).
_TORCH_NAMES = {
    "Kepler+Tesla": "3.7",
    "Kepler": "3.5+PTX",
    "Maxwell+Tegra": "5.3",
    "Maxwell": "5.0;5.2+PTX",
    "Pascal": "6.0;6.1+PTX",
    "Volta+Tegra": "7.2",
    "Volta": "7.0+PTX",
    "Turing": "7.5+PTX",
    "Ampere+Tegra": "8.7",
    "Ampere": "8.0;8.6+PTX",
    "Ada": "8.9+PTX",
    "Hopper": "9.0+PTX",
    "Blackwell+Tegra": "11.0",
    "Blackwell": "10.0;10.3;12.0;12.1+PTX",
}


def translate_cmake(text: str) -> tuple[list[str], str]:
    """``CUDAARCHS`` in our words, and the PTX that comes besides: ``"newest"`` or ``"none"``.

    Raises:
        SettingError: not what CMake accepts.
    """
    words = [word.strip() for word in text.split(";") if word.strip()]
    if words in (["all"], ["all-major"]):
        return words, "newest"  # nvcc adds the PTX of the newest
    if words == ["native"]:
        return words, "none"
    found = []
    for word in words:
        if not _CMAKE_ENTRY.fullmatch(word):
            raise _error(
                "CUDAARCHS",
                word,
                "CMake's numbers, separated by ';': 80 for a cubin and PTX, 80-real for a cubin, 80-virtual for PTX; "
                "or one of all, all-major, native",
                ["all", "all-major", "native"],
            )
        found.append(word if word.endswith(("-real", "-virtual")) else f"{word}+PTX")
    return found, "none"


def translate_torch(text: str) -> tuple[list[str], str]:
    """``TORCH_CUDA_ARCH_LIST`` in our words, and the PTX that comes besides: ``"newest"`` or ``"none"``.

    Raises:
        SettingError: not what torch accepts.
    """
    words = text.replace(" ", ";").split(";")
    words = [part for word in words if word for part in _TORCH_NAMES.get(word, word).split(";")]
    if words == ["native"]:
        return words, "newest"  # torch adds the PTX of the last
    for word in words:
        if not _TORCH_ENTRY.fullmatch(word):
            raise _error(
                "TORCH_CUDA_ARCH_LIST",
                word,
                f"torch's versions, separated by ';' or spaces: 8.0 for a cubin, 8.0+PTX for a cubin and PTX; "
                f"native alone; or a name: {', '.join(_TORCH_NAMES)}",
                [*_TORCH_NAMES, "native"],
            )
    return words, "none"


def _error(variable: str, word: str, expected: str, words: list[str]) -> SettingError:
    lines = [
        f"bad value of the environment variable {variable}",
        f"  found:    {word!r}",
        f"  expected: {expected}",
    ]
    near = nearest_name(word, words)
    hint = f"did you mean {near!r}? Or " if near else ""
    lines.append(f"  do:       {hint}set CUDABUILD_ARCHS, which counts before it")
    return SettingError("\n".join(lines))


#: The variables that ``arch-variables`` may name.
FOREIGN_LISTS: dict[str, Callable[[str], tuple[list[str], str]]] = {
    "CUDAARCHS": translate_cmake,
    "TORCH_CUDA_ARCH_LIST": translate_torch,
}
