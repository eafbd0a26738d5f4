"""Which evidence a run has by the way it was recorded, and so which checks can be made."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from evidence.sources import Source, sources
from history.manifest import Manifest, words_of
from history.words import listed

_WORDS = {"history": "the controller's history"}


class Profile(NamedTuple):
    """The sources of a kind of run; ``words`` name them in a verdict. ``only`` is None if a run may have all."""

    words: str
    only: frozenset[str] | None = None

    def allows(self, reads: Collection[str]) -> bool:
        """Return whether a check that reads these sources can be made."""
        return self.only is None or self.only.issuperset(reads)

    def lacking(self, *names: Source) -> str:
        """Return which of the sources are missing, in words."""
        lacking = () if self.only is None else [name for name in names if name not in self.only]
        return listed([_WORDS.get(name, name) for name in lacking])


RECORDED = Profile("clients, every replica, the controller's history, server logs and segments")
IMPORTED = Profile("clients alone", sources("sends", "polls", "seeks"))
WATCHED = Profile("the offsets of every replica and the brokers' metadata", sources("replicas", "followers", "isr"))


def attached(evidence: frozenset[str]) -> Profile:
    """Return the profile of a run on a cluster of others."""
    return Profile(words_of(evidence), evidence)


def profile_of(manifest: Manifest) -> Profile:
    """Return the profile of a run."""
    if manifest.evidence is not None:
        return attached(manifest.evidence)
    return WATCHED if manifest.watched else IMPORTED if manifest.foreign else RECORDED
