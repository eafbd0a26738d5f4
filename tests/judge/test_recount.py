"""An independent count of a run's records."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.judge import recount

OWN = {"sent": 4, "acked": 3, "lost": 1, "duplicated": 1, "duplicate_copies": 2}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run with three acknowledged records: one is lost, and one is read three times.

    The live consumer read all of them, and a copier copied two to another topic.
    """
    outcomes = enumerate(["ok", "ok", "ok", "info"])
    sends = [{"topic": "orders", "producer_id": "load-1", "seq": seq, "outcome": outcome} for seq, outcome in outcomes]
    polls = [{"topic": "orders", "producer_id": "load-1", "seq": seq, "pass": "final"} for seq in (0, 0, 0, 2)]
    polls += [{"topic": "copies", "producer_id": "load-1", "seq": seq, "pass": "final"} for seq in (0, 1)]
    polls += [{"topic": "orders", "producer_id": "load-1", "seq": seq, "pass": "live"} for seq in (0, 1, 2)]
    for name, rows in {"sends": sends, "polls": polls}.items():
        (tmp_path / name).mkdir()
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / name / "0.parquet")
    (tmp_path / "verdict").mkdir()
    return tmp_path


@pytest.mark.parametrize(("lost", "unseen", "code"), [(1, 0, 0), (0, 1, 0), (0, 0, 1)])
def test_a_verdict_that_says_otherwise_is_found(run: Path, lost: int, unseen: int, code: int) -> None:
    """A verdict that differs by one record is found; an unseen record of the judge's counts as not read."""
    delivery = OWN | {"lost": lost, "unseen": unseen}
    (run / "verdict" / "verdict.json").write_text(json.dumps({"delivery": delivery}))

    assert recount.recount(run) == OWN
    assert recount.main([str(run)]) == code


def test_a_run_whose_clients_never_began_has_nothing(tmp_path: Path) -> None:
    """A run whose clients never started has empty tables, and all its counts are 0."""
    for name in ("sends", "polls"):
        (tmp_path / name).mkdir()

    assert set(recount.recount(tmp_path).values()) == {0}
