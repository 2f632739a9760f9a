# SPDX-License-Identifier: Apache-2.0
"""Random modules: whatever a slice freezes is what running the whole module gives, or the kernel is left to JIT."""

from __future__ import annotations

import importlib
import random
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from build_helpers import Found
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cudabuild.build.project import ModuleFile, Project
from cudabuild.fingerprint import compute_fingerprint

LISTS, NUMBERS, FUNCTIONS, OBJECTS = "ABCD", "mn", "fg", "xy"

#: Statements over a few names. Every name is bound from the start, so each can come anywhere.
TEMPLATES = (
    "{L} = [{i}]",
    "{L} = {L2}",
    "{L} = {L2} + [{n}]",
    "{L} += [{i}]",
    "{L}.append({n})",
    "{L}.extend({L2})",
    "{L}[0:1] = [{i}]",
    "{L}, {n} = [{i}], {i}",
    "del {L}[:1]",
    "{n} = {n2} + {i}",
    "{n} += {i}",
    "{n} = len({L})",
    "({n} := {i})",
    "for _q in range({i}):\n    {L}.append(_q)",
    "for _r in [{L}, {L2}]:\n    _r.append({i})",
    "if len({L}) % 2:\n    {n} = {i}\nelse:\n    {L2}.append({n})",
    "if {n} > {i}:\n    def {f}(t):\n        t.append({i})\n        return t",
    "try:\n    {n} = {L}[{i}]\nexcept IndexError:\n    {L2}.append({i})",
    "with contextlib.suppress(IndexError):\n    {n} = {L}[{i}]",
    "def {f}(t):\n    global {n}\n    {n} += {i}\n    t.append({n})\n    return {L}",
    "def {f}(t):\n    s = {L}\n    s.append(len(t))\n    return s",
    "def {f}(t):\n    return {f2}_0(t)",
    "{f} = lambda t: {L}.append({i}) or t",
    "{f}_0 = {f2}_0",
    "{f}({L})",
    "{L} = list({f}({L2}))",
    "{n} = len({f}({L}))",
    "list(map({L}.append, [{i}]))",
    "_a = {L}.append\n_a({i})",
    "_g = ({L}.append(_i) for _i in range({i}))\nlist(_g)",
    "[{L}.append(_i) for _i in range({i})]",
    "{o} = Holder({L})",
    "{o} = {o2}",
    "{o}.held.append({i})",
    "{o}.put({i})",
    "{o}.held = {L}",
    "Holder.SIZE = {i}",
    "Holder.SIZE += {n}",
    "{n} = {o}.SIZE + Holder.SIZE",
    "{o}.grow()",
    "{n} = {o}.total",
    "globals()['{n}'] = {i}",
    "ALL.append({L})",
    "ALL[-1].append({i})",
    "REGISTRY['{f}'] = {f}",
    "REGISTRY.get('{f}', len)({L})",
    "@register\ndef {f}(t):\n    {L}.append({i})\n    return t",
    "unrelated = undefined_here.{f} if False else 0",
    # More of the language.
    "match [{i}, {n}]:\n    case [{n2}, *_rest] if _rest:\n        {L}.extend(_rest)\n    case _:\n        {n} = {i}",
    "[{n} := _w for _w in {L}[:{i}]]",
    "{n} = sum(_v for _v in {L} if (_last := _v))",
    "try:\n    {L}.remove({n})\nexcept ValueError:\n    {n} = {i}\nelse:\n    {L2}.append({i})\nfinally:\n    {L} *= 2",
    "{L}, *{L2} = [[{i}], {n}, {n2}]",
    "{L}, {L2} = {L2}, {L}",
    "del {n}\n{n} = {i}",
    "while len({L}) < {i}:\n    {L}.insert(0, {n})",
    "for {n} in {L}[:{i}]:\n    pass",
    "for _i, {L}[-1] in enumerate({L2}[:{i}]):\n    {n} += _i",
    "{L}[:] = sorted({L2}, key=lambda _v: -_v)",
    "{L}.sort(key={L2}.append)",
    "counter = make_counter({L})\ncounter()\n{n} = counter()",
    "{f} = make_adder({L}, {i})",
    "{f} = functools.partial({f2}_0)",
    "{n} = cached({n2})",
    "{n} = functools.reduce(lambda a, b: {L}.append(b) or a + 1, {L2}[:3], {i})",
    "DATA.update({f}={L})",
    "DATA.setdefault('{f}', []).append({i})",
    "{L} = DATA.get('{f}', {L2})",
    "DATA['{f}'], {n} = {L}, {i}",
    "for _key, _list in DATA.items():\n    _list.append({i})",
    "{n} = Child.SIZE + Child.count()",
    "Child.SIZE = {i}",
    "setattr(Holder, 'SIZE', {i})",
    "class Child(Holder):\n    SIZE = Holder.SIZE + {i}",
    "class Grand(Child):\n    pass\n{n} = Grand.made",
    "Holder.put = lambda self, i: self.held.append(i + {i})",
    "{o} = Child({L})",
    "{o}, {n} = Holder({L}[:{i}]), {n2}",
    "{o} += {i}",
    "{n} = {o}[{i}]",
    "for _e in {o}:\n    {n} += 1",
    "with {o} as {L}:\n    {L}.append({i})",
    "{n} = int({o} == {o2})",
    "exec('{n} = {i}')",
    "{n} = eval('{n2} + len({L})')",
    "threading.Thread(target={L}.append, args=({i},)).run()",
    "{L} = copy.copy({L2})",
    "{L} = list(itertools.accumulate({L2}[:3], lambda a, b: {L}.append(a) or b))",
    "{n} = RECORD.width\nRECORD.taps.append({n2})",
    "RECORD = Record(taps={L})",
    "{L} = RECORD.taps",
    "{n} = TABLE[0]\nTABLE[{i}:] = {n2}",
    "VIEW[0] = {i}\n{n} = int(TABLE[1])",
    "np.copyto(TABLE, {i})",
    "{n} = int(TABLE.sum())",
    "globals().setdefault('{n}', {i})",
    "def {f}(t, seen={L}):\n    seen.append({i})\n    return seen",
    "if ({L}.append({i}) or {n}) and {L2}.pop({i} % len({L2})):\n    {n} += 1",
    "assert {L}.append({i}) is None",
    "{n} = [{i}, {n2}][bool({o})]",
    "f'{{{o}}}'",
    # Another module.
    "h.u = {i}",
    "{n} = h.u",
    "h.P.append({i})",
    "{L} = h.P",
    "h.P = {L}",
    "{n} = len(h.hf({L}))",
    "setattr(h, 'u', {i})",
    "vars(h)['u'] = {n}",
    "from h import u as {n}",
    "from h import P as {L}",
    "h.hf = {f}",
    "h.Shared.value += {i}",
    "{n} = h.Shared.value",
    # What is not there when a wheel is built.
    "missing_thing.change({L})",
    "{n} = missing_thing.number",
    "unrelated = missing_thing.change([{i}])",
    "try:\n    {n} = missing_thing.number\nexcept ImportError:\n    {n} = {i}",
    "@missing_thing.decorate\ndef {f}(t):\n    return t",
)  # fmt: skip

