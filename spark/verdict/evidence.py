"""Is everything there that a verdict needs? One row per item; what is missing makes the verdict unknown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, Row, Window
from pyspark.sql import functions as F  # noqa: N812  # the name that Spark's own pages use

from history.events import Event
from history.manifest import Manifest
from history.partition import TopicPartition
from history.traits import Trait
from kafka_files.segments import segment_files
from spark.folder.recorded import Recorded, producers
from spark.folder.tables import REPLICA, rows

EVIDENCE = pa.schema(
    [
        pa.field("item", pa.string(), nullable=False),
        pa.field("missing", pa.string()),  # what is missing, in one sentence; null: complete
    ]
)
UNREADABLE = ("bad crc", "codec", "magic", "malformed", "too large")  # problems of a segment's batches
WATCHERS = ("prober", "consumer", "drain")  # roles of clients
SILENCE_S = 3.0  # the probe speaks of each broker 20 times a second, and of one that does not answer after 0.25 s
MAX_SILENCE_S = 10.0  # however busy the host was
_WORDS = pa.schema([pa.field("broker_id", pa.int32(), nullable=False), pa.field("at", pa.int64(), nullable=False)])

Item = tuple[str, str | None]


@dataclass(frozen=True)
class Counts:
    """What the recorded tables hold, counted once. Replicas are (broker_id, topic, partition)."""

    ledgers: dict[str, Row]
    sampled: set[tuple[int, str, int]]
    captured: dict[str, set[tuple[int, str, int]]]
    ends: dict[tuple[int, str, int], int]  # log ends at the capture AFTER
    logs: set[tuple[int, str, int]]  # replicas with at least one segment file
    log_ends: dict[tuple[int, str, int], int]  # by the segments; an empty one is named after the log end
    log_problems: dict[tuple[int, str, int], list[str]] = field(default_factory=dict)
    read: dict[str, int] = field(default_factory=dict)  # rows of ``polls`` by consumer
    sought: dict[str, int] = field(default_factory=dict)  # rows of ``seeks`` by consumer
    probed: dict[str, int] = field(default_factory=dict)  # rows of the prober's tables, by its names for their counts
    silences: list[Row] = field(default_factory=list)  # times without a word of the probe on a broker
    probed_in: set[tuple[str, int]] = field(default_factory=set)  # (phase, broker_id) with a good sample


def count(recorded: Recorded) -> Counts:
    """Collect the few numbers that the evidence items are about."""
    ledgers = recorded.sends.groupBy("producer_id").agg(
        F.count("*").alias("rows"),
        F.count_distinct("seq").alias("numbers"),
        F.max("seq").alias("last_seq"),
        F.count_if(F.col("outcome") == "ok").alias("acked"),
    )
    good = F.col("error").isNull() & F.col("log_end_offset").isNotNull()
    captures = recorded.offsets.filter(good).select("capture", *REPLICA, "log_end_offset").collect()
    logs = recorded.segments.groupBy(*REPLICA).agg(
        F.max(F.when(F.col("problem").isNull(), F.col("last_offset"))).alias("last_offset"),
        F.sort_array(F.collect_set("problem")).alias("problems"),
    )
    found = [(_replica(row), row) for row in logs.collect()]
    begun = _exported(recorded)
    read = {replica: row["last_offset"] + 1 for replica, row in found if row["last_offset"] is not None}
    captured: dict[str, set[tuple[int, str, int]]] = {}
    for row in captures:
        captured.setdefault(row["capture"], set()).add(_replica(row))
    return Counts(
        ledgers={row["producer_id"]: row for row in ledgers.collect()},
        sampled={_replica(row) for row in recorded.samples.select(*REPLICA).distinct().collect()},
        captured=captured,
        ends={_replica(row): row["log_end_offset"] for row in captures if row["capture"] == "after"},
        logs=set(begun),
        log_ends={replica: max(read.get(replica, 0), base) for replica, base in begun.items()},
        log_problems={replica: row["problems"] for replica, row in found if row["problems"]},
        read=_by_consumer(recorded.polls),
        sought=_by_consumer(recorded.seeks),
        probed={"rows": recorded.replicas.count(), "isr_rows": recorded.isr.count()},
        silences=_silences(recorded),
        probed_in=_probed_in(recorded),
    )


def _by_consumer(frame: DataFrame) -> dict[str, int]:
    return {row["consumer_id"]: row["count"] for row in frame.groupBy("consumer_id").count().collect()}


def _phases(events: list[Event]) -> dict[str, tuple[int, int]]:
    """When each phase that was run to its end began and ended."""
    begun = {event.phase: event.t_ns for event in events if event.kind == "phase_started"}
    ended = {event.phase: event.t_ns for event in events if event.kind == "phase_ended"}
    return {name: (at, ended[name]) for name, at in begun.items() if name in ended}


def _probed_in(recorded: Recorded) -> set[tuple[str, int]]:
    phases = _phases(recorded.events)
    if not phases:
        return set()
    at = F.col("received_ns")
    counts = [F.count_if(at.between(*span)).alias(str(number)) for number, span in enumerate(phases.values())]
    found = recorded.samples.groupBy("broker_id").agg(*counts).collect()
    return {(name, row["broker_id"]) for row in found for number, name in enumerate(phases) if row[str(number)]}


def _silences(recorded: Recorded) -> list[Row]:
    """From the first phase to quiescence: (broker_id, at, before), the probe's next word on a broker and the one before
    it, where they are too far apart. That a broker did not answer is a word, too. Of a silence the share is explained
    in which tasks of the host waited for its CPUs.
    """
    begun = next((event.t_ns for event in recorded.events if event.kind == "phase_started"), None)
    ended = next((event.t_ns for event in recorded.events if _is_quiescence(event)), None)
    if begun is None or ended is None:
        return []
    of_broker = {broker_id for broker_id, _, _ in assigned(recorded.manifest)}
    edges = [{"broker_id": broker_id, "at": at} for broker_id in sorted(of_broker) for at in (begun, ended)]
    words = recorded.replicas.select("broker_id", F.col("received_ns").alias("at"))
    before = F.lag("at").over(Window.partitionBy("broker_id").orderBy("at"))
    gaps = (
        words.filter(F.col("at").between(begun, ended))
        .union(rows(recorded.replicas.sparkSession, _WORDS, edges))
        .withColumn("before", before)
        .filter(F.col("at") - F.col("before") > int(SILENCE_S * 1e9))
        .orderBy("at", "broker_id")
    )
    waits = recorded.usage.filter("source = 'host' AND name = 'psi_cpu_some_us'").orderBy("t_ns").collect()
    return [row for row in gaps.collect() if not _explained(row["at"] - row["before"], _pressure(waits, row))]


def _explained(silence_ns: int, pressure: float) -> bool:
    return silence_ns <= MAX_SILENCE_S * 1e9 and silence_ns * (1 - pressure) <= SILENCE_S * 1e9


def _pressure(waits: list[Row], gap: Row) -> float:
    """The share of the time in which some task waited for a CPU, between the samples around; 0 where there are none."""
    earlier = [row for row in waits if row["t_ns"] <= gap["before"]][-1:]
    later = [row for row in waits if row["t_ns"] >= gap["at"]][:1]
    if not earlier or not later or earlier == later:
        return 0.0
    waited_us = float(later[0]["value"] - earlier[0]["value"])
    return min(1.0, 1000 * waited_us / int(later[0]["t_ns"] - earlier[0]["t_ns"]))


def _is_quiescence(event: Event) -> bool:
    return event.kind == "quiesced" or (event.kind, event.step) == ("wait_timed_out", "quiesce")


def _replica(row: Row) -> tuple[int, str, int]:
    return row["broker_id"], row["topic"], row["partition"]


def _exported(recorded: Recorded) -> dict[tuple[int, str, int], int]:
    """Each replica with a segment file, and where its last one begins."""
    broker_ids = {node.name: node.node_id for node in recorded.manifest.brokers}
    found: dict[tuple[int, str, int], int] = {}
    for file in segment_files(recorded.folder.brokers):
        broker_id = broker_ids.get(file.relative_to(recorded.folder.brokers).parts[0])
        if broker_id is not None:
            replica = broker_id, *TopicPartition.parse(file.parent.name)
            found[replica] = max(found.get(replica, 0), int(file.stem))
    return found


def assigned(manifest: Manifest) -> set[tuple[int, str, int]]:
    """Every replica of the run: (broker_id, topic, partition)."""
    return {
        (broker_id, name, partition)
        for name, topic in manifest.topics.items()
        for partition, broker_ids in topic.assignment.items()
        for broker_id in broker_ids
    }


def whole_partitions(manifest: Manifest, counts: Counts) -> list[dict[str, Any]]:
    """Partitions (topic, partition) of which every replica's log could be read from end to end."""
    broken = {replica for replica in assigned(manifest) if replica not in counts.logs or _unreadable(counts, replica)}
    lacking = {(topic, partition) for _, topic, partition in broken}
    return [
        {"topic": topic, "partition": partition}
        for topic, partition in sorted({(t, p) for _, t, p in assigned(manifest)} - lacking)
    ]


