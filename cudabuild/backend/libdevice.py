# SPDX-License-Identifier: Apache-2.0
"""libdevice, NVIDIA's mathematical functions as bitcode: exactly the functions that a module calls, as text.

Before: a module that calls ``@__nv_sinf``. After: its definition and those of what it needs, internal, with the
questions it asks of the compiler (``__nvvm_reflect``) answered. The bitcode is parsed once per process and each
function printed once; linking the whole library into every module and deleting 348 of 349 functions again costs
15 ms a kernel.
"""

from __future__ import annotations

import importlib.util
import os
import re
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING

from cudabuild.backend import llvm
from cudabuild.errors import ToolError

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["INTRINSICS", "Libdevice", "find_digest", "find_libdevice", "function_name"]

#: Functions that LLVM selects itself, exactly as libdevice defines them, by the names of its intrinsics.
INTRINSICS = {
    **{name: name for name in ("floor", "ceil", "trunc", "rint", "copysign", "fma", "sqrt")},
    "fmin": "minimumnum",
    "fmax": "maximumnum",
}

#: float32 functions with an approximate twin, used under fastmath (as ``nvcc -use_fast_math`` does).
_FAST = {
    "sin": "fast_sinf", "cos": "fast_cosf", "tan": "fast_tanf", "exp": "fast_expf", "exp10": "fast_exp10f",
    "log": "fast_logf", "log2": "fast_log2f", "log10": "fast_log10f", "pow": "fast_powf", "tanh": "fast_tanhf",
}  # fmt: skip


def function_name(function: str, type: str, *, fastmath: bool) -> str | None:
    """The libdevice function that computes ``function`` of ``ir.ops.MATH``; None where LLVM has it itself.

    ``type``: the LLVM type of its operands, ``float`` or ``double``.
    """
    if function in INTRINSICS:
        return None
    if type != "float":
        return f"__nv_{function}"
    return f"__nv_{(_FAST.get(function) if fastmath else None) or function + 'f'}"


_REFERENCE = re.compile(r"@([\w.]+)")
_REFLECT = re.compile(r"call i32 @__nvvm_reflect\(ptr (@[\w.]+)\)")
_DECLARED = re.compile(r"^declare ", re.MULTILINE)
#: Attribute groups and metadata of the bitcode's own module, and the comments that LLVM prints.
_NOISE = re.compile(r" #\d+|, !(?:srcloc|llvm\.loop) !\d+|^;.*\n|[ \t]*; preds = .*", re.MULTILINE)
_STRUCT = re.compile(r"%(struct\.[\w.]+)")


