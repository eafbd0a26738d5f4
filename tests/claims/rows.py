"""Recordings of a few rows: times in seconds, replicas 1, 2 and 3 of orders-0."""

from collections.abc import Iterable
from typing import Any

from claims.answer import Evidence
from claims.recording import SECOND_NS, Recording, Remote, Sample
from history.events import Event
from history.partition import TopicPartition
from kafka_files.states import State

ORDERS = TopicPartition("orders", 0)


def ns(at_s: float) -> int:
    """Return seconds as nanoseconds."""
    return round(at_s * SECOND_NS)


def state(at_s: float, isr: tuple[int, ...] = (1, 2, 3), leader: int = 1, epoch: int = 0, **more: Any) -> State:
    """Return a state of the controller's history, with a partition epoch by its time."""
    row: dict[str, Any] = {
        "topic": "orders",
        "partition": 0,
        "source": "metadata_log",
        "position": ns(at_s),
        "t_ns": ns(at_s),
        "leader": leader,
        "leader_epoch": epoch,
        "partition_epoch": ns(at_s),
        "replicas": (1, 2, 3),
        "isr": isr,
    }
    return State(**row | more)


def still(broker: int, from_s: float, to_s: float, hw: int, leo: int, *, epoch: int = 0, **more: Any) -> list[Sample]:
    """Return samples of an unchanged replica, ten per second."""
    ticks = range(round(from_s * 10), round(to_s * 10) + 1)
    return [Sample(broker, epoch, ns(tick / 10), ns(tick / 10) + 1000, hw, leo, **more) for tick in ticks]


def recording(samples: Iterable[Sample] = (), states: Iterable[State] = (), **more: Any) -> Recording:
    """Return a recording of one partition."""
    return Recording(
        samples={ORDERS: sorted(samples, key=lambda sample: sample.received_ns)},
        states={ORDERS: list(states) or [state(0)]},
        **{"effective_min_isr": {"orders": 1}, **more},
    )


def judged(name: str) -> dict[str, list[Evidence]]:
    """Return one finding of the judge."""
    return {name: [Evidence("verdict/", None, "found")]}


def send(at_s: float, offset: int | None = 0, **more: Any) -> dict[str, Any]:
    """Return a send that was answered 10 ms later."""
    return {
        "producer_id": "write-1",
        "seq": offset,
        "topic": "orders",
        "partition": 0,
        "due_ns": ns(at_s),
        "sent_ns": ns(at_s),
        "done_ns": ns(at_s + 0.01),
        "outcome": "ok",
        "error": None,
        "offset": offset,
        "acks": "1",
        **more,
    }


def poll(at_s: float, offset: int, epoch: int = 0, seq: int | None = None) -> dict[str, Any]:
    """Return a record that a consumer read."""
    return {
        "topic": "orders",
        "partition": 0,
        "offset": offset,
        "leader_epoch": epoch,
        "producer_id": "write-1",
        "seq": offset if seq is None else seq,
        "received_ns": ns(at_s),
    }


def line(at_s: float, kind: str, broker: int, epoch: int | None = None, **more: Any) -> dict[str, Any]:
    """Return a broker's log line; hw and leo are short for high watermark and log end offset."""
    named = {{"hw": "high_watermark", "leo": "log_end_offset"}.get(name, name): value for name, value in more.items()}
    return {
        "kind": kind,
        "broker_id": broker,
        "topic": "orders",
        "partition": 0,
        "leader_epoch": epoch,
        "t_ns": ns(at_s),
        "line": 1,
        "text": kind,
        **named,
    }


def note(at_s: float, follower: int, leo: int) -> Remote:
    """Return a leader's log line about a follower's LEO."""
    return Remote(ORDERS, 1, follower, ns(at_s), leo, 1)


def event(at_s: float, kind: str, step: str = "", target: str = "", **detail: Any) -> Event:
    """Return an event of the run."""
    return Event(ns(at_s), "", kind, "", step, target, detail)


def settings(at_s: float = 1, **defaults: str) -> Event:
    """Return a broker's answer with its defaults; two underscores replace a dot."""
    broker = {name.replace("__", "."): {"default": value} for name, value in defaults.items()}
    return event(at_s, "described", target="orders", settings={"broker": broker, "topic": {}}, look_ups=[])
