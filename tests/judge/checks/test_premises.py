"""The effects of steps on the replicas' logs, as the checks use them."""

from pathlib import Path

import pytest

from evidence.facts import BrokerStop, Input, NewLog, Outage, Replica
from evidence.faults import fault_spans
from evidence.run import Run
from evidence.views import has_good_times
from history.events import Event
from history.folder import RunFolder
from history.manifest import Incarnation, NodeInfo, TopicInfo
from history.partition import TopicPartition
from judge.checks.premises import (
    Premises,
    active_faults,
    broker_stops,
    disturbances,
    new_logs,
    outages,
    transaction_limit_ns,
    transactional,
)
from kafka_files.states import State
from tests.evidence.folders import MS, S, event, happened, manifest

ORDERS = TopicPartition("orders", 0)


def premises(events=(), of=None, folder=Path(), **read):
    """Return the premises of a run with a manifest, some events and these ``read`` files."""
    run = Run(RunFolder(folder), of or manifest(), list(events), [], {}, [])
    nothing = {"replicas": {}, "states": {}, "lines": (), "captures": ()}
    run.__dict__.update(nothing | read)  # in the place of the cached ones
    return Premises(run)


def stepping(steps):
    """Return a manifest with these steps."""
    return manifest().model_copy(update={"scenario": {"phases": [{"one": steps}]}})


def decided(seconds, leader, epoch, isr, *, dated=True, partition=0):
    """Return a state of the controller's history."""
    where = "orders", partition, "metadata_log", seconds, seconds * S if dated else None
    return State(*where, leader, epoch, seconds, (1, 2, 3), isr)


@pytest.mark.parametrize(
    ("shown", "good"),
    [
        ({}, True),
        ({5: 2 * S, 6: 4 * S + 10 * MS}, True),
        ({6: 3 * S}, True),  # the two clocks are told apart to a second
        ({6: 3 * S - 1}, False),  # by another clock
        ({7: 9 * S}, False),  # it breaks off before
        ({4: S}, False),  # it begins later
    ],
)
def test_a_history_has_good_times_if_brokers_showed_nothing_before_it(shown, good):
    """The history's times are good unless a broker showed an epoch before it was decided."""
    history = [decided(2, 2, 5, (1, 2, 3)), decided(3, 2, 5, (1, 2)), decided(4, 1, 6, (1, 2))]

    assert has_good_times(history, shown) is good
    assert not has_good_times([*history, decided(5, 1, 6, (1, 2, 3), dated=False)], shown)


@pytest.mark.parametrize(
    ("kind", "step", "target", "found"),
    [
        ("inject", "wipe", "broker-2", [NewLog(2, 5)]),
        ("inject", "flip_bit", "broker-3", [NewLog(3, 5)]),
        ("healed", "wipe", "broker-2", []),
        ("inject", "reassign", "broker-2, broker-3", [NewLog(None, 5)]),
        ("inject", "kill", "broker-2", []),
        ("inject", "delete_checkpoint", "broker-2", []),
    ],
)
def test_a_log_is_a_new_one_after_some_steps(kind, step, target, found):
    """Steps that damage files give that broker a new log; a reassignment gives any broker a new log."""
    assert list(new_logs(fault_spans([happened(5, kind, step=step, target=target)]), manifest())) == found


@pytest.mark.parametrize(
    ("step", "target", "spans"),
    [
        ("kill", "broker-3", [(10, 73)]),
        ("disconnect", "broker-3", [(10, 73)]),
        ("lose", "broker-3", [(10, 73)]),
        ("wipe", "broker-3", [(10, 73)]),
        ("fail_log_dir", "broker-3", [(10, 73)]),
        ("flip_bit", "broker-3", []),
        ("configure", "orders", []),
        ("kill", "member-1", []),
    ],
)
def test_a_fault_that_keeps_no_server_from_its_clients_costs_no_answer(step, target, spans):
    """A fault on a server counts as a disturbance for clients from injection to 3 s after healing."""
    told = [happened(at_s * S, kind, step=step, target=target) for at_s, kind in ((10, "inject"), (70, "healed"))]

    assert disturbances(fault_spans(told), manifest()) == [(from_s * S, until_s * S) for from_s, until_s in spans]


