# SPDX-License-Identifier: Apache-2.0
"""What changes a fingerprint, and what does not."""

from __future__ import annotations

import enum
import importlib
import itertools
import sys
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cudabuild.definition import OPTIONS, KernelDefinition, Options
from cudabuild.errors import SourceError
from cudabuild.fingerprint import Fingerprint, compute_fingerprint
from cudabuild.fingerprint.key import differences
from cudabuild.fingerprint.values import describe_value
from cudabuild.types import float32, float64

_numbers = itertools.count()


class Source:
    """Writes modules and takes fingerprints of their functions."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def load(self, text: str, name: str = "") -> ModuleType:
        name = name or f"meaning_{next(_numbers)}"
        (self.folder / f"{name}.py").write_text(text, "utf-8")
        importlib.invalidate_caches()
        sys.modules.pop(name, None)
        return importlib.import_module(name)

    def take(self, text: str, **replacing: Any) -> Fingerprint:
        module = self.load(text)
        for name, value in replacing.items():
            setattr(module, name, value)
        return compute_fingerprint(KernelDefinition(module.k), ())


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Source:
    monkeypatch.syspath_prepend(str(tmp_path))
    return Source(tmp_path)


BASE = """
def h(a):
    return a + M
M = 1
N = 2
def k(x, y=3):
    x[0] = N * x[1] + h(y)
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("N *", "N +"), ("x[1]", "x[2]"), ("N = 2", "N = 3"), ("N = 2", "N = 2.0"), ("N = 2", "N = True"),
        ("y=3", "y=4"), ("M = 1", "M = 2"), ("a + M", "a - M"), ("def k(x, y=3)", "def k(x, *, y=3)"),
        ("def k(x, y=3)", "def k(x, /, y=3)"), ("y=3", "y=3.0"), ("x[0] =", "x[0] +="), ("h(y)", "h(+y)"),
        ("N = 2", "N = -0.0"), ("N = 2", "N = None"), ("N = 2", "N = '2'"), ("N = 2", "N = b'2'"),
        ("N = 2", "N = (2,)"),
        ("    x[0] = N", "    if x:\n        pass\n    x[0] = N"), ("N = 2", ""),
    ],
)  # fmt: skip
def test_what_counts(source: Source, old: str, new: str) -> None:
    assert old in BASE
    before, after = source.take(BASE), source.take(BASE.replace(old, new))
    assert before.digest != after.digest
    assert differences(before.parts, after.parts)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("def h(a):", "# a comment\n\ndef h( a ):"), ("def k(x, y=3):", "def k(x: nonsense, y: 'more' = 3) -> 1 / 0:"),
        ("    x[0] =", '    "doc"\n    x[0] ='), ("    return", "    'doc'\n    return"), ("y=3", "y=(1 + 2)"),
        ("N = 2", "N = 1\nN += 1"), ("M = 1", "M = 1\nunused = object()"), ("N * x[1]", "(N * x[1])"),
        ("    x[0] =", "    i: undefined\n    x[0] ="), ("y=3", "y=0x3"),
    ],
)  # fmt: skip
def test_what_does_not_count(source: Source, old: str, new: str) -> None:
    assert old in BASE
    after = source.take("from __future__ import annotations\n" + BASE.replace(old, new))
    if "undefined" in new:  # the name stays in the code as a statement without effect
        assert not after.unresolved
        return
    assert differences(source.take(BASE).parts, after.parts) == []


def test_parts_are_labelled_and_readable(source: Source) -> None:
    found = source.take(BASE)
    parts = dict(found.parts)
    assert parts["N"] == "2"
    assert parts["h"] == "function h"
    assert parts["h/M"] == "1"
    assert parts["(signature)"] == ""
    assert parts["(defaults)"] == "((3, ), None, )"
    assert len(parts["(code)"]) == len(parts["h/(code)"]) == 64
    assert found.free_values == [("N", "2"), ("h", "function h"), ("h/M", "1")]
    assert [file.endswith(".py") for file, _ in found.sources] == [True]
    assert not found.unresolved


def test_a_difference_is_told_by_its_label(source: Source) -> None:
    after = source.take(BASE, N=8)
    assert differences(source.take(BASE).parts, after.parts) == ["N: 2 -> 8"]


def test_two_functions_cannot_hide_in_each_other(source: Source) -> None:
    """A helper's value moved to the kernel is another kernel, though the same texts are counted."""
    one = source.take("def h(a):\n    return a\nN = 1\ndef k(x):\n    x[0] = h(N)\n")
    two = source.take("def h(a):\n    return N\nN = 1\ndef k(x):\n    x[0] = h(a)\na = 1\n")
    assert one.digest != two.digest


