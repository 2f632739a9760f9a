# SPDX-License-Identifier: Apache-2.0
"""Whether anything has changed since the last build: told without setuptools, slices or tools, in a few milliseconds.

After a build into a folder, the cache keeps a note of all that decided what was built: the configuration, the names of
all Python files of the project and the contents of its modules, the variables and files that slices looked at, the
tools, and the files that were written. Where all of it is the same, the same build would write the same bytes. A doubt
about anything is an answer of "changed": then the build runs, and finds most images in the cache.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cudabuild import config
from cudabuild.build.reach import look_at
from cudabuild.cache.store import Cache
from cudabuild.cache.toolchain import identify_tools
from cudabuild.digest import digest

if TYPE_CHECKING:
    from cudabuild.build.execute import BuildResult
    from cudabuild.build.project import Project
    from cudabuild.build.settings import BuildSettings

__all__ = ["Stamp"]

_SCHEMA = 1

#: Read by setuptools and by our settings, relative to the project's root.
_CONFIGURATION = ("pyproject.toml", "setup.cfg", "setup.py", "~/.pydistutils.cfg", "~/pydistutils.cfg")

#: Variables of other programs that settings may be taken from.
_VARIABLES = ("CUDAARCHS", "TORCH_CUDA_ARCH_LIST", "DIST_EXTRA_CONFIG", "HOME", "PYTHONPATH")

#: How our own settings' variables begin; those that change no image are left out.
_OURS = "CUDABUILD_"
_HARMLESS = ("CUDABUILD_LOG", "CUDABUILD_CACHE_SIZE", "CUDABUILD_JIT", "CUDABUILD_IMAGES", "CUDABUILD_EXECUTOR")


class Stamp:
    """What one kind of build of one project depended on: before a build, ask; after it, :meth:`write`.

    Attributes:
        changed: what has changed since the last such build, as ``file or thing: how``; "" where nothing has.
        summary: what the last build told, where nothing has changed.
    """

    def __init__(self, root: str, request: Mapping[str, Any], cache: Cache | None = None) -> None:
        """Looks at the project as it is now.

        Args:
            root: the folder of pyproject.toml, the current folder of the build.
            request: what was asked for: options and the place to write to; plain values.
            cache: where the note is kept; the user's own by default.
        """
        self.root = os.path.abspath(root)
        self.summary: list[str] = []
        self._cache = Cache.open() if cache is None else cache
        about = json.dumps([self.root, sorted(request.items())], default=str)
        self._request = about
        self._name = f"build-{digest(about.encode('utf-8', 'surrogatepass')).hex()[:32]}"
        self._inputs = self._take_inputs()
        self.changed = self._compare()

    # What a build depends on before it runs

    def _take_inputs(self) -> dict[str, Any]:
        configuration = {
            name: _digest_file(os.path.join(self.root, os.path.expanduser(name))) for name in _CONFIGURATION
        }
        variables = {name: config.environment(name) for name in _VARIABLES}
        variables |= {name: value for name, value in config.all_variables(_OURS).items() if name not in _HARMLESS}
        tree = "\n".join(sorted(_list_modules(self.root)))
        return {
            "configuration": configuration,
            "variables": variables,
            "tools": identify_tools(0, whole=True).hex(),
            "machine": _name_machine(),
            "names of Python files": digest(tree.encode("utf-8", "surrogatepass")).hex(),
        }

    def _compare(self) -> str:
        data = self._cache.read_note(self._name)
        if data is None:
            return "no build is known"
        try:
            note = json.loads(data)
            if note["schema"] != _SCHEMA or note["request"] != self._request:
                return "the note is of another version"
            changed = self._find_change(note)
            self.summary = list(note["summary"])
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return "the note is damaged"
        return changed

    def _find_change(self, note: Mapping[str, Any]) -> str:
        for part, value in self._inputs.items():
            if note["inputs"][part] != value:
                return f"{part} changed"
        for path, known in note["sources"].items():
            if _digest_file(path) != known:
                return f"{path} changed"
        for name, known in note["reached"]["variables"].items():
            if config.environment(name) != known:
                return f"the environment variable {name} changed"
        for path, known in note["reached"]["files"].items():
            if look_at(path) != known:
                return f"{path} changed"
        for folder, files in note["outputs"].items():
            if _look_at_folder(folder) != files:
                return f"{folder} changed"
        return ""

    # After a build

    def write(
        self,
        project: Project,
        settings: BuildSettings,
        result: BuildResult,
        folders: Iterable[str],
        summary: Sequence[str],
    ) -> None:
        """Keeps a note of a build that has just been made; of one that cannot be compared later, none.

        Args:
            project, settings, result: of the build.
            folders: where the archives of its packages are or would be, for all of them.
            summary: what to tell where nothing has changed.
        """
        reason = self._find_obstacle(project, settings, result)
        if reason:
            config.log("info", f"the next build will look at everything again: {reason}")
            return
        # The modules' contents as the workers saw them, or older: then the next build finds a change.
        digests = {**self._sources_before, **{path: _digest_file(path) for path in settings.signature_files}}
        note = {
            "schema": _SCHEMA,
            "request": self._request,
            "inputs": self._inputs,
            "sources": digests,
            "reached": {
                "variables": dict(result.reached.variables),
                "files": {**dict(result.reached.files), **{path: look_at(path) for path in _tool_files()}},
            },
            "outputs": {folder: _look_at_folder(folder) for folder in folders},
            "summary": list(summary),
        }
        self._cache.write_note(self._name, json.dumps(note).encode())

    def watch(self, project: Project) -> None:
        """Takes the contents of a project's modules, before anybody reads them for a build."""
        self._sources_before = {file.path: _digest_file(file.path) for file in project.files.values()}

    _sources_before: Mapping[str, str] = {}

    def _find_obstacle(self, project: Project, settings: BuildSettings, result: BuildResult) -> str:
        """Why a later build cannot tell that nothing has changed, or ""."""
        configuration = self._inputs["configuration"]
        if configuration["setup.py"]:
            return "setup.py may decide anything"
        if self._inputs["variables"]["DIST_EXTRA_CONFIG"]:
            return "DIST_EXTRA_CONFIG is set"
        if result.reached.uncomparable:
            return f"a kernel's module asks for more than files and variables ({result.reached.uncomparable})"
        if settings.discovery != "slice":
            return "modules are imported as a whole"
        if any(os.path.relpath(file.path, self.root).startswith(os.pardir) for file in project.files.values()):
            return "a module stands outside of the project's folder"
        texts = [self._request, *filter(None, self._inputs["variables"].values())]
        for name in ("pyproject.toml", "setup.cfg"):
            with_text = _read(os.path.join(self.root, name)).decode("utf-8", "replace")
            if "cmdclass" in with_text:
                return f"{name} names command classes, which may decide anything"
            texts.append(with_text)
        if any("native" in text.lower() for text in texts):
            return "'native' asks for the GPUs of this machine"
        from cudabuild.backend.cubin import installed_linkers

        used = {image.toolchain.get("nvjitlink", "").partition(".")[0] for image in result.images} - {""}
        if not used <= set(map(str, installed_linkers())):
            return "nvJitLink does not come from one of NVIDIA's packages"
        return ""


