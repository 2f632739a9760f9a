# SPDX-License-Identifier: Apache-2.0
"""The dispatcher: what ``@kernel`` makes of a function, and what is called to launch it.

``kernel[grid, block]`` is a plain function with the kernel's parameters. It looks up the types of its arguments in its
configuration's table of generated launchers (``marshal.py``) and calls what it finds; the first call of a kind, and
whatever a generated launcher does not recognise, takes the careful path: read the arguments, resolve the overload, bind
it to the device, launch, and put a generated launcher into the table.
"""

from __future__ import annotations

from time import perf_counter

from cudabuild import config
from cudabuild.definition import parameter_names
from cudabuild.errors import ArgumentError, ConfigurationError, LaunchError
from cudabuild.runtime import driver as results
from cudabuild.runtime.arguments import read_argument
from cudabuild.runtime.configuration import Configuration, parse_configuration, whole_number
from cudabuild.runtime.front import MISSING, hold, make_front
from cudabuild.runtime.hints import CopyHint
from cudabuild.runtime.marshal import Link
from cudabuild.runtime.resolve import natural_signature, resolve
from cudabuild.types import Array
from cudabuild.types.signature import format_signature, parse_signatures

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, Protocol

    from cudabuild.definition import KernelDefinition
    from cudabuild.runtime.arguments import Argument
    from cudabuild.runtime.device import Device
    from cudabuild.runtime.launch import BoundKernel, GpuLauncher
    from cudabuild.types import Signature, Type

    class Services(Protocol):
        """What a dispatcher needs of the rest of the program; ``decorators.py`` hands it in."""

        def current_device(self) -> Device:
            """Where kernels run."""
            ...

        def dump(
            self, definition: KernelDefinition, signature: Signature, stage: str, target: str | None, index_width: int
        ) -> str:
            """The text of one stage of the compiler."""
            ...

        def to_device(self, value: Any) -> Any:
            """A copy of an array in device memory."""
            ...

        def result_type(self, definition: KernelDefinition, signature: Signature, wanted: Type | None) -> Type:
            """What a device function returns for arguments of these types."""
            ...

        def image_attributes(self, definition: KernelDefinition, signature: Signature) -> dict[str, Any]:
            """What the tools say of an overload's image for the default target."""
            ...

        def warn_of_occupancy(self, grid: Any) -> None:
            """Warns of a grid that leaves most of a GPU idle, where the settings ask for it."""
            ...

        def reduce(self, thing: Any, kind: str, settings: dict[str, Any]) -> tuple[Any, ...]:
            """What pickles of a kernel without a name hold; see ``travel.py``."""
            ...

        def fill(self, made: Any, values: tuple[dict[str, Any], ...]) -> None:
            """Gives a kernel that has just been unpickled its values."""
            ...

        def warn_of_copy(self) -> None:
            """Warns of an argument in host memory, likewise."""
            ...

        def explain(self, dispatcher: Dispatcher, signature: Signature, target: str | None, driver: str | None) -> str:
            """What an overload loads, and why nothing better."""
            ...

        def record(self, definition: KernelDefinition, signature: Signature, dialect: str) -> None:
            """Writes down that an overload is used; see ``recording/``."""
            ...


__all__ = ["Dispatcher", "find_named", "has_name"]

#: Configurations that a kernel remembers; beyond it all are forgotten (``forall`` with ever new sizes).
_MOST_CONFIGURATIONS = 256

#: Launchers in a chain for the same Python types; more overloads than these take the careful path.
_LONGEST_CHAIN = 8

#: ``forall`` without a block size. Good for most kernels on every device; needs no question to the driver.
_THREADS = 256


