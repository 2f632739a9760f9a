# SPDX-License-Identifier: Apache-2.0
"""The modules of a distribution, by name, and what each one's source says. Nothing is imported."""

from __future__ import annotations
import __future__ as future_features

import ast
import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from cudabuild.build.effects import ImportBinding, Leaf, Step, analyse_module
from cudabuild.errors import SourceError

__all__ = ["ModuleFile", "Project", "SourceModule"]


@dataclass(frozen=True)
class ModuleFile:
    """Where a module's source stands; ``is_package`` for an ``__init__.py``."""

    name: str
    path: str
    is_package: bool


@dataclass(eq=False)
class SourceModule:
    """A parsed module: its leaves, and which of them bind each name."""

    file: ModuleFile
    leaves: list[Leaf]
    steps: list[Step]
    future_flags: int
    bound: dict[str, list[Leaf]] = field(default_factory=dict)
    stars: list[Leaf] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.file.name

    def absolute(self, binding: ImportBinding) -> str:
        """The absolute name of the module that an import statement here names."""
        if not binding.level:
            return binding.module
        return resolve_relative(self.name, self.file.is_package, binding.module, binding.level)

    def imported_by(self, leaf: Leaf) -> list[str]:
        """The absolute names of the modules that running a statement of this module may import, in order."""
        found = []
        for binding in [*leaf.imports, *leaf.stars]:
            target = self.absolute(binding) if binding.level else binding.imported
            found += [target] if binding.attribute in (None, "*") else [target, f"{target}.{binding.attribute}"]
        return found

    @property
    def exports(self) -> set[str] | None:
        """What ``from module import *`` binds, or None where ``__all__`` is not a plain list of texts."""
        leaves = self.bound.get("__all__", [])
        if not leaves:
            return {name for name in self.bound if not name.startswith("_")}
        values = [value for leaf in leaves for value in leaf.values.get("__all__", [])]
        names: set[str] = set()
        for value in values:
            if not isinstance(value, ast.List | ast.Tuple):
                return None
            for element in value.elts:
                if not (isinstance(element, ast.Constant) and isinstance(element.value, str)):
                    return None
                names.add(element.value)
        return names


def resolve_relative(module: str, is_package: bool, target: str, level: int) -> str:
    """``from ..x import y`` in ``module``: the absolute name of ``x``; empty above the top."""
    parts = module.split(".")
    drop = level - 1 if is_package else level
    base = parts[: len(parts) - drop] if drop <= len(parts) else []
    return ".".join([*base, target] if target else base)


class Project:
    """The modules that a distribution owns.

    Attributes:
        root: the folder of pyproject.toml; paths in messages are relative to it.
        files: module name -> its source.
    """

    def __init__(self, root: str, files: Mapping[str, ModuleFile]) -> None:
        self.root = os.path.abspath(root)
        self.files = dict(sorted(files.items()))
        self._parsed: dict[str, SourceModule | SourceError] = {}
        self._tops = {name.partition(".")[0] for name in self.files}
        self._parents = {
            ".".join(parts[:end]) for parts in (name.split(".") for name in self.files) for end in range(1, len(parts))
        }

    def owns(self, module: str) -> bool:
        """True for the project's modules and for the namespace packages around them."""
        return module in self.files or module in self._parents

    def claims(self, module: str) -> bool:
        """True where the name's top-level package is the project's, whether or not the module has Python source."""
        return module.partition(".")[0] in self._tops

    def relative(self, path: str) -> str:
        """A path for messages: relative to the project where it lies below, with forward slashes."""
        inside = path
        if os.path.splitdrive(path)[0] == os.path.splitdrive(self.root)[0]:  # no way from one Windows drive to another
            inside = os.path.relpath(path, self.root)
        return (path if inside.startswith("..") else inside).replace(os.sep, "/")

    def find_module(self, name: str) -> SourceModule | None:
        """The parsed module, or None if the project has no such source file.

        Raises:
            SourceError: the file cannot be read or parsed; says file and line.
        """
        file = self.files.get(name)
        if file is None:
            return None
        known = self._parsed.get(name)
        if known is None:
            known = self._parsed[name] = self._parse(file)
        if isinstance(known, SourceError):
            raise known
        return known

    def read(self, name: str) -> bytes:
        """A module's bytes; empty where it cannot be read."""
        try:
            with open(self.files[name].path, "rb") as stream:
                return stream.read()
        except OSError:
            return b""

    def package_of(self, module: str) -> str | None:
        """The outermost regular package around a module, or None: a single module, or one right in a namespace."""
        parts = module.split(".")
        for end in range(1, len(parts) + 1):
            file = self.files.get(".".join(parts[:end]))
            if file is not None and file.is_package:
                return file.name
        return None

    def _parse(self, file: ModuleFile) -> SourceModule | SourceError:
        where = self.relative(file.path)
        try:
            with open(file.path, "rb") as stream:
                tree = ast.parse(stream.read(), filename=file.path)
        except OSError as error:
            return SourceError(f"{where}: cannot be read: {error.strerror}")
        except (SyntaxError, ValueError) as error:
            line = getattr(error, "lineno", None) or 1
            return SourceError(f"{where}:{line}: cannot be parsed: {getattr(error, 'msg', error)}")
        leaves, steps = analyse_module(file.name, tree)
        module = SourceModule(file, leaves, steps, _future_flags(tree))
        for leaf in module.leaves:
            for name in leaf.binds:
                module.bound.setdefault(name, []).append(leaf)
            if leaf.stars:
                module.stars.append(leaf)
        return module


def _future_flags(tree: ast.Module) -> int:
    flags = 0
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            for alias in node.names:
                feature = getattr(future_features, alias.name, None)
                flags |= feature.compiler_flag if feature is not None else 0
    return flags