class Level(enum.Enum):
    LOW = 1
    HIGH = 2


class Packed:
    __slots__ = ("n",)

    def __init__(self, n: int) -> None:
        self.n = n


VALUES: list[Any] = [
    0, 1, -1, 1.0, 0.0, -0.0, float("inf"), float("nan"), True, False, None, "1", b"1", 1j, 2**70, (1,), (1, 1),
    ((1,), 1), [1], {1: 2}, {2: 1}, {1}, frozenset({2}), Level.LOW, Level.HIGH, Level, int, float, len, range,
    float32, float64,
    float32[::1], float32[:, ::1], np.float32(1), np.float64(1), np.int32(1), np.int64(1), np.bool_(True), np.uint8(1),
    np.complex64(1), np.datetime64("2020-01-01"), np.datetime64("2020-01-01", "s"),
    np.float32, np.float64, np.dtype("f4"), np.dtype("f8"), np.dtype(">f4"), np.dtype([("a", "f4"), ("b", "i4")]),
    np.dtype([("a", "f4"), ("c", "i4")]), np.dtype([("a", "f4"), ("b", "i8")]),
    np.dtype([("a", "f4"), ("b", "i8")], align=True), np.dtype([("a", "f4", (2,))]), np.dtype([("a", "f4", (3,))]),
    np.arange(3), np.arange(3, dtype="f4"), np.arange(4, dtype="f4"), np.zeros((2, 3)), np.zeros((3, 2)), np.zeros(6),
    np.arange(6).reshape(2, 3), np.arange(6).reshape(2, 3, order="F"), np.sin, np.add, np.clip, object,
    SimpleNamespace(),
]  # fmt: skip


def test_every_value_differs_from_every_other_and_not_from_itself(source: Source) -> None:
    module = source.load("def k(x):\n    x[0] = N\n")
    seen: dict[bytes, int] = {}
    for number, value in enumerate(VALUES):
        module.N = value
        digest = compute_fingerprint(KernelDefinition(module.k), ()).digest
        assert digest not in seen, f"{value!r} and {VALUES[seen[digest]]!r}"
        seen[digest] = number
    for value, digest in zip(VALUES, seen, strict=True):
        module.N = value.copy(order="F") if isinstance(value, np.ndarray) else value
        assert compute_fingerprint(KernelDefinition(module.k), ()).digest == digest


def test_flags_together_are_named_as_apart() -> None:
    from subject import FLAGS

    assert [describe_value(value) for value in FLAGS] == [
        "enum Parts.ONE|FOUR=5", "enum Parts.BOTH=3", "enum Parts.None=0", "int enum Bits.ONE|TWO=3",
        "int enum Bits.None=0", "int enum Bits.64=64", "int enum Bits.ONE|64=65",
    ]  # fmt: skip


def test_equal_arrays_with_other_strides_are_one_value(source: Source) -> None:
    module = source.load("def k(x):\n    x[0] = N[0]\n")
    whole = np.arange(12.0)
    digests = set()
    for module.N in (whole[::2], whole[::2].copy(), np.ascontiguousarray(whole[::2])):
        digests.add(compute_fingerprint(KernelDefinition(module.k), ()).digest)
    assert len(digests) == 1


@pytest.mark.parametrize(
    "value",
    [object(), SimpleNamespace(a=1), np.array([object()]), ModuleType, Source, eval("lambda: 0")],
    ids=["object", "namespace", "array of objects", "class of modules", "class", "lambda"],
)
def test_what_a_kernel_cannot_use_is_recorded(source: Source, value: Any) -> None:
    found = source.take("def k(x):\n    x[0] = N\n", N=value)
    if isinstance(value, type):  # a class may be called or asked for a constant: known by its name
        assert not found.unresolved
    else:
        assert [label for label, _ in found.unresolved] == ["N"]


def test_a_missing_name_is_recorded(source: Source) -> None:
    assert source.take("def k(x):\n    x[0] = missing.thing\n").unresolved == (("missing", "missing"),)
    found = source.take("import math\ndef k(x):\n    x[0] = math.nothing.at_all\n")
    assert found.unresolved == (("math.nothing", "missing"),)


CHAINS = """
import math, os.path, types
from cudabuild import cuda
class C:
    A = 1
    class D:
        B = 2
    @property
    def p(self):
        raise RuntimeError
    @staticmethod
    def f(a):
        return a
space = types.SimpleNamespace(n=5, deep=types.SimpleNamespace(m=6))
one = C()
def k(x):
    x[cuda.threadIdx.x] = C.A + C.D.B + space.n + space.deep.m + one.A + C.f(1) + math.pi + cuda.atomic.add(x, 0, 1)
    x[0] = one.p
"""