def test_a_reassignment_gives_its_topic_new_logs():
    """A reassignment gives new logs to the topic of its proof; without a proof, to any topic."""
    one, other = {"step": "reassign", "target": "broker-1"}, {"step": "reassign", "target": "broker-3"}
    proven = {"effect_verified": True, "replicas": {"order-s-0": [1], "order-s-1": [1]}}
    told = [
        happened(1, "inject", **one),
        happened(2, "injected", detail=proven, **one),
        happened(3, "inject", **other),
        happened(4, "injected", detail={"effect_verified": False, "why": "in time"}, **other),
        happened(5, "heal", **one),
    ]

    assert list(new_logs(fault_spans(told), manifest())) == [
        NewLog(None, 1, "order-s"),
        NewLog(None, 5, "order-s"),
        NewLog(None, 3),
    ]
    unproven = happened(6, "healed", detail={"recovery_verified": False}, **one)
    assert list(new_logs(fault_spans([*told, unproven]), manifest())) == [NewLog(None, t_ns) for t_ns in (1, 5, 3)]


def test_a_topic_is_clean_until_its_last_copy_is_damaged():
    """A topic stays clean if a disk loss left an ISR member alive."""

    def wiped(last):
        injected = happened(1, "injected", step="wipe", detail={"last_copy_of": last})
        return premises([injected], of=manifest(faults=["kill", "wipe"]))

    assert wiped([]).clean(ORDERS)
    assert not wiped(["orders-0"]).clean(ORDERS)
    assert wiped(["sales-0"]).clean(ORDERS)
    assert not wiped(None).clean(ORDERS)


@pytest.mark.parametrize(
    ("states", "lines", "clean"),
    [
        ([decided(0, 1, 0, (1, 2)), decided(1, 2, 1, (2,))], [0, 1], True),
        ([decided(0, 1, 0, (1,)), decided(1, 2, 1, (2,))], [0, 1], False),
        ([decided(0, 1, 0, (1, 2)), decided(1, 2, 1, (2,))], [0, 1, 2], False),  # it breaks off
        ([decided(1, 2, 1, (2,))], [1], False),  # it begins later
        ([], [], False),
    ],
)
def test_where_unclean_elections_are_enabled_the_controller_tells_whether_there_was_one(states, lines, clean):
    """With unclean elections enabled, a topic is clean if its whole controller history has none."""
    told = [{"kind": "leader_started", "topic": "orders", "partition": 0, "leader_epoch": n} for n in lines]
    enabled = premises(
        of=manifest(config={"unclean.leader.election.enable": "true"}), states={ORDERS: states}, lines=told
    )

    assert (enabled.clean(ORDERS), enabled.led_cleanly) == (clean, {"orders"} if clean else set())
    assert premises(states={ORDERS: states}, lines=told).clean(ORDERS)


def test_the_settings_that_steps_changed_bound_the_checks():
    """The checks use the highest and the lowest min.insync.replicas of a run, bounded by the number of replicas."""
    changes = [{"configure": {"topic": "orders", "set": {"min.insync.replicas": value}}} for value in ("1", "5")]
    run = premises(of=stepping(changes))

    def min_isrs(of):
        facts = of.of_replicas(ORDERS)
        return facts["effective_min_isr"], facts["lowest_min_isr"]

    assert min_isrs(run) == (3, 1)
    assert min_isrs(premises()) == (2, 2)


def test_min_isr_is_bounded_by_the_most_replicas_that_a_partition_had():
    """min.insync.replicas is bounded by the most replicas that the partition ever had."""
    asked = manifest(config={"min.insync.replicas": "5"})
    created = asked.topics["orders"].model_copy(update={"assignment": {0: [1]}})

    def least(*replicas):
        states = {ORDERS: [decided(1, 1, 1, of)._replace(replicas=of) for of in replicas]}
        known = premises(of=asked.model_copy(update={"topics": {"orders": created}}), states=states)
        return max(known.effective_min_isrs(ORDERS))

    assert least() == 1
    assert least((1,), (1, 2), (2,)) == 2


