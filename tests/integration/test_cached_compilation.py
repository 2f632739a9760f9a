# SPDX-License-Identifier: Apache-2.0
"""What is compiled at run time is found in the cache by the next process, and by one without a compiler."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent.parent

MODULE = """
N = 4
def k(x):
    x[0] = x[1] * N
"""

SCRIPT = """
import sys
import cached_kernels
from cudabuild.definition import KernelDefinition
from cudabuild.fingerprint import compute_fingerprint
from cudabuild.image.image import DeviceInfo, ImageRequest
from cudabuild.types import float32

without_compiler = "without" in sys.argv
if without_compiler:
    sys.modules["llvmlite"] = None
from cudabuild.cache.provider import CacheProvider
from cudabuild.cache.store import get_cache
from cudabuild.jit import CompiledProvider, toolchain_of

definition, signature = KernelDefinition(cached_kernels.k), (float32[::1],)
for provider in (CacheProvider(get_cache(), toolchain_of), CompiledProvider()):
    device = DeviceInfo((9, 0), 13000)
    request = ImageRequest(definition, signature, device, 32, lambda: compute_fingerprint(definition, signature).digest)
    image = provider.find(request)
    if image is not None:
        print(image.source, len(image.data) > 1000, "ast" in sys.modules)
        break
    print(*request.notes)
"""


def run(folder: Path, *arguments: str) -> list[str]:
    (folder / "cached_kernels.py").touch()
    (folder / "script.py").write_text(SCRIPT)
    environment = {"PYTHONPATH": f"{CHECKOUT}:{folder}", "CUDABUILD_CACHE_DIR": str(folder / "cache"), "PATH": ""}
    done = subprocess.run(
        [sys.executable, "-B", str(folder / "script.py"), *arguments],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_next_process_takes_it_from_the_cache(tmp_path: Path) -> None:
    (tmp_path / "cached_kernels.py").write_text(MODULE)
    assert run(tmp_path) == ["cache: holds nothing for this device", "compiled cubin sm_90 True True"]
    assert run(tmp_path)[0].startswith("cached cubin sm_90 True")
    assert run(tmp_path, "without")[0].startswith("cached cubin sm_90 True")
    (tmp_path / "cached_kernels.py").write_text(MODULE.replace("N = 4", "N = 5"))
    first, second = run(tmp_path)
    assert first.startswith("cache: sm_90 ")
    assert second == "compiled cubin sm_90 True True"
