"""Which anomalies a configuration permits follows from settings and faults only."""

import pytest

from evidence.facts import Cause
from history.manifest import Incarnation
from history.partition import TopicPartition
from judge.checks.allowed import ALLOWED, allowed, allowed_to, last_copy_lost, lost_copies, unclean_election
from judge.checks.causes import CAUSES
from judge.checks.gates import always, sometimes
from tests.evidence.folders import happened, manifest

GONE = {"lost_write", "truncated_ack", "unknown_offset_ack", "inconsistent_offset", "realtime_order_violation"}
LOSS = GONE | {"nonmonotonic_send", "torn_transaction"}
READ_BEFORE = {"nonrepeatable_read", "nonmonotonic_poll", "poll_skip"}


def permitted(**settings):
    """Return the anomalies that some producer is permitted."""
    return set(allowed(manifest(**settings)))


def test_acks_all_with_a_clean_election_permits_nothing():
    """Idempotent acks=all with clean elections permits neither loss nor duplicates, whatever the faults."""
    assert permitted(faults=["kill", "pause", "slow"]) == set()


def test_acks_1_permits_loss_when_a_leader_can_go():
    """acks=1 permits loss if a fault can remove a leader; a follower's lag does not."""
    assert permitted(acks="1", idempotence=False, faults=["kill"]) >= LOSS
    assert GONE.isdisjoint(permitted(acks="1", idempotence=False, faults=["lag"]))


def test_acks_0_promises_nothing():
    """acks=0 permits loss without any fault."""
    assert permitted(acks="0", idempotence=False) >= LOSS


def test_unclean_election_permits_loss_under_acks_all():
    """With unclean elections enabled, a fault permits loss under acks=all."""
    unclean = {"unclean.leader.election.enable": "true"}

    assert unclean_election(manifest(config=unclean), "orders")
    assert permitted(config=unclean, faults=["kill"]) == LOSS | READ_BEFORE
    assert permitted(config=unclean) == set()


def test_where_no_unclean_election_took_place_none_permits_anything():
    """If the controller's history shows no unclean election of the topic, enabling them permits nothing."""
    given = manifest(config={"unclean.leader.election.enable": "true"}, faults=["kill"])

    assert set(allowed(given, led_cleanly=["orders"])) == set()
    assert set(allowed(given, led_cleanly=["sales"])) == LOSS | READ_BEFORE


def test_a_loss_is_permitted_for_each_reason_that_may_hold():
    """A permission lists each cause that may have led to the loss."""

    def causes(anomaly, **settings):
        given = manifest(idempotence=False, faults=["kill"], **settings)
        return [each.cause for each in allowed_to(given, given.producers[0]).get(anomaly, ())]

    unclean = {"unclean.leader.election.enable": "true"}
    assert causes("lost_write", acks="0") == [Cause.NEVER_READ]
    assert causes("lost_write", acks="1") == [Cause.NEW_LEADER]
    assert causes("lost_write", acks="1", config=unclean) == [Cause.NEW_LEADER, Cause.UNCLEAN_LEADER]
    assert causes("nonrepeatable_read", acks="1", config=unclean) == [Cause.UNCLEAN_LEADER]
    assert causes("duplicate", acks="1") == [Cause.SENT_AGAIN]


def test_an_unclean_election_may_take_the_end_of_a_transaction():
    """With unclean elections, a transactional producer is also permitted aborted reads and hanging transactions."""
    unclean = {"unclean.leader.election.enable": "true"}
    ends = {"aborted_read", "hanging_transaction"}

    assert permitted(config=unclean, faults=["kill"], transaction_timeout_ms=20_000) == LOSS | READ_BEFORE | ends
    assert permitted(faults=["kill"], transaction_timeout_ms=20_000) == set()


def test_duplicates_need_retries_without_idempotence():
    """Retries without idempotence permit duplicates and reordering."""
    assert permitted(idempotence=False) == {"duplicate", "nonmonotonic_send"}
    assert permitted(idempotence=False, retries=0) == set()
    assert permitted(idempotence=True) == set()


