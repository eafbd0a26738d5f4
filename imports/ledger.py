"""Read ledgers: JSON lines with the columns of ``sends`` and ``polls``, and topics' settings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from history.tables import POLLS, SENDS
from imports.lines import Line, Unread, json_lines, json_text
from imports.records import Declared, Row, Tables, topic_setting_refused

SCHEMAS = {"sends": SENDS, "polls": POLLS}
TOPICS = "topics"
KEYED = ("key", "tombstone")  # fields of a send that are not columns
WORDS = {
    "outcome": ("ok", "fail", "info"),
    "acks": ("0", "1", "all"),
    "pass": ("live", "final", "incomplete"),
    "isolation": ("read_uncommitted", "read_committed"),
}


def read(paths: Sequence[Path]) -> Tables:
    """Read ledgers; raise BadInput if a file cannot be read, or a line is not a row."""
    found: dict[str, list[Row]] = {name: [] for name in SCHEMAS}
    topics: dict[str, Declared] = {}
    imported: list[Row] = []
    sent: dict[tuple[Any, ...], Line] = {}
    unread = Unread()
    for path in paths:
        for line, row in json_lines(path, unread):
            name = line.field(row, "table")
            if name == TOPICS:
                topics |= _declared(line, row)
                continue
            if not isinstance(name, str) or name not in SCHEMAS:
                line.refuse(f"table must be one of {', '.join([*SCHEMAS, TOPICS])}, not {name!r}.")
            keyed = {each: row.pop(each, None) for each in KEYED} if name == "sends" else {}
            found[name].append(_row(line, SCHEMAS[name], row))
            if name == "sends":
                _refuse_second(line, found[name][-1], sent)
                imported += _keyed(line, found[name][-1], keyed)
    return Tables(found["sends"], found["polls"], imported, gaps=unread.gaps, topics=topics)


def _declared(line: Line, row: Row) -> dict[str, Declared]:
    topic, config, deleted = line.field(row, "topic"), row.get("config", {}), row.get("deleted", False)
    if not isinstance(topic, str) or not re.fullmatch(r"[a-zA-Z0-9._-]{1,249}", topic):
        line.refuse(f"topic must be the name of a topic of Kafka, of letters, digits, '.', '_' and '-', not {topic!r}.")
    if not isinstance(config, dict) or not isinstance(deleted, bool):
        line.refuse(
            "a row of topics has config, an object, and deleted, true or false; correct them or leave them out."
        )
    if unknown := row.keys() - {"table", "topic", "config", "deleted"}:
        line.refuse(f"{min(unknown)!r} is no column of topics; its columns are topic, config, deleted.")
    settings = {name: _setting(line.scalar(value, f"config.{name}")) for name, value in config.items()}
    for name, value in settings.items():
        if why := topic_setting_refused(name, value):
            line.refuse(f"config: {why}")
    return {topic: Declared(settings, deleted)}


def _setting(value: Any) -> str:
    return value if isinstance(value, str) else json_text(value)


def _keyed(line: Line, row: Row, keyed: Row) -> Iterator[Row]:
    key, tombstone = line.scalar(keyed["key"], "key"), keyed["tombstone"]
    if tombstone not in (None, True, False):
        line.refuse(f"tombstone must be true or false, not {tombstone!r}.")
    if key is not None:
        named = {name: row[name] for name in ("topic", "partition", "producer_id", "seq")}
        value = None if tombstone else f"{row['producer_id']}/{row['seq']}"
        yield named | {
            "key": json_text(key),
            "value": json_text(value),
            "operation": None,
            "record_key": json_text(key),
        }


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
        offset = line.offset(columns["offset"])
        if offset is None and not schema.field("offset").nullable:
            line.refuse(f"a record that was read must have an offset from 0 on, not {columns['offset']}.")
        columns["offset"] = offset
    return {name: columns.get(name) for name in schema.names}


def _fits(value: Any, kind: pa.DataType) -> bool:
    """Pyarrow would store 1.5 as 1."""
    wanted = str if pa.types.is_string(kind) else bool if pa.types.is_boolean(kind) else int
    if pa.types.is_integer(kind):
        return type(value) is int and -(2 ** (kind.bit_width - 1)) <= value < 2 ** (kind.bit_width - 1)
    return type(value) is wanted


def _refuse_second(line: Line, row: Row, sent: dict[tuple[Any, ...], Line]) -> None:
    record = (row["topic"], row["partition"], row["producer_id"], row["seq"])
    if record in sent:
        line.refuse(
            f"record {row['producer_id']}/{row['seq']} was sent before, on {sent[record].seen_from(line)}; number a "
            "producer's records."
        )
    sent[record] = line
