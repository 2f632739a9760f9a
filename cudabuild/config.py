# SPDX-License-Identifier: Apache-2.0
"""Every setting, declared once: name, kind, default, documentation, environment variable and TOML key.

The only module that reads ``os.environ``. Nothing is cached: a setting is read when it is asked for, so a test or a
program may change the environment at any time. Also the one door to standard error: :func:`log` and :func:`warn`.
"""

from __future__ import annotations

import os
import sys

from cudabuild.errors import SettingError, nearest_name
from cudabuild.setting import Setting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

__all__ = [
    "SETTINGS", "Setting", "all_variables", "changed_environment", "check_table", "environment", "find_setting",
    "find_unknown_variables", "get", "get_setting", "log", "set_variable", "swap_environment", "warn",
]  # fmt: skip


SETTINGS: tuple[Setting, ...] = (
    Setting(
        "jit",
        "choice",
        "auto",
        "Whether a kernel without a usable image may be compiled at run time; with 'never' that is an error.",
        choices=("auto", "never"),
        variable="CUDABUILD_JIT",
    ),
    Setting(
        "images",
        "choice",
        "all",
        "Which images may be used: all; only those shipped in packages; only shipped PTX; or none (always compile).",
        choices=("all", "shipped", "ptx", "none"),
        variable="CUDABUILD_IMAGES",
    ),
    Setting(
        "device",
        "choice",
        "auto",
        "Where kernels run: 'auto' takes the GPU if there is one and the CPU device otherwise; 'python' runs their own "
        "bytecode, for debugging.",
        choices=("auto", "cpu", "gpu", "python"),
        variable="CUDABUILD_DEVICE",
    ),
    Setting(
        "check",
        "words",
        ("bounds",),
        "What the CPU device checks in kernels: bounds of indices; races; barriers that some threads of a block miss; "
        "uninit, reads of unwritten shared and local memory. The last three make kernels many times slower.",
        choices=("bounds", "races", "barriers", "uninit", "none"),
        variable="CUDABUILD_CHECK",
    ),
    Setting(
        "cpu_order",
        "count",
        None,
        "A seed that shuffles the order in which the CPU device begins blocks, to find kernels that count on one.",
        variable="CUDABUILD_CPU_ORDER",
    ),
    Setting(
        "early_errors",
        "flag",
        True,
        "Whether a cuda.jit function with signatures is typed when it is decorated, to tell its mistakes there.",
        variable="CUDABUILD_EARLY_ERRORS",
    ),
    Setting(
        "archives",
        "paths",
        (),
        "Folders with archives of packages that ship none themselves, laid out as 'cudabuild warm --out' writes them.",
        variable="CUDABUILD_ARCHIVES",
    ),
    Setting(
        "low_occupancy_warnings",
        "flag",
        True,
        "Whether a launch of a cuda.jit kernel with fewer than 128 blocks is warned of, as numba-cuda does.",
        variable="CUDABUILD_LOW_OCCUPANCY_WARNINGS",
    ),
    Setting(
        "implicit_copy_warnings",
        "flag",
        True,
        "Whether a NumPy array given to a cuda.jit kernel, copied there and back, is warned of, as in numba-cuda.",
        variable="CUDABUILD_IMPLICIT_COPY_WARNINGS",
    ),
    Setting(
        "log",
        "choice",
        "off",
        "What is told on standard error: 'info' says once per kernel where its image came from and how long it took.",
        choices=("off", "info", "debug"),
        variable="CUDABUILD_LOG",
    ),
    Setting(
        "record",
        "path",
        "",
        "A signature file that every launched kernel is written into, with its argument types; see 'cudabuild record'.",
        variable="CUDABUILD_RECORD",
    ),
    Setting(
        "cache_dir",
        "path",
        "",
        "The folder of the user cache; empty: the platform's cache folder.",
        variable="CUDABUILD_CACHE_DIR",
    ),
    Setting(
        "cache_size",
        "size",
        1 << 30,
        "The most bytes that the user cache keeps; the least recently used entries go first.",
        variable="CUDABUILD_CACHE_SIZE",
    ),
    Setting(
        "cache_salt",
        "text",
        "",
        "A text that is part of every image key: another salt never meets the entries of this one.",
        variable="CUDABUILD_CACHE_SALT",
    ),
    Setting(
        "site_cache",
        "paths",
        (),
        "Read-only caches that are looked into after the user's own.",
        variable="CUDABUILD_SITE_CACHE",
    ),
    # What a build reads; a build's settings come from [tool.cudabuild], -C and the command line as well.
    Setting(
        "archs",
        "words",
        (),
        "The targets to build for, such as '80 90a 120+PTX', 'native', 'all' or 'all-major'; by default every "
        "generation from Turing (75) on.",
        variable="CUDABUILD_ARCHS",
        key="archs",
    ),
    Setting(
        "ptx",
        "words",
        ("lowest",),
        "PTX to build besides: 'lowest' or 'newest' of the targets, 'none', or a list of architectures.",
        variable="CUDABUILD_PTX",
        key="ptx",
    ),
    Setting(
        "arch_variables",
        "words",
        (),
        "Variables of other tools to take the targets from where CUDABUILD_ARCHS is not set, each with its own tool's "
        "meaning; the first that is set counts.",
        choices=("CUDAARCHS", "TORCH_CUDA_ARCH_LIST"),
        variable="CUDABUILD_ARCH_VARIABLES",
        key="arch-variables",
    ),
    Setting(
        "index",
        "choice",
        "both",
        "The index widths to build: a 32-bit image serves launches whose sizes all stay below 2^31, a 64-bit one any.",
        choices=("both", "32", "64"),
        variable="CUDABUILD_INDEX",
        key="index",
    ),
    Setting(
        "nvjitlink",
        "choice",
        "auto",
        "The major version of nvJitLink that links; 'auto' takes 12 for what it can make, for older drivers' sake, and "
        "13 for the rest.",
        choices=("auto", "12", "13"),
        variable="CUDABUILD_NVJITLINK",
        key="nvjitlink",
    ),
    Setting(
        "packages",
        "words",
        (),
        "The packages and modules to look for kernels in, sub-packages included; all of the distribution by default.",
        variable="CUDABUILD_PACKAGES",
        key="packages",
    ),
    Setting(
        "exclude",
        "words",
        (),
        "Modules to leave out, such as 'mypkg.tests' or 'mypkg.*.bench'.",
        variable="CUDABUILD_EXCLUDE",
        key="exclude",
    ),
    Setting(
        "discovery",
        "choice",
        "slice",
        "How kernels are found: 'slice' runs only the statements that kernels need; 'import' imports the modules, for "
        "builds without isolation.",
        choices=("slice", "import"),
        variable="CUDABUILD_DISCOVERY",
        key="discovery",
    ),
    Setting(
        "allow_imports",
        "words",
        (),
        "Packages that a kernel's constants may come from, besides this project, NumPy and the standard library; "
        "they must be in [build-system] requires too.",
        variable="CUDABUILD_ALLOW_IMPORTS",
        key="allow-imports",
    ),
    Setting(
        "dialect",
        "choice",
        "cudabuild",
        "With 'numba', the project's own 'from numba import cuda' means cudabuild's.",
        choices=("cudabuild", "numba"),
        variable="CUDABUILD_DIALECT",
        key="dialect",
    ),
    Setting(
        "adopt",
        "words",
        (),
        "Packages whose 'from numba import cuda' means cudabuild's, unchanged; when running as well as when building.",
        variable="CUDABUILD_ADOPT",
        key="adopt",
    ),
    Setting(
        "signatures",
        "signatures",
        (),
        "Signatures of kernels that declare none: files that 'cudabuild record' wrote, or a table "
        '"module:kernel" = "float32[::1], int32" (or a list of such texts).',
        variable="CUDABUILD_SIGNATURES",
        key="signatures",
        per_kernel=True,
    ),
    Setting(
        "strict",
        "flag",
        False,
        "Whether a kernel that cannot be built ahead of time, for want of a signature or otherwise, is an error.",
        variable="CUDABUILD_STRICT",
        key="strict",
    ),
    Setting(
        "jobs",
        "count",
        None,
        "How many processes compile; as many as there are processors by default.",
        variable="CUDABUILD_JOBS",
        key="jobs",
    ),
    Setting(
        "executor",
        "text",
        "",
        "Where kernels are compiled: by 'processes' of this machine, which is the default; by 'threads' of one "
        "process; or by a Dask cluster, 'dask:ADDRESS'.",
        variable="CUDABUILD_EXECUTOR",
        key="executor",
    ),
    Setting(
        "fastmath",
        "flag",
        False,
        "fastmath for every kernel that does not say otherwise.",
        variable="CUDABUILD_FASTMATH",
        key="fastmath",
        per_kernel=True,
    ),
    Setting(
        "fma",
        "flag",
        True,
        "fma, contracting a * b + c into one operation, for every kernel that does not say otherwise.",
        variable="CUDABUILD_FMA",
        key="fma",
        per_kernel=True,
    ),
    Setting(
        "debug",
        "flag",
        False,
        "debug, checks of indices, divisors, assert and raise, for every kernel that does not say otherwise.",
        variable="CUDABUILD_DEBUG",
        key="debug",
        per_kernel=True,
    ),
    Setting(
        "lineinfo",
        "flag",
        False,
        "lineinfo, source lines for profilers, for every kernel that does not say otherwise.",
        variable="CUDABUILD_LINEINFO",
        key="lineinfo",
        per_kernel=True,
    ),
    Setting(
        "max_registers",
        "count",
        None,
        "max_registers, the most registers a thread may use, for every kernel that does not say otherwise.",
        limits=(16, 255),
        variable="CUDABUILD_MAX_REGISTERS",
        key="max-registers",
        per_kernel=True,
    ),
    Setting(
        "kernel",
        "kernels",
        {},
        'Settings of single kernels, as [tool.cudabuild.kernel."module:kernel"]; * stands for any part of a name.',
        key="kernel",
    ),
    Setting(
        "build_backend",
        "text",
        "",
        "The back-end that builds the rest of the project where [build-system] names cudabuild.build_meta; "
        "setuptools.build_meta by default.",
        key="build-backend",
    ),
    Setting(
        "backend_path",
        "paths",
        (),
        "Folders of the project that an in-tree build-backend is imported from, as backend-path in [build-system].",
        key="backend-path",
    ),
)

