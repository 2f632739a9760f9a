# SPDX-License-Identifier: Apache-2.0
"""Signatures from real runs: the file that keeps them, and the recorder that writes it. See README.md."""

from __future__ import annotations

from cudabuild.recording.read import parse_table, read_signatures
from cudabuild.recording.records import RecordedKernel, merge_kernels

__all__ = ["RecordedKernel", "merge_kernels", "parse_table", "read_signatures"]
