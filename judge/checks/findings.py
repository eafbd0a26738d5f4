"""One partition's findings, and sums of many.

Counts are exact; examples are the first cases.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial, wraps
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evidence.columns import NULL, Bools, Ints, Names, groups, producer_of
from evidence.facts import Permitted
from evidence.partition import PartitionEvidence
from evidence.sources import Source
from history.partition import TopicPartition

MAX_EXAMPLES = 1_000  # per kind, of one partition and of all


class Kind(NamedTuple):
    """Cases that are counted together; forbidden without permission or missing evidence."""

    anomaly: str
    allowed_why: str | None
    undecided: str | None = None

    @property
    def allowed(self) -> bool | None:
        return True if self.allowed_why else None if self.undecided else False


class Cases(NamedTuple):
    """Cases of one anomaly, by value (-1: no record of the run).

    ``example`` makes a case's row: ``offset``, ``explanation``, ``evidence`` and, for an acknowledgement, ``acks`` and
    ``at_ns``. ``why`` permits a case; ``doubt`` names the missing evidence. ``shown_ns``: when it was first seen
    (``NULL``: unknown). ``again``: records that must have been sent again, if not ``values``.
    """

    anomaly: str
    values: Ints
    example: Callable[[int], Mapping[str, Any]]
    why: Callable[[int], str | None] | None = None
    shown_ns: Ints | None = None
    again: Ints | None = None
    doubt: Callable[[int], str | None] | None = None


class Ruling(NamedTuple):
    """Which cases a cause brought about, and which ``missing`` evidence would decide."""

    brought: Bools
    undecided: Bools
    missing: str = ""


BroughtAbout = Callable[[Cases, str], Ruling]  # by cause


class Checks(NamedTuple):
    """An invariant's checks: their number, and each violation's time (``NULL``: none)."""

    checked: int
    violated_ns: Ints
    evidence: Callable[[int], Mapping[str, Any]]


Columns = Mapping[str, Ints | Sequence[Any]]


def columns_of(*parts: tuple[NDArray[np.integer[Any]], Columns]) -> Callable[[int], dict[str, Any]]:
    """Return evidence by place from rows of columns; ``NULL`` becomes None."""
    return lambda place: {
        name: plain(column[rows[place]]) for rows, columns in parts for name, column in columns.items()
    }


def plain(value: Any) -> Any:
    """Return a column's value as JSON has it."""
    if isinstance(value, np.generic):
        value = value.item()
    return None if value == NULL and type(value) is int else value


class Check(NamedTuple):
    """One check with its time, if any."""

    t_ns: int | None
    violated: bool
    evidence: Mapping[str, Any]


def checks_of(found: Iterable[Check]) -> Checks:
    """Convert checks to counts and violations, in order."""
    checked, violations = 0, []
    for check in found:
        checked += 1
        if check.violated:
            violations.append(check)
    violated_ns = np.array([NULL if each.t_ns is None else each.t_ns for each in violations], dtype=np.int64)
    return Checks(checked, violated_ns, lambda place: violations[place].evidence)


def gathered(check: Callable[[PartitionEvidence], Iterable[Check]]) -> Callable[[PartitionEvidence], Checks]:
    """Decorate a function that yields checks: return their counts and violations instead."""

    @wraps(check)
    def gather(of: PartitionEvidence) -> Checks:
        return checks_of(check(of))

    return gather


@dataclass
class Tally:
    """An invariant's checks and violations."""

    checked: int = 0
    violations: int = 0
    first: tuple[int, TopicPartition, str] | None = None  # time (0: none, comes first), partition, evidence

    def add(self, checked: int, violations: int, first: tuple[int, TopicPartition, str] | None) -> None:
        self.checked += checked
        self.violations += violations
        if first is not None and (self.first is None or first[:2] < self.first[:2]):
            self.first = first


