# SPDX-License-Identifier: Apache-2.0
"""A slice's constants equal those of the imported module, or the kernel is left to JIT with the right line."""

from __future__ import annotations

import importlib
import sys
import textwrap
from collections.abc import Callable, Iterator

import pytest
from build_helpers import Found, MakeProject

from cudabuild.fingerprint import compute_fingerprint

KERNEL = """
@cb.kernel("float32[::1]")
def k(x):
    x[0] = {expression}
"""

HEAD = "import numpy as np\nimport cudabuild as cb\n"


def module(body: str, expression: str) -> str:
    return HEAD + textwrap.dedent(body) + KERNEL.format(expression=expression)


INIT = "import missing_thing\nfrom .c import N\nfrom .m import k\n"
STARRED = "__all__ = ['N', 'plot']\nimport missing_thing\nN = 5\ndef plot(): missing_thing\n"
MAIN = "def main():\n    missing_thing.f(T)\nif __name__ == '__main__':\n    main()\n"
INDENTED = textwrap.indent(KERNEL.format(expression=1), "    ")

#: name -> (modules, the value frozen under which name, as the fingerprint spells it)
RIGHT: dict[str, tuple[dict[str, str], str, str]] = {
    "rebound": ({"m": module("N = 4\nN *= 2", "N")}, "N", "8"),
    "rebound after the kernel": ({"m": module("N = 4", "N") + "N = 5\n"}, "N", "5"),
    "deleted and bound again": ({"m": module("N = 4\ndel N\nN = 6", "N")}, "N", "6"),
    "global statement": ({"m": module("N = 1\ndef f():\n    global N\n    N = 7\nf()", "N")}, "N", "7"),
    "global statement, two calls deep": (
        {"m": module("N = 1\ndef f():\n    global N\n    N += 3\ndef g():\n    f()\ng()", "N")},
        "N",
        "4",
    ),
    "filled in a loop": (
        {"m": module("T = [0, 0, 0]\nfor i in range(3):\n    T[i] = i * i\nC = tuple(T)", "C[0]")},
        "C",
        "(0, 1, 4, )",
    ),
    "appended": ({"m": module("T = []\nT.append(3)\nT.append(4)\nC = tuple(T)", "C[0]")}, "C", "(3, 4, )"),
    "appended through an alias": ({"m": module("T = []\nU = T\nU.append(3)\nC = tuple(T)", "C[0]")}, "C", "(3, )"),
    "passed to a function": (
        {"m": module("T = []\ndef fill(t):\n    t.append(9)\nfill(T)\nC = tuple(T)", "C[0]")},
        "C",
        "(9, )",
    ),
    "changed through a local alias": (
        {"m": module("T = []\ndef fill():\n    t = T\n    t.append(2)\nfill()\nC = tuple(T)", "C[0]")},
        "C",
        "(2, )",
    ),
    "changed through what a function returns": (
        {"m": module("T = []\ndef get():\n    return T\nget().append(5)\nC = tuple(T)", "C[0]")},
        "C",
        "(5, )",
    ),
    "registered by a decorator": (
        {"m": module("R = []\ndef reg(f):\n    R.append(1)\n    return f\n@reg\ndef a(): pass\nC = len(R)", "C")},
        "C",
        "1",
    ),
    "filled by a comprehension": (
        {"m": module("T = {}\n[T.setdefault(i, i) for i in range(3)]\nC = len(T)", "C")},
        "C",
        "3",
    ),
    "walrus in a test": ({"m": module("if (N := 5) > 3:\n    pass", "N")}, "N", "5"),
    "both branches": (
        {"m": module("import sys\nif sys.version_info > (3,):\n    N = 3\nelse:\n    N = 2", "N")},
        "N",
        "3",
    ),
    "nested branches": (
        {"m": module("A = 1\nif A:\n    if not A:\n        N = 1\n    else:\n        N = 2", "N")},
        "N",
        "2",
    ),
    "try": ({"m": module("try:\n    N = int('x')\nexcept ValueError:\n    N = 12", "N")}, "N", "12"),
    "with": ({"m": module("import contextlib\nwith contextlib.suppress(Exception):\n    N = 3", "N")}, "N", "3"),
    "while": ({"m": module("N = 1\nwhile N < 100:\n    N *= 3", "N")}, "N", "243"),
    "unpacked": ({"m": module("A, (B, *C) = 1, (2, 3, 4)\nC = tuple(C)", "B + C[1]")}, "C", "(3, 4, )"),
    "chained": ({"m": module("A = B = 6", "B")}, "B", "6"),
    "annotated": ({"m": "from __future__ import annotations\n" + module("N: Missing = 6", "N")}, "N", "6"),
    "class attribute changed later": ({"m": module("class C:\n    N = 1\nC.N = 8", "C.N")}, "C.N", "8"),
    "setattr": ({"m": module("class C:\n    N = 1\nsetattr(C, 'N', 5)", "C.N")}, "C.N", "5"),
    "enumeration": (
        {"m": module("import enum\nclass E(enum.IntEnum):\n    A = 3\n    B = 4", "E.B")},
        "E.B",
        "",
    ),
    "globals()": ({"m": module("N = 1\nglobals()['N'] = 11", "N")}, "N", "11"),
    "exec": ({"m": module("exec('N = 13')", "N")}, "N", "13"),
    "NumPy table": ({"m": module("T = np.zeros(2)\nT[1] = 3.0\nC = float(T.sum())", "C")}, "C", "3.0"),
    "NumPy random with a seed": (
        {"m": module("np.random.seed(3)\nnp.random.rand()\nC = float(np.random.rand())", "C")},
        "C",
        "0.7081478226181048",
    ),
    "environment": (
        {"m": module("import os\nos.environ['CB_SLICE_N'] = '4'\nN = int(os.getenv('CB_SLICE_N'))", "N")},
        "N",
        "4",
    ),
    "sibling module": ({"pkg__m": module("from .c import N", "N"), "pkg__c": "N = 3\nN += 1\n"}, "N", "4"),
    "sibling's attribute": ({"pkg__m": module("from . import c", "c.N"), "pkg__c": "N = 3\n"}, "c.N", "3"),
    "sibling changed from here": (
        {"pkg__m": module("from . import c\nc.N = 5", "c.N"), "pkg__c": "N = 3\n"},
        "c.N",
        "5",
    ),
    "sibling's table changed from here": (
        {"pkg__m": module("from .c import T\nT.append(1)\nC = tuple(T)", "C[0]"), "pkg__c": "T = [7]\n"},
        "C",
        "(7, 1, )",
    ),
    "sibling's function changes its table": (
        {
            "pkg__m": module("from .c import T, fill\nfill()\nC = tuple(T)", "C[0]"),
            "pkg__c": "T = [7]\ndef fill():\n    T.append(2)\n",
        },
        "C",
        "(7, 2, )",
    ),
    "two levels of modules": (
        {"pkg__a__m": module("import pkg.b.c as c", "c.N"), "pkg__b__c": "from ..d import N\n", "pkg__d": "N = 9\n"},
        "c.N",
        "9",
    ),
    "from the package's __init__": (
        {"pkg__m": module("from . import N", "N"), "pkg": INIT, "pkg__c": "N = 2\n"},
        "N",
        "2",
    ),
    "star import of a sibling": (
        {"pkg__m": module("from .c import *", "N"), "pkg__c": STARRED},
        "N",
        "5",
    ),
    "star import of the standard library": ({"m": module("from math import *\nN = floor(3.5)", "N")}, "N", "3"),
    "lazy module attribute": (
        {"pkg__m": module("from .c import N", "N"), "pkg__c": "def __getattr__(name):\n    return 21\n"},
        "N",
        "21",
    ),
    "a missing import beside it": ({"m": module("import missing_thing\nN = 4\nX = missing_thing.f", "N")}, "N", "4"),
    "a missing import in a host function": (
        {"m": module("import missing_thing\nN = 4\ndef host():\n    return missing_thing.f(N, k)", "N")},
        "N",
        "4",
    ),
    "a main program that would change it": (
        {"m": module("import missing_thing\nT = [1]\nC = tuple(T)", "C[0]") + MAIN},
        "C",
        "(1, )",
    ),
    "a lambda that is called later": (
        {"m": module("T = []\nf = lambda: T.append(4)\nf()\nC = tuple(T)", "C[0]")},
        "C",
        "(4, )",
    ),
    "a generator that is run later": (
        {"m": module("T = []\ng = (T.append(i) for i in range(2))\nsum(1 for _ in g)\nC = tuple(T)", "C[0]")},
        "C",
        "(0, 1, )",
    ),
    "a generator function that is run later": (
        {"m": module("T = []\ndef g():\n    T.append(1)\n    yield\nh = g()\nlist(h)\nC = tuple(T)", "C[0]")},
        "C",
        "(1, )",
    ),
    "a bound method that is handed on": (
        {"m": module("T = []\nlist(map(T.append, [5]))\nC = tuple(T)", "C[0]")},
        "C",
        "(5, )",
    ),
    "a bound method under another name": (
        {"m": module("T = []\nadd = T.append\nadd(6)\nC = tuple(T)", "C[0]")},
        "C",
        "(6, )",
    ),
    "a key function with an effect": (
        {"m": module("T = []\nmax([1], key=T.append)\nC = tuple(T)", "C[0]")},
        "C",
        "(1, )",
    ),
    "a closure that keeps a state": (
        {
            "m": module(
                "def make():\n    n = 0\n    def f():\n        nonlocal n\n        n += 1\n        return n\n"
                "    return f\nf = make()\nf()\nf()\nN = f()",
                "N",
            )
        },
        "N",
        "3",
    ),
    "a comprehension's variable of the same name": (
        {"m": module("T = []\ndef f():\n    [T for T in ()]\n    T.append(2)\nf()\nC = tuple(T)", "C[0]")},
        "C",
        "(2, )",
    ),
    "functions in a list": (
        {"m": module("T = []\ndef f():\n    T.append(1)\nops = []\nops.append(f)\nops[0]()\nC = tuple(T)", "C[0]")},
        "C",
        "(1, )",
    ),
    "a constructor with an effect": (
        {"m": module("T = []\nclass A:\n    def __init__(self):\n        T.append(3)\nA()\nC = tuple(T)", "C[0]")},
        "C",
        "(3, )",
    ),
    "a base class with an effect": (
        {
            "m": module(
                "T = []\nclass A:\n    def __init_subclass__(cls):\n        T.append(3)\n"
                "class B(A):\n    pass\nC = tuple(T)",
                "C[0]",
            )
        },
        "C",
        "(3, )",
    ),
    "a property with an effect": (
        {
            "m": module(
                "T = []\nclass A:\n    @property\n    def p(self):\n        T.append(3)\na = A()\na.p\nC = tuple(T)",
                "C[0]",
            )
        },
        "C",
        "(3, )",
    ),
    "a method that changes its class": (
        {
            "m": module(
                "class A:\n    N = 1\n    def set(self):\n        type(self).N = 4\na = A()\na.set()",
                "A.N",
            )
        },
        "A.N",
        "4",
    ),
    "the module object": (
        {"m": module("import sys\nN = 1\nsetattr(sys.modules[__name__], 'N', 5)", "N")},
        "N",
        "5",
    ),
    "NumPy's third argument": (
        {"m": module("T = np.zeros(2)\nnp.add([1, 2], [3, 4], T)\nC = float(T[0])", "C")},
        "C",
        "4.0",
    ),
    "NumPy's out": (
        {"m": module("T = np.zeros(2)\nnp.add([1, 2], [3, 4], out=T)\nC = float(T[1])", "C")},
        "C",
        "6.0",
    ),
    "a view": ({"m": module("T = np.zeros(3)\nV = T[1:]\nV[:] = 2\nC = float(T.sum())", "C")}, "C", "4.0"),
    "a star import that a loop rebinds": (
        {"m": module("from math import *\nfor pi in ():\n    pass\nN = pi * 1", "N")},
        "N",
        "3.141592653589793",
    ),
    "eval beside a missing import": ({"m": module("import missing_thing\nN = eval('3 + 1')", "N")}, "N", "4"),
    "eval of what another module changes": (
        {
            "pkg__m": module("N = 1\nfrom . import c\nM = eval('N + 1')", "M"),
            "pkg__c": "from . import m\nm.N = 5\n",
        },
        "M",
        "6",
    ),
    "a name that may be unbound": (
        {"m": module("try:\n    N\nexcept NameError:\n    N = 2\nN += 1", "N")},
        "N",
        "3",
    ),
    "numba's names": (
        {"m": module("from numba import cuda as c\nfrom numba.types import float32 as f\nN = 4", "N")},
        "N",
        "4",
    ),
}

