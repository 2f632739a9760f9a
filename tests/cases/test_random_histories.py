# SPDX-License-Identifier: Apache-2.0
"""All kinds at once: whatever happens to sources, caches and archives, a launch runs the code of what is written."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from cases_kit import TOOLS, Array, Machine, age, is_whole, load, ship
from image_making import make_image

from cudabuild import config
from cudabuild.cache import shelf
from cudabuild.cache.store import Cache
from cudabuild.fingerprint import checks

HELPERS = ("def h(a):\n    return a + M\n", "def h(a):\n    return a - M\n", "def h(a):\n    return -a\n")
KERNELS = ("def k(x):\n    x[0] = h(N)\n", "def k(x):\n    x[0] = h(-N)\n", "def k(x):\n    x[1] = h(N)\n")
CCS = ((9, 0), (8, 6), (8, 0), (12, 0), (12, 1))
TARGETS = ("sm_80", "sm_86", "sm_90", "sm_90a", "sm_120", "compute_75")


class History:
    """A package of two files, its archives and a user's cache, and what happens to them."""

    def __init__(self, folder: Path, rng: random.Random) -> None:
        self.folder = folder
        self.rng = rng
        self.root = folder / "cache"
        self.archives = folder / "_cudabuild_case_history"
        self.helper, self.kernel, self.m, self.n = 0, 0, 1, 1
        self.override: int | None = None
        self.tools = dict(TOOLS)
        self.told: list[str] = []
        self.module = self.import_anew()
        self.machine = Machine(self.root)
        #: (what is written, option) -> the code's symbol; each has its own.
        self.symbols: dict[Any, str] = {}

    def write(self, name: str, text: str) -> None:
        path = self.folder / f"{name}.py"
        before = path.stat() if path.exists() else None
        path.write_text(text)
        how = self.rng.randrange(3)
        if how == 1:
            age(path)
        elif how == 2 and before is not None:
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    def import_anew(self) -> ModuleType:
        self.write("case_history_helper", f"M = {self.m}\n{HELPERS[self.helper]}")
        self.write("case_history", f"from case_history_helper import h\nN = {self.n}\n{KERNELS[self.kernel]}")
        load(self.folder, name="case_history_helper")
        module = load(self.folder, name="case_history")
        if self.override is not None:
            module.N = self.override
        return module

    # what may happen

    def edit(self) -> None:
        name, many = self.rng.choice([("helper", 3), ("kernel", 3), ("m", 4), ("n", 4)])
        setattr(self, name, self.rng.randrange(many))
        self.module = self.import_anew()

    def set_global(self) -> None:
        self.override = self.rng.choice([None, 1, 2, 7])
        self.module = self.import_anew()

    def upgrade(self) -> None:
        self.tools = {**TOOLS, "llvmlite": self.rng.choice(["0.48", "0.50"])}

    def ship(self) -> None:
        ship(self.archives, [self.module.k], " ".join(self.rng.sample(TARGETS, 3)))

    def uninstall(self) -> None:
        shutil.rmtree(self.archives, ignore_errors=True)

    def damage(self) -> None:
        files = [path for path in self.folder.rglob("*") if path.suffix in (".cuar", ".cuix")]
        if not files:
            return
        path = self.rng.choice(sorted(files))
        data = bytearray(path.read_bytes())
        how = self.rng.randrange(4)
        if how == 0:
            path.unlink()
            return
        if how == 1:
            del data[self.rng.randrange(len(data) + 1) :]
        elif data:
            for _ in range(self.rng.randrange(1, 6)):
                data[self.rng.randrange(len(data))] ^= 1 << self.rng.randrange(8)
        path.unlink()  # mapped by nobody: to change what is mapped is another matter
        path.write_bytes(data)

    def mix_up(self) -> None:
        """Exchanges two files of the cache or of the package."""
        files = sorted(path for path in self.folder.rglob("*.cuar"))
        if len(files) > 1:
            one, other = self.rng.sample(files, 2)
            held = other.with_suffix(".held")
            other.rename(held)
            one.rename(other)
            held.rename(one)

    def evict(self) -> None:
        """Another program publishes, under a limit that hardly anything else fits below."""
        cache = Cache(str(self.root), limit=self.rng.choice([1, 3000, 10**6]))
        cache.publish(make_image(f"other{self.rng.randrange(99)}", target=self.rng.choice(TARGETS)))

    def restart(self) -> None:
        checks._known_files.clear()
        self.module = self.import_anew()

    def launch(self) -> None:
        self.machine = Machine(self.root, (self.rng.choice(CCS),), tools=self.tools)
        for _ in range(2):
            options = self.rng.choice([{}, {}, {"fastmath": True}, {"opt": 1}])
            written = self.n if self.override is None else self.override
            factor = None if self.helper == 2 else self.m  # the last one reads no M
            meaning = (self.helper, self.kernel, factor, written, tuple(name for name in options if name != "opt"))
            kernel = self.machine.kernel(self.module.k, **options)
            kernel[1, 32](Array())
            found = self.machine.fake.launches[-1].symbol
            assert self.symbols.setdefault(meaning, found) == found, "another kernel's code"
            assert all(map(is_whole, self.machine.fake.given)), "damaged code"
        assert len(set(self.symbols.values())) == len(self.symbols), "two kernels of one code"


@pytest.mark.parametrize("seed", range(6))
def test_a_launch_runs_what_is_written_whatever_happened(
    tmp_path: Path, seed: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shelf, "_LONGEST_HIDDEN", 0.05)  # a lost segment may be one that a file server hides still
    history = History(tmp_path, random.Random(seed))
    events = [
        history.edit, history.edit, history.set_global, history.upgrade, history.ship, history.ship, history.uninstall,
        history.damage, history.damage, history.mix_up, history.evict, history.restart,
    ]  # fmt: skip
    for _ in range(60):
        history.rng.choice(events)()
        history.launch()
        assert len(config._warned) <= 8
    assert len(history.symbols) > 7
    assert "Traceback" not in capsys.readouterr().err
