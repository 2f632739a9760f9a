# SPDX-License-Identifier: Apache-2.0
"""``[tool.cudabuild]``, the environment and the command line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cudabuild import config
from cudabuild.build import settings as settings_module
from cudabuild.build.native import find_native_ccs
from cudabuild.build.settings import BuildSettings, config_settings, format_settings, load_settings, read_table
from cudabuild.build.toml_lines import find_line
from cudabuild.definition import DEFAULT_OPTIONS
from cudabuild.errors import SettingError, TargetError


def write(folder: Path, table: str) -> str:
    (folder / "pyproject.toml").write_text(table, encoding="utf-8")
    return str(folder)


def names(settings: BuildSettings) -> list[str]:
    return [target.name for target in settings.targets]


def test_defaults(tmp_path: Path) -> None:
    settings = load_settings(write(tmp_path, "[tool.cudabuild]\n"))
    assert names(settings) == ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120", "compute_75"]
    assert settings.index_widths == (32, 64)
    assert (settings.strict, settings.jobs, settings.fastmath, settings.lineinfo) == (False, None, False, False)
    assert set(dict(settings.origins).values()) == {"the default"}


def test_everything_can_be_written(tmp_path: Path) -> None:
    settings = load_settings(
        write(
            tmp_path,
            '[tool.cudabuild]\narchs = [80, "90a", "12.0+PTX"]\nptx = "none"\nindex = 32\nstrict = true\n'
            'packages = ["a"]\nexclude = ["a.tests", "*.bench"]\njobs = 3\nfastmath = true\nlineinfo = true\n'
            'allow-imports = ["scipy"]\n',
        )
    )
    assert names(settings) == ["sm_80", "sm_90a", "sm_120", "compute_120"]
    assert (settings.index_widths, settings.strict, settings.jobs) == ((32,), True, 3)
    assert (settings.fastmath, settings.lineinfo, settings.allow_imports) == (True, True, ("scipy",))
    included = [
        m for m in ("a", "a.b", "ab", "a.tests", "a.tests.t", "a.bench", "a.bench.x", "b") if settings.includes(m)
    ]
    assert included == ["a", "a.b"]


@pytest.mark.parametrize(
    ("ptx", "expected"),
    [
        ('"lowest"', ["compute_80"]),
        ('"newest"', ["compute_120"]),
        ('"none"', []),
        ("[75, 90]", ["compute_75", "compute_90"]),
        ('"90"', ["compute_90"]),
    ],
)
def test_ptx(tmp_path: Path, ptx: str, expected: list[str]) -> None:
    settings = load_settings(write(tmp_path, f"[tool.cudabuild]\narchs = [80, 120]\nptx = {ptx}\n"))
    assert names(settings)[2:] == expected


def test_precedence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = write(tmp_path, '[tool.cudabuild]\narchs = ["75"]\nptx = "none"\n')
    assert names(load_settings(root)) == ["sm_75"]
    assert dict(load_settings(root).origins)["archs"] == f"[tool.cudabuild] of {tmp_path / 'pyproject.toml'}"
    monkeypatch.setenv("CUDABUILD_ARCHS", "80;86")
    assert names(load_settings(root)) == ["sm_80", "sm_86"]
    assert dict(load_settings(root).origins)["archs"] == "the environment variable CUDABUILD_ARCHS"
    assert names(load_settings(root, {"archs": "90 100"})) == ["sm_90", "sm_100"]
    assert dict(load_settings(root, {"archs": "90"}).origins)["archs"] == "the command line"
    token = config_settings.set({"archs": ["86", "90a"], "strict": "true"})
    try:
        settings = load_settings(root)
        assert names(load_settings(root, {"archs": "90 100"})) == ["sm_90", "sm_100"]
    finally:
        config_settings.reset(token)
    assert names(settings) == ["sm_86", "sm_90a"]
    assert settings.strict
    assert dict(settings.origins)["archs"] == "-C cudabuild.archs"
    assert format_settings(settings) == [
        "archs = sm_86 sm_90a from -C cudabuild.archs",
        f"ptx = none from [tool.cudabuild] of {tmp_path / 'pyproject.toml'}",
        "strict = true from -C cudabuild.strict",
    ]


def sources_of(setting: config.Setting) -> list[tuple[str, str]]:
    """(value as text, where it may be written) of a setting; each value is another one."""
    values = {
        "flag": ["true", "false", "true", "false"],
        "count": ["17", "18", "19", "20"],
        "choice": list(setting.choices) * 2,
    }.get(setting.kind, ["80", "86", "89", "90"])
    if setting.name == "arch_variables":
        values = ["CUDAARCHS", "TORCH_CUDA_ARCH_LIST"] * 2  # neither is set
    if setting.name == "signatures":
        values = ["a.toml", "b.toml", "c.toml", "d.toml"]
    places = ["the command line", f"-C cudabuild.{setting.key}"]
    return list(zip(values[:4], [*places, f"the environment variable {setting.variable}", "pyproject"], strict=True))


@pytest.mark.parametrize(
    "setting", [one for one in config.SETTINGS if one.key and one.variable], ids=lambda setting: setting.name
)
def test_every_setting_can_be_written_everywhere(
    setting: config.Setting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One after the other is taken away: the next one wins."""
    for name in "abcd":
        (tmp_path / f"{name}.toml").touch()
    command, given, environment, table = sources_of(setting)
    root = write(tmp_path, f"[tool.cudabuild]\n{setting.key} = {table[0]!r}\n")
    monkeypatch.setenv(setting.variable, environment[0])
    token = config_settings.set({setting.key: given[0]})
    try:
        found = [load_settings(root, {setting.name: command[0]}), load_settings(root)]
    finally:
        config_settings.reset(token)
    found.append(load_settings(root))
    monkeypatch.delenv(setting.variable)
    found.append(load_settings(root))
    write(tmp_path, "[tool.cudabuild]\n")
    assert dict(load_settings(root).origins)[setting.name] == "the default"
    for settings, (value, place) in zip(found, (command, given, environment, table), strict=True):
        where = f"[tool.cudabuild] of {tmp_path / 'pyproject.toml'}" if place == "pyproject" else place
        assert dict(settings.origins)[setting.name] == where
        (line,) = format_settings(settings)
        assert line.startswith(f"{setting.key} = ")
        assert line.endswith(f" from {where}")
        assert (value if setting.name != "index" else value.replace("both", "32 64")) in line


