"""Recovery times count from the injection; times that were not observed are censored."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from evidence.columns import NULL, OK, Names, Sends
from evidence.facts import Span
from evidence.run import Run
from evidence.samples import Samples
from evidence.views import isr_changes
from history.events import Event
from history.folder import RunFolder
from history.partition import TopicPartition
from history.tables import REPLICAS, SENDS
from judge.measures import recovery
from tests.evidence.folders import MS, TP, S, isr_view, manifest, sample, sent
from tests.evidence.probed import partition

SPANS = [Span("p", 0, 9 * S), Span("q", 10 * S, 12 * S)]
WHERE = TopicPartition("orders", 0)


def stalls(sends, samples):
    """Return (phase, metric) → (ms, censored)."""
    found = recovery.longest_stalls(WHERE, acked(sends), growth_of(samples), SPANS)
    return {(row["phase"], row["metric"]): (row["value_ms"], row["censored"]) for row in found}


def acked(sends):
    """Return the times of acknowledgements in one window, None without sends."""
    if not sends:
        return None
    found = columns(sends)
    return [np.sort(found.done_ns[(found.outcome == OK) & (found.done_ns != NULL)])]


def growth_of(samples, spans=SPANS):
    """Return the stalls of literal samples."""
    found = recovery.Stalls(spans)
    found.add(Samples.of(table(samples, REPLICAS)))
    return found


def table(literal, schema):
    """Return literal rows as a recorded table."""
    return pa.Table.from_pylist(literal, schema)


def columns(sends):
    """Return literal sends as columns."""
    return Sends.of(table(sends, SENDS), Names())


def events(*, step="kill", target="broker-1", healed=14, until=20):
    """Return the events of a fault injected at 10 s, ordered to heal at 13 s, healed and ended at these times."""
    fault = {"phase": "p", "step": step, "target": target}
    return [
        Event(9 * S, "", "phase_started", "p"),
        Event(10 * S, "", "inject", **fault),
        Event(10 * S + 1, "", "injected", **fault, detail={"effect_verified": True}),
        Event(13 * S, "", "heal", **fault),
        Event(healed * S, "", "healed", **fault, detail={"recovery_verified": True}),
        Event(until * S, "", "phase_ended", "p"),
    ]


def ran(**settings):
    """Return a run of these events."""
    return Run(RunFolder(Path()), manifest(), events(**settings), [], {}, {})


def state(seconds, leader, epoch, isr, observer="controller"):
    """Return a state of the partition from this second on."""
    where = {**TP, "received_ns": round(seconds * S), "leader": leader, "leader_epoch": epoch}
    return where | {"isr": isr, "observer": observer}


def measured(states, **settings):
    """Return metric → (ms, censored)."""
    found = recovery.fault_times(ran(**settings), states)
    return {row["metric"]: (row["value_ms"], row["censored"]) for row in found}


def shown(*views):
    """Return the states shown by views (s, leader, epoch, ISR, observer), for a run without controller history."""
    literal = [isr_view(round(t * S) - MS, *view[:3], observer=view[3]) for t, *view in views]
    of = partition([], literal)
    return [{**TP, **change._asdict()} for change in isr_changes(of.views, of.names)]


def test_a_killed_leader():
    """A killed leader: elected and out of the ISR after 2 s, back after 5 s, 2 s after the order to start it."""
    states = [state(1, 1, 0, [1, 2, 3]), state(12, 2, 1, [2, 3]), state(15, 2, 1, [1, 2, 3])]

    assert measured(states) == {
        "detect": (2000, False),
        "elect": (2000, False),
        "isr_shrink": (2000, False),
        "isr_full": (5000, False),
        "catch_up": (2000, False),
        "rebalanced": (7000, True),
    }


def test_recovered_is_when_the_preferred_leader_leads_again():
    """``rebalanced`` ends when the preferred leader leads again; if it did not lead before, there is none."""
    states = [state(1, 1, 0, [1, 2, 3]), state(12, 2, 1, [2, 3]), state(15, 2, 1, [1, 2, 3])]

    assert measured([*states, state(17, 1, 2, [1, 2, 3])])["rebalanced"] == (4000, False)
    assert "rebalanced" not in measured([state(1, 2, 0, [1, 2, 3]), state(12, 2, 0, [2, 3]), states[2]])


def test_an_offered_load_counts_from_its_offer_until_the_fault_that_it_met_is_healed():
    """The load span of a phase starts with its rate change, and ends with healing if a fault was active then."""

    def offered(at_s):
        known = [*events(), Event(at_s * S, "", "rate_set", "p", detail={"from_ns": at_s * S + 5})]
        return recovery.load_spans(sorted(known, key=lambda event: event.t_ns))

    assert recovery.load_spans(events()) == [Span("p", 9 * S, 20 * S)]
    assert offered(11) == [Span("p", 11 * S + 5, 13 * S)]
    assert offered(9.5) == [Span("p", 9.5 * S + 5, 20 * S)]
    assert offered(15) == [Span("p", 15 * S + 5, 20 * S)]


def test_a_return_that_is_seen_before_its_proof_still_took_its_time():
    """``catch_up`` counts from the order to heal, even if the ISR is full before the recovery is verified."""
    states = [state(1, 1, 0, [1, 2, 3]), state(12, 2, 1, [2, 3]), state(15, 2, 1, [1, 2, 3])]

    assert measured(states, healed=19)["catch_up"] == (2000, False)


def test_what_never_came_is_censored_when_the_fault_is_over():
    """Without an election the times are censored when the fault ends; an ISR that stayed full has no ``isr_full``."""
    assert measured([state(1, 1, 0, [1, 2, 3])]) == {
        "detect": (4000, True),
        "elect": (4000, True),
        "isr_shrink": (4000, True),
    }


def test_what_a_later_fault_did_is_not_the_earlier_ones():
    """Changes after the healing do not belong to the fault; its time is censored at the healing."""
    states = [state(1, 1, 0, [1, 2, 3]), state(16, 1, 0, [1, 2]), state(18, 1, 0, [1, 2, 3])]

    assert measured(states, step="lag", target="broker-3") == {"isr_shrink": (4000, True)}


def test_an_isr_that_stays_short_is_censored_at_the_end_of_the_phase():
    """If the replica does not return to the ISR, the times are censored at the phase's end."""
    states = [state(1, 1, 0, [1, 2, 3]), state(12, 1, 0, [1, 2])]

    assert measured(states, step="slow", target="broker-3") == {
        "isr_shrink": (2000, False),
        "isr_full": (10000, True),
        "catch_up": (7000, True),
    }


