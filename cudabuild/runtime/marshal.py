# SPDX-License-Identifier: Apache-2.0
"""Arguments into a parameter block: carefully (``block_values``), and fast (generated launchers).

A generated launcher reads, checks and packs the arguments of one overload for the Python types of one call. For
``saxpy(float32, float32[::1], float32[::1])`` called with a float and two array-interface objects it reads::

    def launch(p0, p1, p2):
        while True:
            try:
                c = p1.__cuda_array_interface__
                if c["typestr"] != "<f4" or "mask" in c: break
                …
                slot = pop()
                pack_into(slot[0], 0, p0, d1, n1_0, d2, n2_0)
            except Exception:
                break
            r = cuLaunchKernel(kernel, gx, gy, gz, bx, by, bz, shared, stream, slot[1], 0)
            push(slot)
            if r[0] is success: return
            return failed(r[0], (p0, p1, p2))
        return link.next(p0, p1, p2)

Whatever it does not recognise (another dtype, a size beyond 32 bits, an error) goes to ``link.next``: the launcher of
another overload seen with the same Python types, at last the careful path, which has the message for every mistake.

A slot is a parameter block with the array of pointers into it. Slots are taken from a list and put back, both atomic:
threads, signal handlers and finalisers that launch the same kernel in the middle of a launch each hold their own. A
slot that an exception loses is garbage, not a leak.
"""

from __future__ import annotations

from cudabuild.runtime.arguments import typestr_of
from cudabuild.types import (
    Array,
    Boolean,
    BrainFloat,
    Complex,
    DateTime,
    Float,
    Integer,
    Record,
    TimeDelta,
    Tuple,
    TypeArgument,
    WeakInteger,
    as_dtype,
)
from cudabuild.types.brain import brain_bits
from cudabuild.types.layout import LARGEST_EXTENT, block_size
from cudabuild.types.named import EnumMember, member_number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from cudabuild.runtime.arguments import Argument
    from cudabuild.types import Signature, Type
    from cudabuild.types.layout import Field

__all__ = ["BlockFormat", "Link", "block_values", "make_launcher_factory", "needs_wide"]

MAX32 = (1 << 31) - 1


class Link:
    """Where a generated launcher passes what is not its own: ``next`` takes the same arguments."""

    __slots__ = ("next",)

    def __init__(self, next: Callable[..., Any]) -> None:
        self.next = next


class BlockFormat:
    """The parameter block of one image as a ``struct`` format, and its free slots.

    Attributes:
        fields: as ``types/layout.py`` lays them out.
        pack_into: packs one value per field into a slot's block.
        slots: the free ones: (block, address of the parameter pointers, the pointers).
    """

    __slots__ = ("_offsets", "_size", "fields", "pack_into", "slots")

    def __init__(self, fields: list[Field]) -> None:
        import struct

        text, at = "<", 0
        for field in fields:
            text += "x" * (field.offset - at) + ("Q" if field.format == "P" else field.format)
            at = field.offset + field.size
        self.fields = fields
        self.pack_into = struct.Struct(text).pack_into
        self._offsets = [field.offset for field in fields]
        self._size = block_size(fields)
        self.slots: list[tuple[Any, int, Any]] = []

    def take_slot(self) -> tuple[Any, int, Any]:
        """A free slot, or a new one."""
        try:
            return self.slots.pop()
        except IndexError:
            return self._make_slot()

    def _make_slot(self) -> tuple[Any, int, Any]:
        import ctypes

        block = (ctypes.c_char * (self._size or 1))()
        base = ctypes.addressof(block)
        pointers = (ctypes.c_void_p * (len(self._offsets) or 1))(*(base + offset for offset in self._offsets))
        return block, ctypes.addressof(pointers), pointers


# The careful way


def needs_wide(signature: Signature, arguments: Sequence[Argument]) -> bool:
    """Whether the arguments need the 64-bit variant, by the rule of ``types/layout.py`` (grid and block apart)."""
    return any(_is_wide(kind, argument) for kind, argument in zip(signature, arguments, strict=True))


