"""Recovery times count from the order to inject, and what was not seen is censored."""

import pyarrow as pa
import pytest

from evidence.columns import Names, Samples, Sends
from evidence.views import isr_changes
from history.events import Event
from history.partition import TopicPartition
from history.tables import REPLICAS, SENDS
from judge.measures import recovery
from judge.measures.recovery import Span
from tests.evidence.folders import MS, TP, S, isr_view, manifest, sample, sent
from tests.evidence.probed import partition

SPANS = [Span("p", 0, 9 * S), Span("q", 10 * S, 12 * S)]
WHERE = TopicPartition("orders", 0)


def stalls(sends, samples):
    """(phase, metric) → (ms, censored)."""
    found = recovery.longest_stalls(WHERE, columns(sends), Samples.of(table(samples, REPLICAS)), SPANS)
    return {(row["phase"], row["metric"]): (row["value_ms"], row["censored"]) for row in found}


def table(literal, schema):
    """Literal rows as a recorded table."""
    return pa.Table.from_pylist(literal, schema)


def columns(sends):
    """Literal sends as columns."""
    return Sends.of(table(sends, SENDS), Names())


def events(*, step="kill", target="broker-1", healed=14, until=20):
    """A fault at 10 s, ordered to heal at 13 s and seen to be gone at ``healed`` s, in a phase until ``until`` s."""
    fault = {"phase": "p", "step": step, "target": target}
    return [
        Event(9 * S, "", "phase_started", "p"),
        Event(10 * S, "", "inject", **fault),
        Event(10 * S + 1, "", "injected", **fault, detail={"effect_verified": True}),
        Event(13 * S, "", "heal", **fault),
        Event(healed * S, "", "healed", **fault, detail={"recovery_verified": True}),
        Event(until * S, "", "phase_ended", "p"),
    ]


def state(seconds, leader, epoch, isr, observer="controller"):
    """A state of the partition from some second on."""
    where = {**TP, "received_ns": round(seconds * S), "leader": leader, "leader_epoch": epoch}
    return where | {"isr": isr, "observer": observer}


def measured(states, **settings):
    """metric → (ms, censored)."""
    found = recovery.fault_times(manifest(), events(**settings), states)
    return {row["metric"]: (row["value_ms"], row["censored"]) for row in found}


def shown(*views):
    """The states that views (s, leader, epoch, ISR, observer) tell where the controller's history is missing."""
    literal = [isr_view(round(t * S) - MS, *view[:3], observer=view[3]) for t, *view in views]
    of = partition([], literal)
    return [{**TP, **change._asdict()} for change in isr_changes(of.views, of.names)]


def test_a_killed_leader():
    """Elected after 2 s, out of the ISR with it, back after 5 s, which is 2 s after the order to start it again."""
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
    """The ISR was full 2 s after the order, and leadership back after 4 s; who did not lead before owes nothing."""
    states = [state(1, 1, 0, [1, 2, 3]), state(12, 2, 1, [2, 3]), state(15, 2, 1, [1, 2, 3])]

    assert measured([*states, state(17, 1, 2, [1, 2, 3])])["rebalanced"] == (4000, False)
    assert "rebalanced" not in measured([state(1, 2, 0, [1, 2, 3]), state(12, 2, 0, [2, 3]), states[2]])


def test_an_offered_load_counts_from_its_offer_until_the_fault_that_it_met_is_healed():
    """Offered at 11 s with a broker away, healed from 13 s; offered before the fault, it lasts as long as the phase."""

    def offered(at_s):
        known = [*events(), Event(at_s * S, "", "rate_set", "p", detail={"from_ns": at_s * S + 5})]
        return recovery.load_spans(sorted(known, key=lambda event: event.t_ns))

    assert recovery.load_spans(events()) == [("p", 9 * S, 20 * S)]
    assert offered(11) == [("p", 11 * S + 5, 13 * S)]
    assert offered(9.5) == [("p", 9.5 * S + 5, 20 * S)]
    assert offered(15) == [("p", 15 * S + 5, 20 * S)]