@pytest.mark.parametrize(
    ("variable", "text", "expected"),
    [
        ("CUDAARCHS", "80", "sm_80 compute_80"),
        ("CUDAARCHS", "75-real;80-virtual", "sm_75 compute_80"),
        ("CUDAARCHS", "90a;86", "sm_86 sm_90a compute_86 compute_90"),
        ("CUDAARCHS", "100f-real", "sm_100f"),
        ("CUDAARCHS", "native", "sm_86"),
        ("CUDAARCHS", "all-major", "sm_75 sm_80 sm_90 sm_100 sm_110 sm_120 compute_120"),
        ("TORCH_CUDA_ARCH_LIST", "8.0", "sm_80"),
        ("TORCH_CUDA_ARCH_LIST", "8.0 8.6+PTX;9.0a", "sm_80 sm_86 sm_90a compute_86"),
        ("TORCH_CUDA_ARCH_LIST", "Ampere Hopper", "sm_80 sm_86 sm_90 compute_86 compute_90"),
        ("TORCH_CUDA_ARCH_LIST", "Blackwell", "sm_100 sm_103 sm_120 sm_121 compute_121"),
        ("TORCH_CUDA_ARCH_LIST", "native", "sm_86 compute_86"),
    ],
)
def test_lists_of_other_tools_keep_their_meaning(
    variable: str, text: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings_module, "find_native_ccs", lambda: [(8, 6)])
    root = write(tmp_path, f'[tool.cudabuild]\narchs = ["75"]\narch-variables = ["{variable}"]\n')
    assert names(load_settings(root)) == ["sm_75", "compute_75"]
    monkeypatch.setenv(variable, text)
    settings = load_settings(root)
    assert names(settings) == expected.split()
    assert dict(settings.origins)["archs"] == f"the environment variable {variable}"
    assert names(load_settings(root, {"archs": "120", "ptx": "none"})) == ["sm_120"]
    monkeypatch.setenv("CUDABUILD_PTX", "none 90")
    with pytest.raises(TargetError, match=f"archs from the environment variable {variable}"):
        load_settings(root)
    write(tmp_path, '[tool.cudabuild]\narchs = ["75"]\nptx = "none"\n')
    monkeypatch.delenv("CUDABUILD_PTX")
    assert names(load_settings(root)) == ["sm_75"]  # nobody asked for the variable


