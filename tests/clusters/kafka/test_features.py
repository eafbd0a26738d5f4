"""Features of a cluster: their names, and the levels that a broker reports."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from clusters.kafka.features import finalise_metadata, finalised, level_name, metadata_level
from history.errors import BadInput, HarnessError


@pytest.mark.parametrize(
    ("release", "level"), [("3.3", 7), ("3.8", 20), ("3.9", 21), ("3.7-IV0", 15), ("3.7-IV4", 19), ("4.0", 25)]
)
def test_a_release_has_its_last_level(release: str, level: int) -> None:
    """A release maps to its last metadata.version level; an -IV version maps to its own level."""
    assert metadata_level(release) == level


def test_an_unknown_release_is_refused() -> None:
    """An unknown release is rejected with the list of known ones; 3.2 was a preview."""
    for release in ("9.9", "3.2"):
        with pytest.raises(BadInput, match=f"metadata.version of {release} are unknown; known: 3.3, 3.4"):
            metadata_level(release)


@pytest.mark.parametrize(("level", "name"), [(7, "3.3-IV3"), (8, "3.4-IV0"), (20, "3.8-IV0"), (25, "4.0-IV3")])
def test_a_level_is_told_by_its_name(level: int, name: str) -> None:
    """A level has the same name as in Kafka's own tools."""
    assert level_name(level) == name
    assert metadata_level(name) == level


def test_a_level_without_a_name_is_a_number() -> None:
    """A level that this project does not know is printed as a number."""
    assert [level_name(900), level_name(1)] == ["900", "1"]


def connection(answer: Any) -> tuple[Any, list[Any]]:
    """Return a connection that gives this answer to every request, and the list of its requests."""
    asked: list[Any] = []

    def send(request: Any) -> Any:
        asked.append(request)
        return answer

    return SimpleNamespace(send=send), asked


def test_kraft_brokers_report_levels() -> None:
    """KRaft brokers report metadata.version by name and other features as numbers."""
    told = [SimpleNamespace(name="metadata.version", max_version_level=21)]
    told.append(SimpleNamespace(name="eligible.leader.replicas.version", max_version_level=1))
    to, _ = connection(SimpleNamespace(finalized_features=told))

    assert finalised(to, 1, "kraft") == {"eligible.leader.replicas.version": "1", "metadata.version": "3.9-IV0"}


def test_zookeeper_brokers_report_their_protocol() -> None:
    """ZooKeeper brokers report inter.broker.protocol.version, read from the broker's configuration."""
    said = [SimpleNamespace(source=5, value="3.0-IV1")]
    config = SimpleNamespace(name="inter.broker.protocol.version", value="3.0-IV1", synonyms=said)
    to, asked = connection(SimpleNamespace(results=[SimpleNamespace(error_code=0, configs=[config])]))

    assert finalised(to, 2, "zookeeper") == {"inter.broker.protocol.version": "3.0-IV1"}
    assert asked[0].resources[0].resource_name == "2"


def test_a_refused_level_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rejected metadata.version is an error with the requested level; an accepted one is none."""
    answer = SimpleNamespace(error_code=95, error_message="too new", results=[])
    monkeypatch.setattr("clusters.kafka.features.to_controller", lambda *_: answer)
    to, _ = connection(None)
    with pytest.raises(HarnessError, match=r"raise metadata\.version to level 30.*too new"):
        finalise_metadata(to, 30)
    answer.error_code = 0
    finalise_metadata(to, 30)
