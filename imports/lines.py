"""Lines of a foreign file, and sentences about the ones that cannot be used."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from history.errors import BadInput

_INT64 = range(-(2**63), 2**63)


@dataclass(frozen=True)
class Line:
    """Where something stands in a file."""

    path: Path
    number: int  # from 1

    def refuse(self, why: str) -> NoReturn:
        """Raise BadInput: one sentence with the file, the line and what is wrong with it."""
        raise BadInput(f"{self.path}, line {self.number}: {why}")

    def integer(self, value: Any, name: str) -> int:
        """A whole number of 64 bits."""
        if isinstance(value, bool) or not isinstance(value, int) or value not in _INT64:
            self.refuse(f"{name} must be a whole number of 64 bits, not {_short(value)}.")
        return value

    def offset(self, value: Any) -> int | None:
        """An offset that an acknowledgement may lack; clients say -1 for one that was never told (acks=0)."""
        number = None if value is None else self.integer(value, "offset")
        return None if number is None or number < 0 else number

    def scalar(self, value: Any, name: str) -> Any:
        """A JSON scalar."""
        if isinstance(value, (list, dict)):
            self.refuse(f"{name} must be a string, a number, true, false or null, not {_short(value)}.")
        return value

    def field(self, row: Mapping[str, Any], name: str) -> Any:
        """A field that must be there."""
        if name not in row:
            self.refuse(f"the field {name!r} is missing.")
        return row[name]


def read_text(path: Path) -> str:
    """A file's text.

    Raises:
        BadInput: it cannot be read, or is not UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise BadInput(f"The history {path} cannot be read: {error.strerror or error}.") from error
    except UnicodeDecodeError as error:
        line = Line(path, error.object.count(b"\n", 0, error.start) + 1)
        line.refuse("the bytes are not UTF-8.")


def json_lines(path: Path) -> Iterator[tuple[Line, dict[str, Any]]]:
    """The objects of a file of JSON lines; blank lines are passed over.

    Raises:
        BadInput: the file cannot be read, or a line is no JSON object.
    """
    for number, text in enumerate(read_text(path).split("\n"), start=1):
        if not text.strip():
            continue
        line = Line(path, number)
        try:
            row = json.loads(text, parse_constant=_no_constant, object_pairs_hook=_object)
        except (ValueError, RecursionError) as error:
            line.refuse(f"this is not JSON ({error}): {_short(text)}.")
        if not isinstance(row, dict):
            line.refuse(f"a JSON object is needed, not {_short(row)}.")
        yield line, row


def json_text(value: Any) -> str:
    """A scalar as JSON: its identity (1, 1.0, true and "1" are four values)."""
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace").decode()


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON value")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; of a name that stands twice JSON does not say which is meant (RFC 8259, section 4)."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"the name {name!r} stands twice in an object")
        found[name] = value
    return found


def _short(value: Any) -> str:
    text = value.strip() if isinstance(value, str) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