def test_a_return_that_is_seen_before_its_proof_still_took_its_time():
    """The ISR was full again before the heal was proven: the time counts from the order, and is not zero."""
    states = [state(1, 1, 0, [1, 2, 3]), state(12, 2, 1, [2, 3]), state(15, 2, 1, [1, 2, 3])]

    assert measured(states, healed=19)["catch_up"] == (2000, False)


def test_what_never_came_is_censored_when_the_fault_is_over():
    """Nobody else led while the fault lasted; an ISR that stayed full has nothing to make full."""
    assert measured([state(1, 1, 0, [1, 2, 3])]) == {
        "detect": (4000, True),
        "elect": (4000, True),
        "isr_shrink": (4000, True),
    }


def test_what_a_later_fault_did_is_not_the_earlier_ones():
    """A lag that the ISR bore until its heal is censored there, whatever became of the follower later."""
    states = [state(1, 1, 0, [1, 2, 3]), state(16, 1, 0, [1, 2]), state(18, 1, 0, [1, 2, 3])]

    assert measured(states, step="lag", target="broker-3") == {"isr_shrink": (4000, True)}


def test_an_isr_that_stays_short_is_censored_at_the_end_of_the_phase():
    """Out of the ISR and not back within the phase."""
    states = [state(1, 1, 0, [1, 2, 3]), state(12, 1, 0, [1, 2])]

    assert measured(states, step="slow", target="broker-3") == {
        "isr_shrink": (2000, False),
        "isr_full": (10000, True),
        "catch_up": (7000, True),
    }


def test_a_killed_follower_elects_nobody():
    """Where another broker leads there is nothing to elect."""
    states = [state(1, 2, 0, [1, 2, 3]), state(12, 2, 0, [2, 3]), state(12.5, 2, 0, [1, 2, 3])]

    assert set(measured(states)) == {"isr_shrink", "isr_full"}


# --- brokers that show an old ISR ----------------------------------------------------------------

FULL = (2, 5, [1, 2, 3])
SHRUNK = {"1": (2, 5, [2, 3]), "3": (2, 5, [1, 2])}  # without this broker
TIMES = {"isr_shrink": (2000, False), "isr_full": (5000, False), "catch_up": (2000, False)}


@pytest.mark.parametrize("stale", ["1", "3"])
def test_a_follower_that_was_cut_off_ends_nothing_with_its_old_isr(stale):
    """The leader showed the shrunk ISR from 12 s on and the full one from 15 s on; the follower, whose number sorts
    before or after the leader's, the full one all along.
    """
    shrunk = SHRUNK[stale]
    leaders = [(9, *FULL, "2"), (12, *shrunk, "2"), (13.5, *shrunk, "2"), (15, *FULL, "2")]
    states = shown(*leaders, *((t, *FULL, stale) for t in (9, 12.1, 13.4)))

    assert measured(states, step="disconnect", target=f"broker-{stale}") == TIMES


@pytest.mark.parametrize("stale", ["1", "3"])
def test_a_follower_that_was_resumed_has_not_caught_up_with_its_old_isr(stale):
    """It answers again 50 ms after the order to resume it, with the ISR from before; then it sees that it had left."""
    shrunk = SHRUNK[stale]
    leaders = [(9, *FULL, "2"), (12, *shrunk, "2"), (15, *FULL, "2")]
    states = shown(*leaders, (9, *FULL, stale), (13.05, *FULL, stale), (14, *shrunk, stale), (15.1, *FULL, stale))

    assert measured(states, step="pause", target=f"broker-{stale}") == TIMES


def test_a_leader_that_was_resumed_leads_no_more():
    """Broker 1 shows itself as the leader of an epoch that is over; broker 2 showed that it leads the next."""
    old, new = (1, 4, [1, 2, 3]), (2, 5, [2, 3])
    states = shown((9, *old, "1"), (12, *new, "2"), (13.05, *old, "1"), (15, *FULL, "2"))

    assert [row["leader_epoch"] for row in states] == [4, 5, 5]
    assert measured(states, step="pause")["catch_up"] == (2000, False)
    assert measured(states, step="pause")["elect"] == (2000, False)


