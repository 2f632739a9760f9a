# SPDX-License-Identifier: Apache-2.0
"""Adopted packages see this package's names where they import numba; everybody else sees what they always saw."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path

import pytest
from package_kit import CHECKOUT, write_files

import cudabuild
from cudabuild.errors import CudabuildError
from cudabuild.importer import adopt as adopt_module
from cudabuild.importer.finder import ADOPTED, is_adopted
from cudabuild.numba.tables import MODULES, SAME
from cudabuild.numba.tree import NumbaModule, NumbaNameError, NumbaTree

#: What stands for an installed numba: enough to see who gets it.
NUMBA = {
    "numba/__init__.py": """
        __version__ = "9.9"
        class Compiled:
            def __init__(self, function, *spec, **options):
                self.py_func, self.spec, self.options = function, spec, options
            def __call__(self, *args):
                return self.py_func(*args)
        def njit(*spec, **options):
            if spec and callable(spec[0]) and hasattr(spec[0], "__code__"):
                return Compiled(*spec, **options)
            return lambda function: Compiled(function, *spec, **options)
        class prange: pass
        speciality = "the real one's"
    """,
    "numba/cuda.py": "whose = 'the real one'",
    "numba/typed.py": "Dict = dict",
    "numba/config.py": "THREADING_LAYER = 'real'",
    "numba/extending.py": """
        from functools import singledispatch
        typeof_impl = singledispatch(lambda value, context: None)
    """,
    "numba/types.py": "from numba.core.types import *",
    "numba/core/__init__.py": "",
    "numba/core/types.py": """
        class Kind(str):
            def __call__(self, *args): return f"{self}({args})"
        float64, int64, none, unicode_type = map(Kind, ("f8", "i8", "none", "unicode"))
        class Module:
            def __init__(self, module): self.module = module
        def Array(dtype, ndim, layout, readonly=False): return f"{dtype} {ndim} {layout}"
    """,
}

PACKAGE = {
    "old/__init__.py": "from old.kernels import *",
    "old/kernels.py": """
        import importlib
        import importlib.util as util
        import math
        import numba
        import numba.core.types
        import numba.cuda.random as random
        from importlib import import_module
        from numba import cuda, float32, njit, prange, types
        from numba.cuda.random import xoroshiro128p_uniform_float32
        from numba.np.numpy_support import from_dtype

        @njit(fastmath=True)
        def twice(x):
            return numba.float64(x) * types.float64(2)

        @cuda.jit
        def scale(x):
            i = cuda.grid(1)
            if i < x.size:
                x[i] = twice(x[i]) + math.sqrt(4.0)

        class Holder:
            @staticmethod
            @numba.cuda.jit("void(float64[:])")
            def add_one(x):
                i = numba.cuda.grid(1)
                if i < x.size:
                    x[i] += 1

        def late():
            import numba.cuda
            from numba import cuda as again
            return [numba.cuda, again, importlib.import_module("numba.cuda"), import_module(".cuda", "numba"),
                    __import__("numba").cuda, numba.core.types.float64, util.find_spec("numba.cuda") is not None,
                    importlib.util.find_spec("numba.nothing"), importlib.reload, numba.cuda.is_available()]
    """,
    "other.py": """
        try:
            import numba
            from numba import cuda
        except ImportError as error:
            numba = cuda = error
    """,
}

SEE = """
    import sys, warnings
    import cudabuild
    warnings.simplefilter("ignore")
    cudabuild.adopt("old")
    import old, other
    from old import kernels
"""


#: Numba may be installed beside the tests.
HIDE_NUMBA = """
import sys
class Hide:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "numba":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Hide())
"""


def run(root: Path, code: str, *, real: bool = False, **environment: str) -> str:
    """What a fresh process prints, on the CPU device; where ``root`` has no numba, there is none unless ``real``."""
    search = os.pathsep.join(map(str, [root, CHECKOUT]))
    variables = {**os.environ, "PYTHONPATH": search, "PYTHONDONTWRITEBYTECODE": "1", "CUDABUILD_DEVICE": "cpu"}
    hidden = "" if (root / "numba").exists() or real else HIDE_NUMBA
    command = [sys.executable, "-c", hidden + textwrap.dedent(code)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False, env={**variables, **environment}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


@pytest.fixture(params=["numba absent", "numba installed"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder with a package for numba, one that is not adopted, and in one case a numba."""
    return write_files(tmp_path, {**PACKAGE, **(NUMBA if request.param == "numba installed" else {})})