class Libdevice:
    """The functions of one libdevice file."""

    def __init__(self, data: bytes) -> None:
        self._library = llvm.read_bitcode(data)
        self._structs = {name: re.sub(r"^%\S+ = type ", "", text) for name, text in self._library.structs.items()}
        self._memo: dict[tuple[str, bool], tuple[str, tuple[str, ...]]] = {}

    def extract(self, names: Iterable[str], *, fastmath: bool = False) -> str:
        """LLVM text that defines ``names`` and everything they reach, all of it internal.

        Raises:
            ToolError: the library has no function of that name.
        """
        return "\n".join(self.collect(names, fastmath=fastmath).values())

    def collect(self, names: Iterable[str], *, fastmath: bool = False) -> dict[str, str]:
        """What :meth:`extract` joins, by name: definitions, and declarations of intrinsics.

        Raises:
            ToolError: the library has no function of that name.
        """
        parts: dict[str, str] = {}
        waiting = sorted(names, reverse=True)
        while waiting:
            name = waiting.pop()
            if name not in parts:
                key = (name, fastmath)
                if key not in self._memo:
                    self._memo[key] = self._read(name, fastmath)
                parts[name], needs = self._memo[key]
                waiting += reversed(needs)
        return parts

    def _read(self, name: str, fastmath: bool) -> tuple[str, tuple[str, ...]]:
        variable = self._library.variable(name)
        if variable is not None:
            return variable, ()
        try:
            text = self._library.function(name)
        except KeyError:
            raise ToolError(f"libdevice has no function {name}: update nvidia-nvvm") from None
        noinline = "noinline" in text.split("define", 1)[0]
        text = _REFLECT.sub(lambda found: f"or i32 {self._answer(found[1], fastmath)}, 0", text)
        text = _STRUCT.sub(lambda found: self._structs[found[1]], _NOISE.sub("", text))
        needs = tuple(dict.fromkeys(found for found in _REFERENCE.findall(text) if found != name))
        if _DECLARED.search(text):
            return text, ()
        # the caller's treatment of denormals, else LLVM will not inline one into the other
        ftz = ' "denormal-fp-math-f32"="preserve-sign,preserve-sign"' if fastmath else ""
        attributes = f"{'noinline' if noinline else 'alwaysinline'} nounwind{ftz}"
        head, body = text.split("{\n", 1)
        head = head.replace("define internal ", "define ").replace("define ", "define internal ").rstrip()
        return f"{head} {attributes} {{\n{body}", needs

    def _answer(self, variable: str, fastmath: bool) -> int:
        """What ``__nvvm_reflect`` says. LLVM's own pass answers 0 to ``__CUDA_PREC_SQRT``: sqrt.approx, silently."""
        text = self._library.variable(variable[1:]) or ""
        if "__CUDA_PREC_SQRT" in text:
            return int(not fastmath)
        if "__CUDA_FTZ" in text:
            return int(fastmath)
        if "__CUDA_ARCH" in text:
            # One answer for all targets, so that they share a module; what libdevice asks at or above 7.5 is only
            # which of two equal algorithms to take.
            return 750
        raise ToolError(f"libdevice asks the compiler an unknown question: {text}")


def _find_path() -> str | None:
    """The file's place: the nvidia-nvvm package, a CUDA toolkit, conda."""
    # The package is looked up on sys.path first: cuda-pathfinder looks into the interpreter's site-packages only, and
    # an isolated build environment lies elsewhere.
    packaged = _find_packaged()
    if packaged is not None:
        return packaged
    try:
        from cuda.pathfinder import find_bitcode_lib
    except ImportError:
        return None
    try:
        return str(find_bitcode_lib("device"))
    except Exception as error:
        # cuda-pathfinder's "not found" classes vary between its versions; any other fault is not ours to hide
        if "NotFound" not in type(error).__name__ and not isinstance(error, FileNotFoundError):
            raise
        return None


def _find_packaged() -> str | None:
    """The file in one of NVIDIA's Python packages (``nvidia/cu13/nvvm/libdevice/``), wherever they are importable."""
    spec = importlib.util.find_spec("nvidia")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        for part in sorted(os.listdir(folder), reverse=True) if os.path.isdir(folder) else ():
            path = os.path.join(folder, part, "nvvm", "libdevice", "libdevice.10.bc")
            if os.path.exists(path):
                return path
    return None


def find_files() -> list[str]:
    """The file, as a list of one; empty where there is no libdevice."""
    path = _find_path()
    return [] if path is None else [path]


def _missing() -> ToolError:
    return ToolError(
        "mathematical functions need libdevice, and it was not found: pip install nvidia-nvvm (the extra "
        "'cudabuild[jit]'), or point CUDA_HOME at a CUDA toolkit"
    )


@cache
def _read_file() -> bytes:
    path = _find_path()
    if path is None or not os.path.exists(path):
        raise _missing()
    with open(path, "rb") as file:
        return file.read()


@cache
def find_libdevice() -> Libdevice:
    """The process's libdevice. ToolError, with the command that installs it, if there is none."""
    return Libdevice(_read_file())


@cache
def find_digest() -> str | None:
    """The first 16 hexadecimal digits of the file's SHA-256, for the image key; None if there is no libdevice."""
    try:
        return sha256(_read_file()).hexdigest()[:16]
    except ToolError:
        return None