def test_ptx_beside_a_list_of_another_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = write(tmp_path, '[tool.cudabuild]\nptx = "newest"\narch-variables = ["CUDAARCHS"]\n')
    monkeypatch.setenv("CUDAARCHS", "80-real;90-virtual")
    assert names(load_settings(root)) == ["sm_80", "compute_90"]  # the list says it all, pyproject.toml has no say
    assert names(load_settings(root, {"ptx": "lowest"})) == ["sm_80", "compute_80", "compute_90"]
    monkeypatch.setenv("CUDABUILD_PTX", "75")
    assert names(load_settings(root)) == ["sm_80", "compute_75", "compute_90"]


@pytest.mark.parametrize(
    ("variable", "text", "message"),
    [
        ("CUDAARCHS", "8.6", "found:    '8.6'"),
        ("CUDAARCHS", "sm_80", "found:    'sm_80'"),
        ("CUDAARCHS", "80+PTX", "found:    '80+PTX'"),
        ("CUDAARCHS", "80;native", "found:    'native'"),
        ("CUDAARCHS", "80,86", "found:    '80,86'"),
        ("CUDAARCHS", "nativ", "did you mean 'native'?"),
        ("CUDAARCHS", "91", "archs from the environment variable CUDAARCHS"),
        ("TORCH_CUDA_ARCH_LIST", "80", "found:    '80'"),
        ("TORCH_CUDA_ARCH_LIST", "8.0,8.6", "found:    '8.0,8.6'"),
        ("TORCH_CUDA_ARCH_LIST", "10.0f", "found:    '10.0f'"),
        ("TORCH_CUDA_ARCH_LIST", "Amper", "did you mean 'Ampere'?"),
        ("TORCH_CUDA_ARCH_LIST", "8.0 native", "found:    'native'"),
        ("TORCH_CUDA_ARCH_LIST", "Volta", "archs from the environment variable TORCH_CUDA_ARCH_LIST"),
    ],
)
def test_what_other_tools_refuse_is_refused(
    variable: str, text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = write(tmp_path, f'[tool.cudabuild]\narch-variables = ["{variable}"]\n')
    monkeypatch.setenv(variable, text)
    with pytest.raises((SettingError, TargetError)) as caught:
        load_settings(root)
    assert message in str(caught.value)


def test_config_settings_are_checked() -> None:
    for given, message in [
        ({"arch": "80"}, "unknown setting in -C cudabuild.KEY=VALUE\n  found:    arch"),
        ({"jobs": ["1", "2"]}, "bad value of -C cudabuild.jobs\n  found:    ['1', '2']"),
        ({"kernel": "a:b"}, "unknown setting in -C"),
    ]:
        token = config_settings.set(given)
        try:
            with pytest.raises(SettingError, match=re.escape(message)):
                load_settings(".")
        finally:
            config_settings.reset(token)


def test_files_of_signatures(tmp_path: Path) -> None:
    for name in ("one.toml", "two.toml"):
        (tmp_path / name).touch()
    root = write(tmp_path, '[tool.cudabuild]\nsignatures = ["one.toml", "two.toml"]\n')
    assert load_settings(root).signature_files == (str(tmp_path / "one.toml"), str(tmp_path / "two.toml"))
    absolute = {"signatures": [str(tmp_path / "two.toml")]}
    assert load_settings(root, absolute).signature_files == (str(tmp_path / "two.toml"),)


def test_the_command_of_setuptools_takes_every_setting() -> None:
    from cudabuild.build.command import build_cuda

    options = {name.rstrip("=") for name, _, _ in build_cuda.user_options} - {"build-lib", "inplace"}
    assert options == {setting.key for setting in config.SETTINGS if setting.key and setting.variable}


def test_every_setting_is_an_attribute_or_told_otherwise() -> None:
    settings = BuildSettings((), origins=tuple((one.name, "here") for one in config.SETTINGS if one.key))
    assert len(format_settings(settings)) == len(settings.origins)


KERNELS = """
[tool.cudabuild]
fma = false
max-registers = 64

[tool.cudabuild.signatures]
"a.b:f" = "float32[::1]"
"a.b:g" = ["int8", "int16"]

[tool.cudabuild.kernel."a.*:*"]
max-registers = 32
[tool.cudabuild.kernel."a.b:f"]
fma = true
signatures = "float64[::1]"
debug = true
"""


def test_settings_of_single_kernels(tmp_path: Path) -> None:
    settings = load_settings(write(tmp_path, KERNELS))
    assert settings.signatures_of("a.b", "f") == ("float64[::1]", "float32[::1]")
    assert settings.signatures_of("a.b", "g") == ("int8", "int16")
    assert settings.signatures_of("b", "g") == ()
    f = settings.options_of("a.b", "f", DEFAULT_OPTIONS)
    assert (f["fma"], f["max_registers"], f["debug"], f.written) == (True, 32, True, frozenset())
    other = settings.options_of("b", "h", DEFAULT_OPTIONS)
    assert (other["fma"], other["max_registers"], other["debug"]) == (False, 64, False)
    written = settings.options_of("b", "h", DEFAULT_OPTIONS.replace(fma=True, max_registers=None))
    assert (written["fma"], written["max_registers"]) == (True, None)
    with pytest.raises(SettingError) as caught:
        settings.options_of("a.b", "f", DEFAULT_OPTIONS.replace(debug=False))
    assert str(caught.value) == (
        "a.b:f has two values of debug\n  found:    debug=False in its decorator, and debug = True in its table of "
        "[tool.cudabuild.kernel]\n  do:       take one of them out"
    )
    assert settings.find_unknown_kernels(["a.b:f", "a.b:g"]) == []
    (message,) = settings.find_unknown_kernels(["a.b:f", "a.b:gg"])
    assert message == (
        "[tool.cudabuild] has settings of a kernel that there is not\n  found:    'a.b:g' (signatures)\n"
        "  expected: a.b:f, a.b:gg\n  do:       did you mean 'a.b:gg'?"
    )


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        (("tool", "cudabuild", "fma"), 3),
        (("tool", "cudabuild", "max-registers"), 4),
        (("tool", "cudabuild", "signatures"), 6),
        (("tool", "cudabuild", "signatures", "a.b:g"), 8),
        (("tool", "cudabuild", "kernel"), 10),
        (("tool", "cudabuild", "kernel", "a.b:f"), 12),
        (("tool", "cudabuild", "kernel", "a.b:f", "debug"), 15),
        (("tool", "cudabuild", "kernel", "a.b:f", "fastmath"), 12),
        (("project", "name"), 0),
    ],
)
def test_lines_of_keys(keys: tuple[str, ...], line: int) -> None:
    assert find_line(KERNELS, keys) == line


