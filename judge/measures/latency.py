"""Load and latency by phase and by second, merged by addition.

Latency counts from the due time, until acknowledgement or first receipt by the live consumer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from evidence.columns import (
    FAIL,
    INFO,
    LIVE,
    NULL,
    OK,
    Bools,
    Columns,
    Ints,
    Names,
    Polls,
    Sends,
    largest,
    positions_in,
    smallest,
)
from evidence.facts import Span
from judge.measures.histogram import COARSE, FINE, Histogram, add_counts, buckets

ABORTED = "transaction_aborted"  # an aborted transaction's (clusters/clients/ledger.py)
QUANTILES = {"p50_ms": 0.5, "p99_ms": 0.99, "p999_ms": 0.999}
SETTLING_NS = 1_000_000_000  # may be in flight at a phase's end
_SECOND_NS = 1_000_000_000
_BUCKET_BITS = 12  # ``Seconds`` has 59 * 2**5 coarse buckets
_MERGED_AT_ONCE = 1_000_000  # entries of ``Seconds.keys``


@dataclass(frozen=True)
class PhaseLoad:
    """The records due in a phase (``history.tables.LATENCY``)."""

    due: int
    acked: int
    owed: int
    kept: int
    arrived: int
    unanswered: int  # required and never answered
    latency: Histogram
    unreceived: int  # required, not aborted
    end_to_end: Histogram

    def __add__(self, other: PhaseLoad) -> PhaseLoad:
        return PhaseLoad(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(self)))


Phases = dict[Span, PhaseLoad]


@dataclass(frozen=True)
class _Due(Columns):
    due_ns: Ints
    done_ns: Ints
    received_ns: Ints
    answered: Bools
    wanted: Bools  # not aborted


def phase_loads(sends: Sends, polls: Polls, names: Names, spans: Iterable[Span]) -> Phases:
    """Return sends by due phase, and acknowledgements by arrival.

    Aborted transactions count as answered: most are aborted on purpose.
    """
    sent = _due(sends)
    sent = sent.take(np.argsort(sent.due_ns, kind="stable"))
    aborted = sent.error == (names.listed.index(ABORTED) if ABORTED in names.listed else -2)
    answered = ((sent.outcome == OK) | aborted) & (sent.done_ns != NULL)
    by_due = _Due(sent.due_ns, sent.done_ns, _first_received_ns(sent.value, polls), answered, ~aborted)
    arrived_ns = np.sort(sends.done_ns[(sends.outcome == OK) & (sends.done_ns != NULL)])
    return {
        span: _phase_load(span, by_due.take(_between(by_due.due_ns, span)), _between(arrived_ns, span))
        for span in spans
    }


def _first_received_ns(values: Ints, polls: Polls) -> Ints:
    live = polls.take(np.flatnonzero((polls.pass_ == LIVE) & (polls.value >= 0) & (polls.received_ns != NULL)))
    live = live.take(np.lexsort((live.received_ns, live.value)))
    distinct, first = np.unique(live.value, return_index=True)
    at = positions_in(distinct, values)
    received = np.full(values.size, NULL)
    received[at >= 0] = live.received_ns[first[at[at >= 0]]]
    return received


def _due(sends: Sends) -> Sends:
    return sends.take(sends.due_ns != NULL)


def _between(moments: Ints, span: Span) -> slice:
    begin, end = np.searchsorted(moments, [span.from_ns, span.to_ns]).tolist()
    return slice(begin, max(begin, end))


def _phase_load(span: Span, due: _Due, arrived: slice) -> PhaseLoad:
    owed = due.due_ns < span.to_ns - min(SETTLING_NS, (span.to_ns - span.from_ns) // 2)
    received = due.wanted & (due.received_ns != NULL)
    return PhaseLoad(
        due=due.due_ns.size,
        acked=int(due.answered.sum()),
        owed=int(owed.sum()),
        kept=int((owed & due.answered & (due.done_ns < span.to_ns)).sum()),
        arrived=arrived.stop - arrived.start,
        unanswered=int((owed & ~due.answered).sum()),
        latency=Histogram.of((due.done_ns - due.due_ns)[due.answered], FINE),
        unreceived=int((owed & due.wanted & ~received).sum()),
        end_to_end=Histogram.of((due.received_ns - due.due_ns)[received], FINE),
    )


def merge_phases(parts: Iterable[Mapping[Span, PhaseLoad]]) -> Phases:
    """Add several partitions' loads."""
    merged: Phases = {}
    for part in parts:
        for span, load in part.items():
            merged[span] = merged[span] + load if span in merged else load
    return merged


def latency(merged: Mapping[Span, PhaseLoad]) -> list[dict[str, Any]]:
    """Return rows of ``history.tables.LATENCY``."""
    return [_row(span, load) for span, load in merged.items() if load.due]


def _row(span: Span, load: PhaseLoad) -> dict[str, Any]:
    return {
        "phase": span.phase,
        "seconds": (span.to_ns - span.from_ns) / 1e9,
        "due": load.due,
        "acked": load.acked,
        "arrived": load.arrived,
        "owed": load.owed,
        "kept": load.kept,
        "received": load.end_to_end.total,
        **_times("", load.latency, load.unanswered),
        **_times("end_to_end_", load.end_to_end, load.unreceived),
    }


