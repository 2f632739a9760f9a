# SPDX-License-Identifier: Apache-2.0
"""Makes functions that other functions make, without running those: from the text of the module and recorded values.

The module's text is compiled as it stands; the code object of the function in it gets the module's names, as a slice
made them, as its globals, and cells that hold what was recorded. So the function has the file, the lines, the names
and the values of the one that ran, and with them its fingerprint.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from types import CellType, CodeType, FunctionType
from typing import Any

from cudabuild.build.project import Project
from cudabuild.build.resolve import EXTERNAL, Cell, Resolver
from cudabuild.errors import CudabuildError, SourceError
from cudabuild.fingerprint.canonical import FunctionForm, canonical_form
from cudabuild.numba.tree import NumbaTree, is_numba
from cudabuild.recording.captured import LINKED
from cudabuild.recording.forms import find_unknown, form_tag, nested_forms
from cudabuild.source import get_source
from cudabuild.types.signature import parse_signatures
from cudabuild.types.type import Array

__all__ = ["CannotRebuild", "Codes", "Located", "Rebuilder", "find_cells"]


class CannotRebuild(CudabuildError):
    """A recorded function or value that cannot be made again; ``kind`` as in :data:`cudabuild.image.left.KINDS`."""

    def __init__(self, reason: str, kind: str = "not-rebuilt") -> None:
        super().__init__(reason)
        self.reason = reason
        self.kind = kind


class Located:
    """A function in the text of a module.

    Attributes:
        module, code: what it is.
        line: that of its ``def``.
        form: its canonical form; ``digest`` is the beginning of that in hexadecimal.
    """

    def __init__(self, module: str, code: CodeType) -> None:
        self.module, self.code = module, code
        cells = tuple(CellType() for _ in code.co_freevars)
        tree = get_source(FunctionType(code, {"__name__": module}, code.co_name, None, cells)).tree
        self.line = tree.lineno
        self.form: FunctionForm = canonical_form(tree)
        self.digest = self.form.digest.hex()

    @property
    def globals_used(self) -> list[tuple[str, ...]]:
        """The dotted names that it takes from its module, or that are built in."""
        return [chain for chain in self.form.free_names if chain[0] not in self.code.co_freevars]

    @property
    def captured(self) -> list[str]:
        """The names that it takes from the functions around it."""
        used = {chain[0] for chain in self.form.free_names}
        return [name for name in self.code.co_freevars if name in used]


class Codes:
    """The functions in the texts of a project's modules; each text is compiled once."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self._codes: dict[str, list[tuple[str, CodeType]]] = {}
        self._located: dict[int, Located] = {}  # by the identity of code objects, which ``_codes`` keeps

    def find(self, module: str, qualname: str, line: int = 0, digest: str = "") -> Located:
        """The function that was recorded.

        Args:
            module, qualname: its name.
            line: where it began, or 0.
            digest: the beginning of the digest of its canonical source, or "".

        Raises:
            CannotRebuild: there is none, or it cannot be told from others.
        """
        if module not in self.project.files:
            raise CannotRebuild(f"{module}:{qualname} is not in a module of this project")
        found = [self._locate(module, code) for name, code in self._all(module) if name == qualname]
        if not found:
            file = self.project.relative(self.project.files[module].path)
            raise CannotRebuild(f"{file} holds no {qualname}: it was renamed or taken out, or made by exec", "stale")
        same = [one for one in found if digest and one.digest.startswith(digest)]
        if not same and len(found) == 1:
            return found[0]  # edited since, or recorded without a digest: what it captures is compared below
        near = [one for one in same or found if one.code.co_firstlineno == line]
        if len(near) == 1:
            return near[0]
        if len({one.digest for one in same}) == 1:
            return same[0]
        raise CannotRebuild(f"there are several functions {qualname}, and all of them were edited since", "stale")

    def _locate(self, module: str, code: CodeType) -> Located:
        known = self._located.get(id(code))
        if known is None:
            try:
                known = self._located[id(code)] = Located(module, code)
            except SourceError as error:
                raise CannotRebuild(str(error)) from None
        return known

    def _all(self, module: str) -> list[tuple[str, CodeType]]:
        if module not in self._codes:
            path = self.project.files[module].path
            source = self.project.find_module(module)
            flags = 0 if source is None else source.future_flags
            code = compile(self.project.read(module), path, "exec", flags=flags, dont_inherit=True)
            self._codes[module] = list(_named_codes(code, ""))
        return self._codes[module]


