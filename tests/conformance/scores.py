# SPDX-License-Identifier: Apache-2.0
"""Totals, ranked reasons and the floor, from the outcomes of a run."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from children import Outcome
    from suite import Item

__all__ = ["below_floor", "raise_floor", "ranking", "standing", "totals", "write_outcomes"]

_ORDER = {"-": 0, "hook": 1, "pass": 2}


def standing(item: Item, outcomes: Mapping[str, Outcome], unaided: Mapping[str, Outcome]) -> str:
    """``pass``, ``hook`` (only with the source hook) or ``-``.

    Args:
        unaided: outcomes without the hook, of the items that may need it; the others do not.
    """
    if not outcomes[item.id].passed:
        return "-"
    return "pass" if item.id not in unaided or unaided[item.id].passed else "hook"


def totals(items: Sequence[Item], outcomes: Mapping[str, Outcome], unaided: Mapping[str, Outcome]) -> Iterator[str]:
    """Lines of the table: class and tag, items, passes, passes without the source hook."""
    groups: dict[str, list[Item]] = {}
    for item in items:
        scope = "A in scope" if item.in_scope else "A out of scope" if item.kind == "A" else item.kind
        groups.setdefault(scope, []).append(item)
    yield f"{'class and tag':<46} {'items':>6} {'pass':>6} {'without hook':>13}"
    for scope in sorted(groups):
        yield _line(scope, groups[scope], outcomes, unaided)
        for tag in sorted({item.tag for item in groups[scope]}):
            yield _line(f"  {tag}", [item for item in groups[scope] if item.tag == tag], outcomes, unaided)


def _line(name: str, items: Sequence[Item], outcomes: Mapping[str, Outcome], unaided: Mapping[str, Outcome]) -> str:
    counts = Counter(standing(item, outcomes, unaided) for item in items)
    return f"{name:<46} {len(items):>6} {counts['pass'] + counts['hook']:>6} {counts['pass']:>13}"


def ranking(items: Sequence[Item], outcomes: Mapping[str, Outcome]) -> Iterator[str]:
    """Markdown: the reasons of items that do not pass, the commonest first, each with its items."""
    groups: dict[str, list[Item]] = {}
    for item in items:
        outcome = outcomes[item.id]
        if not outcome.passed:
            groups.setdefault(f"{outcome.verdict}: {cause(outcome.reason)}", []).append(item)
    yield f"{sum(map(len, groups.values()))} of {len(items)} items do not pass, for {len(groups)} reasons.\n"
    for reason, failed in sorted(groups.items(), key=lambda pair: (-len(pair[1]), pair[0])):
        scope = sum(item.in_scope for item in failed)
        yield f"## {len(failed)} ({scope} in scope): {reason}\n"
        yield f"for example: {outcomes[failed[0].id].reason}\n"
        yield from (f"- {item.id}" for item in failed)
        yield ""


def cause(reason: str) -> str:
    """A reason without what differs between items of the same cause: numbers, addresses, folders, files of text."""
    text = re.sub(r"0x[0-9a-f]+", "0x…", reason)
    text = re.sub(r"( not found in | is not true : ).*", r"\1…", text)  # the text that was searched
    text = re.sub(r"(/[\w.+-]+)+/", "", text)
    text = re.sub(r"<text \d+ of \w+>:\d+|\b\w+\.py:\d+", "FILE", text)
    return re.sub(r"(?<![\w.])[-+]?\d[\d.]*(e[-+]?\d+)?\b", "N", text)[:160]


def below_floor(
    items: Iterable[Item], outcomes: Mapping[str, Outcome], unaided: Mapping[str, Outcome], device: str
) -> list[str]:
    """A line for each item that does not reach its floor."""
    lines = []
    for item in items:
        found = standing(item, outcomes, unaided)
        if _ORDER[found] < _ORDER[item.floor[device]]:
            outcome = (unaided if outcomes[item.id].passed else outcomes)[item.id]
            lines.append(f"{item.id}: {outcome.verdict}: {outcome.reason}")
    return lines


def raise_floor(
    items: Sequence[Item], outcomes: Mapping[str, Outcome], unaided: Mapping[str, Outcome], device: str
) -> list[Item]:
    """The items with a floor as high as this run or as it was, whichever is higher."""

    def higher(item: Item) -> Item:
        if item.id not in outcomes:
            return item
        best = max(item.floor[device], standing(item, outcomes, unaided), key=_ORDER.__getitem__)
        return replace(item, floor={**item.floor, device: best})

    return [higher(item) for item in items]


def write_outcomes(
    path: Path, items: Iterable[Item], outcomes: Mapping[str, Outcome], unaided: Mapping[str, Outcome]
) -> None:
    """``id``, class, tag, outcome, standing, seconds and reason, tab-separated."""
    lines = ["test\tclass\ttag\toutcome\tstanding\tseconds\treason"]
    for item in items:
        found = outcomes[item.id]
        reason = " ".join(found.reason.split())
        fields = (
            item.id,
            item.kind,
            item.tag,
            found.verdict,
            standing(item, outcomes, unaided),
            f"{found.seconds:.2f}",
        )
        lines.append("\t".join((*fields, reason)))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
