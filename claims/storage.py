"""Claims about a replica's files, its log start, and readable offsets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from claims.answer import Case, Evidence, happened, saw
from claims.cluster import defaults
from claims.recording import Recording
from claims.rest import SILENCE_NS, at_rest, first, led, rows_of
from evidence.partition import PartitionEvidence
from kafka_files.indexes import Segment, by_offset, by_time, segments_of

GIB = 1 << 30
APART_NS = 600_000_000
EVERY = 97  # a batch to look up
_CLAIMED = {".log", ".index", ".timeindex"}


def _folders(of: PartitionEvidence) -> dict[int, Path]:
    return {replica.broker_id: replica.segments[0].parent for replica in of.replicas}


def _file(of: PartitionEvidence, broker: int, file: str, text: str) -> Evidence:
    return Evidence(f"brokers/broker-{broker}/data/{of.where}/{file}", None, text)


def segments_roll_at_1_gib(recording: Recording) -> Iterator[Case]:
    """Answer C41."""
    for event, value in defaults(recording, "log.segment.bytes"):
        yield Case(value == str(GIB), [happened(event, f"log.segment.bytes: {value} by default")])
        limit = int(event.detail["settings"]["topic"].get("segment.bytes", {}).get("topic", value))
        for of in (of for of in recording.all if of.where.topic == event.target):
            for broker, folder in _folders(of).items():
                for file in sorted(folder.glob("*.log"))[:-1]:
                    size = file.stat().st_size
                    text = f"{size:,} bytes, rolled; segment.bytes={limit:,}"
                    yield Case(size <= limit, [_file(of, broker, file.name, text)])


def files_are_log_index_timeindex(recording: Recording) -> Iterator[Case]:
    """Answer C42."""
    for of in recording.all:
        for broker, folder in _folders(of).items():
            missing = _CLAIMED - {file.suffix for file in folder.iterdir()}
            yield Case(not missing, [_file(of, broker, "", f"missing: {', '.join(sorted(missing)) or 'none'}")])
            for segment in segments_of(folder):
                text = f"{segment.size:,} bytes, {len(segment.offsets)} offset and {len(segment.times)} time entries"
                yield Case(leads_to_batches(segment), [_file(of, broker, segment.file.name, text)])
    yield from _look_ups(recording)


def leads_to_batches(segment: Segment) -> bool:
    """Return whether look-ups of every 97th batch find what a scan finds."""
    largest_ms = np.maximum.accumulate([batch.largest_ms for batch in segment.batches])
    for wanted in segment.batches[::EVERY]:
        reached = segment.batches[int(np.searchsorted(largest_ms, wanted.largest_ms))]
        if by_offset(segment, wanted.last).found != wanted or by_time(segment, wanted.largest_ms).found != reached:
            return False
    return True


def _look_ups(recording: Recording) -> Iterator[Case]:
    folders = {(*of.where, broker): folder for of in recording.all for broker, folder in _folders(of).items()}
    for event in recording.described:
        for look_up in event.detail["look_ups"]:
            folder = folders.get((event.target, look_up["partition"], look_up["broker"]))
            batches = [batch for segment in segments_of(folder) for batch in segment.batches] if folder else []
            holds = next((batch for batch in batches if batch.last >= look_up["offset"]), None)
            reached = next((batch for batch in batches if batch.largest_ms >= look_up["timestamp_ms"]), None)
            if batches and look_up["offset"] >= batches[0].first:
                at_offset = holds is not None and look_up["batch"] == holds.first
                at_time = reached is not None and reached.first <= look_up["at_timestamp"] <= reached.last
                yield Case(at_offset and at_time, [happened(event, str(look_up))])


def log_start_moves(recording: Recording) -> Iterator[Case]:
    """Answer C43."""
    for of in (of for of in recording.all if len(of.samples)):
        start, rows = of.samples.answered.log_start, led(of)
        moved = first(rows, start[rows] > 0)
        if start[0]:
            yield Case(False, [_began(of, 0)])
        elif moved is not None:
            yield Case(True, [_began(of, 0), _began(of, moved)])


def _began(of: PartitionEvidence, row: int) -> Evidence:
    return saw(of, row, f", log start {of.samples.answered.log_start[row]}")


def log_starts_are_equal(recording: Recording) -> Iterator[Case]:
    """Answer C44."""
    for of in recording.all:
        yield from (Case(False, [_began(of, row) for row in rows]) for rows in _apart(of))
    for rest in at_rest(recording):
        start = rest.seen.log_start
        if start[rest.row] and rest.followers and all(start[row] == start[rest.row] for row in rest.followers):
            yield Case(True, [_began(rest.of, row) for row in rest.live.values()])


def _apart(of: PartitionEvidence) -> Iterator[tuple[int, int]]:
    """Yield the leader's and a follower's rows after their log starts differed for long."""
    seen, lead = of.samples.answered, led(of)
    for broker in seen.rows_of_broker.keys() - set(seen.broker[lead].tolist()) if lead.size else ():
        own = rows_of(of, broker)
        rows = np.sort(np.concatenate([lead, own]))
        rows = rows[rows >= max(lead[0], own[0])]
        leads = lead[np.searchsorted(lead, rows, side="right") - 1]
        follows = own[np.searchsorted(own, rows, side="right") - 1]
        near = np.abs(seen.received_ns[leads] - seen.received_ns[follows]) <= SILENCE_NS
        differ = near & (seen.log_start[leads] != seen.log_start[follows])
        place = np.arange(rows.size)
        since = np.maximum.accumulate(np.where(differ, -1, place)) + 1  # where they began to differ
        apart_ns = seen.received_ns[rows] - seen.received_ns[rows[np.minimum(since, place)]]
        if (at := first(place, apart_ns > APART_NS)) is not None:
            yield int(leads[at]), int(follows[at])


def followers_read_up_to_the_leo(recording: Recording) -> Iterator[Case]:
    """Answer C45; one example is enough."""
    cases = []
    for rest in (rest for rest in at_rest(recording) if rest.hw < rest.leo and rest.followers):
        leos = [int(rest.seen.leo[row]) for row in rest.followers]
        if rest.leo in leos or max(leos) <= rest.hw:
            cases.append(Case(rest.leo in leos, rest.evidence))
    yield from [case for case in cases if case.holds] or cases
