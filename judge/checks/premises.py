"""Derive what checks may assume."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

from evidence.facts import FOREVER_NS, MARKERS_NS, SETTLE_NS, BrokerStop, Input, NewLog, Outage, Row
from evidence.faults import FaultSpan
from evidence.run import Run
from history.manifest import Manifest
from history.partition import TopicPartition
from history.share_groups import STATE_TOPIC
from history.traits import Trait
from judge.checks import delivery
from judge.checks.allowed import lost_copies, unclean_election
from judge.checks.gates import always, sometimes
from judge.checks.leader_changes import is_unclean, is_whole

ISR_CHANGE_MARGIN_NS = 10_000_000_000  # to find the controller, and for its answer on a busy host
COSTS_ANSWERS = (
    Trait.STOPS_PROCESS,
    Trait.UNREACHABLE,
    Trait.MAY_BE_UNREACHABLE,
    Trait.MAY_MOVE_LEADER,
    Trait.SILENCES_PROBE,
)
GROUP_TOPICS = ("__consumer_offsets", STATE_TOPIC)  # committed offsets and share groups' state


@dataclass(frozen=True)
class Premises:
    """Conclusions about a partition or run."""

    run: Run

    @property
    def manifest(self) -> Manifest:
        return self.run.manifest

    def required_from(self, where: TopicPartition) -> dict[int, int]:
        """Return from which offset each replica must hold records: each applies retention by itself."""
        replicas = self.run.replicas.get(where, ()) if self.run.expires(where.topic) else ()
        return {replica.broker_id: replica.log_start_offset or 0 for replica in replicas}

    def starts(self, where: TopicPartition) -> dict[int, int]:
        """Return each epoch's start; a replica's file may have a later one, never an earlier one.

        A deletion moves the entry at the log's start, so log lines have it.
        """
        replicas = self.run.replicas.get(where, ())
        found: dict[int, int] = {}
        for replica in replicas:
            for epoch, start in replica.epochs or ():
                if start > (replica.log_start_offset or -1):
                    found[epoch] = min(start, found.get(epoch, start))
        if any(replica.log_start_offset for replica in replicas):
            for line in self._begun.get(where, ()):
                found.setdefault(line["leader_epoch"], line["log_end_offset"])
        return found

    @cached_property
    def _begun(self) -> dict[TopicPartition, list[Row]]:
        return by_partition(line for line in self.run.lines if line["kind"] == "leader_started")

    def final(self, where: TopicPartition) -> int | None:
        history = self.run.states.get(where)
        if history and history[-1].leader >= 0:
            return history[-1].leader
        known = [replica for replica in self.run.replicas.get(where, ()) if replica.high_watermark is not None]
        return max(known, key=lambda replica: replica.high_watermark or 0).broker_id if known else None

    def clean(self, where: TopicPartition) -> bool:
        """Return whether committed records must survive."""
        known = where.topic in self.manifest.topics
        return known and not self._unclean(where) and not lost_copies(self.manifest, self.run.events, where)

    def _unclean(self, where: TopicPartition) -> bool:
        """Return whether a replica from outside the ISR may have led."""
        if not unclean_election(self.manifest, where.topic, self.run.events):
            return False
        return self._led_from_outside(where) or not self._covers_elections(where)

    def _led_from_outside(self, where: TopicPartition) -> bool:
        return any(is_unclean(before, after) for before, after in pairwise(self.run.states.get(where, ())))

    def _covers_elections(self, where: TopicPartition) -> bool:
        """Return whether the history covers every leader epoch that is known."""
        epochs = {epoch for each in self.run.replicas.get(where, ()) for epoch, _ in each.epochs or ()}
        epochs |= {line["leader_epoch"] for line in self._begun.get(where, ())}
        return is_whole(self.run.states.get(where, ()), epochs)

    def unproven_elections(self) -> Iterator[str]:
        """Yield a sentence per partition where an unclean leader is possible but unproven.

        Checks that rest on committed records are not made there.
        """
        for where in self.run.partitions if self.run.requires_history else ():
            enabled = unclean_election(self.manifest, where.topic, self.run.events)
            if enabled and not self._covers_elections(where) and not self._led_from_outside(where):
                yield f"Whether a replica from outside the ISR led {where} is unknown: its history is not whole."

    @cached_property
    def led_cleanly(self) -> frozenset[str]:
        unclean = {where.topic for where in self.run.partitions if self._unclean(where)}
        return frozenset(self.manifest.topics) - unclean

    def of_input(self, read: Input | None) -> Input | None:
        if read is None:
            return None
        where = read.where
        return read._replace(
            deleted_before=self.deleted.get(where, 0), clean=self.clean(where), kept=self.kept(where.topic)
        )

    @property
    def keeps_offsets(self) -> bool:
        """Return whether committed offsets must survive."""
        steps = {*self.manifest.faults, *(key for key, _ in self.manifest.steps)}
        lost = any(self.manifest.has(step, Trait.LOSES_RECORDS) for step in steps)
        return not lost and not any(unclean_election(self.manifest, topic, self.run.events) for topic in GROUP_TOPICS)

    @cached_property
    def _of_run(self) -> dict[str, Any]:
        faults, manifest = self.run.faults, self.manifest
        return {
            "stops": list(broker_stops(faults, manifest)),
            "outages": list(outages(faults, manifest)),
            "new_logs": list(new_logs(faults, manifest)),
            "max_isr_lag_ns": max_isr_lag_ns(manifest),
            "stale_controller_ns": stale_controller_ns(manifest),
            "isr_change_limit_ns": _controller_socket_timeout_ns(manifest) + ISR_CHANGE_MARGIN_NS,
            "strict_min_isr": always("strict_min_isr", manifest.kafka_versions),
            "lax_min_isr": not sometimes("strict_min_isr", manifest.kafka_versions),
        }

    def kept(self, topic: str) -> bool:
        return self.manifest.topic_settings(topic, "cleanup.policy", "delete") == {"delete"}

    def expires(self, topic: str) -> bool:
        policies = self.manifest.topic_settings(topic, "cleanup.policy", "delete")
        return self.run.expires(topic) and any("delete" in policy for policy in policies)

    def tombstones_stay_ns(self, topic: str) -> int:
        return min(map(int, self.manifest.topic_settings(topic, "delete.retention.ms", "86400000"))) * 1_000_000

    @cached_property
    def deleted(self) -> dict[TopicPartition, int]:
        """Return the offset below which each partition's records may have been deleted.

        After retention or an unproven request, the last leader's log start, or the largest of any.
        """
        found = delivery.deleted(self.run.events)
        unproven = delivery.unproven(self.manifest, self.run.events)
        for end in self.run.captures:
            where = TopicPartition.of(end)
            history = self.run.states.get(where)
            last = end["capture"] == "after" and (not history or end["broker_id"] == history[-1].leader)
            if last and end["log_start_offset"] and (where in unproven or self.run.expires(where.topic)):
                found[where] = max(found.get(where, 0), end["log_start_offset"])
        return found

    def effective_min_isrs(self, where: TopicPartition) -> list[int]:
        """Return min(min.insync.replicas, replicas) of each setting, with the most replicas."""
        created = len(self.manifest.topics[where.topic].assignment.get(where.partition, [])) or 1
        replicas = max([created, *(len(state.replicas) for state in self.run.states.get(where, ()))])
        settings = self.manifest.topic_settings(where.topic, "min.insync.replicas", "1")
        return [min(int(value), replicas) for value in settings]

    def of_replicas(self, where: TopicPartition) -> dict[str, Any]:
        effective_min_isrs = self.effective_min_isrs(where)
        return {
            **self._of_run,
            "states": self.run.states.get(where, ()),
            "starts": self.starts(where),
            "lost_copies": lost_copies(self.manifest, self.run.events, where),
            "effective_min_isr": max(effective_min_isrs),
            "lowest_min_isr": min(effective_min_isrs),
        }


def by_partition(rows: Iterable[Row]) -> dict[TopicPartition, list[Row]]:
    """Group rows by partition."""
    found: dict[TopicPartition, list[Row]] = {}
    for row in rows:
        found.setdefault(TopicPartition.of(row), []).append(row)
    return found


def max_isr_lag_ns(manifest: Manifest) -> int:
    """Return an ISR member's longest lag."""
    lags = [int(node.config.get("replica.lag.time.max.ms", "30000")) for node in manifest.brokers] or [30_000]
    sessions = [int(n.config.get("zookeeper.session.timeout.ms", "18000")) for n in manifest.brokers] or [18_000]
    # A stopped follower may have been ZooKeeper's controller.
    return max(lags) * 1_500_000 + (max(sessions) * 1_000_000 if manifest.mode == "zookeeper" else 0)