_CO_NEWLOCALS = 2


def _named_codes(code: CodeType, prefix: str) -> Iterator[tuple[str, CodeType]]:
    """Every function inside a code object with its qualified name, which Python itself keeps from 3.11 on only."""
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            name = getattr(inner, "co_qualname", prefix + inner.co_name)
            is_function = bool(inner.co_flags & _CO_NEWLOCALS)
            if is_function:
                yield name, inner
            yield from _named_codes(inner, f"{name}.<locals>." if is_function else f"{name}.")


# what must have run


def find_cells(codes: Codes, resolver: Resolver, value: Any) -> set[Cell]:
    """The names of the project's modules that making a recorded value needs.

    Raises:
        CannotRebuild: a function in it is not to be found.
    """
    tag = form_tag(value)
    found: set[Cell] = set()
    if tag in ("object", "named_tuple"):
        module, _, path = value[tag].partition(":")
        if codes.project.owns(module):
            found.add((module, path.partition(".")[0]))
    elif tag == "function":
        found |= needed_names(_find_function(codes, value), resolver)
    for inner in nested_forms(value):
        found |= find_cells(codes, resolver, inner)
    return found


def needed_names(located: Located, resolver: Resolver) -> set[Cell]:
    """The names of the project's modules that a function takes from its module, and those that they lead to."""
    found: set[Cell] = set()
    for chain in located.globals_used:
        resolution = resolver.resolve(located.module, chain)
        found |= resolution.path | resolution.final
    return {cell for cell in found if cell[0] != EXTERNAL}


def _find_function(codes: Codes, form: Mapping[str, Any]) -> Located:
    module, _, qualname = form["function"].partition(":")
    return codes.find(module, qualname, form.get("line", 0), form.get("code", ""))


# making