#: name -> (modules, file:line and the start of the reason)
LEFT: dict[str, tuple[dict[str, str], str]] = {
    "needs a missing module": (
        {"m": module("import missing_thing\nN = missing_thing.N", "N")},
        "m.py:3: imports 'missing_thing'",
    ),
    "may be changed by a missing module": (
        {"m": module("import missing_thing\nT = [1]\nmissing_thing.f(T)\nC = tuple(T)", "C[0]")},
        "m.py:3: imports 'missing_thing'",
    ),
    "a flag for a missing module": (
        {"m": module("try:\n    import missing_thing\n    HAVE = 1\nexcept ImportError:\n    HAVE = 0", "HAVE")},
        "m.py:4: imports 'missing_thing'",
    ),
    "a bare except": (
        {"m": module("try:\n    import missing_thing\n    HAVE = 1\nexcept:\n    HAVE = 0", "HAVE")},
        "m.py:4: imports 'missing_thing'",
    ),
    "a test on a missing module": (
        {"m": module("import missing_thing\nif missing_thing.FLAG:\n    N = 1\nelse:\n    N = 2", "N")},
        "m.py:3: imports 'missing_thing'",
    ),
    "talks to the outside": (
        {"m": module("import subprocess\nN = len(subprocess.run(['x']).stdout)", "N")},
        "m.py:3: imports 'subprocess', which talks to the outside",
    ),
    "an import inside a function that runs": (
        {"m": module("def f():\n    import socket\n    return 1\nN = f()", "N")},
        "m.py:4: imports 'socket'",
    ),
    "eval of a missing module": (
        {"m": module("import missing_thing\nN = eval('missing_thing.N')", "N")},
        "m.py:3: imports 'missing_thing'",
    ),
    "eval that hides a missing module": (
        {"m": module("import missing_thing\ntry:\n    N = eval('missing_thing.N')\nexcept NameError:\n    N = 2", "N")},
        "m.py:3: imports 'missing_thing'",
    ),
    "eval of what a missing module changes": (
        {"m": module("import missing_thing\nT = [1]\nmissing_thing.f(T)\nN = eval('len(T)')", "N")},
        "m.py:3: imports 'missing_thing'",
    ),
    "fails": ({"m": module("N = 1\nN = N // 0", "N")}, "m.py:4: this statement fails: ZeroDivisionError"),
    "fails in a called function": (
        {"m": module("def f():\n    return [][0]\nN = f()", "N")},
        "m.py:4: this statement fails: IndexError",
    ),
    "leaves the process": (
        {"m": module("import sys\nif 1:\n    N = sys.exit(3)", "N")},
        "m.py:5: this statement fails",
    ),
    "a sibling needs a missing module": (
        {"pkg__m": module("from .c import N", "N"), "pkg__c": "import missing_thing\nN = missing_thing.N\n"},
        "pkg/c.py:1: imports 'missing_thing'",
    ),
    "a device function needs a missing module": (
        {"m": module("import missing_thing\ndef f(a):\n    return a * missing_thing.N", "f(1)")},
        "m.py:3: imports 'missing_thing'",
    ),
    "a compiled module of the project": (
        {"pkg__m": module("from ._native import N", "N")},
        "pkg/m.py:3: imports 'pkg._native', which has no Python source in this project",
    ),
    "a branch that was not taken": (
        {"m": HEAD + "if 0:\n" + INDENTED},
        "m.py:6: the branch that defines it was not taken",
    ),
    "made at run time": ({"m": HEAD + "def make():\n" + INDENTED}, "m.py:6: it is made at run time, inside a function"),
}


