# SPDX-License-Identifier: Apache-2.0
"""A PEP 517 and PEP 660 build back-end that adds compiled kernels to the wheel of any other back-end.

In pyproject.toml::

    [build-system]
    requires = ["hatchling", "cudabuild"]
    build-backend = "cudabuild.build_meta"

    [tool.cudabuild]
    build-backend = "hatchling.build"        # setuptools.build_meta by default
    archs = ["80", "90"]

Every hook is the real back-end's; an optional one exists here only where it exists there. Besides:

- ``-C cudabuild.archs=90`` and the like overrule the environment and the table; the real back-end does not see them;
- what compiling needs is asked for by ``get_requires_for_build_wheel`` alone: a source distribution needs no compiler;
- archives go into the finished wheel, unless a plug-in (setuptools' or hatchling's) has put them there already;
- archives of an in-place build stay out of source distributions;
- an editable installation is the real back-end's own. With setuptools its plug-in builds in place; with others kernels
  are compiled when they are first launched, or by ``python -m cudabuild build --inplace``.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from cudabuild.build.real_backend import call_with_settings, choose_extras, find_compile_requirements, get_backend
from cudabuild.errors import CudabuildError

__all__ = ["build_sdist", "build_wheel", "get_requires_for_build_wheel"]

_Settings = Mapping[str, Any] | None

_OPTIONAL = (
    "build_editable",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
)


def build_wheel(wheel_directory: str, config_settings: _Settings = None, metadata_directory: str | None = None) -> str:
    """Lets the real back-end build a wheel, and puts the kernels' archives into it.

    Returns:
        The wheel's file name in ``wheel_directory``; nothing is there if a kernel is wrong.
    """

    def build(folder: str, backend: Any, settings: dict[str, Any] | None, shipped: list[bool]) -> str:
        name: str = backend.build_wheel(folder, settings, metadata_directory)
        if not shipped:
            from cudabuild.build.wheel_build import ship_in_wheel

            ship_in_wheel(os.path.join(folder, name), os.getcwd())
        return name

    return _make(wheel_directory, config_settings, build)


def build_sdist(sdist_directory: str, config_settings: _Settings = None) -> str:
    """Lets the real back-end build a source distribution; takes out archives that an in-place build has left, and adds
    the signature files that the build needs, where the back-end did not take them."""

    def build(folder: str, backend: Any, settings: dict[str, Any] | None, shipped: list[bool]) -> str:
        from cudabuild.build.sdist_file import remove_artefacts
        from cudabuild.build.sources import read_signature_files

        name: str = backend.build_sdist(folder, settings)
        remove_artefacts(os.path.join(folder, name), read_signature_files(os.getcwd()))
        return name

    return _make(sdist_directory, config_settings, build)


def get_requires_for_build_wheel(config_settings: _Settings = None) -> list[str]:
    """What the real back-end asks for, and what compiling needs by the project's settings."""
    asked = _delegate("get_requires_for_build_wheel", config_settings) if _has("get_requires_for_build_wheel") else []
    with _errors_as_text(), call_with_settings(config_settings):
        ours = find_compile_requirements(choose_extras(os.getcwd()))
    return [*asked, *(one for one in ours if one not in asked)]


def _make(folder: str, given: _Settings, build: Callable[[str, Any, dict[str, Any] | None, list[bool]], str]) -> str:
    """Builds in a folder of its own beside the result: what fails half-way leaves nothing that looks finished."""
    with _errors_as_text(), call_with_settings(given) as (settings, shipped):
        backend = get_backend(os.getcwd())
        with tempfile.TemporaryDirectory(prefix=".cudabuild-", dir=folder) as scratch:
            name = build(scratch, backend, settings, shipped)
            os.replace(os.path.join(scratch, name), os.path.join(folder, name))
        return name


@contextlib.contextmanager
def _errors_as_text() -> Iterator[None]:
    """The message alone where the user's project is wrong: front-ends print whatever a back-end ends with."""
    try:
        yield
    except CudabuildError as error:
        raise SystemExit(f"error: {error}") from None


def _has(name: str) -> bool:
    with _errors_as_text():
        return hasattr(get_backend(os.getcwd()), name)


def _delegate(name: str, given: _Settings, *before: str, after: tuple[Any, ...] = ()) -> Any:
    with _errors_as_text(), call_with_settings(given) as (settings, _):
        return getattr(get_backend(os.getcwd()), name)(*before, settings, *after)


def _make_optional(name: str) -> Callable[..., Any]:
    """One of the optional hooks, with the parameters that front-ends give it by position or by name."""
    if name.startswith("get_requires_for_"):

        def ask(config_settings: _Settings = None) -> Any:
            return _delegate(name, config_settings)

        return ask
    if name.startswith("prepare_metadata_for_"):

        def prepare(metadata_directory: str, config_settings: _Settings = None) -> Any:
            return _delegate(name, config_settings, metadata_directory)

        return prepare

    def build(wheel_directory: str, config_settings: _Settings = None, metadata_directory: str | None = None) -> Any:
        return _delegate(name, config_settings, wheel_directory, after=(metadata_directory,))

    return build


def __getattr__(name: str) -> Any:
    if name in _OPTIONAL and _has(name):
        hook = _make_optional(name)
        hook.__name__ = hook.__qualname__ = name
        return hook
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
