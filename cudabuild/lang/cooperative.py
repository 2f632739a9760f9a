# SPDX-License-Identifier: Apache-2.0
"""Cooperative groups: the whole grid as one group of threads."""

from __future__ import annotations

from cudabuild.lang.name import KernelName, Namespace

__all__ = ["cg", "grid_group"]

grid_group = Namespace(
    "cg.grid_group",
    "What cg.this_grid() returns.",
    sync=KernelName(
        "cg.grid_group.sync",
        "sync(): waits until every live thread of the grid has come here. All blocks must be able to run at once.",
    ),
)
cg = Namespace(
    "cg",
    "Cooperative groups.",
    this_grid=KernelName("cg.this_grid", "cg.this_grid(): the group of all threads of the launch."),
    grid_group=grid_group,
)
