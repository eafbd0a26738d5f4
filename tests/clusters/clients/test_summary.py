"""A client's summary file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clusters.clients.configs import ConsumerConfig
from clusters.clients.summary import Summary


def summary_of(folder: Path) -> tuple[Summary, Path]:
    """Return a consumer's summary and its path."""
    path = folder / "c1.json"
    config = ConsumerConfig(client_id="c1", out="", summary=str(path), bootstrap=[], topics={})
    return Summary(config, "consumer"), path


def read(path: Path) -> dict[str, Any]:
    """Return the file's content."""
    return dict(json.loads(path.read_text()))


def test_a_client_that_is_killed_leaves_no_clean_end(tmp_path: Path) -> None:
    """The file exists from the start, and a killed client leaves it without a clean end or readiness."""
    _, path = summary_of(tmp_path)
    found = read(path)

    assert (found["client_id"], found["role"]) == ("c1", "consumer")
    assert (found["clean"], found["ready_ns"], found["ended_ns"]) == (False, None, None)


def test_ready_is_said_once(tmp_path: Path) -> None:
    """Readiness has the time of the first record, however often it is reported."""
    summary, path = summary_of(tmp_path)
    summary.ready()
    first = read(path)
    summary.ready()

    assert first["ready_ns"] >= first["started_ns"]
    assert read(path) == first
    assert not first["clean"]


def test_what_was_done_so_far_is_told_once_a_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Progress is written once a second, not for every record."""
    summary, path = summary_of(tmp_path)
    summary.so_far(received=1)
    assert "so_far" not in read(path)

    monkeypatch.setattr("clusters.clients.summary.REPORT_NS", 0)
    summary.so_far(received=2)
    assert read(path)["so_far"]["received"] == 2
    assert not read(path)["clean"]


def test_an_idle_reader_tells_its_positions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An idle reader reports its positions; one that read records since the last report does not."""
    monkeypatch.setattr("clusters.clients.summary.REPORT_NS", 0)
    summary, path = summary_of(tmp_path)
    told = []
    for received in (1, 2, 2):
        summary.so_far(lambda: {"orders-0": 2}, received=received)
        told.append(read(path)["so_far"].get("positions"))

    assert told == [None, None, {"orders-0": 2}]


def test_a_clean_end_carries_the_clients_own_counts(tmp_path: Path) -> None:
    """A clean end is written with the client's own counts."""
    summary, path = summary_of(tmp_path)
    summary.end(rows=7, partitions={})
    found = read(path)

    assert (found["clean"], found["rows"], found["partitions"]) == (True, 7, {})
    assert found["ended_ns"] >= found["started_ns"]
