"""Require that the checks could decide."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from evidence.profiles import profile_of
from history.anomalies import LOST, SEVERITY
from history.manifest import Manifest
from history.words import counted as number_of
from judge.checks.delivery import total
from judge.verdict.evidence import Item, first_of


def decided(manifest: Manifest, tables: Mapping[str, pa.Table]) -> list[Item]:
    """Return what must be decided (tables of ``history.tables.JUDGED``), with a sentence on what is not."""
    counts = tables["anomaly_counts"].to_pylist()
    return [
        invariants_decided(tables["invariants"].to_pylist()),
        offsets_hold(manifest, forbidden(counts)),
        cases_decided(counts),
        sends_decided(total(tables["delivery"].to_pylist()), logs=profile_of(manifest).allows({"segments"})),
        control_seen(manifest.control, cases(counts)),
    ]


def cases(counts: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Return the number of cases of each anomaly (rows of ``ANOMALY_COUNTS``)."""
    return {name: sum(row["cases"] for row in counts if row["anomaly"] == name) for name in SEVERITY}


def forbidden(counts: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Return the cases that violate a guarantee; undecided ones of severity S2 need review, too."""
    return cases([row for row in counts if row["allowed"] is False or (row["severity"] == "S2" and not row["allowed"])])


def invariants_decided(invariants: Iterable[Mapping[str, Any]]) -> Item:
    """Require that every applicable invariant was decided."""
    open_ones = (
        f"{row['invariant']} is undecided{_unproven(row['violations'])}: {row['reason']}."
        for row in invariants
        if row["verdict"] == "unknown"
    )
    return "every invariant decided", first_of(open_ones)


def _unproven(violations: int) -> str:
    return f" (violations that are not proven: {violations:,})" if violations else ""


def cases_decided(counted: Iterable[Mapping[str, Any]]) -> Item:
    """Require that every S1 case is decided."""
    by_lack: dict[str, list[str]] = {}
    for row in counted:
        if row["undecided"] and row["severity"] == "S1":
            by_lack.setdefault(row["undecided"], []).append(f"{row['cases']:,} x {row['anomaly']}")
    sentences = (f"Whether {', '.join(cases)} violate a guarantee is unknown: {why}." for why, cases in by_lack.items())
    return "every case decided", first_of(sentences)


def sends_decided(row: dict[str, int], *, logs: bool = True) -> Item:
    """Require that every acknowledged record's fate is known."""
    split = ("truncated_ack", "invisible_ack", "unknown_offset_ack")
    open_ones = row["unseen"] - sum(row[name] for name in split)
    them, they = ("it", "it") if open_ones == 1 else ("them", "they")
    records = number_of(open_ones, "acknowledged record")
    log = f" a replica's log ends before {them}," if logs else ""
    what = (
        f"The fate of {records} is unknown: readers may not have passed {them},{log} or {they} may have "
        "been deleted or compacted."
    )
    return "every acknowledged record decided", what if open_ones else None


def offsets_hold(manifest: Manifest, forbidden: Mapping[str, int]) -> Item:
    """Require that acknowledged offsets hold."""
    wrong = forbidden.get("bad_ack_offset", 0) if manifest.foreign else 0
    they, name = ("it says", "names") if wrong == 1 else ("they say", "name")
    acknowledgements = number_of(wrong, "acknowledgement")
    what = f"{acknowledgements} {name} a wrong offset (bad_ack_offset): what else {they} cannot be relied on."
    return "every acknowledged offset holds", what if wrong else None


def control_seen(control: str | None, found: dict[str, int]) -> Item:
    """Require that a positive control showed its anomaly."""
    shows = LOST if control in LOST else (control,)
    seen = control is None or any(found.get(name or "") for name in shows)
    return "positive control seen", None if seen else f"This control must show {control}, and none was found."
