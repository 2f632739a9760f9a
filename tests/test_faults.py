# SPDX-License-Identifier: Apache-2.0
"""Exceptions made of what a kernel's thread left behind, and the sites as images hold them."""

from __future__ import annotations

import sys
from pathlib import Path

import image_making
import pytest

from cudabuild import cuda
from cudabuild.compiler import compile_image
from cudabuild.definition import KernelDefinition, Options
from cudabuild.errors import BoundsError, LaunchError, Location
from cudabuild.faults import BOUNDS, DIVISION, FaultTable, make_fault, portable_sites, unpack_record
from cudabuild.image.archive import Archive, write_archive
from cudabuild.target import parse_target
from cudabuild.types import parse_signature


def test_the_whole_message(tmp_path: Path) -> None:
    file = tmp_path / "kernels.py"
    file.write_text("def k(x):\n    x[5] = 1\n")
    site = (BOUNDS, "index {wrapped} is out of range for axis 0 with {extent} elements", str(file), 2)
    error = make_fault(site, "k", "own.py", (1, 0, 0), (2, 0, 0), 5, 5)
    assert isinstance(error, BoundsError)
    assert str(error) == (
        "index 5 is out of range for axis 0 with 5 elements\n"
        "  kernel: k, thread (1, 0, 0) of block (2, 0, 0)\n"
        f"  at:     {file}:2: x[5] = 1"
    )


def test_indices_are_told_as_they_were_written() -> None:
    def told(name: str, index: int) -> str:
        site = (BOUNDS, f"index {{{name}}} of {{extent}}", "", 1)
        return str(make_fault(site, "k", "", (0, 0, 0), (0, 0, 0), index, 8)).splitlines()[0]

    assert told("wrapped", -3) == "index -11 of 8"  # it was wrapped once
    assert told("index", -3) == f"index {2**64 - 3} of 8"  # unsigned: never wrapped
    assert told("index", 9) == told("wrapped", 9) == "index 9 of 8"


@pytest.mark.parametrize(
    ("name", "message", "kind", "text"),
    [
        ("builtins:ValueError", "bad {x}", ValueError, "bad {x}"),
        ("builtins:AssertionError", "", AssertionError, "assertion failed"),
        (DIVISION, "", ZeroDivisionError, "integer division or modulo by zero"),
        ("json.decoder:JSONDecodeError", "bad", LaunchError, "JSONDecodeError: bad"),  # wants three arguments
        ("test_faults:made.<locals>.Inner", "bad", LaunchError, "Inner: bad"),
        ("no_such_module:Error", "", LaunchError, "Error: raised without a message"),
        ("builtins:KeyboardInterrupt", "", LaunchError, "KeyboardInterrupt: raised"),  # not an error of a kernel
    ],
)
def test_classes(name: str, message: str, kind: type, text: str) -> None:
    error = make_fault((name, message, "", 3), "k", "own.py", (0, 0, 0), (0, 0, 0))
    assert type(error) is kind
    assert error.args[0].startswith(text)
    assert (error.file, error.line) == ("own.py", 3)  # type: ignore[attr-defined]


def test_equal_sites_share_a_number_and_no_path_ships() -> None:
    table = FaultTable()
    where = Location(__file__, 7, 0, 7, 5)
    assert [table.add("a:A", "m", where), table.add("a:B", "m", where), table.add("a:A", "m", where)] == [1, 2, 1]
    table.add("a:A", "m", Location(image_making.__file__, 8, 0, 8, 5))
    table.add("a:A", "m", Location("/somewhere/else.py", 9, 0, 9, 5))
    definition = KernelDefinition(test_equal_sites_share_a_number_and_no_path_ships)
    assert portable_sites(table.sites, definition) == (
        ("a:A", "m", "", 7), ("a:B", "m", "", 7), ("a:A", "m", "image_making", 8), ("a:A", "m", "else.py", 9),
    )  # fmt: skip
    assert sys.modules["image_making"].__file__ == image_making.__file__


def test_a_record_of_zeros_says_that_nothing_happened() -> None:
    assert unpack_record(bytes(48)) == (0, (0, 0, 0), (0, 0, 0), 0, 0)


def checked(x, k):
    i = cuda.grid(1)
    assert k[i] > 0, "positive"
    x[k[i]] = 1 // k[i]


def test_a_debug_image_carries_its_exceptions_through_an_archive(tmp_path: Path) -> None:
    definition = KernelDefinition(checked, "int32[::1], int32[::1]", options=Options({"debug": True}))
    signature = parse_signature("int32[::1], int32[::1]")
    image = compile_image(definition, signature, target=parse_target("compute_75"), index_width=32)
    first = checked.__code__.co_firstlineno
    bounds = "index {wrapped} is out of range for axis 0 with {extent} elements"
    assert image.attributes["exceptions"] == (
        (BOUNDS, bounds, "", first + 2),
        ("builtins:AssertionError", "positive", "", first + 2),
        (BOUNDS, bounds, "", first + 3),
        (DIVISION, "", "", first + 3),
    )
    write_archive(tmp_path / "a.cuar", [image], "compute_75")
    found = Archive(str(tmp_path / "a.cuar")).find_fingerprint(image.fingerprint)[0].load_image("shipped")
    assert found.attributes["exceptions"] == image.attributes["exceptions"]
    assert found.options == {"debug": True}
    plain = compile_image(definition, signature, target=parse_target("compute_75"), index_width=32, options=Options({}))
    assert "exceptions" not in plain.attributes
    assert plain.fingerprint != image.fingerprint
    assert plain.data.count(b".param .u") < image.data.count(b".param .u")
