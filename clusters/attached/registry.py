"""Record which topics of a cluster are a run's own, in a compacted topic on that cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime

from kafka.record import MemoryRecords
from pydantic import BaseModel, ConfigDict, ValidationError

from clusters.attached.queries import AnyBroker, Connect, NoBroker
from clusters.kafka.admin import create_topic, describe_config
from clusters.kafka.connection import NOT_AUTHORIZED, Connection
from clusters.kafka.fetching import CONSUMER, read_batches
from clusters.kafka.offsets import LATEST, list_offset
from clusters.kafka.producing import produce
from clusters.kafka.views import ClusterView, metadata, topic_ids
from clusters.waiting import wait_until
from history.errors import BadInput, HarnessError, NoController, Refused
from history.partition import TopicPartition

LIMIT_S = 30.0
READ_BYTES = 1 << 20
MOST_REPLICAS = 3
NO_IDS = "Topics of this cluster have no ids; raise inter.broker.protocol.version to 2.8 or later."


class Owner(BaseModel):
    """The run that creates a topic; ``run`` is its folder."""

    model_config = ConfigDict(frozen=True)
    run: str
    host: str
    boot_id: str


class Entry(Owner):
    """A registered topic; ``topic_id`` is None until it is created, ``at`` is the time of the intent."""

    topic: str
    topic_id: str | None = None
    at: str


class Registry:
    """The topic ``<prefix>registry``: topic → entry, the latest record of each key.

    Intent, creation, id, in this order: whatever is killed in between leaves an entry for each topic that may exist.
    """

    def __init__(self, connect: Connect, brokers: Iterable[int], prefix: str) -> None:
        self.topic = f"{prefix}registry"
        self._prefix, self._connect = prefix, connect
        self._any = AnyBroker(connect, brokers)

    def ensure(self) -> None:
        """Create the registry unless it exists; raise BadInput if topics have no ids, or it is not compacted."""
        ids = self._ids(None)
        if None in ids.values():
            raise BadInput(NO_IDS)
        if self.topic not in ids:
            try:
                self._create()
            except Refused as error:  # another run was faster, or this broker does not know it yet
                if "TOPIC_ALREADY_EXISTS" not in str(error):
                    raise
        wait_until(self._has_leader, limit_s=LIMIT_S, what=f"a leader of {self.topic}")
        if self._ids([self.topic]).get(self.topic) is None:
            raise BadInput(f"{NO_IDS} The empty topic {self.topic} stays.")
        self._check_policy()

    def entries(self) -> dict[str, Entry]:
        """Return the entries by topic, none without a registry."""
        (entries,) = wait_until(
            lambda: (dict(self._read()),),
            limit_s=LIMIT_S,
            what=f"the records of {self.topic}",
            ignoring=(OSError, NoBroker),
        )
        return {topic: entry for topic, entry in entries.items() if entry}

    def intend(self, topic: str, run: Owner) -> None:
        """Register the intent to create a topic; raise BadInput if the name has another prefix, or is taken."""
        if not topic.startswith(self._prefix) or topic == self.topic:
            raise BadInput(f"The topic {topic} must have the prefix {self._prefix}, and not be {self.topic}.")
        if topic in self._ids([topic]):
            raise BadInput(f"The topic {topic} exists already, and is left alone; start the run again.")
        if other := self.entries().get(topic):
            raise BadInput(f"The topic {topic} is registered for {_named(other)}; start the run again.")
        at = datetime.now(UTC).isoformat()
        self._write(topic, Entry(topic=topic, at=at, **run.model_dump()))

    def register(self, topic: str, topic_id: str) -> None:
        """Register a created topic's id; raise HarnessError if the intent is missing, or another id is registered."""
        entry = self.entries().get(topic)
        if entry is None or entry.topic_id not in (None, topic_id):
            raise HarnessError(f"The topic {topic} was not registered for creation in {self.topic}.")
        self._write(topic, entry.model_copy(update={"topic_id": topic_id}))

    def forget(self, topic: str) -> None:
        self._write(topic, None)

    def check(self, topics: Iterable[str], entries: Mapping[str, Entry] | None = None) -> None:
        """Raise HarnessError unless the cluster's topics are the registered ones; ``entries`` are known from before."""
        names = list(topics)
        registered, ids = self.entries() if entries is None else entries, self._ids(names)
        for topic in names:
            self._check_one(topic, registered.get(topic), ids.get(topic))

    def _check_one(self, topic: str, entry: Entry | None, topic_id: str | None) -> None:
        if entry is None:
            raise HarnessError(f"The topic {topic} is not registered in {self.topic}, and is left alone.")
        if topic_id is None:
            raise HarnessError(f"The topic {topic} of {_named(entry)} does not exist.")
        if topic_id != entry.topic_id:
            registered = f"{entry.topic_id} is" if entry.topic_id else "none is"
            raise HarnessError(
                f"The topic {topic} has id {topic_id}, but {registered} registered for {_named(entry)}; "
                "it is left alone."
            )

    def _ids(self, topics: list[str] | None) -> dict[str, str | None]:
        return self._any.query(lambda connection: topic_ids(connection, topics))

    def _view(self) -> ClusterView:
        return self._any.query(lambda connection: metadata(connection, [self.topic]))

    def _has_leader(self) -> bool:
        return any(part.leader >= 0 for part in self._view().partitions)

    def _create(self) -> None:
        view = self._view()
        replicas = sorted(view.brokers)[:MOST_REPLICAS]
        config = {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "min.insync.replicas": str(max(len(replicas) - 1, 1)),
        }
        if view.controller_id not in view.brokers:
            raise NoController(f"The brokers {sorted(view.brokers)} know of no controller.")
        with self._connect(view.controller_id) as connection:
            connection.forwards_to_controller = True  # it is the controller, or a KRaft broker
            create_topic(connection, self.topic, {0: replicas}, config)

    def _check_policy(self) -> None:
        setting = "cleanup.policy"
        try:
            found = self._any.query(lambda connection: describe_config(connection, "topic", self.topic, [setting]))
        except Refused as error:
            raise BadInput(f"{error} The user needs DescribeConfigs on {self.topic}.") from error
        policy = next(iter(found[setting].values()))
        if policy != "compact":
            raise BadInput(
                f"The topic {self.topic} is not Plimsoll's: its cleanup.policy is {policy}, not compact; "
                "choose another topics.prefix."
            )

    def _at_leader(self) -> Connection | None:
        """Return a connection to the registry's leader, or None without a registry."""
        partitions = self._view().partitions
        if not partitions:
            return None
        if partitions[0].leader < 0:
            raise ConnectionAbortedError(f"{self.topic} has no leader")
        return self._connect(partitions[0].leader)

    def _read(self) -> Iterator[tuple[str, Entry | None]]:
        where, offset = TopicPartition(self.topic, 0), 0
        connection = self._at_leader()
        if connection is None:
            return
        with connection:
            # A new leader answers once it knows all acknowledged records (KIP-207).
            if error := list_offset(connection, self.topic, 0, LATEST, CONSUMER).error:
                raise ConnectionAbortedError(f"no end of {where}: {error}")
            while batches := list(MemoryRecords(read_batches(connection, where, offset, READ_BYTES))):
                for batch in batches:
                    offset = batch.next_offset
                    for record in batch:
                        yield bytes(record.key or b"").decode(errors="replace"), self._entry(record.value)

    def _entry(self, value: bytes | None) -> Entry | None:
        try:
            return Entry.model_validate_json(value) if value else None
        except ValidationError as error:
            raise HarnessError(f"{self.topic} has a record that Plimsoll did not write: {value!r:.80}.") from error

    def _write(self, topic: str, entry: Entry | None) -> None:
        value = entry.model_dump_json().encode() if entry else None
        wait_until(
            lambda: self._was_written(topic, value),
            limit_s=LIMIT_S,
            what=f"the write of {topic} to {self.topic}",
            ignoring=(OSError, NoBroker),
        )

    def _was_written(self, topic: str, value: bytes | None) -> bool:
        connection = self._at_leader()
        if connection is None:
            raise HarnessError(f"The topic {self.topic} does not exist; it was deleted by somebody else.")
        with connection:
            (produced,) = produce(connection, self.topic, 0, [[value]], "all", key=topic.encode())
        if produced.error == NOT_AUTHORIZED:
            raise Refused(f"Could not write to {self.topic}: {produced.error}.")
        if produced.error:
            raise ConnectionAbortedError(produced.error)
        return True


def _named(entry: Entry) -> str:
    return f"run {entry.run} of host {entry.host}"
