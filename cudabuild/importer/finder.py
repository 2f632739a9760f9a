# SPDX-License-Identifier: Apache-2.0
"""The import hook: notes on a package's spec that the package ships archives. It finds nothing itself.

An optimisation, never the only way: a kernel of a package that was already being imported when cudabuild came, of a
reloaded module, of ``__main__``, of a zip file is bound all the same (``binding.py`` looks for itself).
"""

from __future__ import annotations

import sys
from os import environ, stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

__all__ = ["ADOPTED", "DIALECT", "FOLDER", "Finder", "install", "is_adopted"]

#: The folder of a package that holds its archives.
FOLDER = "_cudabuild"

#: The file in it that says that the package is written for numba: its ``numba.cuda`` is ours (``adopt.py``).
DIALECT = "dialect-numba"

#: The attribute of a spec that names it.
NOTE = "cudabuild_archives"

#: The packages, sub-packages and modules that are adopted, with all below them.
ADOPTED: set[str] = set()


def is_adopted(module: str) -> bool:
    """Whether a module is, or would be, adopted."""
    while module not in ADOPTED:
        module = module.rpartition(".")[0]
        if not module:
            return False
    return True


class Finder:
    """Asks the finders behind it, and looks once into each top-level package that they find.

    Only top-level names are looked at: a sub-package's archives are its outermost package's. Of adopted packages all
    modules are, and their specs prepared. Whatever happens here, the answer is the other finders' own.
    """

    __slots__ = ()

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """See :meth:`importlib.abc.MetaPathFinder.find_spec`."""
        adopted = bool(ADOPTED) and is_adopted(name)
        if path is not None and not adopted:  # a submodule
            return None
        finders = sys.meta_path
        for finder in finders[finders.index(self) + 1 :]:
            try:
                find_spec = finder.find_spec
            except AttributeError:  # of the time before specs
                continue
            spec = find_spec(name, path, target)
            if spec is not None:
                if path is None and spec.submodule_search_locations and spec.origin is not None:
                    adopted = _note(spec) or adopted
                if adopted:
                    from cudabuild.importer.adopt import prepare_spec

                    prepare_spec(spec)
                return spec
        return None


def _note(spec: ModuleSpec) -> bool:
    """Notes a package's archives, if it has some; whether it says that it is to be adopted."""
    locations = spec.submodule_search_locations
    folder = f"{next(iter(locations or ()))}/{FOLDER}"
    try:
        stat(folder)
    except (OSError, ValueError):  # the usual case; or no folder of the file system
        return False
    setattr(spec, NOTE, folder)
    try:
        stat(f"{folder}/{DIALECT}")
    except OSError:
        return False
    from cudabuild.importer.adopt import adopt

    adopt(spec.name)
    return True


def install() -> None:
    """Puts the finder first, once per process, and adopts what ``CUDABUILD_ADOPT`` names."""
    if not any(type(finder).__module__ == __name__ for finder in sys.meta_path):
        sys.meta_path.insert(0, Finder())
    if environ.get("CUDABUILD_ADOPT"):  # asked here: config, which reads it, costs more than the whole import
        from cudabuild.importer.adopt import adopt_configured

        adopt_configured()
