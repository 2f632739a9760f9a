# SPDX-License-Identifier: Apache-2.0
"""``cudabuild warm``: kernels of a package that somebody else published, compiled for where they run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from package_kit import CHECKOUT, run, write_files

from cudabuild.__main__ import main
from cudabuild.cli.warm import find_installed
from cudabuild.errors import CudabuildError

FILES = {
    "theirs/__init__.py": "import theirs.values",
    "theirs/values.py": "import math, theirs_needs\nSCALE = theirs_needs.NUMBER * 3",
    "theirs/inner/gpu.py": """
        from numba import cuda, njit
        from theirs import values

        @njit
        def scaled(x):
            return x * values.SCALE

        @cuda.jit
        def scale(n, x):
            i = cuda.grid(1)
            if i < n:
                x[i] = scaled(x[i])

        @cuda.jit
        def never_recorded(x):
            x[0] = 1
    """,
    "theirs/not-a-module.py": "",
    "theirs/_data/x.txt": "",
    "theirs_needs.py": "NUMBER = 2",
    "signatures.toml": """
        [[kernel]]
        name = "theirs.inner.gpu:scale"
        signatures = ["int64, float32[::1]"]
        dialect = "numba"
        options = { literals = "numba" }
    """,
}

LAUNCH = """
import warnings, cudabuild
warnings.simplefilter("ignore")
cudabuild.adopt("theirs")
from theirs.inner.gpu import scale
print(source(scale))
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_files(tmp_path, FILES)


def warm(root: Path, *arguments: str, **environment: str) -> str:
    """What the command prints."""
    command = [sys.executable, "-m", "cudabuild", "warm", "theirs", "--archs", "90", "--index", "64", *arguments]
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, [root, CHECKOUT])), **environment}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=variables)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_archives_of_recorded_kernels(root: Path) -> None:
    """The constant comes from another distribution, which a slice may not import: the package is imported then."""
    signatures = str(root / "signatures.toml")
    told = warm(root, "--signatures", signatures, "--ptx", "none", "--out", str(root / "kept"))
    assert "1 kernel with 1 signature: 1 image compiled" in told
    assert f"found by kernels where CUDABUILD_ARCHIVES={root / 'kept'}" in told
    assert "never_recorded" in told
    assert [path.name for path in sorted((root / "kept/theirs/_cudabuild").iterdir())] == ["index.json", "sm_90.cuar"]
    assert run(LAUNCH, root, CUDABUILD_ARCHIVES=str(root / "kept")) == "shipped cubin sm_90"
    elsewhere = {"CUDABUILD_CACHE_DIR": str(root / "empty")}
    assert "theirs ships no images" in run(LAUNCH, root, **elsewhere)
    # The same from the cache, beside the package, and without any archive.
    assert "0 images compiled, 1 from the cache" in warm(
        root, "--signatures", signatures, "--ptx=none", "--into-package"
    )
    assert run(LAUNCH, root, **elsewhere) == "shipped cubin sm_90"
    for path in (root / "theirs/_cudabuild").iterdir():
        path.unlink()
    assert run(LAUNCH, root) == "cached cubin sm_90"


def test_nothing_to_compile(root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(root))
    monkeypatch.setattr(sys, "argv", ["cudabuild", "warm", "theirs", "--archs", "90", "--out", str(root / "kept")])
    assert main() == 1
    told = capsys.readouterr().err
    assert told.startswith("error: no kernel of theirs could be compiled")
    assert "it declares no signature" in told
    assert "CUDABUILD_ADOPT=theirs cudabuild record --out signatures.toml -- PROGRAM" in told
    assert not (root / "kept/theirs").exists()


def test_read_only_packages(root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(root))
    monkeypatch.setattr(sys, "argv", ["cudabuild", "warm", "theirs", "--archs", "90", "--into-package"])
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write anywhere
    assert main() == 1
    assert capsys.readouterr().err.splitlines() == [
        "error: nothing can be written beside theirs",
        f"  found:    {root / 'theirs'}, which is read-only here",
        "  do:       --out DIR, and CUDABUILD_ARCHIVES=DIR where the kernels run; or leave both out, for the user "
        "cache",
    ]


def test_modules_of_an_installed_package(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(root))
    names = {"theirs", "theirs.values", "theirs.inner.gpu"}
    assert set(find_installed("theirs").files) == names
    assert set(find_installed("theirs.inner").files) == {"theirs", "theirs.inner.gpu"}
    assert set(find_installed("theirs_needs").files) == {"theirs_needs"}
    assert not {name for name in sys.modules if name.startswith("theirs")}


@pytest.mark.parametrize(
    ("name", "message"),
    [("nobody_has_this", "no package 'nobody_has_this' here"), ("theirs.nothing", "no Python source of theirs.nothing"),
     ("sys", "no Python source of sys"), ("a b", "no package 'a b' here")],
)  # fmt: skip
def test_what_is_not_installed(root: Path, monkeypatch: pytest.MonkeyPatch, name: str, message: str) -> None:
    monkeypatch.syspath_prepend(str(root))
    with pytest.raises(CudabuildError, match=message):
        find_installed(name)
