# SPDX-License-Identifier: Apache-2.0
"""Writes the pages of the command line: ``settings.md`` from the declarations, ``screens.md`` from real runs.

``python tests/cli/pages.py`` rewrites both; the tests compare. Figures that depend on tools and machine (versions,
sizes, times, registers) are left out of the comparison.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).resolve().parents[2])]

from cudabuild import config
from cudabuild.cli import doctor
from cudabuild.setting import Setting

__all__ = ["PAGES", "SCREENS", "SETTINGS", "format_screens_page", "format_settings_page", "mask"]

CHECKOUT = Path(__file__).resolve().parents[2]
SETTINGS = CHECKOUT / "cudabuild" / "cli" / "settings.md"
SCREENS = CHECKOUT / "cudabuild" / "cli" / "screens.md"

# Settings


def format_settings_page() -> str:
    """The page of all settings and environment variables."""
    build = [setting for setting in config.SETTINGS if setting.key]
    run = [setting for setting in config.SETTINGS if not setting.key]
    lines = [
        "# Settings and environment variables",
        "",
        "Generated from `cudabuild/config.py` by `python tests/cli/pages.py`.",
        "",
        "## Of a build",
        "",
        "Written in `[tool.cudabuild]` of pyproject.toml. What is written elsewhere overrules that, in this order:",
        "",
        "1. the command line, `cudabuild build --KEY VALUE`, or the same options of `build_cuda` in setup.cfg;",
        '2. config settings, `pip wheel -C cudabuild.KEY=VALUE .`, with `build-backend = "cudabuild.build_meta"`;',
        "3. the environment variable;",
        "4. for the targets alone, `CUDAARCHS` or `TORCH_CUDA_ARCH_LIST`, if `arch-variables` names it;",
        "5. `[tool.cudabuild]`;",
        "6. the default.",
        "",
        "A build says which settings were set, and where.",
        "",
        "| key | accepts | default | environment variable | |",
        "| --- | --- | --- | --- | --- |",
        *(f"| `{one.key}` | {_accepts(one)} | {_default(one)} | {_variable(one)} | {one.doc} |" for one in build),
        "",
        f"Compile options ({_keys(one for one in build if one.per_kernel and one.kind != 'signatures')}) hold for",
        "kernels whose decorator does not say otherwise. They are recorded with the images, and go for what is",
        "compiled at run time in their place. A kernel left to JIT has no image: for it, only its decorator counts.",
        "",
        "### Of single kernels",
        "",
        "A table for each, whose name is `module:kernel`; `*` stands for any part of it:",
        "",
        "```toml",
        '[tool.cudabuild.kernel."mypackage.vectors:saxpy"]',
        "max-registers = 64",
        'signatures = ["float32, float32[::1], float32[::1]"]',
        "```",
        "",
        f"It may hold {_keys(one for one in build if one.per_kernel)}.",
        "",
        "### Architectures",
        "",
        "Entries are separated by `;`, `,` or spaces; case does not matter.",
        "",
        "| written | builds |",
        "| --- | --- |",
        "| `86`, `8.6`, `sm_86`, `86-real` | a cubin |",
        "| `86-virtual`, `compute_86` | PTX |",
        "| `8.6+PTX` | both |",
        "| `90a`, `100f` | a cubin for this device only, for its family |",
        "| `native` | cubins for the GPUs of this machine |",
        "| `all`, `all-major` | a cubin for every architecture, for the lowest of every generation |",
        "",
        "`ptx` adds PTX besides. In `CUDAARCHS`, as in CMake, `80` is a cubin and PTX, `80-real` a cubin, `80-virtual`",
        "PTX. In `TORCH_CUDA_ARCH_LIST`, as in torch, `8.0` is a cubin and `8.0+PTX` both.",
        "",
        "## When kernels run",
        "",
        "| environment variable | accepts | default | |",
        "| --- | --- | --- | --- |",
        *(f"| {_variable(one)} | {_accepts(one)} | {_default(one)} | {one.doc} |" for one in run),
        "",
        "`SOURCE_DATE_EPOCH` sets the times in wheels that are edited.",
    ]
    return "\n".join(lines).replace("< ", "&lt; ") + "\n"


def _keys(settings: Iterable[Setting]) -> str:
    return ", ".join(f"`{one.key}`" for one in settings)


def _accepts(setting: Setting) -> str:
    if setting.choices:
        return ", ".join(f"`{choice}`" for choice in setting.choices)
    if setting.kind == "words":
        return "names, as a list or one text"
    if setting.kind == "paths":
        return "folders, separated as in `PATH`"
    return setting.accepts.replace("|", "\\|")


def _default(setting: Setting) -> str:
    value = setting.default
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple | list):
        return ", ".join(f"`{one}`" for one in value)
    return f"`{value}`" if value not in ("", None, {}) else ""


def _variable(setting: Setting) -> str:
    return f"`{setting.variable}`" if setting.variable else ""


# Screens

_KERNELS = """\
import torch
from cudabuild import cuda, kernel