@pytest.mark.parametrize(
    ("topic", "unclean"),
    [("orders", True), ("sales", False)],
)
def test_an_unclean_election_may_be_allowed_for_a_while(topic, unclean):
    """A ``configure`` step that enables unclean elections counts for its topic."""
    step = {"configure": {"topic": topic, "set": {"unclean.leader.election.enable": "true"}}}
    told = manifest(faults=["kill"]).model_copy(update={"scenario": {"phases": [{"one": [step]}]}})

    assert unclean_election(told, "orders") is unclean
    assert (set(allowed(told)) >= GONE) is unclean


@pytest.mark.parametrize(
    ("detail", "unclean"),
    [
        ({"who": "unclean", "refused": None, "unclean": ["orders-0"]}, True),
        ({"who": "unclean", "refused": "REQUEST_TIMED_OUT", "unclean": ["sales-0", "orders-0"]}, True),
        ({"who": "unclean", "refused": None, "unclean": []}, False),  # not needed
        ({"who": "unclean", "refused": "sales-0 has no replica", "unclean": ["orders-eu-0"]}, False),
        ({"who": "unclean", "refused": None}, True),  # an older format of the event
        ({"who": "unclean", "refused": "ELIGIBLE_LEADERS_NOT_AVAILABLE"}, False),
        ({"who": "preferred", "refused": None}, False),
    ],
)
def test_an_unclean_election_may_be_ordered(detail, unclean):
    """An ``elect: unclean`` step counts by its recorded result for the topic, not by being in the scenario."""
    scenario = {"phases": [{"one": [{"elect": {"who": "unclean"}}]}]}
    told = manifest(faults=["kill"]).model_copy(update={"scenario": scenario})
    events = [happened(1, "elected", step="elect", detail=detail)]

    assert unclean_election(told, "orders", events) is unclean
    assert (set(allowed(told, events)) >= GONE) is unclean
    assert set(allowed(told)) == set()


@pytest.mark.parametrize(
    ("step", "detail", "lost"),
    [
        ("wipe", {"last_copy_of": ["orders-0"]}, True),
        ("truncate", {"last_copy_of": ["orders-0"]}, True),
        ("wipe", {"last_copy_of": ["sales-0", "orders-1"]}, True),
        ("wipe", {"last_copy_of": ["sales-0", "orders-eu-0"]}, False),
        ("wipe", {"last_copy_of": []}, False),
        ("wipe", {"effect_verified": False}, True),
        ("flip_bit", {}, False),
    ],
)
def test_a_damaged_disk_excuses_loss_only_where_it_held_the_last_copy(step, detail, lost):
    """A damaged disk permits loss if it held the last copy of one of the topic's partitions, or if that is unknown."""
    events = [happened(1, "injected", step=step, detail=detail)]

    assert last_copy_lost(manifest(), events, "orders") is lost
    assert set(allowed(manifest(faults=["kill", step]), events)) == (
        LOSS | READ_BEFORE | {"bad_ack_offset"} if lost else set()
    )


def test_acks_1_may_lose_what_a_new_leader_lacks_however_it_came_to_lead():
    """acks=1 permits loss after any change of leader, also a preferred election; a changed setting is none."""
    told = {"acks": "1", "idempotence": False}
    elect = {"phases": [{"one": [{"elect": {"who": "preferred"}}]}]}

    assert set(allowed(manifest(**told).model_copy(update={"scenario": elect}))) >= GONE
    assert permitted(**told, faults=["churn_leadership"]) >= GONE
    assert GONE.isdisjoint(permitted(**told, faults=["configure", "throttle", "delete_records", "flip_bit"]))


