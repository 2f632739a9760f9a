# SPDX-License-Identifier: Apache-2.0
"""The GPUs of this machine, for ``archs = ["native"]``.

Asked in a process of its own: the build step never loads the driver, and a driver that hangs or crashes ends only that.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

__all__ = ["find_native_ccs"]

_ASK = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from cudabuild.runtime.driver import find_driver
driver, reason = find_driver()
count = driver.device_count() if driver is not None else 0
print(json.dumps([driver.device_info(ordinal).cc for ordinal in range(count)]))
"""

#: In seconds; initialising many GPUs without a persistence daemon takes some.
_TIMEOUT = 120.0


def find_native_ccs() -> list[tuple[int, int]]:
    """The compute capabilities of this machine's GPUs, ascending and each once; empty where there is none."""
    paths = json.dumps([os.path.abspath(path) for path in sys.path])
    try:
        done = subprocess.run(
            [sys.executable, "-c", _ASK, paths], stdout=subprocess.PIPE, timeout=_TIMEOUT, check=True, text=True
        )
        return sorted({(major, minor) for major, minor in json.loads(done.stdout)})
    except (OSError, subprocess.SubprocessError, ValueError):
        return []  # whoever asks says that there is no GPU, and what to write instead
