# SPDX-License-Identifier: Apache-2.0
"""The corpus of tricky modules: what each says of itself, what a slice makes of it, what an import gives.

A module says in comments what must come out:

# expect: k: N = 8; T = (1, 2, )      the kernel ``k`` is built, with these frozen values and no others
# left: j: imports 'missing_thing'    the kernel ``j`` is left to JIT for this reason, at the line that ends with
import missing_thing  # blame: j
# python: 3.12                        older Pythons cannot read the module

``python corpus_kit.py ENTRY …`` imports entries for real, with stand-ins for what is missing, and prints their values.
"""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

__all__ = ["CORPUS", "Entry", "compare", "import_entries", "list_entries", "slice_entry"]

CORPUS = Path(__file__).resolve().parent / "corpus"

#: kernel (``module:qualname``) -> its frozen values by name, as the fingerprint spells them
Values = dict[str, dict[str, str]]


@dataclass
class Entry:
    """One module, or one package, of the corpus.

    Attributes:
        name: the file's or folder's name.
        root: the folder that its modules' names start at.
        modules: module name -> file.
        values: what must be frozen, by kernel.
        left: why a kernel must be left to JIT: (file relative to the root, line, the start of the reason), by kernel.
        python: the oldest version that can read it.
    """

    name: str
    root: Path
    modules: dict[str, Path]
    values: Values = field(default_factory=dict)
    left: dict[str, tuple[str, int, str]] = field(default_factory=dict)
    python: tuple[int, ...] = (3, 10)

    @property
    def kernels(self) -> set[str]:
        return {*self.values, *self.left}


def list_entries() -> list[Entry]:
    """All entries, those that this Python cannot read included."""
    return [_read_entry(path) for path in sorted(CORPUS.iterdir()) if path.is_dir() or path.suffix == ".py"]


def _read_entry(path: Path) -> Entry:
    root = path if path.is_dir() else path.parent
    files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
    modules = {_module_name(file, root): file for file in files}
    entry = Entry(path.stem, root, modules)
    reasons: dict[str, str] = {}
    places: dict[str, tuple[str, int]] = {}
    for module, file in modules.items():
        for number, line in enumerate(file.read_text("utf-8").splitlines(), 1):
            mark = re.search(r"# (expect|left|blame|python): (.*)", line)
            if mark is None:
                continue
            kind, text = mark.groups()
            if kind == "python":
                entry.python = tuple(map(int, text.split(".")))
            elif kind == "blame":
                for name in text.split(", "):
                    places[_full_name(module, name)] = (file.relative_to(root).as_posix(), number)
            else:
                name, _, rest = text.partition(": ")
                if kind == "left":
                    reasons[_full_name(module, name)] = rest
                else:
                    entry.values[_full_name(module, name)] = dict(
                        one.split(" = ", 1) for one in rest.split("; ") if one
                    )  # type: ignore[misc]
    entry.left = {name: (*places[name], reason) for name, reason in reasons.items()}
    assert set(places) == set(reasons), f"{path}: {set(places) ^ set(reasons)}"
    return entry


def _module_name(file: Path, root: Path) -> str:
    parts = file.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _full_name(module: str, name: str) -> str:
    return name if ":" in name else f"{module}:{name}"


def slice_entry(entry: Entry) -> tuple[Values, dict[str, tuple[str, int, str]]]:
    """What discovery makes of an entry: the frozen values, and (file, line, reason) of what is left to JIT."""
    from build_helpers import Found

    from cudabuild.build.project import ModuleFile, Project

    files = {name: ModuleFile(name, str(file), file.stem == "__init__") for name, file in entry.modules.items()}
    found = Found(Project(str(entry.root), files))
    assert not found.unreadable, found.unreadable
    left = {
        name: (kernel.left.file, kernel.left.line, kernel.left.reason)
        for name, kernel in found.kernels.items()
        if kernel.left is not None
    }
    return found.values, left