def stale_controller_ns(manifest: Manifest) -> int:
    """Return how long a broker may wait for one that it takes for ZooKeeper's controller."""
    if manifest.mode != "zookeeper":
        return 0
    return _controller_socket_timeout_ns(manifest)


def _controller_socket_timeout_ns(manifest: Manifest) -> int:
    timeouts = (int(node.config.get("controller.socket.timeout.ms", "30000")) for node in manifest.brokers)
    return max(timeouts, default=30_000) * 1_000_000


def active_faults(faults: Iterable[FaultSpan]) -> list[tuple[int, int]]:
    """Return when each fault was active, until verified recovery."""
    return [(fault.from_ns, fault.at_ns("healed")) for fault in faults]


def transactional(manifest: Manifest) -> bool:
    """Return whether a run may have transactions."""
    return manifest.foreign or any(producer.transaction_timeout_ms for producer in manifest.producers)


def transaction_limit_ns(manifest: Manifest) -> int:
    """Return how long a transaction may be open without a fault (KIP-98)."""
    interval = "transaction.abort.timed.out.transaction.cleanup.interval.ms"
    intervals = [int(node.config.get(interval, "10000")) for node in manifest.brokers] or [10_000]
    timeouts = [producer.transaction_timeout_ms or 0 for producer in manifest.producers] or [0]
    return (max(timeouts) + max(intervals)) * 1_000_000 + MARKERS_NS