class Dispatcher:
    """A kernel, ready to be launched: ``kernel[grid, block](…)`` or ``kernel.forall(n)(…)``.

    Attributes:
        definition: what was written.
        py_func: the Python function.
        dialect: by which decorator it was made, as signature files say it.
    """

    dialect = "cudabuild"

    def __init__(self, definition: KernelDefinition, services: Services) -> None:
        function = definition.function
        self.definition = definition
        self.py_func = self.__wrapped__ = function
        self.__name__ = function.__name__
        self.__qualname__ = function.__qualname__
        self.__module__ = function.__module__
        self.__doc__ = function.__doc__
        self._services = services
        self._configured: dict[Any, Callable[..., None]] = {}
        self._launchers: dict[Signature, Any] = {}
        self._may_compile = True
        self._afresh = False

    def __repr__(self) -> str:
        return f"<kernel {self.__module__}.{self.__qualname__}>"

    def __reduce__(self) -> tuple[Any, ...]:
        if has_name(self, self.__module__, self.__qualname__):
            return (find_named, (self.__module__, self.__qualname__))
        return self._services.reduce(self, *self._travelling())

    def __setstate__(self, state: tuple[dict[str, Any], ...]) -> None:
        self._services.fill(self, state)

    def __deepcopy__(self, memo: Any = None) -> Any:
        return self  # as functions are

    __copy__ = __deepcopy__

    def _travelling(self) -> tuple[str, dict[str, Any]]:
        """What ``Services.reduce`` is told: the kind, and what its class takes beside the definition."""
        return "kernel", {}

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        name = self.__name__
        raise ConfigurationError(
            f"{name} was called without a launch configuration\n"
            f"  do:       {name}[blocks, threads_per_block](…), or {name}.forall(n)(…) for n threads"
        )

    # configurations

    def __getitem__(self, key: Any) -> Callable[..., None]:
        try:
            return self._configured[key]
        except (KeyError, TypeError):  # new, or not hashable
            return self._configure(key)

    def _configure(self, key: Any) -> Callable[..., None]:
        try:
            configuration = parse_configuration(key)
        except LaunchError as error:
            raise type(error)(f"{self.__qualname__}: {error}") from None
        bound = self._most_threads()
        x, y, z = configuration.block
        if bound is not None and x * y * z > bound:
            raise ConfigurationError(
                f"{self.__qualname__}: a block larger than the launch bounds\n  found:    {x * y * z} threads\n"
                f"  expected: at most {bound}: launch_bounds={self.definition.options['launch_bounds']!r}"
            )
        # Only numbers are remembered: a key with a stream object would keep the stream alive.
        exact = (configuration.grid, configuration.block, configuration.stream, configuration.shared)
        owner, configuration.stream_owner = configuration.stream_owner, None
        launch = self._configured.get(exact)
        if launch is None:
            launch = make_front(self, configuration)
            if len(self._configured) >= _MOST_CONFIGURATIONS:
                self._configured.clear()
            self._configured[exact] = launch
        if owner is not None and not isinstance(owner, int):
            return hold(launch, owner)
        if _is_plain(key):
            self._configured[key] = launch
        return launch

    def forall(self, n: int, tpb: int = 0, stream: Any = 0, sharedmem: int = 0) -> Callable[..., None]:
        """A configuration of at least ``n`` threads along x; the kernel itself leaves out those beyond.

        Args:
            n: the number of threads that are needed.
            tpb: threads per block; 0 leaves the choice here.
            stream: as in ``kernel[grid, block, stream]``.
            sharedmem: dynamic shared memory per block, in bytes.
        """
        count, threads = whole_number(n), whole_number(tpb) or self._default_threads()  # NumPy's numbers would overflow
        if count is None or count < 0:
            raise ConfigurationError(
                f"{self.__qualname__}: bad number of threads\n  found:    forall({n!r})\n"
                "  expected: a whole number, 0 or more"
            )
        if count == 0:
            return _launch_nothing
        return self[-(-count // threads) if threads > 0 else 1, threads, stream, sharedmem]

    def _default_threads(self) -> int:
        most = self._most_threads()
        return min(_THREADS, most) if most else _THREADS

    def _most_threads(self) -> int | None:
        """The threads per block that the kernel is bounded by."""
        bounds = self.definition.options["launch_bounds"]
        most: int | None = bounds[0] if isinstance(bounds, tuple) else bounds
        return most

    # launching

    def _launch(self, configuration: Configuration, args: tuple[Any, ...]) -> None:
        """The careful path."""
        if any(isinstance(value, CopyHint) for value in args):
            to_device = self._services.to_device
            args = tuple(value.argument(to_device) if isinstance(value, CopyHint) else value for value in args)
        names = parameter_names(self.py_func, len(args))
        if len(args) != len(names) or any(value is MISSING for value in args):
            self._refuse_count(args)
        arguments = [self._read(value, index) for index, value in enumerate(args)]
        try:
            signature, only_here = self._resolve(arguments)
        except LaunchError as error:
            raise ArgumentError(f"{self.__qualname__}: {error}") from None
        launcher = self._get_launcher(signature)
        careful = getattr(launcher, "launch", None)
        if careful is None:
            launcher(configuration.grid, configuration.block, configuration.stream, configuration.shared, args)
            return
        answer = careful(configuration, arguments)
        if answer is not None and not only_here:
            bound, serves = answer
            self._add_launcher(launcher, bound, serves, configuration, args, arguments)

    def _read(self, value: Any, index: int) -> Argument:
        try:
            return read_argument(value)
        except LaunchError as error:
            name = parameter_names(self.py_func, index + 1)[index]
            raise ArgumentError(f"{self.__qualname__}: argument {name!r} is {error}") from None

    @property
    def _parameters(self) -> tuple[str, ...]:
        return parameter_names(self.py_func, 0)

    def _refuse_count(self, args: tuple[Any, ...]) -> None:
        given = [value for value in args if value is not MISSING]
        missing = [n for n, value in zip(self._parameters, args, strict=False) if value is MISSING]
        names = ", ".join(self._parameters)
        extra = f", without {', '.join(missing)}" if missing else ""
        raise ArgumentError(
            f"{self.__qualname__}: wrong number of arguments\n  found:    {len(given)}{extra}\n"
            f"  expected: {len(self._parameters)}: {self.__name__}[…]({names})"
        )

    def _resolve(self, arguments: Sequence[Argument]) -> tuple[Signature, bool]:
        signatures = self.definition.signatures
        if not signatures:
            return natural_signature(arguments, parameter_names(self.py_func, len(arguments))), False
        return resolve(signatures, arguments, parameter_names(self.py_func, len(arguments)))

    def _get_launcher(self, signature: Signature) -> Any:
        launcher = self._launchers.get(signature)
        if launcher is None:
            start = perf_counter()
            device = self._services.current_device()
            made: Any = device.bind(self.definition, signature)
            if made.source:  # a GPU finds its image at the launch, and tells then
                elapsed = (perf_counter() - start) * 1e3
                text = format_signature(signature)
                config.log("info", f"{self.__qualname__}({text}): {made.source}, {elapsed:.2f} ms")
            if not self._may_compile and hasattr(made, "may_compile"):
                made.may_compile = False
            if self._afresh and hasattr(made, "afresh"):
                made.afresh = True
            launcher = self._launchers.setdefault(signature, made)
            if config.get("record"):
                self._record(launcher, signature)
        return launcher

    def _record(self, launcher: Any, signature: Signature) -> None:
        """Writes the overload down now, or once its image is found: what cannot be compiled is not worth recording."""

        def record() -> None:
            self._services.record(self.definition, signature, self.dialect)

        if hasattr(launcher, "on_image"):
            launcher.on_image = record
        else:
            record()

    def _add_launcher(
        self,
        launcher: GpuLauncher,
        bound: BoundKernel,
        serves: str,
        configuration: Configuration,
        args: tuple[Any, ...],
        arguments: Sequence[Argument],
    ) -> None:
        """Puts a generated launcher for arguments like these at the end of the chain for their Python types."""
        kinds = tuple(map(type, args))
        key = (kinds, launcher.signature, serves, launcher.sort_of(bound))
        chained = sum(1 for known in configuration.known if known[0] == kinds)
        if key in configuration.known or chained >= _LONGEST_CHAIN:
            return
        configuration.known.add(key)

        def failed(result: Any, values: tuple[Any, ...]) -> None:
            lost = int(result) in results.LOST_BINDING or int(result) in results.REFUSALS
            if not lost and not (configuration.shared and int(result) == results.INVALID_VALUE):
                raise launcher.error(result, configuration, bound)
            self._launch(configuration, values)

        link = Link(configuration.launchers.careful)
        rivals = self._rivals(launcher.signature)
        made = launcher.specialise(bound, serves, configuration, arguments, rivals, link, failed)
        before = configuration.ends.get(kinds)
        configuration.ends[kinds] = link
        if before is None:
            configuration.launchers[kinds] = made
            if configuration.settle is not None:
                configuration.settle(kinds, made)
                configuration.settle = None
        else:
            before.next = made

    def _rivals(self, signature: Signature) -> str:
        """What other overloads take that this one would take too; see ``make_launcher_factory``."""
        if not self.definition.signatures:
            return "CFW"
        found = set()
        for other in self.definition.signatures:
            for mine, theirs in zip(signature, other, strict=True):
                if isinstance(mine, Array) and isinstance(theirs, Array):
                    if mine.layout != theirs.layout:
                        found.add(theirs.layout)
                    if mine.readonly and not theirs.readonly:
                        found.add("W")
        return "".join(sorted(found))

    # what a person asks

    @property
    def signatures(self) -> list[Signature]:
        """The declared signatures; for a kernel that declares none, those launched so far."""
        declared = self.definition.signatures
        return list(declared) or list(self._launchers)

    @property
    def may_compile(self) -> bool:
        """Whether a missing image may be compiled, as far as this kernel goes."""
        return self._may_compile

    @property
    def is_afresh(self) -> bool:
        """Whether :meth:`recompile` was called, so that only what is compiled in this process is launched."""
        return self._afresh

    def image_source(self, signature: Any = None) -> str:
        """Where the code of an overload came from: ``shipped cubin sm_90``, ``compiled cubin sm_90``, ``cpu`` …

        Args:
            signature: the overload as written in a signature; the only or latest launched one by default.

        Returns:
            "" before the overload's first launch.
        """
        if signature is None:
            launchers = list(self._launchers.values())
            return str(launchers[-1].source) if launchers else ""
        launcher = self._launchers.get(parse_signatures(signature)[0])
        return "" if launcher is None else str(launcher.source)

    def disable_compile(self, disabled: bool = True) -> None:
        """Makes a missing image an error instead of a compilation; shipped and cached images still load."""
        self._may_compile = not disabled
        self._launchers.clear()
        self._configured.clear()

    def recompile(self) -> None:
        """Compiles every overload launched so far from the source as it is now, and loads that from now on.

        What is shipped or cached is not asked for this kernel any more. No file of its package is touched; the cache
        gets what is made. Configurations that were kept (``launch = kernel[grid, block]``) launch what they did.

        Raises:
            CompilationError: the kernel is wrong.
            NoImageError: nothing can be compiled here.
        """
        self._afresh = True
        launched = list(self._launchers)
        self._launchers.clear()
        self._configured.clear()
        for signature in launched:
            launcher = self._get_launcher(signature)
            if hasattr(launcher, "bound"):
                launcher.bound()

    def explain(self, signature: Any = None, target: str | None = None, driver: str | None = None) -> str:
        """What each overload would load here, why nothing better, and how what comes nearest differs. Launches nothing.

        Args:
            signature: one overload as written in a signature; all that are declared or were launched by default.
            target: a GPU in place of this machine's, as ``sm_90``.
            driver: the CUDA version of its driver, as ``"12.8"``; by default one that takes everything.

        Returns:
            Text for people.

        Raises:
            LaunchError: no ``target``, and no GPU here.
        """
        wanted = self.signatures if signature is None else parse_signatures(signature)
        explain = self._services.explain
        return "\n".join(explain(self, one, target, driver) for one in wanted)

    def specialize(self, *args: Any) -> Dispatcher:
        """This kernel with one signature only: the one that a launch with ``args`` takes."""
        arguments = [self._read(value, index) for index, value in enumerate(args)]
        if len(args) != len(parameter_names(self.py_func, len(args))):
            self._refuse_count(args)
        signature, _ = self._resolve(arguments)
        made = Dispatcher(self._specialised_definition(signature), self._services)
        made._may_compile, made._afresh = self._may_compile, self._afresh
        return made

    def _specialised_definition(self, signature: Signature) -> KernelDefinition:
        from cudabuild.definition import KernelDefinition

        whole = self.definition
        return KernelDefinition(
            whole.function, [signature], None, whole.options, whole.is_device, whole.may_be_called, whole.carveout
        )

    def inspect_ir(self, signature: Any = None) -> dict[str, str]:
        """The typed IR of one overload or of all, by signature."""
        return self._inspect("ir", signature, None, 32)

    def inspect_llvm(self, signature: Any = None, target: str | None = None, index_width: int = 32) -> dict[str, str]:
        """The LLVM IR; ``target`` as in ``sm_90``, the current device's by default."""
        return self._inspect("llvm", signature, target, index_width)

    def inspect_asm(self, signature: Any = None, target: str | None = None, index_width: int = 32) -> dict[str, str]:
        """The PTX."""
        return self._inspect("ptx", signature, target, index_width)

    def _inspect(self, stage: str, signature: Any, target: str | None, index_width: int) -> dict[str, str]:
        wanted = self.signatures if signature is None else parse_signatures(signature)
        dump = self._services.dump
        return {format_signature(one): dump(self.definition, one, stage, target, index_width) for one in wanted}


def find_named(module: str, qualname: str) -> Any:
    """What a module has under a qualified name, for unpickling: a kernel travels by name, as a function does.

    Raises:
        ImportError, AttributeError: there is nothing of that name.
    """
    import importlib
    from functools import reduce

    return reduce(getattr, qualname.split("."), importlib.import_module(module))


def has_name(thing: Any, module: str, qualname: str) -> bool:
    """Whether another process finds a thing by its name; not in a ``__main__`` that is no file."""
    import sys

    if module == "__main__" and not hasattr(sys.modules["__main__"], "__file__"):
        return False
    try:
        return find_named(module, qualname) is thing
    except (ImportError, AttributeError, ValueError):
        return False


def _launch_nothing(*args: Any, **kwargs: Any) -> None:
    """What ``forall(0)`` gives."""


def _is_plain(key: Any) -> bool:
    return all(
        part is None or type(part) is int or (type(part) is tuple and all(type(one) is int for one in part))
        for part in key
    )
