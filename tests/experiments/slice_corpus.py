# SPDX-License-Identifier: Apache-2.0
"""Tricky modules: what a slice freezes is what an import gives, or the kernel is left to JIT with the line to blame.

Usage: python slice_corpus.py [--quick] [ENTRY ...]

Each module of ``tests/build/corpus`` says in comments which values its kernels freeze, and which line keeps others from
being built. All three must agree: the slice, the comments, and a real import with stand-ins for what is missing. The
full form imports each module in a process of its own, the quick form all of them in one.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "build"), str(Path(__file__).resolve().parents[2])]

from corpus_kit import compare, import_entries, list_entries  # noqa: E402
from reporting import Report  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="import all modules in one process")
    parser.add_argument("entries", nargs="*", help="names of entries; all by default")
    options = parser.parse_args()
    report = Report("corpus of tricky modules")
    entries = [entry for entry in list_entries() if not options.entries or entry.name in options.entries]
    readable = [entry for entry in entries if sys.version_info[:2] >= entry.python]
    imported = import_entries(readable) if options.quick else {}
    built = left = 0
    for entry in readable:
        try:
            values = imported.get(entry.name) or import_entries([entry])[entry.name]
            wrong = compare(entry, values)
        except Exception as error:
            wrong = [f"{type(error).__name__}: {error}"]
        built += len(entry.values)
        left += len(entry.left)
        counts = f"{len(entry.values)} built, {len(entry.left)} left to JIT"
        report.check(entry.name, not wrong, counts if not wrong else "\n         ".join(["", *wrong]))
    for entry in entries:
        if entry not in readable:
            report.note(f"{entry.name}: not read, Python {'.'.join(map(str, entry.python))} is needed")
    report.check("size of the corpus", bool(options.entries) or len(readable) >= 30, f"{len(readable)} entries")
    report.note(f"{built} kernels built, {left} left to JIT as they must be")
    return report.status()


if __name__ == "__main__":
    sys.exit(main())
