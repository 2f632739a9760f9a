# SPDX-License-Identifier: Apache-2.0
"""Why a kernel has no images: what a build left to JIT, as it stands in the index, in reports and in messages."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

__all__ = ["KINDS", "LeftToJit", "find_left"]

#: Kind of reason -> what to do about it; ``{name}`` is the module, option or function that the reason is about.
KINDS: dict[str, tuple[str, ...]] = {
    "no-signature": (
        'write its signature in the decorator: @kernel("float32[::1]")',
        "record its signatures from a real run (cudabuild record -- pytest) and name the file in signatures of "
        "[tool.cudabuild]",
    ),
    "run-time": (
        "record its signatures from a real run (cudabuild record -- pytest) and name the file in signatures of "
        "[tool.cudabuild]",
        "move it to the top level of its module",
    ),
    "import": (
        "take the value from a module of this project",
        "name {name} in allow-imports of [tool.cudabuild] and in [build-system] requires",
        'build without isolation, with discovery = "import" in [tool.cudabuild]',
    ),
    "outside": (
        "make the value an argument of the kernel",
        "write the value down as a constant",
        "name {name} in allow-imports of [tool.cudabuild], if what the kernel takes from it is the same everywhere",
    ),
    "device": (
        "make the value an argument of the kernel",
        "keep what asks for a device in functions, away from what the kernel needs",
    ),
    "no-source": (
        "take the value from a Python module of this project",
        'build without isolation, with discovery = "import" in [tool.cudabuild]',
    ),
    "fails": (
        "make the statement run without a GPU and without files that are not in the project",
        "move what the kernel needs to a module of its own",
    ),
    "import-fails": ("install what the module needs where the wheel is built", 'use discovery = "slice"'),
    "branch": ("define the kernel where it does not depend on the machine that builds", "build where it is taken"),
    "not-a-kernel": ("keep the kernel under a name of its own, or keep it as __wrapped__ of what stands for it",),
    "no-text": (
        "write it as a function of a module",
        "give the text that exec made it of: @kernel(…, source=TEXT), and let exec run in the module's own namespace",
    ),
    "foreign": ("write a kernel of this project that calls the function",),
    "stale": (
        "record its signatures again: cudabuild record -- pytest",
        "take it out of the signature file, if it is not wanted any more",
    ),
    "not-rebuilt": (
        "let the function that makes the kernel take plain values: numbers, arrays, dtypes, functions of this project",
        "make the value an argument of the kernel",
        "take it out of the signature file, if it is not wanted any more",
    ),
    "unreadable": ("correct the file: kernels that need it are compiled at run time until then",),
}


class LeftToJit:
    """A kernel without images, and why.

    Attributes:
        module, qualname: the kernel.
        kind: a key of :data:`KINDS`.
        file, line: the statement to blame, the file relative to the project it was built from.
        statement: its first line.
        name: what the kernel uses that needs the statement, or "" where it is the kernel itself.
        reason: what is wrong there.
        remedies: what to do, the best way first.
    """

    __slots__ = ("file", "kind", "line", "module", "name", "qualname", "reason", "remedies", "statement")

    def __init__(
        self,
        module: str,
        qualname: str,
        kind: str,
        file: str,
        line: int,
        statement: str,
        name: str,
        reason: str,
        remedies: Iterable[str] = (),
    ) -> None:
        self.module = module
        self.qualname = qualname
        self.kind = kind
        self.file = file
        self.line = line
        self.statement = statement
        self.name = name
        self.reason = reason
        self.remedies = tuple(remedies)

    def __str__(self) -> str:
        needed = f" (needed for {self.name})" if self.name else ""
        return f"{self.file}:{self.line}: {self.reason}{needed}"

    def __repr__(self) -> str:
        return f"LeftToJit({', '.join(f'{name}={getattr(self, name)!r}' for name in self.__slots__)})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LeftToJit) and self.as_entry() == other.as_entry()

    def __hash__(self) -> int:
        return hash((self.module, self.qualname, self.file, self.line))

    def explain(self) -> str:
        """Several lines for people: the kernel, the place and its text, what needs it, and what to do."""
        lines = [f"{self.module}:{self.qualname}", f"  reason:   {self.file}:{self.line}: {self.reason}"]
        if self.statement:
            lines.append(f"  found:    {self.statement}")
        if self.name:
            lines.append(f"  needed:   for {self.name}")
        for number, remedy in enumerate(self.remedies):
            lines.append(f"  {'or:      ' if number else 'do:      '} {remedy}")
        return "\n".join(lines)

    def as_entry(self) -> dict[str, Any]:
        """As it stands in the index."""
        entry = {name: getattr(self, name) for name in self.__slots__}
        entry["remedies"] = list(self.remedies)
        return entry

    @classmethod
    def from_entry(cls, entry: Mapping[str, Any]) -> LeftToJit:
        """What an entry of a checked index says."""
        return cls(**{name: entry[name] for name in cls.__slots__})


def find_left(index: Mapping[str, Any], module: str = "", qualname: str = "") -> list[LeftToJit]:
    """What an index says was left to JIT: all of it, or one kernel."""
    return [
        LeftToJit.from_entry(entry)
        for entry in index["left_to_jit"]
        if (not module or entry["module"] == module) and (not qualname or entry["qualname"] == qualname)
    ]