def _is_wide(kind: Type, argument: Argument) -> bool:
    if isinstance(kind, Tuple):
        return needs_wide(kind.elements, argument.value)
    if isinstance(kind, WeakInteger):
        return not -MAX32 - 1 <= int(argument.value) <= MAX32
    if not isinstance(kind, Array):
        return False
    count = span = 1
    for extent in argument.shape:
        count *= extent
    if kind.layout == "A":
        pairs = zip(argument.shape, argument.strides, strict=True)
        span = sum((extent - 1) * abs(stride) for extent, stride in pairs if extent > 1)
    return count > MAX32 or span > MAX32 or any(extent > MAX32 for extent in argument.shape)


def block_values(
    signature: Signature, fields: Sequence[Field], arguments: Sequence[Argument], pointers: Callable[[Argument], int]
) -> list[Any]:
    """One value per field.

    Args:
        signature: the overload; the arguments are known to fit it.
        fields: its parameter block.
        arguments: as read.
        pointers: the device pointer of an array argument.
    """
    values = []
    for field in fields:
        kind, argument = signature[field.argument], arguments[field.argument]
        for index in field.path:
            assert isinstance(kind, Tuple)
            kind, argument = kind.elements[index], argument.value[index]
        if field.part == "data":
            values.append(pointers(argument))
        elif field.part == "shape":
            values.append(argument.shape[field.axis])
        elif field.part == "stride":
            values.append(argument.strides[field.axis] if argument.shape[field.axis] > 1 else 0)
        elif field.part == "value":
            values.append(_scalar_value(kind, argument.value))
        else:
            assert isinstance(kind, Complex)
            values.append(_scalar_value(kind.part, getattr(argument.value, field.part)))
    return values


#: The greatest finite value of each float type, for conversions that would overflow ``struct``.
_FLOAT_LIMITS = {16: 65504.0, 32: 3.4028234663852886e38}


def _scalar_value(kind: Type, value: Any) -> Any:
    if isinstance(kind, Boolean):
        return bool(value)
    if isinstance(kind, Integer):
        return int(value)
    if isinstance(kind, (DateTime, TimeDelta)):
        return int(value.view("int64"))
    assert isinstance(kind, Float)
    if isinstance(kind, BrainFloat):
        return brain_bits(value)
    try:
        number = float(value)
    except OverflowError:  # a Python int beyond float64
        return float("inf") if value > 0 else float("-inf")
    limit = _FLOAT_LIMITS.get(kind.bits)
    if limit is not None and abs(number) > limit and number - number == 0:
        # As NumPy converts: what rounds to the greatest finite value stays finite, the rest becomes infinite.
        import struct

        try:
            struct.pack("<e" if kind.bits == 16 else "<f", number)
        except OverflowError:
            return float("inf") if number > 0 else float("-inf")
    return number


# The fast way


