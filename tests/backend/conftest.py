# SPDX-License-Identifier: Apache-2.0
"""The random programs and the interpreter of ``tests/ir`` serve here too."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "ir"))
