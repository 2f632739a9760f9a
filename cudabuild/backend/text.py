# SPDX-License-Identifier: Apache-2.0
"""LLVM text: operands, functions of labelled blocks, and the module around them.

This writer knows nothing of kernels. It names values, keeps one list of lines per block (so that a line can still be
added to a block that was left), and gathers what a module declares. Opaque pointers: the pointee of an access is in
the access.
"""

from __future__ import annotations

import re
import struct
from typing import Any, NamedTuple

__all__ = ["FunctionText", "ModuleText", "Operand", "constant_global", "float_literal", "int_literal", "replace"]


_DEFINED = re.compile(r"^(?:define|declare) .*?@([\w.]+)\(", re.MULTILINE)


class Operand(NamedTuple):
    """An LLVM value: its type and its name or literal.

    ``constant`` is set for integer literals. ``signed`` says how an integer widens; ``nneg`` that it is known not to be
    negative (as a signed number of its width).
    """

    type: str
    text: str
    signed: bool = True
    nneg: bool = False
    constant: int | None = None

    @property
    def typed(self) -> str:
        return f"{self.type} {self.text}"

    @property
    def bits(self) -> int:
        """The width of an integer type."""
        return int(self.type[1:])


def replace(operand: Operand, **changes: Any) -> Operand:
    """``operand`` with some fields changed."""
    return operand._replace(**changes)


def int_literal(value: int, bits: int) -> Operand:
    """An integer literal; ``value`` is taken modulo 2**bits."""
    value &= (1 << bits) - 1
    if value >> (bits - 1):
        value -= 1 << bits
    if bits == 1:
        return Operand("i1", "true" if value else "false", False, False, int(value != 0))
    return Operand(f"i{bits}", str(value), True, value >= 0, value)


def float_literal(value: float, type: str) -> Operand:
    """A floating literal, rounded to ``type`` (half, float or double)."""
    if type == "half":
        try:
            packed = struct.pack(">e", value)
        except OverflowError:
            packed = struct.pack(">e", float("inf") if value > 0 else float("-inf"))
        return Operand(type, "0xH" + packed.hex().upper())
    if type == "float":
        try:
            (value,) = struct.unpack("f", struct.pack("f", value))
        except OverflowError:
            value = float("inf") if value > 0 else float("-inf")
    return Operand(type, "0x" + struct.pack(">d", value).hex().upper())


class BlockText:
    """A block being written: label, phis, lines, terminator."""

    __slots__ = ("end", "label", "lines", "phis")

    def __init__(self, label: str) -> None:
        self.label = label
        self.phis: list[str] = []
        self.lines: list[str] = []
        self.end = ""


class FunctionText:
    """A function being written. ``header`` is everything before the opening brace."""

    def __init__(self, module: ModuleText, header: str) -> None:
        self.module = module
        self.header = header
        self.blocks: list[BlockText] = []
        self.allocas: list[str] = []
        self.debug = ""  #: appended to every instruction: a ``!dbg`` attachment, or nothing
        self._count = 0
        self.start("entry")

    def start(self, label: str) -> BlockText:
        """Begins a block; what is emitted from now on belongs to it."""
        self.current = BlockText(label)
        self.blocks.append(self.current)
        return self.current

    def name(self, hint: str = "v") -> str:
        """A fresh name, for a value or a label."""
        self._count += 1
        return f"{hint}{self._count}"

    def emit(self, type: str, text: str, *, signed: bool = True, nneg: bool = False) -> Operand:
        """Appends ``%name = text`` and returns the value."""
        self._count += 1
        name = f"%v{self._count}"
        self.current.lines.append(f"  {name} = {text}{self.debug}")
        return Operand(type, name, signed, nneg)

    def do(self, text: str) -> None:
        """Appends an instruction without a result."""
        self.current.lines.append(f"  {text}{self.debug}")

    def end(self, text: str) -> None:
        """Ends the current block with a terminator."""
        self.current.end = f"  {text}{self.debug}"

    def jump(self, label: str) -> None:
        self.end(f"br label %{label}")

    def branch(self, condition: Operand, then: str, otherwise: str) -> None:
        self.end(f"br i1 {condition.text}, label %{then}, label %{otherwise}")

    def alloca(self, type: str, align: int) -> Operand:
        """Stack memory of the function, allocated once at its entry."""
        name = f"%{self.name('a')}"
        self.allocas.append(f"  {name} = alloca {type}, align {align}")
        return Operand("ptr", name)

    def call(
        self, type: str, name: str, *args: Operand, flags: str = "", attributes: str = "", nneg: bool = False
    ) -> Operand:
        """Calls a function of the module or an intrinsic, which is declared by its argument types.

        ``flags`` are fast-math flags; ``attributes`` precede the result type (``range(i32 0, 32)``).
        """
        self.module.declare(type, name, [a.type for a in args])
        head = f"{flags}{attributes + ' ' if attributes else ''}"
        text = f"call {head}{type} @{name}({', '.join([a.typed for a in args])})"
        if type == "void":
            self.do(text)
            return Operand("void", "")
        return self.emit(type, text, nneg=nneg)

    def format(self) -> str:
        lines = [self.header + " {"]
        for index, block in enumerate(self.blocks):
            lines.append(f"{block.label}:")
            lines += block.phis
            if index == 0:
                lines += self.allocas
            lines += block.lines
            lines.append(block.end)
        lines.append("}\n")
        return "\n".join(lines)


