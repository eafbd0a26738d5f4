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

    asked: ProducerInfo
    said: Words
    compression: str


def senders(run: RunData) -> list[Sender]:
    """Return the producers that have a rate."""
    said, loads = {client["client_id"]: client for client in run.clients}, run.manifest.loads
    return [
        Sender(asked, said.get(asked.producer_id, {}), loads.get(asked.load or "", {}).get("compression", "none"))
        for asked in run.manifest.producers
        if asked.rate_per_s
    ]


def load_sentence(run: RunData) -> str:
    """Describe unsent records and the busiest generator; empty without ``busy_ns``."""
    said = [sender.said for sender in senders(run) if sender.said.get("busy_ns")]
    if not said:
        return ""
    due, refused = (sum(each[name] for each in said) for name in ("rows", "overflowed"))
    missed = (
        f"{refused:,} of {due:,} records that were due were never sent" if refused else f"{due:,} records, all sent"
    )
    busiest = max(said, key=_busy)
    if len(said) > 1:
        most = f"the busiest, {busiest['client_id']}, {_busy(busiest):.0%} of the time"
        return f"{len(said)} open-loop producers: {missed}; {most}"
    # larger batches cost less per record
    could = (due - refused) / (busiest["busy_ns"] / 1e9)
    return (
        f"{busiest['client_id']}: {missed}; busy {_busy(busiest):.0%} of the time, so it could offer at least "
        f"{could:,.0f}/s"
    )


def _busy(said: Words) -> float:
    return float(said["busy_ns"] / said["offering_ns"])


_COUNTED = {
    "records": ("rows", "Those that were due, sent or not."),
    "never sent": ("overflowed", "Due, and found no room while earlier ones had no answer."),
    "acknowledged": ("acked", "As the producer said in the end."),
    "failed": ("failed", "Certainly not written; those never sent are among them."),
    "unknown": ("indeterminate", "Without a certain answer."),
}


def _count(heading: str, name: str, meaning: str) -> Column[Sender]:
    return Column(heading, lambda sender: sender.said.get(name), "number", meaning)


def _name(asked: ProducerInfo) -> str:
    own = asked.producer_id
    return own if asked.load is None or own.startswith(asked.load) else f"{own} ({asked.load})"


def _settings(sender: Sender) -> str:
    asked = sender.asked
    words = [
        f"acks={asked.acks}",
        "idempotent" if asked.idempotence else "",
        "transactions" if asked.transaction_timeout_ms else "",
        f"{asked.record_bytes:,} B" if asked.record_bytes else "",
        "" if sender.compression == "none" else sender.compression,
        f"{asked.engine} {asked.client or ''}".rstrip(),
    ]
    return ", ".join(filter(None, words))


_PRODUCERS: list[Column[Sender]] = [
    Column("producer", lambda sender: _name(sender.asked), "name"),
    Column("topic", lambda sender: sender.asked.topic, "name"),
    Column("settings", _settings, "text"),
    Column("rate at first", lambda sender: f"{round(sender.asked.rate_per_s or 0, 1):,.10g}/s", "number"),
    *(_count(heading, *counted) for heading, counted in _COUNTED.items()),
    Column("busy", lambda sender: f"{_busy(sender.said):.0%}" if sender.said.get("busy_ns") else DASH, "number"),
]


def producer_table(run: RunData) -> Table:
    """Tabulate each producer's report."""
    return table("The requested load of each producer, and the results in its final report.", _PRODUCERS, senders(run))