@kernel("float32, float32[::1], float32[::1]")
def saxpy(a, x, y):
    i = cuda.grid(1)
    if i < y.size:
        y[i] = a * x[i] + y[i]


SCALE = torch.pi


@kernel("float32[::1]")
def scale(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] = SCALE * x[i]
"""

_PYPROJECT = """\
[build-system]
requires = ["setuptools>=77", "cudabuild[build]"]
build-backend = "setuptools.build_meta"

[project]
name = "mypackage"
version = "1.0"
dependencies = ["cudabuild"]

[tool.setuptools.packages.find]
where = ["src"]

[tool.cudabuild]
archs = [80, 90]
"""

_MISS = """\
import sys, types
sys.path[:0] = [sys.argv[1], "src"]
import fake_driver
from cudabuild.runtime.driver import use_driver
use_driver(fake_driver.FakeDriver())
sys.modules["torch"] = types.SimpleNamespace(pi=3.14159)
class Array:
    __cuda_array_interface__ = {"shape": (4,), "typestr": "<f4", "data": (4096, False), "version": 3}
from cudabuild import NoImageError
from mypackage.vectors import scale
try:
    scale[1, 32](Array())
except NoImageError as error:
    print(f"cudabuild.NoImageError: {error}")
"""


def format_screens_page() -> str:
    """The page of what commands show, from runs of them on a small project."""
    with tempfile.TemporaryDirectory(prefix="cudabuild-screens-") as folder:
        root = Path(folder).resolve() / "mypackage"
        (root / "src" / "mypackage").mkdir(parents=True)
        (root / "pyproject.toml").write_text(_PYPROJECT, encoding="utf-8")
        (root / "src" / "mypackage" / "__init__.py").touch()
        (root / "src" / "mypackage" / "vectors.py").write_text(_KERNELS, encoding="utf-8")
        screens = [_section(*part, _show(root, *arguments)) for part, arguments in _parts(root)]
    return _HEAD + "\n".join(screens)


_HEAD = (
    """\
# What commands show

From runs on a package of one module, written by `python tests/cli/pages.py`:

```python
# src/mypackage/vectors.py
"""
    + _KERNELS
    + """\
```

```toml
# pyproject.toml
[tool.cudabuild]
archs = [80, 90]
```

