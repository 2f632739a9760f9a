# SPDX-License-Identifier: Apache-2.0
"""Foreign device code: functions that kernels call and others have compiled, and the code that holds them.

::

    square = cuda.declare_device("square", "float32(float32)", link="square.ptx", abi="c")

    @kernel("float32[::1]")
    def squares(x):
        i = cuda.grid(1)
        x[i] = square(x[i])

Such a kernel runs on a GPU only. What a file holds counts for the kernel's meaning, its path does not; files are read
when that is asked for first. The launch path imports this module.
"""

from __future__ import annotations

import os

from cudabuild.digest import digest_parts
from cudabuild.errors import LinkedCodeError, SettingError
from cudabuild.types.signature import format_signature, parse_signatures
from cudabuild.types.type import FunctionSignature, Prototype, none

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import FunctionType
    from typing import Any

    from cudabuild.types import Type

__all__ = [
    "LTOIR",
    "Archive",
    "CUSource",
    "Cubin",
    "DeclaredFunction",
    "Fatbin",
    "LinkableCode",
    "Object",
    "PTXSource",
    "declare_device",
    "describe_declared",
    "describe_links",
    "link_to",
    "linked_to",
    "links_of",
    "links_text",
    "same_but_missing",
]  # fmt: skip

#: Where a function keeps what ``link=`` of its decorator names.
_LINKED = "__cudabuild_linked__"

#: Instead of a digest, for a file that cannot be read.
_ABSENT = "absent"


class LinkableCode:
    """Code that is linked into a kernel: given as it is, or a file that is read when it is needed.

    Attributes:
        kind: ``ptx``, ``cu``, ``cubin``, ``fatbin``, ``object``, ``archive`` or ``ltoir``.
        name: for messages; of a file its path.
    """

    kind = ""
    suffixes: tuple[str, ...] = ()

    def __init__(
        self, data: Any, name: str | None = None, setup_callback: Any = None, teardown_callback: Any = None
    ) -> None:
        """Makes linkable code of bytes, a text, or something to read these from.

        Raises:
            SettingError: callbacks, which this package has no use for.
        """
        if setup_callback is not None or teardown_callback is not None:
            raise SettingError(
                f"setup_callback= and teardown_callback= of {type(self).__name__}\n  found:    a callback\n"
                "  expected: none: modules are loaded by the driver when a kernel is launched first\n"
                "  do:       initialise what the code needs with a kernel of its own"
            )
        self._data: Any = data
        self._path: str | None = None
        self.name = name or f"<unnamed {self.kind}>"

    @classmethod
    def from_path_or_obj(cls, item: Any) -> LinkableCode:
        """``item`` itself if it is linkable code, else the file that it names, by its suffix.

        Raises:
            SettingError: a suffix that says nothing, or what is no path.
        """
        if isinstance(item, LinkableCode):
            return item
        if not isinstance(item, (str, os.PathLike)):
            raise SettingError(
                f"link= of something that is no code\n  found:    {item!r}\n"
                "  expected: a path, or cuda.PTXSource, CUSource, Cubin, Fatbin, Object, Archive, LTOIR"
            )
        path = os.fspath(item)
        suffix = os.path.splitext(path)[1].lower()
        for kind in _KINDS:
            if suffix in kind.suffixes:
                made = kind("", path)
                made._data, made._path = None, path
                return made
        known = sorted(suffix for kind in _KINDS for suffix in kind.suffixes)
        raise SettingError(
            f"link= of a file of unknown kind\n  found:    {path!r}\n  expected: one of {', '.join(known)}\n"
            "  do:       rename it, or wrap its bytes: cuda.Object(data)"
        )

    def read(self) -> bytes:
        """The code.

        Raises:
            LinkedCodeError: the file cannot be read.
        """
        data = self._data
        if self._path is not None:
            try:
                with open(self._path, "rb") as stream:
                    return stream.read()
            except OSError as error:
                raise LinkedCodeError(
                    f"code to be linked cannot be read\n  found:    {self._path}: {error.strerror or error}\n"
                    "  expected: a file that is there when the kernel is compiled\n"
                    "  do:       ship it with the package, or give an absolute path: link=os.path.join("
                    "os.path.dirname(__file__), …)"
                ) from None
        if hasattr(data, "read"):
            data = self._data = data.read()
        return data.encode() if isinstance(data, str) else bytes(data)

    def __repr__(self) -> str:
        return f"cuda.{type(self).__name__}({self.name!r})"


class PTXSource(LinkableCode):
    """PTX with functions that are visible."""

    kind = "ptx"
    suffixes = (".ptx",)


class CUSource(LinkableCode):
    """CUDA C++, compiled by NVRTC for each target."""

    kind = "cu"
    suffixes = (".cu",)


class Cubin(LinkableCode):
    """A relocatable cubin (``nvcc -rdc=true -cubin``) of the target that it is linked for."""

    kind = "cubin"
    suffixes = (".cubin",)


class Fatbin(LinkableCode):
    """Relocatable code for several targets (``nvcc -rdc=true -fatbin``)."""

    kind = "fatbin"
    suffixes = (".fatbin",)


class Object(LinkableCode):
    """A host object with relocatable device code in it (``nvcc -rdc=true -c``)."""

    kind = "object"
    suffixes = (".o", ".obj")