@pytest.mark.parametrize(
    ("settings", "capture", "broker_id", "found"),
    [
        ({"retention.ms": "1000"}, "after", 1, [("orders", 0, 40)]),
        ({"retention.bytes": "1000"}, "after", 1, [("orders", 0, 40)]),
        ({"segment.ms": "1000"}, "after", 1, []),
        ({"retention.ms": "-1"}, "after", 1, []),
        ({"retention.ms": "1000"}, "before", 1, []),
        ({"retention.ms": "1000"}, "after", 2, []),
    ],
)
def test_what_the_retention_took_is_owed_no_more(settings, capture, broker_id, found):
    """With a retention, records below the last leader's final log start count as deleted."""
    topic = manifest().topics["orders"]
    given = manifest().model_copy(
        update={"topics": {"orders": topic.model_copy(update={"config": {**topic.config, **settings}})}}
    )
    end = {"topic": "orders", "partition": 0, "capture": capture, "broker_id": broker_id, "log_start_offset": 40}
    found_by = premises(of=given, captures=[end], states={ORDERS: [decided(1, 1, 1, (1,))]})

    assert [(*where, before) for where, before in found_by.deleted.items()] == found


def ends(**starts):
    """Return the final log start of each broker, by its name."""
    where = {"topic": "orders", "partition": 0, "capture": "after"}
    return [where | {"broker_id": int(name[1:]), "log_start_offset": start} for name, start in starts.items()]


def test_without_a_history_the_retention_may_have_taken_what_lies_below_the_furthest_log_start():
    """With a retention and without a history, records below the largest log start count as deleted."""
    expiring = manifest(config={"retention.bytes": "1000"})

    assert premises(of=expiring, captures=ends(b1=20, b2=40, b3=None)).deleted == {ORDERS: 40}
    assert premises(captures=ends(b1=20, b2=40)).deleted == {}


@pytest.mark.parametrize(
    ("detail", "found"),
    [
        ({"effect_verified": False, "why": "timed out"}, {ORDERS: 20}),
        (None, {ORDERS: 20}),  # the request had no answer
        ({"effect_verified": True, "partition": "orders-0", "deleted_before": 15}, {ORDERS: 15}),
    ],
)
def test_a_deletion_without_a_proof_may_have_taken_what_lies_below_the_log_start(detail, found):
    """A ``delete_records`` step without a proof counts up to the last leader's log start."""
    events = [happened(1, "inject", step="delete_records")]
    if detail is not None:
        events.append(happened(2, "injected", step="delete_records", detail=detail))
    read = {"captures": ends(b1=20, b2=30), "states": {ORDERS: [decided(0, 1, 0, (1, 2))]}}
    ordered = stepping([{"delete_records": {"partition": "orders-0", "before": 20}}])

    assert premises(events, of=ordered, **read).deleted == found
    other = stepping([{"delete_records": {"partition": "orders-1", "before": 20}}])
    assert premises(of=other, **read).deleted == {}


def test_a_copiers_input_is_told_with_what_became_of_it():
    """A copier's input includes what was deleted from it, and whether committed records may be lost."""
    given = manifest(config={"cleanup.policy": "compact"})
    wiped = happened(1, "injected", step="wipe", detail={"last_copy_of": ["orders-0"]})
    deleted = happened(1, "injected", step="delete_records", detail={"partition": "orders-0", "deleted_before": 15})

    assert premises([wiped, deleted], of=given).of_input(Input(ORDERS, 9, True)) == (ORDERS, 9, True, 15, False, False)
    assert premises().of_input(Input(ORDERS, 9, True)) == Input(ORDERS, 9, True)
    assert premises().of_input(None) is None


@pytest.mark.parametrize(
    ("settings", "expires", "kept"),
    [
        ({"log.retention.minutes": "1"}, True, True),
        ({"log.retention.bytes": "1000"}, True, True),
        ({"log.cleanup.policy": "compact"}, False, False),
        ({"log.retention.check.interval.ms": "1000"}, False, True),
    ],
)
def test_a_brokers_retention_and_policy_are_its_topics(settings, expires, kept):
    """Retention and cleanup policy come from the topic, else from the broker, also if a step changes them."""
    nodes = [node.model_copy(update={"config": settings}) for node in manifest().nodes]
    given = premises(of=manifest().model_copy(update={"nodes": nodes}))
    changed = premises(of=stepping([{"configure": {"broker": "A", "set": settings}}]))

    assert [(each.run.expires("orders"), each.kept("orders")) for each in (given, changed)] == [(expires, kept)] * 2