def _times(prefix: str, found: Histogram, longer: int) -> dict[str, float | None]:
    quantiles = {f"{prefix}{name}": _ms(found.quantile(share, longer)) for name, share in QUANTILES.items()}
    return {**quantiles, f"{prefix}max_ms": _ms(found.largest_ns)}


def histogram_log(merged: Mapping[Span, PhaseLoad], origin_ns: int, started_s: float) -> str:
    """Return a HdrHistogram log of format 1.3 in ns, tags ``produce`` and ``end_to_end``."""
    lines = [
        "#[Histogram log format version 1.3]",
        f"#[StartTime: {started_s:.3f} (seconds since epoch)]",
        '"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"',
    ]
    for span, load in sorted(merged.items(), key=lambda item: item[0].from_ns):
        for tag, found in (("produce", load.latency), ("end_to_end", load.end_to_end)):
            from_s, length_s = (span.from_ns - origin_ns) / 1e9, (span.to_ns - span.from_ns) / 1e9
            largest_ms = (found.largest_ns or 0) / 1e6
            lines.append(f"Tag={tag},{from_s:.3f},{length_s:.3f},{largest_ms:.3f},{found.encoded()}")
    return "\n".join(lines) + "\n"


def _ms(time_ns: float | None) -> float | None:
    return None if time_ns is None else time_ns / 1e6


@dataclass(frozen=True)
class Seconds:
    """Sends by due second; ``keys`` combine second and bucket."""

    second: Ints  # host clock
    acked: Ints
    failed: Ints
    indeterminate: Ints
    least_ns: Ints  # of latencies
    largest_ns: Ints
    keys: Ints
    counts: Ints


_NOTHING = Seconds(*(np.empty(0, dtype=np.int64) for _ in fields(Seconds)))


def by_second(sends: Sends) -> Seconds:
    """Return sends with a due time, by second."""
    sends = _due(sends)
    second, at = np.unique(sends.due_ns // _SECOND_NS, return_inverse=True)
    acked, failed, indeterminate = (
        np.bincount(at[sends.outcome == outcome], minlength=second.size).astype(np.int64)
        for outcome in (OK, FAIL, INFO)
    )
    timed = (sends.outcome == OK) & (sends.done_ns != NULL)
    latency_ns = (sends.done_ns - sends.due_ns)[timed]
    least, most = smallest(at[timed], latency_ns, second.size), largest(at[timed], latency_ns, second.size)
    keys = (second[at[timed]] << _BUCKET_BITS) | buckets(latency_ns, COARSE)
    held, counts = np.unique(keys, return_counts=True)
    return Seconds(second, acked, failed, indeterminate, least, most, held, counts.astype(np.int64))


def merge_seconds(parts: Iterable[Seconds]) -> Seconds:
    """Add several partitions in bounded memory."""
    merged, waiting, held = _NOTHING, [], 0
    for part in parts:
        waiting.append(part)
        held += part.keys.size
        if held > max(_MERGED_AT_ONCE, merged.keys.size):
            merged, waiting, held = _merge_seconds([merged, *waiting]), [], 0
    return _merge_seconds([merged, *waiting])


def _merge_seconds(parts: Sequence[Seconds]) -> Seconds:
    def of(name: str) -> list[Ints]:
        return [getattr(part, name) for part in parts]

    acked, failed, indeterminate = (
        add_counts(of("second"), of(name))[1] for name in ("acked", "failed", "indeterminate")
    )
    second = np.unique(np.concatenate(of("second")))
    at = np.searchsorted(second, np.concatenate(of("second")))
    least = smallest(at, np.concatenate(of("least_ns")), second.size)
    most = largest(at, np.concatenate(of("largest_ns")), second.size)
    keys, counts = add_counts(of("keys"), of("counts"))
    return Seconds(second, acked, failed, indeterminate, least, most, keys, counts)


def timeline_sends(merged: Seconds) -> list[dict[str, Any]]:
    """Return rows of ``history.tables.TIMELINE_SENDS``, with latencies of acknowledged sends."""
    of_key = merged.keys >> _BUCKET_BITS
    begins, ends = (np.searchsorted(of_key, merged.second, side=side).tolist() for side in ("left", "right"))
    return [_second(merged, at, slice(*span)) for at, span in enumerate(zip(begins, ends, strict=True))]


def _second(merged: Seconds, at: int, held: slice) -> dict[str, Any]:
    of_bucket = merged.keys[held] & ((1 << _BUCKET_BITS) - 1)
    latencies = Histogram(COARSE, of_bucket, merged.counts[held], int(merged.least_ns[at]), int(merged.largest_ns[at]))
    return {
        "t_ns": int(merged.second[at]) * _SECOND_NS,
        "acked": int(merged.acked[at]),
        "failed": int(merged.failed[at]),
        "indeterminate": int(merged.indeterminate[at]),
        "p50_ms": _ms(latencies.quantile(0.5)),
        "p99_ms": _ms(latencies.quantile(0.99)),
    }
