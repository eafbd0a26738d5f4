"""Lines of a foreign file, and messages about unusable ones."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from history.errors import BadInput

_INT64 = range(-(2**63), 2**63)
_OTHER_BYTES = (
    (b"\x1f\x8b", "compressed by gzip", "unpack it with gunzip"),
    (b"\x28\xb5\x2f\xfd", "compressed by zstd", "unpack it with unzstd"),
    (b"PK\x03\x04", "a ZIP archive", "unpack it"),
    (b"\xff\xfe", "UTF-16", "convert it to UTF-8"),
    (b"\xfe\xff", "UTF-16", "convert it to UTF-8"),
)
# Events as Kafka's tools print them.
_PART_OF_EVENT = re.compile(r'\s*\{|.*("(name|timestamp|topic|partition|offset|value)"|\{"\w*$)')


@dataclass(frozen=True)
class Line:
    """A line of a file."""

    path: Path
    number: int  # from 1

    def refuse(self, why: str) -> NoReturn:
        """Raise BadInput with file, line and problem."""
        raise BadInput(f"{self.path}, line {self.number}: {why}")

    def seen_from(self, other: Line) -> str:
        """Name this line in a sentence about ``other``'s file."""
        return f"line {self.number}" + ("" if self.path == other.path else f" of {self.path}")

    def integer(self, value: Any, name: str) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value not in _INT64:
            self.refuse(f"{name} must be a whole number of 64 bits, not {_short(value)}.")
        return value

    def offset(self, value: Any) -> int | None:
        """Return an offset, or None if it is missing or -1 (acks=0)."""
        number = None if value is None else self.integer(value, "offset")
        return None if number is None or number < 0 else number

    def scalar(self, value: Any, name: str) -> Any:
        if isinstance(value, (list, dict)):
            self.refuse(f"{name} must be a string, a number, true, false or null, not {_short(value)}.")
        return value

    def field(self, row: Mapping[str, Any], name: str) -> Any:
        if name not in row:
            self.refuse(f"the field {name!r} is missing.")
        return row[name]


@dataclass
class Unread:
    """Skipped log lines, and ``gaps``, sentences on lost events.

    ``torn`` lines have part of an event of unknown kind.
    """

    log_lines: int = 0
    torn: list[Line] = field(default_factory=list)
    gaps: list[str] = field(default_factory=list)

    @property
    def notes(self) -> list[str]:
        return (
            [f"Lines of the history that hold no event and were passed over: {self.log_lines:,}."]
            if self.log_lines
            else []
        )


def read_text(path: Path) -> str:
    """Return a file's text without a byte order mark; raise BadInput if it is unreadable, compressed, or not UTF-8."""
    try:
        content = path.read_bytes()
        for magic, what, remedy in _OTHER_BYTES:
            if content.startswith(magic):
                raise BadInput(f"{path}, byte 0: the file is {what}; {remedy}.")
        return content.decode("utf-8-sig")
    except OSError as error:
        raise BadInput(f"The history {path} cannot be read: {error.strerror or error}.") from error
    except UnicodeDecodeError as error:
        line = Line(path, error.object.count(b"\n", 0, error.start) + 1)
        line.refuse(
            f"the bytes are not UTF-8. The first such byte is 0x{error.object[error.start]:02x}; convert the file."
        )


def json_lines(path: Path, unread: Unread, *, with_log_lines: bool = False) -> Iterator[tuple[Line, dict[str, Any]]]:
    """Yield the objects of a file of JSON lines; skip blank lines.

    A cut last line is a gap. ``with_log_lines``: count lines without an object; part of an object is a gap; an event
    may follow other text.

    Raises:
        BadInput: the file is unreadable, or a line is not a JSON object (with log lines: no line is).
    """
    texts = read_text(path).split("\n")
    last = max((number for number, text in enumerate(texts, start=1) if text.strip()), default=0)
    refused: BadInput | None = None
    read = False
    for number, text in enumerate(texts, start=1):
        if not text.strip():
            continue
        line = Line(path, number)
        try:
            row = _json_object(line, text)
        except BadInput as error:
            cut = number == last and _is_cut(text.strip(), error.__context__)
            whole = not isinstance(error.__context__, json.JSONDecodeError) and text.lstrip().startswith("{")
            if whole or not (cut or with_log_lines):
                raise
            refused = refused or error
            if cut:
                unread.gaps.append(f"{path.name}: output cut off in the middle of line {number}.")
                unread.torn.append(line)
            else:
                before, event = _split(text)
                _pass_over(line, before, unread)
                if event is not None:
                    read = True
                    yield line, event
            continue
        read = True
        yield line, row
    if refused is not None and not read:
        raise refused


def _split(text: str) -> tuple[str, dict[str, Any] | None]:
    """Return None if no whole event ends the line."""
    decoder = json.JSONDecoder(parse_constant=_no_constant, object_pairs_hook=_object)
    for brace in re.finditer(r'\{\s*"', text):
        try:
            row, end = decoder.raw_decode(text, brace.start())
        except (ValueError, RecursionError):
            continue
        if "name" in row and not text[end:].strip():
            return text[: brace.start()], row
    return text, None


def _pass_over(line: Line, text: str, unread: Unread) -> None:
    if _PART_OF_EVENT.match(text):
        unread.torn.append(line)
        unread.gaps.append(f"{line.path.name}, line {line.number}, holds part of an event: {_short(text)}.")
    else:
        unread.log_lines += 1


def _is_cut(text: str, error: BaseException | None) -> bool:
    incomplete = isinstance(error, json.JSONDecodeError) and (error.pos >= len(text) or not text.endswith("}"))
    return incomplete and text.startswith("{")


def _json_object(line: Line, text: str) -> dict[str, Any]:
    try:
        row = json.loads(text, parse_constant=_no_constant, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        what = f"{error.msg} at column {error.colno}"
        line.refuse(f"this is not JSON ({what}): {_short(text)}. Each line must be one JSON object.")
    except RecursionError:
        line.refuse(f"this is not JSON that can be read (nested too deeply): {_short(text)}.")
    except ValueError as error:
        line.refuse(f"this is not JSON ({error}): {_short(text)}.")
    if not isinstance(row, dict):
        line.refuse(f"a JSON object is needed, not {_short(row)}.")
    return row


def json_text(value: Any) -> str:
    """Return a scalar as JSON: 1, 1.0, true and "1" differ."""
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace").decode()


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON value; write null in its place")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Reject repeated names, whose meaning is undefined (RFC 8259, section 4)."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"an object has the name {name!r} twice; remove one")
        found[name] = value
    return found


def _short(value: Any) -> str:
    text = value.strip() if isinstance(value, str) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
