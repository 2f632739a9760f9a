# SPDX-License-Identifier: Apache-2.0
"""LLVM, through llvmlite: the only module that imports it.

LLVM ends the process on a bad processor name and on operations that a target cannot select: callers pass names of the
target table (``cudabuild.target``) and text whose operations were checked. Text is verified before anything runs on it.
llvmlite holds one global lock around LLVM, so compiling in parallel means processes.
"""

from __future__ import annotations

import importlib.util
import os
from functools import cache
from typing import TYPE_CHECKING, Any

from cudabuild.errors import ToolError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "BitcodeLibrary",
    "JitLibrary",
    "emit_assembly",
    "emit_object",
    "find_files",
    "find_version",
    "host_code_model",
    "host_features",
    "host_has_fma",
    "host_machine",
    "host_processor",
    "host_triple",
    "load_object",
    "nvptx_machine",
    "optimise_module",
    "parse_module",
    "read_bitcode",
]

_NVPTX = "nvptx64-nvidia-cuda"


@cache
def _binding() -> Any:
    """``llvmlite.binding`` with its targets registered."""
    try:
        import llvmlite
        from llvmlite import binding
    except ImportError as error:
        raise ToolError(
            f"compiling a kernel needs LLVM, and llvmlite cannot be imported ({error}): pip install 'llvmlite>=0.48'"
        ) from error
    if binding.llvm_version_info[0] < 22:
        raise ToolError(
            f"llvmlite {llvmlite.__version__} holds LLVM {binding.llvm_version_info[0]}; cudabuild needs LLVM 22 or "
            "newer: pip install 'llvmlite>=0.48'"
        )
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    return binding


def find_version() -> str:
    """llvmlite's and LLVM's version, as a toolchain label: ``0.50.0 (LLVM 22.1.0)``."""
    binding = _binding()
    import llvmlite

    return f"{llvmlite.__version__} (LLVM {'.'.join(map(str, binding.llvm_version_info))})"


def find_files() -> list[str]:
    """The files of llvmlite's LLVM, found without loading it; empty where there is no llvmlite."""
    spec = importlib.util.find_spec("llvmlite")
    folders = [os.path.join(folder, "binding") for folder in (spec.submodule_search_locations or ())] if spec else []
    return [
        os.path.join(folder, name)
        for folder in folders
        if os.path.isdir(folder)
        for name in sorted(os.listdir(folder))
        if name.endswith((".so", ".dll", ".dylib"))
    ]


def parse_module(text: str) -> Any:
    """A verified LLVM module."""
    binding = _binding()
    try:
        module = binding.parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        raise AssertionError(f"cudabuild wrote LLVM text that LLVM refuses: {error}") from error
    return module


@cache
def nvptx_machine(processor: str, level: int) -> Any:
    """LLVM's code generator for ``processor`` (``sm_90a``), which must be a name of the target table.

    LLVM writes the oldest PTX ISA that is valid for the processor, unless one is asked for: for sm_75 that is 7.0, the
    first with ``tanh.approx``, which libdevice uses (every driver of CUDA 12 knows it).
    """
    features = "+ptx70" if processor == "sm_75" else ""
    return _binding().Target.from_triple(_NVPTX).create_target_machine(cpu=processor, features=features, opt=level)


@cache
def host_machine(level: int, processor: str = "", features: str = "") -> Any:
    """LLVM's code generator for the machine that this process runs on, for the JIT."""
    binding = _binding()
    target = binding.Target.from_triple(host_triple())
    reloc, model = host_code_model()
    return target.create_target_machine(
        cpu=processor or host_processor(),
        features=features or host_features(),
        opt=level,
        reloc=reloc,
        codemodel=model,
        jit=True,
    )


def host_code_model() -> tuple[str, str]:
    """How host code names addresses: relocation and code model of LLVM.

    Whole addresses. The JIT asks for memory section by section, and in a process that has much of its address space
    taken (a CUDA context takes terabytes) a constant may come to lie more than 2 GiB from the code; with the small
    model LLVM's loader ends the process then. The large model costs nothing that a benchmark shows.
    """
    return ("static", "large") if "linux" in host_triple() else ("pic", "jitdefault")


def host_triple() -> str:
    """The triple of this process, such as ``x86_64-unknown-linux-gnu``."""
    return str(_binding().get_process_triple())


def host_processor() -> str:
    """The name of this computer's processor, as LLVM calls it."""
    return str(_binding().get_host_cpu_name())


@cache
def host_features() -> str:
    """The host's CPU features as one sorted string: part of a host image's identity."""
    return str(_binding().get_host_cpu_features().flatten())


def host_has_fma() -> bool:
    """Whether this computer's processor has a fused multiply-add; elsewhere it is a call, and slow."""
    return host_triple().startswith(("aarch64", "arm64")) or "+fma" in host_features().split(",")


def optimise_module(module: Any, machine: Any, level: int, *, vectorise: bool = False) -> None:
    """Runs LLVM's pipeline of ``level`` (0 to 3) on ``module`` in place.

    ``vectorise``: loop and SLP vectorisation, which help the host and do nothing for a GPU.
    """
    binding = _binding()
    tuning = binding.create_pipeline_tuning_options(speed_level=level)
    tuning.loop_vectorization = vectorise
    tuning.slp_vectorization = vectorise
    builder = binding.create_pass_builder(machine, tuning)
    builder.getModulePassManager().run(module, builder)


def emit_assembly(module: Any, machine: Any) -> str:
    """The module as assembly text of the machine; ``module`` itself stays as it is."""
    return str(machine.emit_assembly(module.clone()))


def emit_object(module: Any, machine: Any) -> bytes:
    """The module as an object file of the machine."""
    return bytes(machine.emit_object(module))


class BitcodeLibrary:
    """A bitcode file, read once, whose definitions can be had as text one by one."""

    def __init__(self, data: bytes) -> None:
        self._module = _binding().parse_bitcode(data)
        self._globals = {variable.name: variable for variable in self._module.global_variables}
        self.structs = {struct.name: str(struct) for struct in self._module.struct_types}

    def function(self, name: str) -> str:
        """The text of the function ``name``: a definition, or a declaration. KeyError if there is none."""
        try:
            return str(self._module.get_function(name))
        except NameError:
            raise KeyError(name) from None

    def variable(self, name: str) -> str | None:
        """The text of the global variable ``name``, or None if there is none."""
        return str(self._globals[name]) if name in self._globals else None


def read_bitcode(data: bytes) -> BitcodeLibrary:
    """The functions and variables of an LLVM bitcode file."""
    return BitcodeLibrary(data)


class JitLibrary:
    """Machine code in this process; ``address`` finds its symbols. It stays as long as this object lives."""

    def __init__(self, tracker: Any) -> None:
        self._tracker = tracker

    def address(self, name: str) -> int:
        return int(self._tracker[name])


@cache
def _jit() -> Any:
    binding = _binding()
    return binding.create_lljit_compiler()


def load_object(name: str, data: bytes, exports: list[str], imports: Mapping[str, int]) -> JitLibrary:
    """Loads an object file into this process.

    Args:
        name: a name that no other loaded library has.
        data: the object file.
        exports: symbols whose addresses will be asked for.
        imports: symbols the object needs -> their addresses; symbols of this process are found too.
    """
    builder = _binding().JITLibraryBuilder().add_object_img(data).add_current_process()
    for symbol, address in imports.items():
        builder.import_symbol(symbol, address)
    for symbol in exports:
        builder.export_symbol(symbol)
    return JitLibrary(builder.link(_jit(), name))
