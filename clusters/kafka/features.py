"""Read a cluster's finalised features, and raise metadata.version.

KRaft: feature levels (KIP-584, KIP-778). ZooKeeper: each broker's inter.broker.protocol.version.
"""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import UpdateFeaturesRequest
from kafka.protocol.metadata import ApiVersionsRequest

from clusters.kafka.admin import check, describe_config, to_controller
from clusters.kafka.connection import Connection
from clusters.kafka.servers import PROTOCOL_VERSION
from history.errors import BadInput
from history.kafka_versions import METADATA_LEVELS, Mode, Version

METADATA_VERSION = "metadata.version"
TIMEOUT_MS = 30_000
UPGRADE = 1
DESCRIBE_QUORUM = 55


def metadata_level(name: str) -> int:
    """Return a release's level: ``3.9`` → 21, ``3.7-IV1`` → 16.

    Raises:
        BadInput: the release is not in METADATA_LEVELS.
    """
    wanted, _, step = name.partition("-IV")
    releases, release = list(METADATA_LEVELS), Version.parse(wanted)
    if release not in releases[1:]:
        known = ", ".join(known.minor_release for known in releases[1:])
        raise BadInput(f"The levels of metadata.version of {name} are unknown; known: {known}.")
    before = releases[releases.index(release) - 1]
    return METADATA_LEVELS[before] + 1 + int(step) if step else METADATA_LEVELS[release]


def level_name(level: int) -> str:
    """Return a level's name: 20 → ``3.8-IV0``; a number if unknown."""
    below = 0
    for release, last in METADATA_LEVELS.items():
        if below < level <= last and below:
            return f"{release.minor_release}-IV{level - below - 1}"
        below = last
    return str(level)


def finalised(connection: Connection, broker_id: int, mode: Mode) -> dict[str, str]:
    """Return a broker's finalised features, except those at level 0."""
    if mode == "zookeeper":
        settings = describe_config(connection, "broker", str(broker_id), [PROTOCOL_VERSION])
        return {PROTOCOL_VERSION: next(iter(settings[PROTOCOL_VERSION].values()))}
    found = {feature.name: feature.max_version_level for feature in _api_versions(connection).finalized_features or ()}
    return {
        name: level_name(level) if name == METADATA_VERSION else str(level) for name, level in sorted(found.items())
    }


def mode_of(connection: Connection) -> Mode:
    """Return a broker's mode: only those of KRaft forward DescribeQuorum."""
    keys = {api.api_key for api in _api_versions(connection).api_keys}
    return "kraft" if DESCRIBE_QUORUM in keys else "zookeeper"


def _api_versions(connection: Connection) -> Any:
    return connection.send(ApiVersionsRequest[3](client_software_name="plimsoll", client_software_version="1"))


def finalise_metadata(connection: Connection, level: int) -> None:
    """Raise metadata.version for the whole cluster."""
    update = UpdateFeaturesRequest.FeatureUpdateKey
    request = UpdateFeaturesRequest[1](
        timeout_ms=TIMEOUT_MS,
        feature_updates=[update(feature=METADATA_VERSION, max_version_level=level, upgrade_type=UPGRADE)],
        validate_only=False,
    )
    reply = to_controller(connection, request)
    check(f"raise {METADATA_VERSION} to level {level}", reply)
    for answer in reply.results:
        check(f"raise {answer.feature} to level {level}", answer)
