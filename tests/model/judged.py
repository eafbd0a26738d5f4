"""Convert the model's rows to a partition's evidence and judge it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from evidence.batches import read_batches
from evidence.facts import FOREVER_NS, BrokerStop, Drain, PartitionFacts, Permitted, Replica
from evidence.gather import in_windows
from evidence.partition import PartitionEvidence
from evidence.samples import Samples
from evidence.views import decided, final_isr, short_isrs
from history.partition import TopicPartition
from judge.checks import invariants, visibility
from judge.checks.cases import accounted, cases
from judge.checks.causes import brought_about
from judge.checks.findings import Findings
from judge.checks.leader_changes import possible_losses
from judge.partition import Watching
from kafka_files.states import State
from tests.evidence.folders import TP
from tests.evidence.partitions import log_of
from tests.evidence.probed import facts_of, partition
from tests.model.folder import encoded
from tests.model.parts import BROKERS, MAX_ISR_LAG_NS, History

WHERE = TopicPartition(**TP)


def states(history: History) -> list[State]:
    """Return the controller's history."""
    return [
        State(*WHERE, "metadata_log", n, s.t_ns, s.leader, s.epoch, s.partition_epoch, BROKERS, tuple(sorted(s.isr)))
        for n, s in enumerate(history.states)
    ]


def placed(rows: list[dict[str, Any]], **where: Any) -> list[dict[str, Any]]:
    """Return rows with their topic and partition."""
    return [{**TP, **where, **row} for row in rows]


def starts(history: History) -> dict[int, int]:
    """Return each epoch's start: its smallest entry in the epoch files."""
    found: dict[int, int] = {}
    for epoch, start in (entry for epochs in history.epochs.values() for entry in epochs):
        found[epoch] = min(start, found.get(epoch, start))
    return found


def facts(history: History) -> PartitionFacts:
    """Return the facts about the partition other than its samples."""
    return facts_of(
        states=states(history),
        starts=starts(history),
        stops=[BrokerStop(*fault) for fault in history.faults],
        max_isr_lag_ns=MAX_ISR_LAG_NS,
        effective_min_isr=history.effective_min_isr,
        strict_min_isr=history.strict_min_isr,
        lax_min_isr=not history.strict_min_isr,
    )


def replicas(history: History, folder: Path) -> Iterator[Replica]:
    """Write the replicas' files into a folder and yield them."""
    for broker_id, log in history.logs.items():
        file = folder / f"{broker_id}.log"
        file.write_bytes(b"".join(map(encoded, log)))
        yield Replica(broker_id, [file], history.epochs[broker_id], 0, history.high_watermarks[broker_id])


def held(history: History, broker_id: int) -> Iterator[dict[str, Any]]:
    """Yield every record of a replica's log."""
    for one in history.logs[broker_id]:
        for n, seq in enumerate(one.seqs):
            yield {"offset": one.base + n, "seq": seq, "producer_id": one.producer, "leader_epoch": one.epoch}


def evidence_of(history: History, folder: Path) -> PartitionEvidence:
    """Return all evidence that a run would have of the partition."""
    known = facts(history)
    files = tuple(replicas(history, folder))
    of = partition(
        placed(history.samples),
        placed(history.views, source="metadata"),
        sends=placed(history.sends),
        polls=placed(history.polls),
        seeks=placed(history.seeks),
        changes=decided(known.states),
        facts=known,
        epoch_starts=starts(history),
        replicas=files,
        batches={each.broker_id: read_batches(each.segments) for each in files},
        complete=frozenset(history.logs),
        final=history.leader,
        drain=Drain(history.drain_end, history.drain_end, True),
        lines=placed(history.lines),
        captures=placed(history.captures),
        nodes={broker_id: f"broker-{broker_id}" for broker_id in history.logs},
    )
    return replace(
        of,
        logs={broker_id: log_of(list(held(history, broker_id)), of.names) for broker_id in history.logs},
        members=dict.fromkeys(final_isr(of.views), 0),
        short=short_isrs(known, of.views, of.names),
    )


def judged(history: History, permitted: Permitted | None = None, cuts: Sequence[int] = ()) -> Findings:
    """Return the findings of all checks on a history, including what is ``permitted``.

    ``cuts``: places at which its samples are cut into windows.
    """
    findings = Findings()
    with TemporaryDirectory() as folder:
        whole = evidence_of(history, Path(folder))
        watch = Watching(whole.run, findings)
        of = in_windows(whole, in_parts(whole.samples, cuts), watch)
        _judge(of, findings, permitted or {}, watch.early)
    return findings


def judged_whole(history: History, permitted: Permitted | None = None) -> Findings:
    """Return the findings of all checks on all samples."""
    findings = Findings()
    with TemporaryDirectory() as folder:
        of = evidence_of(history, Path(folder))
        invariants.check_window(of, findings)
        _judge(of, findings, permitted or {})
    return findings


def _judge(
    of: PartitionEvidence, findings: Findings, permitted: Permitted, early: visibility.EarlyReads | None = None
) -> None:
    for each in cases(of, accounted(of), early):
        findings.add_cases(WHERE, each, of.names, permitted, partial(brought_about, of, possible_losses(of)))
    invariants.check(of, findings)


def in_parts(samples: Samples, cuts: Sequence[int]) -> Iterator[tuple[Samples, int]]:
    """Yield the samples between cuts, and the time before which no later one is sent."""
    for begin, end in pairwise([0, *sorted(cuts), len(samples)]):
        yield samples.take(slice(begin, end)), int(samples.sent_ns[end]) if end < len(samples) else FOREVER_NS
