# SPDX-License-Identifier: Apache-2.0
"""F. Forks, pickles, and kernels that capture what cannot travel."""

from __future__ import annotations

from pathlib import Path

import pytest
from package_kit import KERNEL, build_archives, run, write_files

forks = pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="forks")


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
