# SPDX-License-Identifier: Apache-2.0
"""What every test shares: an isolated cache, the ``gpu`` marker, golden files."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import pytest
from golden_files import Golden
from gpu_presence import missing_device

CHECKOUT = Path(__file__).resolve().parent.parent


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite golden files with what the tests found")
    parser.addoption(
        "--agreement", metavar="FILE", help="make every launch of tests/devices on all devices, compare, write a report"
    )
    parser.addoption(
        "--language", metavar="FILE", help="note which names of the language the kernels of tests/devices use, and how"
    )
    parser.addoption("--targets", default="", help="with --language: the targets that kernels are compiled for")
    parser.addoption("--examples", type=int, help="random examples of each property test, in place of its own number")


def pytest_configure(config: pytest.Config) -> None:
    # Before any test module is imported: a test session neither reads nor writes the user's cache, and takes no device,
    # policy or architecture from the environment of whoever started it. Child processes inherit all of it.
    for name in [name for name in os.environ if name.startswith("CUDABUILD_")]:
        del os.environ[name]
    folder = tempfile.TemporaryDirectory(prefix="cudabuild-tests-")
    os.environ["CUDABUILD_CACHE_DIR"] = os.path.join(folder.name, "cache")
    config.add_cleanup(folder.cleanup)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    examples = config.getoption("--examples")
    if examples is not None:
        from hypothesis import settings

        for item in items:
            test = getattr(item, "obj", None)
            own = getattr(test, "_hypothesis_internal_use_settings", None)  # where ``@settings`` leaves them
            if own is not None:
                test._hypothesis_internal_use_settings = settings(own, max_examples=examples)
    marked = [item for item in items if item.get_closest_marker("gpu")]
    reason = missing_device() if marked else None
    if reason is not None:
        for item in marked:
            item.add_marker(pytest.mark.skip(reason=f"no device: {reason}"))


@pytest.fixture(autouse=True, scope="session")
def _verify_every_stage() -> None:
    from cudabuild.ir import verifier

    verifier.EVERY_STAGE = True


@pytest.fixture(autouse=True)
def _write_no_bytecode(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that a test writes twice within a second, with one size, would be taken from its bytecode."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    return Golden(CHECKOUT / "tests" / "golden", bool(request.config.getoption("--update-golden")))


@pytest.fixture
def cache_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder for one test, in force for it and its child processes."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("CUDABUILD_CACHE_DIR", str(folder))
    return folder
