# SPDX-License-Identifier: Apache-2.0
"""Typed IR from its text: ``parse_function(format_function(f))`` prints as ``f`` does.

For tests and for looking at dumps. Names of values are free; comments after ``;`` are skipped, but for the predecessors
of a block (``; from b1, b2``), which fix the order of phi operands. Without them the order is that of the blocks.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any, TypeVar

from cudabuild.ir.ir import Block, Function, Instr, Param, Value
from cudabuild.ir.ops import OPS, Effect
from cudabuild.types import Array, Type, none, parse_signature

__all__ = ["parse_function", "parse_functions"]

_T = TypeVar("_T")

_HEADER = re.compile(r"(kernel|device) ([\w.]+)\((.*)\) -> (.+)$")
_LABEL = re.compile(r"([\w.]+):(?:\s*; from (.*))?$")
_INSTRUCTION = re.compile(r"(?:(%[\w.]+): (.+?) = )?(\w+)((?: %[\w.]+,?)*)")
_ATTRIBUTE = re.compile(r"\s+(\w+)=('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|\([^()]*\)|\S+)")


def parse_function(text: str) -> Function:
    """The last function of ``text``; those before it are the device functions that it calls."""
    return list(parse_functions(text).values())[-1]


def parse_functions(text: str) -> dict[str, Function]:
    """Every function of ``text`` by name; a function may call those before it."""
    functions: dict[str, Function] = {}
    chunk: list[str] = []
    for line in [*text.splitlines(), "kernel end() -> none"]:
        if _HEADER.match(line.strip()) and chunk:
            function = _FunctionParser(chunk, functions).parse()
            functions[function.name] = function
            chunk = []
        if line.strip():
            chunk.append(line.strip())
    return functions


class _FunctionParser:
    def __init__(self, lines: list[str], callees: dict[str, Function]) -> None:
        self.lines = lines
        self.callees = callees
        self.values: dict[str, Value] = {}
        self.blocks: dict[str, Block] = {}

    def parse(self) -> Function:
        header = _HEADER.match(self.lines[0])
        if header is None:
            raise ValueError(f"expected a function, found {self.lines[0]!r}")
        params = [self._param(part, index) for index, part in enumerate(_split(header[3]))]
        order: dict[str, list[str]] = {}
        pending: list[tuple[Instr, list[str], dict[str, str], str]] = []
        block: Block | None = None
        for line in self.lines[1:]:
            label = _LABEL.match(line)
            if label is not None:
                block = self.blocks[label[1]] = Block(label[1])
                if label[2]:
                    order[label[1]] = label[2].split(", ")
            elif block is None:
                raise ValueError(f"expected a block, found {line!r}")
            else:
                pending.append((*self._instr(line, block), line))
        for instr, operands, attributes, line in pending:
            instr.operands = [_find(name, self.values, f"value {name} in {line!r}") for name in operands]
            instr.attrs = {key: self._attribute(instr.op, key, value, line) for key, value in attributes.items()}
        self._connect(order)
        result = _parse_type(header[4])
        return Function(header[2], params, result, list(self.blocks.values()), header[1] == "kernel")

    def _param(self, text: str, index: int) -> Param:
        name, _, kind = text.partition(": ")
        param = Param(_parse_type(kind), None, name, index)
        self.values[f"%{name}"] = param
        return param

    def _instr(self, line: str, block: Block) -> tuple[Instr, list[str], dict[str, str]]:
        match = _INSTRUCTION.match(line)
        if match is None or match[3] not in OPS:
            raise ValueError(f"expected an operation, found {line!r}")
        instr = Instr(none if match[2] is None else _parse_type(match[2]), None, match[3], [], {}, block)
        block.instructions.append(instr)
        if match[1] is not None:
            self.values[match[1]] = instr
        attributes: dict[str, str] = {}
        at = match.end()
        while (attribute := _ATTRIBUTE.match(line, at)) is not None:
            attributes[attribute[1]] = attribute[2]
            at = attribute.end()
        comments = [part for part in line[at:].split("  ; ") if part and not part.startswith("line ")]
        instr.hint = comments[0] if comments else ""
        return instr, match[4].replace(",", "").split(), attributes

    def _attribute(self, op: str, key: str, text: str, line: str) -> Any:
        if OPS[op].effect == Effect.END and key in ("target", "then", "else"):
            return _find(text, self.blocks, f"block {text} in {line!r}")
        if key == "callee":
            return _find(text, self.callees, f"function {text} before {line!r}")
        return _literal(text)

    def _connect(self, order: dict[str, list[str]]) -> None:
        for block in self.blocks.values():
            for successor in block.successors:
                successor.predecessors.append(block)
        for name, names in order.items():
            self.blocks[name].predecessors = [self.blocks[n] for n in names]


def _find(name: str, known: Mapping[str, _T], what: str) -> _T:
    if name not in known:
        raise ValueError(f"no {what}")
    return known[name]


def _literal(text: str) -> Any:
    if text in ("inf", "-inf", "nan", "-nan"):
        return float(text)
    if text.endswith(("j", "j)")):
        return complex(text)  # which keeps the signs of zeros, and knows infinities
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text


def _split(text: str) -> list[str]:
    """``text`` at its commas, but for those inside brackets."""
    parts, depth, start = [], 0, 0
    for at, char in enumerate(text):
        depth += (char in "([") - (char in ")]")
        if char == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    last = text[start:].strip()
    return [*parts, last] if last else parts


def _parse_type(text: str) -> Type:
    if text == "none":
        return none
    base, _, space = text.partition("@")
    (kind,) = parse_signature(base)
    if space:
        assert isinstance(kind, Array)
        return kind.with_(space=space)
    return kind