def whole_logs(manifest: Manifest, counts: Counts) -> list[dict[str, Any]]:
    """Replicas (topic, partition, broker_id) whose log was exported and can be read up to the end that the last capture
    saw: only of these does absence prove anything.
    """
    return [
        {"topic": topic, "partition": partition, "broker_id": broker_id}
        for broker_id, topic, partition in sorted(assigned(manifest) & counts.logs)
        if not _unreadable(counts, (broker_id, topic, partition)) and not _cut(counts, (broker_id, topic, partition))
    ]


def _cut(counts: Counts, replica: tuple[int, str, int]) -> bool:
    """Whether a log was exported only to below the end that the last capture saw."""
    return counts.log_ends.get(replica, 0) < counts.ends.get(replica, 0)


def _unreadable(counts: Counts, replica: tuple[int, str, int]) -> list[str]:
    return [problem for problem in counts.log_problems.get(replica, []) if problem.startswith(UNREADABLE)]


def evidence(recorded: Recorded, counts: Counts) -> list[Item]:
    """What the recording half owes the judge."""
    manifest = recorded.manifest
    if manifest.foreign:
        return _of_foreign(recorded, counts)
    replicas = assigned(manifest)
    return [
        ("no harness error", _first(_errors(recorded.events))),
        ("files readable", _first(recorded.problems)),
        ("run collected", _collected(recorded.events)),
        ("every phase run", _first(_phases_left(recorded.events, manifest))),
        ("faults took effect", _first(_took_no_effect(recorded.events, manifest.faults))),
        ("faults healed", _first(_not_healed(recorded.events))),
        ("sends ledgered", _first(_ledgers(recorded, counts))),
        ("something acknowledged", _acknowledged(counts)),
        ("final drain complete", _first(_drained(recorded))),
        ("every replica probed", _first(_unprobed(recorded, counts))),
        ("probe never silent", _first(_silent(recorded.events, counts.silences))),
        ("watchers ended in order", _first(_watched(recorded, counts))),
        ("every read was answered", _first(_unanswered(recorded.clients))),
        ("offsets captured before", _capture("before", replicas, counts)),
        ("offsets captured after", _capture("after", replicas, counts)),
        ("segments of every replica", _first(_segments(replicas, counts))),
        ("broker logs", _first(_broker_logs(recorded))),
    ]


