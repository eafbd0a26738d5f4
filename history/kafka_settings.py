"""Kafka's setting names by release, and errors for unknown names.

``bench/kafka_settings.py`` generates the table from each release's own list.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Literal

from history.kafka_versions import RELEASES, Version

TABLE = Path(__file__).with_name("kafka_settings.json")
Kind = Literal["broker", "topic"]
# Settings that Kafka does not list, read by plug-ins and parts of Kafka; prefixes end with a dot.
OPEN: Mapping[Kind, tuple[str, ...]] = {
    "broker": (
        "listener.name.",  # per listener (KIP-103)
        "config.providers.",  # KIP-297
        "rsm.config.",  # remote storage manager (KIP-405)
        "rlmm.config.",  # remote log metadata manager
        "super.users",  # Kafka's authorizers
        "allow.everyone.if.no.acl.found",
        "leader.replication.throttled.rate",  # set dynamically (KIP-73, KIP-113)
        "follower.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
    ),
    "topic": (),
}


@cache
def _table() -> Mapping[str, Mapping[str, tuple[Version, Version]]]:
    """Return kind → name → (first, last) minor release with the setting."""

    def span(written: str) -> tuple[Version, Version]:
        since, _, last = written.partition("-")
        return Version.parse(since), Version.parse(last) if last else RELEASES[-1]

    rows: dict[str, dict[str, str]] = json.loads(TABLE.read_text())
    return {kind: {name: span(written) for name, written in names.items()} for kind, names in rows.items()}


def _line(version: Version) -> Version:
    """Return a version's minor release, or the table's nearest earlier one."""
    return max((release for release in RELEASES if release <= version), default=RELEASES[0])


def unknown_setting(
    kind: Kind,
    name: str,
    versions: Iterable[Version] = (),
    allowed: Collection[str] = (),
    *,
    remedy: str = "name it in allow_unknown",
) -> str | None:
    """Return a sentence (no full stop) if none of these versions has the setting, else None.

    No versions: any release counts. A custom build counts as the preceding release. ``allowed``: extra names, and
    prefixes with a final dot.
    """
    if any(name.startswith(each) if each.endswith(".") else name == each for each in (*OPEN[kind], *allowed)):
        return None
    known, lines = _table()[kind], [_line(version) for version in versions]
    since, last = known.get(name, (None, None))
    if since and last and (not lines or any(since <= line <= last for line in lines)):
        return None
    of = " and ".join(f"Kafka {line.minor_release}" for line in sorted(set(lines))) or "Kafka"
    if since and last:
        has = f"it is one from {since.minor_release} to {last.minor_release}"
        return f"{name} is no {kind} setting of {of}; {has}"
    there = [each for each, (first, end) in known.items() if not lines or any(first <= line <= end for line in lines)]
    near = get_close_matches(name.lower().replace("_", "."), there, n=1)
    other: Kind = "topic" if kind == "broker" else "broker"
    if name in _table()[other]:
        own = next((each for each in (f"log.{name}", name.removeprefix("log.")) if each in there), None)
        return f"{name} is a {other} setting of Kafka, and no {kind} setting" + (
            f"; the latter is {own}" if own else ""
        )
    hint = f"did you mean {near[0]}? Else" if near else "if a plug-in reads it,"
    return f"{name} is no {kind} setting of {of}; {hint} {remedy}"
