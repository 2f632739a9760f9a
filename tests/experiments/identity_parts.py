# SPDX-License-Identifier: Apache-2.0
"""The kernels of ``identity.py``: their files, the edits that vary one labelled part, and those that vary none.

Run as a script, prints what identifies each kernel:

    python3 identity_parts.py FOLDER MODULE …

imports the modules in that order from FOLDER; and

    python3 identity_parts.py --forms STEP FOLDER

prints the canonical form of every function in every STEP-th Python file below FOLDER. Needs no NumPy, which not every
Python has.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

__all__ = ["ALSO", "EDITS", "FILES", "MODULES", "NEUTRAL", "TOOLS", "find_kernels", "load_kernel", "write_files"]

#: The files of the project, by name.
FILES = {
    "identity_deep.py": """\
FACTOR = 2


def inner(a):
    return a * FACTOR


def is_even(n):
    return is_odd(n - 1) if n else True


def is_odd(n):
    return again(n - 1) if n else False


again = is_even
""",
    "identity_helpers.py": '''\
from cudabuild import device_function
from identity_deep import inner

OFFSET = 1.5


@device_function
def outer(a, scale=3):
    """A docstring."""
    return inner(a) * scale + OFFSET


def light(a):
    return a + 1


def heavy(a):
    return a - 1
''',
    "identity_kernels.py": '''\
import enum

import identity_deep
from cudabuild import cuda, float32, float64, int32, kernel
from identity_helpers import heavy, light, outer


class Colour(enum.IntEnum):
    RED = 1
    BLUE = 2


class Config:
    SCALE = 0.5
    NAMES = {"a": 1, "b": 2}
    SETS = frozenset({"x", "y", "longer"})


N = 4
TABLE = (1, (2.0, "text", b"bytes"), None, 2 + 3j, -0.0)
UNUSED = 7


def make(captured):
    @cuda.jit("void(float32, float32[::1], int64)", link=[LINKED])
    def everything(a, x, y=5, *, z=6):
        """A docstring."""
        i = cuda.grid(1)
        if i < x.size and N > 2:
            x[i] = outer(a) + captured * Config.SCALE + Colour.RED + TABLE[0] + y + z
            x[i] += identity_deep.is_even(3) + Config.NAMES["a"] + len(Config.SETS)

    return everything


LINKED = __file__.replace("identity_kernels.py", "identity_linked.ptx")
everything = make(8)


@kernel("T, T[::1]", T=(float32, float64))
def plain(a, x):
    x[cuda.grid(1)] = light(a)


@kernel("int32[::1]", launch_bounds=128)
def bounded(x: "int32[::1]"):
    i: int32 = cuda.grid(1)
    x[i] = [q + N for q in (1, 2)][0]
''',
    "identity_others.py": """\
from cudabuild import cuda, kernel
from identity_helpers import heavy


@kernel("float64[:, ::1]", fastmath=True)
def other(x):
    i, j = cuda.grid(2)
    x[i, j] = heavy(x[i, j])


@kernel("float32[::1]")
def recursive(x):
    def inside(n):
        return n + 1

    x[0] = inside(1)
""",
    "identity_values.py": """\
import collections
import enum
import functools
import types

from cudabuild import float32, kernel


class Plain(enum.Enum):
    ONE = 1


class Whole(enum.IntEnum):
    ONE = 1


class Bits(enum.Flag):
    ONE = 1
    TWO = 2


class WholeBits(enum.IntFlag):
    ONE = 1
    TWO = 2


class Text(str, enum.Enum):
    ONE = "one"


class Slotted:
    __slots__ = ("one",)

    def __init__(self):
        self.one = 1


def helper(a, b=1):
    return a + b


Point = collections.namedtuple("Point", "x y", defaults=(2,))
A = (1, -1, 0, True, False, None, ..., 10**300, -(2**63), 1.0, -0.0, 1e-320)
A += (float("inf"), float("-inf"), float("nan"), 1j, complex(-0.0, float("nan")))
B = ("text", "\\u00e9\\ud800\\0", b"\\x00\\xff", bytearray(b"a"), range(3), range(0, 9, 2), slice(1, None, 2))
C = ([1, [2.5]], {"b": 1, "a": {2, 3}}, frozenset({"x", "y", ("z", 1)}), {1: 2, "1": 3, 1.5: 4}, (), {}, [])
D = (Plain.ONE, Whole.ONE, Bits.ONE | Bits.TWO, WholeBits.TWO, WholeBits.ONE | WholeBits.TWO, Text.ONE)
D += (Bits(0), WholeBits(0), ~Bits.ONE, WholeBits(64), WholeBits(65))
E = (Point(1), Slotted(), types.SimpleNamespace(b=1, a=2), functools.partial(helper, b=3), float32, int, helper)
F = (lambda a: a + 1, lambda a: a + 2)


