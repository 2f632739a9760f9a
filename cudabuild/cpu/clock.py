# SPDX-License-Identifier: Apache-2.0
"""The time of ``cuda.globaltimer()``: nanoseconds of the system's clock, by the C library."""

from __future__ import annotations

import sys

__all__ = ["clock_text"]

#: ``timespec`` is two words: seconds, and nanoseconds whose low 32 bits say it all (a ``long`` has 32 on Windows).
_TEXT = """
declare i32 @{function}(ptr, i32)

define i64 @schedule.nanoseconds() {{
entry:
  %time = alloca [2 x i64]
  %base = call i32 @{function}(ptr %time, i32 1)
  %seconds = load i64, ptr %time
  %rest.at = getelementptr inbounds i8, ptr %time, i64 8
  %rest = load i32, ptr %rest.at
  %rest.wide = zext i32 %rest to i64
  %scaled = mul i64 %seconds, 1000000000
  %now = add i64 %scaled, %rest.wide
  ret i64 %now
}}
"""


def clock_text() -> str:
    """LLVM text of ``schedule.nanoseconds``. 1 is C's ``TIME_UTC``."""
    return _TEXT.format(function="_timespec64_get" if sys.platform == "win32" else "timespec_get")
