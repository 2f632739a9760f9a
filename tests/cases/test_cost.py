# SPDX-License-Identifier: Apache-2.0
"""I. What importing costs: no driver, no process, no archive; each kernel when it is launched."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from cases_kit import Array, Machine, load
from package_kit import CHECKOUT, build_archives, write_files

KERNELS = "".join(f'@kernel("float32[::1]")\ndef k{n}(x):\n    x[0] = {n}\n\n' for n in range(50))

WATCH = """
import sys
bad = []
FORBIDDEN = ("subprocess.", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "ctypes.", "socket.",
             "os.mkdir", "os.rename", "os.remove", "mmap.")
def watch(event, arguments):
    if event.startswith(FORBIDDEN):
        bad.append((event, arguments[:1]))
    elif event == "open":
        path, mode, flags = arguments
        if str(path).endswith((".cuar", ".cuix", "index.json")) or set(str(mode or "r")) & set("wax+"):
            bad.append((event, path))
sys.addaudithook(watch)
import pkg
assert len([name for name in dir(pkg.many) if name.startswith("k")]) >= 50
found = list(bad)
loaded = sorted({name.partition(".")[0] for name in sys.modules} & {"cuda", "numpy", "llvmlite", "numba", "ctypes"})
print(found, loaded, "cudabuild.runtime.launch" in sys.modules)
"""


def test_importing_a_package_with_kernels_touches_no_device_no_process_and_no_archive(tmp_path: Path) -> None:
    root = write_files(
        tmp_path,
        {"pkg/__init__.py": "from pkg import many\n", "pkg/many.py": "from cudabuild import kernel\n" + KERNELS},
    )
    build_archives(root, "pkg/_cudabuild", "pkg.many")
    environment = {
        **os.environ, "PYTHONPATH": os.pathsep.join(map(str, [root, CHECKOUT])), "PYTHONDONTWRITEBYTECODE": "1",
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", WATCH], capture_output=True, text=True, timeout=60, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[] [] False"


def test_a_launch_compiles_and_loads_its_own_kernel_only(root: Path, tmp_path: Path) -> None:
    text = "".join(f"def k{n}(x):\n    x[0] = {n}\n" for n in range(50))
    module = load(tmp_path, text)
    machine = Machine(root)
    kernels = [machine.kernel(getattr(module, f"k{n}")) for n in range(50)]
    assert (machine.compiled, machine.fake.given, machine.fake.calls) == ([], [], [])
    kernels[7][1, 32](Array())
    assert [symbol.partition("_")[0] for symbol in machine.compiled] == ["k7"]
    assert len(machine.fake.given) == 1
