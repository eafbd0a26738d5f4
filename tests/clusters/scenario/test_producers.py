"""Several loads, and loads with several processes: which nodes send, and which settings are rejected."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from clusters.scenario.durations import answers_s, expected_records, open_transaction_s
from clusters.scenario.scenario import Scenario, parse_scenario
from history.errors import BadInput

TOPIC = {"partitions": 3, "replicas": ["A", "B", "C"]}
JAVA = {"topic": "orders", "engine": "java"}
SENT = {"engine": "confluent-kafka", "topic": "orders"}
COMMITTED = {**SENT, "transaction": {"records": 5}}


def told(loads: dict[str, Any], *steps: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return a scenario document with these loads on two topics."""
    sound = {"name": "s", "why": "w", "cluster": {"brokers": 3}, "topics": {"orders": TOPIC, "payments": TOPIC}}
    return {**sound, "loads": loads, "phases": [{"one": [*steps, {"hold": 10}]}], **more}


def scenario(loads: dict[str, Any], *steps: dict[str, Any], **more: Any) -> Scenario:
    """Return the scenario of that document."""
    return Scenario.model_validate(told(loads, *steps, **more))


def refusal(document: dict[str, Any]) -> str:
    """Return the message with which a scenario is rejected."""
    with pytest.raises(BadInput) as refused:
        parse_scenario(yaml.safe_dump(document), "x.yaml")
    return str(refused.value)


def test_each_load_is_a_producer_of_its_name() -> None:
    """Each load is a producer under its name, which is also the producer id; without loads there are none."""
    found = scenario({"web": {"topic": "orders"}, "app": {"topic": "payments", "rate": "5/s"}}).producers

    assert [(each.name, each.producer_id, each.load.topic, each.rate) for each in found] == [
        ("web", "web", "orders", 1000.0),
        ("app", "app", "payments", 5.0),
    ]
    assert scenario({}).producers == []


def test_one_load_is_called_producer() -> None:
    """A single ``load`` has the producer ``producer``, and is dumped without ``loads`` to keep its digest."""
    made = Scenario.model_validate({**told({}), "load": {"topic": "orders"}})

    assert [(each.name, each.of) for each in made.producers] == [("producer", "producer")]
    assert "loads" not in made.model_dump()
    assert "processes" not in made.model_dump()["load"]
    assert Scenario.model_validate(made.model_dump()) == made


def test_processes_share_the_rate() -> None:
    """Processes of a load share its rate; each is a producer."""
    found = scenario(
        {"web": {"topic": "orders", "rate": "900/s", "processes": 3}, "app": {"topic": "orders"}}
    ).producers

    assert [(each.name, each.of, each.rate) for each in found] == [
        ("web-1", "web", 300.0),
        ("web-2", "web", 300.0),
        ("web-3", "web", 300.0),
        ("app", "app", 1000.0),
    ]


def test_java_producers_are_told_by_their_prefixes() -> None:
    """Java producers are numbered over all loads by their value prefix; other engines have none."""
    found = scenario({"a": {**JAVA, "processes": 2}, "b": {"topic": "orders"}, "c": JAVA}).producers

    assert [(each.producer_id, each.value_prefix) for each in found] == [
        ("verifiable-1", 1),
        ("verifiable-2", 2),
        ("b", None),
        ("verifiable-3", 3),
    ]


@pytest.mark.parametrize(
    "name",
    ["consumer", "broker-1", "member-2", "write-1", "read-7", "copier-0", "verifiable-1", "controller", "streams"],
)
def test_a_name_that_a_run_needs_is_taken(name: str) -> None:
    """A load cannot have the name of another node, of other clients' records, or of a file of the run."""
    assert f"the name '{name}' is taken" in refusal(told({name: {"topic": "orders"}}))