class _Writer:
    """Writes the source of one launcher factory.

    Attributes:
        lines: statements that read and check, in order.
        values: field (argument, path, part, axis) -> the expression of its value.
        narrow: conditions that hold exactly when everything fits the 32-bit variant.
        extents: the variables that hold an array's extents.
        constants: objects that the source calls ``k0``, ``k1`` …
        seen: the array whose like is being read.
    """

    def __init__(self, rivals: str) -> None:
        self.rivals = rivals
        self.lines: list[str] = []
        self.values: dict[tuple[tuple[int, ...], str, int], str] = {}
        self.narrow: list[str] = []
        self.extents: list[str] = []
        self.constants: list[Any] = []
        self.seen: Any = None
        self.orders_cupy = False

    def constant(self, value: Any) -> str:
        self.constants.append(value)
        return f"k{len(self.constants) - 1}"

    def _give(self, path: tuple[int, ...], part: str, axis: int, expression: str) -> None:
        self.values[path, part, axis] = expression

    def read(self, kind: Type, argument: Argument, name: str, path: tuple[int, ...]) -> None:
        """Reads one argument, or one element of a tuple, that stands in the variable ``name``."""
        if isinstance(kind, Tuple):
            names = [f"{name}_{index}" for index in range(len(kind.elements))]
            self.lines.append(f"{', '.join(names)}{',' if names else '()'} = {name}")
            for index, element in enumerate(kind.elements):
                value = argument.value[index]
                self.lines.append(f"if type({names[index]}) is not {self.constant(type(value.value))}: break")
                self.read(element, value, names[index], (*path, index))
        elif isinstance(kind, Array):
            self._read_array(kind, argument, name, path)
        elif isinstance(kind, TypeArgument):
            self.lines.append(f"if {name} is not {self.constant(argument.value)}: break")  # one class for all types
        elif isinstance(kind, EnumMember) and not kind.is_integer:
            numbers = {member: member_number(member) for member in kind.find_class() or ()}
            self._give(path, "value", 0, f"{self.constant(numbers)}[{name}]")
        elif isinstance(kind, (DateTime, TimeDelta)):
            self.lines.append(f"if {name}.dtype != {self.constant(as_dtype(kind))}: break")  # one class for all units
            self._give(path, "value", 0, f'int({name}.view("i8"))')
        elif isinstance(kind, Complex):
            for part in ("real", "imag"):
                self._give(path, part, 0, f"{name}.{part}")
        elif isinstance(kind, BrainFloat):
            self._give(path, "value", 0, f"{self.constant(brain_bits)}({name})")
        else:
            self._give(path, "value", 0, name)
            if isinstance(kind, WeakInteger):
                self.narrow.append(f"-{MAX32 + 1} <= {name} <= {MAX32}")

    def _read_array(self, kind: Array, argument: Argument, name: str, path: tuple[int, ...]) -> None:
        axes = range(kind.ndim)
        extents = [f"n{name}_{axis}" for axis in axes]
        self.seen = argument.value
        readers = {"device": self._device, "interface": self._interface, "torch": self._torch, "cupy": self._cupy}
        readers[argument.reader](kind, name, extents)
        self._give(path, "data", 0, f"d{name}")
        for axis in axes:
            self._give(path, "shape", axis, extents[axis])
        self._leave_rivals(kind, name, extents)
        if kind.layout == "A":
            for axis in axes:
                self._give(path, "stride", axis, f"s{name}_{axis}")
                self.lines.append(f"if n{name}_{axis} < 2: s{name}_{axis} = 0")
            span = " + ".join(f"(n{name}_{axis} - 1) * abs(s{name}_{axis})" for axis in axes)
            self.narrow.append(f"{span or 0} <= {MAX32}")
        self.narrow += [f"{extent} <= {MAX32}" for extent in extents]
        self.extents += extents
        if kind.ndim > 1:
            self.narrow.append(f"{' * '.join(extents)} <= {MAX32}")

    def _leave_rivals(self, kind: Array, name: str, extents: list[str]) -> None:
        """Passes on arrays that lie in an order that another overload takes."""
        if kind.layout == "A":
            pairs = "".join(f"({extent}, s{name}_{axis}), " for axis, extent in enumerate(extents))
            for order, step in (("C", "[::-1]"), ("F", "")):
                if order in self.rivals:
                    self.lines.append(f"if packed(({pairs}){step}, {kind.dtype.size}): break")
        elif kind.layout == "F" and "C" in self.rivals:
            # Without gaps in F order, so in C order too if it has but one axis, or nothing, to order.
            several = " + ".join(f"({extent} > 1)" for extent in extents)
            self.lines.append(f"if {several} < 2 or 0 in ({', '.join(extents)}): break")

    def _unpack(self, names: list[str], expression: str) -> None:
        # A wrong number of axes is a ValueError, which ends at the careful path like every other.
        self.lines.append(f"{', '.join(names)}, = {expression}" if names else f"() = {expression}")

    def _steps(self, kind: Array, extents: list[str]) -> list[str]:
        """Expressions of the byte strides of a gapless array in the type's order (C for layout A)."""
        size = str(kind.dtype.size)
        if kind.layout == "F":
            return [" * ".join([size, *extents[:axis]]) for axis in range(kind.ndim)]
        return [" * ".join([size, *extents[axis + 1 :]]) for axis in range(kind.ndim)]

    def _device(self, kind: Array, name: str, extents: list[str]) -> None:
        """Our own arrays; a launch is in order with their stream only as the program says, as in numba-cuda."""
        if isinstance(kind.dtype, Record):
            # The dtype of the array just seen: the same object for arrays of one program, mostly.
            dtype = self.constant(self.seen.dtype)
            self.lines.append(f"if {name}.dtype is not {dtype} and {name}.dtype != {dtype}: break")
            self.lines.append(f"if not {name}.typestr: break")
        else:
            self.lines.append(f'if {name}.typestr != "{typestr_of(kind.dtype)}": break')
        if not kind.readonly:
            self.lines.append(f"if {name}.readonly: break")
        elif "W" in self.rivals:
            self.lines.append(f"if not {name}.readonly: break")
        self._unpack(extents, f"{name}.shape")
        self.lines.append(f"d{name} = {name}.pointer")
        if kind.layout == "A":
            self._unpack([f"s{name}_{axis}" for axis in range(kind.ndim)], f"{name}.strides")
        else:
            self.lines.append(f"if not {name}.{kind.layout.lower()}: break")

    def _interface(self, kind: Array, name: str, extents: list[str]) -> None:
        if isinstance(kind.dtype, Record):
            self.lines.append("break")  # a typestr does not tell records apart
        self.lines += [
            f"c = {name}.__cuda_array_interface__",
            f'if c["typestr"] != "{typestr_of(kind.dtype)}": break',
        ]
        self._unpack(extents, 'c["shape"]')
        self.lines.append(f'd{name}, r = c["data"]')
        if not kind.readonly:
            self.lines.append("if r: break")
        elif "W" in self.rivals:
            self.lines.append("if not r: break")
        # Three entries were read just now: where the version is the only other one, there are no strides, mask or
        # stream. The version is looked for: a producer that leaves it out has something else in its place.
        least = 'if len(c) == 4 and "version" in c: '
        packed = f"({', '.join(self._steps(kind, extents))},)" if kind.ndim else "()"
        rest = ['if "mask" in c: break', 's = c.get("strides")']
        if kind.layout == "A":
            names = ", ".join(f"s{name}_{axis}" for axis in range(kind.ndim))
            nothing = f"{names}, = {packed}"
            rest += [f"if s is None: {nothing}", f"else: {names}, = s"]
        elif kind.layout == "F":
            nothing = "break"  # without strides it lies in C order
            rest.append(f"if s != {packed}: break")
        else:
            nothing = "pass"
            if kind.ndim:
                rest.append(f"if s is not None and s != {packed}: break")
        rest += ['s = c.get("stream")', "if s is not None and s != stream_number: order(s)"]
        self.lines += [least + nothing, "else:", *(f"    {line}" for line in rest)]

    def _torch(self, kind: Array, name: str, extents: list[str]) -> None:
        import sys

        dtype = self.constant(getattr(sys.modules["torch"], kind.dtype.name))
        gradient = f" or {name}.requires_grad"
        if kind.readonly:
            gradient = f" or not {name}.requires_grad" if "W" in self.rivals else ""
        self.lines.append(f"if {name}.dtype is not {dtype} or not {name}.is_cuda{gradient} or {name}.is_neg(): break")
        self._unpack(extents, f"{name}.shape")
        self.lines.append(f"d{name} = {name}.data_ptr()")
        if kind.layout == "C":
            self.lines.append(f"if not {name}.is_contiguous(): break")
            return
        names = [f"s{name}_{axis}" for axis in range(kind.ndim)]
        self._unpack(names, f"{name}.stride()")
        self.lines += [f"{step} *= {kind.dtype.size}" for step in names]
        if kind.layout == "F":
            self.lines.append(f"if ({', '.join(names)},) != ({', '.join(self._steps(kind, extents))},): break")

    def _cupy(self, kind: Array, name: str, extents: list[str]) -> None:
        import sys

        cupy = sys.modules["cupy"]
        if not self.orders_cupy:
            # What the arrays' __cuda_array_interface__ would say of the stream, at a tenth of its price.
            self.orders_cupy = True
            backend = sys.modules.get("cupy_backends.cuda.stream")
            pointer = getattr(backend, "get_current_stream_ptr", None) or _current_stream_of(cupy)
            self.lines += [f"s = {self.constant(pointer)}() or 1", "if s != stream_number: order(s)"]
        if kind.readonly and "W" in self.rivals:
            self.lines.append("break")  # a CuPy array can always be written
        dtype = self.constant(as_dtype(kind.dtype))
        self.lines.append(f"if {name}.dtype != {dtype}: break")
        self._unpack(extents, f"{name}.shape")
        self.lines.append(f"d{name} = {name}.data.ptr")
        if kind.layout == "A":
            self._unpack([f"s{name}_{axis}" for axis in range(kind.ndim)], f"{name}.strides")
        else:
            private = f"_{kind.layout.lower()}_contiguous"  # a C field; ``flags`` builds an object each time
            flag = private if hasattr(cupy.ndarray, private) else f"flags{private.replace('_', '.', 1)}"
            self.lines.append(f"if not {name}.{flag}: break")


