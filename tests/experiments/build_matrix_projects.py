# SPDX-License-Identifier: Apache-2.0
"""Tiny projects of every layout, written for every build back-end: one module with one kernel in each."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = ["BACKENDS", "LAYOUTS", "NATIVE_LAYOUTS", "PACKAGES", "TARGETS", "Layout", "supports", "write_project"]

KERNEL = """\
\"\"\"A kernel, in a module that no build environment can import.\"\"\"

import no_such_package_anywhere
import cudabuild as cb

FACTOR = 3


@cb.kernel("float32[::1]")
def scale(x):
    x[0] = x[0] * FACTOR
"""

#: What every project is built for, with 64-bit indices.
TARGETS = ("sm_80", "sm_90")

TABLE = """
[tool.cudabuild]
archs = ["80", "90"]
ptx = "none"
index = "64"
"""

EXTENSION = """\
#include <Python.h>
static PyObject *answer(PyObject *self, PyObject *ignored) { return PyLong_FromLong(42); }
static PyMethodDef methods[] = {{"answer", answer, METH_NOARGS, "42"}, {NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_native", NULL, -1, methods};
PyMODINIT_FUNC PyInit__native(void) { return PyModule_Create(&module); }
"""


@dataclass(frozen=True)
class Layout:
    """Where a project keeps its module.

    Attributes:
        root: the folder that stands for ``site-packages`` in the source tree.
        module: the kernel's module.
        archives: the folder of its archives in a wheel.
        folder: the folder that is copied under another name, for ``package_dir``.
    """

    root: str
    module: str
    archives: str
    folder: str = ""

    @property
    def source(self) -> str:
        """The path of the module's source in the tree."""
        path = self.module.replace(".", "/") + ".py"
        if self.folder:
            path = path.replace(self.module.partition(".")[0], self.folder, 1)
        return f"{self.root}/{path}" if self.root else path

    @property
    def in_tree(self) -> str:
        """The folder of the archives in the tree."""
        folder = self.source.rpartition("/")[0]
        return f"{folder}/{self.archives.rpartition('/')[2]}" if folder else self.archives

    @property
    def package(self) -> str:
        return self.module.rpartition(".")[0]


LAYOUTS = {
    "src": Layout("src", "tiny.kernels", "tiny/_cudabuild"),
    "flat": Layout("", "tiny.kernels", "tiny/_cudabuild"),
    "namespace": Layout("src", "space.part.kernels", "space/part/_cudabuild"),
    "flat namespace": Layout("", "space.part.kernels", "space/part/_cudabuild"),
    "single module": Layout("", "single", "_cudabuild_single"),
    "package_dir": Layout("", "renamed.kernels", "renamed/_cudabuild", "lib"),
    "C extension": Layout("src", "tiny.kernels", "tiny/_cudabuild"),
    "Cython": Layout("src", "tiny.kernels", "tiny/_cudabuild"),
    "cmdclass": Layout("src", "tiny.kernels", "tiny/_cudabuild"),
    "setup.py only": Layout("src", "tiny.kernels", "tiny/_cudabuild"),
}
NATIVE_LAYOUTS = ("C extension", "Cython")

_PACKAGES = {"src", "flat", "namespace", "flat namespace"}
#: back-end -> the layouts that it can build at all (and that this module can write for it)
_SUPPORTED = {
    "setuptools": set(LAYOUTS),
    "wrapper + setuptools": set(LAYOUTS) - {"setup.py only"},
    "hatchling hook": {*_PACKAGES, "single module", "package_dir"},
    "hatchling": {*_PACKAGES, "single module", "package_dir"},
    "uv_build": _PACKAGES,
    "poetry-core": {*_PACKAGES, "single module"},
    "flit": {*_PACKAGES, "single module"},
    "scikit-build-core": {*_PACKAGES, "C extension"},
    "meson-python": {*_PACKAGES, "single module", "package_dir", "C extension"},
    "maturin": {"src", "flat"},
}

_REAL = {
    "setuptools": ("setuptools.build_meta", ("setuptools",)),
    "wrapper + setuptools": ("setuptools.build_meta", ("setuptools",)),
    "hatchling hook": ("hatchling.build", ("hatchling",)),
    "hatchling": ("hatchling.build", ("hatchling",)),
    "uv_build": ("uv_build", ("uv_build",)),
    "poetry-core": ("poetry.core.masonry.api", ("poetry-core",)),
    "flit": ("flit_core.buildapi", ("flit_core",)),
    "scikit-build-core": ("scikit_build_core.build", ("scikit-build-core",)),
    "meson-python": ("mesonpy", ("meson-python",)),
    "maturin": ("maturin", ("maturin",)),
}

BACKENDS = tuple(_REAL)
#: back-end -> the packages that have it
PACKAGES = {name: packages for name, (_, packages) in _REAL.items()}


def supports(backend: str, layout: str) -> bool:
    """True where such a project can be written for a back-end."""
    return layout in _SUPPORTED[backend]


def write_project(folder: Path, backend: str, layout: str, setuptools: str = "") -> str:
    """Writes a project.

    Args:
        folder: where; it must not exist.
        backend: a key of the table of back-ends.
        layout: one of ``LAYOUTS``.
        setuptools: the version that ``requires`` pins, or "".

    Returns:
        The object with the hooks of PEP 517 that ``[build-system]`` names.
    """
    place = LAYOUTS[layout]
    files = {place.source: KERNEL}
    if place.package:
        files[place.source.replace("kernels.py", "__init__.py")] = '"""Tiny."""\n'
    files.update(_write_native(backend, layout))
    object_name, requires = _REAL[backend]
    wrapped = backend not in ("setuptools", "hatchling hook")
    named = "cudabuild.build_meta" if wrapped else object_name
    if layout == "setup.py only":
        files["setup.py"] = _SETUP_ONLY
        files["setup.cfg"] = "[build_cuda]\narchs = 80 90\nptx = none\nindex = 64\n"
        named = "setuptools.build_meta:__legacy__"
    else:
        needed = [f"setuptools=={setuptools}" if one == "setuptools" and setuptools else one for one in requires]
        if setuptools and tuple(map(int, setuptools.split(".")[:2])) < (70, 1):
            needed.append("wheel<0.46")  # later ones leave bdist_wheel to setuptools, which has it from 70.1 on
        if layout == "Cython":
            needed.append("Cython")
        # The wrapper asks for what compiling needs by itself; a plug-in cannot, but for hatchling's.
        needed.append("cudabuild[build]" if backend == "setuptools" else "cudabuild")
        text = f'[build-system]\nrequires = {needed}\nbuild-backend = "{named}"\n'.replace("'", '"')
        text += '[project]\nname = "tiny-matrix"\nversion = "1.0"\ndescription = "Tiny"\nrequires-python = ">=3.10"\n'
        text += _TABLES[backend](layout, place) + TABLE
        files["pyproject.toml"] = text + (f'build-backend = "{object_name}"\n' if wrapped else "")
        if "setuptools" in backend:
            files["MANIFEST.in"] = f"graft {place.source.partition('/')[0]}\n" if "/" in place.source else "graft .\n"
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return named


_SETUP_ONLY = """\
from setuptools import setup

setup(name="tiny-matrix", version="1.0", packages=["tiny"], package_dir={"": "src"}, cuda_kernels=True)
"""

_BUILD_PY = """\
from setuptools.command.build_py import build_py


class BuildPy(build_py):
    def run(self):
        super().run()
        with open("built_by.txt", "w") as stream:
            stream.write("the project's own build_py")
"""


def _write_native(backend: str, layout: str) -> dict[str, str]:
    files: dict[str, str] = {}
    if layout == "C extension":
        files["src/tiny/_native.c"] = EXTENSION
        if "setuptools" in backend:
            files["setup.py"] = (
                "from setuptools import Extension, setup\n"
                'setup(ext_modules=[Extension("tiny._native", ["src/tiny/_native.c"])])\n'
            )
    if layout == "Cython":
        files["src/tiny/_native.pyx"] = "# cython: language_level=3\ndef answer():\n    return 42\n"
        files["setup.py"] = (
            "from Cython.Build import cythonize\nfrom setuptools import Extension, setup\n"
            'setup(ext_modules=cythonize([Extension("tiny._native", ["src/tiny/_native.pyx"])]))\n'
        )
    if layout == "cmdclass":
        files["src/own_commands.py"] = _BUILD_PY  # setuptools looks for it below package-dir
    if backend == "meson-python":
        files["meson.build"] = _write_meson(layout)
    if backend == "scikit-build-core" and layout == "C extension":
        files["CMakeLists.txt"] = (
            "cmake_minimum_required(VERSION 3.20)\nproject(tiny LANGUAGES C)\n"
            "find_package(Python REQUIRED COMPONENTS Interpreter Development.Module)\n"
            "python_add_library(_native MODULE src/tiny/_native.c WITH_SOABI)\n"
            "install(TARGETS _native DESTINATION tiny)\n"
        )
    if backend == "maturin":
        files["Cargo.toml"] = '[package]\nname = "tiny-matrix"\nversion = "1.0.0"\nedition = "2021"\n'
        files["Cargo.toml"] += '[[bin]]\nname = "tiny-matrix"\npath = "rust/main.rs"\n'
        files["rust/main.rs"] = 'fn main() { println!("42"); }\n'
    return files


def _write_meson(layout: str) -> str:
    place = LAYOUTS[layout]
    pure = layout != "C extension"
    subdir = place.package.replace(".", "/")
    sources = [place.source] + ([place.source.replace("kernels.py", "__init__.py")] if place.package else [])
    text = f"project('tiny', {'' if pure else repr('c') + ', '}version: '1.0')\n"
    text += f"py = import('python').find_installation(pure: {str(pure).lower()})\n"
    text += f"py.install_sources({sources!r}, subdir: '{subdir}')\n"
    if not pure:
        text += "py.extension_module('_native', 'src/tiny/_native.c', install: true, subdir: 'tiny')\n"
    return text


def _setuptools(layout: str, place: Layout) -> str:
    if layout == "single module":
        return '[tool.setuptools]\npy-modules = ["single"]\n'
    if layout == "package_dir":
        return '[tool.setuptools]\npackages = ["renamed"]\npackage-dir = { renamed = "lib" }\n'
    text = f'[tool.setuptools.packages.find]\nwhere = ["{place.root or "."}"]\ninclude = ["tiny*", "space*"]\n'
    if layout == "cmdclass":
        text += '[tool.setuptools.cmdclass]\nbuild_py = "own_commands.BuildPy"\n'
    return text


def _hatchling(layout: str, place: Layout) -> str:
    head = "[tool.hatch.build.targets.wheel]\n"
    if layout == "single module":
        return head + 'only-include = ["single.py"]\n'
    if layout == "package_dir":
        return head + 'only-include = ["lib"]\nsources = { lib = "renamed" }\n'
    top = place.module.partition(".")[0]
    return head + f'packages = ["{place.root + "/" if place.root else ""}{top}"]\n'


def _hatchling_hook(layout: str, place: Layout) -> str:
    return _hatchling(layout, place) + "[tool.hatch.build.hooks.cudabuild]\n"


def _uv_build(layout: str, place: Layout) -> str:
    return f'[tool.uv.build-backend]\nmodule-name = "{place.package}"\nmodule-root = "{place.root}"\n'


def _poetry(layout: str, place: Layout) -> str:
    what = "single.py" if layout == "single module" else place.module.partition(".")[0]
    origin = f', from = "{place.root}"' if place.root else ""
    return f'[tool.poetry]\npackages = [{{ include = "{what}"{origin} }}]\n'


def _flit(layout: str, place: Layout) -> str:
    return f'[tool.flit.module]\nname = "{place.package or place.module}"\n'


def _scikit_build_core(layout: str, place: Layout) -> str:
    top = place.module.partition(".")[0]
    text = f'[tool.scikit-build]\nwheel.packages = ["{place.root + "/" if place.root else ""}{top}"]\n'
    return text + ("" if layout == "C extension" else "wheel.cmake = false\n")


def _meson(layout: str, place: Layout) -> str:
    return ""


def _maturin(layout: str, place: Layout) -> str:
    source = f'python-source = "{place.root}"\n' if place.root else ""
    return f'[tool.maturin]\nbindings = "bin"\nmodule-name = "tiny"\n{source}'


_TABLES = {
    "setuptools": _setuptools,
    "wrapper + setuptools": _setuptools,
    "hatchling hook": _hatchling_hook,
    "hatchling": _hatchling,
    "uv_build": _uv_build,
    "poetry-core": _poetry,
    "flit": _flit,
    "scikit-build-core": _scikit_build_core,
    "meson-python": _meson,
    "maturin": _maturin,
}
