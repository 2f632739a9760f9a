# SPDX-License-Identifier: Apache-2.0
"""Imports cudabuild when Python starts, so that ``CUDABUILD_ADOPT`` counts in a program that does not know of it.

Python imports a module of this name, wherever it finds the first. ``cudabuild record`` puts this folder before the
others while it runs a command; whatever ``sitecustomize`` there was runs as well.
"""

from __future__ import annotations

import os
import sys

__all__ = ["start"]


def start() -> None:
    """Runs the ``sitecustomize`` that this one hides, and imports cudabuild."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != here]
    own = sys.modules.pop("sitecustomize")
    try:
        __import__("sitecustomize")
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
    finally:
        sys.modules.setdefault("sitecustomize", own)  # Python looks for it once we are through
    try:
        import cudabuild  # noqa: F401
    except ImportError as error:
        sys.stderr.write(f"cudabuild: nothing is adopted or recorded by {sys.executable}: {error}\n")


if __name__ == "sitecustomize":
    start()