class Rebuilder:
    """Makes functions and values, while a sandbox is open and has run what they need.

    Args:
        codes: the functions of the project.
        sandbox: what says which modules may be imported.
        folder: that of the signature file, which arrays are kept beside.
    """

    def __init__(self, codes: Codes, sandbox: Any, folder: str) -> None:
        self._codes = codes
        self._sandbox = sandbox
        self._folder = folder
        self._path: list[str] = []
        self._made: dict[str, Any] = {}

    def function(
        self, located: Located, qualname: str, captured: Mapping[str, Any], defaults: Mapping[str, Any]
    ) -> FunctionType:
        """A function with recorded values in its cells and as its defaults.

        Raises:
            CannotRebuild: it captures something that was not recorded, or whose value cannot be made again.
        """
        missing = [name for name in located.captured if name not in captured]
        if missing:
            raise CannotRebuild(
                f"it uses {', '.join(missing)} of the function around it, which was not recorded", "stale"
            )
        if LINKED in captured:
            self._named_value(LINKED, captured[LINKED])  # raises
        cells = []
        for name in located.code.co_freevars:
            known = name in located.captured
            cells.append(CellType(self._named_value(name, captured[name])) if known else CellType())
        namespace = self._import(located.module).__dict__
        made = FunctionType(located.code, namespace, located.code.co_name, None, tuple(cells))
        made.__qualname__ = qualname
        self._set_defaults(made, defaults)
        return made

    def _named_value(self, name: str, form: Any) -> Any:
        self._path.append(name)
        try:
            return self.value(form)
        except CannotRebuild as error:
            raise CannotRebuild(f"{name}: {error.reason}", error.kind) from None
        finally:
            self._path.pop()

    def _values(self, forms: Iterable[Any]) -> list[Any]:
        """The values of a collection, each at its number."""
        found = []
        for number, form in enumerate(forms):
            self._path.append(str(number))
            found.append(self.value(form))
            self._path.pop()
        return found

    def _set_defaults(self, made: FunctionType, defaults: Mapping[str, Any]) -> None:
        code = made.__code__
        positional = code.co_varnames[: code.co_argcount]
        keywords = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
        last = [name for name in positional if name in defaults]
        if list(positional[len(positional) - len(last) :]) != last or set(defaults) - {*positional, *keywords}:
            raise CannotRebuild(f"its parameters with defaults were {', '.join(defaults)} when recorded", "stale")
        if last:
            made.__defaults__ = tuple(self._named_value(name, defaults[name]) for name in last)
        named = {name: self._named_value(name, defaults[name]) for name in keywords if name in defaults}
        made.__kwdefaults__ = named or None

    def value(self, form: Any) -> Any:
        """What a form stands for.

        Raises:
            CannotRebuild: it cannot be made here.
        """
        unknown = find_unknown(form)
        if unknown:
            raise CannotRebuild(f"{unknown} cannot be written down")
        if isinstance(form, list):
            return self._values(form)
        tag = form_tag(form)
        if not tag:
            return form
        if tag in ("dtype", "scalar", "array"):
            return self._numpy(tag, form)
        make = getattr(self, f"_make_{tag}", None)
        return _PLAIN[tag](form[tag]) if make is None else make(form)

    def _make_object(self, form: Mapping[str, Any]) -> Any:
        module, _, path = form["object"].partition(":")
        value = self._import(module)
        for name in path.split("."):
            value = getattr(value, name, _MISSING)
            if value is _MISSING:
                raise CannotRebuild(f"{form['object']} does not exist any more", "stale")
        return value

    def _make_module(self, form: Mapping[str, Any]) -> Any:
        return self._import(form["module"])

    def _import(self, module: str) -> Any:
        if self._codes.project.owns(module):
            return sys.modules[module] if module in sys.modules else importlib.import_module(module)
        if is_numba(module):
            return _find_numba(module)
        refusal = self._sandbox.find_refusal(module)
        if refusal is not None:
            raise CannotRebuild(refusal[1], refusal[0])
        try:
            return importlib.import_module(module)
        except ImportError as error:
            raise CannotRebuild(f"{module} cannot be imported: {error}") from None

    def _make_function(self, form: Mapping[str, Any]) -> Any:
        located = _find_function(self._codes, form)
        _, _, qualname = form["function"].partition(":")
        place = ".".join(self._path)
        made = self.function(located, qualname, form.get("captured", {}), form.get("defaults", {}))
        self._made[place] = made if "decorator" not in form else self._decorate(made, form)
        return self._made[place]

    def _decorate(self, made: FunctionType, form: Mapping[str, Any]) -> Any:
        decorator = form["decorator"]
        written = {name: tuple(v) if isinstance(v, list) else v for name, v in form.get("options", {}).items()}
        options = {name: None if value == "none" else value for name, value in written.items()}
        spec = self._named_value("spec", form["spec"]) if "spec" in form else None
        variables = self._named_value("variables", form["variables"]) if "variables" in form else {}
        decorate = _find_decorator(decorator)
        if decorate is None:
            raise CannotRebuild(f"{decorator} is none of {', '.join(_DECORATORS)}", "stale")
        try:
            return decorate(spec, **options, **variables)(made)
        except (CudabuildError, TypeError) as error:
            raise CannotRebuild(f"{decorator} refuses it: {str(error).splitlines()[0]}", "stale") from None

    def _make_same(self, form: Mapping[str, Any]) -> Any:
        if form["same"] not in self._made:
            raise CannotRebuild(f"{form['same']} is not used any more", "stale")
        return self._made[form["same"]]

    def _make_type(self, form: Mapping[str, Any]) -> Any:
        (found,) = parse_signatures(f"({form['type']})")[0]
        plain = isinstance(found, Array) and found.ndim == 0 and not form["type"].endswith("[]")
        return found.dtype if plain and isinstance(found, Array) else found

    def _make_prototype(self, form: Mapping[str, Any]) -> Any:
        return parse_signatures(form["prototype"], returns=True)[0]

    def _make_named_tuple(self, form: Mapping[str, Any]) -> Any:
        kind = self._make_object({"object": form["named_tuple"]})
        return kind(*self._values(form.get("values", [])))

    def _make_partial(self, form: Mapping[str, Any]) -> Any:
        function = self._named_value("partial", form["partial"])
        arguments = self._values(form.get("args", []))
        keywords = {name: self._named_value(name, item) for name, item in form.get("keywords", {}).items()}
        return partial(function, *arguments, **keywords)

    def _make_attributes(self, form: Mapping[str, Any]) -> Any:
        return _Attributes({name: self._named_value(name, item) for name, item in form["attributes"].items()})

    def _make_tuple(self, form: Mapping[str, Any]) -> Any:
        return tuple(self._values(form["tuple"]))

    def _make_set(self, form: Mapping[str, Any]) -> Any:
        return set(self._values(form["set"]))

    def _make_frozenset(self, form: Mapping[str, Any]) -> Any:
        return frozenset(self._values(form["frozenset"]))

    def _make_dict(self, form: Mapping[str, Any]) -> Any:
        keys, values = ([pair[side] for pair in form["dict"]] for side in (0, 1))
        return dict(zip(self._values(keys), self._values(values), strict=True))

    # NumPy

    def _numpy(self, tag: str, form: Mapping[str, Any]) -> Any:
        import numpy

        try:
            dtype = self._dtype(numpy, form[tag])
            if tag == "dtype":
                return dtype
            if tag == "scalar":
                if "value" in form:
                    return numpy.array([form["value"]], dtype)[0]
                return numpy.frombuffer(bytes.fromhex(form["bytes"]), dtype)[0]
            shape = tuple(form.get("shape", ()))
            if "file" in form:
                return self._kept_array(numpy, form, dtype, shape)
            if "values" in form:
                flat = numpy.array(form["values"], dtype)
            else:
                flat = numpy.frombuffer(bytes.fromhex(form.get("bytes", "")), dtype).copy()
            return flat.reshape(shape).copy(order=form.get("order", "C"))
        except (TypeError, ValueError) as error:
            raise CannotRebuild(f"the {tag} cannot be made: {error}") from None

    def _dtype(self, numpy: Any, spelled: Any) -> Any:
        if not isinstance(spelled, dict):
            return numpy.dtype(spelled)
        if "object" in spelled:
            return numpy.dtype(self._make_object(spelled))
        if "base" in spelled:
            return numpy.dtype((self._dtype(numpy, spelled["base"]), tuple(spelled.get("shape", ()))))
        members = {**spelled, "formats": [self._dtype(numpy, one) for one in spelled.get("formats", [])]}
        aligned = members.pop("aligned", False)
        return numpy.dtype(members, align=aligned)

    def _kept_array(self, numpy: Any, form: Mapping[str, Any], dtype: Any, shape: tuple[int, ...]) -> Any:
        from cudabuild.digest import digest

        path = os.path.join(self._folder, form["file"])
        try:
            found = numpy.load(path, allow_pickle=False)
        except (OSError, ValueError) as error:
            raise CannotRebuild(f"the array in {path} cannot be read: {error}", "stale") from None
        if found.dtype != dtype or found.shape != shape or digest(found.tobytes()).hex() != form.get("digest", ""):
            raise CannotRebuild(f"{path} is not the array that was recorded", "stale")
        return found.copy(order=form.get("order", "C"))


