"""Mutations of valid documents: of one value, of the text, of one line or token."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from datetime import date
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import yaml

Place: TypeAlias = tuple[str | int, ...]


class Input(NamedTuple):
    """A document, its change, and words of which the message must contain one, if any."""

    what: str
    content: bytes
    says: tuple[str, ...] = ()
    always: bool = False  # tried before the random choice


# --- mutations of values -----------------------------------------------------------------------------

_LONG = "x" * 10_000
VALUES: Mapping[str, Any] = {
    "null": None,
    "a list": [1],
    "an empty list": [],
    "a mapping": {"x": 1},
    "an empty mapping": {},
    "another word": "nonsense",
    "an empty text": "",
    "a long text": _LONG,
    "-1": -1,
    "0": 0,
    "1.5": 1.5,
    "NaN": float("nan"),
    "infinity": float("inf"),
    "a number of 62 bits": 2**62,
    "a huge number": 10**30,
    "a number of 401 digits": 10**400,
    "true": True,
    "a wrong unit": "5 parsecs",
    "a date": date(2024, 2, 29),
    "shell text": "$(touch plimsoll-was-here)",
    "a path": "../../../../etc/passwd",
    "a NUL": "a\0b",
    "a lone line feed": "a\nb",
}


def places(document: Any, above: Place = ()) -> Iterator[Place]:
    """Yield a document's places, from the top down."""
    if above:
        yield above
    inner = document.items() if isinstance(document, dict) else enumerate(document) if _is_list(document) else ()
    for key, value in inner:
        yield from places(value, (*above, key))


def _is_list(value: object) -> bool:
    return isinstance(value, list)


def changed(document: Any, place: Place, value: Any) -> Any:
    """Return a copy with another value at a place."""
    copy = deepcopy(document)
    _holder(copy, place)[place[-1]] = deepcopy(value)
    return copy


def without(document: Any, place: Place) -> Any:
    """Return a copy without a place."""
    copy = deepcopy(document)
    del _holder(copy, place)[place[-1]]
    return copy


def _holder(document: Any, place: Place) -> Any:
    for key in place[:-1]:
        document = document[key]
    return document


def of_values(document: Any) -> Iterator[tuple[str, Any]]:
    """Remove, add or replace one value at a time."""
    for place in places(document):
        named = "/".join(map(str, place))
        yield f"{named} is missing", without(document, place)
        for words, value in VALUES.items():
            yield f"{named} is {words}", changed(document, place, value)
        if isinstance(_at(document, place), dict):
            yield f"{named} has an unknown key", changed(document, (*place, "no_such_key"), 1)


def _at(document: Any, place: Place) -> Any:
    return _holder(document, (*place, ""))


# --- mutations of text -------------------------------------------------------------------------------