"""
)


def _parts(root: Path) -> list[tuple[tuple[str, str, str], tuple[Any, ...]]]:
    edited = _KERNELS.replace("a * x[i] + y[i]", "y[i] - a * x[i]")
    vectors = root / "src" / "mypackage" / "vectors.py"
    archive = "src/mypackage/_cudabuild/sm_90.cuar"
    return [
        (("list", _LIST, "cudabuild list"), ("list",)),
        (("build", _BUILD, "cudabuild build --inplace"), ("build", "--inplace")),
        (("inspect", "What was recorded with each image.", f"cudabuild inspect {archive}"), ("inspect", archive)),
        (("check", _CHECK, "cudabuild check"), ("check", lambda: vectors.write_text(edited, encoding="utf-8"))),
        (("doctor", _DOCTOR, "cudabuild doctor mypackage"), ("doctor",)),
        (("cache", _CACHE, "cudabuild cache info"), ("cache", "info")),
        (("cache list", "Every image.", "cudabuild cache list --target sm_90"), ("cache", "list", "--target", "sm_90")),
        (("cache verify", _VERIFY, "cudabuild cache verify"), ("cache", "verify", lambda: _damage(root))),
        (("cache verify --repair", _REPAIR, "cudabuild cache verify --repair"), ("cache", "verify", "--repair")),
        (("cache clear", _CLEAR, "cudabuild cache clear"), ("cache", "clear")),
        (("warm --site", _SITE, f"cudabuild warm --site /opt/kernels {_SITE_OPTIONS}"), ("site",)),
        (("A kernel without an image", _NONE, "CUDABUILD_JIT=never python program.py"), ("miss",)),
    ]


_LIST = "Before a build: what is found, what would be built, what is not and why."
_BUILD = "A table of what was made. pip shows it with `-v`."
_CHECK = "In CI: an edited kernel whose archives were not built anew. The status is 1."
_DOCTOR = "What is here, and what each kernel of a package would load."
_SITE = (
    "A cache for all users, such as of a container image: compiled in one of its steps, only read where\n"
    "`CUDABUILD_SITE_CACHE=/opt/kernels`, by whoever runs there, without a compiler."
)
_SITE_OPTIONS = "--archs 90 --index 64 mypackage"
_CACHE = "What compiled kernels are kept, for builds and for running programs."
_VERIFY = "Reads every byte. Here one of the files was damaged by hand. The status is 1."
_REPAIR = "Takes out what is damaged and keeps the rest. A program that meets the damage would do the same."
_CLEAR = "Empties the user's cache; programs that run meanwhile compile anew what they miss."
_NONE = "A launch where nothing may be compiled, of a kernel that the build left to JIT."


def _section(title: str, text: str, command: str, output: str) -> str:
    return f"## {title}\n\n{text}\n\n```console\n$ {command}\n{output.rstrip()}\n```\n"


def _show(root: Path, verb: str, *arguments: str | Callable[[], Any]) -> str:
    for argument in arguments:
        if callable(argument):
            argument()
    plain = [argument for argument in arguments if isinstance(argument, str)]
    if verb == "doctor":
        text = _doctor(root)
    elif verb == "site":
        arguments = ("-m", "cudabuild", "warm", "--site", "../opt", *_SITE_OPTIONS.split())
        text = _run(root, *arguments, PYTHONPATH=os.pathsep.join([str(root / "src"), str(CHECKOUT)]))
        text = text.replace(str(root.parent / "opt"), "/opt/kernels")
    elif verb == "miss":
        text = _run(root, "-c", _MISS, str(CHECKOUT / "tests" / "runtime"), CUDABUILD_JIT="never")
    else:
        text = _run(root, "-m", "cudabuild", verb, *plain)
    text = text.replace(str(root.parent / "cache"), "/home/me/.cache/cudabuild")
    return text.replace(str(root), "/home/me/mypackage").replace("Fake 0", "NVIDIA H200")


def _damage(root: Path) -> None:
    (segment,) = (root.parent / "cache" / "sm_90").glob("seg-*")
    data = bytearray(segment.read_bytes())
    data[-8] ^= 1  # in the code of the last image
    segment.write_bytes(data)


def _run(root: Path, *arguments: str, **environment: str) -> str:
    cache = {"CUDABUILD_CACHE_DIR": str(root.parent / "cache")}
    clean = {name: value for name, value in os.environ.items() if not name.startswith("CUDABUILD_")}
    variables = {**clean, **cache, "PYTHONPATH": str(CHECKOUT), **environment}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=root, env=variables, capture_output=True, text=True, timeout=240, check=False
    )
    return done.stdout + done.stderr


def _doctor(root: Path) -> str:
    """The facts of a made-up machine, so that the page does not tell of the one that it was written on."""
    site = "/home/me/.venv/lib/python3.12/site-packages"
    versions = {
        "cudabuild": "0.1.0", "numpy": "2.4.6", "cuda-bindings": "13.5.0", "llvmlite": "0.50.0",
        "nvidia-nvvm": "13.5.37", "nvidia-nvjitlink-cu12": "12.9.86", "setuptools": "84.2.1", "filelock": "4.3.1",
        "platformdirs": "4.14.9",
    }  # fmt: skip
    loads = doctor.gather_facts([str(root / "src")], ["9.0"], "13.0")["kernels"]
    facts = {
        "python": {
            "version": "3.12.4",
            "implementation": "CPython",
            "executable": "/home/me/.venv/bin/python",
            "platform": "Linux-6.8.0-x86_64-with-glibc2.39",
        },
        "packages": [
            {"name": name, "version": versions.get(name), "purpose": purpose}
            for name, purpose in doctor.PACKAGES.items()
        ],
        "tools": {
            "llvm": "0.50.0 (LLVM 22.1.0)",
            "llvm_error": "",
            "libdevice": f"{site}/nvidia/cu13/nvvm/libdevice/libdevice.10.bc",
            "nvjitlink": [
                {"version": "12.9.86", "path": f"{site}/nvidia/nvjitlink/lib/libnvJitLink.so.12", "error": ""}
            ],
        },
        "driver": {"version": 13000, "reason": ""},
        "devices": [{"name": "NVIDIA H200", "cc": "9.0"}],
        "cache": {"path": "/home/me/.cache/cudabuild", "bytes": 1_234_567, "files": 12, "writable": True},
        "environment": [{"variable": "CUDABUILD_LOG", "value": "info"}],
        "settings": [],
        "kernels": [{**one, "package": "mypackage", "device": "NVIDIA H200"} for one in loads],
        "problems": [],
    }
    return "\n".join(doctor.format_facts(facts))


def mask(page: str) -> str:
    """A page without the figures that depend on tools and machine, and without the spaces that align them."""
    page = re.sub(r"\b[0-9a-f]{8,64}\b", "#", page)
    page = re.sub(r"(?<![\w.])[0-9][0-9.,/]*", "#", page)
    page = re.sub(r"_[0-9a-f]{8}(?=\b|_w64)", "_#", page)  # in a symbol
    return re.sub(r" +", " ", page)


PAGES: dict[Path, Callable[[], str]] = {SETTINGS: format_settings_page, SCREENS: format_screens_page}


def main() -> None:
    """Rewrites the pages."""
    for path, make in PAGES.items():
        path.write_text(make(), encoding="utf-8", newline="\n")
        print(path.relative_to(CHECKOUT))


if __name__ == "__main__":
    main()
