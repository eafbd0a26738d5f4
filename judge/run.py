"""Judge a run: judge each partition, then combine the answers into tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

import pyarrow as pa

from evidence.contracts import complete
from evidence.counts import Copies, Counts, of_captures
from evidence.facts import PartitionFacts, Row, RunFacts
from evidence.groups import GroupFacts
from evidence.outages import outages_of_others
from evidence.reader import Tables
from evidence.readers import reader_facts
from evidence.run import Run, drains
from evidence.shares import ShareFacts
from evidence.silences import silences
from evidence.sources import Gap, Gaps, sources
from evidence.tables import read_rows, table_of
from expectations.tallies import Tallies
from history.anomalies import SEVERITY
from history.manifest import ATTACHED
from history.partition import TopicPartition
from history.share_groups import still_s
from history.tables import JUDGED, SEEKS
from history.traits import Trait
from judge import thinning
from judge.checks import anomalies, atomicity, invariants, known_bugs
from judge.checks.allowed import allowed_to, may_be_known_already, unclean_election
from judge.checks.delivery import total
from judge.checks.findings import Findings, Tally, facts, in_doubt
from judge.checks.log_content import OpenEnds
from judge.checks.premises import (
    Premises,
    active_faults,
    by_partition,
    disturbances,
    request_timeouts_ns,
    transaction_limit_ns,
    transactional,
)
from judge.measures import latency, metrics, recovery, steady
from judge.partition import Answer, judge, open_transactions, torn_parts
from judge.verdict import evidence
from judge.verdict.members import unrecorded_members

# Applies a function to every partition; the results keep the order.
Spread = Callable[[Callable[[PartitionFacts], Any], Sequence[PartitionFacts]], list[Any]]
Json = dict[str, Any]
CHECKS: Mapping[str, anomalies.Needs] = {
    **anomalies.NEEDS,
    **{name: anomalies.Needs(each.reads, each.whole, clean=each.clean) for name, each in invariants.INVARIANTS.items()},
}
READS: Mapping[str, frozenset[str]] = {name: check.reads for name, check in CHECKS.items()}


def is_beyond_others(name: str) -> bool:
    """Return whether a check needs sources that no cluster of others gives."""
    check = CHECKS.get(name)
    return check is not None and not check.reads - check.helpful <= ATTACHED


def one_by_one(judge: Callable[[PartitionFacts], Any], partitions: Sequence[PartitionFacts]) -> list[Any]:
    """Judge partitions in this process, without Spark."""
    return [judge(facts) for facts in partitions]


@dataclass(frozen=True)
class Judged:
    """A run's judged tables by name, and ``items``: the required evidence, with what is missing."""

    tables: Mapping[str, pa.Table]
    latency_log: str
    items: list[evidence.Item]
    gaps: Gaps
    seeks: list[Json]
    copies: Mapping[TopicPartition, Copies]
    tallies: Tallies


def judge_run(run: Run, spread: Spread) -> Judged:
    """Judge an opened run folder.

    Raises: EvidenceError.
    """
    premises = Premises(run)
    answers, parts = judge_partitions(run_facts(premises), partition_facts(premises), spread)
    counts = Counts(silences=_silences(run)).merge([*(answer.counts for answer in answers), of_captures(run.captures)])
    complete(run, counts.tallies, {answer.where for answer in answers})
    missing = evidence.gaps(run, counts)
    if run.requires_history:
        missing["history of the controller"] += _history_gaps(run, answers)
    gaps = Gaps(gap for of_item in missing.values() for gap in of_item)
    items = [*evidence.items(missing), ("elections told", evidence.first_of(premises.unproven_elections()))]
    findings = bring_together(answers, parts, gaps)
    seeks = read_rows(run.files["seeks"], SEEKS)
    loads = latency.merge_phases(answer.loads for answer in answers)
    tables = {name: table_of(rows, JUDGED[name]) for name, rows in _rows(run, answers, findings, gaps, loads)}
    tables |= {name: _joined(name, answers) for name in ("timeline_replicas", "timeline_isr")}
    manifest = run.manifest
    log = latency.histogram_log(loads, manifest.started_ns, datetime.fromisoformat(manifest.started_at).timestamp())
    return Judged(tables, log, items, gaps, seeks, counts.copies, counts.tallies)