def import_entries(entries: Iterable[Entry]) -> dict[str, Values]:
    """What a real import of the entries gives, in one process of its own: entry -> the values of its built kernels.

    Raises:
        RuntimeError: the process failed; with what it wrote.
    """
    names = [entry.name for entry in entries]
    done = subprocess.run(
        [sys.executable, __file__, *names], capture_output=True, text=True, timeout=120, check=False, cwd=CORPUS.parent
    )
    if done.returncode:
        raise RuntimeError(f"{', '.join(names)} cannot be imported:\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    found: dict[str, Values] = json.loads(done.stdout.rpartition("\n== ")[2])
    return found


def compare(entry: Entry, imported: Values) -> list[str]:
    """Everything in which slice, import and expectation of an entry differ; empty where all is right."""
    values, left = slice_entry(entry)
    wrong = []
    for name in sorted({*values, *left} | entry.kernels):
        if name in entry.values:
            found = values.get(name)
            if found is None:
                wrong.append(f"{name}: is left to JIT: {left.get(name, 'not found')}")
            elif found != imported.get(name):
                wrong.append(f"{name}: {_differences(found, imported.get(name) or {}, 'sliced', 'imported')}")
            elif found != entry.values[name]:
                wrong.append(f"{name}: {_differences(found, entry.values[name], 'sliced', 'expected')}")
        elif name not in entry.left:
            wrong.append(f"{name}: is found, and is not expected")
        elif name not in left:
            wrong.append(f"{name}: is built with {values.get(name)}, and must be left to JIT")
        else:
            file, line, reason = entry.left[name]
            if left[name][:2] != (file, line) or not left[name][2].startswith(reason):
                wrong.append(f"{name}: is left to JIT at {left[name]}, expected {entry.left[name]}")
    return wrong


def _differences(one: Mapping[str, str], other: Mapping[str, str], left: str, right: str) -> str:
    names = sorted(name for name in {*one, *other} if one.get(name) != other.get(name))
    return ", ".join(f"{name}: {left} {one.get(name)}, {right} {other.get(name)}" for name in names)


# Real imports, in a process of their own


class _Anything:
    """What every attribute of a package that is missing stands for, and every call of it gives."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Anything()

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return arguments[0] if len(arguments) == 1 and hasattr(arguments[0], "definition") else _Anything()

    def __getitem__(self, key: object) -> Any:
        return _Anything()

    def __mul__(self, other: object) -> Any:
        return _Anything()

    __rmul__ = __mul__


class _StandIns:
    """Finds ``missing_thing``, ``missing_other`` and what is in them."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        return ModuleSpec(name, self, is_package=True) if name.startswith("missing_") else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = ModuleType(spec.name)
        module.__dict__["Base"] = object
        module.__dict__["__getattr__"] = _Anything().__getattr__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """There is nothing to run."""


def _import_entry(entry: Entry) -> Values:
    from build_helpers import find_definitions

    from cudabuild.fingerprint import compute_fingerprint

    sys.path.insert(0, str(entry.root))
    found: Values = {}
    for module in sorted({name.partition(":")[0] for name in entry.kernels}):  # others only as they are imported
        imported = importlib.import_module(module)
        for definition in find_definitions(imported):
            name = f"{definition.module}:{definition.qualname}"
            if name in entry.values:
                fingerprint = compute_fingerprint(definition, definition.signatures[0])
                found[name] = dict(fingerprint.free_values)
    sys.path.remove(str(entry.root))
    return found


def main(names: Sequence[str]) -> None:
    """Imports entries and prints their values as JSON, behind what they print themselves."""
    sys.path[:0] = [str(CORPUS.parent), str(CORPUS.parents[2])]
    sys.meta_path.insert(0, _StandIns())  # type: ignore[arg-type]
    entries = {entry.name: entry for entry in list_entries()}
    values = {name: _import_entry(entries[name]) for name in names}
    print(f"\n== {json.dumps(values)}")


if __name__ == "__main__":
    main(sys.argv[1:])
