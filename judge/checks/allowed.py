"""The anomalies that a configuration and its faults permit.

``judge.checks.causes`` looks for each rule's cause in the evidence.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from evidence.facts import Cause, LostCopy, Permission
from history.anomalies import Truncation, with_truncation
from history.events import Event
from history.manifest import Manifest, ProducerInfo
from history.partition import TopicPartition
from history.traits import Trait
from judge.checks.gates import sometimes

LAST_COPY = "last_copy"  # see ``lost_copies``
LEADER: frozenset[str] = frozenset({Trait.MAY_MOVE_LEADER})
# Other records get the offsets of lost ones, against real-time and producer order.
LOSS = with_truncation(Truncation.RECORD_GONE, Truncation.OFFSET_REUSED)
REREAD = (*with_truncation(Truncation.READ_AGAIN), "nonmonotonic_poll")


@dataclass(frozen=True)
class Rule:
    """Permits ``anomalies`` to a producer with these values of settings, in a run with such a step.

    ``of_members``: the step must be aimed at members of the group.
    """

    anomalies: tuple[str, ...]
    why: str
    cause: Cause
    settings: Mapping[str, Collection[Any]] = field(default_factory=dict)
    traits: frozenset[str] = frozenset()
    of_members: bool = False


ALLOWED = (
    Rule(
        LOSS,
        "acks=0 asks for no answer, so nothing was promised of a record that no reader was given",
        Cause.NEVER_READ,
        settings={"acks": {"0"}},
    ),
    Rule(
        LOSS,
        "acks=1 promises the leader's copy only, and a fault took a leader away before its followers had one",
        Cause.NEW_LEADER,
        settings={"acks": {"1"}},
        traits=LEADER,
    ),
    Rule(
        (*LOSS, "bad_ack_offset"),  # an empty log begins at 0 again
        "a fault destroyed the only copy in sync that there was",
        Cause.LOST_COPY,
        traits=frozenset({LAST_COPY}),
    ),
    Rule(
        REREAD,
        "a fault destroyed the only copy in sync that there was, with records that consumers have read",
        Cause.LOST_COPY,
        traits=frozenset({LAST_COPY}),
    ),
    Rule(
        LOSS,
        "an unclean election lets a replica lead that lacks acknowledged records",
        Cause.UNCLEAN_LEADER,
        settings={"unclean_election": {True}},
        traits=LEADER,
    ),
    Rule(
        REREAD,
        "an unclean election takes records away that consumers have read, and they go back",
        Cause.UNCLEAN_LEADER,
        settings={"unclean_election": {True}},
        traits=LEADER,
    ),
    Rule(
        with_truncation(Truncation.MARKER_GONE),
        "an unclean election takes the end of a transaction away, and a later one's end stands for it",
        Cause.UNCLEAN_LEADER,
        settings={"unclean_election": {True}, "transactional": {True}},
        traits=LEADER,
    ),
    Rule(
        ("duplicate",),
        "without idempotence a retry after a lost answer writes the record again",
        Cause.SENT_AGAIN,
        settings={"resends": {True}},
    ),
    Rule(
        ("duplicate_output",),
        "a copier that commits its offsets apart from its records copies again what it had not committed when it ended",
        Cause.COPIER_RESUMED,
        settings={"offsets": {"apart"}},
    ),
    Rule(
        ("nonmonotonic_send",),
        "without idempotence a batch that is sent again may be overtaken by a later one",
        Cause.SENT_AGAIN,
        settings={"resends": {True}},
    ),
    Rule(
        ("group_skip",),
        "members commit what they have not processed yet, so that a fault takes it away: at most once",
        Cause.MEMBER_ENDED,
        settings={"commit": {"ahead"}},
        traits=frozenset({Trait.STOPS_PROCESS}),
        of_members=True,
    ),
    Rule(
        ("archived_record",),
        "members of the share group release records at every delivery, so that it gives them up at its delivery limit",
        Cause.RELEASED,
        settings={"releases": {True}},
    ),
    Rule(
        ("invisible_ack",),
        "below min.insync.replicas the high watermark stands still (KIP-966), and acks below all do not wait for it",
        Cause.SHORT_ISR,
        settings={"acks": {"0", "1"}, "strict_min_isr": {True}},
        traits=LEADER | {Trait.HOLDS_BACK_FOLLOWER},
    ),
)


def lost_copies(manifest: Manifest, events: Iterable[Event], where: TopicPartition) -> list[LostCopy]:
    """Return each fault that took records from a disk without another live ISR member.

    If the step could not query the brokers, this is unknown.
    """
    found = []
    for event in _lost_records(manifest, events):
        named = event.detail.get("last_copy_of")
        if named is None:
            why = f"{event.step} of {event.target or 'a broker'} did not record the partitions whose last copy it took"
            found.append(LostCopy(event.t_ns, unknown=why))
        elif str(where) in named:
            found.append(LostCopy(event.t_ns, event.detail.get("log_end_offset", 0)))
    return found


def last_copy_lost(manifest: Manifest, events: Iterable[Event], topic: str) -> bool:
    """Return whether a partition may have lost its last copy."""
    named = [event.detail.get("last_copy_of") for event in _lost_records(manifest, events)]
    return any(of is None or topic in {TopicPartition.parse(partition).topic for partition in of} for of in named)


def _lost_records(manifest: Manifest, events: Iterable[Event]) -> Iterator[Event]:
    return (event for event in events if event.kind == "injected" and manifest.has(event.step, Trait.LOSES_RECORDS))


def allowed_to(
    manifest: Manifest, producer: ProducerInfo, events: Iterable[Event] = (), led_cleanly: Collection[str] = ()
) -> dict[str, tuple[Permission, ...]]:
    """Return anomaly → permissions of a producer.

    ``led_cleanly`` are the topics without a leader from outside the ISR.
    """
    known = list(events)
    aimed = [(key, str(step.get("node", "")).startswith("member")) for key, step in manifest.steps]
    of_members = {key for key, at_member in aimed if at_member}
    of_brokers = {*manifest.faults, *(key for key, _ in aimed)} - (of_members - {key for key, at in aimed if not at})
    traits = _traits(manifest, of_brokers) | (LEADER if manifest.attached else set())  # others may move leaders
    if last_copy_lost(manifest, known, producer.topic):
        traits.add(LAST_COPY)
    unclean = producer.topic not in led_cleanly and unclean_election(manifest, producer.topic, known)
    settings = _settings(manifest, producer, unclean=unclean)
    found: dict[str, tuple[Permission, ...]] = {}
    for rule in ALLOWED:
        of_steps = _traits(manifest, of_members) if rule.of_members else traits
        configured = all(settings[name] in values for name, values in rule.settings.items())
        if configured and (not rule.traits or not rule.traits.isdisjoint(of_steps)):
            for anomaly in rule.anomalies:
                found[anomaly] = (*found.get(anomaly, ()), Permission(rule.why, rule.cause))
    return found


def _traits(manifest: Manifest, steps: Iterable[str]) -> set[str]:
    return {trait for step in steps for trait in manifest.traits.get(step, ())}


def _settings(manifest: Manifest, producer: ProducerInfo, *, unclean: bool) -> dict[str, Any]:
    group = manifest.group or {}
    return {
        "acks": producer.acks,
        "resends": producer.retries != 0 and not producer.idempotence,
        "unclean_election": unclean,
        "strict_min_isr": sometimes("strict_min_isr", manifest.kafka_versions),
        "transactional": producer.transaction_timeout_ms is not None,
        "offsets": producer.offsets,
        "commit": group.get("commit"),
        "releases": bool(group.get("release_every")),
    }


def unclean_election(manifest: Manifest, topic: str, events: Iterable[Event] = ()) -> bool:
    """Return whether a replica outside the ISR may have led a topic."""
    settings = manifest.topic_settings(topic, "unclean.leader.election.enable", "false")
    ordered = any(_elected_uncleanly(event, topic) for event in events if event.kind == "elected")
    return ordered or "true" in {value.lower() for value in settings}


def _elected_uncleanly(event: Event, topic: str) -> bool:
    """Return whether an operator may have elected uncleanly in a topic.

    The event lists partitions without an answer that excludes it.
    """
    named = event.detail.get("unclean")
    if named is None:
        return event.detail.get("who") == "unclean" and event.detail.get("refused") is None
    return topic in {TopicPartition.parse(partition).topic for partition in named}


def may_be_known_already(manifest: Manifest, producer: ProducerInfo) -> bool:
    """Return whether a leader may receive a batch that it has, without knowing its offset.

    After an election it knows only each producer's last batch (KIP-98).
    """
    moved = manifest.attached or not LEADER.isdisjoint(_traits(manifest, manifest.traits))
    return producer.idempotence and producer.retries > 0 and moved


def allowed(manifest: Manifest, events: Iterable[Event] = (), led_cleanly: Collection[str] = ()) -> dict[str, str]:
    """Return anomaly → one reason, for what some producer is permitted."""
    known = list(events)
    found: dict[str, str] = {}
    for producer in manifest.producers:
        permitted = allowed_to(manifest, producer, known, led_cleanly)
        found |= {anomaly: permissions[0].why for anomaly, permissions in permitted.items()}
    return dict(sorted(found.items()))
