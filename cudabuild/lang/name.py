# SPDX-License-Identifier: Apache-2.0
"""Kernel-side names: objects that mean something to the compiler and refuse to run on the host.

A name is identified by its dotted spelling under ``cuda`` (``"atomic.add"``, ``"threadIdx.x"``): the front end finds
its typing rule by it, the fingerprint records it by it.
"""

from __future__ import annotations

from contextvars import ContextVar

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["Dim3", "KernelName", "Namespace", "Register", "interpreter"]

#: While a kernel's own Python code runs as one CUDA thread, what answers for the names: ``f(dotted name, args,
#: kwargs)``.
interpreter: ContextVar[Callable[[str, tuple[Any, ...], dict[str, Any]], Any] | None] = ContextVar(
    "interpreter", default=None
)


# The two classes have no docstring of their own: ``__doc__`` is a slot, so that ``help(cuda.grid)`` shows the name's.
class KernelName:  # a function of the kernel language, such as ``cuda.grid``
    __slots__ = ("__doc__", "name")

    def __init__(self, name: str, doc: str) -> None:
        self.name = name
        self.__doc__ = doc

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        run = interpreter.get()
        if run is None:
            raise RuntimeError(
                f"cuda.{self.name} works inside a kernel only; "
                "call the kernel with a launch configuration: kernel[blocks, threads](…)"
            )
        return run(self.name, args, kwargs)

    def __repr__(self) -> str:
        return f"cuda.{self.name}"

    def __reduce__(self) -> tuple[Any, ...]:
        return (_find, (self.name,))


class Register(KernelName):  # written without parentheses, as ``cuda.laneid``; a number while Python runs a kernel
    __slots__ = ("__doc__",)
    #: NumPy scalars leave operators to the other side, which knows the number.
    __array_ufunc__ = None

    def __str__(self) -> str:
        return repr(self) if interpreter.get() is None else str(self())

    def __int__(self) -> int:
        return int(self())

    __index__ = __int__

    def __bool__(self) -> bool:
        return interpreter.get() is None or bool(self())

    def __eq__(self, other: object) -> bool:
        return self is other if interpreter.get() is None else bool(self() == other)

    def __hash__(self) -> int:
        return hash(self.name)


_BINARY = "add sub mul truediv floordiv mod divmod pow lshift rshift and_ or_ xor"


def _add_operators() -> None:
    import _operator

    def add(name: str, compute: Callable[..., Any], reflected: bool) -> None:
        # By the operator and not the number's own method, which knows nothing of floats.
        setattr(Register, f"__{name}__", lambda self, *others: compute(self(), *others))
        if reflected:
            setattr(Register, f"__r{name}__", lambda self, other: compute(other, self()))

    own: dict[str, Callable[..., Any]] = {"divmod": divmod, "float": float}
    for names, reflected in ((_BINARY, True), ("lt le gt ge neg pos abs invert float", False)):
        for name in names.split():
            add(name.rstrip("_"), own[name] if name in own else getattr(_operator, name), reflected)


_add_operators()


class Dim3:  # ``threadIdx``, ``blockIdx``, ``blockDim``, ``gridDim``: ``.x``, ``.y`` and ``.z``
    __slots__ = ("__doc__", "name")

    def __init__(self, name: str, doc: str) -> None:
        self.name = name
        self.__doc__ = doc

    def _axis(self, axis: str) -> Any:
        return KernelName(f"{self.name}.{axis}", self.__doc__ or "")()

    @property
    def x(self) -> int:
        return self._axis("x")  # type: ignore[no-any-return]

    @property
    def y(self) -> int:
        return self._axis("y")  # type: ignore[no-any-return]

    @property
    def z(self) -> int:
        return self._axis("z")  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"cuda.{self.name}"

    def __str__(self) -> str:
        return repr(self) if interpreter.get() is None else f"({self.x}, {self.y}, {self.z})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (_find, (self.name,))


class Namespace:
    """A group of kernel-side names: ``cuda.shared``, ``cuda.local``, ``cuda.atomic``."""

    def __init__(self, name: str, doc: str, **members: KernelName | Namespace) -> None:
        self.name = name
        self.__doc__ = doc
        self.__dict__.update(members)

    def __repr__(self) -> str:
        return f"cuda.{self.name}"

    def __reduce__(self) -> tuple[Any, ...]:
        return (_find, (self.name,))


def _find(name: str) -> Any:
    """The kernel-side name spelled ``name`` under ``cuda``."""
    import functools

    import cudabuild.cuda

    return functools.reduce(getattr, name.split("."), cudabuild.cuda)
