# SPDX-License-Identifier: Apache-2.0
"""The signature file: what is read, what is wrong with it and where, and what adding to it leaves alone."""

from __future__ import annotations

import os
import random
import string
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cudabuild.errors import SettingError
from cudabuild.recording import RecordedKernel, merge_kernels, parse_table, read_signatures
from cudabuild.recording.parts import PARTS, complete_records, format_record
from cudabuild.recording.read import parse_text
from cudabuild.recording.write import add_to_text, format_kernel, write_signatures

FILE = """\
# Ours.
schema = 1

# The blur: three planes.
[[kernel]]
name = "mypkg.image:blur"
signatures = [
    "float32[:, ::1], float32[:, ::1], int64",  # what the camera gives
]

[[kernel]]
name = "mypkg.filters:make.<locals>.apply"
signatures = ["float32[::1]"]
dialect = "numba"
options = { literals = "numba", launch_bounds = [128, 2], max_registers = "none" }
line = 41
code = "5f0e3a9c12b47d80"
captured.taps = { array = "<f4", shape = [3], values = [0.25, 0.5, 0.25] }
captured.n = 4
"""


def test_what_a_file_says() -> None:
    blur, apply = parse_text(FILE, "s.toml")
    assert (blur.module, blur.qualname, blur.dialect) == ("mypkg.image", "blur", "cudabuild")
    assert blur.signatures == ("float32[:, ::1], float32[:, ::1], int64",)
    assert (blur.where, apply.where) == ("s.toml:5", "s.toml:11")
    assert not blur.is_local
    assert apply.is_local
    assert dict(apply.options) == {"literals": "numba", "launch_bounds": (128, 2), "max_registers": None}
    assert apply.written_options.written == {"literals", "launch_bounds", "max_registers"}
    assert apply.captured["n"] == 4
    assert (apply.line, apply.code) == (41, "5f0e3a9c12b47d80")


def test_signatures_are_canonical() -> None:
    (kernel,) = parse_text('[[kernel]]\nname = "m:k"\nsignatures = ["void(f4, f4[:])", "f4,float32[:]"]', "s.toml")
    assert kernel.signatures == ("float32, float32[:]",)


def test_a_table_of_pyproject() -> None:
    one, two = parse_table({"m:k": "f4[::1]", "m.n:C.k": ["int64", "int32"]}, "[tool.cudabuild.signatures]")
    assert (one.name, one.signatures) == ("m:k", ("float32[::1]",))
    assert (two.qualname, two.signatures) == ("C.k", ("int64", "int32"))


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (
            '"float32[::1]"',
            '"flt32[::1]"',
            "s.toml:13: bad signatures\nbad signature\n  flt32[::1]\n  ^\n  found:    'flt32'",
        ),
        (
            "mypkg.image:blur",
            "mypkg.image.blur",
            "s.toml:6: bad name\n  found:    'mypkg.image.blur'\n"
            "  expected: module:name of a kernel, such as 'mypkg.filters:blur'\n"
            "  do:       did you mean 'mypkg.image:blur'?",
        ),
        ("line = 41", "line = -1", "s.toml:16: bad line\n  found:    -1\n  expected: a line's number"),
        ("line = 41", "lin = 41", "s.toml:16: bad lin\n  found:    an unknown key\n  expected: name, signatures,"),
        ('"5f0e3a9c12b47d80"', '"xyz"', "s.toml:17: bad code\n  found:    'xyz'\n  expected: hexadecimal digits"),
        ('"numba"\n', '"cuda"\n', "s.toml:14: bad dialect\n  found:    'cuda'\n  expected: 'cudabuild' or 'numba'"),
        ("max_registers", "max_regs", "s.toml:15: bad options.max_regs\n  found:    an unknown key"),
        ("[128, 2]", '"many"', "s.toml:15: bad options.launch_bounds\n  found:    'many'\n  expected: int, a tuple"),
        ("captured.n = 4", "captured.n = { thing = 4 }", "s.toml:19: bad captured.n\n  found:    {'thing': 4}"),
        (
            "captured.n = 4",
            "captured.n = { complex = [1.0] }",
            "s.toml:19: bad captured.n\n  found:    complex = [1.0]\n  expected: the real and the imaginary part",
        ),
        (
            "captured.n = 4",
            'captured.n = { tuple = [{ object = "numpy" }] }',
            "s.toml:19: bad captured.n\n  found:    object = 'numpy'\n  expected: module:qualname",
        ),
        (
            "captured.n = 4",
            "captured.n = { type = 'f4', x = 1 }",
            "s.toml:19: bad captured.n\n  found:    x beside type",
        ),
        (
            'signatures = ["float32[::1]"]',
            "signatures = 4",
            "s.toml:13: bad signatures\n  found:    4\n  expected: a list",
        ),
        (
            'name = "mypkg.image:blur"\n',
            "",
            "s.toml:5: bad name\n  found:    nothing\n  expected: every [[kernel]] has a",
        ),
        ("schema = 1", "schema = 2", "s.toml: bad schema\n  found:    2\n  expected: 1, the newest"),
        ("schema = 1", "kernels = 1", "s.toml: bad kernels\n  found:    an unknown key"),
        ("schema = 1", "schema = ", "the signature file s.toml is not TOML: Invalid value (at line 2, column 10)"),
    ],
)
def test_errors_name_file_line_and_key(before: str, after: str, message: str) -> None:
    assert before in FILE
    with pytest.raises(SettingError) as caught:
        parse_text(FILE.replace(before, after, 1), "s.toml")
    assert str(caught.value).startswith(message)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(SettingError) as caught:
        read_signatures(tmp_path / "s.toml")
    assert str(caught.value).startswith(f"no signature file\n  found:    nothing at {tmp_path}")
    assert "do:       cudabuild record --out" in str(caught.value)