#: Statements of the other module.
H_TEMPLATES = (
    "P.append({i})",
    "Q.extend(P)",
    "u += {i}",
    "u = len(Q)",
    "P = Q",
    "def hf(t):\n    global u\n    u += len(t)\n    return t",
    "def hf(t):\n    Q.append({i})\n    return Q",
    "Shared.value = u",
    "class Shared:\n    value = {i}",
    "import m\nm.A.append({i})",
    "import m\nm.n = {i}",
    "import m\nm.B = [m.n]",
    "import m\nu = eval('m.n + {i}')",
    "from m import A\nP = A",
    "import missing_thing\nmissing_thing.change(P)",
    "import missing_thing\nunrelated = missing_thing.number",
    "for u in range({i}):\n    P.append(u)",
)

HEAD = """\
import contextlib, copy, functools, itertools, threading
import dataclasses
import missing_thing
import numpy as np
import cudabuild as cb
A, B, C = [1], [2], [3]
m, n = 1, 2
import h
from h import Q as D
ALL, REGISTRY, DATA = [A], {}, {"f": B, "g": C}
TABLE = np.zeros(4)
VIEW = TABLE[1:]
def f(t):
    return t
def g(t):
    return t
def f_0(t):
    return t
def g_0(t):
    return t
def register(h):
    ALL.append([len(REGISTRY)])
    REGISTRY[h.__name__] = h
    return h
def make_counter(t):
    count = 0
    def step():
        nonlocal count
        count += 1
        t.append(count)
        return count
    return step
def make_adder(t, i):
    def add(other):
        t.append(i)
        return t
    return add
@functools.lru_cache
def cached(i):
    ALL[0].append(i)
    return i + len(A)
class Holder:
    SIZE = 1
    made = 0
    def __init_subclass__(cls):
        cls.made = len(ALL)
        Holder.SIZE += 1
    def __init__(self, held):
        self.held = held
    def put(self, i):
        self.held.append(i)
    def grow(self):
        type(self).SIZE += 1
    def __iadd__(self, i):
        self.held.append(i)
        return self
    def __getitem__(self, i):
        self.held.append(i)
        return i
    def __iter__(self):
        self.held.append(0)
        return iter((1, 2))
    def __enter__(self):
        return self.held
    def __exit__(self, *error):
        self.held.append(7)
    def __eq__(self, other):
        self.held.append(8)
        return True
    def __bool__(self):
        self.held.append(9)
        return True
    def __format__(self, spec):
        self.held.append(6)
        return ""
    @classmethod
    def count(cls):
        ALL.append([cls.SIZE])
        return len(ALL)
    @property
    def total(self):
        self.held.append(0)
        return len(self.held)
class Child(Holder):
    pass
@dataclasses.dataclass
class Record:
    width: int = 3
    taps: list = dataclasses.field(default_factory=lambda: [len(A)])
    def __post_init__(self):
        self.width += len(self.taps)
RECORD = Record()
x, y = Holder(A), Holder(B)
"""