def run_facts(premises: Premises) -> RunFacts:
    """Return the facts about the whole run."""
    run, manifest, outages = premises.run, premises.manifest, outages_of_others(premises.run)
    faults = [*active_faults(run.faults), *outages]
    return RunFacts(
        folder=run.folder.path,
        profile=run.profile,
        foreign=manifest.foreign,
        transactional=transactional(manifest),
        nodes={node.node_id: node.name for node in manifest.brokers if node.node_id is not None},
        permitted={
            p.producer_id: allowed_to(manifest, p, run.events, premises.led_cleanly) for p in manifest.producers
        },
        unclean_producers=evidence.unclean_producers(run, Tables(run.folder).counted("sends", "producer_id")),
        subscribed=frozenset(manifest.scenario.get("subscribed", [])),
        from_start={
            TopicPartition.parse(where): names for where, names in manifest.scenario.get("from_start", {}).items()
        },
        open_loops=frozenset(producer.producer_id for producer in manifest.producers if producer.rate_per_s),
        spans=tuple(run.phases),
        load_spans=tuple(recovery.load_spans(run.events)),
        resending=frozenset(p.producer_id for p in manifest.producers if may_be_known_already(manifest, p)),
        gave_up=evidence.gave_up(run),
        active_faults=tuple(faults),
        disturbances=(*disturbances(run.faults, manifest), *outages),
        request_timeouts_ns=request_timeouts_ns(manifest),
        transaction_limit_ns=transaction_limit_ns(manifest),
        origin_ns=_origin_ns(run),
        probe_hz=manifest.probe_hz,
        group=_group(premises),
        share=_share_group(premises),
        readers=reader_facts(manifest, run.events, run.clients, faults),
    )


def _origin_ns(run: Run) -> int:
    return next((span.from_ns for span in run.phases), run.manifest.started_ns)


def _group(premises: Premises) -> GroupFacts | None:
    load = _read_whole(premises)
    if load is None or premises.manifest.shares:
        return None
    session_ns, ended = int(load["group"]["session_timeout"] * 1e9), tuple(_ended_members(premises.run))
    return GroupFacts(load["topic"], session_ns, ended, load["group"].get("commit") == "ahead")


def _ended_members(run: Run) -> Iterator[tuple[str, int]]:
    for fault in run.faults:
        if "injected" in fault.events and run.manifest.has(fault.step, Trait.STOPS_PROCESS):
            effect_ns = fault.at_ns("injected")
            yield from ((name, effect_ns) for name in fault.nodes if name.startswith("member"))


def _share_group(premises: Premises) -> ShareFacts | None:
    load = _read_whole(premises)
    if load is None or not premises.manifest.shares:
        return None
    group = load["group"]
    members = [client for client in premises.run.clients if client["role"] == "member"]
    return ShareFacts(
        topic=load["topic"],
        lock_ns=int(group["lock"] * 1e9),
        still_ns=int(still_s(group["lock"]) * 1e9),
        delivery_limit=group["delivery_limit"],
        ended_ns=max((member["ended_ns"] for member in members if member["clean"] is True), default=0),
        unclean=frozenset(member["client_id"] for member in members if member["clean"] is not True),
        begun_ns=tuple(sorted(member["started_ns"] for member in members)),
    )


def _read_whole(premises: Premises) -> Json | None:
    """Return the load whose topic a group reads, if its members' records are complete and its commits survive."""
    load = premises.manifest.grouped
    if load is None or not premises.keeps_offsets or unrecorded_members(premises.run):
        return None
    return load


