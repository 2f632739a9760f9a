# SPDX-License-Identifier: Apache-2.0
"""Random modules: whatever a slice freezes is what running the whole module gives, or the kernel is left to JIT."""

from __future__ import annotations

import tempfile
from pathlib import Path

from build_helpers import Found, read_project
from hypothesis import given, settings
from hypothesis import strategies as st

from cudabuild.fingerprint import compute_fingerprint

LISTS, NUMBERS, FUNCTIONS, OBJECTS = "ABC", "mn", "fg", "xy"

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
)  # fmt: skip

HEAD = """\
import contextlib
import cudabuild as cb
A, B, C = [1], [2], [3]
m, n = 1, 2
ALL, REGISTRY = [A], {}
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
class Holder:
    SIZE = 1
    def __init__(self, held):
        self.held = held
    def put(self, i):
        self.held.append(i)
    def grow(self):
        type(self).SIZE += 1
    @property
    def total(self):
        self.held.append(0)
        return len(self.held)
x, y = Holder(A), Holder(B)
"""

TAIL = """
a, b, c, size = tuple(A), tuple(B), tuple(C), Holder.SIZE
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
    p[0] = size
"""


@st.composite
def modules(draw: st.DrawFn) -> str:
    lines = []
    for template in draw(st.lists(st.sampled_from(TEMPLATES), min_size=1, max_size=14)):
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
        lines.append(template.format(**pick))
    return HEAD + "\n".join(lines) + TAIL


@settings(max_examples=150, deadline=None)
@given(modules())
def test_a_slice_is_right_or_it_is_missing(text: str) -> None:
    scope: dict[str, object] = {"__name__": "whole"}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.py"
        path.write_text(text, encoding="utf-8")
        try:
            exec(compile(text, str(path), "exec"), scope)
        except (TypeError, AttributeError, IndexError, RecursionError, KeyError):
            return  # the module itself is wrong: nobody can import it
        found = Found(read_project(Path(folder)))
        for name in ("k1", "k2", "k3", "k4"):
            kernel = found.kernels[f"m:{name}"]
            if kernel.left is not None:
                continue
            assert kernel.definition is not None
            whole = scope[name].definition  # type: ignore[attr-defined]
            signature = whole.signatures[0]
            sliced = compute_fingerprint(kernel.definition, signature).free_values
            assert sliced == compute_fingerprint(whole, signature).free_values


def test_the_templates_hold_what_can_go_wrong() -> None:
    found = []
    for template in TEMPLATES:
        text = template.format(L="A", L2="B", n="m", n2="n", f="f", f2="g", o="x", o2="y", i=2)
        try:
            exec(compile(HEAD + text + TAIL, "m", "exec"), {"__name__": "whole"})
        except (TypeError, AttributeError, IndexError):
            continue
        found.append(template)
    assert found == list(TEMPLATES)