H_HEAD = """\
P, Q = [10], [20]
u = 5
def hf(t):
    P.append(len(t))
    return P
class Shared:
    value = 4
"""

TAIL = """
a, b, c, d, size = tuple(A), tuple(B), tuple(C), tuple(D), (Holder.SIZE, Child.SIZE)
hp = tuple(h.P)
table = tuple(map(int, TABLE))
@cb.kernel("float32[::1]")
def k1(p):
    p[0] = a[0]
@cb.kernel("float32[::1]")
def k2(p):
    p[0] = b[0] + n
@cb.kernel("float32[::1]")
def k3(p):
    p[0] = c[0] + m
@cb.kernel("float32[::1]")
def k4(p):
    p[0] = size[0]
@cb.kernel("float32[::1]")
def k5(p):
    p[0] = hp[0] + h.u + h.Shared.value
@cb.kernel("float32[::1]")
def k6(p):
    p[0] = d[0] + table[0]
"""

MISSING = """\
number = 40
def change(t):
    t.append(99)
    return t
def decorate(f):
    return lambda t: change(t)
"""

#: What a random module may raise by itself: then nobody can import it.
WRONG = (
    TypeError, AttributeError, IndexError, RecursionError, KeyError, ValueError, NameError, StopIteration, ImportError,
    AssertionError, ArithmeticError,
)  # fmt: skip


@st.composite
def modules(draw: st.DrawFn) -> tuple[str, str]:
    """Two modules, the second imported by the first."""

    def lines(templates: tuple[str, ...], most: int, least: int) -> list[str]:
        found = []
        for template in draw(st.lists(st.sampled_from(templates), min_size=least, max_size=most)):
            pick = {
                "L": draw(st.sampled_from(LISTS)),
                "L2": draw(st.sampled_from(LISTS)),
                "n": draw(st.sampled_from(NUMBERS)),
                "n2": draw(st.sampled_from(NUMBERS)),
                "f": draw(st.sampled_from(FUNCTIONS)),
                "f2": draw(st.sampled_from(FUNCTIONS)),
                "o": draw(st.sampled_from(OBJECTS)),
                "o2": draw(st.sampled_from(OBJECTS)),
                "i": draw(st.integers(1, 3)),
            }
            found.append(template.format(**pick))
        return found

    return (
        HEAD + "\n".join(lines(TEMPLATES, 14, 1)) + TAIL,
        H_HEAD + "\n".join(lines(H_TEMPLATES, 3, 0)) + "\n",
    )


def import_whole(folder: Path) -> dict[str, object] | None:
    """The names of ``m``, really imported with what is missing there; None where it cannot be imported."""
    names = ("m", "h", "missing_thing")
    sys.path[:0] = [str(folder), str(folder / "there")]
    importlib.invalidate_caches()
    try:
        return vars(importlib.import_module("m"))
    except WRONG:
        return None
    finally:
        del sys.path[:2]
        for name in names:
            sys.modules.pop(name, None)


