# SPDX-License-Identifier: Apache-2.0
"""numba's module tree with this package's names in it.

    tree = NumbaTree()
    tree.import_name("numba", ("cuda", "njit"))     # what ``from numba import cuda, njit`` takes its names from

The modules are in no ``sys.modules``: other packages of the same process may hold the real numba there.
"""

from __future__ import annotations

from types import ModuleType

from cudabuild.errors import CudabuildError
from cudabuild.numba import cpu
from cudabuild.numba.answers import ANSWERS, SWITCHES
from cudabuild.numba.tables import MODULES, SAME, TRANSLATED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

__all__ = ["NumbaModule", "NumbaNameError", "NumbaTree", "is_numba"]

_MISSING: Any = object()


class NumbaNameError(CudabuildError, AttributeError):
    """A name that an adopted package asks numba for, and that is not there."""


def is_numba(name: str) -> bool:
    """Whether a module's absolute name is numba's."""
    return name == "numba" or name.startswith("numba.")


class NumbaModule(ModuleType):
    """A module of the tree: a name is found when it is asked for, and kept."""

    def __init__(self, tree: NumbaTree, name: str) -> None:
        super().__init__(name, f"{name}, as packages that cudabuild adopted see it.")
        self.__dict__["_tree"] = tree
        self.__path__: list[str] = []
        self.__package__ = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name not in ("__version__", "__all__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        value = self._tree.find_name(self.__name__, name)
        self.__dict__[name] = value
        return value

    def __dir__(self) -> list[str]:
        return sorted({*self.__dict__, *self._tree.list_names(self.__name__)} - {"_tree"})

    def __reduce__(self) -> tuple[Any, ...]:
        return (_find_again, (self.__name__,))


def _find_again(name: str) -> Any:
    """Unpickles a module of the tree of adopted packages."""
    return __import__("cudabuild.importer.adopt", fromlist=("",)).TREE.find_module(name)


class _Config(NumbaModule):
    """``numba.config``: numba-cuda's switches are this package's, the others the real numba's where it is installed."""

    def __setattr__(self, name: str, value: Any) -> None:
        real = self._tree.find_real("numba.config")
        if name.startswith("CUDA_") or name in _cuda_config().__all__:
            setattr(_cuda_config(), name, value)
        elif real is not None and not name.startswith("_"):
            setattr(real, name, value)
        else:
            self.__dict__[name] = value

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        value = getattr(_cuda_config(), name, _MISSING)
        if value is _MISSING:
            value = getattr(self._tree.find_real("numba.config"), name, SWITCHES.get(name, _MISSING))
        if value is _MISSING:
            raise NumbaNameError(_tell(self.__name__, name, self._tree))
        return value


def _cuda_config() -> Any:
    return __import__("cudabuild.cuda.config", fromlist=("",))


class NumbaTree:
    """The modules of numba by name.

    Attributes:
        takes_real: whether what numba has for CPUs comes from numba, where it is installed. A build does without: it
            wants the same values on every machine, and device functions only.
    """

    def __init__(self, takes_real: bool = True) -> None:
        self.takes_real = takes_real
        self._modules: dict[str, Any] = {}

    def find_real(self, name: str) -> Any:
        """A module of the real numba, or None where it is not installed or not wanted."""
        return cpu.find_real(name) if self.takes_real else None

    def find_module(self, name: str) -> Any:
        """The module called ``name``.

        Raises:
            ModuleNotFoundError: there is none; says what to do.
        """
        known = self._modules.get(name)
        if known is None:
            known = self._modules[name] = self._make_module(name)
        return known

    def _make_module(self, name: str) -> Any:
        if name in SAME:
            home, attribute = SAME[name]
            return getattr(__import__(home, fromlist=("",)), attribute)
        if name in ("numba.config", "numba.core.config"):
            return _Config(self, name)
        if name in MODULES and not (self._is_cpu_only(name) and self.find_real(name) is None):
            return NumbaModule(self, name)
        real = None if name.startswith("numba.cuda.") else self.find_real(name)
        if real is None:
            parent, _, last = name.rpartition(".")
            raise ModuleNotFoundError(_tell(parent, last, self), name=name)
        return real

    def import_name(self, name: str, names: Sequence[str] | None = ()) -> Any:
        """What an import statement gives.

        Args:
            name: the module.
            names: what ``from … import`` names of it; empty for a plain import, which gives ``numba`` itself.

        Raises:
            ImportError: there is no such module or name; says what to do.
        """
        module = self.find_module(name)
        if not names:
            return self.find_module("numba")
        for wanted in names:
            if wanted == "*":
                continue
            try:
                getattr(module, wanted)
            except AttributeError as error:
                # Here, because Python would look into sys.modules next, where another package's numba may be.
                raise ImportError(str(error), name=name) from None
        return module

    def import_absent(self, name: str, names: Sequence[str]) -> Any:
        """A module with ``names``, of which those that are not there raise NumbaNameError when they are used."""
        made = ModuleType(name)
        for wanted in names:
            try:
                value = getattr(self.find_module(name), wanted)
            except (AttributeError, ModuleNotFoundError):
                value = _Absent(_tell(name, wanted, self))
            setattr(made, wanted, value)
        return made

    def find_name(self, module: str, name: str) -> Any:
        """What ``module.name`` is.

        Raises:
            NumbaNameError: nothing; says what to do.
        """
        full = f"{module}.{name}"
        if full in MODULES or full in SAME or full in ("numba.config", "numba.core.config"):
            try:
                return self.find_module(full)
            except ModuleNotFoundError as error:
                raise NumbaNameError(str(error)) from None
        value = self._find_own(module, name)
        if value is _MISSING and module == "numba":
            value = cpu.find_decorator(name, self.find_real, _MISSING)
        if value is _MISSING and not f"{module}.".startswith("numba.cuda."):
            value = self._find_in_real(module, name)
        if value is _MISSING:
            raise NumbaNameError(_tell(module, name, self))
        return value

    def _find_own(self, module: str, name: str) -> Any:
        answer = ANSWERS.get(module, {}).get(name)
        if answer is not None:
            return answer()
        if name == "__version__":
            return cpu.find_version() if self.takes_real else SWITCHES["VERSION"]
        if name == "__all__":
            return self.list_names(module)
        for place in MODULES[module]:
            value = getattr(__import__(place, fromlist=("",)), name, _MISSING)
            if value is not _MISSING and not (isinstance(value, ModuleType) and module != "numba.cuda"):
                return value
        if "cudabuild.cuda.types" in MODULES[module]:
            types = __import__("cudabuild.types", fromlist=("",))
            return types.scalar_by_name(name) or _MISSING
        return _MISSING

    def _find_in_real(self, module: str, name: str) -> Any:
        real = self.find_real(module)
        if real is None:
            return _MISSING
        value = getattr(real, name, _MISSING)
        if value is _MISSING:
            return self.find_real(f"{module}.{name}") or _MISSING
        return cpu.translate(value) if name in TRANSLATED.get(module, ()) else value

    def _is_cpu_only(self, module: str) -> bool:
        return module in TRANSLATED and not MODULES[module]

    def list_names(self, module: str) -> list[str]:
        """The names that ``from module import *`` binds."""
        names = {full.rpartition(".")[2] for full in (*MODULES, *SAME) if full.rpartition(".")[0] == module}
        names.update(ANSWERS.get(module, ()))
        for place in MODULES[module]:
            names.update(__import__(place, fromlist=("",)).__all__)
        if module == "numba":
            names.update(cpu.NAMES)
            names -= {"core", "cuda", "errors", "np", "typed", "types"}  # as in numba: ``bool``, but no modules
            names -= {"experimental"} if self.find_real(module) is None else set()
        return sorted(names)


class _Absent:
    """A name that may be imported, for the sake of the others beside it, and not used."""

    def __init__(self, text: str) -> None:
        self._text = text

    def _refuse(self, *args: Any, **options: Any) -> Any:
        raise NumbaNameError(self._text)

    __bool__ = __call__ = __eq__ = __getitem__ = __iter__ = __len__ = _refuse
    __hash__ = object.__hash__

    def __getattr__(self, name: str) -> Any:
        raise NumbaNameError(self._text)


def _tell(module: str, name: str, tree: NumbaTree) -> str:
    full = f"{module}.{name}" if module else name
    if f"{full}.".startswith("numba.cuda."):
        do = (
            "adopt only the modules that hold kernels (cudabuild.adopt('package.module')), and leave the one that "
            "asks for this to numba"
        )
        return f"cudabuild has no {full}\n  found:    an import by an adopted package\n  do:       {do}"
    if not tree.takes_real:
        return f"{full} means nothing to a kernel: it is none of cudabuild's names"
    if not cpu.is_installed():
        return (
            f"{full} belongs to numba's CPU side, and numba is not installed\n"
            "  found:    an import by an adopted package\n"
            "  do:       pip install numba: kernels stay cudabuild's, and everything else is numba's then"
        )
    return f"neither cudabuild nor the installed numba {cpu.find_version()} has {full}"
