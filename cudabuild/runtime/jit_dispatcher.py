# SPDX-License-Identifier: Apache-2.0
"""What ``cuda.jit`` makes of a function: a dispatcher with numba-cuda's surface and its rules of overloading.

Launching is the other dispatcher's, fast path included. What differs: Python numbers are int64 and float64 arguments;
two equally good signatures are an error; a function may be kernel and device function at once; and a program can ask
for overloads, their resources and their code under numba-cuda's names.
"""

from __future__ import annotations

from cudabuild.definition import parameter_names
from cudabuild.errors import ArgumentError, ConfigurationError, ConfigurationTypeError, LaunchError, NotAKernelError
from cudabuild.lang.name import interpreter
from cudabuild.runtime.arguments import read_argument
from cudabuild.runtime.configuration import whole_number
from cudabuild.runtime.dispatcher import Dispatcher
from cudabuild.runtime.hints import CopyHint
from cudabuild.runtime.overload import Overload
from cudabuild.runtime.resolve import find_best, integer_limits, resolve
from cudabuild.types import Array, Complex, Float, Integer, Tuple, Type, float64, int64, parse_signatures, uint64
from cudabuild.types.pointer import Pointer
from cudabuild.types.type import FunctionSignature, WeakComplex, WeakFloat, WeakInteger, complex128

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from cudabuild.definition import KernelDefinition
    from cudabuild.runtime.arguments import Argument
    from cudabuild.runtime.configuration import Configuration
    from cudabuild.runtime.dispatcher import Services
    from cudabuild.types import Signature

__all__ = ["CacheStats", "JitDispatcher", "strong_type", "type_of_argument"]

_INT64_END = 1 << 63