def of_text(text: str) -> Iterator[tuple[str, bytes]]:
    """Yield text that is cut, doubled, nested too deeply or in another encoding."""
    plain = text.encode()
    yield "empty", b""
    yield "blanks", b" \n\n"
    yield "NUL bytes", bytes(64)
    yield "not UTF-8", plain + b"\xff\xfe\xfa"
    yield "UTF-16", text.encode("utf-16")
    yield "Latin-1", b"\xe9: " + plain
    yield "a NUL within", plain[:20] + b"\0" + plain[20:]
    yield "an escape within", plain[:20] + b"\x1b[2J" + plain[20:]
    yield "nested lists", b"[" * 20_000
    yield "nested mappings", b'{"a":' * 20_000
    yield "closed twice", plain + b"\n]}"
    yield "an ELF header", b"\x7fELF\x02\x01\x01" + plain
    yield "HTML", b"<!doctype html><title>404</title>"
    for share in range(1, 20):
        yield f"cut after {share}/20", plain[: len(plain) * share // 20]


def of_yaml_text(text: str) -> Iterator[tuple[str, bytes]]:
    """Yield tabs, tags, anchors, duplicate keys and several documents."""
    lines = text.splitlines()
    tops = [line for line in lines if re.match(r"[a-z_]+:", line)]
    yield from of_text(text)
    yield "tabs", text.replace("  ", "\t").encode() + b"\n\tx: 1"
    yield "two documents", f"{text}\n---\n{text}".encode()
    yield "a comment alone", b"# nothing\n"
    yield "a scalar", b"just words\n"
    yield "a list", b"- a\n- b\n"
    yield "a Python object", b"!!python/object/apply:os.system ['touch plimsoll-was-here']\n"
    yield "an unknown tag", f"!secret\n{text}".encode()
    yield "an alias of nothing", f"{text}\nno_such_key: *nothing\n".encode()
    yield "an alias of itself", b"&a [*a]\n"
    yield "a mapping of itself", b"&a {name: *a}\n"
    yield "aliases that multiply", _multiplied().encode()
    yield "a merge key", f"{text}\n<<: {{no_such_key: 1}}\n".encode()
    yield "a date that is none", f"{text}\nno_such_key: 2024-02-30\n".encode()
    yield "a number of 5,000 digits", f"{text}\nno_such_key: {'9' * 5_000}\n".encode()
    yield "a key that is a list", f"{text}\n? [a, b]\n: 1\n".encode()
    yield "a key that is null", f"{text}\n~: 1\n".encode()
    yield "a key that is a number", f"{text}\n7: 1\n".encode()
    yield "megabytes", f"{text}\n# {'x' * (1 << 21)}\n".encode()
    for number, line in enumerate(tops):
        yield f"line {number} twice", f"{text}\n{line}\n".encode()


def _multiplied() -> str:
    """9^9 entries in 500 bytes."""
    rows = ["a: &a [x, x, x, x, x, x, x, x, x]"]
    for before, name in pairwise("abcdefghi"):
        rows.append(f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]")
    return "\n".join(rows)


def yaml_mutations(text: str) -> Iterator[Input]:
    """Yield all mutations of a YAML document."""
    yield from (Input(what, content, always=True) for what, content in of_yaml_text(text))
    for what, document in of_values(yaml.safe_load(text)):
        yield Input(what, dumped(document).encode())


def dumped(document: Any) -> str:
    """Return a document as YAML."""
    # thousands are written for a dozen that are tried; libyaml is five times faster
    return yaml.dump(document, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True, width=1000)


def json_mutations(text: str) -> Iterator[Input]:
    """Yield all mutations of a JSON document."""
    yield from (Input(what, content, always=True) for what, content in of_text(text))
    for what, document in of_values(json.loads(text)):
        yield Input(what, json.dumps(document, default=str).encode())


def lines_mutations(text: str) -> Iterator[Input]:
    """Yield mutations of a JSON lines file, line by line."""
    lines = text.splitlines()
    yield from (Input(what, content, always=True) for what, content in of_text(text) if not what.startswith("cut"))
    yield Input("the same history twice", f"{text}{text}".encode())
    for number, line in enumerate(lines):
        before, after = lines[:number], lines[number + 1 :]
        for share in range(1, 6):
            cut = [*before, line[: len(line) * share // 6], *after]
            yield Input(f"line {number + 1} is cut after {share}/6", "\n".join(cut).encode())
        for what, document in of_values(json.loads(line)):
            told = json.dumps(document, default=str)
            yield Input(f"line {number + 1}: {what}", "\n".join([*before, told, *after]).encode())


_EDN_TOKEN = re.compile(r':[\w-]+|"[^"]*"|\d+|[\[\]{}()]')
_EDN_VALUES = (
    "",
    ":x",
    '"x"',
    "nil",
    "-1",
    "1e999",
    "99999999999999999999999",
    "[",
    "}",
    "#inst 1",
    "##NaN",
    "\\",
    "#_",
)


def edn_mutations(text: str) -> Iterator[Input]:
    """Yield an EDN history with one token replaced."""
    yield from (Input(what, content, always=True) for what, content in of_text(text))
    for token in _EDN_TOKEN.finditer(text):
        for value in _EDN_VALUES:
            told = f"{text[: token.start()]}{value}{text[token.end() :]}"
            yield Input(f"{token[0]!r} at {token.start()} is {value!r}", told.encode())


def text_mutations(text: str) -> Iterator[Input]:
    """Yield the mutations of any text."""
    yield from (Input(what, content, always=True) for what, content in of_text(text))


def event_mutations(text: str) -> Iterator[Input]:
    """Add a valid line: a torn last line is allowed."""
    for each in json_mutations(text):
        yield each._replace(content=each.content + b"\n" + text.encode())
