"""Store rows in a file as they are made, so that an interrupted series continues."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

Case = TypeVar("Case")
Row = dict[str, Any]


def make_missing(
    file: Path,
    key: str,
    cases: Mapping[str, Case],
    names: Iterable[str],
    *,
    attempt: Callable[[Case], Row],
    tell: Callable[[Row], str],
) -> list[Row]:
    """Make missing or named rows; return all in the order of ``cases``.

    ``key`` is the column of a case's name.
    """
    rows: dict[str, Row] = {row[key]: row for row in json.loads(file.read_text())} if file.exists() else {}
    wanted = set(names)
    for name, case in cases.items():
        if name in wanted or (not wanted and name not in rows):
            rows[name] = attempt(case)
            ordered = [rows[each] for each in cases if each in rows]
            file.write_text(json.dumps(ordered, indent=1) + "\n")
            print(tell(rows[name]), flush=True)
    return list(rows.values())