def partition_facts(premises: Premises) -> list[PartitionFacts]:
    """Return the facts about each partition."""
    run, manifest = premises.run, premises.manifest
    named = set(run.partitions).union(Tables(run.folder).partitions("sends", "polls"))
    sizes = Tables(run.folder).sizes()
    lines, captures, reached = by_partition(run.lines), by_partition(run.captures), drains(run.clients)
    found = []
    for where in sorted(named):
        topic = manifest.topics.get(where.topic)
        clean = premises.clean(where)
        after = [row for row in captures.get(where, ()) if row["capture"] == "after"]
        producers = [producer for producer in manifest.producers if producer.topic == where.topic]
        replicas = run.replicas.get(where, ())
        found.append(
            PartitionFacts(
                where=where,
                size=sizes[where] + sum(file.stat().st_size for each in replicas for file in each.segments),
                replicas=replicas,
                assigned=tuple(topic.assignment.get(where.partition, ())) if topic else (),
                ends={row["broker_id"]: row["log_end_offset"] for row in after if row["log_end_offset"] is not None},
                required_from=premises.required_from(where),
                drain=reached.get(where),
                deleted_before=premises.deleted.get(where),
                final=premises.final(where) if clean else None,
                clean=clean,
                kept=topic is not None and premises.kept(where.topic),
                expires=manifest.foreign and premises.expires(where.topic),
                tombstones_stay_ns=premises.tombstones_stay_ns(where.topic) if manifest.foreign else 0,
                idempotent=any(producer.idempotence for producer in producers),
                lines=lines.get(where, ()),
                captures=captures.get(where, ()),
                input=premises.of_input(evidence.input_of(run, where)),
                **(premises.of_replicas(where) if topic else {}),
            )
        )
    return found


def judge_partitions(
    run: RunFacts, partitions: Sequence[PartitionFacts], spread: Spread
) -> tuple[list[Answer], list[atomicity.Parts]]:
    """Judge every partition; then collect the records of transactions that lost some, which other partitions may have.

    A record that was read on any partition proves that its transaction is committed.
    """
    if run.transactional:
        transactions = spread(partial(open_transactions, run), partitions)
        seen = frozenset().union(*(seen for _, seen in transactions))
        partitions = [
            replace(facts, committed=seen & frozenset(own))
            for facts, (own, _) in zip(partitions, transactions, strict=True)
        ]
    answers: list[Answer] = spread(partial(judge, run), divided(run, partitions, spread))
    torn = frozenset().union(*(answer.gone_of for answer in answers))
    return answers, spread(partial(torn_parts, run, torn), partitions) if torn else []