_BY_NAME = {setting.name: setting for setting in SETTINGS}


def get_setting(name: str) -> Setting:
    """The declaration of the setting called ``name``."""
    return _BY_NAME[name]


def get(name: str) -> Any:
    """The value of a setting: from its environment variable if that is set and not empty, else its default.

    Raises:
        SettingError: the environment variable holds an illegal value.
    """
    setting = _BY_NAME[name]
    text = os.environ.get(setting.variable, "") if setting.variable else ""
    if not text.strip():
        return setting.default
    return setting.check(text, f"the environment variable {setting.variable}")


def environment(variable: str) -> str | None:
    """A variable of the environment that is not ours (``SOURCE_DATE_EPOCH`` …), or None."""
    return os.environ.get(variable)


def set_variable(variable: str, value: str | None) -> None:
    """Sets a variable for this process and those that it starts, as commands do; None takes it out."""
    if value is None:
        os.environ.pop(variable, None)
    else:
        os.environ[variable] = value


def all_variables(prefix: str) -> dict[str, str]:
    """The variables of the environment whose names begin with ``prefix``, in order of their names."""
    return {name: value for name, value in sorted(os.environ.items()) if name.startswith(prefix)}


def swap_environment(make: Callable[[dict[Any, Any]], dict[Any, Any]]) -> Callable[[], None]:
    """Puts another mapping behind ``os.environ``, to see who reads what.

    Args:
        make: the mapping (encoded names and values, as the system has them) -> the one to put in its place.

    Returns:
        What puts the first one back, with all that was set meanwhile.
    """
    holders: list[Any] = [os.environ, *([os.environb] if os.supports_bytes_environ else [])]
    data = holders[0]._data
    other = make(data)
    for holder in holders:
        holder._data = other

    def give_back() -> None:
        data.clear()
        data.update(dict.items(other))
        for holder in holders:
            holder._data = data

    return give_back


