# SPDX-License-Identifier: Apache-2.0
"""``cuda.compile`` and its kin: PTX of a Python function, as text, and the type that it returns.

A device function can be compiled for other compilers to link: it is exported under its own name, with one parameter for
each scalar (``abi="c"``). Array parameters are a pointer, the extents, and for layout A the strides.
"""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING, Any

from cudabuild.compiler import Compilation, Request
from cudabuild.cuda.errors import UnsupportedError
from cudabuild.cuda_jit import options_of
from cudabuild.definition import KernelDefinition
from cudabuild.frontend import returned_type
from cudabuild.target import TARGETS, parse_target
from cudabuild.types import FunctionSignature, Type, none, parse_signatures

if TYPE_CHECKING:
    from cudabuild.target import Target
    from cudabuild.types import Signature

__all__ = [
    "compile",
    "compile_all",
    "compile_for_current_device",
    "compile_ptx",
    "compile_ptx_for_current_device",
    "image_attributes",
    "result_type",
]

#: What is compiled for where no device and no ``cc`` says: the oldest that the tools make, as numba-cuda has it.
_DEFAULT_CC = (7, 5)
_ABIS = ("numba", "c")
_OUTPUTS = ("ptx", "ltoir")


def compile(
    pyfunc: Any, sig: Any, debug: bool | None = None, lineinfo: bool = False, device: bool = True,
    fastmath: Any = False, cc: tuple[Any, ...] | None = None, opt: Any = None, abi: str = "c",
    abi_info: dict[str, Any] | None = None, output: str = "ptx", forceinline: bool = False, launch_bounds: Any = None,
) -> tuple[str, Type]:  # fmt: skip
    """Compiles a function for one target.

    Args:
        pyfunc: a Python function, or what ``cuda.jit`` made of one.
        sig: its argument types: a tuple, a signature that may say what it returns, or the text of one.
        debug, lineinfo, fastmath, opt, launch_bounds: as for ``cuda.jit``; a device function under ``debug`` records
            its lines only, since its caller knows nothing of faults.
        device: False for a kernel.
        cc: the compute capability, (7, 5) by default; ``(9, 0, "a")`` for what only that architecture has.
        abi: ``"c"``, or ``"numba"``, which a kernel has.
        abi_info: ``{"abi_name": name}`` exports a C function under another name.
        output: ``"ptx"``.
        forceinline: taken; what another compiler links is not inlined.

    Returns:
        The PTX and the return type, ``none`` for a kernel.

    Raises:
        CompilationError: the function is wrong.
        TypeError: a kernel that returns a value.
        NotImplementedError: another ABI or output.
    """
    _check_abi(abi, device, output)
    lines = lineinfo or bool(debug and device)
    given = {"fastmath": fastmath, "opt": opt, "launch_bounds": launch_bounds}
    options, _ = options_of({"debug": debug and not device, "lineinfo": lines, **given})
    function = pyfunc if isinstance(pyfunc, FunctionType) else pyfunc.py_func
    definition = KernelDefinition(function, None, None, options, is_device=device, may_be_called=True)
    (signature,) = parse_signatures(sig, returns=True)
    if not device:
        signature = _of_kernel(function, signature, definition)
    result = result_type(definition, signature, None) if device else none
    name = (abi_info or {}).get("abi_name", function.__name__) if device and abi == "c" else None
    if name is not None:
        name = "".join(char if char.isascii() and (char.isalnum() or char in "_$") else "_" for char in name)
    work = Compilation(definition, signature, options, symbol=name)
    text: str = work.get("ptx", Request(_ptx_target(cc or _DEFAULT_CC), 64))
    return text, result


def compile_ptx(
    pyfunc: Any, sig: Any, debug: bool | None = None, lineinfo: bool = False, device: bool = False,
    fastmath: Any = False, cc: tuple[Any, ...] | None = None, opt: Any = None, abi: str = "numba",
    abi_info: dict[str, Any] | None = None, forceinline: bool = False, launch_bounds: Any = None,
) -> tuple[str, Type]:  # fmt: skip
    """:func:`compile` with a kernel as the default."""
    return compile(
        pyfunc, sig, debug, lineinfo, device, fastmath, cc, opt, abi, abi_info, "ptx", forceinline, launch_bounds
    )


def compile_for_current_device(pyfunc: Any, sig: Any, **options: Any) -> tuple[str, Type]:
    """:func:`compile` for the compute capability of the current device."""
    return compile(pyfunc, sig, cc=_current_cc(), **options)


def compile_ptx_for_current_device(pyfunc: Any, sig: Any, **options: Any) -> tuple[str, Type]:
    """:func:`compile_ptx` for the compute capability of the current device."""
    return compile_ptx(pyfunc, sig, cc=_current_cc(), **options)


def compile_all(pyfunc: Any, sig: Any, **options: Any) -> tuple[list[str], Type]:
    """:func:`compile`, and everything that has to be linked with it: nothing, since PTX here is whole.

    Returns:
        A list of one text, and the return type.
    """
    text, result = compile(pyfunc, sig, **options)
    return [text], result


def _check_abi(abi: str, device: bool, output: str) -> None:
    if abi not in _ABIS:
        raise NotImplementedError(f"Unsupported ABI: {abi}")
    if abi == "c" and not device:
        raise NotImplementedError("The C ABI is not supported for kernels")
    if output not in _OUTPUTS:
        raise NotImplementedError(f"Unsupported output type: {output}")
    if output == "ltoir":
        raise UnsupportedError("output='ltoir': LTO-IR is made by libNVVM only; take output='ptx'")


def _of_kernel(function: FunctionType, signature: Signature, definition: KernelDefinition) -> Signature:
    """The signature of a kernel, which returns nothing.

    Raises:
        TypeError: it returns something.
    """
    as_device = KernelDefinition(function, None, None, definition.options, is_device=True)
    declared = signature.return_type if isinstance(signature, FunctionSignature) else none
    found = declared if declared != none else result_type(as_device, signature, None)
    if found != none:
        raise TypeError(
            f"CUDA kernel must have void return type.\n  found:    {function.__qualname__} returns {found.name}\n"
            "  do:       store the result in an element of an array argument"
        )
    return tuple(signature)


def _ptx_target(cc: tuple[Any, ...]) -> Target:
    if len(cc) > 2:  # what only this architecture has: PTX for its own assembler
        return parse_target(f"sm_{cc[0]}{cc[1]}{cc[2]}")
    return parse_target(f"compute_{cc[0]}{cc[1]}")


def _current_cc() -> tuple[int, int]:
    from cudabuild.host_api import get_current_device

    return get_current_device().compute_capability


# what a dispatcher asks


def result_type(definition: KernelDefinition, signature: Signature, wanted: Type | None) -> Type:
    """What a device function returns for arguments of these types: ``wanted`` if that is given."""
    if wanted is not None:
        return wanted
    return returned_type(definition, signature)


def image_attributes(definition: KernelDefinition, signature: Signature) -> dict[str, Any]:
    """What nvJitLink says of the cubin of an overload for sm_90, and the constant arrays that it holds.

    Raises:
        ToolError: nvJitLink is missing.
    """
    work = Compilation(definition, signature)
    attributes = dict(work.get("image", Request(TARGETS["sm_90"], 32)).attributes)
    attributes["const_bytes"] = sum(
        len(instr.attrs["data"]) // 2
        for function in [work.get("ir", Request()), *work.get("ir", Request()).callees]
        for instr in function.instructions()
        if instr.op == "constant"
    )
    return attributes