def test_the_first_to_show_that_nobody_leads_counts():
    """No leader's own view is there to come; a later one of the same epoch tells nothing new."""
    nobody = (-1, 6, [1])
    states = shown((9, 1, 5, [1], "1"), (12, *nobody, "2"), (12.5, -1, 6, [1, 3], "3"), (15, 1, 7, [1], "1"))

    assert [(row["leader"], row["leader_epoch"]) for row in states] == [(1, 5), (-1, 6), (1, 7)]
    assert measured(states) == {"detect": (2000, False), "elect": (None, False), "isr_shrink": (None, False)}


def test_what_leaders_showed_is_an_upper_bound_and_says_so():
    """The leader shows a decision after it was made; what it did not show may have come and gone."""
    states = shown((9, *FULL, "2"), (12, *SHRUNK["3"], "2"))
    found = {row["metric"]: row for row in recovery.fault_times(manifest(), events(target="broker-3"), states)}

    assert {row["source"] for row in found.values()} == {"metadata"}
    assert found["isr_shrink"]["note"].startswith("at most: the controller's history is missing")
    assert (found["catch_up"]["value_ms"], found["catch_up"]["censored"]) == (None, False)
    assert found["catch_up"]["note"].startswith("not seen before the phase ended: the controller's history is missing")


def test_what_the_controller_decided_needs_no_note():
    """Its own history is what happened, and what it does not have did not happen."""
    states = [state(9, *FULL), state(12, *SHRUNK["3"])]
    found = {row["metric"]: row for row in recovery.fault_times(manifest(), events(target="broker-3"), states)}

    assert {row["source"] for row in found.values()} == {"controller"}
    assert (found["isr_shrink"]["value_ms"], found["isr_shrink"]["note"]) == (2000, None)
    assert (found["catch_up"]["value_ms"], found["catch_up"]["censored"]) == (7000, True)


# --- stalls --------------------------------------------------------------------


def test_the_longest_stall_of_a_phase():
    """Writes stood for 3 s between two acknowledgements, the high watermark from 2 s to the end; a phase in which
    nothing came is one stall from its start to its end.
    """
    sends = [sent(n, offset=n, at_ns=t * S) for n, t in enumerate((1, 4, 7, 8))]
    samples = [sample(1, S, 5, 9), sample(2, 2 * S, 6, 9), sample(1, 3 * S, 6, 9)]

    assert stalls(sends, samples) == {
        ("p", "write_unavailable"): (3000.0, False),
        ("p", "hw_stall"): (6999.0, True),
        ("q", "write_unavailable"): (2000.0, True),
        ("q", "hw_stall"): (2000.0, True),
    }


def test_a_partition_without_load_has_no_stalls():
    """Whatever its replicas show; and of one that no replica showed, writes alone are told."""
    samples = [sample(1, S, 1, 9), sample(1, 2 * S, 2, 9)]

    assert stalls([], samples) == {}
    assert set(stalls([sent(0, at_ns=S, outcome="info")], [])) == {
        ("p", "write_unavailable"),
        ("q", "write_unavailable"),
    }


def test_of_equal_stalls_the_last_is_told():
    """Acknowledged 3 and 6 s after the phase began, which lasts 9 s: the last 3 s are at least 3 s."""
    sends = [{**sent(n, offset=n, at_ns=t * S), "done_ns": t * S} for n, t in enumerate((3, 6))]
    sends.append(sent(2, at_ns=4 * S, outcome="fail"))
    nowhere = TopicPartition("orders", -1)  # records that were still to be placed when the producer ended
    assert recovery.longest_stalls(nowhere, columns(sends[2:]), Samples.of(table([], REPLICAS)), SPANS[:1]) == []
    (found,) = recovery.longest_stalls(WHERE, columns(sends), Samples.of(table([], REPLICAS)), SPANS[:1])

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
