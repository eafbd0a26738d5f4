"""Configurations and command lines of Kafka's nodes."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from clusters.kafka.metrics import RULES
from clusters.kafka.servers import (
    Mode,
    Release,
    broker_config,
    broker_node,
    check_java,
    check_storage,
    choose_mode,
    cluster_id,
    jvm_flags,
    metadata_node_config,
    metadata_nodes_of,
)
from clusters.runtimes.nodes import Node
from clusters.scenario.scenario import Cluster
from history.errors import BadInput
from history.java import Java
from tests.clusters.fakes import A_JAVA

CLUSTER = Cluster.model_validate({"brokers": 2, "session_timeout": "9s", "config": {"auto.create.topics.enable": True}})


def nodes(mode: Mode, work: Path = Path("/w")) -> tuple[Release, Node, Node]:
    """Return a release, its metadata node and broker 1."""
    release = Release("3.9.1", Path("/jars"), mode, A_JAVA)
    return (
        release,
        metadata_nodes_of(release, CLUSTER, ["127.1.1.10"], work)[0],
        broker_node(release, CLUSTER, 1, "127.1.1.11", work),
    )


@pytest.mark.parametrize(
    ("version", "wanted", "mode"),
    [
        ("2.8.0", None, "zookeeper"),
        ("3.2.3", None, "zookeeper"),
        ("3.3.0", None, "kraft"),
        ("4.3.0", None, "kraft"),
        ("3.9.1", "zookeeper", "zookeeper"),
        ("3.3.0", "kraft", "kraft"),
    ],
)
def test_the_mode_follows_the_version_unless_told(version: str, wanted: Mode | None, mode: Mode) -> None:
    """Without a setting, the mode is ZooKeeper before 3.3 and KRaft from 3.3 on; versions with both accept either."""
    assert choose_mode(version, wanted) == mode


@pytest.mark.parametrize(
    ("version", "wanted", "said"),
    [
        ("4.0.0", "zookeeper", r"Kafka 4\.0\.0 has no ZooKeeper mode \(removed in 4\.0\); use mode: kraft"),
        ("3.2.3", "kraft", r"Kafka 3\.2\.3 has KRaft as a preview only; use mode: zookeeper, or 3\.3\.0"),
        ("2.7.0", None, "--kafka=2.7.0 is too old"),
    ],
)
def test_a_mode_that_a_version_lacks_is_refused(version: str, wanted: Mode | None, said: str) -> None:
    """A mode that the version lacks is rejected with the mode to use."""
    with pytest.raises(BadInput, match=said):
        choose_mode(version, wanted)


def test_a_cluster_id_is_16_bytes_and_follows_from_the_run() -> None:
    """A cluster id is base64 of 16 bytes without padding, and depends only on the run's name."""
    identity = cluster_id("20260101-a-run")

    assert len(base64.urlsafe_b64decode(identity + "==")) == 16
    assert identity == cluster_id("20260101-a-run") != cluster_id("20260101-b-run")


def test_a_cluster_id_never_looks_like_an_option() -> None:
    """A cluster id never begins with a dash, which Kafka's storage tool takes for an option (run-232 would)."""
    assert cluster_id("run-232").startswith("A")
    assert len(base64.urlsafe_b64decode(cluster_id("run-232") + "==")) == 16
    assert not any(cluster_id(f"run-{number}").startswith("-") for number in range(300))


@pytest.mark.parametrize("mode", ["kraft", "zookeeper"])
def test_every_broker_listens_three_times_on_its_own_address(mode: Mode) -> None:
    """Each broker has three listeners on its own address; PROBE has its own port, so that network faults spare it."""
    release, metadata_node, broker = nodes(mode)
    config = broker_config(release, CLUSTER, broker, [metadata_node])

    wanted = "REPLICATION://127.1.1.11:9091,CLIENT://127.1.1.11:9092,PROBE://127.1.1.11:9093"
    assert config["listeners"] == config["advertised.listeners"] == wanted
    assert config["inter.broker.listener.name"] == "REPLICATION"
    assert config["log.dirs"] == "/w/broker-1/data"