def test_a_gate_between_the_versions_of_a_run_is_half_open():
    """With versions on both sides of a gate, ``sometimes`` is true and ``always`` false."""
    both = ["3.6.2", "3.7.0"]

    assert (always("strict_min_isr", both), sometimes("strict_min_isr", both)) == (False, True)
    assert (always("strict_min_isr", both[1:]), sometimes("strict_min_isr", both[1:])) == (True, True)
    assert (always("strict_min_isr", both[:1]), sometimes("strict_min_isr", both[:1])) == (False, False)


def test_an_upgrade_permits_what_either_version_does():
    """After an upgrade, permissions of every version of the run hold."""
    rolled = manifest(acks="1", idempotence=False, faults=["kill"], version="3.6.2")
    start = Incarnation(node="broker-1", incarnation=2, kafka_version="3.7.0", started_ns=1)

    assert "invisible_ack" not in allowed(rolled)
    assert "invisible_ack" in allowed(rolled.model_copy(update={"incarnations": [start]}))


def test_a_lost_copy_is_one_of_its_partition_from_where_the_file_was_cut():
    """A lost copy has partition, time of the proof and offset of the cut; an unproven one names its step."""
    cut = {"last_copy_of": ["orders-0"], "log_end_offset": 80}
    events = [happened(5, "injected", step="truncate", target="broker-1", detail=cut)]
    untold = [happened(5, "injected", step="wipe", target="broker-1", detail={"effect_verified": False})]

    assert lost_copies(manifest(), events, TopicPartition("orders", 0)) == [(5, 80, None)]
    assert lost_copies(manifest(), events, TopicPartition("orders", 1)) == []
    why = "wipe of broker-1 did not record the partitions whose last copy it took"
    assert lost_copies(manifest(), untold, TopicPartition("orders", 1)) == [(5, 0, why)]


def test_every_rule_names_a_cause_that_the_evidence_is_asked_for():
    """Every rule of permission has a cause that the evidence is checked for."""
    assert {rule.cause for rule in ALLOWED} == {Cause.NEW_LEADER, Cause.UNCLEAN_LEADER, Cause.LOST_COPY, *CAUSES}


def test_every_rule_has_a_reason():
    """Every permission has a reason."""
    assert all(allowed(manifest(acks="1", idempotence=False, faults=["kill"])).values())


def with_group(commit, acks, *steps):
    """Return the permissions of a run with a consumer group and these steps."""
    scenario = {"load": {"topic": "orders", "group": {"commit": commit}}, "phases": [{"one": list(steps)}]}
    told = manifest(acks=acks, idempotence=False, retries=0, faults=[next(iter(step)) for step in steps])
    return set(allowed(told.model_copy(update={"scenario": scenario})))


@pytest.mark.parametrize(
    ("commit", "steps", "permits"),
    [
        ("ahead", [{"kill": {"node": "member 2"}}], True),
        ("ahead", [{"pause": {"node": "members"}}], True),
        ("ahead", [{"kill": {"node": "leader of orders-0"}}], False),
        ("ahead", [], False),
        ("after", [{"kill": {"node": "member 2"}}], False),
    ],
)
def test_commits_ahead_of_processing_permit_a_skip_once_a_member_can_end(commit, steps, permits):
    """Commits ahead of processing permit skipped records if a member can end; commits after it never do."""
    assert ("group_skip" in with_group(commit, "all", *steps)) is permits


def test_a_members_end_takes_no_leader_away():
    """With acks=1, a killed member permits no loss; a killed broker does."""
    member, leader = {"kill": {"node": "member 2"}}, {"kill": {"node": "leader of orders-0"}}

    assert GONE.isdisjoint(with_group("after", "1", member))
    assert with_group("after", "1", member, leader) >= GONE


@pytest.mark.parametrize(("every", "permits"), [(500, True), (None, False)])
def test_members_that_release_records_permit_that_they_are_given_up(every, permits):
    """Members that release records permit archived records; the faults' permissions are decided per record."""
    scenario = {"load": {"topic": "orders", "group": {"protocol": "share", "release_every": every}}}
    told = manifest(faults=["kill"]).model_copy(update={"scenario": scenario})
    assert ("archived_record" in allowed(told)) is permits