class JitDispatcher(Dispatcher):
    """A ``cuda.jit`` function.

    Attributes:
        specialized: whether it has exactly the one signature that it was made with.
        specializations: what ``specialize`` has made, by argument types.
        targetoptions: the options that it was made with, by numba-cuda's names.
        extensions: objects whose ``prepare_args`` may replace an argument before a launch.
    """

    dialect = "numba"

    def __init__(
        self,
        definition: KernelDefinition,
        services: Services,
        *,
        specialized: bool = False,
        targetoptions: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(definition, services)
        self.specialized = specialized
        self.specializations: dict[Signature, JitDispatcher] = {}
        self.targetoptions = dict(targetoptions or {})
        self.extensions: list[Any] = list(self.targetoptions.get("extensions") or ())
        self._may_grow = True
        self._overloads: dict[Signature, Overload] = {}
        self._device_overloads: dict[Signature, Overload] = {}

    def __repr__(self) -> str:
        kind = "device function" if self.definition.is_device else "kernel"
        return f"<{kind} {self.__module__}.{self.__qualname__}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if interpreter.get() is not None:  # called by a kernel that runs as Python
            return self.definition.function(*args, **kwargs)
        name = self.__name__
        raise ConfigurationError(
            f"{name} was called on the host, and its launch configuration was not specified\n"
            f"  do:       {name}[blocks, threads_per_block](…), or {name}.forall(n)(…) for n threads"
        )

    def _travelling(self) -> tuple[str, dict[str, Any]]:
        return "jit", {"specialized": self.specialized, "targetoptions": self.targetoptions}

    # configurations

    def configure(self, griddim: Any, blockdim: Any, stream: Any = 0, sharedmem: int = 0) -> Callable[..., None]:
        """The same as ``kernel[griddim, blockdim, stream, sharedmem]``."""
        return self[griddim, blockdim, stream, sharedmem]

    def _configure(self, key: Any) -> Callable[..., None]:
        if self.definition.is_device:
            raise NotAKernelError(
                f"{self.__qualname__}: Cannot compile a device function as a kernel\n  found:    a launch of it\n"
                "  expected: a call of it in a kernel"
            )
        if not isinstance(key, tuple) or len(key) < 2:
            raise ConfigurationError(f"{self.__qualname__}: must specify at least the griddim and blockdim")
        _check_dimensions("griddim", key[0])
        _check_dimensions("blockdim", key[1])
        launch = super()._configure(key)
        if self.extensions:
            self._configured.clear()  # what is kept there is not seen by the extensions
            launch = self._extended(launch, key[2] if len(key) > 2 else 0)
        self._services.warn_of_occupancy(key[0])
        return launch

    def _extended(self, launch: Callable[..., None], stream: Any) -> Callable[..., None]:
        """``launch`` after the extensions have seen every argument, the last extension first."""

        def prepared(*args: Any) -> None:
            afterwards: list[Any] = []
            values = []
            for value in args:
                kind = None if isinstance(value, CopyHint) else _type_or_none(value)
                for extension in reversed(self.extensions):
                    kind, value = extension.prepare_args(kind, value, stream=stream, retr=afterwards)
                values.append(value)
            launch(*values)
            for call in afterwards:
                call()

        return prepared

    def forall(self, ntasks: int, tpb: int = 0, stream: Any = 0, sharedmem: int = 0) -> Callable[..., None]:
        """A configuration of at least ``ntasks`` threads along x; see ``Dispatcher.forall``."""
        if isinstance(ntasks, int) and ntasks < 0:
            raise ConfigurationError(f"Can't create ForAll with negative task count: {ntasks}")
        return super().forall(ntasks, tpb, stream, sharedmem)

    def _launch(self, configuration: Configuration, args: tuple[Any, ...]) -> None:
        if self.specialized and len(args) == len(self.definition.signatures[0]):
            args = tuple(map(_wrapped, args, self.definition.signatures[0]))
        super()._launch(configuration, args)

    # overloads

    def _read(self, value: Any, index: int) -> Argument:
        argument = super()._read(value, index)
        if argument.reader == "host" and type(value).__module__ == "numpy":  # not what stands for device memory
            self._services.warn_of_copy()
        return _strong_argument(argument)

    def _resolve(self, arguments: Sequence[Argument]) -> tuple[Signature, bool]:
        signature, only_here = self._choose(arguments)
        several = len(self.definition.signatures) != 1
        return signature, only_here or (several and any(map(_is_large, arguments)))  # a smaller int is an int64

    def _choose(self, arguments: Sequence[Argument]) -> tuple[Signature, bool]:
        signatures = self.definition.signatures
        if not signatures:
            found = tuple(argument.type for argument in arguments)
            if not self._may_grow and found not in self._launchers:
                raise ArgumentError(f"No matching definition for argument types {_listed(found)}")
            return found, False
        try:
            resolved = resolve(signatures, arguments, parameter_names(self.py_func, len(arguments)))
        except LaunchError as error:
            types = _listed([argument.type for argument in arguments])
            raise ArgumentError(f"No matching definition for argument types {types}\n  {error}") from None
        ties = find_best(signatures, arguments) if len(signatures) > 1 else []
        if len(ties) > 1:
            types = _listed([argument.type for argument in arguments])
            raise ArgumentError(
                f"Ambiguous overloading for {self.py_func!r} {types}:\n"
                + "\n".join(f"{_listed(one)} -> none" for one in ties)
            )
        return resolved

    def _get_launcher(self, signature: Signature) -> Any:
        launcher = super()._get_launcher(signature)
        if signature not in self._overloads:
            self._overloads[signature] = Overload(self, signature)
        return launcher

    @property
    def overloads(self) -> dict[Signature, Overload]:
        """What there is: declared, compiled by ``compile``, launched, or called by a kernel; by argument types."""
        for signature in self.definition.signatures:
            self._overloads.setdefault(tuple(signature), Overload(self, signature))
        launched = {
            signature: overload
            for signature, overload in self._overloads.items()
            if signature not in self._launchers or self._launchers[signature].source
        }
        return {**launched, **self._device_overloads}

    @property
    def signatures(self) -> list[Signature]:
        """The argument types of the overloads."""
        return list(self.overloads)

    @property
    def nopython_signatures(self) -> list[FunctionSignature]:
        """The overloads' signatures, with what they return."""
        return [overload.signature for overload in self.overloads.values()]

    def compile(self, sig: Any) -> Overload:
        """Compiles an overload before its first launch.

        Args:
            sig: argument types as a tuple, a signature, or its text.

        Raises:
            CompilationError: the kernel is wrong.
            RuntimeError: ``disable_compile`` was called, or signatures were declared and this is none of them.
        """
        (signature,) = parse_signatures(sig if isinstance(sig, (str, tuple, Type)) else tuple(sig))
        if not self._may_grow and signature not in self.overloads:
            raise RuntimeError(f"{self.__qualname__} has no overload for {_listed(signature)}, and may not be compiled")
        device, launcher = self.bind_overload(signature)
        if device.kind == "gpu":
            launcher.bound()
        return self._overloads[signature]

    def compile_device(self, args: Any, return_type: Type | None = None) -> Overload:
        """Types the function as a device function for these arguments.

        Args:
            args: argument types.
            return_type: what it is to return; by default what it does.

        Returns:
            The overload, whose ``signature`` says what it returns.
        """
        arguments = tuple(args)
        found = self._device_overloads.get(arguments)
        if found is None:
            result = self._services.result_type(self.definition, arguments, return_type)
            found = self._device_overloads[arguments] = Overload(self, FunctionSignature(arguments, result))
        return found

    def bind_overload(self, signature: Signature) -> tuple[Any, Any]:
        """The device that kernels run on, and this overload on it."""
        return self._services.current_device(), self._get_launcher(signature)

    def disable_compile(self, val: bool = True) -> None:
        """Lets no overload be made beyond those that there are; images of these still load."""
        self._may_grow = not val

    def enable_caching(self) -> None:
        """Nothing: compiled kernels are always kept."""

    def specialize(self, *args: Any) -> JitDispatcher:
        """This kernel with one signature only: that of ``args``, which are types or arguments of a launch.

        Raises:
            RuntimeError: it has one already.
        """
        if self.specialized or self.definition.spec is not None:
            raise RuntimeError(f"Dispatcher already specialized: {self.__qualname__} has its one signature")
        if len(args) != len(parameter_names(self.py_func, len(args))):
            self._refuse_count(args)
        types = tuple(
            strong_type(value) if isinstance(value, Type) else self._read(value, index).type
            for index, value in enumerate(args)
        )
        made = self.specializations.get(types)
        if made is None:
            made = JitDispatcher(
                self._specialised_definition(types), self._services, specialized=True, targetoptions=self.targetoptions
            )
            made._may_compile, made._afresh = self._may_compile, self._afresh
            self.specializations[types] = made
        return made

    # resources

    def get_regs_per_thread(self, signature: Any = None) -> Any:
        """Registers of a thread: of one overload, or a dict over all."""
        return self._ask("regs_per_thread", signature)

    def get_shared_mem_per_block(self, signature: Any = None) -> Any:
        """Bytes of shared memory that the kernel declares."""
        return self._ask("shared_mem_per_block", signature)

    def get_local_mem_per_thread(self, signature: Any = None) -> Any:
        """Bytes of local memory of a thread."""
        return self._ask("local_mem_per_thread", signature)

    def get_const_mem_size(self, signature: Any = None) -> Any:
        """Bytes of constant memory."""
        return self._ask("const_mem_size", signature)

    def get_max_threads_per_block(self, signature: Any = None) -> Any:
        """The most threads of a block."""
        return self._ask("max_threads_per_block", signature)

    def max_cooperative_grid_blocks(self, blockdim: int | tuple[int, ...], dynsmemsize: int = 0) -> Any:
        """The most blocks that run at once on the current device: of the one overload, or a dict over all."""
        counts = {
            key: overload.max_cooperative_grid_blocks(blockdim, dynsmemsize) for key, overload in self.overloads.items()
        }
        return next(iter(counts.values())) if self.specialized else counts

    def _ask(self, name: str, signature: Any) -> Any:
        overloads = self.overloads
        if signature is not None:
            return getattr(self._overload(signature), name)
        if self.specialized:
            return getattr(next(iter(overloads.values())), name)
        return {key: getattr(overload, name) for key, overload in overloads.items()}

    def _overload(self, signature: Any) -> Overload:
        key = tuple(parse_signatures(signature)[0])
        overloads = self.overloads
        if key not in overloads:
            raise KeyError(f"{self.__qualname__} has no overload for {_listed(key)}")
        return overloads[key]

    # code

    def inspect_llvm(self, signature: Any = None) -> Any:  # type: ignore[override]
        """The LLVM IR: text for one signature, else a dict over all overloads."""
        return self._inspect_all("llvm", signature)

    def inspect_asm(self, signature: Any = None) -> Any:  # type: ignore[override]
        """The PTX."""
        return self._inspect_all("ptx", signature)

    def inspect_lto_ptx(self, signature: Any = None) -> Any:
        """The PTX as it is after linking: here that of :meth:`inspect_asm`, into which everything is linked."""
        return self._inspect_all("ptx", signature)

    def inspect_sass(self, signature: Any = None) -> Any:
        """The machine code, disassembled by nvdisasm.

        Raises:
            RuntimeError: a device function has none of its own: it becomes part of the kernels that call it.
        """
        if self.definition.is_device:
            raise RuntimeError("Cannot inspect SASS of a device function")
        return self._inspect_all("sass", signature)

    def inspect_types(self, file: Any = None) -> None:
        """Writes the typed IR of every overload to ``file``, standard output by default."""
        import sys

        stream = sys.stdout if file is None else file
        for signature in self.overloads:
            stream.write(f"{self.__name__} {_listed(signature)}\n{'-' * 80}\n")
            stream.write(self.inspect_text("ir", signature) + "\n")

    def _inspect_all(self, stage: str, signature: Any) -> Any:
        if signature is not None:
            return self.inspect_text(stage, tuple(parse_signatures(signature)[0]))
        return {key: self.inspect_text(stage, key) for key in self.overloads}

    def inspect_text(self, stage: str, signature: Signature, target: str | None = None) -> str:
        """One stage of one overload: ``ir``, ``llvm``, ``ptx`` or ``sass``."""
        return self._services.dump(self.definition, signature, stage, target, 32)

    def image_attributes(self, signature: Signature) -> dict[str, Any]:
        """What the tools say of the image of an overload for the default target."""
        return self._services.image_attributes(self.definition, signature)

    @property
    def stats(self) -> CacheStats:
        """Where the code of the overloads came from."""
        return CacheStats(self)


class CacheStats:
    """Counts of overloads by origin.

    Attributes:
        cache_hits: by argument types, those that were found compiled.
        cache_misses: those that were not.
    """

    def __init__(self, dispatcher: JitDispatcher) -> None:
        sources = {key: str(launcher.source) for key, launcher in dispatcher._launchers.items() if launcher.source}
        self.cache_hits = {key: 1 for key, source in sources.items() if not source.startswith("compiled")}
        self.cache_misses = {key: 1 for key in sources if key not in self.cache_hits}


def strong_type(kind: Type) -> Type:
    """``kind`` as numba-cuda types an argument: a Python number is an int64, a float64 or a complex128."""
    if isinstance(kind, WeakInteger):
        return int64
    if isinstance(kind, WeakFloat):
        return float64
    if isinstance(kind, WeakComplex):
        return complex128
    if isinstance(kind, Tuple):
        elements = [strong_type(element) for element in kind.elements]
        return kind if elements == list(kind.elements) else kind.with_elements(elements)
    return kind


def type_of_argument(value: Any) -> Type:
    """The type that ``value`` has as an argument.

    Raises:
        ValueError: a kernel takes no such argument.
    """
    try:
        return _strong_argument(read_argument(value)).type
    except LaunchError as error:
        raise ValueError(f"cannot determine the type of {value!r}: {error}") from None


def _type_or_none(value: Any) -> Type | None:
    try:
        return type_of_argument(value)
    except ValueError:  # an object that an extension is to replace
        return None


def _wrapped(value: Any, kind: Type) -> Any:
    """An argument as C passes it to the one parameter type that there is: an int modulo 2**bits, unsigned integers in
    memory as signed ones of the same size, and the other way round."""
    if isinstance(kind, Array) and isinstance(kind.dtype, Integer):
        return _with_sign(value, kind.dtype)
    if type(value) is not int or not isinstance(kind, Integer) or isinstance(kind, Pointer):
        return value  # of addresses, there is none that another could stand for
    low, high = integer_limits(kind)
    return value if low <= value <= high else low + (value - low) % (high - low + 1)


def _with_sign(value: Any, wanted: Integer) -> Any:
    """NumPy's or a device array of integers as one of ``wanted``, over the same memory, if only the sign differs."""
    dtype: Any = getattr(value, "dtype", None)
    if getattr(dtype, "kind", "") not in ("i", "u") or dtype.itemsize != wanted.size or dtype.name == wanted.name:
        return value
    return value.view(wanted.name)


def _strong_argument(argument: Argument) -> Argument:
    if isinstance(argument.type, WeakInteger):
        argument.type = int64 if -_INT64_END <= argument.value < _INT64_END else uint64
    elif isinstance(argument.type, (Integer, Float, Complex)):
        argument.type = strong_type(argument.type)
    elif isinstance(argument.type, Tuple) and argument.reader == "tuple":
        argument.value = tuple(map(_strong_argument, argument.value))
        argument.type = argument.type.with_elements(element.type for element in argument.value)
    return argument


def _is_large(argument: Argument) -> bool:
    """Whether it is, or holds, a Python int that is a uint64 for its value's sake."""
    if argument.reader == "tuple":
        return any(map(_is_large, argument.value))
    return type(argument.value) is int and argument.value >= _INT64_END


def _check_dimensions(name: str, value: Any) -> None:
    parts = list(value) if isinstance(value, (tuple, list)) else [value]
    if any(whole_number(part) is None for part in parts):
        raise ConfigurationTypeError(f"bad launch configuration: {name} must be a sequence of integers, got {parts}")
    if not 1 <= len(parts) <= 3:
        raise ConfigurationError(
            f"bad launch configuration: {name} must be a sequence of 1, 2 or 3 integers, got {parts}"
        )


def _listed(types: Sequence[Type]) -> str:
    return f"({', '.join(kind.name for kind in types)})"