@pytest.fixture
def forget_modules() -> Iterator[None]:
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in ("m", "pkg", "missing_thing"):
            del sys.modules[name]


@pytest.mark.parametrize("case", RIGHT)
@pytest.mark.usefixtures("forget_modules")
def test_the_slice_freezes_what_an_import_would(
    case: str, make_project: MakeProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    modules, name, value = RIGHT[case]
    project = make_project(**modules)
    found = Found(project)
    (kernel,) = found.kernels.values()
    assert found.reasons == {}
    if value:
        assert found.values[f"{kernel.module}:k"][name] == value
    # The same module, really imported, with a stand-in for what is missing.
    monkeypatch.syspath_prepend(project.root)
    monkeypatch.setitem(sys.modules, "missing_thing", type(sys)("missing_thing"))
    monkeypatch.setattr(sys.modules["missing_thing"], "f", None, raising=False)
    if "numba" in case:
        return
    imported = importlib.import_module(kernel.module)
    assert kernel.definition is not None
    signature = kernel.definition.signatures[0]
    sliced = compute_fingerprint(kernel.definition, signature)
    assert compute_fingerprint(imported.k.definition, signature).parts == sliced.parts


@pytest.mark.parametrize("case", LEFT)
def test_left_to_jit_with_the_line_that_is_to_blame(case: str, make_project: MakeProject) -> None:
    modules, reason = LEFT[case]
    found = Found(make_project(**modules))
    assert found.values == {}
    (text,) = found.reasons.values()
    assert text.startswith(reason)


def test_one_kernel_left_to_jit_leaves_the_others(discover: Callable[..., Found]) -> None:
    body = "import missing_thing\nBAD = missing_thing.f()\n" + KERNEL.format(expression="BAD")
    good = KERNEL.replace("def k", "def good").format(expression=1)
    found = discover(m=module(body + good, "1").replace("def k", "def j", 1))
    assert set(found.values) == {"m:k", "m:good"}
    assert set(found.reasons) == {"m:j"}


def test_nothing_stays_behind(make_project: MakeProject) -> None:
    path, modules = list(sys.meta_path), set(sys.modules)
    Found(make_project(pkg__m=module("from .c import N", "N"), pkg__c="N = 1\n"))
    assert sys.meta_path == path
    assert not [name for name in set(sys.modules) - modules if name.startswith("pkg")]


def test_allowed_imports(make_project: MakeProject, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in = type(sys)("missing_thing")
    stand_in.__dict__["N"] = 17
    monkeypatch.setitem(sys.modules, "missing_thing", stand_in)
    project = make_project(m=module("import missing_thing\nN = missing_thing.N", "N"))
    assert Found(project).values == {}
    assert Found(project, ("missing_thing",)).values == {"m:k": {"N": "17"}}


def test_annotations_that_cannot_be_evaluated_do_not_matter(discover: Callable[..., Found]) -> None:
    text = HEAD + (
        "import missing_thing as mt\n"
        '@cb.kernel("float32, float32[::1]")\n'
        "def k(a: mt.Number, x: mt.ndarray) -> mt.Nothing:\n"
        "    x[0] = a\n"
    )
    found = discover(m=text)
    assert found.values == {"m:k": {}}


def test_every_spelling_of_the_decorator(discover: Callable[..., Found]) -> None:
    found = discover(
        pkg___compat="import cudabuild\nfrom functools import partial\njit = cudabuild.kernel\n"
        "fast = partial(cudabuild.kernel, fastmath=True)\ndef own(*a):\n    return cudabuild.kernel(*a)\n",
        pkg__a=(
            "from ._compat import jit, fast, own\nfrom . import _compat as c\n"
            '@jit("float32[::1]")\ndef k1(x): pass\n'
            '@fast("float32[::1]")\ndef k2(x): pass\n'
            '@own("float32[::1]")\ndef k3(x): pass\n'
            '@c.jit("float32[::1]")\ndef k4(x): pass\n'
            'typed = jit("float32[::1]")\n@typed\ndef k5(x): pass\n'
            'def py(x): pass\nk6 = jit("float32[::1]")(py)\n'
            "@jit\ndef k7(x): pass\n"
            "class C:\n    @staticmethod\n    @jit('float32[::1]')\n    def k8(x): pass\n"
            "for _ in range(1):\n    @jit('float32[::1]')\n    def k9(x): pass\n"
        ),
    )
    assert found.reasons == {}
    names = {"k1", "k2", "k3", "k4", "k5", "py", "k7", "C.k8", "k9"}
    assert set(found.values) == {f"pkg.a:{name}" for name in names}


def test_a_file_that_cannot_be_parsed_is_told(discover: Callable[..., Found]) -> None:
    found = discover(good=module("N = 1", "N"), bad="import cudabuild\ndef f(:\n")
    assert set(found.values) == {"good:k"}
    (failure,) = found.unreadable
    assert str(failure).startswith("bad.py:2: cannot be parsed")


def test_kernels_of_cuda_jit(discover: Callable[..., Found]) -> None:
    """Device functions are reached, not built; mistakes are left for the build to tell all at once."""
    found = discover(
        pkg__a=(
            "from cudabuild import cuda\nfrom cudabuild.cuda import float32, void\nN = 3\n"
            "@cuda.jit('float32(float32)', device=True)\ndef f(x): return x * N\n"
            "@cuda.jit(void(float32[::1]))\ndef k1(x): x[0] = f(x[0])\n"
            "@cuda.jit\ndef k2(x): x[0] = N\n"
            "@cuda.jit([(float32[::1],), 'int32[::1]'], fastmath=True)\ndef k3(x): x[0] = no_such_name\n"
        ),
    )
    assert found.reasons == {}
    assert set(found.values) == {"pkg.a:k1", "pkg.a:k2", "pkg.a:k3"}
    assert found.values["pkg.a:k1"]["f/N"] == "3"