@kernel("float32[::1]")
def values(x):
    x[0] = A[0] + B[0] + C[0] + D[0] + E[0] + Bits.TWO + Text.ONE + Whole.ONE + Slotted().one + Plain.ONE.value


@kernel("float32[::1]")
def lambdas(x):
    x[0] = F[0](1)
""",
    "identity_linked.ptx": ".version 7.8\n.target sm_75\n.address_size 64\n",
}

MODULES = tuple(name.removesuffix(".py") for name in FILES if name.endswith(".py"))

#: What made the code, as image keys count it.
TOOLS = {"llvmlite": "0.50.0", "llvm": "22.1", "libdevice": "0123456789abcdef", "nvjitlink": "12.9"}

#: Label of the part of ``everything`` that an edit varies -> file, text, what it becomes.
EDITS: dict[str, tuple[str, str, str]] = {
    "(signature)": ("identity_kernels.py", "void(float32, float32[::1], int64)", "void(float64, float32[::1], int64)"),
    "(code)": ("identity_kernels.py", "+ y + z", "- y + z"),
    "(defaults)": ("identity_kernels.py", "y=5, *, z=6", "y=5, *, z=6.0"),
    "(linked)": ("identity_linked.ptx", "sm_75", "sm_80"),
    "N": ("identity_kernels.py", "N = 4", "N = 4.0"),
    "captured": ("identity_kernels.py", "make(8)", "make(True)"),
    "Config.SCALE": ("identity_kernels.py", "SCALE = 0.5", "SCALE = 0.25"),
    "Config.NAMES": ("identity_kernels.py", '"b": 2', '"b": 3'),
    "Config.SETS": ("identity_kernels.py", '"longer"', '"Longer"'),
    "Colour.RED": ("identity_kernels.py", "RED = 1", "RED = 3"),
    "TABLE": ("identity_kernels.py", "-0.0)", "0.0)"),
    "outer": ("identity_helpers.py", "@device_function", "@device_function(fastmath=True)"),
    "outer/(code)": ("identity_helpers.py", "* scale +", "* scale -"),
    "outer/(defaults)": ("identity_helpers.py", "scale=3", "scale=4"),
    "outer/OFFSET": ("identity_helpers.py", "OFFSET = 1.5", "OFFSET = 1.25"),
    "outer/inner": (
        "identity_deep.py",
        "def inner",
        "from cudabuild import device_function\n\n\n@device_function(fma=False)\ndef inner",
    ),
    "outer/inner/(code)": ("identity_deep.py", "a * FACTOR", "a + FACTOR"),
    "outer/inner/FACTOR": ("identity_deep.py", "FACTOR = 2", "FACTOR = 3"),
    "identity_deep.is_even": (
        "identity_deep.py",
        "def is_even",
        "from cudabuild import device_function\n\n\n@device_function(literals='numba')\ndef is_even",
    ),
    "identity_deep.is_even/(code)": ("identity_deep.py", "if n else True", "if n else False"),
    "identity_deep.is_even/is_odd/again": ("identity_deep.py", "again = is_even", "again = is_odd"),
    "identity_deep.is_even/is_odd": (
        "identity_deep.py",
        "def is_odd",
        "from cudabuild import device_function\n\n\n@device_function(debug=True)\ndef is_odd",
    ),
    "identity_deep.is_even/is_odd/(code)": ("identity_deep.py", "again(n - 1)", "again(n + 1)"),
}

#: Parts that an edit varies beside its own: of other names that lead to the same function.
ALSO = {"identity_deep.is_even": {"identity_deep.is_even/is_odd/again"}}

#: Edits that vary nothing: what it is, file, text, what it becomes.
NEUTRAL: tuple[tuple[str, str, str, str], ...] = (
    ("a comment", "identity_kernels.py", "        i = cuda", "        # about i\n        i = cuda"),
    ("a docstring", "identity_kernels.py", '"""A docstring."""', '"""Another docstring."""'),
    ("no docstring", "identity_helpers.py", '    """A docstring."""\n', ""),
    ("white space", "identity_kernels.py", "= outer(a) + captured * Config.SCALE + Colour.RED + TABLE[0] + y + z",
     "=(\\\n  outer( a )+captured*Config . SCALE\n+ Colour.RED + TABLE[ 0 ]\n\n + y + (z) )"),
    ("annotations", "identity_kernels.py", "def everything(a, x,", "def everything(a: 'float32', x: object,"),
    ("another spelling of a number", "identity_kernels.py", "N > 2", "N > 0x2"),
    ("a constant computed otherwise", "identity_kernels.py", "N = 4", "N = 2\nN = N * N"),
    ("a name that no kernel uses", "identity_kernels.py", "UNUSED = 7", "UNUSED = object()"),
    ("another kernel of the file", "identity_kernels.py", "light(a)", "heavy(a)"),
    ("another function of a helper's file", "identity_helpers.py", "a + 1", "a + 2"),
    ("lines above", "identity_deep.py", "FACTOR = 2", "\n\n'''text'''\n\nFACTOR = 2"),
    ("tabs for spaces", "identity_deep.py", "    return a * FACTOR", "\treturn a * FACTOR"),
    ("other line ends", "identity_helpers.py", "\n", "\r\n"),
    ("an unrelated import", "identity_helpers.py", "OFFSET = 1.5", "import fractions\n\nOFFSET = 1.5"),
    ("a mapping's order", "identity_kernels.py", '{"a": 1, "b": 2}', '{"b": 2, "a": 1}'),
    ("a set's order", "identity_kernels.py", '{"x", "y", "longer"}', '{"longer", "y", "x"}'),
)  # fmt: skip


def write_files(folder: Path, edit: tuple[str, str, str] | None = None) -> Path:
    """Writes the project, with one edit."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in FILES.items():
        if edit is not None and edit[0] == name:
            assert edit[1] in text, f"{name} does not hold {edit[1]!r}"
            text = text.replace(edit[1], edit[2])
        (folder / name).write_bytes(text.encode())
    return folder


