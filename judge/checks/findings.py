"""What judging one partition found, and how the findings of many partitions come together: by addition.

Counts are exact. Of the cases behind them a capped number is kept as examples: the first in the order of the log.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from evidence.columns import NULL, Bools, Ints, Names, groups, producer_of
from evidence.gather import Permitted
from history.partition import TopicPartition

MAX_EXAMPLES = 1_000  # of one kind of case in one partition; of all partitions together as many


class Kind(NamedTuple):
    """Cases that are counted together: of one anomaly, permitted for one reason or (None) not permitted."""

    anomaly: str
    allowed_why: str | None


class Cases(NamedTuple):
    """Cases of one anomaly, one for each value (-1: about no record of ours).

    ``example`` makes the row of the case at a place: ``offset``, ``explanation`` and ``evidence`` (a mapping), and
    where it is about an acknowledgement ``acks`` and ``at_ns``. ``why`` says of a case what permits it, where more
    than its producer's settings does.
    """

    anomaly: str
    values: Ints
    example: Callable[[int], Mapping[str, Any]]
    why: Callable[[int], str | None] | None = None


BroughtAbout = Callable[[Cases, str | None], Bools]  # which cases a permission's cause may have brought about


class Checks(NamedTuple):
    """Checks of one invariant: how many, and of each violation its time (``NULL``: none) and evidence by its place."""

    checked: int
    violated_ns: Ints
    evidence: Callable[[int], Mapping[str, Any]]


class Check(NamedTuple):
    """One thing checked: when (None: at no time), whether the invariant is violated, and by what."""

    t_ns: int | None
    violated: bool
    evidence: Mapping[str, Any]


def checks_of(found: Iterable[Check]) -> Checks:
    """The same as counts and violations, in their order."""
    checked, violations = 0, []
    for check in found:
        checked += 1
        if check.violated:
            violations.append(check)
    violated_ns = np.array([NULL if each.t_ns is None else each.t_ns for each in violations], dtype=np.int64)
    return Checks(checked, violated_ns, lambda place: violations[place].evidence)


@dataclass
class Tally:
    """How often an invariant was checked and violated, and its first violation."""

    checked: int = 0
    violations: int = 0
    first: tuple[int, TopicPartition, str] | None = None  # when (0: at no time), where, its evidence as JSON

    def add(self, checked: int, violations: int, first: tuple[int, TopicPartition, str] | None) -> None:
        self.checked += checked
        self.violations += violations
        if first is not None:
            self.first = first if self.first is None else min(self.first, first)


@dataclass
class Findings:
    """Cases by their kind, with examples as rows of ``history.tables.ANOMALIES``, and invariants by their name;
    ``unchecked`` are those that a partition had to be checked for and was not.
    """

    counts: Counter[Kind] = field(default_factory=Counter)
    examples: dict[Kind, list[dict[str, Any]]] = field(default_factory=dict)
    tallies: dict[str, Tally] = field(default_factory=dict)
    unchecked: set[str] = field(default_factory=set)

    def add_cases(
        self, where: TopicPartition, cases: Cases, names: Names, permitted: Permitted, brought_about: BroughtAbout
    ) -> None:
        """Count cases by the first of their producer's permissions whose cause may have brought them about, and keep
        the first as examples.
        """
        reasons: list[str | None] = [None]
        of_case = np.zeros(cases.values.size, dtype=np.int64)
        brought = cache(partial(brought_about, cases))  # of a cause, whoever the producer is
        for (code,), own in groups(producer_of(cases.values)):
            permissions = permitted.get(names.listed[code], {}).get(cases.anomaly, ()) if code >= 0 else ()
            for each in permissions:
                of_case[own[(of_case[own] == 0) & brought(each.cause)[own]]] = len(reasons)
                reasons.append(each.why)
        if cases.why is not None:
            for place in range(cases.values.size):
                why = cases.why(place)
                if why is not None and reasons[of_case[place]] is None:
                    of_case[place] = len(reasons)
                    reasons.append(why)
        codes, first = np.unique(of_case, return_index=True)
        for code in codes[np.argsort(first)].tolist():
            kind = Kind(cases.anomaly, reasons[code])
            places = np.flatnonzero(of_case == code)
            self.counts[kind] += places.size
            kept = self.examples.setdefault(kind, [])
            for place in places[: max(0, MAX_EXAMPLES - len(kept))].tolist():
                producer, seq = names.name(int(cases.values[place]))
                kept.append({**where._asdict(), "producer_id": producer, "seq": seq, **cases.example(place)})

    def add_case(self, row: Mapping[str, Any], why: str | None) -> None:
        """Count one case by itself, with its row."""
        kind = Kind(row["anomaly"], why)
        self.counts[kind] += 1
        kept = self.examples.setdefault(kind, [])
        if len(kept) < MAX_EXAMPLES:
            kept.append(dict(row))

    def add_checks(self, where: TopicPartition, invariant: str, checks: Checks) -> None:
        """Count checks, and keep the first violation."""
        first = None
        if checks.violated_ns.size:
            at = int(np.argmin(checks.violated_ns))
            t_ns = int(checks.violated_ns[at])
            first = 0 if t_ns == NULL else t_ns, where, facts(checks.evidence(at))
        tally = self.tallies.setdefault(invariant, Tally())
        tally.add(checks.checked, int(checks.violated_ns.size), first)

    def merge(self, others: Iterable[Findings]) -> Findings:
        """These and the findings of other partitions, in the order of their topics and partitions."""
        for other in others:
            self.counts.update(other.counts)
            for kind, examples in other.examples.items():
                self.examples.setdefault(kind, []).extend(examples)
            for name, tally in other.tallies.items():
                self.tallies.setdefault(name, Tally()).add(tally.checked, tally.violations, tally.first)
        for examples in self.examples.values():
            examples.sort(key=_in_order)
            del examples[MAX_EXAMPLES:]
        return self


def _in_order(row: Mapping[str, Any]) -> tuple[str, int, int, str, int]:
    offset = row.get("offset")
    return row["topic"], row["partition"], -1 if offset is None else offset, row["producer_id"] or "", row["seq"] or 0


def facts(evidence: Mapping[str, Any]) -> str:
    """Evidence as a JSON object in the order of its names, without what is unknown."""
    known = {name: value for name, value in evidence.items() if value is not None}
    return json.dumps(known, sort_keys=True, separators=(",", ":"))