def test_a_killed_follower_elects_nobody():
    """A killed follower needs no election."""
    states = [state(1, 2, 0, [1, 2, 3]), state(12, 2, 0, [2, 3]), state(12.5, 2, 0, [1, 2, 3])]

    assert set(measured(states)) == {"isr_shrink", "isr_full"}


# --- brokers that show an old ISR ----------------------------------------------------------------

FULL = (2, 5, [1, 2, 3])
SHRUNK = {"1": (2, 5, [2, 3]), "3": (2, 5, [1, 2])}  # without this broker
TIMES = {"isr_shrink": (2000, False), "isr_full": (5000, False), "catch_up": (2000, False)}


@pytest.mark.parametrize("stale", ["1", "3"])
def test_a_follower_that_was_cut_off_ends_nothing_with_its_old_isr(stale):
    """A cut-off follower's old ISR does not end the recovery times, whatever its number."""
    shrunk = SHRUNK[stale]
    leaders = [(9, *FULL, "2"), (12, *shrunk, "2"), (13.5, *shrunk, "2"), (15, *FULL, "2")]
    states = shown(*leaders, *((t, *FULL, stale) for t in (9, 12.1, 13.4)))

    assert measured(states, step="disconnect", target=f"broker-{stale}") == TIMES


@pytest.mark.parametrize("stale", ["1", "3"])
def test_a_follower_that_was_resumed_has_not_caught_up_with_its_old_isr(stale):
    """A resumed follower's old ISR does not end ``catch_up``."""
    shrunk = SHRUNK[stale]
    leaders = [(9, *FULL, "2"), (12, *shrunk, "2"), (15, *FULL, "2")]
    states = shown(*leaders, (9, *FULL, stale), (13.05, *FULL, stale), (14, *shrunk, stale), (15.1, *FULL, stale))

    assert measured(states, step="pause", target=f"broker-{stale}") == TIMES