def _of_foreign(recorded: Recorded, counts: Counts) -> list[Item]:
    """What an imported history can hold at all: it has no probe, no drain and no segments."""
    reads = recorded.polls.groupBy((F.col("pass") != "incomplete").alias("completed"))
    read = reads.agg(F.count_if(F.col("producer_id").isNull()).alias("unnamed")).collect()
    completed = any(row["completed"] for row in read)
    unnamed = sum(row["unnamed"] for row in read)
    return [
        ("files readable", _first(recorded.problems)),
        ("run collected", _collected(recorded.events)),
        ("history whole", _first(str(event.detail["message"]) for event in recorded.events if event.kind == "gap")),
        ("something acknowledged", _acknowledged(counts)),
        ("something read", None if completed else "The history holds no completed read of a record."),
        ("every value told", f"{unnamed} records were read without their values being told." if unnamed else None),
    ]


def _first(sentences: Iterable[str]) -> str | None:
    found = list(sentences)
    if not found:
        return None
    return found[0] if len(found) == 1 else f"{found[0]} ({len(found) - 1} more of this kind)"


def _collected(events: list[Event]) -> str | None:
    return None if any(event.kind == "collected" for event in events) else "The run was never collected to the end."


def _errors(events: list[Event]) -> Iterator[str]:
    for event in events:
        if event.kind == "error":
            what = next((event.detail[name] for name in ("why", "message", "error") if event.detail.get(name)), None)
            where = f" in {event.phase!r}" if event.phase else f" at {event.step}" if event.step else ""
            yield f"The harness failed{where}: {what or dict(event.detail) or 'no detail'}"


