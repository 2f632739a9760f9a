# SPDX-License-Identifier: Apache-2.0
"""bfloat16 in kernels: ``from cudabuild.cuda.bf16 import bfloat16, hadd``. Every target takes it: those without the
instructions compute in float32."""

from __future__ import annotations

from cudabuild.lang.half import BF16
from cudabuild.types import bfloat16

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cudabuild.lang.name import KernelName

    def __getattr__(name: str) -> KernelName: ...


__all__ = ["bfloat16"]
__all__ += sorted(BF16)

globals().update(BF16)
