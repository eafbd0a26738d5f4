"""Write the notes of a verdict: what a reader should know beside the checks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from evidence.counts import Copies
from evidence.facts import Span
from evidence.run import Run
from history.events import Event, notes_of_import
from history.manifest import Manifest
from history.partition import TopicPartition
from kafka_files.clock import Clock

MAX_NEVER_SENT = 0.005  # a share; beyond it, latencies are of a different load


def notes(run: Run, seeks: Iterable[Mapping[str, Any]], copies: Mapping[TopicPartition, Copies]) -> list[str]:
    """Return a sentence per note."""
    return [
        *timed_out_waits(run.events),
        *topics_made_anew(run.events),
        *silent_brokers(run.events),
        *returns(run.events),
        *notes_of_import(run.events),
        *clock_changes(run.clock, run.phases),
        *seeks_by_readers(seeks),
        *overflowed_loads(run.clients),
        *without_send_times(run.manifest),
        *required_copies(copies),
    ]


def timed_out_waits(events: list[Event]) -> list[str]:
    """Return a sentence per wait that timed out."""
    return [
        f"{f'In {event.phase!r}' if event.phase else f'At {event.step}'} the wait for "
        f"{event.detail.get('condition')} ran out after {event.detail.get('waited_ms')} ms; "
        f"last seen: {event.detail.get('last_seen')}."
        for event in events
        if event.kind == "wait_timed_out"
    ]


def topics_made_anew(events: Iterable[Event]) -> list[str]:
    """Return a sentence per topic that was replaced during a watch."""
    return [
        f"The topic {event.detail['topic']} was deleted and made anew during the watch: only the first one was judged."
        for event in events
        if event.kind == "topic_made_anew"
    ]


def silent_brokers(events: Iterable[Event]) -> list[str]:
    """Return a sentence per broker that a watch did not see for some time."""
    silent: dict[int, list[float]] = {}
    first: dict[int, str] = {}
    for event in events:
        if event.kind == "broker_silent":
            broker_id, seconds = event.detail["broker_id"], event.detail["seconds"]
            silent.setdefault(broker_id, []).append(seconds)
            if event.detail.get("since_start"):
                first[broker_id] = f", at first for {seconds:,.0f} s from the start on"
    return [
        f"Broker {broker_id} did not answer for {sum(seconds):,.0f} s"
        f"{f' in {len(seconds)} periods' if len(seconds) > 1 else ''}{first.get(broker_id, '')}: "
        "its replicas were not judged then."
        for broker_id, seconds in sorted(silent.items())
    ]


def returns(events: Iterable[Event]) -> list[str]:
    """Return a sentence per fault after which somebody else starts the broker."""
    return [
        f"In {event.phase!r} {event.target} came back by itself after the {event.step}: later steps may have been "
        "performed after its return."
        for event in events
        if event.kind == "injected" and event.detail.get("returns_by_itself")
    ]


def clock_changes(clock: Clock, phases: Sequence[Span]) -> list[str]:
    """Return a sentence per change of the host's clock."""
    found = []
    for t_ns, by_ns in clock.sets:
        phase = next((each.phase for each in phases if each.completed and each.from_ns <= t_ns <= each.to_ns), None)
        found.append(
            f"{f'In {phase!r}' if phase else 'Outside of the phases'} the host's clock was set "
            f"{_seconds(abs(by_ns))} s {'ahead' if by_ns > 0 else 'back'}: when something happened that brokers' "
            "files date near then may be unknown."
        )
    return found


def _seconds(span_ns: int) -> str:
    return f"{span_ns / 1e9:,.2f}".rstrip("0").rstrip(".")


def required_copies(copies: Mapping[TopicPartition, Copies]) -> list[str]:
    """Return a sentence per copied topic."""
    required: Counter[str] = Counter()
    for where, each in copies.items():
        required[where.topic] += each.required
    return [f"{count:,} committed records required one copy each in {topic}." for topic, count in required.items()]


def without_send_times(manifest: Manifest) -> list[str]:
    """Return a sentence per producer without send times."""
    return [
        f"The producer {producer.producer_id} is Kafka's VerifiableProducer {producer.client}: it does not say when a "
        "record was sent, so there are no latencies and no check that needs that time, and its values bear no checksum."
        for producer in manifest.producers
        if producer.engine == "java"
    ]


def overflowed_loads(clients: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return a sentence per producer that missed its load."""
    return [
        f"{client['client_id']} never sent {client['overflowed']:,} of {client['rows']:,} records that were due "
        f"({client['overflowed'] / client['rows']:.1%}): the load was smaller than the scenario asks."
        for client in clients
        if client.get("overflowed", 0) > MAX_NEVER_SENT * client.get("rows", 0)
    ]


def seeks_by_readers(seeks: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return a sentence per seek of a run's reader."""
    return [
        f"The consumer {row['consumer_id']} sought from {row['from_offset']} to {row['to_offset']} of "
        f"{row['topic']}-{row['partition']} in leader epoch {row['leader_epoch']}: {row['why']}."
        for row in sorted(seeks, key=lambda row: row["sought_ns"])
    ]
