# SPDX-License-Identifier: Apache-2.0
"""``@kernel`` and ``@device_function``, and the one place where the wings meet.

A decorator joins a definition and a dispatcher, and costs microseconds. What the dispatcher needs later (the devices,
the providers of images, the compiler's dumps) is :class:`Services`: each part is imported when it is first needed.
"""

from __future__ import annotations

from types import FunctionType

from cudabuild.definition import DEFAULT_OPTIONS, OPTIONS, KernelDefinition, Options
from cudabuild.errors import SettingError, SourceError, nearest_name
from cudabuild.runtime.dispatcher import Dispatcher, find_named, has_name
from cudabuild.types import Type

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from cudabuild.image.image import ImageProvider
    from cudabuild.runtime.device import Device, DeviceChoice
    from cudabuild.runtime.jit_dispatcher import JitDispatcher
    from cudabuild.types import Signature

__all__ = [
    "SERVICES",
    "DeviceFunction",
    "Services",
    "check_option",
    "current_device",
    "device_function",
    "kernel",
    "no_function",
    "register_text",
]


class DeviceFunction:
    """A function for kernels to call, with its own options. Called on the host it is the Python function.

    Attributes:
        definition: what was written.
        py_func: the Python function.
    """

    def __init__(self, definition: KernelDefinition) -> None:
        function = definition.function
        self.definition = definition
        self.py_func = self.__wrapped__ = function
        self.__name__ = function.__name__
        self.__qualname__ = function.__qualname__
        self.__module__ = function.__module__
        self.__doc__ = function.__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.py_func(*args, **kwargs)

    def __reduce__(self) -> tuple[Any, ...]:
        if has_name(self, self.__module__, self.__qualname__):
            return find_named, (self.__module__, self.__qualname__)
        return SERVICES.reduce(self, "device", {})

    def __setstate__(self, state: tuple[dict[str, Any], ...]) -> None:
        SERVICES.fill(self, state)

    def __deepcopy__(self, memo: Any = None) -> Any:
        return self  # as functions are

    __copy__ = __deepcopy__

    def __repr__(self) -> str:
        return f"<device function {self.__module__}.{self.__qualname__}>"


def kernel(spec: Any = None, /, *, source: str | None = None, **options: Any) -> Any:
    """Makes a kernel of a function: ``@kernel("float32, float32[::1]")``, or bare ``@kernel``.

    Args:
        spec: the argument types: a signature as text, a tuple of types, or a list of these. Without one, what the
            annotations say; without those, the kernel is compiled for the arguments that it is launched with.
        source: the text that ``exec`` made the function of, the whole of it, where Python cannot find it.
        options: compile options (``fastmath=True`` …); any other name is a type variable of the signatures
            (``T=(float32, float64)``).

    Returns:
        The decorator; with a function as ``spec``, its :class:`~cudabuild.runtime.dispatcher.Dispatcher`.

    Raises:
        SettingError: an option that does not exist or a value that it cannot have.
    """
    if type(spec) is FunctionType:
        return kernel(None, source=source, **options)(spec) if source or options else _plain(spec)
    if hasattr(spec, "__code__"):
        raise no_function("@kernel", spec)
    chosen, variables = _split_options(options) if options else (DEFAULT_OPTIONS, None)

    def decorate(function: Any) -> Dispatcher:
        if type(function) is not FunctionType:
            raise no_function("@kernel", function)
        if source is not None:
            register_text(function, source)
        return Dispatcher(KernelDefinition(function, spec, variables, chosen), SERVICES)

    return decorate


def _plain(function: FunctionType) -> Dispatcher:
    return Dispatcher(KernelDefinition(function), SERVICES)


