# SPDX-License-Identifier: Apache-2.0
"""What a signature file says of one kernel, and how two records of one kernel become one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from cudabuild.definition import Options

__all__ = ["DIALECTS", "RecordedKernel", "merge_kernels"]

#: By which decorator a kernel was made: ``@cudabuild.kernel``, or ``cuda.jit`` with numba's types.
DIALECTS = ("cudabuild", "numba")


@dataclass(frozen=True)
class RecordedKernel:
    """One kernel of a signature file.

    Attributes:
        module, qualname: its name; with ``<locals>`` for a kernel that a function makes.
        signatures: canonical texts, each once, in the file's order.
        dialect: one of ``DIALECTS``.
        options: what its decorator writes, by the names of :data:`cudabuild.definition.OPTIONS`, in Python's values.
        captured: free name -> value as the file spells it, see README.md; for kernels that a function makes.
        defaults: the parameters' defaults likewise: ``{parameter: value}``.
        line: where it began when it was recorded; 0 where that is not written.
        code: the beginning of the digest of its canonical source when it was recorded, in hexadecimal, or "".
        where: ``file:line`` of this record, for messages.
        folder: that of the signature file, beside which its arrays are kept. Neither counts in comparisons.
    """

    module: str
    qualname: str
    signatures: tuple[str, ...]
    dialect: str = "cudabuild"
    options: Mapping[str, Any] = field(default_factory=dict)
    captured: Mapping[str, Any] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    line: int = 0
    code: str = ""
    where: str = field(default="", compare=False)
    folder: str = field(default="", compare=False)

    @property
    def name(self) -> str:
        """``module:qualname``."""
        return f"{self.module}:{self.qualname}"

    @property
    def is_local(self) -> bool:
        """Whether a function makes it, so that no import alone gives it."""
        return "<" in self.qualname

    @property
    def written_options(self) -> Options:
        """The options as its definition holds them."""
        return Options(self.options, frozenset(self.options))

    @cached_property
    def key(self) -> tuple[str, ...]:
        """What makes two records those of one kernel: everything but the signatures and the line."""
        parts = (self.dialect, self.code, dict(self.options), _meaning(self.captured), _meaning(self.defaults))
        return (self.module, self.qualname, *(json.dumps(part, sort_keys=True, default=repr) for part in parts))

    def with_signatures(self, signatures: Iterable[str]) -> RecordedKernel:
        """The same kernel with other signatures."""
        return replace(self, signatures=tuple(signatures))


def _meaning(value: Any) -> Any:
    """A form without the places that it names: where an array is kept, and the line of a function."""
    if isinstance(value, Mapping):
        ignored = ("file",) if "digest" in value else ("line",) if value.get("code") else ()
        return {key: _meaning(item) for key, item in value.items() if key not in ignored}
    return [_meaning(item) for item in value] if isinstance(value, list) else value


def merge_kernels(*lists: Iterable[RecordedKernel]) -> list[RecordedKernel]:
    """One record for each kernel, with the signatures of all: those of the first list first, new ones in text order.

    Kernels keep the order in which they are met; of records that differ in nothing but the line, the last line counts.
    """
    found: dict[tuple[str, ...], RecordedKernel] = {}
    for kernels in lists:
        for kernel in kernels:
            known = found.get(kernel.key)
            if known is None:
                found[kernel.key] = kernel.with_signatures(dict.fromkeys(kernel.signatures))
                continue
            new = sorted(set(kernel.signatures) - set(known.signatures))
            found[kernel.key] = replace(known, signatures=(*known.signatures, *new), line=kernel.line or known.line)
    return list(found.values())