def test_lines_of_keys_written_otherwise() -> None:
    text = "tool.cudabuild.jobs = 3\n[tool]\ncudabuild = { archs = [\n '80',\n], ptx = 1 }\n'quoted' = 1\n"
    assert find_line(text, ["tool", "cudabuild", "jobs"]) == 1
    assert find_line(text, ["tool", "cudabuild", "ptx"]) == 3
    assert find_line(text, ["tool", "quoted"]) == 6


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "arch = [80]",
            "unknown setting in [tool.cudabuild] of {file}, line 2\n  found:    arch\n  expected: "
            "adopt, allow-imports, arch-variables, archs, backend-path, build-backend, debug, dialect, discovery, "
            "exclude, executor, fastmath, fma, index, jobs, kernel, lineinfo, max-registers, nvjitlink, packages, "
            "ptx, signatures, strict\n  do:       did you mean 'archs'?",
        ),
        (
            "\nmax_registers = 32",
            "unknown setting in [tool.cudabuild] of {file}, line 3\n  found:    max_registers\n  expected: ...\n"
            "  do:       did you mean 'max-registers'?",
        ),
        (
            "max-registers = 8",
            "bad value of max-registers in [tool.cudabuild] of {file}, line 2\n  found:    8\n"
            "  expected: a whole number from 16 to 255",
        ),
        (
            "nvjitlink = 11",
            "bad value of nvjitlink in [tool.cudabuild] of {file}, line 2\n  found:    11\n"
            "  expected: 'auto' or '12' or '13'",
        ),
        (
            'discovery = "imports"',
            "bad value of discovery in [tool.cudabuild] of {file}, line 2\n  found:    'imports'\n"
            "  expected: 'slice' or 'import'\n  do:       did you mean 'import'?",
        ),
        (
            'signatures = "missing.toml"',
            "bad value of signatures in [tool.cudabuild] of {file}\n"
            "  found:    {folder}/missing.toml, where there is no file\n"
            "  expected: a file that 'cudabuild record' wrote\n"
            "  do:       cudabuild record --out {folder}/missing.toml -- pytest",
        ),
        (
            '[tool.cudabuild.signatures]\n"a:f" = "float33[::1]"',
            "[tool.cudabuild.signatures] of {file}, line 3: bad signature\n  float33[::1]\n  ^\n"
            "  found:    'float33'\n  expected: ...\n  do:       did you mean 'float32'?",
        ),
        (
            '[tool.cudabuild.signatures]\nf = "float32[::1]"',
            "bad value of signatures in [tool.cudabuild] of {file}, line 2\n  found:    {{'f': 'float32[::1]'}}\n"
            "  expected: a file, a list of files, or a table 'module:kernel' = signatures",
        ),
        (
            '[tool.cudabuild.kernel."a:f"]\nfastmaths = true',
            'unknown setting in [tool.cudabuild.kernel."a:f"] of {file}, line 3\n  found:    fastmaths\n'
            "  expected: debug, fastmath, fma, lineinfo, max-registers, signatures\n"
            "  do:       did you mean 'fastmath'?",
        ),
        (
            '[tool.cudabuild.kernel."a:f"]\narchs = ["80"]',
            'unknown setting in [tool.cudabuild.kernel."a:f"] of {file}, line 3\n  found:    archs\n'
            "  expected: debug, fastmath, fma, lineinfo, max-registers, signatures",
        ),
        (
            "[tool.cudabuild.kernel]\nf = { debug = true }",
            "bad value of kernel in [tool.cudabuild] of {file}, line 2\n  found:    {{'f': {{'debug': True}}}}\n"
            '  expected: tables of the form [tool.cudabuild.kernel."module:kernel"]',
        ),
        (
            'index = "bot"',
            "bad value of index in [tool.cudabuild] of {file}, line 2\n  found:    'bot'\n"
            "  expected: 'both' or '32' or '64'\n  do:       did you mean 'both'?",
        ),
        (
            'strict = "perhaps"',
            "bad value of strict in [tool.cudabuild] of {file}, line 2\n"
            "  found:    'perhaps'\n  expected: true or false",
        ),
        (
            "jobs = 0",
            "bad value of jobs in [tool.cudabuild] of {file}, line 2\n"
            "  found:    0\n  expected: a whole number above 0",
        ),
        (
            "archs = [80.5]",
            "bad value of archs in [tool.cudabuild] of {file}, line 2\n  found:    [80.5]\n"
            "  expected: a list of names, or one text with names separated by ';', ',' or spaces",
        ),
    ],
)
def test_wrong_settings(tmp_path: Path, line: str, message: str) -> None:
    root = write(tmp_path, f"[tool.cudabuild]\n{line}\n")
    with pytest.raises(SettingError) as caught:
        load_settings(root)
    expected = re.escape(message.format(file=tmp_path / "pyproject.toml", folder=tmp_path)).replace(r"\.\.\.", ".*")
    assert re.fullmatch(expected, str(caught.value))


