"""What is asked of each partition, and what follows once all have answered."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from history.partition import TopicPartition
from kafka_files.segments import segment_files
from spark.checks import atomicity, judge
from spark.checks.allowed import allowed_to
from spark.checks.findings import Findings, Tally, facts
from spark.checks.judge import Answer, Question
from spark.checks.log_content import OpenEnds, ShortIsr
from spark.checks.sources import Sources
from spark.checks.transactions import transactional
from spark.evidence.partition import Drain

Spread = Callable[[Callable[[Question], Any], Sequence[Question]], list[Any]]  # asks partitions, side by side


@dataclass(frozen=True)
class Known:
    """What is known of the whole run before its records are judged.

    ``whole`` are the partitions of which every replica's log could be read from end to end, ``whole_logs`` the replicas
    of which that is true; ``final_isr`` are the members of each partition's last ISR, ``short`` the stretches in which
    an ISR was below min.insync.replicas.
    """

    whole: Set[TopicPartition]
    whole_logs: Set[tuple[TopicPartition, int]]
    final_isr: Mapping[TopicPartition, Sequence[int]]
    short: Mapping[TopicPartition, Sequence[ShortIsr]]
    unclean_producers: frozenset[str]


def questions(sources: Sources, partitions: Sequence[TopicPartition], known: Known) -> list[Question]:
    """One question for each partition."""
    run, manifest = sources.run, sources.manifest
    permitted = {p.producer_id: allowed_to(manifest, p, run.events) for p in manifest.producers}
    nodes = {node.node_id: node.name for node in manifest.brokers if node.node_id is not None}
    segments = _segments(run.folder.brokers, {name: number for number, name in nodes.items()})
    drains = {TopicPartition.of(row): _drain(row) for row in (row.asDict() for row in run.drains.collect())}
    deleted = {TopicPartition.of(row): row["deleted_before"] for row in sources.deleted}
    owed = {(TopicPartition.of(row), row["broker_id"]): row["from_offset"] for row in sources.own_starts}
    promised = any(p.acks == "all" and sources.clean(p.topic) for p in manifest.producers)
    asked = Question(
        folder=run.folder.path,
        where=TopicPartition("", 0),
        nodes=nodes,
        promised=promised,
        transactional=transactional(manifest),
        foreign=manifest.foreign,
        subscribed=frozenset(manifest.scenario.get("subscribed", [])),
        permitted=permitted,
        unclean_producers=known.unclean_producers,
    )
    found = []
    for where in partitions:
        logs = sources.logs.get(where)
        final = None if logs is None or not logs.clean else logs.final
        starts = {} if logs is None else {r.broker_id: r.log_start_offset or 0 for r in logs.replicas}
        members = [broker for broker in known.final_isr.get(where, ()) if (where, broker) in known.whole_logs]
        found.append(
            replace(
                asked,
                where=where,
                segments=segments.get(where, {}),
                drain=drains.get(where),
                whole=where in known.whole,
                clean=where.topic in manifest.topics and sources.clean(where.topic),
                deleted_before=deleted.get(where),
                members={broker: owed.get((where, broker), 0) for broker in members},
                final=final,
                log_start=starts.get(final, 0) if final is not None else 0,
                short=tuple(known.short.get(where, ())),
            )
        )
    return found


def _drain(row: Mapping[str, Any]) -> Drain:
    return Drain(row["position"], row["end_offset"], row["complete"])


def _segments(brokers: Path, numbers: Mapping[str, int]) -> dict[TopicPartition, dict[int, list[Path]]]:
    found: dict[TopicPartition, dict[int, list[Path]]] = {}
    for file in segment_files(brokers):
        broker = numbers.get(file.relative_to(brokers).parts[0])
        if broker is not None:
            found.setdefault(TopicPartition.parse(file.parent.name), {}).setdefault(broker, []).append(file)
    return found


def ask(asked: Sequence[Question], spread: Spread) -> tuple[list[Answer], Findings]:
    """Judge every partition; transactions are brought together over all of them.

    Of a transaction of unknown outcome a record that was seen anywhere commits all, so that is asked first; of those
    with a record that is gone every partition tells its part, which is asked last.
    """
    if any(question.transactional for question in asked):
        told = spread(judge.opened, asked)
        seen = frozenset().union(*(seen for _, seen in told))
        asked = [replace(each, committed=seen & frozenset(own)) for each, (own, _) in zip(asked, told, strict=True)]
    answers: list[Answer] = spread(judge.judge, asked)
    torn = frozenset().union(*(answer.gone_of for answer in answers)) if answers else frozenset()
    if torn:
        answers = spread(judge.judge, [replace(question, torn=torn) for question in asked])
    findings = Findings().merge(answer.findings for answer in answers)
    permitted = asked[0].permitted if asked else {}
    for row in atomicity.torn_transaction([answer.parts for answer in answers]):
        findings.add_case(row, permitted.get(row["producer_id"], {}).get(row["anomaly"]))
    if any(answer.open_ends.ended for answer in answers):
        compare_ends(findings, OpenEnds().merge(answer.open_ends for answer in answers))
    return answers, findings


def compare_ends(findings: Findings, open_ends: OpenEnds) -> None:
    """I27 of transactions of unknown outcome: all their records end alike, as the least of the words says."""
    tally = findings.tallies.setdefault("I27", Tally())
    for transaction, ended in sorted(open_ends.ended.items()):
        owed = min(ended)
        wrong = [word for word in ended if word != owed]
        first = None
        if wrong:
            t_ns, told = open_ends.first[transaction, wrong[0]]
            where = TopicPartition.of(told)
            evidence = {name: value for name, value in told.items() if name not in {"topic", "partition"}}
            first = t_ns, where, facts(evidence | {"owed": owed})
        tally.add(sum(ended.values()), sum(ended[word] for word in wrong), first)


def rows_of(findings: Findings, severity: Mapping[str, str]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Rows of ``history.tables.ANOMALIES`` (examples) and of ``ANOMALY_COUNTS``; evidence is JSON."""
    counted = [
        {**kind._asdict(), "severity": severity[kind.anomaly], "allowed": kind.allowed_why is not None, "cases": cases}
        for kind, cases in findings.counts.items()
    ]
    return list(_examples(findings, severity)), counted


def _examples(findings: Findings, severity: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    for kind, examples in findings.examples.items():
        about = {"anomaly": kind.anomaly, "severity": severity[kind.anomaly]}
        permitted = {"allowed": kind.allowed_why is not None, "allowed_why": kind.allowed_why}
        for row in examples:
            yield {**row, **about, **permitted, "evidence": facts(row["evidence"])}


def delivery(answers: Sequence[Answer]) -> Iterator[dict[str, Any]]:
    """Rows of ``history.tables.DELIVERY``."""
    for answer in answers:
        of = answer.findings
        found = {
            column: sum(cases for kind, cases in of.counts.items() if kind.anomaly == anomaly)
            for column, anomaly in _COUNTED.items()
        }
        row = answer.delivery
        if row["sent"] or any(found.values()):
            yield (
                row
                | found
                | {
                    "loss_rate_low": _share(row["lost"], row["acked"]),
                    "loss_rate_high": _share(min(row["lost"] + row["unseen"], row["acked"]), row["acked"]),
                    "duplicate_rate": _share(row["duplicate_copies"], row["read"]),
                }
            )


_COUNTED = {"phantom": "phantom_record", "corrupt": "corrupt_record", "aborted_read": "aborted_read"}


def _share(part: int, of: int) -> float | None:
    return part / of if of else None
