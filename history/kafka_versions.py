"""Kafka's versions: features, behaviour and bugs."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple


class Version(NamedTuple):
    """A Kafka version; ``3.9`` is 3.9.0."""

    major: int
    minor: int
    patch: int = 0

    @classmethod
    def parse(cls, text: str) -> Version:
        """Parse ``3.9.1``, ``3.9.1-SNAPSHOT``, ``v3.9`` or ``3.9-IV0``.

        Raises: ValueError.
        """
        match = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", text)
        if match is None:
            raise ValueError(f"{text!r} is no version such as 3.9.1")
        return cls(*(int(number) for number in match.groups(default="0")))

    @property
    def minor_release(self) -> str:
        return f"{self.major}.{self.minor}"

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"


Mode = Literal["kraft", "zookeeper"]


class Span(NamedTuple):
    """Versions from ``since`` to before ``before``; None: unlimited, or both modes."""

    since: Version
    before: Version | None = None
    mode: Mode | None = None

    def __contains__(self, version: object) -> bool:
        return isinstance(version, Version) and self.since <= version and (self.before is None or version < self.before)


OLDEST = Version(2, 8)  # replica-level observation
RELEASES = (OLDEST, *(Version(3, minor) for minor in range(10)), *(Version(4, minor) for minor in range(5)))

DEFAULT_RELEASE = "4.4.0"
# Newest patches by 2026-11; 4.4.0 has no kafka-tools on Maven Central.
CLIENT_RELEASES = (
    *("4.3.1", "4.2.1", "4.1.2", "4.0.2"),
    *("3.9.2", "3.8.1", "3.7.2", "3.6.2", "3.5.2", "3.4.1", "3.3.2", "3.2.3", "3.1.2", "3.0.2"),
    "2.8.2",
)

FEATURES = {
    "zookeeper": Span(OLDEST, Version(4, 0)),
    "kraft": Span(Version(3, 3)),  # KIP-833, KIP-778
    "kraft_scram": Span(Version(3, 5)),  # KIP-900; ZooKeeper: all versions
    "sasl_from_java_23": Span(Version(3, 9, 1)),  # KAFKA-17078
    "kraft_jbod": Span(Version(3, 7)),  # KIP-858; ZooKeeper: all versions
    # KAFKA-15583, KIP-966: the high watermark stops below min.insync.replicas.
    "strict_min_isr": Span(Version(3, 7)),
    "consumer_protocol": Span(Version(4, 0)),  # KIP-848; preview from 3.7
    "share_groups": Span(Version(4, 2)),  # KIP-932; preview in 4.1
    "elr": Span(Version(4, 0)),  # KIP-966; unusable in 3.7 to 3.9
}

AFFECTED = {
    "KAFKA-13091": (Span(Version(2, 7), Version(3, 1)),),
    "KAFKA-13141": (Span(OLDEST, Version(2, 8, 1)),),
    "KAFKA-14704": (Span(OLDEST, Version(3, 3, 3)), Span(Version(3, 4), Version(3, 4, 1))),
    "KAFKA-15583": (Span(OLDEST, Version(3, 7)),),
    "KAFKA-18723": (Span(OLDEST, Version(3, 9, 1)), Span(Version(4, 0), Version(4, 0, 1))),
    "KAFKA-18991": (Span(OLDEST, Version(3, 9, 1)), Span(Version(4, 0), Version(4, 0, 1))),
    "KIP-966": (Span(Version(4, 0)),),
    # No known issue. Since KAFKA-14704 a follower that truncates expects the high watermark in the next response, but
    # an incremental fetch session omits values already sent.
    "STALE-HW": (Span(Version(3, 4, 1)),),
    # No known issue. In KRaft up to metadata.version 3.5, an ISR shrink began a new leader epoch, and the leader forgot
    # which replicas had caught up (KAFKA-15021). The oldest ZooKeeper version run was 3.3.2.
    "HW-WAITS": (Span(Version(3, 6), mode="kraft"), Span(Version(3, 3), Version(4, 0), mode="zookeeper")),
    # KAFKA-1382 recurs with ZooKeeper since controllers write the ISR (KIP-497): a retried write fails on its own
    # version, and the controller never refreshes its cache.
    "STALE-ISR": (Span(OLDEST, Version(4, 0), mode="zookeeper"),),
}

# Last metadata.version level of each minor release.
METADATA_LEVELS = {
    Version(3, 2): 3,
    Version(3, 3): 7,
    Version(3, 4): 8,
    Version(3, 5): 11,
    Version(3, 6): 14,
    Version(3, 7): 19,
    Version(3, 8): 20,
    Version(3, 9): 21,
    Version(4, 0): 25,
    Version(4, 1): 27,
    Version(4, 2): 29,
    Version(4, 3): 30,
    Version(4, 4): 33,
}


def has(feature: str, kafka_version: str) -> bool:
    """Return whether a version has a feature, as one without a number has."""
    try:
        return Version.parse(kafka_version) in FEATURES[feature]
    except ValueError:
        return FEATURES[feature].before is None


def usual_mode(kafka_version: str) -> Mode:
    """Return a version's default mode."""
    return "kraft" if has("kraft", kafka_version) else "zookeeper"


def affected(issue: str, kafka_version: str, mode: str | None = None) -> bool:
    """Return whether a version has a bug in a mode (None: any)."""
    try:
        version = Version.parse(kafka_version)
    except ValueError:
        return False
    return any(version in span and (None in (mode, span.mode) or mode == span.mode) for span in AFFECTED[issue])


def affected_range(issue: str) -> str:
    """Return affected versions in words: ``from 3.6.0 on with KRaft``."""
    return ", and ".join(map(_in_words, AFFECTED[issue]))


def _in_words(span: Span) -> str:
    until = "on" if span.before is None else f"to before {span.before}"
    mode = {None: "", "kraft": " with KRaft", "zookeeper": " with ZooKeeper"}[span.mode]
    return f"from {span.since} {until}{mode}"
