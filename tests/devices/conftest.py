# SPDX-License-Identifier: Apache-2.0
"""``run``: launches a plain Python function as a kernel, on the CPU device and, where there is one, on the GPU."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from agreement import Agreement, Notes
from language import Book, Recording
from launching import Device, Run

from cudabuild.target import parse_target

BOOK = pytest.StashKey[Book]()


def pytest_configure(config: pytest.Config) -> None:
    file = config.getoption("--language")
    if file is not None:
        targets = config.getoption("--targets").split(",")
        config.stash[BOOK] = Book(Path(file), [parse_target(name) for name in targets if name])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report = yield
    book = item.config.stash.get(BOOK, None)
    if book is not None and report.when == "call":
        book.finish(report.passed)
    return report


@pytest.fixture(scope="session")
def notes(request: pytest.FixtureRequest) -> Iterator[Notes]:
    """What this session measures; ``--agreement FILE`` keeps it."""
    kept = Notes()
    yield kept
    file = request.config.getoption("--agreement")
    if file is not None:
        kept.write(Path(file))


@pytest.fixture(
    scope="session",
    params=["cpu", pytest.param("gpu32", marks=pytest.mark.gpu), pytest.param("gpu64", marks=pytest.mark.gpu)],
)
def run(request: pytest.FixtureRequest, notes: Notes) -> Run:
    device = Device(request.param)
    book = request.config.stash.get(BOOK, None)
    if book is not None:
        return Recording(device, book)
    if request.config.getoption("--agreement") is None or request.param != "cpu":
        return device
    return Agreement(device, notes)
