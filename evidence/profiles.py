"""Which evidence a run has by the way it was recorded, and so which checks can be made."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from evidence.sources import Source, sources
from history.manifest import Manifest


class Profile(NamedTuple):
    """The sources of a kind of run; ``words`` name them in a verdict. ``only`` is None if a run may have all."""

    words: str
    only: frozenset[Source] | None = None

    def allows(self, reads: Collection[str]) -> bool:
        """Return whether a check that reads these sources can be made."""
        return self.only is None or self.only.issuperset(reads)


RECORDED = Profile("clients, every replica, the controller's history, server logs and segments")
IMPORTED = Profile("clients alone", sources("sends", "polls", "seeks"))
WATCHED = Profile("the offsets of every replica and the brokers' metadata", sources("replicas", "isr"))


def profile_of(manifest: Manifest) -> Profile:
    """Return the profile of a run."""
    return WATCHED if manifest.watched else IMPORTED if manifest.foreign else RECORDED
