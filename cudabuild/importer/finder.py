# SPDX-License-Identifier: Apache-2.0
"""The import hook: notes on a package's spec that the package ships archives. It finds nothing itself.

An optimisation, never the only way: a kernel of a package that was already being imported when cudabuild came, of a
reloaded module, of ``__main__``, of a zip file is bound all the same (``binding.py`` looks for itself).
"""

from __future__ import annotations

import sys
from os import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

__all__ = ["FOLDER", "Finder", "install"]

#: The folder of a package that holds its archives.
FOLDER = "_cudabuild"

#: The attribute of a spec that names it.
NOTE = "cudabuild_archives"


class Finder:
    """Asks the finders behind it, and looks once into each top-level package that they find.

    Only top-level names are looked at: a sub-package's archives are its outermost package's. Whatever happens here, the
    answer is the other finders' own.
    """

    __slots__ = ()

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """See :meth:`importlib.abc.MetaPathFinder.find_spec`."""
        if path is not None:  # a submodule
            return None
        finders = sys.meta_path
        for finder in finders[finders.index(self) + 1 :]:
            try:
                find_spec = finder.find_spec
            except AttributeError:  # of the time before specs
                continue
            spec = find_spec(name, None, target)
            if spec is not None:
                if spec.submodule_search_locations and spec.origin is not None:
                    _note(spec)
                return spec
        return None


def _note(spec: ModuleSpec) -> None:
    locations = spec.submodule_search_locations
    folder = f"{next(iter(locations or ()))}/{FOLDER}"
    try:
        stat(folder)
    except (OSError, ValueError):  # the usual case; or no folder of the file system
        return
    setattr(spec, NOTE, folder)


def install() -> None:
    """Puts the finder first, once per process."""
    if not any(type(finder).__module__ == __name__ for finder in sys.meta_path):
        sys.meta_path.insert(0, Finder())
