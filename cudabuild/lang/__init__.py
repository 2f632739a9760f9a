# SPDX-License-Identifier: Apache-2.0
"""The kernel-side names, one module per topic. Users reach them as ``from cudabuild import cuda``."""