@pytest.mark.parametrize(("settings", "stay_ns"), [({}, 86_400_000_000_000), ({"delete.retention.ms": "5"}, 5_000_000)])
def test_tombstones_stay_as_long_as_their_topic_says(settings, stay_ns):
    """Tombstones stay for delete.retention.ms, by default a day."""
    topics = {"orders": TopicInfo(assignment={0: []}, config=settings)}

    assert premises(of=manifest().model_copy(update={"topics": topics})).tombstones_stay_ns("orders") == stay_ns


def test_a_topic_that_is_compacted_for_a_while_is_not_kept():
    """A topic that was compacted for a while may lack records; another topic's policy does not matter."""
    found = []
    for topic in ("orders", "sales"):
        steps = [{"configure": {"topic": topic, "set": {"cleanup.policy": "compact"}}}]
        found.append(premises(of=stepping(steps)).kept("orders"))

    assert found == [False, True]


@pytest.mark.parametrize(
    ("settings", "bases", "captured", "expected"),
    [
        ({"retention.bytes": "1000"}, (20, 40), 0, (20, [20])),  # a segment expired after the capture
        ({"retention.bytes": "1000"}, (20, 40), 30, (30, [30])),
        ({"retention.bytes": "1000"}, (0, 40), None, (0, [0])),
        ({}, (20, 40), 0, (0, [])),  # a first segment that is missing is damage
    ],
)
def test_a_replica_whose_records_expire_begins_where_its_files_do(tmp_path, settings, bases, captured, expected):
    """With a retention, a replica starts at its first segment or its captured log start, whichever is later."""
    replica = tmp_path / "brokers" / "broker-2" / "data" / "orders-0"
    replica.mkdir(parents=True)
    for base in bases:
        (replica / f"{base:020}.log").touch()
    end = {"topic": "orders", "partition": 0, "capture": "after", "broker_id": 2, "log_start_offset": captured}
    given = premises(of=manifest(config=settings), folder=tmp_path, captures=[end | {"high_watermark": 50}])
    del given.run.__dict__["replicas"]

    (found,) = given.run.replicas[ORDERS]
    assert (found.log_start_offset, [*given.required_from(ORDERS).values()]) == expected


def test_where_an_epochs_start_was_deleted_its_leader_tells():
    """If an epoch's start was deleted, its leader's log line has it; otherwise the epoch files do."""
    said = {"kind": "leader_started", "topic": "orders", "partition": 0, "leader_epoch": 3, "log_end_offset": 30}

    def starts(log_start, *lines):
        replica = Replica(1, [], [(3, log_start), (4, 70)], log_start, 100)
        return premises(replicas={ORDERS: (replica,)}, lines=lines).starts(ORDERS)

    assert starts(50, said, said | {"leader_epoch": 4}) == {3: 30, 4: 70}
    assert starts(50, said | {"partition": 1}, said | {"kind": "follower_started"}) == {4: 70}
    assert starts(0, said) == {3: 0, 4: 70}


def test_a_fault_has_three_times():
    """A fault has the times of injection, effect and healing; an unhealed one never ends."""
    where = {"phase": "p", "step": "pause", "target": "broker-2"}
    told = [
        event(1 * S, "inject", **where),
        event(2 * S, "injected", **where, detail={"effect_verified": True}),
        event(3 * S, "injected", phase="p", step="slow", target="broker-1", detail={"effect_verified": True}),
        event(5 * S, "heal", **where),
        event(6 * S, "inject", **(where | {"step": "kill"})),
        event(7 * S, "injected", **(where | {"step": "kill"}), detail={"effect_verified": True}),
    ]

    assert list(broker_stops(fault_spans([Event(**each) for each in told]), manifest())) == [
        BrokerStop(2, 1 * S, 2 * S, 5 * S),
        BrokerStop(2, 6 * S, 7 * S, 2**63 - 1),
    ]


