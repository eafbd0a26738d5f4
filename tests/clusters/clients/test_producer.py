"""The open loop and its ledger, with a scripted library."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from clusters.clients import producer
from clusters.clients.configs import OFFER, OFFERED, ProducerConfig
from clusters.clients.engines import CHOOSE, Answer, NotTakenError, OneByOne
from clusters.clients.ledger import ABORTED, NOT_SEEN, Ints, outcome
from clusters.clients.pacing import Constant, Schedule
from clusters.clients.producer import AT_A_TIME, Offers, OpenLoop, go_first
from clusters.paths import ROOT
from history.draws import Keys, partitions_of
from history.folder import write_atomically
from history.payload import decode

CONFIG = ProducerConfig(
    client_id="p1", out="", summary="", bootstrap=[], topic="t", partitions=2, rate_per_s=1.0, record_bytes=100
)
SECOND = 10**9


class FakeEngine(OneByOne):
    """Accepts records until ``refuse`` is set; tests put answers into its queue."""

    ready = True

    def __init__(self) -> None:
        self.answered = deque[Answer]()
        self.taken: list[tuple[int, bytes, int]] = []
        self.keys: list[bytes | None] = []
        self.refuse = False
        self.transaction: int | None = None
        self.finished = False

    def send_one(self, partition: int, value: bytes, key: bytes | None, seq: int) -> int | None:
        if self.refuse:
            raise NotTakenError("no metadata")
        self.taken.append((partition, value, seq))
        self.keys.append(key)
        return self.transaction

    def finish(self) -> None:
        self.finished = True


class Rows(list[dict[str, Any]]):
    """A ledger that keeps its rows."""

    def record(self, errors: pa.Array, columns: Mapping[str, Ints]) -> None:
        for at, error in enumerate(errors.to_pylist()):
            seen = {name: None if values[at] == NOT_SEEN else int(values[at]) for name, values in columns.items()}
            self.append({**seen, "error": error, "outcome": outcome(error, may_have_retried=True)})


def open_loop(**settings: Any) -> tuple[OpenLoop, FakeEngine, Rows]:
    """Return a loop at one record a second from time 0, its library, and its ledger's rows."""
    engine, rows = FakeEngine(), Rows()
    loop = OpenLoop(dataclasses.replace(CONFIG, **settings), Schedule(0, Constant(1.0)), engine, rows)  # type: ignore[arg-type]  # a ledger that keeps its rows
    return loop, engine, rows


def test_what_is_due_is_sent_round_robin_and_no_more() -> None:
    """After 2 s three records are sent, with producer id and number, and partitions take turns."""
    loop, engine, rows = open_loop()
    loop.send_due(2 * SECOND)
    loop.send_due(2 * SECOND + 1)

    assert [(partition, seq) for partition, _, seq in engine.taken] == [(0, 0), (1, 1), (0, 2)]
    assert [("p1", seq, True) for seq in range(3)] == [tuple(decode(value)) for _, value, _ in engine.taken]
    assert rows == []


def test_much_that_is_due_is_handed_over_in_parts() -> None:
    """A backlog is handed over in parts, so that the loop can read answers in between and rejects none."""
    loop, engine, rows = open_loop()
    for parts in (1, 2, 3):
        loop.send_due((AT_A_TIME * 2 + 9) * SECOND)
        assert len(engine.taken) == min(AT_A_TIME * parts, AT_A_TIME * 2 + 10)
    assert rows == []


def test_an_acknowledgement_becomes_a_row() -> None:
    """An acknowledgement becomes a row with due, sent and done time, and the offset."""
    loop, engine, rows = open_loop()
    loop.send_due(SECOND)
    engine.answered.append((1, 77, NOT_SEEN, 40, None))
    loop.settle()

    (row,) = rows
    assert (row["seq"], row["due_ns"], row["done_ns"], row["offset"]) == (1, SECOND, 77, 40)
    assert (row["outcome"], row["error"], row["partition"]) == ("ok", None, 1)
    assert row["sent_ns"] > row["due_ns"]
    assert loop.in_flight == 1


def test_an_acknowledgement_without_an_offset_stays_without() -> None:
    """An acknowledgement without an offset becomes a row without one."""
    loop, engine, rows = open_loop()
    loop.send_due(0)
    engine.answered.append((0, 77, NOT_SEEN, NOT_SEEN, None))
    loop.settle()

    assert (rows[0]["outcome"], rows[0]["offset"]) == ("ok", None)


def test_overflow_is_never_sent_and_counted() -> None:
    """With two records in flight allowed, the third is ``never_sent``; a free slot is used again."""
    loop, engine, rows = open_loop(max_in_flight=2)
    loop.send_due(2 * SECOND)
    engine.answered.append((0, 77, NOT_SEEN, 0, None))
    loop.settle()
    loop.send_due(3 * SECOND)

    assert [seq for _, _, seq in engine.taken] == [0, 1, 3]
    assert [(row["seq"], row["outcome"], row["error"], row["sent_ns"]) for row in rows[:1]] == [
        (2, "fail", "never_sent", None)
    ]
    assert loop.never_sent == 1


