# SPDX-License-Identifier: Apache-2.0
"""The command line as a whole: the table of commands, what is imported for it, help, errors and exit statuses."""

from __future__ import annotations

import argparse
import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
from cli_kit import CHECKOUT, attempt

from cudabuild.__main__ import main
from cudabuild.cli import COMMANDS
from cudabuild.cli.output import format_rows, load_schema, schema_names

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_its_module(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    module = importlib.import_module(f"cudabuild.cli.{name}")
    assert module.__doc__.strip().splitlines()[0].endswith(".")
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: python -m cudabuild {name} ")


def test_every_module_of_the_room_is_a_command_or_a_part() -> None:
    parts = {"__init__", "output", "project"}
    files = {path.stem for path in (CHECKOUT / "cudabuild" / "cli").glob("*.py")}
    assert files - parts == set(COMMANDS)


def test_help_names_all_commands(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    out = capsys.readouterr().out
    assert [line.split()[0] for line in out.splitlines() if line.startswith("  ") and line.split()[0] in COMMANDS] == (
        list(COMMANDS)
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["lst"], "no command 'lst'; did you mean 'list'? (there are build, list, "),
        (["build", "--inplace", "--out", "x"], "not allowed with argument --inplace"),
        ([], "required: COMMAND"),
        (["build", "--arch", "80"], "unrecognized arguments: --arch"),
    ],
)
def test_wrong_usage(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    import cudabuild

    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out == f"cudabuild {cudabuild.__version__}\n"


def test_the_console_script_is_the_same() -> None:
    scripts = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
    module, _, name = scripts["cudabuild"].partition(":")
    assert getattr(importlib.import_module(module), name) is main


#: Arguments -> what must not be imported for them.
LIGHT = {
    ("--help",): ["cudabuild.build", "cudabuild.cli.build", "cudabuild.image", "llvmlite", "numpy", "setuptools"],
    ("list", "surely_not_there"): ["cudabuild.cli.build", "llvmlite", "numpy", "setuptools", "cuda"],
    ("inspect", "surely_not_there"): ["cudabuild.build.worker", "llvmlite", "numpy", "setuptools", "cuda"],
    ("doctor",): ["llvmlite", "numpy", "setuptools", "cuda"],
}


@pytest.mark.parametrize("arguments", LIGHT)
def test_a_command_imports_what_it_needs(arguments: tuple[str, ...], tmp_path: Path) -> None:
    code = (
        "import sys\nfrom cudabuild.__main__ import main\n"
        "try:\n    main(sys.argv[1:])\nexcept SystemExit:\n    pass\n"
        "print('loaded', *sorted(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
    )
    loaded = set(done.stdout.rpartition("loaded ")[2].split())
    assert [name for name in LIGHT[arguments] if name in loaded] == []


def test_an_error_is_told_without_a_traceback(tmp_path: Path) -> None:
    for arguments in (["build"], ["list", "nothing_here"], ["check"], ["doctor", "nothing_here", "--device", "9.0"]):
        (tmp_path / "pyproject.toml").write_text("[tool.cudabuild]\nindx = 32\n", encoding="utf-8")
        done = attempt(*arguments, cwd=tmp_path)
        assert done.returncode == 1
        assert done.stderr.startswith("error: ")
        assert "Traceback" not in done.stderr


def test_a_project_that_setuptools_cannot_read(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "p"\nversion = 3\n', encoding="utf-8")
    done = attempt("list", cwd=tmp_path)
    assert done.returncode == 1
    assert re.search(r"error: setuptools \S+ cannot read this project: .*project.version", done.stderr)
    assert f"  found:    {tmp_path}" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("arguments", ["doctor --json", "list --schema"])
def test_a_reader_that_goes_ends_a_command_quietly(arguments: str) -> None:
    full = f"{sys.executable} -m cudabuild {arguments} | head -c 1"
    done = subprocess.run(["bash", "-c", full], cwd=CHECKOUT, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "{"
    assert done.stderr == ""


# JSON


@pytest.mark.parametrize("name", schema_names())
def test_schemas(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    schema = load_schema(name)
    jsonschema.Draft202012Validator.check_schema(schema)
    with pytest.raises(SystemExit) as ended:
        main([name, "--schema"])
    assert ended.value.code == 0
    assert json.loads(capsys.readouterr().out) == schema


def test_schemas_leave_nothing_open() -> None:
    """Every object names its fields, so that a field that is added or lost shows."""
    open_objects = []

    def walk(schema: object, place: str) -> None:
        if isinstance(schema, dict):
            if "properties" in schema and schema.get("additionalProperties") is not False:
                open_objects.append(place)
            if "properties" in schema and set(schema["required"]) != set(schema["properties"]):
                open_objects.append(place)
            for key, value in schema.items():
                walk(value, f"{place}/{key}")
        elif isinstance(schema, list):
            for number, value in enumerate(schema):
                walk(value, f"{place}/{number}")

    for name in schema_names():
        walk(load_schema(name), name)
    assert open_objects == []


def test_every_command_with_json_has_a_schema() -> None:
    with_json = []
    for name in COMMANDS:
        parser = argparse.ArgumentParser(prog=f"cudabuild {name}")
        importlib.import_module(f"cudabuild.cli.{name}").add_arguments(parser)
        if "--json" in parser.format_help():
            with_json.append(name)
    assert sorted(with_json) == schema_names()


def test_rows() -> None:
    rows = [["a", "1", "x"], ["bbb", "22"], ["c", "a long last text"], ["d", "333", "y"]]
    assert format_rows(rows, indent="> ") == ["> a    1    x", "> bbb  22", "> c    a long last text", "> d    333  y"]
    assert format_rows([["a", "1"], ["b", "22"]], right=[1]) == ["a   1", "b  22"]