class ModuleText:
    """A module being written.

    Attributes:
        libdevice: names of the libdevice functions that are called; their text comes from ``backend/libdevice.py``.
    """

    def __init__(self, triple: str, datalayout: str) -> None:
        self.head = [f'target datalayout = "{datalayout}"'] if datalayout else []
        self.head.append(f'target triple = "{triple}"')
        self.globals: dict[str, str] = {}
        self.declares: dict[str, str] = {}
        self.defined: set[str] = set()
        self.functions: list[FunctionText] = []
        self.attributes: dict[str, str] = {}
        self.metadata: dict[str, int] = {}
        self.named_metadata: dict[str, dict[str, None]] = {}
        self.libdevice: set[str] = set()
        self.definitions: dict[str, str] = {}  #: whole functions as text, by name

    def function(self, name: str, header: str) -> FunctionText:
        """Begins a function definition; ``header`` is its ``define`` line without the brace."""
        self.defined.add(name)
        text = FunctionText(self, header)
        self.functions.append(text)
        return text

    def declare(self, type: str, name: str, args: list[str]) -> None:
        if name not in self.declares:
            self.declares[name] = f"declare {type} @{name}({', '.join(args)})"

    def attribute_group(self, attributes: str) -> str:
        """The ``#n`` that stands for ``attributes``."""
        return self.attributes.setdefault(attributes, f"#{len(self.attributes)}")

    def node(self, text: str) -> str:
        """A metadata node, ``!n``; equal texts share one."""
        return f"!{self.metadata.setdefault(text, len(self.metadata))}"

    def loop_node(self, *nodes: str) -> str:
        """The ``!llvm.loop`` of a loop with these properties: one of its own, which names itself as LLVM wants it."""
        properties = ", ".join(self.node(text) for text in nodes)
        number = len(self.metadata)
        return self.node(f"distinct !{{!{number}, {properties}}}")

    def name_node(self, name: str, node: str) -> None:
        """Adds a metadata node to the named list ``!name``, once."""
        self.named_metadata.setdefault(name, {})[node] = None

    def format(self) -> str:
        return self.format_with("")

    def format_with(self, definitions: str) -> str:
        """The module's text, with further definitions (LLVM text) of what it calls."""
        known = set(_DEFINED.findall(definitions)) | self.defined
        known |= set(self.definitions)
        parts = [*self.head, *self.globals.values(), *self.definitions.values(), definitions]
        parts += [function.format() for function in self.functions]
        parts += [text for name, text in self.declares.items() if name not in known]
        parts += [f"attributes {number} = {{ {text} }}" for text, number in self.attributes.items()]
        parts += [f"!{name} = !{{{', '.join(nodes)}}}" for name, nodes in self.named_metadata.items()]
        parts += [f"!{number} = {text}" for text, number in self.metadata.items()]
        return "\n".join(parts) + "\n"


def constant_global(module: ModuleText, symbol: str, data: bytes, pointer: str, space: str = "") -> Operand:
    """A pointer of type ``pointer`` to the read-only bytes ``data``, 16-byte aligned; equal bytes share one global."""
    text = "".join(f"\\{byte:02X}" for byte in data)
    value = f"[{len(data)} x i8] " + (f'c"{text}"' if any(data) else "zeroinitializer")
    body = f"internal unnamed_addr {space + ' ' if space else ''}constant {value}, align 16"
    number = len(module.globals)
    for name, line in module.globals.items():
        if line == f"@{name} = {body}":
            return Operand(pointer, f"@{name}")
    name = f"{symbol}_constant{number}"
    module.globals[name] = f"@{name} = {body}"
    return Operand(pointer, f"@{name}")
