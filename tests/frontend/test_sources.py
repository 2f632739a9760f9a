# SPDX-License-Identifier: Apache-2.0
"""Kernels without a file: ``python -c``, scripts on standard input, text that ``exec`` ran; lambdas by their places."""

from __future__ import annotations

import importlib
import linecache
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cudabuild import cuda, device_function, kernel
from cudabuild.compiler import compile_image
from cudabuild.definition import KernelDefinition
from cudabuild.errors import CompilationError, SourceError
from cudabuild.image.archive import Archive, write_archive
from cudabuild.source import get_source
from cudabuild.target import parse_target
from cudabuild.types import parse_signature

SCRIPT = """
import numpy as np
from cudabuild import cuda, kernel

def helper(v):
    return v * 2

@kernel
def work(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] = helper(x[i]) + (lambda a: a + 1)(i)

x = np.arange(4)
work[1, 32](x)
print(x.tolist())
"""


def run_python(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=120, **options)


@pytest.mark.parametrize("flags", [["-c"], ["-Wd", "-c"], ["-Bc"]])
def test_command(flags: list[str]) -> None:
    done = run_python(*flags, SCRIPT, "argument")
    assert done.stdout == "[1, 4, 7, 10]\n", done.stderr


def test_standard_input_from_a_file(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    with script.open() as stream:
        done = run_python("-", stdin=stream)
    assert done.stdout == "[1, 4, 7, 10]\n", done.stderr


def test_standard_input_from_a_pipe_keeps_no_text() -> None:
    done = run_python("-", input=SCRIPT)
    if done.stdout != "[1, 4, 7, 10]\n":  # later Pythons may keep the text
        assert "the source text of work (<stdin>:8) cannot be had" in done.stderr
        assert "kernel(…, source=text)" in done.stderr


TEXT = """
N = 3

def helper(v):
    return v + N

def work(x):
    x[0] = helper(x[0])
"""


def executed(text: str = TEXT, file: str = "<made>") -> dict[str, Any]:
    namespace: dict[str, Any] = {"cuda": cuda}
    exec(compile(text, file, "exec"), namespace)
    return namespace


@pytest.mark.filterwarnings("ignore:(Grid size|Host array)")
@pytest.mark.parametrize("decorate", [kernel, cuda.jit])
def test_source_option(decorate: Any) -> None:
    for made in (decorate(source=TEXT)(executed()["work"]), decorate(executed()["work"], source=TEXT)):
        x = np.array([4])
        made[1, 1](x)
        assert x[0] == 7


def calling(function: Any) -> Any:
    @kernel
    def work(x: Any) -> None:
        x[0] = function(x[0])

    return work


def test_source_of_a_device_function() -> None:
    for number in (10, 20):  # one file name, two texts
        text = f"def double(v):\n    return v * {number}\n"
        x = np.array([4])
        calling(device_function(executed(text)["double"], source=text))[1, 1](x)
        assert x[0] == 4 * number


def test_several_texts_run_in_one_namespace() -> None:
    """Each function is of its own text, decorated or called from one, though compiled after all texts are known."""
    namespace: dict[str, Any] = {}
    made = []
    for number in (2, 3):
        text = f"def scale(v):\n    return v * {number}\ndef work(x):\n    x[0] = part(x[0]) + {number}\n"
        exec(text, namespace)
        namespace["part"] = namespace["scale"]
        made.append((kernel(source=text)(namespace["work"]), calling(namespace["scale"])))
    for (work, scaled), number in zip(made, (2, 3), strict=True):
        x = np.array([4])
        scaled[1, 1](x)
        assert x[0] == 4 * number
        work[1, 1](x)  # its ``part`` is what the namespace says by now
        assert x[0] == 4 * number * 3 + number


def test_text_in_linecache() -> None:
    linecache.cache["<cell 7>"] = (len(TEXT), None, TEXT.splitlines(True), "<cell 7>")
    x = np.array([4])
    kernel(executed(file="<cell 7>")["work"])[1, 1](x)
    assert x[0] == 7


def test_no_text() -> None:
    with pytest.raises(SourceError, match="give the text that exec ran"):
        get_source(executed(file="<nowhere>")["work"])


def test_the_wrong_text() -> None:
    work = executed(file="<wrong>")["work"]
    with pytest.raises((SourceError, CompilationError), match="holds no 'def work'"):
        kernel(work, source="a = 1\n")[1, 1](np.array([4]))


add, sub = (lambda a, b: a + b), (lambda a, b: a - b)
nested = lambda a: lambda b: a * b  # noqa: E731
ROWS = [(lambda v: v * 2), (lambda v: v * 2), (lambda v, w=3: v * w)]


@pytest.mark.parametrize("function", [add, sub, nested, nested(5), *ROWS])
def test_lambdas_of_one_line(function: Any) -> None:
    tree = get_source(function).tree
    names = [argument.arg for argument in tree.args.args]
    assert names == list(function.__code__.co_varnames[: function.__code__.co_argcount])
    assert not tree.args.defaults or function.__defaults__ == (3,)


def test_lambdas_compute() -> None:
    five = nested(5)

    @kernel
    def work(x: Any) -> None:
        x[0] = add(x[0], x[1]) * 100 + sub(x[0], x[1]) * 10 + five(x[1])

    x = np.array([7, 2])
    work[1, 1](x)
    assert x[0] == 960


def test_lambdas_without_places(tmp_path: Path) -> None:
    (tmp_path / "twins.py").write_text("f, g = (lambda v: v + 1), (lambda v: v * 1)\nh, k = (lambda: 1), (lambda: 1)\n")
    script = "import twins; from cudabuild.source import get_source; import ast\n"
    script += "for f in (twins.f, twins.g, twins.h): print(ast.unparse(get_source(f).tree.body[0]))"
    done = run_python("-X", "no_debug_ranges", "-c", script, cwd=tmp_path)
    assert done.stdout == "return v + 1\nreturn v * 1\nreturn 1\n", done.stderr


def test_greek_names() -> None:
    @kernel
    def μέσος(Σ: Any, ρ: Any) -> None:
        α = cuda.grid(1)
        if α < Σ.size:
            δ = lambda η: η * ρ  # noqa: E731
            Σ[α] = δ(Σ[α])

    x = np.arange(3.0)
    μέσος[1, 4](x, 2)
    np.testing.assert_array_equal(x, [0, 2, 4])
    assert "μέσος" in repr(μέσος)


def test_greek_names_in_images(tmp_path: Path) -> None:
    def ρυθμός(Σ: Any, σημείο: Any) -> None:
        Σ[0] = Σ[1] * σημείο.χ

    target = parse_target("compute_80")
    signature = parse_signature("float32[::1], NamedTuple(Σημείο, χ: int)")
    image = compile_image(KernelDefinition(ρυθμός), signature, target=target, index_width=32)
    assert image.symbol.isascii()
    assert image.symbol.encode() in bytes(image.data)
    path = tmp_path / "kernels.cuar"
    write_archive(path, [image], target)
    (record,) = Archive(str(path)).records()
    loaded = record.load_image("here")
    assert loaded.qualname.endswith("ρυθμός")
    assert parse_signature(loaded.signature) == signature


def test_a_file_that_changed_after_its_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels are compiled when they are first launched: the text may be another by then, and says so."""
    monkeypatch.syspath_prepend(str(tmp_path))
    file = tmp_path / "changing_kernels.py"
    text = "def one(x):\n    x[0] += 1\ndef two(x):\n    x[0] += {}\n"
    file.write_text(text.format(2), "utf-8")
    module = importlib.import_module("changing_kernels")
    file.write_text(text.format(30), "utf-8")
    x = np.array([0])
    kernel(module.one)[1, 1](x)  # as it was
    with pytest.raises((SourceError, CompilationError), match="has changed since two was made"):
        kernel(module.two)[1, 1](x)
    kernel(importlib.reload(module).two)[1, 1](x)
    assert x[0] == 31


_Private__scale, __scale = 5, 7


class Private:
    """Names of two underscores are the class's own."""

    __offset = 3

    @staticmethod
    def work(x: Any) -> None:
        x[0] = x[0] * __scale + Private.__offset


def test_private_names_of_a_class() -> None:
    x = np.array([2])
    kernel(Private.work)[1, 1](x)
    assert x[0] == 13