@pytest.mark.parametrize(("started_s", "ended"), [((), False), ((4,), True), ((8,), False), ((1,), False)])
def test_a_fault_ended_a_process_if_the_next_one_started_before_it_was_healed(started_s, ended):
    """A fault ended a process if the broker's next start precedes the healing."""
    of = {"phase": "p", "step": "kill", "target": "broker-2"}
    proven = event(2 * S, "injected", **of, detail={"effect_verified": True})
    lines = [event(1 * S, "inject", **of), proven, event(6 * S, "healed", **of)]
    starts = [Incarnation(node="broker-2", incarnation=2, kafka_version="4.3.0", started_ns=at * S) for at in started_s]
    found = list(
        broker_stops(
            fault_spans([Event(**each) for each in lines]), manifest().model_copy(update={"incarnations": starts})
        )
    )

    assert [fault.ended for fault in found] == [ended]


def test_an_outage_lasts_from_the_order_to_the_proof_that_it_is_gone():
    """An outage of a broker or controller lasts from the injection to the verified recovery."""
    where = {"phase": "p", "step": "disconnect", "target": "broker-2"}
    controllers = {"phase": "p", "step": "kill", "target": "controller, broker-1"}
    told = [
        event(1 * S, "inject", **where),
        event(2 * S, "injected", **where),
        event(3 * S, "inject", **controllers),
        event(4 * S, "inject", phase="p", step="limit_bandwidth", target="broker-1"),
        event(5 * S, "heal", **where),
        event(6 * S, "healed", **where),
    ]
    node = NodeInfo(name="controller", role="controller", address="10.0.0.9", node_id=100)
    run = manifest().model_copy(update={"nodes": [*manifest().nodes, node]})

    assert list(outages(fault_spans([Event(**each) for each in told]), run)) == [
        Outage(2, 1 * S, 6 * S),
        Outage(None, 3 * S, 2**63 - 1),
        Outage(1, 3 * S, 2**63 - 1),
    ]


@pytest.mark.parametrize(
    ("steps", "kept"),
    [
        ([{"kill": "A"}], True),
        ([{"truncate": {"node": "A", "partition": "orders-0", "records": 1}}], False),
        ([{"restart": {"node": "A", "with": {"unclean.leader.election.enable": "true"}}}], False),
        ([{"configure": {"topic": "__share_group_state", "set": {"unclean.leader.election.enable": "true"}}}], False),
        ([{"configure": {"topic": "orders", "set": {"unclean.leader.election.enable": "true"}}}], True),
    ],
)
def test_a_group_keeps_its_offsets_unless_a_disk_or_an_election_may_take_them(steps, kept):
    """A group's committed offsets are kept unless a disk fault or an unclean election may hit Kafka's offsets topic."""
    assert premises(of=stepping(steps)).keeps_offsets is kept


def test_a_fault_is_active_until_its_recovery_is_verified():
    """By its step and target; one that never went lasts on."""
    events = [
        Event(5, "", "inject", target="broker-1"),
        Event(6, "", "injected", target="broker-1"),
        Event(7, "", "inject", target="broker-2"),
        Event(8, "", "healed", target="broker-1"),
    ]

    assert active_faults(fault_spans(events)) == [(5, 8), (7, 2**63 - 1)]


def test_a_fault_outlasts_a_shorter_one_of_the_same_node():
    """A pause that is healed at 8 s says nothing of the CPU limit that it lies within."""
    limit, pause = {"step": "limit_cpu", "target": "broker-1"}, {"step": "pause", "target": "broker-1"}
    events = [
        Event(5, "", "inject", **limit),
        Event(7, "", "inject", **pause),
        Event(8, "", "healed", **pause),
        Event(9, "", "healed", **limit),
    ]

    assert active_faults(fault_spans(events)) == [(5, 9), (7, 8)]


def test_how_long_a_transaction_may_be_open():
    """The producer's time-out, 10 s of the coordinator's, and 10 s to settle; a run without has no transactions."""
    assert transaction_limit_ns(manifest(transaction_timeout_ms=20_000)) == 40 * S
    assert transactional(manifest(transaction_timeout_ms=20_000))
    assert not transactional(manifest())