class Archive(LinkableCode):
    """A library of such objects."""

    kind = "archive"
    suffixes = (".a", ".lib")


class LTOIR(LinkableCode):
    """Code that nvJitLink optimises when it links (``nvcc -rdc=true -dlto -ltoir``)."""

    kind = "ltoir"
    suffixes = (".ltoir",)


_KINDS: tuple[type[LinkableCode], ...] = (PTXSource, CUSource, Cubin, Fatbin, Object, Archive, LTOIR)


class DeclaredFunction:
    """A device function that is not written in Python: kernels call it as if it were.

    Attributes:
        name: the symbol.
        sig: its types: ``sig.args`` and ``sig.return_type``.
        link: the code that holds it.
        abi: ``c`` for a function as it is declared in C; ``numba`` for one whose first parameter points to the result
            and which returns a status, 0 for success.
    """

    def __init__(self, name: str, sig: Prototype, link: tuple[LinkableCode, ...], abi: str) -> None:
        self.name = name
        self.sig = sig
        self.link = link
        self.abi = abi

    def __call__(self, *args: Any) -> Any:
        raise TypeError(f"{self.name} is device code: kernels call it, on a GPU")

    def __repr__(self) -> str:
        return f"<device function {self.name}: {self.sig!r}>"

    @property
    def arguments(self) -> tuple[Type, ...]:
        """The types of its parameters."""
        return self.sig.args


def declare_device(name: str, sig: Any, link: Any = None, use_cooperative: bool = False, abi: str = "numba") -> Any:
    """Declares a device function that others have compiled.

    Args:
        name: its symbol: in C++ it is declared ``extern "C" __device__``.
        sig: its result and parameters: ``"float32(float32, CPointer(float32))"`` or ``float32(float32)`` of types.
        link: the code that holds it: a path (``.ptx``, ``.cu``, ``.cubin``, ``.fatbin``, ``.o``, ``.a``, ``.ltoir``),
            an object such as ``cuda.CUSource(text)``, or several of these. Every kernel that calls the function is
            linked with it. Without any, kernels have to say so: ``cuda.jit(link=[…])``.
        use_cooperative: taken and left alone: a kernel that waits for its whole grid does so with ``cg.this_grid()``.
        abi: ``"numba"`` or ``"c"``, see :class:`DeclaredFunction`.

    Raises:
        TypeError: a signature without a result.
        SettingError: an unknown ABI or kind of code.
    """
    if abi not in ("numba", "c"):
        raise SettingError(f"bad abi of declare_device\n  found:    {abi!r}\n  expected: 'numba' or 'c'")
    return DeclaredFunction(name, _prototype(sig), links_of(link), abi)


def _prototype(sig: Any) -> Prototype:
    if isinstance(sig, Prototype):
        return sig
    if isinstance(sig, str) and sig.strip()[:1] != "(" and "(" in sig:
        (found,) = parse_signatures(sig, returns=True)
        result = found.return_type if isinstance(found, FunctionSignature) else none
        if result != none or sig.partition("(")[0].strip() in ("void", "none"):
            return Prototype(tuple(found), result)
    raise TypeError(
        f"Return type is missing from a declaration\n  found:    {sig!r}\n"
        "  expected: the result before the parameters: 'int32(float32)', or 'void(float32)'"
    )


def links_of(given: Any) -> tuple[LinkableCode, ...]:
    """What ``link=`` names, as code: one item or several.

    Raises:
        SettingError: an item that is no code.
    """
    if given is None:
        return ()
    if isinstance(given, (str, os.PathLike, LinkableCode)):
        given = (given,)
    items = sorted(given, key=str) if isinstance(given, (set, frozenset)) else list(given)
    return tuple(map(LinkableCode.from_path_or_obj, items))


def link_to(function: FunctionType, links: tuple[LinkableCode, ...]) -> None:
    """Has every kernel that reaches ``function`` linked with ``links``."""
    if links:
        function.__dict__[_LINKED] = links


def describe_links(function: FunctionType) -> str:
    """What :func:`link_to` has noted of a function, by content; "" where there is nothing."""
    links = function.__dict__.get(_LINKED, ())
    return f"linked {links_text(links)}" if links else ""


def linked_to(function: FunctionType) -> tuple[LinkableCode, ...]:
    """What :func:`link_to` has noted of a function."""
    links: tuple[LinkableCode, ...] = function.__dict__.get(_LINKED, ())
    return links


def links_text(links: Iterable[LinkableCode]) -> str:
    """Code by its kinds and content, the same in every process."""
    parts = []
    for link in links:
        try:
            parts += [link.kind.encode(), link.read()]
        except LinkedCodeError:
            return _ABSENT
    return digest_parts(*parts).hex()[:32] if parts else "nothing"


def describe_declared(value: DeclaredFunction) -> str:
    """A declared function as text: its symbol, types and the content of its code."""
    types = f"{value.sig.return_type}({format_signature(value.sig.args)})"
    return f"linked function {value.name} {types} {value.abi} {links_text(value.link)}"


def same_but_missing(built: str, live: str) -> bool:
    """Whether two texts of linked code differ in nothing but that its files are not there any more.

    An installed package need not ship what is linked into its images.
    """
    if not live.startswith("linked ") or not live.endswith(_ABSENT):
        return False
    return built.rpartition(" ")[0] == live.rpartition(" ")[0]