def test_dotted_names_are_followed_to_their_values(source: Source) -> None:
    found = source.take(CHAINS)
    parts = dict(found.free_values)
    expected = {
        "C.A": "1", "C.D.B": "2", "C.f": "function C.f", "space.n": "5", "space.deep.m": "6", "one.A": "1",
        "math.pi": "3.141592653589793", "cuda.threadIdx": "cuda.threadIdx", "cuda.atomic.add": "cuda.atomic.add",
        "one.p": "missing",
    }  # fmt: skip
    assert parts == expected


def test_locals_of_every_kind_are_not_free(source: Source) -> None:
    found = source.take("""
def k(a, b, *c, d, **e):
    import os as f
    from os import path as g
    for h in a: pass
    with b as (i, j): pass
    try: pass
    except ValueError as l: pass
    def m(n): return n + m + z
    o = [p for q in a for p in q if p]
    (r := 1)
    s: int
    t, *u = a
    match a:
        case {"key": v, **w}: pass
    class y: pass
    return [a, b, c, d, e, f, g, h, i, j, l, m, o, r, s, t, u, v, w, y] + p + q
""")
    assert [label for label, _ in found.free_values] == ["ValueError", "p", "q", "z"]


def test_closures_of_one_function_differ_by_what_they_hold(source: Source) -> None:
    module = source.load("def make(c):\n    def k(x):\n        x[0] = c\n    return k\n")
    digests = [compute_fingerprint(KernelDefinition(module.make(c)), ()).digest for c in (1, 2, 1)]
    assert digests[0] == digests[2] != digests[1]


def test_helpers_are_followed_across_modules_and_through_tables(source: Source, tmp_path: Path) -> None:
    helper = "M = 1\ndef deep(a):\n    return a + M\ndef other(a):\n    return a\n"
    source.load(helper, "meaning_helper")
    text = "import meaning_helper\nT = (meaning_helper.other, meaning_helper.deep)\ndef k(x):\n    x[0] = T[1](x[1])\n"
    before = source.take(text)
    assert {Path(file).name for file, _ in before.sources} >= {"meaning_helper.py"}
    assert len(before.sources) == 2
    source.load(helper.replace("M = 1", "M = 2"), "meaning_helper")
    assert differences(before.parts, source.take(text).parts) == ["T[2]/M: 1 -> 2"]
    source.load(helper, "meaning_helper")
    assert source.take(text).digest == before.digest
    swapped = source.take(text.replace("(meaning_helper.other, meaning_helper.deep)", "(meaning_helper.deep,) * 2"))
    assert swapped.digest != before.digest


def test_decorated_helpers_count_with_their_options(source: Source) -> None:
    text = """
from cudabuild.definition import KernelDefinition, Options
class Wrapped:
    def __init__(self, definition): self.definition = definition
def plain(a): return a
h = Wrapped(KernelDefinition(plain, options=Options(OPTIONS), is_device=True))
def k(x): x[0] = h(1)
"""
    exact = source.take(text.replace("OPTIONS)", "{})"))
    fast = source.take(text.replace("OPTIONS)", "{'fastmath': True})"))
    assert differences(exact.parts, fast.parts) == ["h: function h -> function h fastmath=True"]
    slower = source.take(text.replace("OPTIONS)", "{'opt': 0})"))
    assert slower.digest == exact.digest


def test_objects_with_py_func_are_device_functions(source: Source) -> None:
    text = "class W: pass\ndef f(a): return a\nh = W()\nh.py_func = f\ndef k(x): x[0] = h(1)\n"
    assert ("h/(code)" in dict(source.take(text).parts)) is True


def test_numpys_own_functions_are_known_by_name(source: Source) -> None:
    found = source.take("import numpy as np\ndef k(x): x[0] = np.linspace(x[0]) + np.clip(1, 2, 3)\n")
    assert [label for label, _ in found.free_values] == ["np.clip", "np.linspace"]
    assert not found.unresolved


def test_each_option_that_changes_results_is_a_part(source: Source) -> None:
    module = source.load("def k(x): x[0] = 1\n")
    definition = KernelDefinition(module.k)
    other = {"fastmath": True, "fma": False, "literals": "numba", "opt": 0, "lineinfo": True, "max_registers": 32,
             "launch_bounds": 128, "debug": True}  # fmt: skip
    assert set(other) == {spec.name for spec in OPTIONS}, "a new option needs a value here"
    base = compute_fingerprint(definition, ())
    for spec in OPTIONS:
        changed = compute_fingerprint(definition, (), Options({spec.name: other[spec.name]}))
        assert (changed.digest != base.digest) is spec.changes_results, spec.name
        if spec.changes_results:
            labels = [line.split(":")[0] for line in differences(base.parts, changed.parts)]
            assert labels == [f"(option {spec.name})", *(["(source file)"] if spec.name == "debug" else [])]