def device_function(spec: Any = None, /, *, source: str | None = None, **options: Any) -> Any:
    """Marks a function that kernels call. Undecorated ones can be called too; this one takes a signature and options.

    Args:
        spec, source, options: as for :func:`kernel`.
    """
    if type(spec) is FunctionType:
        if source or options:
            return device_function(None, source=source, **options)(spec)
        return DeviceFunction(KernelDefinition(spec, is_device=True))
    if hasattr(spec, "__code__"):
        raise no_function("@device_function", spec)
    chosen, variables = _split_options(options) if options else (DEFAULT_OPTIONS, None)

    def decorate(function: Any) -> DeviceFunction:
        if type(function) is not FunctionType:
            raise no_function("@device_function", function)
        if source is not None:
            register_text(function, source)
        return DeviceFunction(KernelDefinition(function, spec, variables, chosen, is_device=True))

    return decorate


def register_text(function: FunctionType, text: str) -> None:
    """Notes the text that a function was made of, for when it is compiled."""
    from cudabuild.source import register_source

    register_source(function, text)


#: The types of functions that were Python, and what compiled them.
_COMPILED = {
    "compiled_function": "Nuitka",
    "cython_function_or_method": "Cython",
    "builtin_function_or_method": "mypyc",
}


def no_function(decorator: str, found: Any) -> TypeError:
    """The error for what a decorator was put on: it is no Python function, or none any more."""
    remedy = f"put {decorator} directly above the def, under other decorators"
    compiler = _COMPILED.get(type(found).__name__)
    if compiler is not None:
        remedy = (
            f"leave {getattr(found, '__module__', None) or 'its module'} out of what {compiler} compiles, as a .py or "
            "a .pyc file: images that the package ships are bound without source, too"
        )
    return TypeError(
        f"{decorator} on a {type(found).__name__}\n  found:    {found!r}\n  expected: a function written with def, "
        f"as Python keeps it\n  do:       {remedy}"
    )


# options

_SPECS = {spec.name: spec for spec in OPTIONS}


def _split_options(given: Mapping[str, Any]) -> tuple[Options, dict[str, Sequence[Type]] | None]:
    """Compile options and type variables."""
    values = {}
    variables: dict[str, Sequence[Type]] = {}
    for name, value in given.items():
        if name in _SPECS:
            check_option(name, value)
            values[name] = value
        elif isinstance(value, Type):
            variables[name] = (value,)
        elif isinstance(value, (tuple, list)) and value and all(isinstance(one, Type) for one in value):
            variables[name] = tuple(value)
        else:
            near = nearest_name(name, _SPECS)
            hint = f"\n  do:       did you mean {near!r}?" if near else ""
            raise SettingError(
                f"unknown kernel option\n  found:    {name}={value!r}\n  expected: one of {', '.join(_SPECS)}, "
                f"or a type variable such as T=(float32, float64){hint}"
            )
    options = Options(values, frozenset(values)) if values else DEFAULT_OPTIONS
    return options, variables or None


def check_option(name: str, value: Any) -> None:
    """Checks the value of one compile option.

    Raises:
        SettingError: it is none that the option can have.
    """
    if not _is_legal(name, value):
        raise SettingError(
            f"bad value of the kernel option {name}\n  found:    {value!r}\n  expected: {_SPECS[name].accepts}"
        )


def _is_legal(name: str, value: Any) -> bool:
    if name in ("debug", "fastmath", "fma", "lineinfo"):
        return isinstance(value, bool)
    if name == "literals":
        return value in ("weak", "numba")
    if name == "opt":
        return _is_number(value, 0, 3)
    if name == "max_registers":
        return value is None or _is_number(value, 16, 255)
    if name == "launch_bounds":
        if isinstance(value, tuple):
            return (
                1 <= len(value) <= 3 and _is_number(value[0], 1, 1024) and all(_is_number(n, 1, 32) for n in value[1:])
            )
        return value is None or _is_number(value, 1, 1024)
    raise AssertionError(f"no check of the option {name}")


