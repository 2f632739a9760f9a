# SPDX-License-Identifier: Apache-2.0
"""numba's CPU side for adopted packages: the real one where it is installed; plain Python functions otherwise.

The real decorators get this package's types translated into numba's, and numba is taught what our types and modules
are where a function that it compiles names them. The functions themselves are never changed: a kernel may call them.
"""

from __future__ import annotations

from types import FunctionType

from cudabuild.errors import CudabuildError
from cudabuild.types import Array, NoneType, Record, Scalar, Tuple, Type, as_dtype
from cudabuild.types.type import FunctionSignature, Prototype

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["NAMES", "find_decorator", "find_real", "find_version", "is_installed", "to_numba", "translate"]

#: numba's decorators that compile for CPUs.
_JITS = ("jit", "njit", "generated_jit")
_OTHERS = ("vectorize", "guvectorize", "stencil", "cfunc")
#: What of the CPU side is always there.
NAMES = ("jit", "njit", "vectorize", "guvectorize", "stencil", "cfunc", "prange", "config")

_taught = False


def is_installed() -> bool:
    """Whether there is a real numba; not imported to find out."""
    import importlib.util
    import sys

    if sys.modules.get("numba") is not None:
        return True
    try:
        return importlib.util.find_spec("numba") is not None
    except (ImportError, ValueError):
        return False


def find_version() -> str:
    """The version that ``numba.__version__`` tells."""
    from cudabuild.numba.answers import SWITCHES

    if not is_installed():
        return str(SWITCHES["VERSION"])
    import importlib.metadata
    import sys

    if "numba" in sys.modules:
        return str(sys.modules["numba"].__version__)
    try:
        return importlib.metadata.version("numba")
    except importlib.metadata.PackageNotFoundError:
        return str(find_real("numba").__version__)


def find_real(name: str) -> Any:
    """A module of the real numba, imported; None where numba is not installed or has no such module."""
    if not is_installed():
        return None
    try:
        found = __import__(name, fromlist=("",))
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(f"{error.name}.")):
            raise  # the module is there, and something that it imports is not
        return None
    _teach(__import__("numba.extending", fromlist=("",)))
    return found


def find_decorator(name: str, real: Callable[[str], Any], default: Any) -> Any:
    """``numba.njit`` and its like, and ``prange``; ``default`` for other names.

    Args:
        name: of numba's top level.
        real: finds a module of the real numba.
        default: what is returned for what is not known here.
    """
    if name == "prange":
        numba = real("numba")
        return range if numba is None else numba.prange
    if name not in _JITS and name not in _OTHERS:
        return default

    def decorator(*args: Any, **options: Any) -> Any:
        if options.get("target") == "cuda":
            return getattr(__import__("cudabuild.cuda", fromlist=("",)), name)(*args, **options)
        numba = real("numba")
        if numba is not None:
            return getattr(numba, name)(
                *map(to_numba, args), **{key: to_numba(value) for key, value in options.items()}
            )
        plain = _keep if name in _JITS else _refuse_calls(name)
        return plain(args[0]) if args and isinstance(args[0], FunctionType) else plain

    decorator.__name__ = decorator.__qualname__ = name
    decorator.__doc__ = f"numba's ``{name}`` where numba is installed; without it, Python."
    return decorator


def _keep(function: Any) -> Any:
    """The function itself, which kernels can call; numba's name for it is there too."""
    function.py_func = function
    return function


def _refuse_calls(name: str) -> Callable[[Any], Any]:
    """A decorator whose functions say, when they are called, that numba has to be installed."""

    def decorate(function: Any) -> Any:
        def refuse(*args: Any, **options: Any) -> Any:
            raise CudabuildError(
                f"{function.__module__}.{function.__qualname__} is compiled by numba.{name}, and numba is not "
                "installed\n  do:       pip install numba: kernels stay cudabuild's, and this function is numba's then"
            )

        refuse.__name__, refuse.__qualname__ = function.__name__, function.__qualname__
        refuse.__module__, refuse.__doc__ = function.__module__, function.__doc__
        refuse.py_func = function  # type: ignore[attr-defined]
        return refuse

    return decorate