def _current_stream_of(cupy: Any) -> Callable[[], int]:
    return lambda: int(cupy.cuda.get_current_stream().ptr)


_HEAD = (
    "def make(cuLaunchKernel, success, kernel, gx, gy, gz, bx, by, bz, shared, stream, stream_number, order, "
    "pop, push, pack_into, link, failed, packed, constants):"
)

#: Source of a factory -> the factory: overloads with the same types of parameters and arguments share one.
_factories: dict[str, Callable[..., Callable[..., None]]] = {}


def make_launcher_factory(
    signature: Signature,
    fields: Sequence[Field],
    arguments: Sequence[Argument],
    *,
    serves: str,
    rivals: str,
) -> tuple[Callable[..., Callable[..., None]], list[Any]]:
    """The factory of launchers for arguments like these, and the constants to call it with.

    Args:
        signature, fields: the overload and its parameter block.
        arguments: those of the call just made, none of them a host array.
        serves: ``narrow``: only what fits 32 bits; ``wide``: only what does not; ``all``.
        rivals: letters for what belongs to other overloads where this one would take it too: ``C`` and ``F``, arrays
            in that order (for a parameter with strides); ``W``, arrays that can be written (for a ``const`` one).
    """
    writer = _Writer(rivals)
    names = [f"p{index}" for index in range(len(signature))]
    for index, (kind, argument) in enumerate(zip(signature, arguments, strict=True)):
        writer.read(kind, argument, names[index], (index,))
    lines = writer.lines
    if serves == "narrow":
        # A single extent or integer beyond 32 bits does not pack: an error there is the check.
        lines += [f"if not {condition}: break" for condition in writer.narrow if "*" in condition]
    elif serves == "wide":
        lines.append(f"if {' and '.join(writer.narrow) or 'True'}: break")
    if serves != "narrow" and writer.extents:  # refused on the careful way, with a message
        lines.append(f"if {' or '.join(f'{extent} > {LARGEST_EXTENT}' for extent in writer.extents)}: break")
    values = "".join(f", {writer.values[(f.argument, *f.path), f.part, f.axis]}" for f in fields)
    lines += ["slot = pop()", f"pack_into(slot[0], 0{values})"]
    constants = "".join(f"k{index}, " for index in range(len(writer.constants)))
    given = ", ".join(names)
    text = "\n".join(
        [
            _HEAD,
            f"    {constants}= constants" if constants else "",
            f"    def launch({given}):",
            "        while True:",
            "            try:",
            *(f"                {line}" for line in lines),
            "            except Exception:",
            "                break",
            "            r = cuLaunchKernel(kernel, gx, gy, gz, bx, by, bz, shared, stream, slot[1], 0)",
            "            push(slot)",
            "            if r[0] is success: return",
            f"            return failed(r[0], ({given}{',' if given else ''}))",
            f"        return link.next({given})",
            "    return launch",
        ]
    )
    factory = _factories.get(text)
    if factory is None:
        namespace: dict[str, Any] = {}
        exec(compile(text, "<cudabuild launcher>", "exec"), namespace)
        factory = _factories[text] = namespace["make"]
    return factory, writer.constants
