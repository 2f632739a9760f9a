# SPDX-License-Identifier: Apache-2.0
"""Faults that users of other kernel caches and compilers met do not happen here: case, tests, result.

    python tests/experiments/known_faults.py            # every test of the table in tests/cases/README.md
    python tests/experiments/known_faults.py --quick    # the quickest of them; the others are found, not run

A case holds if all of its tests pass; one that was skipped is told with its reason.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path

from reporting import CHECKOUT, Report, clean_environment, run

sys.path.insert(0, str(CHECKOUT / "tests" / "cases"))
from case_table import TESTS, Case, read_cases

__all__ = ["main"]

#: Files whose tests take a few seconds together.
QUICK = ("cases/test_identity.py", "cases/test_paths.py", "cases/test_architectures.py", "image/test_archive.py")

Results = dict[str, Counter[str]]


def run_tests(names: list[str], output: Path, processes: int) -> Results:
    """Runs tests; for each, how many of its parametrisations ``passed``, were ``skipped`` or ``failed``."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={output}"]
    if processes > 1:
        command += ["-n", str(processes), "--dist", "loadfile", "--examples", "100"]
    done = run([*command, *(str(TESTS / name) for name in names)], clean_environment(), CHECKOUT)
    if not output.exists():
        raise RuntimeError(f"pytest did not run:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    found: Results = {}
    for case in ElementTree.parse(output).iter("testcase"):
        name = case.get("name", "").partition("[")[0]
        parts = case.get("classname", "").split(".")
        parts = parts[parts.index("tests") + 1 :] if "tests" in parts else parts
        depth = next(number for number, part in enumerate(parts) if part.startswith("test_"))
        file = f"{'/'.join(parts[: depth + 1])}.py"
        kinds = {child.tag for child in case}
        result = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
        found.setdefault("::".join([file, *parts[depth + 1 :], name]), Counter())[result] += 1
    return found


def run_experiment(name: str) -> Results:
    done = run([sys.executable, TESTS / name, "--quick"], cwd=CHECKOUT)
    return {name: Counter({"failed" if done.returncode else "passed": 1})}


def tell(report: Report, case: Case, results: Results) -> None:
    """One line of the table: the case, how its tests ended, and below it their names where they did not pass."""
    known = [results[name] for name in case.tests if name in results]
    total: Counter[str] = sum(known, Counter())
    missing = [name for name in case.tests if name not in results]
    detail = ", ".join(f"{count} {result}" for result, count in sorted(total.items()))
    holds = not missing and not total["failed"] and total["passed"] > 0
    report.check(
        f"{case.section}. {case.kind} ({', '.join(case.threads)})", holds, f"{detail or 'no result'}: {case.holds}"
    )
    for name in case.tests:
        result = results.get(name, Counter({"not run": 1}))
        if result.keys() != {"passed"}:
            report.note(f"{name}: {dict(result)}")


def main() -> int:
    """Runs the tests of the table and prints it with their results; 1 if a case does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="only the quickest tests")
    options = parser.parse_args()
    report = Report("faults that others met")
    cases = read_cases()
    names = sorted({name for case in cases for name in case.tests})
    tests = [name for name in names if "::" in name and (not options.quick or name.startswith(QUICK))]
    with tempfile.TemporaryDirectory() as folder:
        results = run_tests(tests, Path(folder) / "results.xml", processes=2)
    if not options.quick:
        for name in names:
            if "::" not in name:
                results |= run_experiment(name)
    ran = [case for case in cases if any(name in results for name in case.tests)]
    for case in ran:
        if options.quick:
            case.tests = [name for name in case.tests if name in results]
        tell(report, case, results)
    report.note(f"{len(ran)} of {len(cases)} cases, {len(results)} tests of {len(names)}")
    return report.status()


if __name__ == "__main__":
    sys.exit(main())