def test_adopted_and_others_hold_different_numbas(root: Path) -> None:
    told = run(
        root,
        SEE
        + """
    import cudabuild.cuda
    kinds = kernels.numba, kernels.cuda, kernels.random, other.cuda
    print(kernels.cuda.grid is cudabuild.cuda.grid, kernels.float32 is cudabuild.float32, kernels.random.__name__)
    print(getattr(other.cuda, "whose", type(other.cuda).__name__))
    print(sys.modules.get("numba") is (None if isinstance(other.numba, ImportError) else other.numba))
    print(sorted(name for name in sys.modules if name.startswith("numba.cuda")))
    """,
    ).splitlines()
    installed = (root / "numba").exists()
    assert told[0] == "True True cudabuild.cuda.random"
    assert told[1] == ("the real one" if installed else "ModuleNotFoundError")
    assert told[2] == "True"
    assert told[3] == ("['numba.cuda']" if installed else "[]")


def test_every_way_of_importing_late(root: Path) -> None:
    told = run(
        root,
        SEE
        + """
    import importlib
    *same, kind, found, missing, reload, available = kernels.late()
    print(all(module is kernels.cuda for module in same), kind is cudabuild.float64, found, missing, available)
    print(reload is importlib.reload)
    """,
    )
    assert told == "True True True None True\nTrue"


def test_kernels_and_their_helpers_run(root: Path) -> None:
    """A function that numba compiles for CPUs, or would, is a device function for kernels."""
    told = run(
        root,
        SEE
        + """
    import numpy as np
    x = np.arange(4.0)
    kernels.scale[1, 32](x)
    kernels.Holder.add_one[1, 32](x)
    print(x.tolist(), float(kernels.twice.py_func(3.0)) if hasattr(kernels.twice, "options") else kernels.twice(3.0))
    print(getattr(kernels.twice, "options", "plain"), kernels.prange is range)
    """,
    ).splitlines()
    installed = (root / "numba").exists()
    assert told[0] == "[3.0, 5.0, 7.0, 9.0] 6.0"
    assert told[1] == ("{'fastmath': True} False" if installed else "plain True")


def test_environment_adopts(root: Path) -> None:
    code = "import cudabuild, other, old.kernels as k; print(k.cuda.grid is cudabuild.cuda.grid, type(other.cuda))"
    assert run(root, code, CUDABUILD_ADOPT="old,another").startswith("True")


def test_cpu_signatures_are_numbas_types(tmp_path: Path) -> None:
    files = {
        **NUMBA,
        "old.py": """
            from numba import njit, types, typed, config, speciality
            import numba
            @njit(types.float64(types.float64[:, ::1], types.int64), locals={"x": types.float64})
            def f(x, y): return x
            @njit([types.void(types.int64)])
            def g(x): return x
            kinds = types.unicode_type, numba.__version__, speciality, isinstance({}, typed.Dict)
            made = typed.Dict(a=types.int64)
            config.THREADING_LAYER = "omp"
            config.CUDA_LOW_OCCUPANCY_WARNINGS = 0
        """,
    }
    told = run(
        write_files(tmp_path, files),
        """
        import cudabuild
        cudabuild.adopt("old")
        import old, numba.config
        print(old.f.spec, old.f.options, old.g.spec, old.kinds, old.made)
        print(numba.config.THREADING_LAYER, cudabuild.cuda.config.CUDA_LOW_OCCUPANCY_WARNINGS)
        """,
    )
    assert told.splitlines() == [
        """("f8(('f8 2 C', 'i8'))",) {'locals': {'x': 'f8'}} (["none(('i8',))"],) """
        """('unicode', '9.9', "the real one's", True) {'a': 'i8'}""",
        "omp 0",
    ]


