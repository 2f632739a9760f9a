# SPDX-License-Identifier: Apache-2.0
"""What the user wrote: a function, its signatures and its options. No behaviour.

Signatures are kept as written and parsed when first needed: decorating a kernel costs microseconds.
"""

from __future__ import annotations

import time

from cudabuild.types.signature import parse_signatures, plain_spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import FunctionType
    from typing import Any

    from cudabuild.types import Signature, Type

__all__ = [
    "DEFAULT_OPTIONS",
    "OPTIONS",
    "STARTED",
    "KernelDefinition",
    "OptionSpec",
    "Options",
    "is_sourceless",
    "parameter_names",
]


#: When this process first had kernels; a source file written later may not be what a kernel was made of.
STARTED = time.time()


def is_sourceless(function: FunctionType) -> bool:
    """Whether a function came from bytecode alone: a ``.pyc`` file, or an application that somebody froze.

    Such code names a source file of the machine where it was made, or one without a folder; what stands under that name
    here, if anything, is not what it was made of, as far as anybody knows.
    """
    scope, named = function.__globals__, function.__code__.co_filename
    file = str(getattr(scope.get("__loader__"), "path", None) or scope.get("__file__"))
    return file.endswith(".pyc") or (_is_absolute(file) and not named.startswith("<") and not _is_absolute(named))


def _is_absolute(path: str) -> bool:
    return path.startswith(("/", "\\")) or path[1:2] == ":"


class OptionSpec:
    """One compile option: its default, what it accepts, and whether it changes results.

    ``changes_results`` options belong to the fingerprint; the others only to the image key.
    """

    __slots__ = ("accepts", "changes_results", "default", "doc", "name")

    def __init__(self, name: str, default: Any, accepts: str, changes_results: bool, doc: str) -> None:
        self.name = name
        self.default = default
        self.accepts = accepts
        self.changes_results = changes_results
        self.doc = doc


#: Every option of ``@kernel``, declared once.
OPTIONS: tuple[OptionSpec, ...] = (
    OptionSpec(
        "fastmath", False, "bool", True, "allow approximate division, square root and functions; flush denormals"
    ),
    OptionSpec("fma", True, "bool", True, "contract a * b + c into one fused multiply-add with a single rounding"),
    OptionSpec(
        "literals",
        "weak",
        "'weak' or 'numba'",
        True,
        "how Python numbers are typed: 'weak' takes the other operand's type, 'numba' makes int64 and float64",
    ),
    OptionSpec(
        "debug",
        False,
        "bool",
        True,
        "check indices, divisors, assert and raise, and tell the first that fails after the launch, which then waits",
    ),
    OptionSpec("opt", 3, "int 0..3", False, "LLVM's and the assembler's optimisation level"),
    OptionSpec("lineinfo", False, "bool", False, "record source lines for profilers"),
    OptionSpec("max_registers", None, "int 16..255 or None", False, "the most registers a thread may use"),
    OptionSpec(
        "launch_bounds",
        None,
        "int, a tuple of one to three, or None",
        False,
        "the most threads per block, and optionally the fewest resident blocks per multiprocessor, and the most blocks "
        "per cluster",
    ),
)


class Options:
    """A full set of option values; ``written`` names those that the decorator spelled out."""

    __slots__ = ("values", "written")

    def __init__(self, values: Mapping[str, Any], written: frozenset[str] = frozenset()) -> None:
        self.values = {spec.name: values.get(spec.name, spec.default) for spec in OPTIONS}
        self.written = written

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def replace(self, **changes: Any) -> Options:
        """These options with some values changed (and counted as written)."""
        return Options({**self.values, **changes}, self.written | frozenset(changes))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Options) and self.values == other.values

    def __hash__(self) -> int:
        return hash(tuple(self.values.values()))

    def __reduce__(self) -> tuple[Any, ...]:
        return (Options, (self.values, self.written))


DEFAULT_OPTIONS = Options({})


#: The flag of a code object whose function takes ``*args``.
_TAKES_ANY = 4


def parameter_names(function: FunctionType, count: int) -> tuple[str, ...]:
    """The names of a function's parameters for a call with ``count`` arguments; what ``*args`` takes is ``args_0`` …"""
    code = function.__code__
    names = code.co_varnames[: code.co_argcount]
    if code.co_flags & _TAKES_ANY:
        rest = code.co_varnames[code.co_argcount + code.co_kwonlyargcount]
        names += tuple(f"{rest}_{number}" for number in range(count - len(names)))
    return names


class KernelDefinition:
    """A kernel or device function as written.

    Attributes:
        function: the Python function.
        spec: the signatures as written (string, tuple of types, list of these), or None.
        variables: a template's type variables.
        options: compile options.
        is_device: True for ``@device_function``.
        may_be_called: whether kernels may call it: a device function, or a kernel that may be both.
        carveout: the share of a multiprocessor's memory that launches want as shared memory, in percent; -1 leaves it
            to the driver. None says nothing.
    """

    __slots__ = (
        "_signatures", "carveout", "function", "is_device", "may_be_called", "options", "spec", "variables",
    )  # fmt: skip

    def __init__(
        self,
        function: FunctionType,
        spec: Any = None,
        variables: Mapping[str, Sequence[Type]] | None = None,
        options: Options = DEFAULT_OPTIONS,
        is_device: bool = False,
        may_be_called: bool = False,
        carveout: int | None = None,
    ) -> None:
        self.function = function
        self.spec = plain_spec(spec)
        self.variables = variables
        self.options = options
        self.is_device = is_device
        self.may_be_called = is_device or may_be_called
        self.carveout = carveout
        self._signatures: list[Signature] | None = None

    def with_options(self, options: Options) -> KernelDefinition:
        """The same with other options."""
        made = KernelDefinition(
            self.function, self.spec, self.variables, options, self.is_device, self.may_be_called, self.carveout
        )
        made._signatures = self._signatures
        return made

    @property
    def module(self) -> str:
        return self.function.__module__

    @property
    def qualname(self) -> str:
        return self.function.__qualname__

    @property
    def signatures(self) -> list[Signature]:
        """The declared signatures, from the decorator or else from the parameter annotations; empty if none.

        Raises:
            SignatureError: a signature cannot be read, or has another number of types than the function has
                parameters.
        """
        if self._signatures is None:
            if self.spec is not None:
                found = parse_signatures(self.spec, self.variables, returns=self.is_device)
            else:
                from cudabuild.annotations import signature_from_annotations

                annotated = signature_from_annotations(self.function)
                found = [] if annotated is None else [annotated]
            for signature in found:
                self.check_arity(signature)
            self._signatures = found
        return self._signatures

    def check_arity(self, signature: Signature) -> None:
        """Raises SignatureError where a signature has another number of types than the function has parameters."""
        from cudabuild.errors import SignatureError
        from cudabuild.types.signature import format_signature

        names = parameter_names(self.function, len(signature))
        if len(signature) != len(names):
            raise SignatureError(
                format_signature(signature),
                0,
                found=f"{len(signature)} types for {self.qualname}({', '.join(names)})",
                expected=f"{len(names)}, one for each parameter",
            )
