"""Registered topics are removed from a cluster."""

from __future__ import annotations

from typing import Any, cast

import pytest

from clusters.attached import own_topics
from clusters.attached.own_topics import remove
from clusters.attached.registry import Entry


class FakeRegistry:
    """Keeps whose entries were removed."""

    def __init__(self) -> None:
        self.forgotten: list[str] = []

    def forget(self, topic: str) -> None:
        self.forgotten.append(topic)


def entry(topic: str, topic_id: str | None) -> Entry:
    """Return a registered topic."""
    return Entry(topic=topic, topic_id=topic_id, run="/runs/x", host="laptop", boot_id="b", at="2026-11-29T20:00:00Z")


def test_each_registered_topic_is_deleted_by_its_id(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was made anew is left alone, one that was never created only forgotten; the cluster may keep one."""
    ids = {"a": "id-a", "b": "id-new", "d": "id-d", "kept": "id-k"}
    deleted: list[tuple[str, str]] = []

    def delete(_: object, topic: str, topic_id: str) -> bool:
        deleted.append((topic, topic_id))
        return topic != "kept"

    monkeypatch.setattr(own_topics, "topic_ids", lambda _, topics: {topic: ids.get(topic) for topic in topics})
    monkeypatch.setattr(own_topics, "delete_topic", delete)
    registry = FakeRegistry()
    entries = [entry("a", "id-a"), entry("b", "id-b"), entry("c", None), entry("d", None), entry("kept", "id-k")]
    removed = remove(cast("Any", registry), cast("Any", None), entries)
    assert deleted == [("a", "id-a"), ("d", "id-d"), ("kept", "id-k")]
    assert removed == (["a", "d"], ["kept"], ["b"])
    assert registry.forgotten == ["a", "b", "c", "d"]
