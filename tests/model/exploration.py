"""Store the results of ``python -m tests.model.explore`` in docs/data/exploration.json.

A seed depends on its generator: rows have digests of the generator's and the judge's source.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.rows import DATA, Row, read, write

RESULTS = DATA / "exploration.json"
KEY = ("generator", "judge", "first_seed")


def key_of(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return a row's identity: generator, judge and first seed."""
    return tuple(row[name] for name in KEY)


def keep(row: Row, file: Path = RESULTS) -> None:
    """Replace the row with the same key."""
    rows = [other for other in read(file) if key_of(other) != key_of(row)]
    write(file, [*rows, row])


def figure(rows: Sequence[Mapping[str, Any]]) -> str:
    """Describe the newest generator's and judge's rows, and the sum."""
    last = rows[-1]
    newest = [row for row in rows if all(row[name] == last[name] for name in KEY[:2])]
    seeds = " and ".join(f"{row['first_seed']} to {row['next_seed'] - 1}" for row in newest)
    wrong = sum(len(row["failing"]) for row in newest)
    return (
        f"{_summed(newest)}, seeds {seeds} of generator {last['generator']}, judge {last['judge']}: {wrong} wrong "
        f"answers; {_summed(rows)} with earlier generators and judges"
    )


def _summed(rows: Sequence[Mapping[str, Any]]) -> str:
    histories, minutes, cpu = (sum(row[name] for row in rows) for name in ("histories", "minutes", "cpu_minutes"))
    return f"{histories:,} histories in {minutes:.0f} min ({cpu:.0f} of CPU)"