def test_what_is_missing_says_what_to_do(tmp_path: Path) -> None:
    write_files(
        tmp_path,
        {
            "old/__init__.py": "",
            "old/a.py": "from numba import set_num_threads",
            "old/b.py": "import numba.typed",
            "old/c.py": "from numba.cuda.cudadrv import nvvm",
            "old/d.py": "import numba; print(hasattr(numba, 'nothing'))",
            "old/e.py": """
                from numba import guvectorize
                @guvectorize(["void(float64[:], float64[:])"], "(n)->(n)")
                def f(x, out): pass
            """,
        },
    )
    told = run(
        tmp_path,
        """
        import cudabuild, importlib
        cudabuild.adopt("old")
        for name in "abcde":
            try:
                importlib.import_module("old." + name)
            except ImportError as error:
                print(type(error).__name__, error.name, error)
        import old.e
        try:
            old.e.f(1, 2)
        except cudabuild.CudabuildError as error:
            print(error)
        """,
    )
    assert told == textwrap.dedent(
        """\
        ImportError numba numba.set_num_threads belongs to numba's CPU side, and numba is not installed
          found:    an import by an adopted package
          do:       pip install numba: kernels stay cudabuild's, and everything else is numba's then
        ModuleNotFoundError numba.typed numba.typed belongs to numba's CPU side, and numba is not installed
          found:    an import by an adopted package
          do:       pip install numba: kernels stay cudabuild's, and everything else is numba's then
        ImportError numba.cuda.cudadrv cudabuild has no numba.cuda.cudadrv.nvvm
          found:    an import by an adopted package
          do:       adopt only the modules that hold kernels (cudabuild.adopt('package.module')), and leave the one that asks for this to numba
        False
        old.e.f is compiled by numba.guvectorize, and numba is not installed
          do:       pip install numba: kernels stay cudabuild's, and this function is numba's then"""  # noqa: E501
    )


def test_too_late_is_an_error(root: Path) -> None:
    told = run(
        root,
        """
        import cudabuild
        cudabuild.adopt("old.nothing")
        import json
        try:
            cudabuild.adopt("json")
        except cudabuild.CudabuildError as error:
            print(error)
        """,
    )
    assert told.splitlines()[0] == "json cannot be adopted any more"
    assert "call cudabuild.adopt('json') before the first import of json, or set CUDABUILD_ADOPT=json" in told


@pytest.mark.parametrize("name", ["", "a-b", "a..b", "numba", "numpy.linalg", "cudabuild", 3])
def test_bad_names(name: str) -> None:
    before = set(ADOPTED)
    with pytest.raises(CudabuildError, match="this cannot be adopted\n  found:    "):
        cudabuild.adopt(name)
    assert before == ADOPTED


def test_names_cover_what_is_below() -> None:
    ADOPTED.add("some_package.part")
    try:
        assert is_adopted("some_package.part")
        assert is_adopted("some_package.part.inner.most")
        assert not is_adopted("some_package")
        assert not is_adopted("some_package.parts")
    finally:
        ADOPTED.discard("some_package.part")


def test_a_package_adopts_itself(tmp_path: Path) -> None:
    """Its ``__init__`` says so; what it imports after that, and its own later functions, are adopted."""
    write_files(
        tmp_path,
        {
            "own/__init__.py": """
                import cudabuild
                cudabuild.adopt(__name__)
                from own import inner
                def late():
                    from numba import cuda
                    return cuda
            """,
            "own/inner.py": "from numba import cuda",
        },
    )
    assert run(tmp_path, "import own; print(own.inner.cuda.grid, own.late() is own.inner.cuda)") == "cuda.grid True"


def test_a_wheel_built_for_numba_adopts_itself(tmp_path: Path) -> None:
    """The build's note beside the archives is enough, where cudabuild was imported first."""
    files = {"own/__init__.py": "from numba import cuda", "own/_cudabuild/index.json": "{}"}
    write_files(tmp_path, {**files, "own/_cudabuild/dialect-numba": ""})
    assert run(tmp_path, "import cudabuild, own; print(own.cuda.grid)") == "cuda.grid"
    (tmp_path / "own/_cudabuild/dialect-numba").unlink()
    assert run(tmp_path, "import cudabuild\ntry:\n    import own\nexcept ImportError: print('no')") == "no"


