# SPDX-License-Identifier: Apache-2.0
"""Typed IR from its text: ``parse_function(format_function(f))`` prints as ``f`` does.

For tests and for looking at dumps. Names of values are free; comments after ``;`` are skipped, but for the predecessors
of a block (``; from b1, b2``), which fix the order of phi operands. Without them the order is that of the blocks.
"""

from __future__ import annotations

import ast
import re
from typing import Any

from cudabuild.ir.ir import Block, Function, Instr, Param, Value
from cudabuild.ir.ops import OPS, Effect
from cudabuild.types import Array, Type, none, parse_signature

__all__ = ["parse_function", "parse_functions"]

_HEADER = re.compile(r"(kernel|device) ([\w.]+)\((.*)\) -> (.+)$")
_LABEL = re.compile(r"([\w.]+):(?:\s*; from (.*))?$")
_RESULT = re.compile(r"(%[\w.]+): (.+?) = (.*)$")
_ATTRIBUTE = re.compile(r"\s+(\w+)=")


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
        pending: list[tuple[Instr, list[str], str]] = []
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
                pending.append(self._instr(line, block))
        for instr, operands, attributes in pending:
            instr.operands = [self.values[name] for name in operands]
            instr.attrs = self._attributes(instr.op, attributes)
        self._connect(order)
        result = _parse_type(header[4])
        return Function(header[2], params, result, list(self.blocks.values()), header[1] == "kernel")

    def _param(self, text: str, index: int) -> Param:
        name, _, kind = text.partition(": ")
        param = Param(_parse_type(kind), None, name, index)
        self.values[f"%{name}"] = param
        return param

    def _instr(self, line: str, block: Block) -> tuple[Instr, list[str], str]:
        body, _, comment = line.partition("  ; ")
        result = _RESULT.match(body)
        kind = _parse_type(result[2]) if result is not None else none
        body = result[3] if result is not None else body
        match = _ATTRIBUTE.search(body)
        head, attributes = (body[: match.start()], body[match.start() :]) if match is not None else (body, "")
        op, _, operands = head.partition(" ")
        if op not in OPS:
            raise ValueError(f"expected an operation, found {line!r}")
        hint = "" if comment.startswith("line ") else comment.split("  ; ")[0]
        instr = Instr(kind, None, op, [], {}, block, hint)
        block.instructions.append(instr)
        if result is not None:
            self.values[result[1]] = instr
        return instr, [part for part in _split(operands) if part], attributes

    def _attributes(self, op: str, text: str) -> dict[str, Any]:
        parts = _ATTRIBUTE.split(text)[1:]
        attrs: dict[str, Any] = {}
        for key, value in zip(parts[::2], parts[1::2], strict=True):
            if OPS[op].effect == Effect.END and value in self.blocks:
                attrs[key] = self.blocks[value]
            elif key == "callee":
                attrs[key] = self.callees[value]
            else:
                attrs[key] = _literal(value)
        return attrs

    def _connect(self, order: dict[str, list[str]]) -> None:
        for block in self.blocks.values():
            for successor in block.successors:
                successor.predecessors.append(block)
        for name, names in order.items():
            self.blocks[name].predecessors = [self.blocks[n] for n in names]


def _literal(text: str) -> Any:
    if text in ("inf", "-inf", "nan", "-nan"):
        return float(text)
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
