"""What runs have left on a cluster of others is removed."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from clusters.attached.discover import Broker, Discovered
from clusters.attached.own_topics import Removed
from clusters.attached.registry import Entry
from clusters.run import clean_cluster as module
from clusters.run.clean_cluster import clean_cluster
from clusters.runtimes.ports import Endpoint
from history.errors import HarnessError


class FakeRegistry:
    """Entries of three runs of this host."""

    def __init__(self, *_: object) -> None:
        pass

    def entries(self) -> dict[str, Entry]:
        host = socket.gethostname()
        topics = {f"p-{run}-1": run for run in "abc"}
        return {
            topic: Entry(topic=topic, run=f"/gone/{run}", host=host, boot_id="", at="") for topic, run in topics.items()
        }


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Return the topics that the cluster keeps."""
    kept: set[str] = set()

    def remove(_registry: object, _connection: object, entries: Iterable[Entry]) -> Removed:
        names = [entry.topic for entry in entries]
        return Removed([name for name in names if name not in kept], [name for name in names if name in kept], [])

    found = Discovered("abc", {1: Broker(1, Endpoint("b1", 9092))}, {})
    fakes: dict[str, Any] = {
        "discover": lambda *_: found,
        "Registry": FakeRegistry,
        "remove": remove,
        "is_leased": lambda _: False,
    }
    for name, fake in fakes.items():
        monkeypatch.setattr(module, name, fake)
    monkeypatch.setattr(module.AnyBroker, "connection", lambda _: nullcontext())
    (tmp_path / "mine.yaml").write_text("bootstrap: [b1:9092]")
    return kept


def test_topics_that_the_cluster_keeps_are_listed_at_the_end(kept: set[str], tmp_path: Path) -> None:
    """The topics of the other runs are deleted."""
    kept |= {"p-a-1", "p-c-1"}
    done: list[str] = []
    with pytest.raises(HarnessError, match="so these remain: p-a-1, p-c-1; ask its owner"):
        done.extend(clean_cluster(tmp_path / "mine.yaml", everything=False))
    assert [line for line in done if line.startswith("topic")] == ["topic p-b-1: deleted"]


def test_a_cluster_that_keeps_nothing_is_clean(kept: set[str], tmp_path: Path) -> None:
    """Nothing is raised, and each run's topics are named."""
    done = list(clean_cluster(tmp_path / "mine.yaml", everything=False))
    assert [line for line in done if line.startswith("topic")] == [f"topic p-{run}-1: deleted" for run in "abc"]
