"""Load and latency by phase and by second, over several partitions."""

import random

import numpy as np
import pyarrow as pa
import pytest
from hdrh.histogram import HdrHistogram

from clusters.clients.ledger import ABORTED
from evidence.columns import Names, Polls, Sends
from history.tables import POLLS, SENDS
from judge.measures import latency as measured
from judge.measures.recovery import Span
from tests.evidence.folders import MS, S, polled, sent


def columns(sends, names):
    """Return literal sends as columns."""
    return Sends.of(pa.Table.from_pylist(sends, SENDS), names)


def loads(sends, spans, polls=()):
    """Return each phase's load of one partition's sends and polls."""
    names = Names()
    seen = Polls.of(pa.Table.from_pylist(list(polls), POLLS), names)
    return measured.phase_loads(columns(sends, names), seen, names, spans)


def latency(sends, spans, polls=()):
    """Return the latency table of one partition."""
    return measured.latency(measured.merge_phases([loads(sends, spans, polls)]))


def by_second(*partitions):
    """Return the timeline of several partitions' sends, as tuples."""
    parts = (measured.by_second(columns(sends, Names())) for sends in partitions)
    return [tuple(row.values()) for row in measured.timeline_sends(measured.merge_seconds(parts))]


def test_what_was_due_right_before_the_end_is_not_owed():
    """Sends due right before a phase's end need no answer within it: the last 1 s, or half of a short phase."""
    spans = [Span("p", 0, 10 * S), Span("q", 20 * S, 21 * S)]
    due = [(S, 2 * S), (9 * S - 1, 10 * S), (9 * S, 10 * S - 1), (20 * S, 21 * S - 1), (20 * S + S // 2, 21 * S - 1)]
    sends = [
        {**sent(n, offset=n, at_ns=due_ns), "due_ns": due_ns, "done_ns": done_ns}
        for n, (due_ns, done_ns) in enumerate(due)
    ]
    found = latency(sends, spans)

    assert [(row["phase"], row["due"], row["owed"], row["kept"]) for row in found] == [("p", 3, 2, 1), ("q", 2, 1, 1)]


def test_latency_by_phase():
    """Sends count in the phase in which they were due; an indeterminate send has no latency."""
    spans = [Span("p", 0, 2 * S), Span("q", 2 * S, 3 * S)]
    sends = [sent(0, offset=0, at_ns=S), sent(1, offset=1, at_ns=2 * S), sent(2, outcome="info", at_ns=S)]
    found = latency(sends, spans)

    assert [(row["phase"], row["acked"], row["p99_ms"]) for row in found] == [("p", 1, 2.0), ("q", 1, 2.0)]
    assert [(row["seconds"], row["due"], row["arrived"]) for row in found] == [(2.0, 2, 1), (1.0, 1, 1)]


@pytest.mark.parametrize(
    ("never", "p50", "p99"), [(0, 2.0, 2.0), (1, 2.0, 2.0), (2, 2.0, None), (50, 2.0, None), (51, None, None)]
)
def test_what_was_never_acknowledged_waited_longer_than_anything(never, p50, p99):
    """An unacknowledged send counts as longer than any latency, unless it was due right before the phase's end."""
    sends = [sent(n, offset=n, at_ns=S + n, **({"outcome": "info"} if n < never else {})) for n in range(101)]
    late = [sent(n, outcome="info", at_ns=9 * S + n) for n in range(101, 201)]
    (found,) = latency([*sends, *late], [Span("p", 0, 10 * S)])

    assert (found["p50_ms"], found["p99_ms"]) == (p50, p99)
    assert (found["acked"], found["owed"], found["max_ms"]) == (101 - never, 101, 2.0)


def test_an_abort_is_an_answer():
    """An abort on purpose is an answer and counts as kept load; a rejected or unanswered send does not."""
    spans = [Span(phase, at * S, (at + 10) * S) for phase, at in (("p", 0), ("q", 20), ("r", 40))]

    def five(at_s, **last):
        told = [sent(at_s + n, offset=n, at_ns=at_s * S) for n in range(4)]
        return [*told, sent(at_s + 4, outcome="fail", at_ns=at_s * S, **last)]

    aborted = {"error": ABORTED}
    refused = five(21, error="MESSAGE_TOO_LARGE")
    unanswered = five(41, **aborted, done_ns=None)
    found = latency([*five(1, **aborted), *refused, *unanswered], spans)

    told = {row["phase"]: (row["acked"], row["owed"], row["kept"], row["p99_ms"]) for row in found}
    assert told == {"p": (5, 5, 5, 2.0), "q": (4, 5, 4, None), "r": (4, 5, 4, None)}


def test_latency_of_a_phase_that_answered_late():
    """A send due in one phase and acknowledged in the next counts as load of the first and throughput of the second."""
    spans = [Span("p", 0, 2 * S), Span("q", 2 * S, 3 * S)]
    late = {**sent(0, offset=0, at_ns=S), "done_ns": 2 * S + 1}
    found = latency([late, sent(1, offset=1, at_ns=2 * S)], spans)

    assert [(row["phase"], row["due"], row["acked"], row["arrived"]) for row in found] == [
        ("p", 1, 1, 0),
        ("q", 1, 1, 2),
    ]


def test_end_to_end_latency_ends_with_the_first_live_receipt():
    """End-to-end latency ends at the first live receipt; later receipts and the final drain do not count.

    A record that was never received counts as longer than any latency, unless it was aborted.
    """
    sends = [sent(n, offset=n, at_ns=S) for n in range(3)]
    sends += [sent(3, outcome="fail", at_ns=S, error=ABORTED), sent(4, outcome="fail", at_ns=S, error="REFUSED")]
    polls = [
        *(polled(0, 0, final=False, received_ns=S + took) for took in (9 * MS, 5 * MS)),
        polled(1, 1, final=False, received_ns=S + 7 * MS),
        polled(2, 2, received_ns=S + 1 * MS),
        polled(3, 9, final=False, received_ns=S + 2 * MS),
    ]
    (found,) = latency(sends, [Span("p", 0, 10 * S)], polls)
    (owed,) = loads(sends, [Span("p", 0, 10 * S)], polls).values()

    assert (found["received"], found["end_to_end_max_ms"], found["end_to_end_p99_ms"]) == (2, 7.0, None)
    assert (owed.end_to_end.least_ns, owed.unreceived) == (5 * MS, 2)
    assert found["acked"] == 4


def test_the_log_is_read_by_hdrhistogram():
    """The HdrHistogram log has an interval per phase and tag, in seconds from the run's start."""
    sends = [sent(n, offset=n, at_ns=12 * S) | {"done_ns": 12 * S + (n + 1) * MS} for n in range(100)]
    polls = [polled(0, 0, final=False, received_ns=12 * S + 300 * MS)]
    text = measured.histogram_log(loads(sends, [Span("p", 11 * S, 16 * S)], polls), 10 * S, 1_700_000_000.5)
    lines = text.splitlines()

    assert lines[:2] == [
        "#[Histogram log format version 1.3]",
        "#[StartTime: 1700000000.500 (seconds since epoch)]",
    ]
    assert [line.rsplit(",", 1)[0] for line in lines[3:]] == [
        "Tag=produce,1.000,5.000,100.000",
        "Tag=end_to_end,1.000,5.000,300.000",
    ]
    produce, end_to_end = (HdrHistogram.decode(line.rsplit(",", 1)[1]) for line in lines[3:])
    assert (produce.get_total_count(), end_to_end.get_total_count()) == (100, 1)
    assert produce.get_value_at_percentile(50) == pytest.approx(50 * MS, rel=0.002)
    assert end_to_end.get_max_value() == pytest.approx(300 * MS, rel=0.002)


def test_partitions_are_one_load():
    """The table and the timeline of several partitions equal those of all sends in one partition."""
    at_random = random.Random(3)
    spans = [Span("p", 0, 5 * S), Span("q", 5 * S, 9 * S)]
    outcomes = ["ok", "ok", "ok", "info", "fail"]
    sends = [
        sent(n, offset=n, at_ns=t, outcome=at_random.choice(outcomes)) | {"done_ns": t + at_random.randrange(2 * S)}
        for n, t in enumerate(at_random.randrange(9 * S) for _ in range(500))
    ]
    parts = [sends[:20], sends[20:300], sends[300:], []]
    merged = measured.merge_phases(loads(part, spans) for part in parts)

    assert measured.latency(merged) == latency(sends, spans)
    assert by_second(*parts) == by_second(sends)
    assert sum(row["due"] for row in latency(sends, spans)) == 500


def test_a_phase_in_which_nothing_was_due_has_no_row():
    """A phase without due sends has no row, even if acknowledgements arrived in it."""
    spans = [Span("p", 0, 2 * S), Span("q", 2 * S, 3 * S)]

    assert [row["phase"] for row in latency([sent(0, offset=0, at_ns=2 * S - MS)], spans)] == ["p"]


def test_quantiles_of_a_phase_are_those_of_its_times():
    """Quantiles of 10,000 latencies are exact to 0.1%, and the maximum is exact."""
    took_ns = (10 ** np.random.default_rng(5).uniform(6, 10, 10_000)).astype(np.int64)
    sends = [sent(n, offset=n, at_ns=n) | {"done_ns": n + int(took)} for n, took in enumerate(took_ns)]
    (found,) = latency(sends, [Span("p", 0, 2 * S)])

    exact = np.percentile(took_ns / 1e6, [50, 99, 99.9])
    assert [found[name] for name in ("p50_ms", "p99_ms", "p999_ms")] == pytest.approx(exact, rel=0.001)
    assert found["max_ms"] == took_ns.max() / 1e6


def test_what_no_open_loop_sent_has_no_latency():
    """A send that was never due, such as of a ``write`` step, has no latency and is not in the timeline."""
    spans, due = [Span("p", 0, 2 * S)], sent(0, offset=0, at_ns=S)
    never_due = sent(1, offset=1, at_ns=S) | {"due_ns": None, "sent_ns": None}

    assert latency([never_due], spans) == []
    assert by_second([never_due]) == []
    assert latency([due, never_due], spans)[0]["due"] == 1
    assert by_second([due, never_due]) == by_second([due])


def test_sends_are_counted_by_the_second_in_which_they_were_due():
    """The timeline counts sends by the second in which they were due, and latency from the due time."""
    sends = [sent(0, offset=0, at_ns=S), sent(1, outcome="info", at_ns=S + 1), sent(2, outcome="fail", at_ns=2 * S)]

    assert by_second(sends) == [(S, 1, 0, 1, 2.0, 2.0), (2 * S, 0, 1, 0, None, None)]


def test_a_second_of_many_partitions():
    """Latencies of a second over 40 partitions are merged to within 1.6%."""
    partitions = [[sent(0, offset=0, at_ns=S) | {"done_ns": S + n * MS}] for n in range(1, 41)]
    ((t_ns, *counts, p50_ms, p99_ms),) = by_second(*partitions, [])

    assert (t_ns, counts) == (S, [40, 0, 0])
    assert p50_ms == pytest.approx(20.5, rel=2**-6)
    assert p99_ms == pytest.approx(39.61, rel=2**-6)
    assert by_second() == []