def test_a_refusal_fails_the_rest_of_the_tick_only() -> None:
    """After a rejection the rest of the tick fails at once, so that the schedule holds; the next tick tries again."""
    loop, engine, rows = open_loop()
    engine.refuse = True
    loop.send_due(2 * SECOND)
    engine.refuse = False
    loop.send_due(3 * SECOND)

    assert [(row["seq"], row["outcome"]) for row in rows] == [(0, "fail"), (1, "fail"), (2, "fail")]
    assert [seq for _, _, seq in engine.taken] == [3]
    assert loop.in_flight == 1


def test_a_time_out_is_unknown_and_a_refused_record_is_not() -> None:
    """The ledger's table of errors decides the outcome: a time-out is info, a rejected record fail."""
    loop, engine, rows = open_loop()
    loop.send_due(SECOND)
    engine.answered.extend([(0, 7, 0, NOT_SEEN, "KafkaTimeoutError"), (1, 8, 1, NOT_SEEN, "MESSAGE_TOO_LARGE")])
    loop.settle()

    assert [row["outcome"] for row in rows] == ["info", "fail"]


def test_in_flight_at_the_end_is_unknown() -> None:
    """A record in flight at the end is info without a done time; an answered one is not written again."""
    loop, engine, rows = open_loop()
    loop.send_due(SECOND)
    engine.answered.append((0, 77, NOT_SEEN, 0, None))
    loop.settle()
    loop.give_up()

    assert [(row["seq"], row["outcome"], row["error"], row["done_ns"]) for row in rows] == [
        (0, "ok", None, 77),
        (1, "info", "no_answer", None),
    ]
    assert loop.in_flight == 0


def test_what_is_due_waits_while_a_transaction_ends() -> None:
    """While a transaction ends, due records wait and keep their due times; none is rejected."""
    loop, engine, rows = open_loop()
    engine.ready = False
    loop.send_due(2 * SECOND)
    assert (engine.taken, rows) == ([], [])

    engine.ready, engine.transaction = True, 7
    loop.send_due(3 * SECOND)
    engine.answered.extend((seq, 77, NOT_SEEN, NOT_SEEN, ABORTED) for seq in range(4))
    loop.settle()

    assert [(row["seq"], row["due_ns"], row["transaction"], row["outcome"]) for row in rows] == [
        (seq, seq * SECOND, 7, "fail") for seq in range(4)
    ]


def test_more_than_there_is_room_for_does_not_wait() -> None:
    """If more records are due than may wait, the oldest are ``never_sent``; the waiting ones are too at the end."""
    loop, engine, rows = open_loop(max_in_flight=2)
    engine.ready = False
    loop.send_due(3 * SECOND)
    assert [(row["seq"], row["error"]) for row in rows] == [(0, "never_sent"), (1, "never_sent")]

    loop.finish(4 * SECOND)
    assert [row["seq"] for row in rows] == [0, 1, 2, 3, 4]
    assert engine.finished


def test_what_is_due_as_it_ends_is_sent() -> None:
    """Records that are due by the end are sent, up to the in-flight limit."""
    loop, engine, rows = open_loop()
    loop.send_due(SECOND)
    loop.finish(3 * SECOND)

    assert loop.in_flight == 4
    assert loop.never_sent == 0
    assert rows == []
    assert engine.finished


# --- another rate ------------------------------------------------------------------------------


