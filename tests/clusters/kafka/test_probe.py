"""Conclusions from one or two responses about a replica."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from clusters.kafka.probe import BrokerProbe, probe_all
from history.partition import TopicPartition

T0 = TopicPartition("t", 0)


@dataclass
class FakeReplica:
    """A replica at its broker: ascending epoch cache of (epoch, start offset); ``current`` is the leader epoch."""

    cache: list[tuple[int, int]]
    current: int
    log_end: int
    high_watermark: int = 0
    error: int = 0
    versions: list[int] = field(default_factory=list)
    before_second: Any = None  # called between two pipelined requests

    def exchange(self, requests: list[Any], _decode: Any = None) -> list[Any]:
        answers = []
        for number, request in enumerate(requests):
            if number == 1 and self.before_second:
                self.before_second(self)
            answers.append(self.send(request))
        return answers

    def send(self, request: Any) -> Any:
        self.versions.append(request.API_VERSION)
        request.encode()
        if request.API_VERSION == 5:
            listed = SimpleNamespace(
                partition_index=0, error_code=self.error, offset=self.log_end, leader_epoch=self.current
            )
            return SimpleNamespace(topics=[SimpleNamespace(name="t", partitions=[listed])])
        asked = request.topics[0].partitions[0]
        code = self.error or (asked.current_leader_epoch < self.current and 74) or 0
        end = None
        if not code and request.API_VERSION == 12:
            end = self.end_of(asked.last_fetched_epoch)
            code = 0 if end is not None else 1
        answer = SimpleNamespace(
            partition_index=0,
            error_code=code,
            high_watermark=self.high_watermark,
            log_start_offset=0,
            last_stable_offset=-1,
            diverging_epoch=SimpleNamespace(end_offset=end) if end is not None else None,
        )
        return SimpleNamespace(error_code=0, responses=[SimpleNamespace(topic="t", partitions=[answer])])

    def end_of(self, epoch: int) -> int | None:
        """Return the start of the next cached epoch, the log end for the newest, or None beyond it."""
        later = [start for cached, start in self.cache if cached > epoch]
        if later:
            return later[0]
        return self.log_end if any(cached == epoch for cached, _ in self.cache) else None


def ends(replica: FakeReplica, rounds: int = 1, probe: BrokerProbe | None = None) -> list[tuple[int | None, Any]]:
    """Return (log end offset, single reply) of each sample in this many rounds."""
    probe = probe or BrokerProbe(replica, {T0})  # type: ignore[arg-type]  # it has the two methods that are used
    return [(sample.log_end_offset, sample.single_reply) for _ in range(rounds) for sample in probe.sample()]


def test_second_round_is_one_reply() -> None:
    """The first round learns the epoch by ListOffsets; later rounds get both offsets from one Fetch v12."""
    replica = FakeReplica(cache=[(4, 0)], current=4, log_end=10)

    assert ends(replica, 3) == [(10, False), (10, True), (10, True)]
    assert replica.versions == [5, 11, 12, 12]


def test_cached_epoch_older_than_the_current_one() -> None:
    """If a follower has no batch of the new epoch yet, its older epoch counts once the newer is shown to be absent."""
    replica = FakeReplica(cache=[(3, 0)], current=4, log_end=10)

    assert ends(replica, 3) == [(10, False), (10, False), (10, True)]


def test_end_of_an_older_epoch_is_no_log_end() -> None:
    """When the new epoch's first batch arrives, the end of the old epoch (10) is not taken for the log end (12)."""
    replica = FakeReplica(cache=[(3, 0)], current=4, log_end=10)
    probe = BrokerProbe(replica, {T0})  # type: ignore[arg-type]  # it has the two methods that are used
    ends(replica, 3, probe)
    replica.cache, replica.log_end = [(3, 0), (4, 10)], 12

    assert ends(replica, 2, probe) == [(12, True), (12, True)]


def test_batch_of_an_epoch_between_arrives_between_two_requests() -> None:
    """If a batch of another epoch arrives between the two requests, the log end is read by a plain request."""
    replica = FakeReplica(cache=[(2, 0)], current=5, log_end=10)
    probe = BrokerProbe(replica, {T0})  # type: ignore[arg-type]  # it has the two methods that are used
    assert ends(replica, 5, probe)[-1] == (10, True)

    def append(replica: FakeReplica) -> None:
        replica.cache, replica.log_end, replica.before_second = [(2, 0), (3, 10)], 15, None

    replica.before_second = append

    assert ends(replica, 2, probe) == [(15, False), (15, True)]


def test_new_leader_epoch_is_learned_in_the_same_round() -> None:
    """A fenced epoch (74) is replaced in the same round."""
    replica = FakeReplica(cache=[(4, 0)], current=4, log_end=10)
    probe = BrokerProbe(replica, {T0})  # type: ignore[arg-type]  # it has the two methods that are used
    ends(replica, 2, probe)
    replica.current = 5

    samples = [*probe.sample(), *probe.sample()]

    assert [(s.leader_epoch, s.log_end_offset, s.single_reply) for s in samples] == [(5, 10, False), (5, 10, True)]


def test_empty_log_has_zeros_in_two_replies() -> None:
    """A follower with an empty log has no epoch and still yields its offsets, with two replies."""
    assert ends(FakeReplica(cache=[], current=0, log_end=0), 4) == [(0, False)] * 4


def test_a_log_without_an_epoch_is_no_sample() -> None:
    """A log whose leader epoch is unknown yields an error, as after a broker's start in ZooKeeper mode."""
    replica = FakeReplica(cache=[], current=-1, log_end=9)
    probe = BrokerProbe(replica, {T0})  # type: ignore[arg-type]  # it has the two methods that are used
    (sample,) = probe.sample()

    assert (sample.error, sample.leader_epoch, sample.log_end_offset) == ("UNKNOWN_LEADER_EPOCH", None, None)
    replica.current = 0
    assert ends(replica, 1, probe) == [(9, False)]


def test_absent_replica_is_an_error_without_values() -> None:
    """A broker without the replica yields its error and no values."""
    replica = FakeReplica(cache=[], current=0, log_end=9, error=6)
    (sample,) = BrokerProbe(replica, {T0}).sample()  # type: ignore[arg-type]  # it has the two methods that are used

    assert (
        sample.error,
        sample.leader_epoch,
        sample.high_watermark,
        sample.log_end_offset,
    ) == ("NOT_LEADER_OR_FOLLOWER", None, None, None)


def test_one_shot_probe_walks_to_a_single_reply() -> None:
    """A single probe repeats its requests until it finds the replica's cached epoch."""
    replica = FakeReplica(cache=[(1, 0)], current=4, log_end=10, high_watermark=8)
    (sample,) = probe_all(replica, [T0])  # type: ignore[arg-type]  # it has the two methods that are used

    assert (
        sample.single_reply,
        sample.leader_epoch,
        sample.high_watermark,
        sample.log_end_offset,
        sample.last_stable_offset,
    ) == (True, 4, 8, 10, None)