def test_an_unknown_architecture_says_where_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDABUILD_ARCHS", "80 91")
    root = write(tmp_path, "[tool.cudabuild]\n")
    with pytest.raises(TargetError, match=re.escape("archs from the environment variable CUDABUILD_ARCHS")) as caught:
        load_settings(root)
    assert "found:    '91'" in str(caught.value)


def test_all_that_one_linker_can_make(tmp_path: Path) -> None:
    root = write(tmp_path, '[tool.cudabuild]\narchs = "all"\nptx = "none"\n')
    assert {"sm_88", "sm_110"} <= set(names(load_settings(root)))
    twelve = names(load_settings(root, {"nvjitlink": "12"}))
    assert set(names(load_settings(root))) - set(twelve) == {"sm_88", "sm_110"}


def test_native(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = write(tmp_path, '[tool.cudabuild]\narchs = ["native"]\nptx = "none"\n')
    monkeypatch.setattr(settings_module, "find_native_ccs", lambda: [(9, 0), (12, 1)])
    assert names(load_settings(root)) == ["sm_90", "sm_121"]
    monkeypatch.setattr(settings_module, "find_native_ccs", list)
    with pytest.raises(TargetError, match="no GPU to build for"):
        load_settings(root)


def test_the_gpus_of_this_machine_are_asked_for_in_another_process() -> None:
    assert all(7 <= major <= 13 and 0 <= minor <= 9 for major, minor in find_native_ccs())


@pytest.mark.parametrize("text", [None, "", "[tool.other]\nname = 'cudabuild'\n"])
def test_a_project_without_the_table(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        write(tmp_path, text)
    assert read_table(str(tmp_path)) is None


def test_a_broken_file(tmp_path: Path) -> None:
    root = write(tmp_path, "[tool.cudabuild\n")
    with pytest.raises(SettingError, match=r"pyproject\.toml cannot be read"):
        read_table(root)
    root = write(tmp_path, "[tool]\ncudabuild = 3\n")
    with pytest.raises(SettingError, match="expected: a table"):
        read_table(root)
