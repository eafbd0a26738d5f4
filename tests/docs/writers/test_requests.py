"""The tables of docs/own-cluster-safety.md, from literal rows."""

from __future__ import annotations

import pytest

from tests.docs.writers.requests import RESULTS, pages, tables
from tests.rows import Row, read


def row(command: str, request: str, client_id: str, count: int = 1, rate: float | None = None) -> Row:
    """Return a row of a request."""
    return {"command": command, "request": request, "client_id": client_id, "count": count, "per_s_and_broker": rate}


def test_requests_are_listed_by_client() -> None:
    """Commands in the order of the rows; a request without a rate is not part of the steady part."""
    lines = tables(
        [
            row("watch", "Metadata", "plimsoll-watch", 90, 1.0),
            row("watch", "Fetch", "plimsoll-watch", 1_200, 3.25),
            row("run", "Fetch", "plimsoll-…-prober", 7, 0.0),
            row("run", "Produce", "plimsoll-world"),
        ]
    ).splitlines()
    assert lines[2:5] == [
        "| watch | `plimsoll-watch` | Fetch 1,200 (3.25), Metadata 90 (1) |",
        "| run | `plimsoll-world` | Produce 1 |",
        "| run | `plimsoll-…-prober` | Fetch 7 |",
    ]
    assert lines[-3:] == ["| Fetch | Read |", "| Metadata | Describe |", "| Produce | Write |"]


def test_a_request_whose_right_is_unknown_is_an_error() -> None:
    """Each request of the rows needs a right in the table."""
    with pytest.raises(KeyError, match="AlterConfigs"):
        tables([row("run", "AlterConfigs", "plimsoll-world")])


def test_only_the_tables_are_written() -> None:
    """The page around the tables is as it was; each recorded request is in them."""
    page = pages()["own-cluster-safety.md"]
    assert "## What a crash leaves" in page
    assert all(each["request"] in page and f"`{each['client_id']}`" in page for each in read(RESULTS))
