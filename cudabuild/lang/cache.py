# SPDX-License-Identifier: Apache-2.0
"""Loads and stores that say how the caches should treat them (PTX ISA, "Cache Operators")."""

from __future__ import annotations

from cudabuild.lang.name import KernelName

__all__ = ["LOADS", "STORES", "ldca", "ldcg", "ldcs", "ldcv", "ldlu", "stcg", "stcs", "stwb", "stwt"]

ldca = KernelName("ldca", "ldca(array, index): the element, kept in all caches, as it is likely to be read again.")
ldcg = KernelName("ldcg", "ldcg(array, index): the element, kept in the cache that all cores share only.")
ldcs = KernelName("ldcs", "ldcs(array, index): the element, which is likely to be read only once.")
ldlu = KernelName("ldlu", "ldlu(array, index): the element, which is read for the last time.")
ldcv = KernelName("ldcv", "ldcv(array, index): the element, read from memory again.")
stcg = KernelName("stcg", "stcg(array, index, value): stores, and keeps it in the cache that all cores share only.")
stcs = KernelName("stcs", "stcs(array, index, value): stores what is likely to be read only once.")
stwb = KernelName("stwb", "stwb(array, index, value): stores, and keeps it in all caches.")
stwt = KernelName("stwt", "stwt(array, index, value): stores through the caches to the memory of the system.")

#: The names by their PTX cache operator.
LOADS = {"ca": ldca, "cg": ldcg, "cs": ldcs, "lu": ldlu, "cv": ldcv}
STORES = {"cg": stcg, "cs": stcs, "wb": stwb, "wt": stwt}