def test_a_leader_that_was_resumed_leads_no_more():
    """A resumed leader's view of an older epoch does not count."""
    old, new = (1, 4, [1, 2, 3]), (2, 5, [2, 3])
    states = shown((9, *old, "1"), (12, *new, "2"), (13.05, *old, "1"), (15, *FULL, "2"))

    assert [row["leader_epoch"] for row in states] == [4, 5, 5]
    assert measured(states, step="pause")["catch_up"] == (2000, False)
    assert measured(states, step="pause")["elect"] == (2000, False)


def test_the_first_to_show_that_nobody_leads_counts():
    """Without a leader, the first view of the epoch counts."""
    nobody = (-1, 6, [1])
    states = shown((9, 1, 5, [1], "1"), (12, *nobody, "2"), (12.5, -1, 6, [1, 3], "3"), (15, 1, 7, [1], "1"))

    assert [(row["leader"], row["leader_epoch"]) for row in states] == [(1, 5), (-1, 6), (1, 7)]
    assert measured(states) == {"detect": (2000, False), "elect": (None, False), "isr_shrink": (None, False)}


def test_what_leaders_showed_is_an_upper_bound_and_says_so():
    """Times from metadata are marked as upper bounds; times that metadata did not show are unknown, not censored."""
    states = shown((9, *FULL, "2"), (12, *SHRUNK["3"], "2"))
    found = {row["metric"]: row for row in recovery.fault_times(ran(target="broker-3"), states)}

    assert {row["source"] for row in found.values()} == {"metadata"}
    assert found["isr_shrink"]["note"].startswith("at most: the controller's history is missing")
    assert (found["catch_up"]["value_ms"], found["catch_up"]["censored"]) == (None, False)
    assert found["catch_up"]["note"].startswith("not seen before the phase ended: the controller's history is missing")


def test_what_the_controller_decided_needs_no_note():
    """Times from the controller's history need no note; what it does not have did not happen."""
    states = [state(9, *FULL), state(12, *SHRUNK["3"])]
    found = {row["metric"]: row for row in recovery.fault_times(ran(target="broker-3"), states)}

    assert {row["source"] for row in found.values()} == {"controller"}
    assert (found["isr_shrink"]["value_ms"], found["isr_shrink"]["note"]) == (2000, None)
    assert (found["catch_up"]["value_ms"], found["catch_up"]["censored"]) == (7000, True)


# --- stalls --------------------------------------------------------------------


def test_the_longest_stall_of_a_phase():
    """The longest stall is between two acknowledgements or HW moves; without any it is the whole phase."""
    sends = [sent(n, offset=n, at_ns=t * S) for n, t in enumerate((1, 4, 7, 8))]
    samples = [sample(1, S, 5, 9), sample(2, 2 * S, 6, 9), sample(1, 3 * S, 6, 9)]

    assert stalls(sends, samples) == {
        ("p", "write_unavailable"): (3000.0, False),
        ("p", "hw_stall"): (6999.0, True),
        ("q", "write_unavailable"): (2000.0, True),
        ("q", "hw_stall"): (2000.0, True),
    }


def test_a_partition_without_load_has_no_stalls():
    """A partition without sends has no stalls; without samples it has a write stall only."""
    samples = [sample(1, S, 1, 9), sample(1, 2 * S, 2, 9)]

    assert stalls([], samples) == {}
    assert set(stalls([sent(0, at_ns=S, outcome="info")], [])) == {
        ("p", "write_unavailable"),
        ("q", "write_unavailable"),
    }


def test_of_equal_stalls_the_last_is_told():
    """If stalls have equal length, the last one is reported, also at the end of the phase."""
    sends = [{**sent(n, offset=n, at_ns=t * S), "done_ns": t * S} for n, t in enumerate((3, 6))]
    sends.append(sent(2, at_ns=4 * S, outcome="fail"))
    nowhere = TopicPartition("orders", -1)  # records that were still to be placed when the producer ended
    assert recovery.longest_stalls(nowhere, acked(sends[2:]), growth_of([], SPANS[:1]), SPANS[:1]) == []
    (found,) = recovery.longest_stalls(WHERE, acked(sends), growth_of([], SPANS[:1]), SPANS[:1])

    assert found == {
        "phase": "p",
        "fault": "",
        "topic": "orders",
        "partition": 0,
        "metric": "write_unavailable",
        "from_ns": 6 * S,
        "value_ms": 3000.0,
        "censored": True,
        "source": "sends",
        "samples": 2,
        "note": None,
    }
