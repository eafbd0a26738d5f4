"""Read Jepsen's ``history.edn`` of a Kafka workload, operations in EDN."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import edn_format

from imports.lines import Line, read_text
from imports.operations import ASSIGNING, DATA, FUNCTIONS, TYPES, Operation, Polled, Sent, history_of
from imports.records import History

# Skip strings, characters and comments; count brackets.
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|;[^\n]*|\\.|[(\[{]|[)\]}]', re.DOTALL)
# Invalid EDN, such as 1/0.
_NOT_EDN = (
    edn_format.EDNDecodeError,
    *(ArithmeticError, ValueError, TypeError, AttributeError, NotImplementedError),
)
_TAG = re.compile(r"#([A-Za-z][\w.*+!\-?$%&=<>/]*)")
_BUILT_IN = {"inst", "uuid"}
_POSITION = re.compile(r"lexpos (\d+)|,(\d+)\)$")


def read(paths: Sequence[Path]) -> History:
    """Read histories in EDN: a sequence or a vector of operations.

    Raises:
        BadInput: a file cannot be read or understood.
    """
    return history_of(operation for path in paths for operation in _operations(path))


def _operations(path: Path) -> Iterator[Operation]:
    text = read_text(path)
    forms = _parse(path, text)
    lines = form_lines(text)
    for number, form in enumerate(forms):
        line = Line(path, lines[number] if len(lines) == len(forms) else 1)
        if not isinstance(form, Mapping):
            line.refuse(f"an operation must be a map, not {form!r}.")
        operation = _operation(line, {str(name).lstrip(":"): value for name, value in form.items()}, number)
        if operation is not None:
            yield operation


def _parse(path: Path, text: str) -> list[Any]:
    for tag in set(_TAG.findall(text)) - _BUILT_IN:
        edn_format.add_tag(tag, _untagged)  # records such as #jepsen.history.Op{…} are maps
    try:
        forms = edn_format.loads_all(text, write_ply_tables=False)
    except _NOT_EDN as error:
        Line(path, _line_of(error, text)).refuse(f"this is not EDN ({error}).")
    whole = len(forms) == 1 and isinstance(forms[0], (edn_format.ImmutableList, tuple))
    return list(forms[0]) if whole else forms


def _untagged(value: Any) -> Any:
    return value


def _line_of(error: Exception, text: str) -> int:
    match = _POSITION.search(str(error))
    at = int(match[1] or match[2]) if match else len(text.rstrip())
    return text.count("\n", 0, at) + 1


def form_lines(text: str) -> list[int]:
    """Return each operation's first line."""
    depth, outer, counted, line = 0, 0, 0, 1
    lines: list[int] = []
    for token in _TOKEN.finditer(text):
        mark = token[0]
        if mark in "([{":
            if depth == 0 and not lines and mark != "{":
                outer = 1
            if depth == outer and mark == "{":
                line += text.count("\n", counted, token.start())
                counted = token.start()
                lines.append(line)
            depth += 1
        elif mark in ")]}":
            depth -= 1
    return lines


def _operation(line: Line, form: dict[str, Any], number: int) -> Operation | None:
    """Return None for the nemesis and for operations without data about records."""
    process, kind, f = (_word(line.field(form, name)) for name in ("process", "type", "f"))
    if isinstance(process, bool) or not isinstance(process, int) or f not in FUNCTIONS:
        return None
    if kind not in TYPES:
        line.refuse(f":type must be one of {', '.join(TYPES)}, not {kind!r}.")
    value = form.get("value")
    seek = form.get("seek-to-beginning?") is True
    return Operation(
        line=line,
        index=line.integer(form.get("index", number), ":index"),
        process=str(process),
        type=kind,
        f=f,
        time_ns=line.integer(form.get("time", number), ":time"),
        mops=tuple(_mops(line, value)) if f in DATA else (),
        keys=_keys(line, value) if f in ASSIGNING else None,
        from_beginning=seek,
        rebalanced=tuple(_rebalanced(line, form["rebalance-log"])) if "rebalance-log" in form else None,
        error=None if form.get("error") is None else _plain(form["error"]),
    )


def _word(value: Any) -> Any:
    return value.name if isinstance(value, (edn_format.Keyword, edn_format.Symbol)) else value


def _scalar(line: Line, value: Any) -> Any:
    """Keywords, symbols and the like become their text."""
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, (Mapping, tuple, frozenset, edn_format.ImmutableList)):
        line.refuse(f"a key or a value must be a scalar, not {value!r}.")
    return str(value)


def _plain(error: Any) -> str:
    """``[:send-failed "x"]`` becomes ``:send-failed x``."""
    parts = error if isinstance(error, (edn_format.ImmutableList, tuple)) else [error]
    return " ".join(str(part) for part in parts)[:200]


def _list(line: Line, value: Any, what: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, (edn_format.ImmutableList, tuple, frozenset)):
        line.refuse(f"{what} must be a vector or a list, not {value!r}.")
    return list(value)


def _keys(line: Line, value: Any) -> tuple[Any, ...] | None:
    return None if value is None else tuple(_scalar(line, key) for key in _list(line, value, "the keys"))


def _mops(line: Line, value: Any) -> Iterator[Sent | Polled]:
    for mop in _list(line, value, ":value"):
        name, *rest = _list(line, mop, "a micro-operation") or [None]
        if _word(name) == "send" and len(rest) == 2:
            yield _sent(line, *rest)
        elif _word(name) == "poll" and len(rest) <= 1:
            yield from _polled(line, rest[0] if rest else None)
        else:
            line.refuse(f"a micro-operation must be [:send key value] or [:poll records], not {mop!r}.")


def _sent(line: Line, key: Any, value: Any) -> Sent:
    offset = None
    if isinstance(value, (edn_format.ImmutableList, tuple)):
        offset, value = _pair(line, value)
    return Sent(_scalar(line, key), _scalar(line, value), line.offset(offset))


def _polled(line: Line, records: Any) -> Iterator[Polled]:
    if not isinstance(records, Mapping | None):
        line.refuse(f"what a poll returned must be a map from key to records, not {records!r}.")
    for key, pairs in (records or {}).items():
        for pair in _list(line, pairs, "the records of a key"):
            offset, value = _pair(line, pair)
            known = line.offset(offset)
            if known is None:
                line.refuse("a polled record must have an offset.")
            yield Polled(_scalar(line, key), known, _scalar(line, value))


def _pair(line: Line, pair: Any) -> tuple[Any, Any]:
    parts = _list(line, pair, "a record")
    if len(parts) != 2:
        line.refuse(f"a record must be [offset value], not {pair!r}.")
    return parts[0], parts[1]


def _rebalanced(line: Line, log: Any) -> Iterator[Any]:
    for event in _list(line, log, ":rebalance-log"):
        if isinstance(event, Mapping):
            keys = event.get(edn_format.Keyword("keys"))
            yield from (_scalar(line, key) for key in _list(line, keys, "the keys of a rebalance"))
