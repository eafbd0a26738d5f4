"""Recovery times count from the injection, and what was not seen is censored."""

from history.events import Event
from history.tables import ISR, REPLICAS, SENDS
from spark import recovery
from spark.recorded import isr_changes
from spark.tables import rows
from tests.spark.folders import S, isr_view, manifest, sample, sent

SPANS = "phase string, from_ns long, to_ns long"


def events(*, until):
    """A kill of broker-1 at 10 s, healed at 14 s, in a phase that ends at ``until`` s."""
    fault = {"phase": "p", "step": "kill", "target": "broker-1"}
    return [
        Event(9 * S, "", "phase_started", "p"),
        Event(10 * S, "", "inject", **fault),
        Event(10 * S + 1, "", "injected", **fault, detail={"bit": True}),
        Event(14 * S, "", "healed", **fault, detail={"gone": True}),
        Event(until * S, "", "phase_ended", "p"),
    ]


def measured(spark, views, until=20):
    """metric → (ms, censored)."""
    nothing = recovery.longest_stalls(
        rows(spark, SENDS, []), rows(spark, REPLICAS, []), spark.createDataFrame([], SPANS)
    )
    changes = isr_changes(rows(spark, ISR, views))
    found = recovery.recovery(spark, manifest(), events(until=until), changes, nothing).collect()
    return {row["metric"]: (round(row["value_ms"]), row["censored"]) for row in found}


def test_a_killed_leader(spark):
    """Elected after 2 s, out of the ISR with it, and back 1 s after the heal."""
    views = [isr_view(S, 1, 0, [1, 2, 3]), isr_view(12 * S, 2, 1, [2, 3]), isr_view(15 * S, 2, 1, [1, 2, 3])]

    assert measured(spark, views) == {
        "detect": (2001, False),
        "elect": (2001, False),
        "isr_shrink": (2001, False),
        "isr_full": (1001, False),
    }


def test_what_never_came_is_censored_at_the_end_of_the_phase(spark):
    """Nobody else led, the ISR stayed: at least as long as the phase lasted."""
    found = measured(spark, [isr_view(S, 1, 0, [1, 2, 3])])

    assert found["elect"] == (10000, True)
    assert found["isr_shrink"] == (10000, True)
    assert found["isr_full"] == (0, False)


def test_a_killed_follower_elects_nobody(spark):
    """Where another broker leads there is nothing to elect."""
    views = [isr_view(S, 2, 0, [1, 2, 3]), isr_view(12 * S, 2, 0, [2, 3])]

    assert set(measured(spark, views)) == {"isr_shrink", "isr_full"}


def test_the_longest_stall_of_a_phase(spark):
    """Writes stood for 3 s between two acknowledgements; the high watermark from 2 s to the end."""
    spans = spark.createDataFrame([("p", 0, 9 * S)], SPANS)
    sends = [sent(n, offset=n, at_ns=t * S) for n, t in enumerate((1, 4, 7, 8))]
    samples = [sample(1, S, 5, 9), sample(2, 2 * S, 6, 9), sample(1, 3 * S, 6, 9)]
    found = recovery.longest_stalls(rows(spark, SENDS, sends), rows(spark, REPLICAS, samples), spans).collect()

    assert {row["metric"]: (row["value_ms"], row["censored"]) for row in found} == {
        "write_unavailable": (3000.0, False),
        "hw_stall": (6999.0, True),
    }


def test_latency_by_phase(spark):
    """Sends count in the phase in which they were due; an indeterminate one has no latency."""
    spans = spark.createDataFrame([("p", 0, 2 * S), ("q", 2 * S, 3 * S)], SPANS)
    sends = [sent(0, offset=0, at_ns=S), sent(1, offset=1, at_ns=2 * S), sent(2, outcome="info", at_ns=S)]
    found = recovery.latency(rows(spark, SENDS, sends), spans).orderBy("phase").collect()

    assert [(row["phase"], row["acked"], row["p99_ms"]) for row in found] == [("p", 1, 2.0), ("q", 1, 2.0)]
