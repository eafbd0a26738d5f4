"""The names of Kafka's settings by release."""

import pytest

from history.kafka_settings import unknown_setting
from history.kafka_versions import Version


@pytest.mark.parametrize(
    ("kind", "name", "versions", "why"),
    [
        ("broker", "zookeeper.connect", ["3.9.1"], None),
        ("broker", "zookeeper.connect", ["4.0.0"], "no broker setting of Kafka 4.0; it is one from 2.8 to 3.9"),
        ("broker", "zookeeper.connect", ["3.9.1", "4.0.0"], None),  # an upgrade: one of the releases knows it
        ("broker", "group.share.delivery.count.limit", ["3.8.1"], "no broker setting of Kafka 3.8; it is one from 3.9"),
        ("broker", "group.share.delivery.count.limit", ["3.9.0"], None),
        ("broker", "min.insync.replicas", ["5.1.0"], None),  # a build of one's own, after the last release
        ("broker", "min.insync.replica", ["5.1.0"], "did you mean min.insync.replicas?"),
        ("broker", "eligible.leader.replicas.enable", ["3.7.0"], None),  # internal, and listed all the same
    ],
)
def test_a_setting_is_known_to_some_releases(kind, name, versions, why):
    """A setting is known by each release's list; for an unknown one the sentence names releases that know it."""
    found = unknown_setting(kind, name, [Version.parse(version) for version in versions])

    assert found is None if why is None else why in found