def test_a_rack_lets_consumers_read_from_followers() -> None:
    """With racks, brokers have both settings for reads from followers (KIP-392); without racks, neither."""
    release, metadata_node, broker = nodes("kraft")
    racks = Cluster.model_validate({"brokers": 2, "racks": {"A": "east", "B": "west"}})
    names = ("broker.rack", "replica.selector.class")

    config = broker_config(release, racks, broker, [metadata_node])
    assert [config[name] for name in names] == [
        "east",
        "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    ]
    assert not set(names) & broker_config(release, CLUSTER, broker, [metadata_node]).keys()


def test_the_metadata_log_is_kept_unless_the_scenario_limits_it() -> None:
    """Controllers and brokers in KRaft mode delete no part of the metadata log (KIP-630); a scenario's limits win."""
    limits = {"metadata.max.retention.bytes": "-1", "metadata.max.retention.ms": "-1"}
    short = Cluster.model_validate({"brokers": 2, "config": {"metadata.max.retention.ms": 60000}})

    def configs(mode: Mode, cluster: Cluster = CLUSTER) -> list[dict[str, str]]:
        release, metadata_node, broker = nodes(mode)
        known = [
            metadata_node_config(release, cluster, metadata_node, [metadata_node]),
            broker_config(release, cluster, broker, [metadata_node]),
        ]
        return [{name: value for name, value in config.items() if name in limits} for config in known]

    assert configs("kraft") == [limits, limits]
    assert configs("kraft", short) == 2 * [limits | {"metadata.max.retention.ms": "60000"}]
    assert configs("zookeeper") == [{}, {}]


def test_the_session_timeout_has_the_name_of_its_mode() -> None:
    """The session time-out is set under the name of the mode only, since 4.x rejects the other one."""
    release, metadata_node, broker = nodes("kraft")
    config = broker_config(release, CLUSTER, broker, [metadata_node])
    assert config["broker.session.timeout.ms"] == "9000"
    assert not any("zookeeper" in name for name in config)

    release, metadata_node, broker = nodes("zookeeper")
    config = broker_config(release, CLUSTER, broker, [metadata_node])
    assert config["zookeeper.session.timeout.ms"] == "9000"
    assert config["zookeeper.connect"] == "127.1.1.10:2181"
    assert not any(
        "quorum" in name or "session.timeout" in name for name in config.keys() - {"zookeeper.session.timeout.ms"}
    )


def test_kraft_has_one_voter_that_all_know() -> None:
    """The KRaft controller is a node with its own id, and every node lists it as the voter."""
    release, metadata_node, broker = nodes("kraft")
    controller = metadata_node_config(release, CLUSTER, metadata_node, [metadata_node])
    config = broker_config(release, CLUSTER, broker, [metadata_node])

    assert controller["controller.quorum.voters"] == config["controller.quorum.voters"] == "100@127.1.1.10:9094"
    assert (controller["process.roles"], config["process.roles"]) == ("controller", "broker")
    assert (controller["node.id"], config["node.id"]) == ("100", "1")


@pytest.mark.parametrize("node", ["controller", "broker"])
def test_the_scenario_has_the_last_word(node: str) -> None:
    """The scenario's settings override the project's, on controllers too: elections are the controller's."""
    release, metadata_node, broker = nodes("kraft")
    configs = {
        "controller": metadata_node_config(release, CLUSTER, metadata_node, [metadata_node]),
        "broker": broker_config(release, CLUSTER, broker, [metadata_node]),
    }

    assert configs[node]["auto.create.topics.enable"] == "true"


@pytest.mark.parametrize(("brokers", "factor"), [(1, "1"), (3, "3"), (5, "3")])
def test_internal_topics_fit_the_cluster(brokers: int, factor: str) -> None:
    """Internal topics have three replicas, or one per broker in a smaller cluster."""
    release, metadata_node, broker = nodes("zookeeper")
    config = broker_config(release, Cluster(brokers=brokers), broker, [metadata_node])

    assert config["offsets.topic.replication.factor"] == factor


def test_a_node_runs_java_on_its_configuration() -> None:
    """A node runs Java on its configuration file; the class path is the mounted jar folder."""
    _, metadata_node, broker = nodes("zookeeper")

    assert broker.program == "/java/bin/java"
    assert broker.arguments[-2:] == ("kafka.Kafka", "/w/broker-1/server.properties")
    assert metadata_node.arguments[-1] == "/w/zookeeper/server.properties"
    assert "org.apache.zookeeper.server.quorum.QuorumPeerMain" in metadata_node.arguments
    assert broker.arguments[broker.arguments.index("-cp") + 1] == "/jars/*"
    assert broker.readable == (Path("/jars"), Path("/java"))


@pytest.mark.parametrize(
    ("told", "heaps", "collector"),
    [
        ({}, (["-Xmx384m"], ["-Xmx256m"]), "-XX:+UseSerialGC"),
        ({"heap": "2G"}, (["-Xmx2G"], ["-Xmx256m"]), "-XX:+UseSerialGC"),
        ({"jvm": "production"}, (["-Xmx1G", "-Xms1G"], ["-Xmx512M", "-Xms512M"]), "-XX:+UseG1GC"),
        ({"jvm": "production", "heap": "768m"}, (["-Xmx768m", "-Xms768m"], ["-Xmx512M", "-Xms512M"]), "-XX:+UseG1GC"),
    ],
)
def test_the_jvm_is_quick_or_as_kafkas_scripts_start_it(
    told: dict[str, str], heaps: tuple[list[str], list[str]], collector: str
) -> None:
    """The JVM is tuned for a fast start or as Kafka's scripts do; ``heap`` changes the brokers only."""
    cluster = Cluster.model_validate({"brokers": 1, **told})
    release = Release("3.9.1", Path("/jars"), "zookeeper", A_JAVA)
    broker = jvm_flags(broker_node(release, cluster, 1, "127.1.1.11", Path("/w")))
    zookeeper = jvm_flags(metadata_nodes_of(release, cluster, ["127.1.1.10"], Path("/w"))[0])

    assert tuple([flag for flag in flags if flag.startswith("-Xm")] for flags in (broker, zookeeper)) == heaps
    assert all(collector in flags and "-cp" not in flags for flags in (broker, zookeeper))
    assert ("-XX:TieredStopAtLevel=1" in broker) == ("jvm" not in told)


def test_jvm_flags_replace_those_for_speed() -> None:
    """``jvm_flags`` replaces a broker's performance flags like KAFKA_JVM_PERFORMANCE_OPTS; heap and GC log stay."""
    told = {"brokers": 1, "jvm": "production", "jvm_flags": ["-XX:+UseZGC"]}
    release, cluster = Release("4.3.1", Path("/jars"), "kraft", A_JAVA), Cluster.model_validate(told)
    broker = jvm_flags(broker_node(release, cluster, 1, "127.1.1.11", Path("/w")))
    controller = jvm_flags(metadata_nodes_of(release, cluster, ["127.1.1.10"], Path("/w"))[0])

    assert broker[:3] == ["-Xmx1G", "-Xms1G", "-XX:+UseZGC"]
    assert broker[3].startswith("-Xlog:gc*")
    assert "-XX:+UseG1GC" in controller


@pytest.mark.parametrize("flag", ["-Xmx2G", "-cp", "UseZGC", "-XX:+UseZGC -cp"])
def test_what_is_no_flag_for_speed_is_refused(flag: str) -> None:
    """``jvm_flags`` rejects heap sizes and the class path, which have fields of their own or belong to Kafka."""
    with pytest.raises(ValueError, match="jvm_flags"):
        Cluster.model_validate({"brokers": 1, "jvm_flags": [flag]})


def test_brokers_carry_the_agent_that_is_there() -> None:
    """With metrics, each broker runs the agent on its own address; the controller does not."""
    release = Release("3.9.1", Path("/jars"), "kraft", A_JAVA, Path("/jmx/agent.jar"))
    broker = broker_node(release, CLUSTER, 1, "127.1.1.11", Path("/w"))
    controller = metadata_nodes_of(release, CLUSTER, ["127.1.1.10"], Path("/w"))[0]

    assert f"-javaagent:/jmx/agent.jar=127.1.1.11:9095:{RULES}" in jvm_flags(broker)
    assert broker.readable == (Path("/jars"), Path("/java"), Path("/jmx/agent.jar"), RULES)
    assert not [flag for flag in jvm_flags(controller) if "agent" in flag]


def cluster_with(**fields: Any) -> Cluster:
    """Return a cluster of two brokers with these fields."""
    return Cluster.model_validate({"brokers": 2, **fields})


@pytest.mark.parametrize(
    ("version", "mode", "fields"),
    [
        ("4.0.1", "kraft", {"elr": True}),
        ("4.3.0", "kraft", {"elr": True, "metadata_version": "4.0"}),
        ("4.3.0", "kraft", {"elr": False, "metadata_version": "3.9"}),
        ("3.9.1", "kraft", {"metadata_version": "3.3"}),
        ("3.0.2", "zookeeper", {"metadata_version": "2.8"}),
        ("3.0.2", "zookeeper", {"log_dirs": 2}),
        ("3.7.0", "kraft", {"log_dirs": 2}),
        ("3.6.2", "kraft", {"log_dirs": 1}),
        ("3.5.0", "kraft", {"security": {"sasl": "SCRAM-SHA-512"}}),
        ("2.8.2", "zookeeper", {"security": {"sasl": "SCRAM-SHA-512"}}),
        ("3.3.0", "kraft", {"security": {"tls": "mutual", "sasl": "PLAIN"}}),
    ],
)
def test_what_a_version_can_store_is_taken(version: str, mode: Mode, fields: dict[str, Any]) -> None:
    """Features that a version can store are accepted, also at an older metadata.version."""
    check_storage(version, mode, cluster_with(**fields))


@pytest.mark.parametrize(
    ("version", "mode", "fields", "said"),
    [
        ("3.6.2", "kraft", {"log_dirs": 2}, "log_dirs: Kafka 3.6.2 in KRaft mode does not survive"),
        ("3.9.1", "kraft", {"log_dirs": 2, "metadata_version": "3.6"}, "log_dirs: Kafka 3.6.0 in KRaft mode does not"),
        ("3.4.1", "kraft", {"security": {"sasl": "SCRAM-SHA-512"}}, "Kafka 3.4.1 in KRaft mode has no users for SCRAM"),
        (
            *("3.9.1", "kraft", {"security": {"sasl": "SCRAM-SHA-512"}, "metadata_version": "3.4"}),
            "security: Kafka 3.4.0 in KRaft mode has no users",
        ),
        ("3.9.1", "kraft", {"elr": True}, "Kafka 3.9.1 has no eligible leader replicas; use 4.0 or later"),
        ("3.9.1", "zookeeper", {"elr": False}, "Kafka 3.9.1 has no eligible leader replicas; use 4.0 or later"),
        ("3.8.1", "kraft", {"metadata_version": "3.9"}, "3.9 is newer than Kafka 3.8.1"),
        ("3.9.1", "kraft", {"metadata_version": "3.2"}, "3.2 is a preview of KRaft; 3.3 is the oldest"),
        ("4.3.0", "kraft", {"elr": True, "metadata_version": "3.9"}, "elr: true needs metadata_version 4.0 or later"),
    ],
)
def test_what_a_version_cannot_store_is_refused(version: str, mode: Mode, fields: dict[str, Any], said: str) -> None:
    """Features that a version cannot store are rejected before anything starts."""
    with pytest.raises(BadInput, match=said):
        check_storage(version, mode, cluster_with(**fields))


OLD_JAVA = A_JAVA.model_copy(update={"version": "17.0.15+6"})


@pytest.mark.parametrize(
    ("version", "security", "java"),
    [
        ("3.9.1", {"sasl": "PLAIN"}, A_JAVA),
        ("3.9.0", {"sasl": "PLAIN"}, OLD_JAVA),
        ("2.8.2", {"tls": "mutual"}, A_JAVA),
    ],
)
def test_brokers_log_in_to_one_another_on_a_java_that_they_know(
    version: str, security: dict[str, str], java: Java
) -> None:
    """A Java version that the Kafka version supports for SASL is accepted; without SASL any is (KAFKA-17078)."""
    check_java(version, cluster_with(security=security), java)


def test_sasl_on_a_java_that_is_too_new_is_refused() -> None:
    """SASL on a Java version that is too new is rejected: the brokers would start and fail to authenticate."""
    with pytest.raises(BadInput, match=r"3\.9\.0 cannot log in by SASL on Java 25; set cluster\.java to 17 or 21"):
        check_java("3.9.0", cluster_with(security={"sasl": "PLAIN"}), A_JAVA)


def test_three_controllers_are_voters_of_one_quorum() -> None:
    """Three controllers have names and ids of their own and form one quorum; a single one is named ``controller``."""
    release, cluster = Release("3.9.1", Path("/jars"), "kraft", A_JAVA), cluster_with(controllers=3)
    addresses = ["127.1.1.10", "127.1.1.9", "127.1.1.8"]
    controllers = metadata_nodes_of(release, cluster, addresses, Path("/w"))
    broker = broker_node(release, cluster, 1, "127.1.1.11", Path("/w"))
    configs = [metadata_node_config(release, cluster, node, controllers) for node in controllers]
    configs.append(broker_config(release, cluster, broker, controllers))

    assert [node.name for node in controllers] == ["controller-1", "controller-2", "controller-3"]
    assert [config["node.id"] for config in configs] == ["100", "101", "102", "1"]
    voters = "100@127.1.1.10:9094,101@127.1.1.9:9094,102@127.1.1.8:9094"
    assert {config["controller.quorum.voters"] for config in configs} == {voters}
    assert [node.name for node in metadata_nodes_of(release, CLUSTER, addresses, Path("/w"))] == ["controller"]


def test_an_older_protocol_between_brokers_is_a_setting_in_zookeeper_mode() -> None:
    """In ZooKeeper mode ``metadata_version`` sets inter.broker.protocol.version; by default it is not set."""
    release, metadata_node, broker = nodes("zookeeper")
    asked = cluster_with(metadata_version="2.8")

    assert broker_config(release, asked, broker, [metadata_node])["inter.broker.protocol.version"] == "2.8"
    assert "inter.broker.protocol.version" not in broker_config(release, CLUSTER, broker, [metadata_node])


@pytest.mark.parametrize(("mode", "metadata"), [("kraft", "/w/broker-1/metadata"), ("zookeeper", None)])
def test_metadata_lie_apart_from_several_log_directories(mode: Mode, metadata: str | None) -> None:
    """With several log directories, a KRaft broker's metadata log is in a separate one; controllers have one."""
    cluster = cluster_with(log_dirs=2)
    release = Release("3.9.1", Path("/jars"), mode, A_JAVA)
    broker = broker_node(release, cluster, 1, "127.1.1.11", Path("/w"))
    metadata_node = metadata_nodes_of(release, cluster, ["127.1.1.10"], Path("/w"))[0]
    config = broker_config(release, cluster, broker, [metadata_node])

    assert (config["log.dirs"], config.get("metadata.log.dir")) == ("/w/broker-1/data,/w/broker-1/data-2", metadata)
    assert "metadata.log.dir" not in broker_config(*nodes(mode)[:1], CLUSTER, nodes(mode)[2], [metadata_node])
    assert metadata_node.log_dir_count == 1


SCRAM = cluster_with(security={"tls": "mutual", "sasl": "SCRAM-SHA-512"})


@pytest.mark.parametrize(("mode", "controllers"), [("kraft", ",CONTROLLER:PLAINTEXT"), ("zookeeper", "")])
def test_brokers_alone_are_secured(mode: Mode, controllers: str) -> None:
    """All three listeners of brokers are secured, the brokers may read the secrets, and controllers stay plaintext."""
    release, metadata_node, _ = nodes(mode)
    broker = broker_node(release, SCRAM, 1, "127.1.1.11", Path("/w"))
    config = broker_config(release, SCRAM, broker, [metadata_node])
    protocols = f"REPLICATION:SASL_SSL,CLIENT:SASL_SSL,PROBE:SASL_SSL{controllers}"

    assert config["listener.security.protocol.map"] == protocols
    assert config["ssl.truststore.location"] == "/w/security/authority.pem"
    assert Path("/w/security") in broker.readable
    assert "ssl" not in str(metadata_node_config(release, SCRAM, metadata_node, [metadata_node]))
    assert "config.providers" not in broker_config(release, CLUSTER, broker, [metadata_node])


def test_brokers_alone_log_more_where_the_scenario_asks() -> None:
    """``debug`` sets a broker's logger to DEBUG; controllers keep INFO."""
    cluster = Cluster.model_validate({"brokers": 2, "debug": ["kafka.cluster.Partition"]})
    release = Release("3.9.1", Path("/jars"), "kraft", A_JAVA)
    flag = "-Dorg.slf4j.simpleLogger.log.kafka.cluster.Partition=debug"

    assert flag in broker_node(release, cluster, 1, "127.1.1.11", Path("/w")).arguments
    assert flag not in metadata_nodes_of(release, cluster, ["127.1.1.10"], Path("/w"))[0].arguments
    assert flag not in broker_node(release, CLUSTER, 1, "127.1.1.11", Path("/w")).arguments


def test_a_broker_may_have_a_small_disk_of_its_own() -> None:
    """``disks`` gives one broker its own small disk; other nodes use the host's."""
    cluster = Cluster.model_validate({"brokers": 3, "disks": {"B": "64MB"}})
    release = Release("3.9.1", Path("/jars"), "kraft", A_JAVA)
    brokers = [broker_node(release, cluster, number, f"127.1.1.1{number}", Path("/w")) for number in (1, 2, 3)]

    assert [node.disk_bytes for node in brokers] == [None, 64_000_000, None]
    assert metadata_nodes_of(release, cluster, ["127.1.1.10"], Path("/w"))[0].disk_bytes is None
