"""What judging one partition found, and how the findings of many partitions come together: by addition.

Counts are exact. Of the cases behind them a capped number is kept as examples: the first in the order of the log.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from history.partition import TopicPartition
from spark.evidence.columns import Ints, Names, producer_of

MAX_EXAMPLES = 1_000  # of one kind of case in one partition; of all partitions together as many


class Kind(NamedTuple):
    """Cases that are counted together: of one anomaly, permitted for one reason or (None) not permitted."""

    anomaly: str
    allowed_why: str | None


class Permissions:
    """What each producer of a run is permitted: producer → anomaly → why."""

    def __init__(self, by_producer: Mapping[str, Mapping[str, str]]) -> None:
        self._by_producer = by_producer

    def why(self, anomaly: str, producer: str | None) -> str | None:
        return self._by_producer.get(producer or "", {}).get(anomaly)


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
    """Cases by their kind, with examples as rows of ``history.tables.ANOMALIES``, and invariants by their name."""

    counts: Counter[Kind] = field(default_factory=Counter)
    examples: dict[Kind, list[dict[str, Any]]] = field(default_factory=dict)
    tallies: dict[str, Tally] = field(default_factory=dict)

    def add_cases(
        self,
        anomaly: str,
        where: TopicPartition,
        values: Ints,
        names: Names,
        permissions: Permissions,
        example: Callable[[int], Mapping[str, Any]],
        why: Callable[[int], str | None] | None = None,
    ) -> None:
        """Count cases of one anomaly, one for each value (-1: no record of ours), and keep the first as examples.

        ``example`` makes the row of the case at a place: offset, explanation and evidence, and what else a row holds.
        ``why`` says of a case what permits it, where more than its producer's settings does.
        """
        reasons = [None, *(permissions.why(anomaly, name) for name in names.listed)]
        of_case = producer_of(values) + 1
        if why is not None:
            own = [why(place) for place in range(values.size)]
            reasons = [*reasons, *own]
            given = np.array([each is not None for each in own], dtype=np.bool_)
            of_case = np.where(given, len(names.listed) + 1 + np.arange(values.size), of_case)
        distinct, counted = np.unique(of_case, return_counts=True)
        for code, count in zip(distinct.tolist(), counted.tolist(), strict=True):
            kind = Kind(anomaly, reasons[code])
            self.counts[kind] += count
            kept = self.examples.setdefault(kind, [])
            for place in np.flatnonzero(of_case == code)[: MAX_EXAMPLES - len(kept)].tolist():
                producer, seq = names.name(int(values[place]))
                kept.append({**where._asdict(), "producer_id": producer, "seq": seq, **example(place)})

    def add_checks(
        self, invariant: str, where: TopicPartition, checked: int, violated: Ints, t_ns: Ints,
        evidence: Callable[[int], Mapping[str, Any]],
    ) -> None:  # fmt: skip
        """Count checks; ``violated`` are the places of the violations, ``t_ns`` their times."""
        first = None
        if violated.size:
            at = int(np.argmin(t_ns))
            first = int(t_ns[at]), where, facts(evidence(int(violated[at])))
        self.tallies.setdefault(invariant, Tally()).add(checked, int(violated.size), first)

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
