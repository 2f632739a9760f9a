# SPDX-License-Identifier: Apache-2.0
"""What every test shares: an isolated cache, the ``gpu`` marker, golden files."""

from __future__ import annotations

import functools
import os
import tempfile
from pathlib import Path

import pytest
from golden_files import Golden

CHECKOUT = Path(__file__).resolve().parent.parent


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite golden files with what the tests found")


def pytest_configure(config: pytest.Config) -> None:
    # Before any test module is imported: a test session neither reads nor writes the user's cache, and takes no device,
    # policy or architecture from the environment of whoever started it. Child processes inherit all of it.
    for name in [name for name in os.environ if name.startswith("CUDABUILD_")]:
        del os.environ[name]
    folder = tempfile.TemporaryDirectory(prefix="cudabuild-tests-")
    os.environ["CUDABUILD_CACHE_DIR"] = os.path.join(folder.name, "cache")
    config.add_cleanup(folder.cleanup)


@functools.cache
def missing_device() -> str | None:
    """Why there is no GPU here, or None. Only *no device* counts: a driver that fails otherwise must fail the tests."""
    try:
        from cuda.bindings import driver
    except ImportError as error:
        return f"cuda-bindings is not installed ({error})"
    try:
        (status,) = driver.cuInit(0)
    except RuntimeError as error:  # cuda-bindings: the driver library itself is not there
        return f"no driver library ({str(error).splitlines()[0]})"
    if status == driver.CUresult.CUDA_ERROR_NO_DEVICE:
        return "the driver finds no device"
    assert status == driver.CUresult.CUDA_SUCCESS, f"cuInit: {status.name}"
    status, count = driver.cuDeviceGetCount()
    assert status == driver.CUresult.CUDA_SUCCESS, f"cuDeviceGetCount: {status.name}"
    return None if count else "the driver counts no device"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    marked = [item for item in items if item.get_closest_marker("gpu")]
    reason = missing_device() if marked else None
    if reason is not None:
        for item in marked:
            item.add_marker(pytest.mark.skip(reason=f"no device: {reason}"))


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    return Golden(CHECKOUT / "tests" / "golden", bool(request.config.getoption("--update-golden")))


@pytest.fixture
def cache_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder for one test, in force for it and its child processes."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("CUDABUILD_CACHE_DIR", str(folder))
    return folder