#: What decorates functions inside others, as signature files call it: the name in cudabuild, and arguments.
_DECORATORS: dict[str, tuple[str, dict[str, Any]]] = {
    "kernel": ("kernel", {}),
    "device_function": ("device_function", {}),
    "cuda.jit": ("jit", {}),
    "cuda.jit(device=True)": ("jit", {"device": True}),
}


def _find_decorator(name: str) -> Any:
    """The decorator itself, as a project's modules get it: by importing cudabuild."""
    if name not in _DECORATORS:
        return None
    attribute, arguments = _DECORATORS[name]
    home = importlib.import_module("cudabuild.cuda" if attribute == "jit" else "cudabuild")
    return partial(getattr(home, attribute), **arguments)


def _find_numba(module: str) -> Any:
    """One of numba's modules as a slice sees them: with this package's names."""
    try:
        return _NUMBA.find_module(module)
    except ImportError as error:
        raise CannotRebuild(str(error)) from None


_NUMBA = NumbaTree(takes_real=False)


class _Attributes:
    """Stands for an object of which only some attributes are used."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.__dict__.update(values)


_MISSING = object()

#: Tag -> how a text, a list or a flag becomes the value.
_PLAIN: dict[str, Any] = {
    "complex": lambda parts: complex(*parts),
    "integer": lambda text: int(text, 16),
    "bytes": bytes.fromhex,
    "none": lambda flag: None,
    "ellipsis": lambda flag: ...,
}
