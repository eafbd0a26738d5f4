"""Readers and leaders of old epochs (KIP-320), over real sockets against scripted brokers."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from clusters.clients import consumer, drain
from clusters.clients.configs import ConsumerConfig, DrainConfig
from clusters.waiting import wait_until
from history.streams import read_stream
from tests.clusters.clients.staged_brokers import TOPIC, Broker, brokers


def rows(folder: Path, stream: str) -> list[dict[str, Any]]:
    """Return the rows that a client wrote."""
    return [row for found in read_stream(folder / f"{stream}.arrow") for row in found.to_pylist()]


def offsets(folder: Path, client: str = "consumer") -> list[int]:
    """Return the offsets that a client read, in its order."""
    return [row["offset"] for row in sorted(rows(folder, f"polls-{client}"), key=lambda row: row["position"])]


@contextmanager
def reading(folder: Path, *staged: Broker) -> Iterator[None]:
    """Run the live consumer meanwhile."""
    stop = threading.Event()
    with brokers(*staged) as cluster:
        config = ConsumerConfig(
            client_id="consumer",
            out=str(folder),
            summary=str(folder / "consumer.json"),
            bootstrap=cluster.bootstrap,
            topics={TOPIC: 1},
        )
        client = threading.Thread(target=consumer.run, args=(config, stop), daemon=True)
        client.start()
        try:
            yield
        finally:
            stop.set()
            client.join(10)


def until(condition: Any, what: str) -> None:
    """Wait for a state of a broker."""
    wait_until(condition, limit_s=15, what=what)


def stale_and_newest() -> tuple[Broker, Broker]:
    """Broker 1 was cut off as leader of epoch 0; broker 2 leads in epoch 1 and has newer records."""
    return Broker(1, leader=1, epoch=0, log=[0] * 10), Broker(2, leader=2, epoch=1, log=[0] * 10 + [1] * 10)


def test_a_leader_of_an_older_epoch_moves_nobody(tmp_path: Path) -> None:
    """The consumer keeps reading from broker 2 when broker 1 returns older metadata."""
    stale, newest = stale_and_newest()
    stale.leader, stale.epoch = 2, 1
    with reading(tmp_path, stale, newest):
        until(lambda: newest.fetched_from == 20, "the consumer to be at 20")
        stale.leader, stale.epoch = 1, 0
        answered = stale.answered["Metadata"]
        until(lambda: stale.answered["Metadata"] > answered + 3, "old metadata")
        newest.log.append(1)
        until(lambda: newest.fetched_from == 21, "the consumer to be at 21")

    assert offsets(tmp_path) == list(range(21))
    assert rows(tmp_path, "seeks-consumer") == []


def test_a_log_that_was_cut_is_read_on_from_where_it_was_cut(tmp_path: Path) -> None:
    """If the newest leader lacks records that were read (unclean election), the consumer seeks back and records it."""
    former, newest = Broker(1, leader=1, log=[0] * 20), Broker(2, leader=1, log=[0] * 15)
    with reading(tmp_path, former, newest):
        until(lambda: former.fetched_from == 20, "the consumer to be at 20")
        newest.log += [1, 1]
        newest.leader, newest.epoch = 2, 1
        former.leader, former.epoch = 2, 1
        until(lambda: newest.asked_last == 17, "the consumer to be at 17")

    (seek,) = rows(tmp_path, "seeks-consumer")
    assert offsets(tmp_path) == [*range(20), 15, 16]
    assert (seek["from_offset"], seek["to_offset"], seek["leader_epoch"], seek["position"]) == (20, 15, 1, 20)
    assert seek["why"] == "the log was truncated below the position"
    assert json.loads((tmp_path / "consumer.json").read_text())["seeks"] == 1


def test_deleted_records_are_passed_by_a_seek(tmp_path: Path) -> None:
    """If the log start passes the position, the consumer seeks forward and records it."""
    leader = Broker(1, log=[0] * 10)
    with reading(tmp_path, leader):
        until(lambda: leader.fetched_from == 10, "the consumer to be at 10")
        leader.start = 15
        leader.log += [0] * 10
        until(lambda: leader.fetched_from == 20, "the consumer to be at 20")

    (seek,) = rows(tmp_path, "seeks-consumer")
    assert offsets(tmp_path) == [*range(10), *range(15, 20)]
    assert (seek["from_offset"], seek["to_offset"], seek["why"]) == (10, 15, "the position is out of range")


def test_a_drain_asks_every_broker_who_leads(tmp_path: Path) -> None:
    """A drain uses the newest leader's end offset, even if a stale leader answers first."""
    for turn in range(4):  # the order of the brokers is random
        folder = tmp_path / str(turn)
        folder.mkdir()
        with brokers(*stale_and_newest()) as cluster:
            drain.run(
                DrainConfig(
                    client_id="drain",
                    out=str(folder),
                    summary=str(folder / "drain.json"),
                    bootstrap=cluster.bootstrap,
                    topics={TOPIC: 1},
                    limit_s=10,
                )
            )

        reached = json.loads((folder / "drain.json").read_text())["partitions"]["t-0"]
        assert reached == {"start_offset": 0, "position": 20, "end_offset": 20, "complete": True}
        assert offsets(folder, "drain") == list(range(20))