def load_kernel(folder: Path) -> Any:
    """The kernel ``everything`` of a project, imported anew."""
    import linecache

    for name in MODULES:
        sys.modules.pop(name, None)
    linecache.clearcache()
    importlib.invalidate_caches()
    sys.path.insert(0, str(folder))
    try:
        return importlib.import_module("identity_kernels").everything
    finally:
        sys.path.remove(str(folder))


def find_kernels(names: Iterator[str] | tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """The kernels of imported modules, by name."""
    from cudabuild.runtime.dispatcher import Dispatcher

    for name in sorted(names):
        for attribute, value in sorted(vars(sys.modules[name]).items()):
            if isinstance(value, Dispatcher) and value.__module__ == name:
                yield f"{name}.{attribute}", value


def print_forms(step: int, folder: str) -> None:
    """A line for every file: how many functions it has, and a digest of their forms and free names."""
    import ast
    import warnings

    from cudabuild.digest import digest_parts
    from cudabuild.fingerprint.canonical import canonical_form

    warnings.simplefilter("ignore")  # of the files' syntax: "\\d" in a text
    paths = [path for path in sorted(Path(folder).rglob("*.py")) if "site-packages" not in path.parts]
    for path in paths[::step]:
        try:
            tree = ast.parse(path.read_bytes())
        except (SyntaxError, ValueError):  # a newer Python's, or wrong on purpose
            print(path.relative_to(folder), "unparsable")
            continue
        forms = [canonical_form(node) for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        pieces = [piece for form in forms for piece in (form.digest, repr(form.free_names).encode())]
        print(path.relative_to(folder), len(forms), digest_parts(*pieces).hex())


def print_kernels(folder: str, names: list[str]) -> None:
    """A line for every overload of every kernel, after importing modules in an order."""
    from cudabuild.digest import COMPILER_SOURCES, digest_parts, digest_sources
    from cudabuild.fingerprint import compute_fingerprint, image_key
    from cudabuild.target import parse_target
    from cudabuild.types import format_signature

    sys.path.insert(0, folder)
    for name in names:
        importlib.import_module(name)
    tools = {**TOOLS, "cudabuild": digest_sources(COMPILER_SOURCES)}
    for label, kernel in find_kernels(MODULES):
        for signature in kernel.signatures:
            found = compute_fingerprint(kernel.definition, signature)
            debug = compute_fingerprint(kernel.definition, signature, kernel.definition.options.replace(debug=True))
            keys = [
                image_key(found, parse_target(target), width, kernel.definition.options, tools)
                for target in ("sm_90", "sm_90a", "compute_75")
                for width in (32, 64)
            ]
            # Where in its line a lambda is, Python 3.10 does not know: its checks differ, and the fingerprint tells.
            checks = () if label.endswith(".lambdas") else [(one.label, one.source, one.values) for one in found.checks]
            digests = (found.digest, debug.digest, digest_parts(*keys), digest_parts(repr(checks).encode()))
            print(f"{label}({format_signature(signature)})", *(digest.hex() for digest in digests))
    assert "numpy" not in sys.modules


if __name__ == "__main__":
    if sys.argv[1] == "--forms":
        print_forms(int(sys.argv[2]), sys.argv[3])
    else:
        print_kernels(sys.argv[1], sys.argv[2:])