def divided(run: RunFacts, partitions: Sequence[PartitionFacts], spread: Spread) -> list[PartitionFacts]:
    """Return the facts, those of large partitions with what is left of their parts."""
    parts_of = [thinning.parts(run, facts) for facts in partitions]
    pieces = iter(spread(partial(thinning.thin, run), [part for parts in parts_of for part in parts]))
    return [
        replace(facts, pieces=[next(pieces) for _ in parts], size=facts.size // len(parts)) if parts else facts
        for facts, parts in zip(partitions, parts_of, strict=True)
    ]


def bring_together(answers: Iterable[Answer], parts: Iterable[atomicity.Parts], gaps: Gaps) -> Findings:
    """Merge the findings of all partitions, and add torn transactions, which span partitions."""
    findings = Findings().merge(_doubted(answer, gaps) for answer in answers)
    why = gaps.anywhere(anomalies.NEEDS["torn_transaction"].whole)
    for row, kind in atomicity.torn_transaction(parts):
        findings.add_case(row, in_doubt(kind, why))
    return findings


def _doubted(answer: Answer, gaps: Gaps) -> Findings:
    return answer.findings.doubted(lambda name: gaps.of(anomalies.NEEDS[name].whole, answer.where))


def compare_ends(open_ends: OpenEnds) -> Tally:
    """Check I27 across partitions: a transaction has the same marker on all of them."""
    tally = Tally()
    for transaction, ended in sorted(open_ends.ended.items()):
        expected = min(ended)
        wrong = [word for word in ended if word != expected]
        first = None
        if wrong:
            t_ns, row = open_ends.first[transaction, wrong[0]]
            evidence = {name: value for name, value in row.items() if name not in {"topic", "partition"}}
            first = t_ns, TopicPartition.of(row), facts(evidence | {"owed": expected})
        tally.add(sum(ended.values()), sum(ended[word] for word in wrong), first)
    return tally


def _silences(run: Run) -> list[Any]:
    waits = [
        (row["t_ns"], row["value"]) for row in run.usage if (row["source"], row["name"]) == ("host", "psi_cpu_some_us")
    ]
    brokers = {broker_id for broker_id, _, _ in evidence.assigned(run.manifest)}
    if not run.profile.allows({"followers"}):
        return []  # a broker that leads nothing has no rows
    return silences(run.files["replicas"], evidence.watched(run.events), brokers, waits)


def _rows(
    run: Run,
    answers: Sequence[Answer],
    findings: Findings,
    gaps: Gaps,
    phase_loads: latency.Phases,
) -> Iterator[tuple[str, list[Json]]]:
    manifest = run.manifest
    examples, counted = rows_of(findings, SEVERITY)
    yield "anomalies", examples
    yield "anomaly_counts", counted
    yield "invariants", _invariants(run, answers, gaps)
    delivered = list(delivery(answers))
    yield "delivery", delivered
    states = sorted(
        ({**answer.where._asdict(), **change._asdict()} for answer in answers for change in answer.changes),
        key=lambda row: row["received_ns"],
    )
    times = [*recovery.fault_times(run, states), *(row for answer in answers for row in answer.stalls)]
    yield "recovery", times
    loads = latency.latency(phase_loads)
    yield "latency", loads
    seconds = latency.timeline_sends(latency.merge_seconds(answer.seconds for answer in answers))
    yield "timeline_sends", seconds
    unsteady = steady.unsteady(run.phases, run.faults, seconds)
    measured = metrics.Measured(
        manifest, run.events, run.faults, loads, _whole(times), total(delivered), run.usage, unsteady
    )
    yield "metrics", metrics.metrics(measured)


def _whole(times: Sequence[Row]) -> list[Row]:
    rows: list[Row] = table_of(times, JUDGED["recovery"]).to_pylist()
    return rows


def _joined(name: str, answers: Sequence[Answer]) -> pa.Table:
    return pa.concat_tables([JUDGED[name].empty_table(), *(answer.series[name] for answer in answers)])


def _invariants(run: Run, answers: Sequence[Answer], gaps: Gaps) -> list[Json]:
    manifest, profile = run.manifest, run.profile
    found: dict[str, list[invariants.Verdict]] = {}
    for name, each in [*_by_partition(run, answers, gaps), *_of_transactions(answers)]:
        found.setdefault(name, []).append(each)
    names = [name for name, check in invariants.INVARIANTS.items() if profile.allows(check.whole) and name in found]
    rows = [row for name in names if (row := invariants.row(name, found[name], _origin_ns(run)))]
    rows = [row for row in rows if row["verdict"] == "fail" or profile.allows(READS[row["invariant"]])]
    return known_bugs.named(rows, manifest.kafka_versions, run.lines, manifest.mode)


def _by_partition(run: Run, answers: Iterable[Answer], gaps: Gaps) -> Iterator[tuple[str, invariants.Verdict]]:
    assigned = set(run.partitions)
    for answer in answers:
        if answer.where in assigned:
            for name in answer.findings.tallies:
                yield (
                    name,
                    invariants.verdict(answer.where, name, answer.findings, gaps, requires_history=run.requires_checks),
                )


def _history_gaps(run: Run, answers: Iterable[Answer]) -> Iterator[Gap]:
    for answer in answers:
        lacking = answer.findings.lacking if run.states.get(answer.where) else {}
        for why in dict.fromkeys(lacking.values()):
            of_it = sources(*(source for source, said in lacking.items() if said == why))
            yield Gap(f"{why[0].upper()}{why[1:]}.", of_it, answer.where)


def _of_transactions(answers: Iterable[Answer]) -> Iterator[tuple[str, invariants.Verdict]]:
    ends = OpenEnds().merge(answer.open_ends for answer in answers)
    if ends.ended:
        yield "I27", invariants.Verdict(compare_ends(ends))


def rows_of(findings: Findings, severity: Mapping[str, str]) -> tuple[list[Json], list[Json]]:
    """Return rows of ``history.tables.ANOMALIES`` (examples) and ``ANOMALY_COUNTS``."""
    counted = [
        {**kind._asdict(), "severity": severity[kind.anomaly], "allowed": kind.allowed, "cases": cases}
        for kind, cases in findings.counts.items()
    ]
    return list(_examples(findings, severity)), counted


def _examples(findings: Findings, severity: Mapping[str, str]) -> Iterator[Json]:
    for kind, examples in findings.examples.items():
        about = {**kind._asdict(), "severity": severity[kind.anomaly], "allowed": kind.allowed}
        for row in examples:
            yield {**row, **about, "evidence": facts(row["evidence"])}


def beyond_profile(run: Run, tables: Mapping[str, pa.Table]) -> list[str]:
    """Return the anomalies and invariants that the evidence does not suffice for, and that were not found."""
    if run.manifest.foreign:
        return []
    found = {row["anomaly"] for row in tables["anomaly_counts"].to_pylist()}
    found |= {row["invariant"] for row in tables["invariants"].to_pylist()}
    lacking = (name for name, check in CHECKS.items() if not run.profile.allows(check.reads - check.helpful))
    return [name for name in lacking if name not in found]


def not_judged(run: Run, tables: Mapping[str, pa.Table]) -> list[str]:
    """Return those, and checks of clean topics if unclean elections are possible."""
    left_out = beyond_profile(run, tables)
    if run.profile.allows({"history"}) or run.manifest.foreign:
        return left_out
    unclean = any(unclean_election(run.manifest, topic, run.events) for topic in run.manifest.topics)
    return [name for name, check in CHECKS.items() if name in left_out or (unclean and check.clean)]


def undecided(tables: Mapping[str, pa.Table], why: Mapping[str, str]) -> dict[str, pa.Table]:
    """Return the changed tables: anomalies and invariants named in ``why`` become undecided for that reason."""

    def of_case(row: Json) -> Json:
        doubt = why.get(row["anomaly"]) if row["allowed"] is False else None
        return {**row, "allowed": None, "undecided": doubt.rstrip(".")} if doubt else row

    def of_check(row: Json) -> Json:
        doubt = why.get(row["invariant"])
        return {**row, "verdict": "unknown", "reason": doubt.rstrip("."), "known_bug": ""} if doubt else row

    changed = {"anomalies": of_case, "anomaly_counts": of_case, "invariants": of_check} if why else {}
    return {
        name: table_of([change(row) for row in tables[name].to_pylist()], JUDGED[name])
        for name, change in changed.items()
    }


def delivery(answers: Iterable[Answer]) -> Iterator[Json]:
    """Yield the delivery table's row of each partition with sends or findings."""
    for answer in answers:
        of = answer.findings
        found = {
            column: sum(cases for kind, cases in of.counts.items() if kind.anomaly == anomaly)
            for column, anomaly in _COUNTED.items()
        }
        row = answer.delivery
        if row["sent"] or any(found.values()):
            rates = {
                "loss_rate_low": _share(row["lost"], row["acked"]),
                "loss_rate_high": _share(min(row["lost"] + row["unseen"], row["acked"]), row["acked"]),
                "duplicate_rate": _share(row["duplicate_copies"], row["read"]),
            }
            yield row | found | rates


_COUNTED = {"phantom": "phantom_record", "corrupt": "corrupt_record", "aborted_read": "aborted_read"}


def _share(part: int, of: int) -> float | None:
    return part / of if of else None
