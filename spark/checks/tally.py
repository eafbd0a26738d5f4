"""Checks as plain Python over one partition's small, ordered facts, and their way into the invariants table.

These checks read states, epochs and batches in order; written as loops they are a page each, and all that look at
one partition's samples share one pass (``DataFrame.groupBy.applyInArrow``) instead of a query plan each.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import pyarrow as pa

from spark.checks.invariants import Invariant

# What one pass found: the first violation's evidence is null where there was none.
TALLIES = pa.schema(
    [
        pa.field("invariant", pa.string(), nullable=False),
        pa.field("checked", pa.int64(), nullable=False),
        pa.field("violations", pa.int64(), nullable=False),
        pa.field("t_ns", pa.int64()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("evidence", pa.string()),
    ]
)


class Check(NamedTuple):
    """One thing checked; the columns of ``spark.checks.invariants.CHECK``, with the evidence still an object."""

    topic: str
    partition: int
    t_ns: int | None
    violated: bool
    evidence: Mapping[str, Any]


def tally(invariant: str, checks: Iterable[Check]) -> dict[str, Any]:
    """How many checks and violations, and the earliest violation (a row of ``TALLIES``)."""
    checked = violations = 0
    first: Check | None = None
    for check in checks:
        checked += 1
        if check.violated:
            violations += 1
            if first is None or (check.t_ns or 0) < (first.t_ns or 0):
                first = check
    found = {"invariant": invariant, "checked": checked, "violations": violations}
    if first is None:
        return found | {"t_ns": None, "topic": None, "partition": None, "evidence": None}
    where = {"t_ns": first.t_ns, "topic": first.topic, "partition": first.partition}
    return found | where | {"evidence": json.dumps(first.evidence, sort_keys=True)}


def summaries(
    tallies: Iterable[Mapping[str, Any]], names: Mapping[str, Invariant], lacking: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Rows of the invariants table, one for each name; nothing checked is unknown, never pass.

    ``lacking`` says of an invariant what evidence is missing: it turns a pass into unknown.
    """
    by_name: dict[str, list[Mapping[str, Any]]] = {name: [] for name in names}
    for each in tallies:
        if each["invariant"] in by_name:
            by_name[each["invariant"]].append(each)
    return [_summary(name, names[name], by_name[name], lacking.get(name)) for name in names]


def _summary(name: str, invariant: Invariant, parts: list[Mapping[str, Any]], lacking: str | None) -> dict[str, Any]:
    checked, violations = (sum(part[count] for part in parts) for count in ("checked", "violations"))
    found = sorted((p for p in parts if p["violations"]), key=lambda p: (p["t_ns"] or 0, p["topic"], p["partition"]))
    verdict, reason, evidence = "pass", None, None
    if found:
        evidence = found[0]["evidence"]
        verdict = "fail"
        reason = f"first violation on {found[0]['topic']}-{found[0]['partition']}: {evidence}"
    elif lacking or not checked:
        verdict, reason = "unknown", lacking or "nothing that was recorded could be checked"
    return {
        "invariant": name,
        "title": invariant.title,
        "severity": invariant.severity,
        "checked": checked,
        "violations": violations,
        "verdict": verdict,
        "reason": reason,
        "evidence": evidence,
    }