def _is_number(value: Any, low: int, high: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


# services


class Services:
    """What dispatchers need of the rest of the program, made at the first need."""

    def __init__(self) -> None:
        self._choice: DeviceChoice | None = None
        self._providers: tuple[ImageProvider, ...] | None = None
        #: The namespace of the module that was last found to be of a package with images: its other kernels follow.
        self._shipping: dict[str, Any] | None = None

    def current_device(self) -> Device:
        """Where kernels run; chosen once."""
        if self._choice is None:
            from cudabuild.runtime.device import DeviceChoice

            self._choice = DeviceChoice(self._make_gpu, _make_cpu, _make_python)
        return self._choice.get()

    def _make_gpu(self, driver: Any) -> Device:
        from cudabuild.runtime.launch import GpuDevice

        return GpuDevice(driver, self.providers)

    def providers(self) -> tuple[ImageProvider, ...]:
        """The providers of images, in the order in which they are asked."""
        if self._providers is None:
            from cudabuild.importer.binding import ShippedProvider

            self._providers = (
                ShippedProvider("cubin"),
                _LateProvider("cached", _make_cached),
                ShippedProvider("ptx"),
                _LateProvider("compiled", _make_compiled),
            )
        return self._providers

    def dump(
        self, definition: KernelDefinition, signature: Signature, stage: str, target: str | None, index_width: int
    ) -> str:
        """The text of one stage of the compiler; the target is the device's own by default, sm_75 without a GPU."""
        from cudabuild.compiler import dump
        from cudabuild.target import parse_target

        chosen = None
        if target is not None:
            chosen = parse_target(target)
        elif stage not in ("source", "hir", "ir", "llvm"):
            from cudabuild.jit import choose_target

            device = self.current_device()
            chosen = choose_target(device.info) if device.kind == "gpu" else parse_target("75")
        return dump(definition, signature, stage, chosen, index_width)

    def explain(self, dispatcher: Dispatcher, signature: Signature, target: str | None, driver: str | None) -> str:
        """What an overload loads, and why nothing better; see ``Dispatcher.explain``."""
        from cudabuild.preflight import explain_overload

        return explain_overload(dispatcher, signature, target, driver)

    def to_device(self, value: Any) -> Any:
        """A copy of an array in device memory."""
        from cudabuild.host_api import to_device

        return to_device(value)

    def record(self, definition: KernelDefinition, signature: Signature, dialect: str) -> None:
        """Writes an overload into the signature file that the setting names."""
        from cudabuild.recording.recorder import find_recorder

        recorder = find_recorder()
        if recorder is not None:
            recorder.add(definition, signature, dialect)

    def reduce(self, thing: Any, kind: str, settings: dict[str, Any]) -> tuple[Any, ...]:
        """What pickles of a kernel or device function without a name hold."""
        from cudabuild.travel import reduce_object

        return reduce_object(thing, kind, settings)

    def fill(self, made: Any, values: tuple[dict[str, Any], ...]) -> None:
        """Gives what has just been unpickled its values."""
        from cudabuild.travel import fill

        fill(made, values)

    # what cuda.jit asks

    def check_early(self, dispatcher: JitDispatcher) -> None:
        """Types every declared overload of a function, unless its package ships images, which were made of it.

        Raises:
            CompilationError: the function is wrong.
        """
        definition = dispatcher.definition
        scope = definition.function.__globals__
        if scope is self._shipping:
            return
        from cudabuild import early

        if not early.is_wanted():
            return
        from cudabuild.importer.binding import find_archive_folders

        if find_archive_folders(definition.function):
            self._shipping = scope
            return
        from cudabuild.frontend import build_ir

        for signature in definition.signatures:
            try:
                build_ir(definition, signature)
            except SourceError:  # told at the launch, if no image is found by then
                return

    def result_type(self, definition: KernelDefinition, signature: Signature, wanted: Type | None) -> Type:
        """What a device function returns for arguments of these types."""
        from cudabuild.cuda_compile import result_type

        return result_type(definition, signature, wanted)

    def image_attributes(self, definition: KernelDefinition, signature: Signature) -> dict[str, Any]:
        """What the tools say of an overload's image for the default target."""
        from cudabuild.cuda_compile import image_attributes

        return image_attributes(definition, signature)

    def warn_of_occupancy(self, grid: Any) -> None:
        """Warns of a grid that leaves most of a GPU idle, where the settings ask for it."""
        from cudabuild.cuda import config as switches

        blocks = 1
        for extent in grid if isinstance(grid, (tuple, list)) else (grid,):
            blocks *= extent
        if blocks < _FEW_BLOCKS and switches.CUDA_LOW_OCCUPANCY_WARNINGS and not switches.DISABLE_PERFORMANCE_WARNINGS:
            _warn(f"Grid size {blocks} will likely result in GPU under-utilization due to low occupancy.")

    def warn_of_copy(self) -> None:
        """Warns of an argument in host memory, likewise."""
        from cudabuild.cuda import config as switches

        if switches.CUDA_WARN_ON_IMPLICIT_COPY and not switches.DISABLE_PERFORMANCE_WARNINGS:
            _warn("Host array used in CUDA kernel will incur copy overhead to/from device.")


#: Blocks that no large GPU is busy with (an H200 has 132 multiprocessors); numba-cuda's limit.
_FEW_BLOCKS = 128


def _warn(text: str) -> None:
    """Warns at the line of the program that led here, however many calls of this package lie between."""
    import sys
    import warnings

    from cudabuild.cuda.errors import NumbaPerformanceWarning

    level, frame = 1, sys._getframe()
    while frame.f_back is not None and (
        frame.f_globals.get("__name__", "").partition(".")[0] == "cudabuild"
        or frame.f_code.co_filename.startswith("<cudabuild ")
    ):
        level, frame = level + 1, frame.f_back
    warnings.warn(NumbaPerformanceWarning(text), stacklevel=level)


class _LateProvider:
    """A provider that is imported when it is first asked: a shipped image must not pay for cache or compiler."""

    def __init__(self, name: str, make: Callable[[], ImageProvider]) -> None:
        self.name = name
        self._make = make
        self._provider: ImageProvider | None = None

    def find(self, request: Any) -> Any:
        """See ``ImageProvider``."""
        return self._get().find(request)

    def foresee(self, request: Any) -> str:
        """See ``CompiledProvider``."""
        foresee = getattr(self._get(), "foresee", None)
        return str(foresee(request)) if foresee is not None else ""

    def find_nearest(self, request: Any, *, named: bool = False) -> str:
        """See ``ShippedProvider``."""
        find_nearest = getattr(self._get(), "find_nearest", None)
        return str(find_nearest(request, named=named)) if find_nearest is not None else ""

    def _get(self) -> ImageProvider:
        if self._provider is None:
            self._provider = self._make()
        return self._provider


def _make_cpu() -> Device:
    from cudabuild.cache.store import get_cache
    from cudabuild.cpu.device import CpuDevice

    return CpuDevice(get_cache(), _find_options)


def _find_options(definition: KernelDefinition, signature: Signature) -> Options:
    """The options of an overload on the CPU: its package's build may have chosen some, and its images tell."""
    from cudabuild.image.image import DeviceInfo, ImageRequest
    from cudabuild.importer.binding import find_recorded_options

    return find_recorded_options(ImageRequest(definition, signature, DeviceInfo((0, 0), 0), 64, bytes))


def _make_python() -> Device:
    from cudabuild.interpreter.device import PythonDevice

    return PythonDevice()


def _make_cached() -> ImageProvider:
    from cudabuild.cache.provider import CacheProvider
    from cudabuild.cache.store import get_cache
    from cudabuild.importer.binding import find_recorded_options

    return CacheProvider(get_cache(), _toolchain_of, find_recorded_options)


def _toolchain_of(target: str) -> Mapping[str, str] | None:
    from cudabuild.jit import toolchain_of  # rarely asked: the cache remembers the answer

    return toolchain_of(target)


def _make_compiled() -> ImageProvider:
    from cudabuild.jit import CompiledProvider

    return CompiledProvider()


#: Those of this process.
SERVICES = Services()


def current_device() -> Device:
    """The device that kernels run on in this process.

    Raises:
        LaunchError: ``CUDABUILD_DEVICE=gpu`` and there is no GPU.
    """
    return SERVICES.current_device()