# the real numba


def to_numba(value: Any) -> Any:
    """A type, signature, or list, tuple or dictionary of these with numba's types in place of this package's."""
    if isinstance(value, Prototype):
        return to_numba(value.return_type)(*map(to_numba, value.args))
    if isinstance(value, FunctionSignature):
        return to_numba(value.return_type)(*map(to_numba, value.args))
    if isinstance(value, Type):
        return _type_of(value, __import__("numba.core.types", fromlist=("",)))
    if type(value) in (list, tuple):
        return type(value)(map(to_numba, value))
    if type(value) is dict:
        return {key: to_numba(part) for key, part in value.items()}
    return value


def _type_of(value: Type, types: Any) -> Any:
    if isinstance(value, Array):
        return types.Array(_type_of(value.dtype, types), value.ndim, value.layout, readonly=value.readonly)
    if isinstance(value, Tuple):
        return types.Tuple([_type_of(element, types) for element in value.elements])
    if isinstance(value, Record):
        return __import__("numba.np.numpy_support", fromlist=("",)).from_dtype(as_dtype(value))
    if isinstance(value, Scalar) and hasattr(types, {"bool": "boolean"}.get(value.name, value.name)):
        return getattr(types, {"bool": "boolean"}.get(value.name, value.name))
    if type(value) is NoneType:
        return types.none
    raise CudabuildError(f"numba has no type for cudabuild's {value}: it cannot be in a signature for CPUs")


class _Translating(type):
    """The class of stand-ins for classes of numba that are made of types: ``typed.Dict``, ``types.ListType``."""

    real: Any

    def __call__(cls, *args: Any, **options: Any) -> Any:
        return translate_call(cls.real, args, options)

    def __getattr__(cls, name: str) -> Any:
        value = getattr(cls.real, name)
        return translate(value) if callable(value) and not isinstance(value, type) else value

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls.real)

    def __subclasscheck__(cls, other: type) -> bool:
        return other is cls or issubclass(other, cls.real)


def translate_call(real: Any, args: Any, options: Any) -> Any:
    """Calls something of numba's with numba's types in place of ours."""
    return real(*map(to_numba, args), **{key: to_numba(value) for key, value in options.items()})


def translate(real: Any) -> Any:
    """What stands for a function or class of numba that takes types, and may be given ours."""
    if isinstance(real, type):
        return _Translating(real.__name__, (), {"real": real, "__doc__": real.__doc__, "__module__": real.__module__})

    def call(*args: Any, **options: Any) -> Any:
        return translate_call(real, args, options)

    call.__name__, call.__doc__ = getattr(real, "__name__", "call"), real.__doc__
    return call


def _teach(extending: Any) -> None:
    """Tells numba's type inference, once, what our types and the modules of the tree stand for in a function."""
    global _taught
    if _taught:
        return
    _taught = True
    from cudabuild.numba.tree import NumbaModule

    types = __import__("numba.core.types", fromlist=("",))
    typeof = extending.typeof_impl

    @typeof.register(Type)  # type: ignore[untyped-decorator]
    def type_of_type(value: Type, context: Any) -> Any:
        return typeof(_type_of(value, types), context)

    @typeof.register(_Translating)  # type: ignore[untyped-decorator]
    def type_of_class(value: _Translating, context: Any) -> Any:
        return typeof(value.real, context)

    @typeof.register(NumbaModule)  # type: ignore[untyped-decorator]
    def type_of_module(value: NumbaModule, context: Any) -> Any:
        real = None if value.__name__.startswith("numba.cuda") else find_real(value.__name__)
        return types.Module(value if real is None else real)
