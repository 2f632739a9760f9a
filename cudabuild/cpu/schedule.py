# SPDX-License-Identifier: Apache-2.0
"""LLVM text that runs a kernel's blocks and threads: the function that a worker calls, around the kernel's body.

A kernel without barriers is a loop nest over the threads of a block, with the body inlined (LLVM vectorises it)::

    while a block is left, and nobody said stop:
        for z: for y: for x: body(arguments, registers, x, y, z)

A kernel with barriers is one coroutine per thread. Each suspends at a barrier; a round resumes all that are left, in
order, so a round ends when every live thread has come to its next barrier or has returned::

        for z: for y: for x: handle[t] = body(block, x, y, z)      # suspends before the first line of the user's code
        while any are left: resume each; forget those that returned

With warp operations, a grid sync, or loops in which threads wait for others, blocks *take turns* (``turns.py``).
"""

from __future__ import annotations

from dataclasses import dataclass
from string import Template

from cudabuild.cpu import schedule_text
from cudabuild.cpu.abi import BLOCK, LAUNCH, TEXT_CONSTANTS, Slot
from cudabuild.cpu.faults import Condition

__all__ = ["THREAD", "UNIFORM", "Plan", "format_schedule", "load_field", "load_uniform"]

#: What all threads of a block see alike, beside the kernel's arguments -> its range, the end exclusive, where it has
#: one (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"). Fields of ``BLOCK``.
UNIFORM: dict[str, tuple[int, int] | None] = {
    "ntid.x": (1, 1025), "ntid.y": (1, 1025), "ntid.z": (1, 65),
    "nctaid.x": (1, 2**31 - 1), "nctaid.y": (1, 65536), "nctaid.z": (1, 65536),
    "ctaid.x": (0, 2**31 - 1), "ctaid.y": (0, 65536), "ctaid.z": (0, 65536),
    "dynamic": (0, 2**31 - 1), "shared": None, "stop": None,
}  # fmt: skip

#: What tells a thread from the others of its block; ``thread`` counts them, x fastest.
THREAD = ("tid.x", "tid.y", "tid.z", "thread")


@dataclass(frozen=True)
class Plan:
    """What the schedule needs to know of a kernel.

    Attributes:
        symbol: the name of the function to make, a ``void (ptr launch)``.
        body: the name of the kernel's body. In a loop it takes the arguments, ``UNIFORM`` and ``THREAD``; as a
            coroutine a pointer to the block and ``THREAD``.
        arguments: the fields of the parameter block: name, LLVM type, offset in bytes.
        coroutine: whether a thread can stop at a barrier or a warp operation, or to let others run.
        takes_turns: whether it can stop at anything but a plain barrier.
        static_shared: bytes of static shared memory; None if the kernel uses no shared memory, dynamic neither.
        guarded: whether the kernel checks something. Its body then takes the block (as a loop too) and ``i1 %trusted``.
        conditions: where all hold at launch, ``%trusted`` is true.
        guard: the name of the kernel's guard (``guards.py``), "" for none. It takes what a device function takes, then
            the arguments.
        search: the metadata node of loops that look for the threads to which a guard says yes.
        joined: whether neighbouring blocks may run as one with a longer row (``joining.py``). Their threads all have
            the first block's ``ctaid.x``, and a ``tid.x`` that goes on counting.
    """

    symbol: str
    body: str
    arguments: tuple[tuple[str, str, int], ...]
    coroutine: bool
    takes_turns: bool
    static_shared: int | None
    guarded: bool = False
    conditions: tuple[Condition, ...] = ()
    guard: str = ""
    search: str = ""
    joined: bool = False

    @property
    def body_parameters(self) -> list[str]:
        """The parameters of the body, as ``type %name``; the schedule passes values of the same names."""
        thread = [f"i32 %{name}" for name in THREAD]
        trusted = ["i1 %trusted"] if self.guarded else []
        if self.coroutine:
            return ["ptr %block", *thread, *trusted]
        return [*self.block_parameters, *thread]

    @property
    def block_parameters(self) -> list[str]:
        """What all threads of a block are given alike, in a loop."""
        arguments = [f"{type} %{name}" for name, type, _ in self.arguments]
        guarded = ["ptr %block", "i1 %trusted"] if self.guarded else []
        return [*arguments, *(f"{BLOCK[name].type} %{name}" for name in UNIFORM), *guarded]

    @property
    def row_parameters(self) -> list[str]:
        """What the loop nest is given where it is a function of its own."""
        return [*self.block_parameters, "i32 %row.x"]


def load_field(base: str, name: str, slot: Slot, suffix: str = "") -> str:
    """Lines that load one field of the structure at ``%base`` as ``%name``."""
    return (
        f"  %{name}.at = getelementptr inbounds i8, ptr %{base}, i64 {slot.offset}\n"
        f"  %{name} = load {slot.type}, ptr %{name}.at{suffix}\n"
    )