def _phases_left(events: list[Event], manifest: Manifest) -> Iterator[str]:
    ended = {event.phase for event in events if event.kind == "phase_ended"}
    begun = {event.phase for event in events if event.kind == "phase_started"}
    for name in (name for phase in manifest.scenario.get("phases", []) for name in phase):
        if name not in ended:
            yield f"The phase {name!r} {'was not run to its end' if name in begun else 'was never begun'}."


def _took_no_effect(events: list[Event], faults: list[str]) -> Iterator[str]:
    proven: Counter[str] = Counter()
    for event in events:
        if event.kind == "injected" and event.detail.get("effect_verified") is True:
            proven[event.step] += 1
        elif event.kind == "injected":
            yield f"The fault {event.step} of {event.target} did not take effect."
        elif event.kind == "healed" and event.detail.get("held_back") == 0:
            yield f"The fault {event.step} of {event.target} never held anything back."
    for step, wanted in Counter(faults).items():
        if proven[step] < wanted:
            yield f"The scenario has {wanted} x {step}, and {proven[step]} of them took effect."


def _not_healed(events: list[Event]) -> Iterator[str]:
    for event in events:
        if event.kind == "healed" and event.detail.get("recovery_verified") is not True:
            yield f"The fault {event.step} of {event.target} was not seen to end with its heal."
        if event.kind == "injected" and not any(_heals(later, event) for later in events):
            yield f"The fault {event.step} of {event.target} was never healed."


def _heals(later: Event, injected: Event) -> bool:
    same = (later.step, later.target) == (injected.step, injected.target)
    return later.kind == "healed" and later.t_ns >= injected.t_ns and same


def _ledgers(recorded: Recorded, counts: Counts) -> Iterator[str]:
    words = {client["client_id"]: client for client in recorded.clients}
    for producer in producers(recorded):
        name = producer["producer_id"]
        ledger, last_words = counts.ledgers.get(name), words.get(name, {})
        if not producer["clean"]:
            yield f"Producer {name} did not end cleanly: its ledger may lack sends."
        if ledger is None:
            yield f"Producer {name} left no ledger."
        elif ledger["numbers"] != ledger["rows"]:
            yield f"The ledger of {name} names {ledger['rows'] - ledger['numbers']} sends twice."
        elif ledger["rows"] < (last_words.get("rows") or 0):
            yield f"The ledger of {name} holds {ledger['rows']} of {last_words['rows']} sends."