def broker_stops(faults: Iterable[FaultSpan], manifest: Manifest) -> Iterator[BrokerStop]:
    """Yield the proven stops of brokers."""
    broker_ids = {node.name: node.node_id for node in manifest.brokers}
    for fault in faults:
        if not (fault.took_effect and manifest.has(fault.step, Trait.STOPS_PROCESS)):
            continue
        effect_ns, healed_ns = fault.at_ns("injected"), fault.at_ns("healed")
        for name in fault.nodes:
            broker_id = broker_ids.get(name)
            if broker_id is not None:
                started = (start.started_ns for start in manifest.incarnations if start.node == name)
                anew_ns = min((t_ns for t_ns in started if t_ns > effect_ns), default=FOREVER_NS)
                until_ns = min(fault.at_ns("heal"), healed_ns, anew_ns)
                yield BrokerStop(broker_id, fault.from_ns, effect_ns, until_ns, anew_ns < healed_ns)


def disturbances(faults: Iterable[FaultSpan], manifest: Manifest) -> list[tuple[int, int]]:
    """Return when a fault may have cost a producer an answer.

    Group members', copiers', files' and settings' faults do not.
    """
    servers = {node.name for node in manifest.nodes}
    costly = [fault for fault in faults if manifest.has(fault.step, *COSTS_ANSWERS)]
    return [
        (fault.from_ns, min(fault.at_ns("healed"), FOREVER_NS - SETTLE_NS) + SETTLE_NS)
        for fault in costly
        if not fault.nodes or not servers.isdisjoint(fault.nodes)
    ]


def request_timeouts_ns(manifest: Manifest) -> dict[str, int]:
    """Return producer → its client's request timeout, if known."""
    timeouts = {name: load.get("request_timeout") for name, load in manifest.loads.items()}
    timed = ((each.producer_id, timeouts.get(each.load or "")) for each in manifest.producers)
    return {name: int(timeout_s * 1e9) for name, timeout_s in timed if timeout_s is not None}


def outages(faults: Iterable[FaultSpan], manifest: Manifest) -> Iterator[Outage]:
    """Yield faults that keep a node from others, until verified recovery."""
    numbers = {node.name: node.node_id if node.role == "broker" else None for node in manifest.nodes}
    for fault in faults:
        if manifest.has(fault.step, Trait.UNREACHABLE, Trait.MAY_BE_UNREACHABLE):
            for name in fault.nodes:
                if name in numbers:
                    yield Outage(numbers[name], fault.from_ns, fault.at_ns("healed"))


def new_logs(faults: Iterable[FaultSpan], manifest: Manifest) -> Iterator[NewLog]:
    """Yield when a replica started over: after a reassignment, or with damaged files."""
    broker_ids = {node.name: node.node_id for node in manifest.brokers}
    for fault in faults:
        if manifest.has(fault.step, Trait.MOVES_REPLICAS):
            for order in ("inject", "heal"):
                if order in fault.events:
                    yield from (NewLog(None, fault.at_ns(order), topic) for topic in _moved(fault))
        elif manifest.has(fault.step, Trait.NEW_LOG):
            yield from (NewLog(broker_ids.get(name), fault.from_ns) for name in fault.nodes)


def _moved(fault: FaultSpan) -> list[str | None]:
    """Return the topics that a reassignment moved; [None] without proof."""
    proofs = [fault.events[kind].detail.get("replicas", {}) for kind in ("injected", "healed") if kind in fault.events]
    if not proofs or not all(proofs):
        return [None]
    return [*sorted({TopicPartition.parse(partition).topic for proof in proofs for partition in proof})]