def load_uniform(base: str = "block") -> str:
    """Lines that load every value of ``UNIFORM`` from the block at ``%base``."""
    lines = []
    for name, limits in UNIFORM.items():
        suffix = f", !range !{{i32 {limits[0]}, i32 {limits[1]}}}" if limits else ""
        lines.append(load_field(base, name, BLOCK[name], suffix))
    return "".join(lines)


def format_schedule(plan: Plan) -> str:
    """The text of ``plan.symbol`` and what it needs beside the body and ``library.py``."""
    if plan.coroutine:
        start = Template(schedule_text.START).substitute(body=plan.body, operands=", ".join(plan.body_parameters))
        resume = schedule_text.ROUNDS
    else:
        start = f"  call void @{plan.body}({', '.join(plan.body_parameters)})\n  br label %x.end"
        resume = ""
    row = _guarded_row(plan) if plan.guard else Template(schedule_text.ROW).substitute(start=start)
    look, row_end = ("", "x.done") if plan.coroutine else (schedule_text.LOOK, "row.end")
    threads = Template(schedule_text.THREADS).substitute(row=row, look=look, row_end=row_end)
    parts = [schedule_text.DECLARATIONS]
    if plan.conditions and not plan.coroutine:
        parameters = ", ".join(plan.row_parameters)
        names = {"symbol": plan.symbol, "parameters": parameters, "threads": threads}
        parts.append(Template(schedule_text.BLOCK).substitute(names))
        trusting, checking = (parameters.replace("i1 %trusted", f"i1 {truth}") for truth in ("true", "false"))
        names = {"symbol": plan.symbol, "trusting": trusting, "checking": checking}
        threads = Template(schedule_text.EITHER).substitute(names)
    pieces = {
        "symbol": plan.symbol,
        "arguments": "" if plan.coroutine else _load_arguments(plan),
        "trust": _trust(plan) if plan.guarded else "",
        "uniform": load_uniform(),
        "next": schedule_text.NEXT_ROW if plan.joined else schedule_text.NEXT,
        "row_x": schedule_text.JOINED_ROW_X if plan.joined else schedule_text.ROW_X,
        "threads": threads,
        "resume": resume,
        "memory": "false" if plan.static_shared is None and not plan.coroutine else "true",
        "static": -(-(plan.static_shared or 0) // 64) * 64,
    }
    if plan.coroutine:
        parts.append(schedule_text.COROUTINE)
    entry = schedule_text.TURNS if plan.takes_turns else schedule_text.ENTRY
    parts.append(Template(entry).safe_substitute(pieces))
    return Template("\n".join(parts)).substitute(TEXT_CONSTANTS)


def _guarded_row(plan: Plan) -> str:
    block = ["ptr %block"] if plan.guarded else []
    uniform = [f"{BLOCK[name].type} %{name}" for name in UNIFORM]
    arguments = [f"{type} %{name}" for name, type, _ in plan.arguments]

    def operands(x: str, thread: str) -> str:
        own = [f"i32 %{name}" for name in (x, "tid.y", "tid.z", thread)]
        return ", ".join([*block, *uniform, *own, *arguments])

    return Template(schedule_text.GUARDED_ROW).substitute(
        guard=plan.guard,
        search=plan.search,
        body=plan.body,
        low=operands("low.x", "low.thread"),
        high=operands("high.x", "high.thread"),
        all=operands("tid.x", "thread"),
        run=", ".join(plan.body_parameters),
    )


def _trust(plan: Plan) -> str:
    """Lines that compute ``%trusted`` from the launch at ``%launch``, in numbers that cannot overflow."""
    offsets = {name: Slot(type, offset) for name, type, offset in plan.arguments}
    lines = [load_field("launch", "trust.params", LAUNCH["params"])]
    known: set[str] = set()
    trusted = "true"
    for number, (terms, constant) in enumerate(plan.conditions):
        total = str(constant)
        for place, term in enumerate(terms):
            product = str(term.factor)
            for name in term.names:
                if name not in known:
                    known.add(name)
                    base, slot = ("trust.params", offsets[name]) if name in offsets else ("launch", LAUNCH[name])
                    lines.append(load_field(base, f"trust.{name}", slot))
                    how = "sext" if term.signed else "zext"
                    lines.append(f"  %trust.{name}.wide = {how} {slot.type} %trust.{name} to i128\n")
                made = f"%trust.{number}.{place}.{name}"
                lines.append(f"  {made} = mul i128 {product}, %trust.{name}.wide\n")
                product = made
            lines.append(f"  %trust.{number}.{place} = add i128 {total}, {product}\n")
            total = f"%trust.{number}.{place}"
        lines.append(f"  %trust.{number} = icmp slt i128 {total}, 0\n")
        lines.append(f"  %trusted.{number} = and i1 {trusted}, %trust.{number}\n")
        trusted = f"%trusted.{number}"
    return "".join([*lines, f"  %trusted = and i1 true, {trusted}\n"])


def _load_arguments(plan: Plan) -> str:
    lines = [load_field("launch", "params", LAUNCH["params"])]
    lines += [load_field("params", name, Slot(type, offset)) for name, type, offset in plan.arguments]
    return "".join(lines)
