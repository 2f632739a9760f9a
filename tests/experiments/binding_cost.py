# SPDX-License-Identifier: Apache-2.0
"""What finding a kernel's code costs us, the driver's time apart.

    python3 tests/experiments/binding_cost.py [--quick] [--gpu] [--clock thread_time] [--out FILE]

Decorating costs at most 3 µs per kernel over a decorator that does nothing; the first bind of a process costs the same,
within 0.2 ms, with 10 and with 10,000 kernels in the archive; a hit in a cache of up to a thousand images costs a fresh
process at most 2 ms from the question to the image, importing our modules for it included (in a larger one, reading
the index takes longer: 0.05 ms per thousand). How it is measured: ``tests/benchmarks/bench_bind.py``. With ``--gpu``,
in an environment with the installed sample, binding is also compared to the driver's load of the same bytes. The quick
form counts processor time and allows several times as much: the suite shares its cores.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from reporting import Report

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "benchmarks"))

from bench_bind import STEPS, Costs, Scale, measure

__all__ = ["main"]

#: In seconds.
DECORATING = 3e-6
FIRST_BIND_SPREAD = 0.2e-3
CACHE_HIT = 2e-3
#: Images in a cache that the limit is for.
MOST_CACHED = 1000

#: What no bind and no hit may import.
HEAVY = {
    "ast",
    "cudabuild.compiler",
    "dataclasses",
    "dis",
    "inspect",
    "importlib.metadata",
    "json",
    "llvmlite",
    "numpy",
    "re",
    "tempfile",
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer kernels and repeats, wider limits")
    parser.add_argument("--gpu", action="store_true", help="with the GPU and the installed sample")
    parser.add_argument("--clock", help="of the module time: thread_time where other work shares the machine")
    parser.add_argument("--out", type=Path, help="write the figures to this JSON file")
    options = parser.parse_args()
    report = Report("binding cost")
    clock = options.clock or ("thread_time" if options.quick else "perf_counter")
    costs = measure(Scale(options.quick), gpu=options.gpu, clock=clock)
    judge(report, costs, slack=5 if options.quick else 1)
    if options.out:
        options.out.write_text(json.dumps(vars(costs), indent=1, default=sorted), "utf-8")
    return report.status()


def judge(report: Report, costs: Costs, slack: int) -> None:
    """Compares with the limits."""
    for form, seconds in costs.decorating.items():
        report.check(f"decorating with {form}", seconds <= slack * DECORATING, f"{seconds * 1e6:.2f} µs")
    firsts = {count: row["first"] for count, row in costs.first_bind.items()}
    spread = max(firsts.values()) - min(firsts.values())
    told = ", ".join(f"{count:,} kernels {seconds * 1e3:.3f} ms" for count, seconds in firsts.items())
    report.check("the first bind, whatever the archive's size", spread <= slack * FIRST_BIND_SPREAD, told)
    for count, row in costs.cache_hit.items():
        within = f"{row['cache'] * 1e3:.3f} ms; the first launch altogether {row['first'] * 1e3:.3f} ms"
        if count <= MOST_CACHED:
            report.check(f"a hit among {count:,} cached images", row["cache"] <= slack * CACHE_HIT, within)
    expected = {"bind: shipped cubin", "hit: cached cubin"}
    report.check("images", {source.rpartition(" ")[0] for source in costs.sources} == expected, sorted(costs.sources))
    for what, modules in costs.imported.items():
        heavy = sorted(HEAVY & set(modules))
        report.check(f"imported for {what}", not heavy, f"{len(modules)} modules; heavy: {heavy or 'none'}")
    for kind, rows in (("shipped, kernels in the archive", costs.first_bind), ("cached, images", costs.cache_hit)):
        for count, row in rows.items():
            report.note(f"{kind} {count:,}: " + ", ".join(f"{step} {row[step] * 1e3:.3f}" for step in STEPS) + " ms")
    ours, raw = costs.loads["ours"], costs.loads["library"]
    report.note(
        f"bind and load one of many {ours * 1e6:.0f} µs, {costs.loads['driver'] * 1e6:.0f} of them in the driver; the "
        f"same bytes by cuLibraryLoadData {raw * 1e6:.0f}, by cuModuleLoadData {costs.loads['module'] * 1e6:.0f}: "
        f"x {ours / raw:.2f}"
    )


if __name__ == "__main__":
    sys.exit(main())
