# SPDX-License-Identifier: Apache-2.0
"""How many instructions a compiler hands to LLVM, by kernel. Started by ``bench_compile.py``, once for each compiler.

    ir_counts.py cudabuild|numba sample
    ir_counts.py cudabuild|numba PROJECT FILE NAME ROOT

``sample`` stands for the eight kernels of the sample; the others name a kernel of ``tests/wild``, its project unpacked
in ROOT. Instructions are counted in what LLVM is given for sm_80, before any optimisation, without what comes from
libdevice. Answers with one JSON object on the last line: kernel -> instructions. With ``numba`` the interpreter's
numba-cuda compiles; neither needs a GPU.
"""

from __future__ import annotations

import importlib
import json
import re
import sys
import types
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parent.parent.parent
SAMPLE = CHECKOUT / "sample_project" / "src"
WILD = CHECKOUT / "tests" / "wild"

__all__ = ["count_instructions", "main", "our_kernels"]


def count_instructions(text: str) -> int:
    """Instructions in the functions of an LLVM module, those of libdevice left out."""
    count, inside = 0, False
    for line in text.splitlines():
        if line.startswith("define "):
            inside = "@__nv_" not in line
        elif line.startswith("}"):
            inside = False
        elif inside:
            body = line.split(";", 1)[0].strip().strip('"')
            count += bool(body) and body not in ("{", "]") and not body.endswith(":") and not _CASE.match(body)
    return count


_CASE = re.compile(r"i\d+ -?\d+, label ")  # a line of a switch


def compile_numba(function: Any, signature: Any) -> str:
    """What numba-cuda gives NVVM."""
    from numba import cuda
    from numba.cuda import codegen, dispatcher

    found: list[str] = []
    # Device functions ask the GPU at hand what to be compiled for.
    dispatcher.get_current_device = lambda: types.SimpleNamespace(compute_capability=(8, 0))

    def keep(self: Any, *_: Any, **__: Any) -> list[str]:
        found.extend(self.llvm_strs)
        return [""]

    codegen.CUDACodeLibrary.get_asm_strs = keep
    cuda.compile(function, signature, device=False, abi="numba", cc=(8, 0))
    return "\n".join(found)


def numba_sample() -> dict[str, Any]:
    """The sample's kernels as plain functions, its device functions numba's; with their argument types."""
    import numba
    from numba import cuda

    signatures: dict[str, Any] = {}

    def kernel(*args: Any, **variables: Any) -> Any:
        def keep(function: Any) -> Any:
            if args and isinstance(args[0], str):
                names = {**vars(numba.types), **{key: value[0] for key, value in variables.items()}}
                signatures[function.__name__] = function, eval(f"({args[0]},)", names)
            else:
                kinds = tuple(part.__metadata__[0] for part in function.__annotations__.values())
                function.__annotations__ = {}
                signatures[function.__name__] = function, kinds
            return function

        return keep(args[0]) if args and callable(args[0]) else keep

    stand_in = types.ModuleType("cudabuild")
    stand_in.__dict__.update(
        cuda=cuda, kernel=kernel, device_function=cuda.jit(device=True), Array=object,
        **{name: getattr(numba, name) for name in ("float32", "float64", "int32", "uint32")},
    )  # fmt: skip
    sys.modules["cudabuild"] = stand_in
    sys.path.insert(0, str(SAMPLE))
    importlib.import_module("cudabuild_sample")
    pricing = sys.modules["cudabuild_sample.pricing"]
    pricing.normal_cdf = cuda.jit(device=True)(pricing.normal_cdf)  # numba wants each device function decorated
    return signatures


def wild_kernel(project: str, file: str, name: str, root: str) -> tuple[Any, tuple[Any, ...]]:
    """A kernel of ``tests/wild`` and the arguments of its first launch."""
    sys.path.insert(0, str(WILD))
    from makers import evaluate
    from projects import load_projects
    from standins import mount

    found = load_projects()[project]
    mount(Path(root).resolve(), found.replace)
    module = importlib.import_module(file.removesuffix(".py").replace("/", "."))
    kernel = next(kernel for kernel in found.kernels if (kernel.file, kernel.name) == (file, name))
    arguments, _ = evaluate(kernel.launches[0], f"{kernel.id} 0", vars(module))
    return getattr(module, name), arguments


def numba_type(value: Any) -> Any:
    """Numba's type of an array or a number. Its own ``typeof`` asks modules that have stand-ins here."""
    import numba

    if not hasattr(value, "dtype"):
        return {bool: numba.boolean, int: numba.int64, float: numba.float64}[type(value)]
    scalar = numba.from_dtype(value.dtype)
    layout = "C" if value.flags.c_contiguous else "F" if value.flags.f_contiguous else "A"
    return numba.types.Array(scalar, value.ndim, layout) if value.ndim else scalar


def count_numba(what: list[str]) -> dict[str, Any]:
    if what == ["sample"]:
        kernels = numba_sample()
    else:
        # Now: with stand-ins in place numba would think that there is cffi.
        importlib.import_module("numba.core.typing.cffi_utils")
        importlib.import_module("numba.cuda.typing.cffi_utils")

        kernel, arguments = wild_kernel(*what)
        kernels = {what[2]: (kernel.py_func, tuple(map(numba_type, arguments)))}
    return {name: count_instructions(compile_numba(*kernel)) for name, kernel in kernels.items()}


def our_kernels(what: list[str]) -> dict[str, tuple[Any, Any]]:
    """Name -> definition and signature."""
    sys.path.insert(0, str(CHECKOUT))
    if what == ["sample"]:
        sys.path.insert(0, str(SAMPLE))
        import cudabuild_sample

        kernels = {name: getattr(cudabuild_sample, name) for name in cudabuild_sample.__all__}
        return {name: (kernel.definition, kernel.definition.signatures[0]) for name, kernel in kernels.items()}
    sys.path.insert(0, str(CHECKOUT / "tests" / "conformance" / "shim"))
    from cudabuild.runtime.jit_dispatcher import type_of_argument

    kernel, arguments = wild_kernel(*what)
    return {what[2]: (kernel.definition, tuple(map(type_of_argument, arguments)))}


def count_ours(what: list[str]) -> dict[str, int]:
    kernels = our_kernels(what)
    from cudabuild.compiler import dump

    return {name: count_instructions(dump(*one, "llvm", index_width=64)) for name, one in kernels.items()}


def main() -> int:
    compiler, *what = sys.argv[1:]
    print(json.dumps((count_numba if compiler == "numba" else count_ours)(what)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
