#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs numba-cuda's own test suite against cudabuild and counts.

    python tests/conformance/run.py --device cpu                      class A on the CPU device
    python tests/conformance/run.py --device gpu --classes ABC        more of it, on the GPU
    python tests/conformance/run.py --device cpu -k test_ssa -v       some items, with the whole text of failures
    python tests/conformance/run.py --device cpu --shard quick        what CI runs

The interpreter needs ``cudabuild[test]`` or this checkout's dependencies. Exits with 1 when an item that ``floor.tsv``
says passes does not; ``--update-floor`` raises the floor to what this run reached, and never lowers it.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import scores
import suite
from children import Outcome, Settings, run_items

__all__ = ["main"]

#: The quick shard: files of many kinds whose items on the floor together take less than a minute on two cores.
QUICK = frozenset(
    f"cudapy/test_{name}.py"
    for name in (
        "array_args", "complex_kernel", "const_string", "constmem", "device_func", "dispatcher", "enums",
        "exception", "flow_control", "iterators", "lang", "localmem", "make_function_to_jit_function", "print",
        "record_dtype", "recursion", "sm", "ssa", "sync", "warp_ops",
    )
)  # fmt: skip

#: The status when the suite cannot be downloaded.
NO_SUITE = 3


def main() -> int:
    options = parse_options()
    items = select(suite.load_items(), options)
    if not items:
        print("no item is chosen" if not options.shard else "no item of the shard is on the floor")
        return 0 if options.shard else 2
    scratch = options.scratch or suite.default_scratch()
    try:
        wheel = options.wheel or suite.get_wheel(scratch)
    except suite.DownloadError as error:
        print(error)
        return NO_SUITE
    tests = suite.unpack(wheel, scratch)
    start = time.perf_counter()
    work = Path(tempfile.mkdtemp(prefix="run-", dir=scratch))
    try:
        settings = Settings(
            tests, options.device, work, item_limit=options.item_limit, file_limit=options.file_limit,
            jobs=options.jobs, warnings="error" if options.strict else "default", tell=progress(options.quiet),
        )  # fmt: skip
        outcomes, unaided = run(items, settings)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    print("\n".join(scores.totals(items, outcomes, unaided)))
    print(f"on the {options.device} device, {time.perf_counter() - start:.0f} s")
    return finish(items, outcomes, unaided, options)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=suite.DEVICES, required=True)
    parser.add_argument("--classes", default="A", help="any of A, B and C together; A by default")
    parser.add_argument("--scope", action="store_true", help="only the items in scope")
    parser.add_argument("--shard", choices=("quick",), help="only items of the floor, in a minute's worth of files")
    parser.add_argument("-k", metavar="PATTERN", help="only items whose id this regular expression finds")
    parser.add_argument("--wheel", type=Path, help="the downloaded wheel, for machines without a package index")
    parser.add_argument("--scratch", type=Path, help="where the wheel and the suite are kept")
    parser.add_argument("--out", type=Path, help="write the outcome of every item here")
    parser.add_argument("--ranking", type=Path, help="write the reasons of failures here, the commonest first")
    parser.add_argument("--jobs", type=int, default=2, help="child processes at a time")
    parser.add_argument("--item-limit", type=int, default=120, help="seconds for an item")
    parser.add_argument("--file-limit", type=int, default=1200, help="seconds for all items of a file")
    parser.add_argument("--strict", action="store_true", help="warnings are errors, as in the suite's own settings")
    parser.add_argument("--update-floor", action="store_true", help="raise the floor to what this run reaches")
    parser.add_argument("-q", "--quiet", action="store_true", help="no line for each file")
    parser.add_argument("-v", "--verbose", action="store_true", help="the whole text of every failure")
    return parser.parse_args()


def select(items: list[suite.Item], options: argparse.Namespace) -> list[suite.Item]:
    chosen = [item for item in items if item.kind in options.classes]
    if options.scope:
        chosen = [item for item in chosen if item.in_scope]
    if options.shard:
        chosen = [item for item in chosen if item.file in QUICK and item.floor[options.device] != "-"]
    if options.k:
        chosen = [item for item in chosen if re.search(options.k, item.id)]
    return chosen


def progress(quiet: bool) -> object:
    return (lambda line: None) if quiet else (lambda line: print(line, flush=True))


def run(items: list[suite.Item], settings: Settings) -> tuple[dict[str, Outcome], dict[str, Outcome]]:
    """Outcomes with the source hook, and without it for the passing items that may owe their pass to it."""
    outcomes = run_items(items, settings)
    owing = [i for i in items if outcomes[i.id].passed and (i.lacks_source or outcomes[i.id].hooked)]
    if not owing:
        return outcomes, {}
    settings.tell(f"without the source hook: {len(owing)} items")
    return outcomes, run_items(owing, replace(settings, source_hook=False))


def finish(
    items: list[suite.Item], outcomes: dict[str, Outcome], unaided: dict[str, Outcome], options: argparse.Namespace
) -> int:
    if options.out:
        scores.write_outcomes(options.out, items, outcomes, unaided)
    if options.ranking:
        options.ranking.write_text("\n".join(scores.ranking(items, outcomes)) + "\n", encoding="utf-8")
    for item in items if options.verbose else ():
        if not outcomes[item.id].passed:
            found = outcomes[item.id]
            print(f"\n==== {item.id}: {found.verdict}: {found.reason}\n{found.text}")
    below = scores.below_floor(items, outcomes, unaided, options.device)
    if below:
        print(f"\n{len(below)} items below the floor:", *below, sep="\n")
    if options.update_floor:
        suite.write_floor(scores.raise_floor(suite.load_items(), outcomes, unaided, options.device))
    return 1 if below else 0


if __name__ == "__main__":
    sys.exit(main())
