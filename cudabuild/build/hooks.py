# SPDX-License-Identifier: Apache-2.0
"""The hook into setuptools: runs in every setuptools process of an environment that has cudabuild installed.

So it must cost nothing and must not fail where nothing asks for it; and it imports nothing that it does not need.
A project asks by ``[tool.cudabuild]`` in pyproject.toml, by ``cudabuild.build_meta`` as its build back-end, or, with
a setup.py only, by ``setup(cuda_kernels=True)``.
"""

from __future__ import annotations

import os
from typing import Any

__all__ = ["check_keyword", "finalize_distribution"]

#: Set on the distributions and command classes that this module has dealt with.
_MARK = "_cudabuild"
_KEYWORD = "cuda_kernels"


def finalize_distribution(distribution: Any) -> None:
    """Makes ``build_cuda`` part of ``build`` if the project asks for it.

    The entry point ``setuptools.finalize_distribution_options``: called at the end of ``Distribution.__init__``, before
    pyproject.toml is applied.
    """
    if hasattr(distribution, _MARK) or not (getattr(distribution, _KEYWORD, None) or _asks_in_pyproject()):
        return
    setattr(distribution, _MARK, True)
    _install(distribution)
    parse = distribution.parse_config_files

    def parse_config_files(*args: Any, **keywords: Any) -> None:
        parse(*args, **keywords)
        # [tool.setuptools.cmdclass] has just replaced what stood in cmdclass.
        _install(distribution)

    distribution.parse_config_files = parse_config_files


finalize_distribution.order = 10  # type: ignore[attr-defined]


def check_keyword(distribution: Any, keyword: str, value: Any) -> None:
    """Checks ``setup(cuda_kernels=...)``, the entry point ``distutils.setup_keywords``.

    Raises:
        SettingError: neither True nor False.
    """
    if not isinstance(value, bool):
        from cudabuild.errors import SettingError

        raise SettingError(
            f"bad value of {keyword} in setup()\n  found:    {value!r}\n  expected: True or False\n"
            "  do:       write settings in [tool.cudabuild] of pyproject.toml, or in [build_cuda] of setup.cfg"
        )


def _asks_in_pyproject() -> bool:
    try:
        with open("pyproject.toml", "rb") as stream:
            if b"cudabuild" not in stream.read():
                return False
    except OSError:
        return False
    from cudabuild.build.real_backend import is_delegating
    from cudabuild.build.settings import read_table
    from cudabuild.errors import SettingError

    try:
        return is_delegating() or read_table(os.getcwd()) is not None
    except SettingError:
        return False  # setuptools reads the same file and says what is wrong with it


def _install(distribution: Any) -> None:
    """Derives ``build``, ``build_ext`` and ``egg_info`` from whatever classes the project uses for them."""
    from cudabuild.build.command import build_cuda

    distribution.cmdclass.setdefault("build_cuda", build_cuda)
    for name, derive in (("build", _derive_build), ("build_ext", _derive_build_ext), ("egg_info", _derive_egg_info)):
        base = distribution.get_command_class(name)
        if not getattr(base, _MARK, False):
            derived = derive(base)
            setattr(derived, _MARK, True)
            derived.__name__, derived.__qualname__ = base.__name__, base.__qualname__
            distribution.cmdclass[name] = derived


def _derive_build(base: Any) -> Any:
    class Build(base):
        sub_commands = [*base.sub_commands, ("build_cuda", None)]

    return Build


def _derive_build_ext(base: Any) -> Any:
    class BuildExt(base):
        def run(self) -> None:
            super().run()
            if self.inplace and not getattr(self, "editable_mode", False):
                self.distribution.get_command_obj("build_cuda").inplace = True
                self.run_command("build_cuda")

    return BuildExt


def _derive_egg_info(base: Any) -> Any:
    class EggInfo(base):
        def find_sources(self) -> None:
            """Keeps archives of an in-place build out of the list of sources, and so out of the sdist; signature files,
            which the build reads, are put in."""
            from cudabuild.build.plan import is_artefact
            from cudabuild.build.sources import find_signature_files

            super().find_sources()
            known = {path.replace(os.sep, "/") for path in self.filelist.files}
            missing = [path for path in find_signature_files(os.getcwd()) if path not in known]
            dropped = {path for path in self.filelist.files if is_artefact(path)}
            if not dropped and not missing:
                return
            self.filelist.files = [path for path in self.filelist.files if path not in dropped]
            self.filelist.files += [path.replace("/", os.sep) for path in missing]
            manifest = os.path.join(self.egg_info, "SOURCES.txt")
            with open(manifest, encoding="utf-8") as stream:
                lines = stream.readlines()
            with open(manifest, "w", encoding="utf-8", newline="\n") as stream:
                stream.writelines(line for line in lines if not is_artefact(line.rstrip("\n")))
                stream.writelines(f"{path}\n" for path in missing)

    return EggInfo
