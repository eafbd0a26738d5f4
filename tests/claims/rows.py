"""Recordings of a few rows: times in seconds, replicas 1, 2 and 3 of orders-0."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from claims.answer import answer_of
from claims.recording import SECOND_NS, Recording
from claims.table import CLAIMS
from evidence.facts import Replica
from evidence.run import Run
from history.events import Event
from history.folder import RunFolder
from history.tables import RECORDED
from kafka_files.states import State
from tests.evidence.folders import manifest, polled, sample, sent
from tests.evidence.probed import WHERE, facts_of, partition

Rows = Sequence[dict[str, Any]]


def ns(at_s: float) -> int:
    """Return seconds as nanoseconds."""
    return round(at_s * SECOND_NS)


def state(at_s: float, isr: tuple[int, ...] = (1, 2, 3), leader: int = 1, epoch: int = 0, **more: Any) -> State:
    """Return a state of the controller's history, with a partition epoch by its time."""
    number = more.pop("partition_epoch", ns(at_s))
    first = State("orders", 0, "metadata_log", ns(at_s), ns(at_s), leader, epoch, number, (1, 2, 3), isr)
    return first._replace(**more)


def still(broker: int, from_s: float, to_s: float, hw: int, leo: int, **more: Any) -> Rows:
    """Return samples of an unchanged replica, ten per second."""
    ticks = range(round(from_s * 10), round(to_s * 10) + 1)
    return [sample(broker, ns(tick / 10), hw, leo, **{"received_ns": ns(tick / 10) + 1000, **more}) for tick in ticks]


def with_hw(samples: Rows, hw: int, leo: int | None = None) -> Rows:
    """Return samples with another HW, of the first broker or with this LEO only."""
    chosen = [leo in (None, each["log_end_offset"]) and (leo is None or each["broker_id"] == 1) for each in samples]
    return [each | ({"high_watermark": hw} if own else {}) for each, own in zip(samples, chosen, strict=True)]


def recording(
    samples: Rows = (),
    states: Sequence[State] = (),
    *,
    events: Sequence[Event] = (),
    invariants: Rows = (),
    anomalies: Rows = (),
    lag_ms: int = 30_000,
    roles: Sequence[str] = ("broker",),
    min_isr: int = 1,
    folder: Path = Path("none"),
    **of_partition: Any,
) -> Recording:
    """Return a recording of one partition; without states, broker 1 leads a full ISR from 0 s on."""
    facts = facts_of(states=states or [state(0)], effective_min_isr=min_isr)
    broker = manifest().brokers[0].model_copy(update={"config": {"replica.lag.time.max.ms": str(lag_ms)}})
    nodes = [broker.model_copy(update={"role": role}) for role in roles]
    known = manifest().model_copy(update={"nodes": nodes, "started_ns": 0})
    run = Run(RunFolder(folder), known, list(events), [], {name: [] for name in RECORDED}, {})
    of = partition(samples, (), facts=facts, **of_partition)
    return Recording(run, {WHERE: of}, invariants, anomalies)


def verdict_of(claim: str, given: Recording) -> str:
    """Return one recording's answer to a claim; only decided ones have evidence."""
    known = CLAIMS[claim]
    assert known.query is not None
    answer = answer_of(known.query.cases(given), known.shows, known.refutes)
    assert bool(answer.evidence) == (answer.verdict != "not observable")
    return answer.verdict


def checked(invariant: str, times: int = 5, violations: int = 0) -> dict[str, Any]:
    """Return the judge's row of an invariant."""
    return {
        "invariant": invariant,
        "title": "It holds",
        "checked": times,
        "violations": violations,
        "reason": "first violation" if violations else None,
    }


def anomaly(name: str) -> dict[str, Any]:
    """Return the judge's row of an anomaly."""
    return {"anomaly": name, "explanation": "lost"}


def send(at_s: float, offset: int | None = 0, **more: Any) -> dict[str, Any]:
    """Return a send that was answered 10 ms later."""
    times = {"sent_ns": ns(at_s), "done_ns": ns(at_s + 0.01)}
    return sent(offset or 0, offset=offset, acks="1", at_ns=ns(at_s), **{"producer_id": "write-1", **times, **more})


def poll(at_s: float, offset: int) -> dict[str, Any]:
    """Return a record that a consumer read."""
    return polled(offset, offset, final=False, received_ns=ns(at_s))


def line(at_s: float, kind: str, broker: int, epoch: int | None = None, **more: Any) -> dict[str, Any]:
    """Return a broker's log line; hw and leo are short for high watermark and log end offset."""
    named = {{"hw": "high_watermark", "leo": "log_end_offset"}.get(name, name): value for name, value in more.items()}
    row = {"kind": kind, "broker_id": broker, "topic": "orders", "partition": 0, "leader_epoch": epoch}
    return row | {"t_ns": ns(at_s), "line": 1, "text": kind} | named


def note(at_s: float, follower: int, leo: int) -> dict[str, Any]:
    """Return a leader's log line about a follower's LEO."""
    return line(at_s, "leo_recorded", 1, follower=follower, leo=leo)


def event(at_s: float, kind: str, step: str = "", target: str = "", **detail: Any) -> Event:
    """Return an event of the run."""
    return Event(ns(at_s), "", kind, "", step, target, detail)


def settings(at_s: float = 1, **defaults: str) -> Event:
    """Return a broker's answer with its defaults; two underscores replace a dot."""
    broker = {name.replace("__", "."): {"default": value} for name, value in defaults.items()}
    return event(at_s, "described", target="orders", settings={"broker": broker, "topic": {}}, look_ups=[])


def files(folders: Iterable[tuple[int, Path]]) -> tuple[Replica, ...]:
    """Return replicas with their segments."""
    return tuple(Replica(broker, sorted(folder.glob("*.log")), None) for broker, folder in folders)
