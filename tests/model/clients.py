"""Producers and readers of a modelled partition: requests, retries, answers and reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.model.parts import DELIVERY_NS, DRAIN, NOBODY, REQUEST_NS, Batch, Producer, Reader, Replica, Sending

if TYPE_CHECKING:
    from tests.model.replicated_log import Partition


def send(partition: Partition, producer: Producer) -> None:
    """Proceed with a producer's first batch: send it, wait for its answer, or give up."""
    if not producer.queue:
        return
    sending = producer.queue[0]
    partition._later()
    if sending.in_flight:
        _await_answer(partition, producer, sending)
    if producer.queue[:1] == [sending] and not sending.in_flight:
        if partition.now - sending.due_ns > DELIVERY_NS or sending.attempts > producer.retries:
            give_up(partition, producer, sending)
        else:
            _request(partition, producer, sending)


def _request(partition: Partition, producer: Producer, sending: Sending) -> None:
    target = partition.replicas[producer.believes]
    if not target.up:
        _look_up_leader(partition, producer)
        return
    _number(producer, sending)
    sending.sent_ns = sending.sent_ns or partition.now
    sending.asked_ns, sending.in_flight, sending.answer = partition.now, True, None
    sending.attempts += 1
    if target.paused:
        sending.maybe_written = True
        target.unread.append(sending)
    elif not partition._append(target, sending):
        sending.in_flight = False
        _look_up_leader(partition, producer)
    elif partition.lose_answers:
        partition.lose_answers, sending.answer = 0, None
    elif producer.acks == "1":
        _acknowledge(partition, producer, sending)


def _look_up_leader(partition: Partition, producer: Producer) -> None:
    if partition.state.leader != NOBODY:
        producer.believes = partition.state.leader


def _number(producer: Producer, sending: Sending) -> None:
    if producer.idempotent and sending.base_sequence < 0:
        sending.producer_epoch, sending.base_sequence = producer.epoch, producer.sequence
        producer.sequence += len(sending.seqs)


def _await_answer(partition: Partition, producer: Producer, sending: Sending) -> None:
    if sending.answer is not None:
        broker_id, epoch, _, end = sending.answer
        leader = partition.replicas[broker_id]
        if leader.runs and (leader.told is None or leader.told.epoch != epoch or not leader.leads):
            sending.in_flight = False  # NOT_LEADER_OR_FOLLOWER
            _look_up_leader(partition, producer)
            return
        alone = partition.flaw == "acknowledges_below_min_isr" and len(leader.isr) < partition.history.effective_min_isr
        early = alone or partition.flaw == "acknowledges_early"
        if leader.runs and (producer.acks == "1" or leader.hw >= end or early):
            if producer.acks == "1" or len(leader.isr | leader.joining) >= partition.history.effective_min_isr or early:
                _acknowledge(partition, producer, sending)
            else:
                sending.in_flight = False  # NOT_ENOUGH_REPLICAS_AFTER_APPEND
            return
    if partition.now - sending.asked_ns > REQUEST_NS:
        sending.in_flight = False
        _look_up_leader(partition, producer)


def _acknowledge(partition: Partition, producer: Producer, sending: Sending) -> None:
    assert sending.answer is not None
    _settle(partition, producer, sending, "ok", sending.answer[2])


def give_up(partition: Partition, producer: Producer, sending: Sending) -> None:
    """Record a batch as failed, or as indeterminate if it may have been written."""
    if sending.base_sequence >= 0:  # the next batch must not wait for this one's number (KIP-360)
        producer.epoch, producer.sequence = producer.epoch + 1, 0
    _settle(partition, producer, sending, "info" if sending.maybe_written else "fail", None)


def _settle(partition: Partition, producer: Producer, sending: Sending, outcome: str, base: int | None) -> None:
    producer.queue.pop(0)
    sending.in_flight = False
    for n, seq in enumerate(sending.seqs):
        partition.history.sends.append(
            {
                "producer_id": producer.name,
                "seq": seq,
                "due_ns": sending.due_ns,
                "sent_ns": sending.sent_ns,
                "done_ns": partition.now,
                "outcome": outcome,
                "error": None if outcome == "ok" else "timeout",
                "offset": None if base is None else base + n,
                "acks": producer.acks,
                "record_bytes": 100,
            }
        )


def read(partition: Partition, reader: Reader, source: Replica) -> None:
    """Read from the reader's position to the high watermark of a replica."""
    end = source.leo if partition.flaw == "serves_uncommitted" else source.hw
    for batch in [] if reader.starved else source.log:
        for n in range(len(batch.seqs)):
            if reader.next_offset <= batch.base + n < end:
                polled(partition, reader.name, next(reader.positions), batch, n)
                reader.next_offset = batch.base + n + 1


def polled(partition: Partition, name: str, position: int, batch: Batch, n: int) -> None:
    """Record that a reader received the record ``n`` of a batch."""
    partition.history.polls.append(
        {
            "consumer_id": name,
            "pass": "final" if name == DRAIN else "live",
            "position": position,
            "offset": batch.base + n,
            "leader_epoch": batch.epoch,
            "producer_id": batch.producer,
            "seq": batch.seqs[n],
            "checksum_ok": True,
            "received_ns": partition.now,
            "isolation": "read_uncommitted",
        }
    )