def test_zip_files_and_reload(tmp_path: Path) -> None:
    """One loader serves all modules of a zip file, adopted or not."""
    with zipfile.ZipFile(tmp_path / "both.zip", "w") as archive:
        archive.writestr("old.py", "from numba import cuda")
        archive.writestr("other.py", textwrap.dedent(PACKAGE["other.py"]))
    told = run(
        tmp_path,
        """
        import sys
        sys.path.insert(0, [path for path in sys.path if path][0] + "/both.zip")
        import cudabuild, importlib
        cudabuild.adopt("old")
        import old, other
        print(old.cuda.grid, type(other.cuda).__name__, importlib.reload(old).cuda.grid)
        """,
    )
    assert told == "cuda.grid ModuleNotFoundError cuda.grid"


def test_loaders_keep_their_class_and_names_added_to_builtins_are_seen(tmp_path: Path) -> None:
    write_files(tmp_path, {"old/__init__.py": "", "old/a.py": "import numba\ndef f(): return _('x')"})
    told = run(
        tmp_path,
        """
        import builtins, inspect, pkgutil
        import cudabuild
        cudabuild.adopt("old")
        import old
        builtins._ = str.upper
        import old.a
        print(type(old.a.__loader__).__name__, old.a.f(), inspect.getsource(old.a.f).strip())
        print(pkgutil.get_data("old", "a.py").splitlines()[0])
        """,
    )
    assert told == "SourceFileLoader X def f(): return _('x')\nb'import numba'"


def test_unadopted_imports_pay_nothing(tmp_path: Path) -> None:
    """Nothing of adoption is imported until something is adopted."""
    told = run(
        tmp_path, "import sys, cudabuild, json; print([n for n in sys.modules if 'adopt' in n or '.numba' in n])"
    )
    assert told == "[]"


def test_every_module_of_the_tree_can_be_imported() -> None:
    tree = NumbaTree(takes_real=False)
    cpu_only = {"numba.typed", "numba.experimental"}
    for name in cpu_only:
        with pytest.raises(ModuleNotFoundError, match="means nothing to a kernel"):
            tree.find_module(name)
    own = [name for name in MODULES if name not in cpu_only]
    for name in (*own, *SAME, "numba.config"):
        module = tree.find_module(name)
        parent, _, last = name.rpartition(".")
        if parent:
            assert getattr(tree.find_module(parent), last) is module, name
    for name in own:
        module = tree.find_module(name)
        for public in module.__all__:
            assert getattr(module, public, None) is not None, f"{name}.{public}"


def test_modules_pickle_by_name() -> None:
    import pickle

    module = adopt_module.TREE.find_module("numba.cuda")
    assert isinstance(module, NumbaModule)
    assert pickle.loads(pickle.dumps(module)) is module


def test_a_build_has_no_cpu_side() -> None:
    tree = NumbaTree(takes_real=False)
    numba = tree.import_name("numba", ("cuda", "njit", "prange", "types", "float32"))

    def function() -> None: ...

    assert numba.njit(function) is numba.jit(nopython=True)(function) is function
    assert numba.types.boolean is cudabuild.bool_
    assert numba.core.types.f4 is cudabuild.float32
    with pytest.raises(NumbaNameError, match=r"numba\.typed means nothing to a kernel"):
        _ = numba.typed


@pytest.mark.skipif(not adopt_module.TREE.find_real("numba"), reason="numba is not installed")
def test_with_the_real_numba(tmp_path: Path) -> None:
    write_files(
        tmp_path,
        {
            "old.py": """
                import numba
                from numba import njit, prange, types, vectorize, float64
                from numba.experimental import jitclass
                from numba.typed import Dict, List
                names = Dict.empty(key_type=types.unicode_type, value_type=types.float64)
                names["a"] = 1.0
                @jitclass([("x", types.float64), ("y", types.float64[:])])
                class Pair:
                    def __init__(self, x, y):
                        self.x, self.y = x, y
                @njit
                def look(names):
                    made = Dict.empty(types.int64, types.float64)
                    made[1] = numba.float64(2)
                    return names["a"] + made[1]
                @njit(types.float64(types.float64[:]), parallel=True)
                def total(x):
                    s = numba.float64(0)
                    for i in numba.prange(x.size):
                        s += types.float64(x[i])
                    return s
                @vectorize([float64(float64)])
                def double(x):
                    return x * 2
            """
        },
    )
    code = """
    import cudabuild
    cudabuild.adopt("old")
    import old, numpy as np
    kind = old.types.ListType(old.types.float64)
    print(old.total(old.double(np.ones(3))), old.look(old.names), old.Pair(3.0, np.ones(2)).x)
    print(isinstance(old.names, old.Dict), isinstance(kind, old.types.ListType), kind)
    """
    assert run(tmp_path, code, real=True) == "6.0 3.0 3.0\nTrue True ListType[float64]"


