# SPDX-License-Identifier: Apache-2.0
"""Random kernels as source text, for comparing the compiled forms with Python and NumPy.

Every kernel reads ``ints`` (int32), ``bytes_`` (uint8), ``longs`` (int64), ``singles`` (float32), ``doubles``
(float64), a weak ``n`` and a float32 ``a``, at its own index, and stores into one result array per kind. Values are
small and constants dyadic, so that weak floats computed in float32 or in float64 agree; conditions are on integers,
so that a last bit cannot change the path.
"""

from __future__ import annotations

from hypothesis import strategies as st

__all__ = ["kernels"]

HEADER = """\
from cudabuild import cuda
from cudabuild.types import float32, float64, int32, int64, uint8

def kernel(ints, bytes_, longs, singles, doubles, n, a, out_int, out_long, out_single, out_double):
    i = cuda.grid(1)
    if i < ints.size:
        k = 0
        m = 1
        s = ints[i]
        b = bytes_[i]
        w = longs[i]
        f = singles[i]
        d = doubles[i]
"""
FOOTER = """\
        out_int[i] = s
        out_long[i] = w + k + m + b
        out_single[i] = f
        out_double[i] = d
"""
#: variables that hold weak ints, and typed ones
WEAK = ("k", "m", "i", "n")
TYPED = ("s", "w")
INDENT = "    "

small = st.integers(-7, 7)


def _integer(depth: int) -> st.SearchStrategy[str]:
    leaf = st.sampled_from([*WEAK, *TYPED, "ints[i]", "longs[i]", "ints.size", "ints[-1]"]) | small.map(str)
    if depth == 0:
        return leaf
    inner = _integer(depth - 1)
    return st.one_of(
        leaf,
        st.builds("({} {} {})".format, inner, st.sampled_from(["+", "-", "*", "&", "|", "^"]), inner),
        st.builds("({} {} {})".format, inner, st.sampled_from(["//", "%"]), st.sampled_from(["2", "3", "-4", "7"])),
        st.builds("({} {} {})".format, inner, st.sampled_from(["<<", ">>"]), st.integers(0, 3)),
        st.builds("{}({})".format, st.sampled_from(["-", "~", "abs", "int", "int64"]), inner),
        st.builds("{}({}, {})".format, st.sampled_from(["min", "max"]), inner, inner),
        st.builds("({} if {} else {})".format, inner, _condition(depth - 1), inner),
        st.builds("({})**{}".format, inner, st.integers(0, 2)),
    )


def _condition(depth: int) -> st.SearchStrategy[str]:
    inner = _integer(max(depth - 1, 0))
    compare = st.builds("{} {} {}".format, inner, st.sampled_from(["<", "<=", "==", "!=", ">", ">="]), inner)
    if depth <= 0:
        return compare
    return st.one_of(
        compare,
        st.builds("({}) {} ({})".format, _condition(depth - 1), st.sampled_from(["and", "or"]), _condition(depth - 1)),
        st.builds("not ({})".format, _condition(depth - 1)),
        st.builds("{} < {} <= {}".format, inner, inner, inner),
    )


def _floating(kind: str, depth: int) -> st.SearchStrategy[str]:
    typed = {"f": ["f", "singles[i]", "a"], "d": ["d", "doubles[i]", "f"]}[kind]
    leaf = st.sampled_from(typed)
    if depth == 0:
        return leaf
    inner = _floating(kind, depth - 1)
    weak = st.sampled_from(["0.5", "2.0", "-0.25", "i", "k", "3", "i * 0.5"])
    return st.one_of(
        leaf,
        st.builds("({} {} {})".format, inner, st.sampled_from(["+", "-", "*"]), inner),
        st.builds("({} {} {})".format, weak, st.sampled_from(["+", "-", "*"]), inner),
        st.builds("({} / {})".format, inner, st.sampled_from(["2.0", "4", "-8.0"])),
        st.builds("{}({})".format, st.sampled_from(["-", "abs"]), inner),
        st.builds("({} if {} else {})".format, inner, _condition(0), inner),
        st.builds("({})**2".format, inner),
    )


#: Assignments: the target keeps its type. Integer results are masked where they could outgrow int64.
_assignment = st.one_of(
    st.builds("{} = ({}) % 1000".format, st.sampled_from(["k", "m"]), _integer(2).map(lambda e: f"int({e})")),
    st.builds("{} {}= {}".format, st.sampled_from(["k", "m"]), st.sampled_from(["+", "-"]), small),
    st.builds("s = int32({})".format, _integer(2).map(lambda e: f"int64({e})")),
    st.builds("w = int64({})".format, _integer(2)),
    st.builds("b = uint8(int64({}))".format, _integer(1)),
    st.builds("f = {}".format, _floating("f", 2)),
    st.builds("f {}= {}".format, st.sampled_from(["+", "-", "*"]), _floating("f", 1)),
    st.builds("d = float64({})".format, _floating("d", 2)),
    st.builds("k, m = m, k".format),
)


def _block(depth: int) -> st.SearchStrategy[list[str]]:
    return st.lists(_statement(depth), min_size=1, max_size=4).map(
        lambda parts: [line for part in parts for line in part]
    )


def _nested(head: str, body: list[str]) -> list[str]:
    return [head, *(INDENT + line for line in body)]


def _statement(depth: int) -> st.SearchStrategy[list[str]]:
    simple = _assignment.map(lambda line: [line])
    if depth == 0:
        return simple
    inner = _block(depth - 1)
    branch = st.builds(lambda c, body: _nested(f"if {c}:", body), _condition(1), inner)
    otherwise = st.builds(
        lambda c, body, rest: [*_nested(f"if {c}:", body), *_nested("else:", rest)], _condition(1), inner, inner
    )
    leave = st.builds("if {}: {}".format, _condition(0), st.sampled_from(["break", "continue"])).map(lambda s: [s])
    looped = st.builds(lambda before, jump, after: [*before, *jump, *after], inner, leave | st.just([]), inner)
    bounds = st.sampled_from(["3", "n", "1, 4", "5, 0, -2", "0, n, 2", "i % 3, 6, 2"])
    loop = st.builds(
        lambda name, b, body: _nested(f"for {name} in range({b}):", body), st.sampled_from("pq"), bounds, looped
    )
    return st.one_of(simple, branch, otherwise, loop)


kernels = _block(2).map(lambda lines: HEADER + "".join(f"{INDENT * 2}{line}\n" for line in lines) + FOOTER)
