# SPDX-License-Identifier: Apache-2.0
"""F. Forks, pickles, and kernels that capture what cannot travel."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from cases_kit import Array, Machine, load
from package_kit import KERNEL, build_archives, run, write_files

from cudabuild.errors import DriverError

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")


@pytest.fixture
def package(tmp_path: Path) -> Path:
    root = write_files(tmp_path / "site", {"pkg/__init__.py": KERNEL})
    build_archives(root, "pkg/_cudabuild", "pkg", archs="sm_80 sm_90")
    return root


@forks
def test_a_child_launches_where_the_parent_only_imported(package: Path) -> None:
    code = """
        import os, pkg
        pkg.scale.signatures
        pkg.scale[1, 32]
        child = os.fork()
        if child == 0:
            print(source(pkg.scale), flush=True)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        print(source(pkg.scale))
    """
    assert run(code, package).split("\n") == ["shipped cubin sm_90"] * 2


@forks
def test_a_child_of_a_process_that_launched_is_told_why_it_cannot(root: Path, tmp_path: Path) -> None:
    module = load(tmp_path, "def k(x):\n    x[0] = 1\n")
    machine = Machine(root)
    kernel, other = machine.kernel(module.k), machine.kernel(module.k)
    for _ in range(2):  # the second is the generated launcher's
        kernel[1, 32](Array())
    told = tmp_path / "told"
    child = os.fork()
    if child == 0:
        status = 1
        try:
            for one in (kernel, other):
                try:
                    one[1, 32](Array())
                except DriverError as error:
                    with open(told, "a") as stream:
                        stream.write(f"{error}\n")
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    lines = told.read_text().splitlines()
    assert sum("CUDA was initialised before this process was forked" in line for line in lines) == 2
    assert sum("'spawn' or 'forkserver'" in line for line in lines) == 2
    kernel[1, 32](Array())


def test_a_kernel_travels_by_name_and_takes_the_image_of_where_it_arrives(package: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kernel.pickle"
    code = f"""
        import pickle, pkg
        assert source(pkg.scale) == "shipped cubin sm_90"
        data = pickle.dumps(pkg.scale)
        assert b"code" not in data and len(data) < 200
        open({str(kept)!r}, "wb").write(data)
    """
    run(code, package)
    code = f"""
        import pickle
        from cudabuild.runtime.driver import use_driver
        def use_gpu():
            fake = fake_driver.FakeDriver(((8, 6),))
            fake.takes_any_code = True
            use_driver(fake)
        kernel = pickle.load(open({str(kept)!r}, "rb"))
        import pkg
        assert kernel is pkg.scale
        print(source(kernel))
    """
    assert run(code, package) == "shipped cubin sm_80"
