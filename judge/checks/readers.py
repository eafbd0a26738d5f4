"""Check that every reader reached the end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from evidence.partition import PartitionEvidence
from evidence.readers import ReaderEvidence
from history.readers import LIVE_CONSUMER
from judge.checks.findings import Check, gathered


class _Reading(NamedTuple):
    reader: str | None
    position: int | None = None


@gathered
def i37_readers_reach_the_end(of: PartitionEvidence) -> Iterator[Check]:
    """I37 (C2). The high watermark, or with read_committed the last stable offset (documentation of Kafka's Consumer).
    Every partition of a group's topic has a member while one lives (KIP-62, KIP-848). Positions are compared, as
    markers and compacted records take offsets. Violated only if

    - a final drain of the same isolation level read to that end, so that leaders serve it;
    - afterwards no reader moved for two session time-outs and 30 s without a fault, when a killed or paused member has
      lost its partitions or polls again;
    - the reader reported its position until then. Otherwise reader and run are undecided.
    """
    if of.readers is None:
        return
    facts = of.readers.facts
    for each in _readings(of, of.readers):
        reached = _reached(of, each)
        if reached or _stands_still(of.readers, each):
            shown = {"reader": each.reader, "position": each.position, "still_ns": facts.still_ns}
            nobody = {"members_without_it": facts.members} if each.reader is None else {}
            end = of.drain.end_offset if of.drain else None
            yield Check(None, not reached, {**shown, "end_offset": end, **nobody})


def undecided_readers(of: PartitionEvidence) -> list[str]:
    """Return a sentence per reader that I37 cannot judge."""
    if of.readers is None:
        return []
    facts = of.readers.facts
    return [
        f"{_named(each)} {of.where}{_place(of, each)} when the clients were ended; it had been so for "
        f"{max(facts.still_ns, 0) / 1e9:.0f} s of the {facts.patience_ns / 1e9:.0f} s that prove a reader stuck"
        f"{'' if _reported(of.readers, each) else ', and a reader reported nothing'}."
        for each in _readings(of, of.readers)
        if not _reached(of, each) and not _stands_still(of.readers, each)
    ]


def _named(reading: _Reading) -> str:
    return "No member of the group had" if reading.reader is None else f"The reader {reading.reader} of"


def _place(of: PartitionEvidence, reading: _Reading) -> str:
    end = of.drain.end_offset if of.drain else None
    return "" if reading.reader is None else f" stood at {reading.position} of {end}"


def _readings(of: PartitionEvidence, readers: ReaderEvidence) -> Iterator[_Reading]:
    """Yield the live consumer and the members with the partition."""
    facts, positions = readers.facts, readers.positions
    if of.drain is None or not of.drain.complete:
        return
    known = facts.alive | facts.silent
    if LIVE_CONSUMER in known:
        yield _Reading(LIVE_CONSUMER, positions.get(LIVE_CONSUMER))
    if of.where.topic == facts.topic and known - {LIVE_CONSUMER}:
        owners = sorted(positions.keys() - {LIVE_CONSUMER})
        yield from (_Reading(owner, positions[owner]) for owner in owners)
        if not owners:
            yield _Reading(None)


def _reached(of: PartitionEvidence, reading: _Reading) -> bool:
    if reading.reader is None or of.drain is None:
        return False
    start, end = of.drain.start_offset, of.drain.end_offset or 0
    return start == end or (reading.position is not None and reading.position >= end)


def _reported(readers: ReaderEvidence, reading: _Reading) -> bool:
    silent = readers.facts.silent
    if reading.reader is None:
        return not silent - {LIVE_CONSUMER}
    return reading.reader in readers.positions and reading.reader not in silent


def _stands_still(readers: ReaderEvidence, reading: _Reading) -> bool:
    return _reported(readers, reading) and readers.facts.still_ns >= readers.facts.patience_ns