@dataclass
class Findings:
    """Cases by kind, and invariants by name.

    For one partition: ``unchecked`` are required invariants without a check; ``lacking`` is missing evidence by kind.
    """

    counts: Counter[Kind] = field(default_factory=Counter)
    examples: dict[Kind, list[dict[str, Any]]] = field(default_factory=dict)
    tallies: dict[str, Tally] = field(default_factory=dict)
    unchecked: set[str] = field(default_factory=set)
    lacking: dict[Source, str] = field(default_factory=dict)

    def add_cases(
        self, where: TopicPartition, cases: Cases, names: Names, permitted: Permitted, brought_about: BroughtAbout
    ) -> None:
        """Count cases, and keep the first as examples.

        A case's kind is its producer's first permission whose cause may have brought it about, else the missing
        evidence.
        """
        kinds, of_case = ruled(cases, names, permitted, brought_about)
        codes, first = np.unique(of_case, return_index=True)
        for code in codes[np.argsort(first)].tolist():
            kind = kinds[code]
            places = np.flatnonzero(of_case == code)
            self.counts[kind] += places.size
            kept = self.examples.setdefault(kind, [])
            for place in places[: max(0, MAX_EXAMPLES - len(kept))].tolist():
                producer, seq = names.name(int(cases.values[place]))
                kept.append({**where._asdict(), "producer_id": producer, "seq": seq, **cases.example(place)})

    def add_case(self, row: Mapping[str, Any], kind: Kind) -> None:
        self.counts[kind] += 1
        kept = self.examples.setdefault(kind, [])
        if len(kept) < MAX_EXAMPLES:
            kept.append(dict(row))

    def add_checks(self, where: TopicPartition, invariant: str, checks: Checks) -> None:
        first = None
        if checks.violated_ns.size:
            at = int(np.argmin(checks.violated_ns))
            t_ns = int(checks.violated_ns[at])
            first = 0 if t_ns == NULL else t_ns, where, facts(checks.evidence(at))
        tally = self.tallies.setdefault(invariant, Tally())
        tally.add(checks.checked, int(checks.violated_ns.size), first)

    def doubted(self, why: Callable[[str], str | None]) -> Findings:
        """Return these findings, with forbidden cases undecided if ``why`` returns a reason."""
        kinds = {kind: in_doubt(kind, why(kind.anomaly)) for kind in self.counts}
        counts = Counter[Kind]()
        for kind, cases in self.counts.items():
            counts[kinds[kind]] += cases
        return replace(self, counts=counts, examples={kinds[kind]: rows for kind, rows in self.examples.items()})

    def merge(self, others: Iterable[Findings]) -> Findings:
        """Add other partitions' findings; examples are ordered by partition."""
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


def ruled(cases: Cases, names: Names, permitted: Permitted, brought_about: BroughtAbout) -> tuple[list[Kind], Ints]:
    """Return the kinds of cases, and each case's place among them."""
    kinds = {Kind(cases.anomaly, None): 0}
    of_case = np.zeros(cases.values.size, dtype=np.int64)

    def take(rows: Ints, why: str | None, undecided: str | None = None) -> None:
        of_case[rows] = kinds.setdefault(Kind(cases.anomaly, why, undecided), len(kinds))

    ruling = cache(partial(brought_about, cases))  # once per cause
    for (code,), own in groups(producer_of(cases.values)):
        permissions = permitted.get(names.listed[code], {}).get(cases.anomaly, ()) if code >= 0 else ()
        for each in permissions:
            take(own[(of_case[own] == 0) & ruling(each.cause).brought[own]], each.why)
        for each in permissions:
            take(own[(of_case[own] == 0) & ruling(each.cause).undecided[own]], None, ruling(each.cause).missing)
    if cases.why is not None or cases.doubt is not None:
        listed = list(kinds)
        for place in np.flatnonzero([listed[code].allowed_why is None for code in of_case.tolist()]).tolist():
            why = cases.why(place) if cases.why else None
            doubt = cases.doubt(place) if cases.doubt and not why else None
            if why or doubt:
                take(np.array([place]), why, doubt)
    return list(kinds), of_case


def in_doubt(kind: Kind, why: str | None) -> Kind:
    """Return a kind, undecided if forbidden with a reason."""
    return kind if why is None or kind.allowed is not False else kind._replace(undecided=why.rstrip("."))


def _in_order(row: Mapping[str, Any]) -> tuple[str, int, int, str, int]:
    offset = row.get("offset")
    return row["topic"], row["partition"], -1 if offset is None else offset, row["producer_id"] or "", row["seq"] or 0


def facts(evidence: Mapping[str, Any]) -> str:
    """Return evidence as a JSON object without unknown values."""
    known = {name: value for name, value in evidence.items() if value is not None}
    return json.dumps(known, sort_keys=True, separators=(",", ":"))
