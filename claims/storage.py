"""Claims about a replica's files, its log start, and readable offsets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from claims.answer import Answer, Evidence, refuted, shown, unseen
from claims.isr import default_of
from claims.moments import SILENCE_NS, at_rest
from claims.recording import SECOND_NS, Recording, Sample
from history.partition import TopicPartition
from history.words import counted
from kafka_files.indexes import Segment, by_offset, by_time, segments_of

GIB = 1 << 30
APART_NS = 600_000_000
NO_FILES = "No replica's files were collected."
_CLAIMED = {".log", ".index", ".timeindex"}


def _folders(recording: Recording) -> Iterator[tuple[int, TopicPartition, Path]]:
    for where in recording.states:
        for broker, data in recording.data.items():
            folder = data / f"{where}"
            if folder.is_dir():
                yield broker, where, folder


def _file(recording: Recording, broker: int, file: Path, text: str) -> Evidence:
    inside = file.relative_to(recording.data[broker])
    return Evidence(f"brokers/broker-{broker}/data/{inside}", None, text)


def segments_roll_at_1_gib(recording: Recording) -> Answer:
    """Answer C41."""
    told = default_of(recording, "log.segment.bytes")
    if told is None:
        return unseen("The run has no query of a broker's settings.")
    event, value = told
    if value != str(GIB):
        return refuted(
            f"The default is {value} bytes.", [recording.happened(event, f"log.segment.bytes: {value} by default")]
        )
    limit = int(event.detail["settings"]["topic"].get("segment.bytes", {}).get("topic", value))
    rolled = []
    for broker, where, folder in _folders(recording):
        files = sorted(folder.glob("*.log"))
        if where.topic == event.target and len(files) > 1:
            rolled.append((broker, files[0]))
    evidence = [recording.happened(event, f"log.segment.bytes: {value} by default")]
    evidence += [_file(recording, broker, file, f"{file.stat().st_size:,} bytes, rolled") for broker, file in rolled]
    if any(file.stat().st_size > limit for _, file in rolled):
        return refuted(f"A segment grew beyond {limit:,} bytes.", evidence)
    how = (
        f"; with segment.bytes={limit:,} {counted(len(rolled), 'replica')} rolled a segment below that size"
        if rolled
        else ""
    )
    return shown(f"The default is {int(value):,} bytes{how}.", evidence)


class Checked(NamedTuple):
    """Index look-ups compared with a scan of the whole segment."""

    offsets: int
    times: int
    read: int  # batches that the look-ups by offset read
    wrong: str


def check_indexes(segment: Segment) -> Checked:
    """Look up every 97th offset and its time, and compare with a scan."""
    every = segment.batches
    offsets = times = read = 0
    largest = 0
    firsts: list[tuple[int, int]] = []  # (largest time so far, batch number)
    for number, batch in enumerate(every):
        if batch.largest_ms > largest:
            largest = batch.largest_ms
            firsts.append((largest, number))
    for number in range(0, len(every), 97):
        wanted = every[number]
        found = by_offset(segment, wanted.last)
        offsets, read = offsets + 1, read + found.read
        if found.found != wanted:
            return Checked(offsets, times, read, f"offset {wanted.last} was looked for and {found.found} found")
        first = next(every[n] for time, n in firsts if time >= wanted.largest_ms)
        by = by_time(segment, wanted.largest_ms)
        times += 1
        if by.found != first:
            return Checked(offsets, times, read, f"time {wanted.largest_ms} was looked for and {by.found} found")
    return Checked(offsets, times, read, "")


def files_are_log_index_timeindex(recording: Recording) -> Answer:
    """Answer C42."""
    kinds: Counter[str] = Counter()
    offsets = times = read = 0
    evidence: list[Evidence] = []
    for broker, _, folder in _folders(recording):
        kinds.update({file.suffix or file.name for file in folder.iterdir()})
        for segment in segments_of(folder):
            checked = check_indexes(segment)
            if checked.wrong:
                return refuted(
                    f"An index led elsewhere: {checked.wrong}.", [_file(recording, broker, segment.file, checked.wrong)]
                )
            offsets, times, read = offsets + checked.offsets, times + checked.times, read + checked.read
            if segment.offsets and len(evidence) < 3:
                text = f"{segment.size:,} bytes, {len(segment.offsets)} offset and {len(segment.times)} time entries"
                evidence.append(_file(recording, broker, segment.file, text))
    if not kinds:
        return unseen(NO_FILES)
    if missing := _CLAIMED - kinds.keys():
        return refuted(f"No replica has {', '.join(sorted(missing))}.")
    answered, wrong = _look_ups(recording)
    if wrong:
        return refuted("A leader's look-up differs from its segments.", [wrong])
    more = ", ".join(sorted(kinds.keys() - _CLAIMED))
    return shown(
        f"All three are there, and {more}. {offsets:,} look-ups by offset and {times:,} by time through the sparse "
        f"indexes found the batch that a scan finds, after {read / max(offsets, 1):.1f} batches on average; so did "
        f"{answered} answers of leaders.",
        evidence,
    )


def _look_ups(recording: Recording) -> tuple[int, Evidence | None]:
    answered = 0
    for event in recording.described():
        for asked in event.detail["look_ups"]:
            data = recording.data.get(asked["broker"])
            folder = data / f"{event.target}-{asked['partition']}" if data else None
            batches = [b for s in segments_of(folder) for b in s.batches] if folder and folder.is_dir() else []
            if not batches or asked["offset"] < batches[0].first:
                continue  # deleted since
            holds = next((b for b in batches if b.last >= asked["offset"]), None)
            reached = next((b for b in batches if b.largest_ms >= asked["timestamp_ms"]), None)
            answered += 1
            if not (
                holds
                and reached
                and asked["batch"] == holds.first
                and reached.first <= asked["at_timestamp"] <= reached.last
            ):
                return answered, recording.happened(event, f"{asked} against {holds} and {reached}")
    return answered, None


def log_start_moves(recording: Recording) -> Answer:
    """Answer C43."""
    begun = [samples[0] for samples in recording.samples.values() if samples]
    if any(sample.log_start for sample in begun):
        where = next(w for w, samples in recording.samples.items() if samples and samples[0].log_start)
        return refuted("A log did not start at 0.", [recording.saw(where, recording.samples[where][0])])
    for where in recording.states:
        lead = recording.lead(where)
        moved = next((s for s in lead if s.log_start > 0), None)
        if moved:
            note = f", log start {moved.log_start}"
            return shown(
                f"All {len(begun)} partitions began at 0; one was moved to {lead[-1].log_start}.",
                [recording.saw(where, lead[0], ", log start 0"), recording.saw(where, moved, note)],
            )
    return unseen("Neither DeleteRecords nor retention moved a log start.")


def log_starts_are_equal(recording: Recording) -> Answer:
    """Answer C44."""
    for where, lead, follower, for_ns in _apart(recording):
        return refuted(
            f"For {for_ns / SECOND_NS:.1f} s or longer a follower's log began at {follower.log_start} and its leader's "
            f"at {lead.log_start}: answers report a move, and a follower evaluates retention by itself.",
            [_began(recording, where, lead), _began(recording, where, follower)],
        )
    moved = [m for m in at_rest(recording) if m.leader.log_start and m.followers]
    if not moved:
        return unseen("Neither DeleteRecords nor retention moved a log start.")
    last = moved[-1]
    return shown(
        f"{counted(len(moved), 'time')} at rest, once it had been moved.",
        [_began(recording, last.where, sample) for sample in last.live.values()],
    )


def _began(recording: Recording, where: TopicPartition, sample: Sample) -> Evidence:
    return recording.saw(where, sample, f", log start {sample.log_start}")


def _apart(recording: Recording) -> Iterator[tuple[TopicPartition, Sample, Sample, int]]:
    for where in recording.states:
        lead = recording.lead(where)
        leaders = {sample.broker for sample in lead}
        for broker in {sample.broker for sample in recording.samples.get(where, ())} - leaders:
            since: int | None = None
            for leads, follows in _side_by_side(lead, recording.of(where, broker)):
                now_ns = max(leads.received_ns, follows.received_ns)
                silent = abs(leads.received_ns - follows.received_ns) > SILENCE_NS
                if silent or leads.log_start == follows.log_start:
                    since = None
                    continue
                since = since or now_ns
                if now_ns - since > APART_NS:
                    yield where, leads, follows, now_ns - since
                    break


def _side_by_side(lead: Sequence[Sample], following: Sequence[Sample]) -> Iterator[tuple[Sample, Sample]]:
    last: dict[bool, Sample] = {}
    told = [*((sample, True) for sample in lead), *((sample, False) for sample in following)]
    for sample, leads in sorted(told, key=lambda each: each[0].received_ns):
        last[leads] = sample
        if len(last) == 2:
            yield last[True], last[False]


def followers_read_up_to_the_leo(recording: Recording) -> Answer:
    """Answer C45."""
    moments = sorted(at_rest(recording), key=lambda m: m.leader.hw - m.leader.leo)
    for moment in moments:
        for follower in moment.followers:
            if moment.leader.hw < follower.leo == moment.leader.leo:
                return shown(
                    f"A follower had all up to {follower.leo} while the HW was {moment.leader.hw}.",
                    [
                        recording.saw(moment.where, moment.leader, ", leads"),
                        recording.saw(moment.where, follower, ", follows"),
                    ],
                )
    for moment in moments:
        stopped = [follower for follower in moment.followers if follower.leo <= moment.leader.hw < moment.leader.leo]
        if stopped and stopped == moment.followers:
            return refuted(
                "The HW was below the leader's LEO, and no follower had records from the HW on.",
                [recording.saw(moment.where, sample) for sample in (moment.leader, *stopped)],
            )
    return unseen("The HW was below the leader's LEO for too short a time in all partitions.")
