# SPDX-License-Identifier: Apache-2.0
"""Clocks, and a pause."""

from __future__ import annotations

from cudabuild.lang.name import KernelName

__all__ = ["clock", "globaltimer", "nanosleep"]

clock = KernelName("clock", "clock(): a counter of clock cycles of the core that the thread runs on; 64 bits.")
globaltimer = KernelName("globaltimer", "globaltimer(): nanoseconds of a clock that all cores share.")
nanosleep = KernelName("nanosleep", "nanosleep(ns): lets others run for up to about twice ``ns`` nanoseconds.")
