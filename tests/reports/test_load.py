"""The load on a run's page."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from history.manifest import ProducerInfo
from reports import load
from reports.run_data import RunData, read_run
from reports.run_page import render
from tests.reports.sample_run import write_sample_run

S = 1_000_000_000
WEB = {"load": "web", "topic": "orders", "acks": "all", "idempotence": True, "retries": 9, "record_bytes": 100}
LEDGER = {**WEB, "load": "ledger", "topic": "payments", "record_bytes": 0, "client": "4.3.1"}


def of(producer_id: str, asked: dict[str, Any], **more: Any) -> ProducerInfo:
    """Return a producer in the manifest."""
    return ProducerInfo(**{"producer_id": producer_id, "engine": "kafka-python", "rate_per_s": 300.0, **asked, **more})


PRODUCERS = [
    of("web-1", WEB),
    of("web-2", WEB, idempotence=False, acks="1", transaction_timeout_ms=60_000),
    of("verifiable-1", LEDGER, engine="java", rate_per_s=2_000_000.0),
    of("write-1", {**WEB, "load": None}, engine="raw", rate_per_s=None),
]
SAID = {
    "web-1": {"rows": 1000, "overflowed": 0, "acked": 999, "failed": 0, "indeterminate": 1, "busy_ns": S},
    "web-2": {"rows": 1200, "overflowed": 20, "acked": 1100, "failed": 100, "indeterminate": 0, "busy_ns": 4 * S},
    "ledger": {"client_id": "verifiable-1", "rows": 77, "acked": 77, "failed": 0, "indeterminate": 0},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run with one producer."""
    return write_sample_run(tmp_path / "run-1")


@pytest.fixture
def run(folder: Path) -> RunData:
    """The run with two processes of one load, a load of Kafka's producer, and a ``write`` step."""
    (folder / "clients" / "producer.json").unlink()
    for name, said in SAID.items():
        (folder / "clients" / f"{name}.json").write_text(json.dumps({"offering_ns": 5 * S, **said}))
    found = read_run(folder)
    scenario = {**found.manifest.scenario, "loads": {"web": {"compression": "lz4"}, "ledger": {"compression": "none"}}}
    manifest = found.manifest.model_copy(update={"producers": PRODUCERS, "scenario": {**scenario, "load": None}})
    return replace(found, manifest=manifest)


def test_each_producer_of_a_load_is_a_row(run: RunData) -> None:
    """Each producer of a load is a row with its settings and dashes for unknown values, without a step's writes."""
    rows = [[cell.text for cell in row] for row in load.producer_table(run).rows]

    web = "acks=all, idempotent, 100 B, lz4, kafka-python"
    other = "acks=1, transactions, 100 B, lz4, kafka-python"
    java = "acks=all, idempotent, java 4.3.1"
    assert rows == [
        ["web-1", "orders", web, "300/s", "1,000", "0", "999", "0", "1", "20%"],
        ["web-2", "orders", other, "300/s", "1,200", "20", "1,100", "100", "0", "80%"],
        ["verifiable-1 (ledger)", "payments", java, "2,000,000/s", "77", "–", "77", "0", "0", "–"],
    ]


def test_the_load_is_that_of_all_producers(run: RunData) -> None:
    """The load's sentence has the sum of all producers, and the busiest one."""
    assert load.load_sentence(run) == (
        "2 open-loop producers: 20 of 2,200 records that were due were never sent; the busiest, web-2, 80% of the time"
    )


def test_a_page_has_the_table_where_there_are_several(run: RunData, folder: Path, tmp_path: Path) -> None:
    """A page has the table for several producers; a single producer has a sentence among the facts."""
    several = render(run, tmp_path / "site")

    assert "The requested load of each producer" in several
    assert "verifiable-1 (ledger)" in several
    (folder / "clients" / "producer.json").write_text(
        json.dumps({"client_id": "producer-1", "rows": 40, "overflowed": 0, "busy_ns": S, "offering_ns": 2 * S})
    )
    one = render(read_run(folder), tmp_path / "site")
    assert "The requested load of each producer" not in one
    assert "producer-1: 40 records, all sent; busy 50% of the time, so it could offer at least 40/s" in one


def test_producers_that_do_not_say_have_no_sentence(run: RunData) -> None:
    """Producers without these figures, as Kafka's, have no sentence."""
    java = run.manifest.model_copy(update={"producers": PRODUCERS[2:]})

    assert load.load_sentence(replace(run, manifest=java)) == ""