def find_unknown_variables() -> list[str]:
    """One line for each variable of the environment that is spelled like one of ours and is none."""
    known = {setting.variable for setting in SETTINGS if setting.variable}
    lines = []
    for variable in all_variables("CUDABUILD_"):
        if variable not in known:
            near = nearest_name(variable, known)
            lines.append(f"unknown variable {variable}" + (f": did you mean {near}?" if near else ""))
    return lines


def changed_environment(changes: Mapping[str, str | None]) -> dict[str, str]:
    """This process's environment for a child process, with other values of some variables; None takes one out."""
    changed = {name: value for name, value in os.environ.items() if changes.get(name, "") is not None}
    changed.update((name, value) for name, value in changes.items() if value is not None)
    return changed


def check_table(
    table: Mapping[str, Any],
    where: str,
    place: Callable[[str], str] | None = None,
    legal: Callable[[Setting], bool] = lambda setting: True,
) -> dict[str, Any]:
    """The settings written in a TOML table, by name.

    Args:
        table: the table, such as ``[tool.cudabuild]``.
        where: the file and the table, for messages.
        place: ``where`` with the line of a key.
        legal: which settings may stand in such a table.

    Raises:
        SettingError: an unknown key, with the nearest right one, or a bad value.
    """
    place = place or (lambda key: where)
    values = {}
    for key, value in table.items():
        setting = find_setting(key, place(key), legal)
        values[setting.name] = setting.check(value, f"{key} in {place(key)}")
    return values


