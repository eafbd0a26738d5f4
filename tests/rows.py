"""Read and write the rows of docs/data/, which recordings make and pages show."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "docs" / "data"
Row = dict[str, Any]


def read(file: Path) -> list[Row]:
    """Return the rows; there are none before the first recording."""
    rows: list[Row] = json.loads(file.read_text()) if file.exists() else []
    return rows


def write(file: Path, content: Any) -> None:
    """Replace the content of a file."""
    file.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def put(file: Path, key: str, fresh: Iterable[Row], order: Callable[[Row], Any] | None = None) -> list[Row]:
    """Add rows, or replace those with the same ``key``, and return all; ``order`` sorts them."""
    rows = [*({row[key]: row for row in read(file)} | {row[key]: row for row in fresh}).values()]
    if order:
        rows.sort(key=order)
    write(file, rows)
    return rows


def today() -> str:
    """Return the date of a row."""
    return f"{datetime.now(UTC):%Y-%m-%d}"
