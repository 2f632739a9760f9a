# SPDX-License-Identifier: Apache-2.0
"""Typing and lowering rules by topic; importing this package fills the registry."""

from cudabuild.frontend.impl import builtins, casts, math_functions, memory, threads

__all__ = ["builtins", "casts", "math_functions", "memory", "threads"]