def find_setting(key: str, where: str, legal: Callable[[Setting], bool] = lambda setting: True) -> Setting:
    """The build setting with a key of ``[tool.cudabuild]``.

    Args:
        key: what was written.
        where: where it stands, for the message.
        legal: which settings may stand there.

    Raises:
        SettingError: there is none; names the nearest.
    """
    by_key = {setting.key: setting for setting in SETTINGS if setting.key and legal(setting)}
    if key in by_key:
        return by_key[key]
    near = nearest_name(key.replace("_", "-"), by_key)
    lines = [f"unknown setting in {where}", f"  found:    {key}", f"  expected: {', '.join(sorted(by_key))}"]
    raise SettingError("\n".join(lines + ([f"  do:       did you mean {near!r}?"] if near else [])))


def log(level: str, message: str) -> None:
    """Writes one line to standard error if ``CUDABUILD_LOG`` asks for ``level`` (``info`` or ``debug``)."""
    wanted = os.environ.get("CUDABUILD_LOG")
    if not wanted:  # the launch path passes here: one dictionary look-up
        return
    wanted = get("log")
    if wanted == "debug" or wanted == level:
        _write(message)


_warned: set[str] = set()


def warn(message: str, key: str | None = None) -> None:
    """Writes one line to standard error, whatever ``CUDABUILD_LOG`` says; once per process for each ``key``.

    Not ``warnings.warn``: under ``-W error`` a damaged cache would then end the program that it must never disturb.

    Args:
        message: one line.
        key: what makes two warnings the same; the message itself by default.
    """
    key = message if key is None else key
    if key not in _warned:
        _warned.add(key)
        _write(message)


def _write(message: str) -> None:
    stream = sys.stderr
    if stream is None:  # a windowed process has none
        return
    try:
        stream.write(f"cudabuild: {message}\n")
    except (OSError, ValueError):  # closed, or a full pipe: telling is never worth failing
        return
