"""Ledgers in our own words: JSON lines with the columns of the tables ``sends`` and ``polls``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from history.tables import POLLS, SENDS
from imports.lines import Line, json_lines
from imports.records import Row, Tables

SCHEMAS = {"sends": SENDS, "polls": POLLS}
WORDS = {
    "outcome": ("ok", "fail", "info"),
    "acks": ("0", "1", "all"),
    "pass": ("live", "final", "incomplete"),
    "isolation": ("read_uncommitted", "read_committed"),
}


def read(paths: Sequence[Path]) -> Tables:
    """Read ledgers.

    Raises:
        BadInput: a file cannot be read, or a line is no row of its table.
    """
    found: dict[str, list[Row]] = {name: [] for name in SCHEMAS}
    sent: dict[tuple[Any, ...], Line] = {}
    for path in paths:
        for line, row in json_lines(path):
            name = line.field(row, "table")
            if not isinstance(name, str) or name not in SCHEMAS:
                line.refuse(f"table must be one of {', '.join(SCHEMAS)}, not {name!r}.")
            found[name].append(_row(line, SCHEMAS[name], row))
            if name == "sends":
                _refuse_second(line, found[name][-1], sent)
    return Tables(found["sends"], found["polls"])


def _row(line: Line, schema: pa.Schema, row: Row) -> Row:
    columns = {name: value for name, value in row.items() if name != "table"}
    if unknown := columns.keys() - set(schema.names):
        line.refuse(f"{min(unknown)!r} is no column of {row['table']}; its columns are {', '.join(schema.names)}.")
    for column in schema:
        value = columns.get(column.name)
        if value is None and not column.nullable:
            line.refuse(f"the field {column.name!r} is missing.")
        if value is not None and not _fits(value, column.type):
            line.refuse(f"{column.name} must be of type {column.type}, not {value!r}.")
        if column.name in WORDS and value not in WORDS[column.name]:
            line.refuse(f"{column.name} must be one of {', '.join(WORDS[column.name])}, not {value!r}.")
    if columns.get("offset") is not None:
        columns["offset"] = line.offset(columns["offset"])
    return {name: columns.get(name) for name in schema.names}


def _fits(value: Any, kind: pa.DataType) -> bool:
    """Whether a JSON value is one of this type; pyarrow itself would take true for 1 and 1.5 for nothing."""
    wanted = str if pa.types.is_string(kind) else bool if pa.types.is_boolean(kind) else int
    if pa.types.is_integer(kind):
        return type(value) is int and -(2 ** (kind.bit_width - 1)) <= value < 2 ** (kind.bit_width - 1)
    return type(value) is wanted


def _refuse_second(line: Line, row: Row, sent: dict[tuple[Any, ...], Line]) -> None:
    record = (row["topic"], row["partition"], row["producer_id"], row["seq"])
    if record in sent:
        line.refuse(f"record {row['producer_id']}/{row['seq']} was sent before, on line {sent[record].number}.")
    sent[record] = line