def ledgers(recorded: Recorded, counts: Counts) -> list[dict[str, Any]]:
    """Each producer, and whether its ledger is known to be whole (a row of ``PRODUCERS``): it ended cleanly, and as
    many sends were read as it told of in its last words.
    """
    told = {client["client_id"]: client.get("rows") or 0 for client in recorded.clients}
    read = {name: ledger["rows"] for name, ledger in counts.ledgers.items()}
    return [
        each | {"clean": each["clean"] and read.get(each["producer_id"], 0) >= told.get(each["producer_id"], 0)}
        for each in producers(recorded)
    ]


def _acknowledged(counts: Counts) -> str | None:
    acked = sum(ledger["acked"] for ledger in counts.ledgers.values())
    return None if acked else "Nothing was acknowledged: an empty history proves nothing."


def _drained(recorded: Recorded) -> Iterator[str]:
    drains = {(row["topic"], row["partition"]): row for row in recorded.drains.collect()}
    for topic, partition in sorted({(t, p) for _, t, p in assigned(recorded.manifest)}):
        drain = drains.get((topic, partition))
        if drain is None:
            yield f"{topic}-{partition} was not drained."
        elif not drain["complete"] or drain["end_offset"] is None or (drain["position"] or 0) < drain["end_offset"]:
            yield f"The drain of {topic}-{partition} stopped at {drain['position']}, before {drain['end_offset']}."


def _without(replicas: set[tuple[int, str, int]], found: set[tuple[int, str, int]], what: str) -> Iterator[str]:
    for broker_id, topic, partition in sorted(replicas - found):
        yield f"The replica of {topic}-{partition} on broker {broker_id} {what}."


def _unprobed(recorded: Recorded, counts: Counts) -> Iterator[str]:
    """Once at all; and each broker once in every phase in which no fault kept it from answering for some seconds."""
    replicas, phases = assigned(recorded.manifest), _phases(recorded.events)
    yield from _without(replicas, counts.sampled, "was never seen by the probe")
    for node in recorded.manifest.brokers:
        number = node.node_id
        if number not in {broker_id for broker_id, _, _ in replicas & counts.sampled}:
            continue
        mute = list(_mute(recorded.events, recorded.manifest, node.name))
        for name, span in phases.items():
            if (name, number) not in counts.probed_in and _longest_outside(mute, span) >= SILENCE_S * 1e9:
                yield f"The probe had no good answer of broker {number} in the phase {name!r}."


def _mute(events: list[Event], manifest: Manifest, name: str) -> Iterator[tuple[int, int]]:
    """From when to when a fault may have kept a broker from a good answer; one whose replicas are moved has none."""
    for event in events:
        of_it = name in event.target.replace(",", " ").split()
        silent = of_it and manifest.has(event.step, Trait.SILENCES_PROBE)
        if event.kind == "inject" and (silent or manifest.has(event.step, Trait.MOVES_REPLICAS)):
            yield event.t_ns, next((later.t_ns for later in events if _heals(later, event)), 2**63 - 1)


def _longest_outside(spans: Iterable[tuple[int, int]], within: tuple[int, int]) -> int:
    """The longest time on end of ``within`` in which none of the spans is."""
    at, end = within
    longest = 0
    for begun, ended in sorted(spans):
        longest, at = max(longest, min(begun, end) - at), max(at, ended)
    return max(longest, end - at)


def _silent(events: list[Event], silences: list[Row]) -> Iterator[str]:
    phases = [event for event in events if event.kind == "phase_started"]
    for row in silences:
        phase = next((event.phase for event in reversed(phases) if event.t_ns <= row["before"]), "")
        how_long = (row["at"] - row["before"]) / 1e9
        yield f"The probe said nothing of broker {row['broker_id']} for {how_long:.1f} s, from {phase!r} on."