# adding


def kernel(name: str, *signatures: str, **more: Any) -> RecordedKernel:
    module, _, qualname = name.partition(":")
    return RecordedKernel(module, qualname, signatures, **more)


def test_adding_changes_nothing_that_stands_there() -> None:
    apply = parse_text(FILE, "s.toml")[1].with_signatures(["float64[::1]"])
    more = [
        apply,
        kernel("mypkg.image:blur", "int64"),
        kernel("mypkg.image:sharpen", "int8"),
        kernel("a:first", "int8"),
    ]
    text = add_to_text(FILE, "s.toml", more)
    left = iter(text.splitlines())
    for line in FILE.splitlines():
        if line.startswith('signatures = ["'):  # on one line: it is broken after the bracket
            assert "signatures = [" in left
            assert '    "float64[::1]",' in left
            assert '    "float32[::1]"]' in left
        else:
            assert line in left, line
    assert '    "float32[:, ::1], float32[:, ::1], int64",  # what the camera gives\n    "int64",\n]' in text
    assert merge_kernels(parse_text(text, "s.toml")) == parse_text(text, "s.toml")
    assert {one.name: set(one.signatures) for one in parse_text(text, "s.toml")} == {
        "a:first": {"int8"},
        "mypkg.image:blur": {"float32[:, ::1], float32[:, ::1], int64", "int64"},
        "mypkg.filters:make.<locals>.apply": {"float32[::1]", "float64[::1]"},
        "mypkg.image:sharpen": {"int8"},
    }
    assert add_to_text(text, "s.toml", more) == text


def test_new_files_do_not_depend_on_the_order_of_recording() -> None:
    kernels = [kernel("m:b", "int64", "int32"), kernel("m:a", "int8"), kernel("l:z", "int16")]
    texts = {add_to_text("", "s.toml", order) for order in (kernels, kernels[::-1])}
    assert len(texts) == 1
    assert [one.name for one in parse_text(texts.pop(), "s.toml")] == ["l:z", "m:a", "m:b"]


def test_headers_inside_texts() -> None:
    text = '[[kernel]]\nname = "m:k.<locals>.a"\nsignatures = []\ncaptured.t = """\n[[kernel]]\n"""\n'
    added = add_to_text(text, "s.toml", [kernel("m:b", "int8")])
    assert added.startswith(text)
    assert [one.name for one in parse_text(added, "s.toml")] == ["m:k.<locals>.a", "m:b"]


def test_a_file_is_replaced_whole_and_through_links(tmp_path: Path) -> None:
    real = tmp_path / "real.toml"
    real.write_text(FILE)
    real.chmod(0o640)
    link = tmp_path / "link.toml"
    link.symlink_to(real)
    write_signatures(link, [kernel("m:b", "int8")])
    assert link.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o640
    assert len(read_signatures(real)) == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.toml", "real.toml"]
    before = os.stat(real).st_mtime_ns
    write_signatures(link, [kernel("m:b", "int8")])
    assert os.stat(real).st_mtime_ns == before


# parts


def test_half_a_record_is_left_out_alone(tmp_path: Path) -> None:
    records = [format_record(format_kernel(kernel(f"m:k{number}", "float32[::1]"))) for number in range(3)]
    whole = "".join(records)
    for cut in range(len(records[0]), len(whole)):
        found = parse_text(complete_records(whole[:cut] + records[2]), "part")
        names = [one.qualname for one in found]
        assert names == [name for name, end in (("k0", 1), ("k1", 2)) if cut >= len("".join(records[:end]))] + ["k2"]
    (tmp_path / f"s.toml{PARTS}").mkdir()
    (tmp_path / f"s.toml{PARTS}" / "1.toml").write_text(whole[:-5])
    assert [one.qualname for one in read_signatures(tmp_path / "s.toml")] == ["k0", "k1"]


# any record goes through the text unchanged

NUMBERS = st.integers(-(1 << 63), (1 << 63) - 1) | st.floats(allow_nan=False) | st.booleans()
TEXTS = st.text(st.characters(blacklist_categories=["Cs"]), max_size=12)
FORMS: Any = st.recursive(
    NUMBERS | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(lambda items: {"tuple": items})
        | st.dictionaries(TEXTS, inner, max_size=3).map(lambda items: {"attributes": items})
        | st.lists(st.tuples(inner, inner).map(list), max_size=2).map(lambda pairs: {"dict": pairs})
    ),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(TEXTS, FORMS, max_size=4), st.dictionaries(TEXTS, FORMS, max_size=2), st.randoms())
def test_round_trip(captured: dict[str, Any], defaults: dict[str, Any], chance: random.Random) -> None:
    name = "".join(chance.choices(string.ascii_letters, k=5))
    one = RecordedKernel(
        "m",
        f"make.<locals>.{name}",
        ("int64", "float32[::1]"),
        "numba",
        {"fastmath": True},
        captured,
        defaults,
        7,
        "ab",
    )
    (read,) = parse_text(format_kernel(one), "s.toml")
    assert read == one
    other = one.with_signatures(["int8"])
    assert merge_kernels(parse_text(add_to_text(format_kernel(one), "s.toml", [other]), "s.toml")) == [
        one.with_signatures(["int64", "float32[::1]", "int8"])
    ]
