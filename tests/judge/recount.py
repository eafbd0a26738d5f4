"""Count losses and duplicates from a run's raw ledgers, without Spark or the judge's code.

``python -m tests.judge.recount RUN …`` exits with 1 if a verdict.json differs.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq


def recount(run: Path) -> dict[str, int]:
    """Count sent, acknowledged, lost and duplicated records with sets."""
    sends = _rows(run / "sends", ["topic", "producer_id", "seq", "outcome"])
    polls = _rows(run / "polls", ["topic", "producer_id", "seq", "pass"])
    acked = {_record(row) for row in sends if row["outcome"] == "ok"}
    sent_to = {row["topic"] for row in sends}  # a copier's output does not come from a producer
    copies = Counter(_record(row) for row in polls if row["pass"] == "final" and row["topic"] in sent_to)
    return {
        "sent": len(sends),
        "acked": len(acked),
        "lost": len(acked - copies.keys()),
        "duplicated": sum(count > 1 for count in copies.values()),
        "duplicate_copies": sum(count - 1 for count in copies.values()),
    }


def _record(row: dict[str, Any]) -> tuple[str, str, int]:
    return row["topic"], row["producer_id"], row["seq"]


def _rows(table: Path, columns: list[str]) -> list[dict[str, Any]]:
    return [row for file in sorted(table.glob("*.parquet")) for row in pq.read_table(file, columns=columns).to_pylist()]


def judged(run: Path) -> dict[str, int]:
    """Return the judge's figures; unseen records count as lost."""
    delivery = json.loads((run / "verdict" / "verdict.json").read_text())["delivery"]
    return {
        **{name: delivery[name] for name in ("sent", "acked", "duplicated", "duplicate_copies")},
        "lost": delivery["lost"] + delivery["unseen"],
    }


def main(folders: list[str]) -> int:
    """Compare, print, and return 1 if one differs."""
    differ = 0
    for folder in map(Path, folders):
        own, theirs = recount(folder), judged(folder)
        differ |= own != theirs
        print(folder.name, own, "agrees" if own == theirs else f"DIFFERS from {theirs}")
    return differ


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
