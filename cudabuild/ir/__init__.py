# SPDX-License-Identifier: Apache-2.0
"""The two forms a kernel passes through: untyped HIR and typed IR. See ``README.md`` in this folder."""
