"""A run's load on its page: each producer, and the generators' limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from history.manifest import ProducerInfo
from reports.cells import DASH, Column, Table, table
from reports.run_data import RunData

Words = Mapping[str, Any]


class Sender(NamedTuple):
    """A producer: manifest entry, final report, and compression."""

    producer: ProducerInfo
    report: Words
    compression: str


def senders(run: RunData) -> list[Sender]:
    """Return the producers that have a rate."""
    reports, loads = {client["client_id"]: client for client in run.clients}, run.manifest.loads
    return [
        Sender(
            producer,
            reports.get(producer.producer_id, {}),
            loads.get(producer.load or "", {}).get("compression", "none"),
        )
        for producer in run.manifest.producers
        if producer.rate_per_s
    ]


def load_sentence(run: RunData) -> str:
    """Describe unsent records and the busiest generator; empty without ``busy_ns``."""
    report = [sender.report for sender in senders(run) if sender.report.get("busy_ns")]
    if not report:
        return ""
    due, refused = (sum(each[name] for each in report) for name in ("rows", "overflowed"))
    missed = (
        f"{refused:,} of {due:,} records that were due were never sent" if refused else f"{due:,} records, all sent"
    )
    busiest = max(report, key=_busy)
    if len(report) > 1:
        most = f"the busiest, {busiest['client_id']}, {_busy(busiest):.0%} of the time"
        return f"{len(report)} open-loop producers: {missed}; {most}"
    # larger batches cost less per record
    could = (due - refused) / (busiest["busy_ns"] / 1e9)
    return (
        f"{busiest['client_id']}: {missed}; busy {_busy(busiest):.0%} of the time, so it could offer at least "
        f"{could:,.0f}/s"
    )


def _busy(report: Words) -> float:
    return float(report["busy_ns"] / report["offering_ns"])


_COUNTED = {
    "records": ("rows", "Those that were due, sent or not."),
    "never sent": ("overflowed", "Due, and found no room while earlier ones had no answer."),
    "acknowledged": ("acked", "As the producer said in the end."),
    "failed": ("failed", "Certainly not written; those never sent are among them."),
    "unknown": ("indeterminate", "Without a certain answer."),
}


def _count(heading: str, name: str, meaning: str) -> Column[Sender]:
    return Column(heading, lambda sender: sender.report.get(name), "number", meaning)


def _name(producer: ProducerInfo) -> str:
    own = producer.producer_id
    return own if producer.load is None or own.startswith(producer.load) else f"{own} ({producer.load})"


def _settings(sender: Sender) -> str:
    producer = sender.producer
    words = [
        f"acks={producer.acks}",
        "idempotent" if producer.idempotence else "",
        "transactions" if producer.transaction_timeout_ms else "",
        f"{producer.record_bytes:,} B" if producer.record_bytes else "",
        "" if sender.compression == "none" else sender.compression,
        f"{producer.engine} {producer.client or ''}".rstrip(),
    ]
    return ", ".join(filter(None, words))


_PRODUCERS: list[Column[Sender]] = [
    Column("producer", lambda sender: _name(sender.producer), "name"),
    Column("topic", lambda sender: sender.producer.topic, "name"),
    Column("settings", _settings, "text"),
    Column("rate at first", lambda sender: f"{round(sender.producer.rate_per_s or 0, 1):,.10g}/s", "number"),
    *(_count(heading, *counted) for heading, counted in _COUNTED.items()),
    Column("busy", lambda sender: f"{_busy(sender.report):.0%}" if sender.report.get("busy_ns") else DASH, "number"),
]


def producer_table(run: RunData) -> Table:
    """Tabulate each producer's report."""
    return table("The requested load of each producer, and the results in its final report.", _PRODUCERS, senders(run))