def _name_machine() -> str:
    """Which machine this is: a cache may be shared, and a slice may ask where it runs."""
    return " ".join(os.uname()) if hasattr(os, "uname") else config.environment("COMPUTERNAME") or ""


def _tool_files() -> list[str]:
    """The files of the tools themselves: their folders tell of installing, not of a file put in place of another."""
    from cudabuild.backend import cubin, libdevice, llvm

    return [*cubin.find_files(), *libdevice.find_files(), *llvm.find_files()]


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as stream:
            return stream.read()
    except OSError:
        return b""


def _digest_file(path: str) -> str:
    """The digest of a file's contents; "" where there is none."""
    try:
        with open(path, "rb") as stream:
            return digest(stream.read()).hex()
    except OSError:
        return ""


def _list_modules(folder: str, inside: str = "", around: tuple[str, ...] = ()) -> Iterable[str]:
    """The names of all Python files below a folder that setuptools could take for modules; links are followed.

    Args:
        folder: where to look.
        inside: its name below the first folder, with a slash at the end.
        around: the real paths of the folders that links on the way here stand in, and of those that they lead to.
    """
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return
    if inside and any(entry.name == "pyvenv.cfg" for entry in entries):  # a virtual environment is no package of ours
        return
    for entry in entries:
        name = f"{inside}{entry.name}"
        if entry.name.endswith(".py"):
            yield name
        elif "." not in entry.name and not entry.name.startswith(("__pycache__", "_cudabuild")) and entry.is_dir():
            chain = around
            if entry.is_symlink():
                chain = (*around, os.path.realpath(folder))
                real = os.path.realpath(entry.path)
                if any(os.path.join(one, "").startswith(os.path.join(real, "")) for one in chain):
                    continue  # it leads back to where we come from: without end
                chain = (*chain, real)
            yield from _list_modules(entry.path, f"{name}/", chain)


def _look_at_folder(folder: str) -> dict[str, str] | None:
    """Name -> look of the files in a folder of archives; None where there is no such folder."""
    try:
        names = os.listdir(folder)
    except OSError:
        return None
    return {name: look_at(os.path.join(folder, name)) for name in sorted(names)}