def test_recording_adopts_programs_that_do_not_know_of_it(tmp_path: Path) -> None:
    """A ``sitecustomize`` of the user's own still runs."""
    write_files(
        tmp_path,
        {
            **PACKAGE,
            "sitecustomize.py": "import builtins; builtins.customized = 'yes'",
            "program.py": """
                import numpy as np
                from old import kernels
                kernels.scale[1, 32](np.arange(4.0))
                print(customized, __name__)
            """,
        },
    )
    command = ["-m", "cudabuild", "record", "--out", "found.toml", "--", sys.executable, "program.py"]
    done = subprocess.run(
        [sys.executable, *command], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(CHECKOUT)]), "CUDABUILD_DEVICE": "cpu",
             "CUDABUILD_ADOPT": "old", "PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.strip() == "yes __main__"
    assert "found.toml: 1 kernel and 1 signature new" in done.stderr
    assert 'name = "old.kernels:scale"' in (tmp_path / "found.toml").read_text(encoding="utf-8")


def test_functions_of_a_package_that_was_imported_without_a_gpu(tmp_path: Path) -> None:
    """Some packages put a function that raises in the place of those that launch kernels."""
    write_files(tmp_path, {"old.py": "from numba.cuda.cudadrv.driver import _raise_driver_not_found as missing"})
    told = run(
        tmp_path,
        """
        import cudabuild
        cudabuild.adopt("old")
        import old
        try:
            old.missing()
        except cudabuild.cuda.CudaSupportError as error:
            print(error)
        """,
        CUDABUILD_DEVICE="gpu",
        LD_LIBRARY_PATH="",
        CUDA_VISIBLE_DEVICES="",
    )
    assert told.startswith("no GPU\n  found:    ")
    assert told.endswith(
        "do:       set CUDABUILD_DEVICE=cpu before it is imported, to run its kernels on the CPU device"
    )


@pytest.mark.parametrize("mode", ["prepend", "importlib"])
def test_modules_that_pytest_rewrites(tmp_path: Path, mode: str) -> None:
    """pytest imports tests by a loader of its own, which serves all of them."""
    adopted = "from numba import cuda\ndef test():\n    import cudabuild\n    assert cuda.grid is cudabuild.cuda.grid\n"
    other = "try:\n    import numba\nexcept ImportError:\n    numba = None\n"
    other += (
        "def test():\n    assert getattr(numba, '__path__', None) != []\n"  # an adopted module's numba has no folder
    )
    write_files(tmp_path, {"test_old.py": adopted, "test_other.py": other})
    command = [
        "-m",
        "pytest",
        "-q",
        "-p",
        "cudabuild",
        "-p",
        "no:cacheprovider",
        f"--import-mode={mode}",
        str(tmp_path),
    ]
    done = subprocess.run(
        [sys.executable, *command], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT), "CUDABUILD_ADOPT": "test_old"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


def test_star_imports(tmp_path: Path) -> None:
    write_files(
        tmp_path,
        {"old.py": "from numba import *\nfrom numba.types import *\nnames = set(globals())"},
    )
    told = run(
        tmp_path,
        """
        import cudabuild
        cudabuild.adopt("old")
        import old
        print(old.float32 is cudabuild.float32, callable(old.njit), old.bool(3) == True)
        print(sorted({"cuda", "core", "np", "errors", "typed", "types"} & old.names))
        """,
    )
    assert told == "True True True\n[]"