def test_another_rate_holds_from_the_moment_it_is_taken() -> None:
    """A new rate holds from the moment of the change; records that were due before keep their due times."""
    loop, engine, rows = open_loop()
    loop.send_due(SECOND)
    loop.change_rate(SECOND + SECOND // 2, 4.0)
    loop.send_due(2 * SECOND)
    engine.answered.extend((seq, 77, NOT_SEEN, seq, None) for seq in range(5))
    loop.settle()

    assert [row["due_ns"] / SECOND for row in rows] == [0.0, 1.0, 1.5, 1.75, 2.0]


def test_what_waits_keeps_its_times_when_the_rate_changes() -> None:
    """Records that wait keep the due times of the old rate; the first record of the new rate is due at the change."""
    loop, engine, rows = open_loop()
    engine.ready = False
    loop.send_due(SECOND)
    loop.change_rate(SECOND + SECOND // 2, 4.0)
    engine.ready = True
    loop.send_due(2 * SECOND)
    engine.answered.extend((seq, 77, NOT_SEEN, seq, None) for seq in range(5))
    loop.settle()

    assert [row["due_ns"] / SECOND for row in rows] == [0.0, 1.0, 1.5, 1.75, 2.0]


def test_an_offer_is_taken_once_and_answered(tmp_path: Path) -> None:
    """A rate offer is applied once and answered; the same rate may be offered again."""
    loop, _, _ = open_loop()
    loop.send_due(SECOND)
    offers = Offers(str(tmp_path))
    offers.look(loop)
    assert loop.schedule.curve == Constant(1.0)

    answers = []
    for rate in (4.0, 4.0):
        write_atomically(tmp_path / OFFER, json.dumps({"rate_per_s": rate}))
        offers.look(loop)
        answers.append(json.loads((tmp_path / OFFERED).read_text()))
        (tmp_path / OFFERED).unlink()
        offers.look(loop)
        assert not (tmp_path / OFFERED).exists()
    assert answers[0]["rate_per_s"] == answers[1]["rate_per_s"] == 4.0
    assert loop.schedule.curve == Constant(4.0)
    assert answers[0]["from_ns"] < answers[1]["from_ns"] == loop.schedule.start_ns


def test_a_library_that_is_ready_no_more_is_asked_no_more() -> None:
    """If the library becomes full within a tick, the next record waits for the next transaction."""
    loop, _, rows = open_loop()

    class Full(FakeEngine):
        def send_one(self, partition: int, value: bytes, key: bytes | None, seq: int) -> int | None:
            self.ready = len(self.taken) < 1
            return super().send_one(partition, value, key, seq)

    full = Full()
    loop.engine = full
    loop.send_due(3 * SECOND)

    assert [seq for _, _, seq in full.taken] == [0, 1]
    assert (loop.next_seq, rows) == (2, [])


KEYED: dict[str, Any] = {"client_partitions": True, "keys": {"count": 50, "distribution": "uniform"}, "seed": 7}


def test_a_library_may_choose_partitions_and_is_told_the_keys() -> None:
    """If the library chooses partitions, the ledger has its choice, or the partition of the key's hash if unknown."""
    loop, engine, rows = open_loop(**KEYED, partitions=5)
    loop.send_due(2 * SECOND)
    keys = Keys.of(KEYED["keys"], "7 p1").of_records(np.arange(3))
    assert [partition for partition, _, _ in engine.taken] == [CHOOSE] * 3
    assert engine.keys == [key.tobytes() for key in keys]

    engine.answered.extend([(0, 77, 4, 10, None), (1, 77, NOT_SEEN, NOT_SEEN, "_MSG_TIMED_OUT")])
    loop.settle()
    loop.give_up()
    said, *silent = (row["partition"] for row in rows)

    assert said == 4
    assert silent == partitions_of(keys, 5)[1:].tolist()


def test_a_partition_that_nobody_named_stays_unknown() -> None:
    """Without keys, a record whose partition the library did not report has no partition in the ledger."""
    loop, engine, rows = open_loop(client_partitions=True)
    loop.send_due(SECOND)
    engine.answered.append((0, 77, 1, 10, None))
    loop.settle()
    loop.give_up()

    assert [row["partition"] for row in rows] == [1, None]


def test_records_in_turn_may_have_keys() -> None:
    """Near miss: with keys but without ``client_partitions``, partitions take turns."""
    loop, engine, _ = open_loop(**KEYED | {"client_partitions": False})
    loop.send_due(SECOND)

    assert [partition for partition, _, _ in engine.taken] == [0, 1]
    assert None not in engine.keys


def test_the_ledger_has_each_record_s_own_size() -> None:
    """The ledger has the size of each record's value, whatever its outcome."""
    loop, engine, rows = open_loop(record_bytes={"uniform": [64, 2000]})
    loop.send_due(3 * SECOND)
    loop.give_up()

    assert [row["record_bytes"] for row in rows] == [len(value) for _, value, _ in engine.taken]
    assert len({row["record_bytes"] for row in rows}) > 1


# --- precedence --------------------------------------------------------------------------------


def test_a_thread_goes_first_where_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    """The producer's thread runs with SCHED_RR, threads that it starts do not; without permission nothing changes."""
    asked = list[tuple[int, int]]()
    monkeypatch.setattr(os, "sched_setscheduler", lambda pid, policy, _: asked.append((pid, policy)))
    go_first()
    assert asked == [(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK)]

    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    go_first()


class Stop:
    """A stop event that is set after three waits; it keeps the lengths of the waits."""

    def __init__(self) -> None:
        self.waits: list[float] = []

    def is_set(self) -> bool:
        return len(self.waits) == 3

    def wait(self, seconds: float) -> None:
        self.waits.append(seconds)


def test_a_slow_load_looks_for_another_rate_before_its_next_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A load with a record every 1000 s still looks for a rate offer at least once a second."""
    monkeypatch.setattr(producer, "_prepare_interpreter", lambda _: None)
    monkeypatch.setitem(producer.ENGINES, "kafka-python", lambda _: FakeEngine())
    own = {"out": str(tmp_path), "summary": str(tmp_path / "p1.json"), "rate_per_s": 0.001, "delivery_timeout_ms": 0}
    stop: Any = Stop()
    producer.run(dataclasses.replace(CONFIG, **own), stop)

    assert max(stop.waits) <= 1


def test_a_producer_that_breaks_off_says_why(tmp_path: Path) -> None:
    """A producer that fails at its start exits with 1 and prints the reason."""
    config = tmp_path / "config.json"
    own = {"out": str(tmp_path), "summary": str(tmp_path / "p1.json"), "engine": "confluent-kafka"}
    config.write_text(dataclasses.replace(CONFIG, **own, compression="none of them").to_json())

    command = [sys.executable, "-m", "clusters.clients.producer", str(config)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert ended.returncode == 1
    assert "librdkafka rejects compression.type" in ended.stderr