def test_the_lines_of_a_debug_kernel_are_a_part(source: Source) -> None:
    """They are in its exception table; without debug, a comment above a kernel changes nothing."""
    for debug in (False, True):
        options = Options({"debug": debug})
        prints = []
        for text in ("def k(x): x[0] = 1\n", "# moved\ndef k(x): x[0] = 1\n"):
            prints.append(compute_fingerprint(KernelDefinition(source.load(text).k), (), options).digest)
        assert (prints[0] != prints[1]) is debug


def test_the_signature_is_a_part(source: Source) -> None:
    module = source.load("def k(x): x[0] = 1\n")
    definition = KernelDefinition(module.k)
    signatures = [(float32[::1],), (float64[::1],), (float32[:],), (float32[:, ::1],), (float32,)]
    assert len({compute_fingerprint(definition, signature).digest for signature in signatures}) == len(signatures)


def test_a_kernel_without_source_is_an_error(source: Source) -> None:
    namespace: dict[str, Any] = {}
    eval(compile("def k(x): x[0] = 1", "<nowhere>", "exec"), namespace)
    with pytest.raises(SourceError):
        compute_fingerprint(KernelDefinition(namespace["k"]), ())
    with pytest.raises(SourceError, match="not a Python function"):
        compute_fingerprint(KernelDefinition(len), ())  # type: ignore[arg-type]


def test_a_helper_without_source_is_recorded(source: Source) -> None:
    namespace: dict[str, Any] = {}
    eval(compile("def h(x): return 1", "<nowhere>", "exec"), namespace)
    found = source.take("def k(x): x[0] = h(1)\n", h=namespace["h"])
    assert found.unresolved[0][0] == "h"


def test_a_reloaded_module_is_read_again(source: Source) -> None:
    module = source.load("def k(x): x[0] = 1\n", "meaning_reload")
    before = compute_fingerprint(KernelDefinition(module.k), ())
    (source.folder / "meaning_reload.py").write_text("def k(x): x[0] = 1 + 1\n", "utf-8")
    importlib.invalidate_caches()
    importlib.reload(module)
    assert compute_fingerprint(KernelDefinition(module.k), ()).digest != before.digest


def test_no_property_of_a_users_object_runs(source: Source) -> None:
    text = """
class Proxy:
    definition = property(lambda self: 1 / 0)
    py_func = property(lambda self: 1 / 0)
    N = property(lambda self: 1 / 0)
    def __getattr__(self, name):
        raise ZeroDivisionError
class Slotted(Proxy):
    __slots__ = ()
p = Proxy()
s = Slotted()
def k(x): x[0] = p.N + p.M + s.N
"""
    assert source.take(text).unresolved == (("p.M", "missing"), ("p.N", "missing"), ("s.N", "missing"))


def test_what_a_partial_fixes_counts(source: Source) -> None:
    module = source.load("def k(x):\n    x[0] = f(1)\n\ndef add(a, b=0):\n    return a + b\n")
    digests = set()
    for made in (partial(module.add), partial(module.add, 1), partial(module.add, b=1), partial(module.add, 1)):
        module.f = made
        fingerprint = compute_fingerprint(KernelDefinition(module.k), ())
        assert not fingerprint.unresolved
        assert "f/(code)" in dict(fingerprint.parts)
        digests.add(fingerprint.digest)
    assert len(digests) == 3


def test_defaults_of_a_named_tuple_count(source: Source) -> None:
    """``Point(3)`` in a kernel takes the other field from the class."""
    text = (
        "from collections import namedtuple\nP = namedtuple('P', 'x y', defaults=({},))\ndef k(x):\n    x[0] = P(3).y\n"
    )
    assert source.take(text.format(1)).digest != source.take(text.format(2)).digest


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("'T(T)', T=(int32,)", "'T(T)', T=(float32,)"),
        ("", "literals='weak'"),  # one takes its caller's table, the other has its own
        ("literals='weak'", "literals='numba'"),
    ],
)
def test_decorators_of_device_functions_count(source: Source, one: str, other: str) -> None:
    text = (
        "from cudabuild import device_function, float32, int32\n"
        "@device_function({})\ndef h(a):\n    return a + 1\ndef k(x):\n    x[0] = h(x[1])\n"
    )
    assert source.take(text.format(one)).digest != source.take(text.format(other)).digest
