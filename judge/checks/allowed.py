"""Which anomalies a configuration and its faults permit, each with the reason. Written once; data."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from evidence.gather import NEW_LEADER, UNCLEAN_LEADER, Permission
from history.events import Event
from history.manifest import Manifest, ProducerInfo
from history.partition import TopicPartition
from history.traits import Trait
from judge.checks.gates import sometimes

LAST_COPY = "last_copy"  # records lost from the disk of the only member of an ISR that lived; see ``last_copy_lost``
LEADER: frozenset[str] = frozenset({Trait.MAY_MOVE_LEADER})
# What is gone gives its offset to other records, which then come late in real time and in their producer's order.
LOSS = (
    "lost_write",
    "truncated_ack",
    "unknown_offset_ack",
    "torn_transaction",
    "inconsistent_offset",
    "realtime_order_violation",
    "nonmonotonic_send",
)


@dataclass(frozen=True)
class Rule:
    """``anomalies`` are permitted to a producer with these settings in a run with a step of one of these
    traits.

    None is "any"; an empty set of traits needs none. Of the cases those that the ``cause`` may have brought about
    (``judge.checks.takeovers``).
    """

    anomalies: tuple[str, ...]
    why: str
    acks: frozenset[str] | None = None
    idempotence: bool | None = None
    unclean_election: bool | None = None
    strict_min_isr: bool | None = None
    transactional: bool | None = None
    offsets: str | None = None
    commit_ahead: bool | None = None
    releases: bool | None = None
    traits: frozenset[str] = frozenset()
    cause: str | None = None


ALLOWED = (
    Rule(
        LOSS,
        "acks=0 asks for no answer, so nothing was promised",
        acks=frozenset({"0"}),
    ),
    Rule(
        LOSS,
        "acks=1 promises the leader's copy only, and a fault took a leader away before its followers had one",
        acks=frozenset({"1"}),
        traits=LEADER,
        cause=NEW_LEADER,
    ),
    Rule(
        (*LOSS, "bad_ack_offset"),  # an empty log begins at 0 again
        "a fault destroyed the only copy in sync that there was",
        traits=frozenset({LAST_COPY}),
    ),
    Rule(
        ("nonrepeatable_read", "nonmonotonic_poll", "poll_skip"),
        "a fault destroyed the only copy in sync that there was, with records that consumers have read",
        traits=frozenset({LAST_COPY}),
    ),
    Rule(
        LOSS,
        "an unclean election lets a replica lead that lacks acknowledged records",
        unclean_election=True,
        traits=LEADER,
        cause=UNCLEAN_LEADER,
    ),
    Rule(
        ("nonrepeatable_read", "nonmonotonic_poll", "poll_skip"),
        "an unclean election takes records away that consumers have read, and they go back",
        unclean_election=True,
        traits=LEADER,
        cause=UNCLEAN_LEADER,
    ),
    Rule(
        ("aborted_read", "hanging_transaction"),
        "an unclean election takes the end of a transaction away, and a later one's end stands for it",
        unclean_election=True,
        transactional=True,
        traits=LEADER,
        cause=UNCLEAN_LEADER,
    ),
    Rule(
        ("duplicate",),
        "without idempotence a retry after a lost answer writes the record again",
        idempotence=False,
    ),
    Rule(
        ("duplicate_output",),
        "a copier that commits its offsets apart from its records copies again what it had not committed when it ended",
        offsets="apart",
    ),
    Rule(
        ("nonmonotonic_send",),
        "without idempotence a batch that is sent again may be overtaken by a later one",
        idempotence=False,
    ),
    Rule(
        ("group_skip",),
        "members commit what they have not processed yet, so that a fault takes it away: at most once",
        commit_ahead=True,
        traits=frozenset({Trait.STOPS_PROCESS}),
    ),
    Rule(
        ("archived_record",),
        "members of the share group release records at every delivery, so that it gives them up at its delivery limit",
        releases=True,
    ),
    Rule(
        ("invisible_ack",),
        "below min.insync.replicas the high watermark stands still (KIP-966), and acks below all do not wait for it",
        acks=frozenset({"0", "1"}),
        strict_min_isr=True,
        traits=LEADER | {Trait.HOLDS_BACK_FOLLOWER},
    ),
)


def last_copy_lost(manifest: Manifest, events: Iterable[Event], topic: str) -> bool:
    """Whether a fault took a topic's records off the disk of a replica without which no live member of the ISR was
    left.

    The step itself tells, having asked the brokers; where it could not, nobody knows of another copy.
    """
    lost = (event for event in events if event.kind == "injected" and manifest.has(event.step, Trait.LOSES_RECORDS))
    named = [event.detail.get("last_copy_of") for event in lost]
    return any(of is None or topic in {TopicPartition.parse(partition).topic for partition in of} for of in named)


def allowed_to(
    manifest: Manifest, producer: ProducerInfo, events: Iterable[Event] = (), led_cleanly: Collection[str] = ()
) -> dict[str, tuple[Permission, ...]]:
    """What this producer's configuration and the run's steps permit: anomaly → what permits it, at least one.

    ``led_cleanly`` are the topics in which no replica from outside the ISR led, as is known (``Premises``).
    """
    known = list(events)
    aimed = [(key, str(told.get("node", "")).startswith("member")) for key, told in manifest.steps]
    of_members = {key for key, at_member in aimed if at_member}
    of_brokers = {*manifest.faults, *(key for key, _ in aimed)} - (of_members - {key for key, at in aimed if not at})
    traits = _traits(manifest, of_brokers)
    if last_copy_lost(manifest, known, producer.topic):
        traits.add(LAST_COPY)
    unclean = producer.topic not in led_cleanly and unclean_election(manifest, producer.topic, known)
    found: dict[str, tuple[Permission, ...]] = {}
    for rule in ALLOWED:
        by = _traits(manifest, of_members) if rule.commit_ahead else traits
        if _applies(rule, manifest, producer, by, unclean):
            for anomaly in rule.anomalies:
                found[anomaly] = (*found.get(anomaly, ()), Permission(rule.why, rule.cause))
    return found


def _traits(manifest: Manifest, steps: Iterable[str]) -> set[str]:
    return {trait for step in steps for trait in manifest.traits.get(step, ())}


def _applies(rule: Rule, manifest: Manifest, producer: ProducerInfo, traits: set[str], unclean: bool) -> bool:
    if rule.idempotence is False and producer.retries == 0:  # what it permits comes of sending again
        return False
    strict = sometimes("strict_min_isr", manifest.kafka_versions)
    return (
        (rule.acks is None or producer.acks in rule.acks)
        and (rule.idempotence is None or producer.idempotence == rule.idempotence)
        and (rule.unclean_election is None or unclean == rule.unclean_election)
        and (rule.strict_min_isr is None or strict == rule.strict_min_isr)
        and (rule.transactional is None or (producer.transaction_timeout_ms is not None) == rule.transactional)
        and (rule.offsets is None or producer.offsets == rule.offsets)
        and (rule.commit_ahead is None or (manifest.group or {}).get("commit") == "ahead")
        and (rule.releases is None or bool((manifest.group or {}).get("release_every")) == rule.releases)
        and (not rule.traits or not rule.traits.isdisjoint(traits))
    )


def unclean_election(manifest: Manifest, topic: str, events: Iterable[Event] = ()) -> bool:
    """Whether a replica outside the ISR may have led this topic, by its settings at any time or by an operator's order
    that was not refused.
    """
    settings = manifest.topic_settings(topic, "unclean.leader.election.enable", "false")
    ordered = any(_elected_uncleanly(event, topic) for event in events if event.kind == "elected")
    return ordered or "true" in {value.lower() for value in settings}


def _elected_uncleanly(event: Event, topic: str) -> bool:
    """The event names the partitions of which no answer said that they were not elected; a run folder of an earlier
    date only whether something was refused.
    """
    named = event.detail.get("unclean")
    if named is None:
        return event.detail.get("who") == "unclean" and event.detail.get("refused") is None
    return topic in {TopicPartition.parse(partition).topic for partition in named}


def may_be_known_already(manifest: Manifest, producer: ProducerInfo) -> bool:
    """Whether a leader may be sent a batch again that it has, and of which it no longer knows the offset: one that
    began to lead, or started again, knows the last batch of each producer (KIP-98).
    """
    return producer.idempotence and producer.retries > 0 and not LEADER.isdisjoint(_traits(manifest, manifest.traits))


def allowed(manifest: Manifest, events: Iterable[Event] = (), led_cleanly: Collection[str] = ()) -> dict[str, str]:
    """What some producer of the run is permitted: anomaly → why. Of several reasons it names one."""
    known = list(events)
    found: dict[str, str] = {}
    for producer in manifest.producers:
        permitted = allowed_to(manifest, producer, known, led_cleanly)
        found |= {anomaly: permissions[0].why for anomaly, permissions in permitted.items()}
    return dict(sorted(found.items()))