def _watched(recorded: Recorded, counts: Counts) -> Iterator[str]:
    """Whoever was killed may have missed the end, and so may a table that lacks rows."""
    for client in recorded.clients:
        if client["role"] not in WATCHERS:
            continue
        name = client["client_id"]
        if client.get("clean") is not True:
            yield f"The {client['role']} {name} did not end cleanly: it may have seen less than there was."
        for where, why in (client.get("unreadable") or {}).items():
            yield f"The {client['role']} {name} read {where} no further, {why}."
        read = {"rows": counts.read.get(name, 0), "seeks": counts.sought.get(name, 0)}
        held = counts.probed if client["role"] == "prober" else read
        for what, there in held.items():
            if there < (client.get(what) or 0):
                yield f"Of {client[what]} {what.replace('_', ' ')} that {name} wrote {there} are there."


def _unanswered(clients: list[dict[str, Any]]) -> Iterator[str]:
    """A ``read`` step that had no good answer saw nothing, whatever there was; older ones did not count theirs."""
    for client in clients:
        if client.get("answers") == 0:
            errors = ", ".join(f"{count} x {name}" for name, count in sorted((client.get("errors") or {}).items()))
            yield f"The consumer {client['client_id']} had no good answer: {errors or 'it asked nothing'}."


def _capture(name: str, replicas: set[tuple[int, str, int]], counts: Counts) -> str | None:
    return _first(_without(replicas, counts.captured.get(name, set()), f"is missing in the capture {name!r}"))


def _segments(replicas: set[tuple[int, str, int]], counts: Counts) -> Iterator[str]:
    yield from _without(replicas, counts.logs, "has no exported segment")
    for replica in sorted(replicas & counts.logs):
        broker_id, topic, partition = replica
        where = f"The log of {topic}-{partition} on broker {broker_id}"
        if problems := _unreadable(counts, replica):
            yield f"{where} cannot be read to the end: {', '.join(problems)}."
        elif _cut(counts, replica):
            yield (f"{where} was exported up to {counts.log_ends.get(replica, 0)}; its end was {counts.ends[replica]}.")


def _broker_logs(recorded: Recorded) -> Iterator[str]:
    for node in recorded.manifest.brokers:
        log = recorded.folder.brokers / node.name / "server.log"
        if not log.is_file() or log.stat().st_size == 0:
            yield f"The server log of {node.name} was not collected."


def undecided(invariants: Iterable[Row]) -> Item:
    """Every invariant that was considered must have been decided."""
    open_ones = (
        f"{row['invariant']} is undecided: {row['reason']}." for row in invariants if row["verdict"] == "unknown"
    )
    return "every invariant decided", _first(open_ones)


def undrained(row: dict[str, int]) -> Item:
    """Acknowledged records of which nobody can say what became of them."""
    split = ("truncated_ack", "invisible_ack", "unknown_offset_ack")
    open_ones = row["unseen"] - sum(row[name] for name in split)
    what = f"What became of {open_ones} acknowledged records cannot be told: the reads or a replica's log end before."
    return "every acknowledged record decided", what if open_ones else None


def control_seen(control: str | None, found: dict[str, int]) -> Item:
    """A positive control that does not show its anomaly says that the checker is blind."""
    families = {"lost_write": ("lost_write", "truncated_ack", "unknown_offset_ack")}
    seen = control is None or any(found.get(name) for name in families.get(control, (control,)))
    return "positive control seen", None if seen else f"This control must show {control}, and none was found."


def waits_that_ran_out(events: list[Event]) -> list[str]:
    """Waits that ran out are evidence, not failures: one sentence each."""
    return [
        f"{f'In {event.phase!r}' if event.phase else f'At {event.step}'} the wait for "
        f"{event.detail.get('condition')} ran out after {event.detail.get('waited_ms')} ms; "
        f"last seen: {event.detail.get('last_seen')}."
        for event in events
        if event.kind == "wait_timed_out"
    ]


def seeks_of_readers(seeks: DataFrame) -> list[str]:
    """One sentence for each seek of a reader of ours; what follows it there is a new reader's."""
    return [
        f"The consumer {row['consumer_id']} sought from {row['from_offset']} to {row['to_offset']} of "
        f"{row['topic']}-{row['partition']} in leader epoch {row['leader_epoch']}: {row['why']}."
        for row in seeks.orderBy("sought_ns").collect()
    ]
