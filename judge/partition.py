"""Judge one partition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from evidence.columns import NULL, OK, Ints, Names, producer_of
from evidence.counts import Counts
from evidence.facts import PartitionFacts, RunFacts, Transaction
from evidence.gather import Reading, acks_by_time, clients, gather, reads_by_time, samples_of
from evidence.partition import PartitionEvidence
from evidence.samples import Looks
from evidence.sources import Source
from evidence.views import Change, leaders
from history.partition import TopicPartition
from judge.checks import atomicity, imported, invariants, visibility
from judge.checks.account import counts
from judge.checks.anomalies import EXPLAINED
from judge.checks.cases import accounted, cases
from judge.checks.causes import brought_about
from judge.checks.findings import Findings, ruled
from judge.checks.leader_changes import history_gaps, possible_losses
from judge.checks.log_content import OpenEnds, open_ends
from judge.checks.readers import undecided_readers
from judge.checks.records import unrecorded
from judge.checks.shares import undecided_shares
from judge.measures import latency, recovery, replica_series
from judge.thinning import Sums
from judge.verdict.explanations import Case, Witnesses


@dataclass
class Answer:
    """One partition's findings and measures; ``gone_of``: transactions with a lost record."""

    where: TopicPartition
    findings: Findings
    counts: Counts
    delivery: dict[str, Any]
    changes: tuple[Change, ...]
    stalls: list[dict[str, Any]]
    loads: latency.Phases
    seconds: latency.Seconds
    series: Mapping[str, pa.Table]
    open_ends: OpenEnds
    gone_of: set[Transaction]


def open_transactions(run: RunFacts, facts: PartitionFacts) -> tuple[set[Transaction], set[Transaction]]:
    """Return transactions of unknown outcome, and those with a read record."""
    names = Names()
    sends, polls, _ = clients(run, Reading(run, facts.where), names)
    return atomicity.open_transactions(sends, atomicity.stable(polls, sends), names)


class Watching:
    """What is checked and measured window by window of a partition's samples."""

    def __init__(self, run: RunFacts, findings: Findings, *, divided: bool = False) -> None:
        self._run, self._findings, self._divided = run, findings, divided
        self.stalls = recovery.Stalls(run.spans)

    def looks(self, of: PartitionEvidence) -> Looks:
        self.early = visibility.EarlyReads(of, reads_by_time(of) if self._divided else None)
        self.series = replica_series.ReplicaSeries(of, self._run.probe_hz)
        return invariants.looks(of)

    def see(self, of: PartitionEvidence) -> None:
        if not self._run.foreign:
            invariants.check_window(of, self._findings)
            self.early.see(of.samples)
        self.series.add(of.samples)
        self.stalls.add(of.samples, of.window[1])


class Looking:
    """Keeps the samples that checks look at, and checks none."""

    looks = staticmethod(invariants.looks)

    def see(self, of: PartitionEvidence) -> None: ...


def judge(run: RunFacts, facts: PartitionFacts) -> Answer:
    """Judge one partition, which has ``pieces`` if it is large."""
    findings = Findings()
    watch = Watching(run, findings, divided=bool(facts.pieces))
    of, counted = gather(run, facts, watch)
    account = accounted(of)
    counted.unrecorded = unrecorded(of, account)
    counted.undecided_readers = [*undecided_readers(of), *undecided_shares(of)]
    by = partial(brought_about, of, possible_losses(of))
    for each in cases(of, account, watch.early):
        findings.add_cases(of.where, each, of.names, run.permitted, by)
    if not run.foreign:
        invariants.check(of, findings)
        findings.lacking = _lacking(of)
        _explain(of, findings)
    sums: list[Sums] = [each.sums for each in of.plain]
    loads = latency.phase_loads(of.sends, of.polls, of.names, run.load_spans)
    return Answer(
        where=of.where,
        findings=findings,
        counts=counted.merge(each.counts for each in sums),
        delivery={**of.where._asdict(), **counts(of.sends, account, of.plain)},
        changes=of.changes,
        stalls=recovery.longest_stalls(of.where, _acks(of), watch.stalls, run.spans),
        loads=latency.merge_phases([loads, *(each.loads for each in sums)]),
        seconds=latency.merge_seconds([latency.by_second(of.sends), *(each.seconds for each in sums)]),
        series={"timeline_replicas": watch.series.table(), "timeline_isr": replica_series.timeline_isr(of)},
        open_ends=open_ends(of) if of.clean and run.transactional else OpenEnds(),
        gone_of=atomicity.with_gone_records(of.sends, account, of.names) if run.transactional else set(),
    )


def torn_parts(run: RunFacts, torn: Set[Transaction], facts: PartitionFacts) -> atomicity.Parts:
    """Return what this partition has of torn transactions."""
    names = Names()
    sends, *_ = clients(run, Reading(run, facts.where), names)
    if not atomicity.has_any(sends, names, torn):
        return {}
    of, _ = gather(run, facts, Looking())
    by = partial(brought_about, of, possible_losses(of))
    rule = partial(ruled, names=of.names, permitted=run.permitted, brought_about=by)
    parts = atomicity.parts(of.where, of.sends, accounted(of), of.names, torn, ruled=rule)
    return imported.parts_with_names(parts, of) if run.foreign else parts


def _acks(of: PartitionEvidence) -> Iterable[Ints] | None:
    """Return the times of acknowledgements to open loops in order; None if none wrote here."""
    names = {of.names.listed[code] for code in np.unique(producer_of(of.sends.value)).tolist() if code >= 0}
    if of.run.open_loops.isdisjoint(names.union(*(each.numbers for each in of.plain))):
        return None
    if of.plain:
        return acks_by_time(of)
    acked = of.sends.take((of.sends.outcome == OK) & (of.sends.done_ns != NULL))
    codes = [code for code, name in enumerate(of.names.listed) if name in of.run.open_loops]
    return [np.sort(acked.done_ns[np.isin(producer_of(acked.value), codes)])]


def _lacking(of: PartitionEvidence) -> dict[Source, str]:
    lacking: dict[Source, str] = {}
    for gap in history_gaps(of):
        if not gap.undated:
            lacking.setdefault("history", gap.why)
        lacking.setdefault("dates", gap.why)
    return lacking


def _explain(of: PartitionEvidence, findings: Findings) -> None:
    examples = [
        (kind.anomaly, row) for kind, rows in findings.examples.items() if kind.anomaly in EXPLAINED for row in rows
    ]
    if not examples:
        return
    led: dict[int, list[tuple[int, int]]] = {}
    for (epoch, leader), seen_ns in leaders(of.views).items():
        led.setdefault(epoch, []).append((leader, seen_ns))
    lacking = of.run.profile.lacking("segments", "epoch files", "server logs", "history")
    ending = f" Not recorded: {lacking}." if lacking else ""
    acked_ns = sorted({row["at_ns"] for _, row in examples if row.get("at_ns") is not None})
    samples = samples_of(of.run, of.where, Looks(np.array(acked_ns, dtype=np.int64)))
    witnesses = Witnesses(samples, led, of.epochs, of.lines, of.run.origin_ns)
    for anomaly, row in examples:
        case = Case(anomaly, row["producer_id"], row["seq"], row["acks"], row["offset"], row.get("at_ns"))
        row["explanation"] = witnesses.explain(case) + ending
