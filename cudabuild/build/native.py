# SPDX-License-Identifier: Apache-2.0
"""What this machine has: the GPUs, for ``archs = ["native"]``, and the tools, for ``cudabuild doctor``.

Asked in processes of their own: the build step never loads the driver, a process holds one nvJitLink, and a library
that hangs or crashes ends only that.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from typing import Any

__all__ = ["find_gpus", "find_native_ccs", "find_tools"]

_START = "import json, sys; sys.path[:] = json.loads(sys.argv[1])\n"

_ASK_GPUS = """
from cudabuild.runtime.driver import find_driver
driver, reason = find_driver()
devices = []
for ordinal in range(driver.device_count() if driver is not None else 0):
    info = driver.device_info(ordinal)
    devices.append({"name": info.name, "cc": info.cc})
print(json.dumps({"version": driver.version() if driver else 0, "devices": devices, "reason": reason or ""}))
"""

_ASK_TOOLS = """
from cudabuild.backend import cubin, libdevice, llvm
from cudabuild.errors import ToolError
found = {"llvm": "", "libdevice": libdevice.find_files(), "nvjitlink": cubin.installed_linkers()}
try:
    found["llvm"] = llvm.find_version()
except ToolError as error:
    found["error"] = str(error)
print(json.dumps(found))
"""

_ASK_LINKER = """
from cudabuild.backend import cubin
from cudabuild.errors import ToolError
from cudabuild.target import TARGETS
major = int(sys.argv[2])
cubin.choose_linker(major or None)
try:
    version = cubin.find_linker(TARGETS["sm_80"])
    print(json.dumps({"version": ".".join(map(str, version)), "path": cubin.find_loaded() or ""}))
except ToolError as error:
    print(json.dumps({"error": str(error)}))
"""

#: In seconds; initialising many GPUs without a persistence daemon takes some.
_TIMEOUT = 120.0


def _ask(code: str, *arguments: str) -> Any:
    """What a process prints that runs ``code``; or ``{"error": why there is no answer}``."""
    paths = json.dumps([os.path.abspath(path) for path in sys.path])
    command = [sys.executable, "-c", _START + code, paths, *arguments]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_TIMEOUT, check=False, text=True)
        if done.returncode == 0:
            return json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        return {"error": str(error)}
    last = done.stderr.strip().splitlines()[-1:] or ["nothing was told"]
    return {"error": f"the process that asked ended with status {done.returncode}: {last[0]}"}


def find_gpus() -> dict[str, Any]:
    """The driver's ``version`` (13000; 0 without one), the ``devices`` (``name``, ``cc``), and the ``reason`` or
    ``error`` why there are none."""
    found: dict[str, Any] = _ask(_ASK_GPUS)
    return {"version": 0, "devices": [], "reason": "", **found}


@cache
def find_native_ccs() -> list[tuple[int, int]]:
    """The compute capabilities of this machine's GPUs, ascending and each once; empty where there is none.

    Asked once: a build of setuptools reads the settings several times.
    """
    # Whoever asks says that there is no GPU, and what to write instead.
    return sorted({(major, minor) for major, minor in (device["cc"] for device in find_gpus()["devices"])})


def find_tools() -> dict[str, Any]:
    """The compiler's tools: the version of ``llvm`` (with ``llvm_error`` where it is empty), the path of ``libdevice``
    ("" for none), and each ``nvjitlink`` that can be had (``version``, ``path``, ``error``)."""
    found = _ask(_ASK_TOOLS)
    linkers = []
    installed = found.get("nvjitlink") or {}
    for major in sorted(map(int, installed)) or [0]:
        answer = _ask(_ASK_LINKER, str(major))
        version = installed.get(str(major)) or answer.get("version", "")
        linkers.append({"version": version, "path": answer.get("path", ""), "error": answer.get("error", "")})
    return {
        "llvm": found.get("llvm", ""),
        "llvm_error": found.get("error", ""),
        "libdevice": (found.get("libdevice") or [""])[0],
        "nvjitlink": linkers,
    }
