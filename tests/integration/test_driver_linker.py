# SPDX-License-Identifier: Apache-2.0
"""Where nvJitLink is absent the driver links: the image says all that a launch asks of it, from the cache too."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent.parent

KERNELS = """
from cudabuild import cuda, kernel

@kernel("int32[::1]", debug=True)
def checked(x):
    assert x[0] > 0, "positive"

@kernel("int32[::1]")
def together(x):
    x[0] = 1
    cuda.cg.this_grid().sync()
    x[1] = 2
"""

SCRIPT = """
import sys
from cudabuild.backend import cubin
from cudabuild.errors import ToolError
from cudabuild.runtime.driver import use_driver
from fake_driver import FakeDriver

def absent(*_):
    raise ToolError("nvJitLink is absent")

cubin.find_linker = absent
use_driver(FakeDriver())
import linked_kernels
from cudabuild.cache.provider import CacheProvider
from cudabuild.fingerprint import compute_fingerprint
from cudabuild.image.image import DeviceInfo, ImageRequest
from cudabuild.jit import CompiledProvider, get_cache, toolchain_of

for name in ("checked", "together"):
    definition = getattr(linked_kernels, name).definition
    (signature,) = definition.signatures
    fingerprint = compute_fingerprint(definition, signature)
    for provider in (CacheProvider(get_cache(), toolchain_of), CompiledProvider()):
        request = ImageRequest(definition, signature, DeviceInfo((9, 0), 13000), 32, lambda: fingerprint.digest)
        image = provider.find(request)
        if image is not None:
            facts = sorted(set(image.attributes) & {"exceptions", "cooperative", "minimum_driver", "decorated"})
            print(image.source, bytes(image.data[:7]), facts, len(image.attributes.get("exceptions", ())))
            break
"""


def test_the_driver_links_what_is_kept_and_found_again(tmp_path: Path) -> None:
    (tmp_path / "linked_kernels.py").write_text(KERNELS)
    environment = {
        "PYTHONPATH": f"{CHECKOUT}:{CHECKOUT / 'tests' / 'runtime'}:{tmp_path}",
        "CUDABUILD_CACHE_DIR": str(tmp_path / "cache"),
        "PATH": "",
    }
    for origin in ("compiled", "cached"):
        command = [sys.executable, "-B", "-c", SCRIPT]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines() == [
            f"{origin} cubin sm_90 b'linked ' ['decorated', 'exceptions', 'minimum_driver'] 2",
            f"{origin} cubin sm_90 b'linked ' ['cooperative', 'decorated', 'minimum_driver'] 0",
        ]