def write_modules(folder: Path, texts: tuple[str, str]) -> None:
    (folder / "there").mkdir()
    for name, text in (("m", texts[0]), ("h", texts[1]), ("there/missing_thing", MISSING)):
        (folder / f"{name}.py").write_text(text, encoding="utf-8")


def find_wrong(texts: tuple[str, str]) -> tuple[int, int, list[str]]:
    """How many kernels are right and how many are left to JIT, and which have values that an import does not give."""
    right, left, wrong = 0, 0, []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_modules(folder, texts)
        whole = import_whole(folder)
        if whole is None:
            return 0, 0, []
        files = {name: ModuleFile(name, str(folder / f"{name}.py"), False) for name in ("m", "h")}
        found = Found(Project(str(folder), files))
        for name in KERNELS:
            kernel = found.kernels[f"m:{name}"]
            if kernel.left is not None:
                left += 1
                continue
            assert kernel.definition is not None
            definition = whole[name].definition  # type: ignore[attr-defined]
            signature = definition.signatures[0]
            sliced = compute_fingerprint(kernel.definition, signature).free_values
            if sliced == compute_fingerprint(definition, signature).free_values:
                right += 1
            else:
                wrong.append(f"{name}: {sliced} is not {compute_fingerprint(definition, signature).free_values}")
    return right, left, wrong


KERNELS = ("k1", "k2", "k3", "k4", "k5", "k6")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(modules())
def test_a_slice_is_right_or_it_is_missing(texts: tuple[str, str]) -> None:
    assert find_wrong(texts)[2] == []


@pytest.mark.parametrize("place", ["m", "h"])
def test_the_templates_hold_what_can_go_wrong(place: str) -> None:
    """Each template runs by itself: a module of it alone can be imported, and its slice is right or missing."""
    pick = {"L": "A", "L2": "B", "n": "m", "n2": "n", "f": "f", "f2": "g", "o": "x", "o2": "y", "i": 2}
    failed = []
    for template in TEMPLATES if place == "m" else H_TEMPLATES:
        text = template.format(**pick) + "\n"
        texts = (HEAD + (text if place == "m" else "") + TAIL, H_HEAD + (text if place == "h" else ""))
        right, left, wrong = find_wrong(texts)
        if wrong or not right + left:
            failed.append((template, wrong))
    assert failed == []


def test_most_kernels_are_built() -> None:
    """A slice that left all to JIT would be right, and of no use."""
    right, left, wrong = find_wrong((HEAD + "A.append(m)\nunrelated = missing_thing.change([1])\n" + TAIL, H_HEAD))
    assert (right, left, wrong) == (len(KERNELS), 0, [])


def draw_lines(generator: random.Random, templates: Sequence[str], least: int, most: int) -> str:
    names = {"L": LISTS, "L2": LISTS, "n": NUMBERS, "n2": NUMBERS, "f": FUNCTIONS, "f2": FUNCTIONS, "o": OBJECTS}
    found = []
    for template in generator.choices(templates, k=generator.randint(least, most)):
        pick = {key: generator.choice(value) for key, value in {**names, "o2": OBJECTS}.items()}
        found.append(template.format(**pick, i=generator.randint(1, 3)))
    return "\n".join(found)


def main(arguments: Sequence[str]) -> int:
    """``python test_slice_property.py COUNT [SEED]``: that many random modules, faster than hypothesis draws them."""
    count, seed = int(arguments[0]), int(arguments[1]) if len(arguments) > 1 else 0
    generator = random.Random(seed)
    right, left, alone, failed = 0, 0, 0, 0
    for _ in range(count):
        texts = (
            HEAD + draw_lines(generator, TEMPLATES, 1, 14) + TAIL,
            H_HEAD + draw_lines(generator, H_TEMPLATES, 0, 3) + "\n",
        )
        more_right, more_left, wrong = find_wrong(texts)
        right, left, alone = right + more_right, left + more_left, alone + (not more_right + more_left)
        if wrong:
            failed += 1
            print("\n".join([*wrong, "--- m", texts[0], "--- h", texts[1]]), flush=True)
    print(f"{count} modules, {alone} wrong by themselves; {right} kernels right, {left} left to JIT, {failed} wrong")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