@pytest.mark.parametrize("name", ["reader", "consumer-load", "write-heavy", "x" * 35])
def test_a_name_that_is_like_one_is_free(name: str) -> None:
    """A name that only resembles a reserved one is accepted, since reserved names end with a number."""
    assert scenario({name: {"topic": "orders"}}).producers[0].name == name


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        (told({"a_b": {"topic": "orders"}}), "'a_b' is not a producer name: letters, digits and -, at most 35"),
        (told({"": {"topic": "orders"}}), "'' is not a producer name"),
        (told({"x" * 36: {"topic": "orders"}}), "at most 35"),
        (told({"x" * 34: {"topic": "orders", "processes": 2}}), "at most 35"),
        (
            told({"a": {"topic": "orders", "processes": 2}, "a-2": {"topic": "orders"}}),
            "two producers are called a-2; rename one of the loads",
        ),
        (told({"a": {"topic": "order"}}), "loads.a names topic 'order', which is not under topics"),
        (told({"a": {"topic": "orders", "acks": 1}}), "loads.a: idempotence needs acks: all"),
        (told({"a": {"topic": "orders", "processes": 0}}), "loads.a.processes: Input should be greater"),
        (told({"a": {"topic": "orders", "processes": 9}}), "loads.a.processes: Input should be less"),
        (told({f"a{n}": {"topic": "orders", "processes": 8} for n in range(5)}), "there are 40 producers; 32 are the"),
        (
            {**told({"a": {"topic": "orders"}}), "load": {"topic": "orders"}},
            "there are both load and loads; put all of them under loads",
        ),
        (
            told({"a": {"topic": "orders", "group": {"members": 4}}}),
            "loads.a.group has 4 members for the 3 partitions of orders",
        ),
        (
            told({"a": {"topic": "orders", "group": {}}, "b": {"topic": "payments", "group": {}}}),
            "a run has one group at most; take it out of loads.b",
        ),
        (
            told({"a": {"topic": "orders"}, "b": {"topic": "orders", "p99_limit": "1s"}}),
            "loads.b has p99_limit, and latencies are those of all loads",
        ),
        (
            told({"a": {"topic": "orders"}, "b": {"topic": "orders"}}, {"set_rate": "5/s"}),
            "name the load; this scenario",
        ),
        (
            told({"a": {"topic": "orders"}}, {"set_rate": {"rate": "5/s", "load": "b"}}),
            "there is no load 'b'; this scenario has a",
        ),
        (
            told({"a": {"topic": "orders"}, "b": JAVA}, {"set_rate": {"rate": "5/s", "load": "b"}}),
            "engine: java cannot change its rate",
        ),
        (told({"a": COMMITTED, "b": COMMITTED}, copier={"to": "payments"}), "copier: name the load"),
        (
            told({"a": COMMITTED, "b": SENT}, copier={"to": "payments", "load": "a"}),
            "copier needs a load with transaction",
        ),
        (
            told({"a": COMMITTED, "b": {"topic": "payments"}}, copier={"to": "payments", "load": "a"}),
            "copier writes to topic 'payments', which must be another one",
        ),
    ],
)
def test_loads_that_cannot_be(document: dict[str, Any], sentence: str) -> None:
    """Invalid loads are rejected, each with one sentence."""
    assert sentence in refusal(document)


def test_a_group_is_that_of_the_load_that_has_one() -> None:
    """The group belongs to the load that declares it, and reads that load's topic."""
    made = scenario({"a": {"topic": "orders"}, "b": {"topic": "payments", "group": {"members": 2}}})

    assert made.grouped is not None
    assert made.group is not None
    assert (made.grouped.topic, made.group.members) == ("payments", 2)


def test_readers_wait_for_commits_if_any_load_has_transactions() -> None:
    """If any load has transactions, all readers are read_committed."""
    assert scenario({"a": {"topic": "orders"}, "b": COMMITTED}).isolation == "read_committed"
    assert scenario({"a": {"topic": "orders"}, "b": SENT}).isolation == "read_uncommitted"


def test_a_copier_reads_the_topic_of_its_load() -> None:
    """The copier copies all loads on the topic of its load, at the sum of their rates."""
    loads = {"a": {"topic": "logs"}, "b": COMMITTED, "c": {**COMMITTED, "rate": "5/s"}}
    topics = {"orders": TOPIC, "payments": TOPIC, "logs": TOPIC}
    made = scenario(loads, topics=topics, copier={"to": "payments", "load": "b"})

    assert [load.rate for load in made.copied] == [1000.0, 5.0]
    assert [made.rate_of(topic) for topic in topics] == [1005.0, 1005.0, 1000.0]


def test_records_are_those_of_all_loads() -> None:
    """The expected number of records adds each load's highest rate; ``set_rate`` changes the named or only load."""
    two = {"a": {"topic": "orders", "rate": "100/s"}, "b": {"topic": "orders", "rate": "10/s"}}
    faster = scenario(two, {"set_rate": {"rate": "50/s", "load": "b"}}, {"set_rate": {"rate": "1/s", "load": "a"}})
    alone = scenario({"a": two["a"]}, {"set_rate": "200/s"})

    ratio = expected_records(faster) / expected_records(alone)
    assert ratio == pytest.approx(150 / 200 * 14 / 12)  # a step of two seconds more


def test_the_slowest_load_is_waited_for() -> None:
    """Limits follow the slowest load, for its answers and for its transactions."""
    slow = {**COMMITTED, "delivery_timeout": "50s", "transaction": {"timeout": "90s"}}
    made = scenario({"a": {"topic": "orders", "delivery_timeout": "5s"}, "b": slow, "c": COMMITTED})

    assert (answers_s(made), open_transaction_s(made)) == (50.0, 90.0)
    assert (answers_s(scenario({})), open_transaction_s(scenario({}))) == (0.0, 0.0)
