"""The notes of a verdict."""

from dataclasses import replace

import pytest

from evidence.counts import Copies
from evidence.faults import phases
from history.events import Event
from history.partition import TopicPartition
from judge.verdict import notes
from kafka_files.clock import Clock
from tests.evidence.folders import MS, S, manifest

COPIES = TopicPartition("copies", 0)


def of(kind, t_ns=0, **detail):
    """Return an event about a pause of broker-1."""
    return Event(t_ns, "", kind, "p", "pause", "broker-1", detail)


def test_a_wait_that_ran_out_is_told():
    """A wait that timed out is reported with its condition and last observation."""
    ran_out = of("wait_timed_out", condition="isr full: orders", waited_ms=30000, last_seen="[1, 2]")

    assert notes.timed_out_waits([ran_out, of("condition_met")]) == [
        "In 'p' the wait for isr full: orders ran out after 30000 ms; last seen: [1, 2]."
    ]
    at_the_end = replace(ran_out, phase="", step="quiesce")
    assert notes.timed_out_waits([at_the_end])[0].startswith("At quiesce the wait for isr full")


def test_a_topic_that_was_made_anew_is_noted():
    """A watch judged only the first topic of the name."""
    assert notes.topics_made_anew([of("topic_made_anew", topic="orders"), of("note", topic="others")]) == [
        "The topic orders was deleted and made anew during the watch: only the first one was judged."
    ]


def test_a_broker_that_did_not_answer_is_noted():
    """Its periods are added up; other events do not count."""
    silences = [of("broker_silent", broker_id=2, seconds=seconds) for seconds in (3.2, 12.1)]

    assert notes.silent_brokers([*silences, of("broker_silent", broker_id=1, seconds=15.0), of("note")]) == [
        "Broker 1 did not answer for 15 s: its replicas were not judged then.",
        "Broker 2 did not answer for 15 s in 2 periods: its replicas were not judged then.",
    ]


def test_a_broker_that_did_not_answer_at_the_start_is_noted():
    """The reason says from when on the broker was observed; a later silence alone does not."""
    silences = [
        of("broker_silent", broker_id=2, seconds=8.0, since_start=True),
        of("broker_silent", broker_id=2, seconds=3.0),
    ]

    assert notes.silent_brokers(silences) == [
        "Broker 2 did not answer for 11 s in 2 periods, at first for 8 s from the start on: "
        "its replicas were not judged then."
    ]


def test_a_broker_that_came_back_by_itself_is_noted():
    """Only after a fault that no step ends."""
    ended = [of("injected", returns_by_itself=True), of("injected"), of("healed")]

    assert notes.returns(ended) == [
        "In 'p' broker-1 came back by itself after the pause: later steps may have been performed after its return."
    ]


def test_a_clock_that_was_set_is_told():
    """A change of the host's clock is reported with size, direction and phase."""
    ran = [of("phase_started", t_ns=0), of("phase_ended", t_ns=3 * S)]
    wall = [100 * S, 101 * S, 3702 * S, 3703 * S, 104 * S, 105 * S]
    clock = Clock(sorted((at, t * S) for t, at in enumerate(wall)))

    assert [told.split(":")[0] for told in notes.clock_changes(clock, phases(ran))] == [
        "In 'p' the host's clock was set 3,600 s ahead",
        "Outside of the phases the host's clock was set 3,600 s back",
    ]
    assert notes.clock_changes(Clock(clock.pairs[:3]), phases(ran)) == []

    moved = Clock([(t * S + (400 * MS if t > 1 else 0), t * S) for t in range(4)])
    assert [told.split(":")[0] for told in notes.clock_changes(moved, phases(ran))] == [
        "In 'p' the host's clock was set 0.4 s ahead"
    ]


def test_what_was_owed_is_told_by_topic():
    """The number of records to copy is reported per topic."""
    copies = {COPIES: Copies(30, 0), COPIES._replace(partition=1): Copies(1000, 0)}

    assert notes.required_copies(copies) == ["1,030 committed records required one copy each in copies."]
    assert notes.required_copies({}) == []


def test_what_a_java_client_does_not_say_is_told():
    """A Java client is reported with its release and the times that it does not record."""
    told = manifest()
    java = told.producers[0].model_copy(update={"engine": "java", "client": "3.9.1"})

    (sentence,) = notes.without_send_times(told.model_copy(update={"producers": [java]}))
    assert sentence.startswith("The producer load-1 is Kafka's VerifiableProducer 3.9.1: it does not say when")
    assert notes.without_send_times(told) == []


@pytest.mark.parametrize(
    ("overflowed", "said"), [(6, ["producer never sent 6 of 1,000 records that were due (0.6%)"]), (5, [])]
)
def test_a_producer_that_could_not_keep_up_is_named(overflowed, said):
    """A producer that never sent more than 0.5% of its due records is named."""
    producer = {"client_id": "producer", "role": "producer", "rows": 1000, "overflowed": overflowed}
    found = notes.overflowed_loads([producer, {"client_id": "consumer", "role": "consumer", "rows": 0}])

    assert [sentence.partition(":")[0] for sentence in found] == said
