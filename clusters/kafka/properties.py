"""Read and write settings in Java's spelling, as in client.properties."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from history.errors import BadInput

_ENTRY = re.compile(r"((?:\\.|[^\s:=\\])+)\s*[:=]?\s*(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_NAMED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_PACKAGE = "org.apache.kafka.common.config.provider"
_PROVIDERS = {"file": "FileConfigProvider", "directory": "DirectoryConfigProvider", "env": "EnvVarConfigProvider"}
_REFERENCE = re.compile(r"\$\{(\w+):(?:([^:}]*):)?([^:}]*)\}")


def read_properties(path: Path) -> dict[str, str]:
    """Return a properties file's settings; BadInput if it cannot be read."""
    return parse_properties(_text(path))


def resolved(settings: Mapping[str, str], path: Path) -> dict[str, str]:
    """Return a file's settings with references to secrets resolved.

    ``${file:<path>:<key>}``, ``${directory:<path>:<file>}`` and ``${env::<variable>}`` are those of Kafka's config
    providers (KIP-421, KIP-614, KIP-887); relative paths start at the file's folder.

    Raises:
        BadInput: what a reference names cannot be read.
    """
    return {name: _REFERENCE.sub(lambda found: _resolved(found, path), text) for name, text in settings.items()}


def environment_of(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables that settings refer to."""
    return {found[3]: os.environ[found[3]] for found in _references(settings) if found[1] == "env"}


def providers_of(settings: Mapping[str, str]) -> dict[str, str]:
    """Return Java's settings for the references in others."""
    used = sorted({found[1] for found in _references(settings)} & _PROVIDERS.keys())
    classes = {f"config.providers.{name}.class": f"{_PACKAGE}.{_PROVIDERS[name]}" for name in used}
    return {"config.providers": ",".join(used), **classes} if used else {}


def _references(settings: Mapping[str, str]) -> Iterator[re.Match[str]]:
    return (found for text in settings.values() for found in _REFERENCE.finditer(text))


def parse_properties(text: str) -> dict[str, str]:
    """Return the entries of a text in the format of ``java.util.Properties``; the last of equal keys counts."""
    entries = (_ENTRY.fullmatch(line) for line in _logical_lines(text))
    return {_unescaped(found[1]): _unescaped(found[2]) for found in entries if found}


def render(settings: Mapping[str, str]) -> str:
    """Return a properties file that Java's ``Properties.load`` reads back unchanged."""
    return "".join(f"{_escaped(name, ' :=#!')}={_escaped_value(value)}\n" for name, value in sorted(settings.items()))


def _escaped_value(text: str) -> str:
    """Escape leading blanks, which Java would drop."""
    rest = text.lstrip(" ")
    return "\\ " * (len(text) - len(rest)) + _escaped(rest)


def _escaped(text: str, signs: str = "") -> str:
    named = {"\n": r"\n", "\r": r"\r", "\t": r"\t", "\f": r"\f", "\\": r"\\", **{sign: f"\\{sign}" for sign in signs}}
    units = memoryview(text.encode("utf-16-le")).cast("H")
    return "".join(named.get(chr(unit), chr(unit)) if unit < 128 else f"\\u{unit:04x}" for unit in units)


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path} cannot be read: {getattr(error, 'strerror', None) or 'it is not UTF-8'}.") from None


def _logical_lines(text: str) -> Iterator[str]:
    joined = ""
    for line in text.splitlines():
        stripped = line.lstrip()
        if not joined and stripped[:1] in ("", "#", "!"):
            continue
        joined += stripped
        if _continues(joined):
            joined = joined[:-1]
        else:
            yield joined
            joined = ""
    if joined:
        yield joined


def _continues(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _unescaped(text: str) -> str:
    found = _ESCAPE.sub(
        lambda found: chr(int(found[1][1:], 16)) if len(found[1]) == 5 else _NAMED.get(found[1], found[1]), text
    )
    return found.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # pairs of escapes


def _resolved(reference: re.Match[str], source: Path) -> str:
    provider, place, key = reference[1], reference[2] or "", reference[3]
    path = source.parent / place
    if provider == "env":
        found: Mapping[str, str] = os.environ
    elif provider == "directory":
        return _text(path / key)
    elif provider == "file":
        found = parse_properties(_text(path))
    else:
        raise BadInput(
            f"{source}: {reference[0]} names the provider {provider}; file, directory and env are supported."
        )
    if key not in found:
        raise BadInput(f"{source}: {reference[0]} names {key}, which does not exist.")
    return found[key]
