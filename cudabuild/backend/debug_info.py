# SPDX-License-Identifier: Apache-2.0
"""Source lines for profilers (``lineinfo=True``): LLVM metadata that becomes ``.file`` and ``.loc`` in PTX.

Files are named without their folder: an image holds no path of the machine that built it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cudabuild.backend.text import FunctionText, ModuleText
    from cudabuild.errors import Location

__all__ = ["DebugInfo"]


class DebugInfo:
    """The lines of one function.

    Args:
        module: receives the metadata.
        text: the function being written.
        name: shown by profilers.
        symbol: the function's own name; no other has it.
        location: where the function begins.
    """

    def __init__(
        self, module: ModuleText, text: FunctionText, name: str, symbol: str, location: Location | None
    ) -> None:
        self._module = module
        self._file = location.file if location is not None else "<unknown>"
        line = location.line if location is not None else 0
        file = self._file_node(self._file)
        # DebugDirectivesOnly: line directives and nothing else; real DWARF sections would double the cubin.
        unit = module.node(
            f"distinct !DICompileUnit(language: DW_LANG_Python, file: {file}, isOptimized: true, "
            "runtimeVersion: 0, emissionKind: DebugDirectivesOnly)"
        )
        signature = module.node(f"!DISubroutineType(types: {module.node('!{}')})")
        self._scope = module.node(
            f'distinct !DISubprogram(name: "{name}", linkageName: "{symbol}", file: {file}, line: {line}, '
            f"type: {signature}, scopeLine: {line}, spFlags: DISPFlagDefinition, unit: {unit})"
        )
        self._line = line
        module.name_node("llvm.dbg.cu", unit)
        module.name_node("llvm.module.flags", module.node('!{i32 2, !"Debug Info Version", i32 3}'))
        text.header += f" !dbg {self._scope}"

    def attachment(self, location: Location | None) -> str:
        """What follows an instruction at ``location``; every instruction needs one, calls for inlining above all."""
        scope = self._scope
        if location is None:
            return f", !dbg {self._module.node(f'!DILocation(line: {self._line}, scope: {scope})')}"
        if location.file != self._file:  # inlined in the typed IR
            file = self._file_node(location.file)
            scope = self._module.node(f"!DILexicalBlockFile(scope: {scope}, file: {file}, discriminator: 0)")
        node = f"!DILocation(line: {location.line}, column: {location.column + 1}, scope: {scope})"
        return f", !dbg {self._module.node(node)}"

    def _file_node(self, file: str) -> str:
        name = os.path.basename(file).replace("\\", "\\5C").replace('"', "\\22")
        return self._module.node(f'!DIFile(filename: "{name}", directory: "")')
