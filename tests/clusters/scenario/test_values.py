"""Durations, rates, settings, and texts of models."""

from __future__ import annotations

import json
import string
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from clusters.scenario.scenario import (
    Scenario,
    parse_scenario,
)
from clusters.scenario.steps.catalog import STEPS
from clusters.scenario.values import LongSeconds, Model, PerSecond, Seconds
from tests.clusters.scenario.plain import COPIED, ORDERS, one_phase, plain, refusal


class Measured(BaseModel):
    """A model with a duration and a rate."""

    duration: Seconds = 1
    long: LongSeconds = 1
    rate: PerSecond = 1


@given(st.integers(1, 10**9), st.sampled_from([("ms", 1), ("s", 1_000), ("m", 60_000)]), st.sampled_from(["", " "]))
def test_a_duration_is_its_number_of_units(count: int, unit: tuple[str, int], space: str) -> None:
    """Durations in ms, s and m are exact to the millisecond."""
    assert round(Measured(duration=f"{count}{space}{unit[0]}").duration * 1000) == count * unit[1]


@given(st.integers(1, 10**9), st.integers(0, 999))
def test_a_duration_may_have_decimals(whole: int, thousandths: int) -> None:
    """A duration may have decimals: 1.25s is 1250 ms."""
    assert round(Measured(duration=f"{whole}.{thousandths:03}s").duration * 1000) == whole * 1000 + thousandths


def test_only_long_durations_have_hours() -> None:
    """Steps last seconds or minutes."""
    assert Measured(long="1.5h").long == 5400
    with pytest.raises(ValidationError, match="'1h' is not a duration such as 500ms, 5s or 2m"):
        Measured(duration="1h")


@given(st.integers(1, 10**9))
def test_a_rate_is_its_number(count: int) -> None:
    """A rate is the same with and without its unit."""
    assert Measured(rate=f"{count}/s").rate == count == Measured(rate=count).rate


@given(st.text(string.printable, max_size=8))
def test_a_text_is_a_positive_finite_duration_or_refused(text: str) -> None:
    """Any text is a positive finite duration or is rejected."""
    try:
        duration = Measured(duration=text).duration
    except ValidationError:
        return
    assert 0 < duration < float("inf")


@pytest.mark.parametrize("text", ["0s", "-1s", "5", "5h", "1e3s", "s", "", "nan", "inf", "9" * 400 + "s", "5 s s"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    """Durations that are zero, negative, infinite, without a unit or with an unknown one are rejected."""
    with pytest.raises(ValidationError):
        Measured(duration=text)


@pytest.mark.parametrize("rate", ["0/s", "-5/s", "1000", "1000/m", "nan/s", float("nan"), float("inf"), -1.0, 0])
def test_what_is_no_rate_is_refused(rate: object) -> None:
    """Rates that are zero, negative, not finite, per minute, or texts without a unit are rejected."""
    with pytest.raises(ValidationError):
        Measured(rate=rate)


@pytest.mark.parametrize(("told", "version"), [(3.8, "3.8"), ("3.8-IV0", "3.8-IV0")])
def test_a_metadata_version_may_be_a_number(told: object, version: str) -> None:
    """``metadata_version`` may be a number, since YAML reads 3.8 as one."""
    scenario = Scenario.model_validate(plain(cluster={"brokers": 3, "metadata_version": told}))

    assert scenario.cluster.metadata_version == version


def test_kafka_settings_are_written_as_kafka_writes_them() -> None:
    """Kafka settings become strings as Kafka writes them: booleans in lower case, numbers, and texts unchanged."""
    config = {"unclean.leader.election.enable": True, "min.insync.replicas": 2, "compression.type": "zstd"}
    scenario = Scenario.model_validate(plain(cluster={"brokers": 3, "config": config}))

    assert list(scenario.cluster.config.values()) == ["true", "2", "zstd"]


@pytest.mark.parametrize(("told", "acks"), [(0, "0"), (1, "1"), ("1", "1"), ("all", "all")])
def test_acks_may_be_a_number(told: object, acks: str) -> None:
    """``acks`` may be a number in the load and in a write, since YAML reads 1 as one."""
    write = {"write": {"to": "A", "topic": "orders", "records": 1, "acks": told}}
    load = {"topic": "orders", "acks": told, "idempotence": False}
    scenario = Scenario.model_validate({**one_phase(write), "load": load})
    step: Any = scenario.phases[0].steps[0]

    assert scenario.load
    assert (scenario.load.acks, step.acks) == (acks, acks)


def models(annotation: Any) -> Iterator[type[Model]]:
    """Yield all models within a type, itself included."""
    if isinstance(annotation, type) and issubclass(annotation, Model):
        yield annotation
    inner = (field.annotation for field in getattr(annotation, "model_fields", {}).values())
    for each in (*inner, *get_args(annotation)):
        yield from models(each)


FIELDS = {(model, name) for root in (Scenario, *STEPS.values()) for model in models(root) for name in model.names()}


MADE = "/tmp/plimsoll-was-here"
HOSTILE = [f"; touch {MADE}", f"$(touch {MADE})", f"`touch {MADE}`", f"x && touch {MADE}", f"x\n touch {MADE}"]
HOSTILE += ["../../x", "<script>"]
WORD = "WORD"  # where a text is put
# Fields that take a string as a name: an example scenario, and a word with which it is valid.
NAMES: dict[str, tuple[dict[str, Any], str]] = {
    "Condition.balanced": (one_phase({"wait": {"for": {"balanced": WORD}}}), "orders"),
    "Condition.caught_up": (one_phase({"wait": {"for": {"caught_up": WORD}}}), "orders"),
    "Condition.isr_full": (one_phase({"wait": {"for": {"isr_full": WORD}}}), "orders"),
    "Condition.leader_changed": (one_phase({"wait": {"for": {"leader_changed": WORD}}}), "orders"),
    "Configure.topic": (one_phase({"configure": {"topic": WORD, "set": {"retention.ms": "1"}}}), "orders"),
    "Copier.load": (plain(**{**COPIED, "copier": {"to": "copies", "load": WORD}}), "producer"),
    "Copier.to": (plain(**{**COPIED, "copier": {"to": WORD}}), "copies"),
    "Describe.topic": (one_phase({"describe": WORD}), "orders"),
    "Group.assignor": (plain(load={"topic": "orders", "group": {"members": 1, "assignor": WORD}}), "range"),
    "Load.topic": (plain(load={"topic": WORD}), "orders"),
    "Payload.file": (plain(load={"topic": "orders", "payload": {"file": WORD}}), "README.md"),
    "Reassign.topic": (one_phase({"reassign": {"topic": WORD, "to": ["B", "C", "A"]}}), "orders"),
    "Scenario.loads": (plain(load=None, loads={WORD: {"topic": "orders"}}), "slow"),
    "SetRate.load": (one_phase({"set_rate": {"rate": "1/s", "load": WORD}}), "producer"),
    "Target.name": (one_phase({"kill": {"node": {"role": "named", "name": WORD}}}), "A"),
    "Topic.replicas": (plain(topics={"orders": {"replicas": [WORD]}}), "A"),
    "Write.topic": (one_phase({"write": {"to": "A", "topic": WORD, "records": 1}}), "orders"),
}
# Fields that take any string, as a value or as a key.
TEXTS: dict[str, dict[str, Any]] = {
    "Cluster.config": plain(cluster={"brokers": 3, "config": {"broker.rack": WORD}}),
    "Cluster.debug": plain(cluster={"brokers": 3, "debug": [WORD]}),
    "Cluster.java": plain(cluster={"brokers": 3, "java": WORD}),
    "Configure.set": one_phase({"configure": {"topic": "orders", "set": {"compression.type": WORD}}}),
    "Phase.name": plain(phases=[{WORD: [{"hold": "1s"}]}]),
    "Restart.with": one_phase({"restart": {"node": "A", "with": {"broker.rack": WORD}}}),
    "Scenario.why": plain(why=WORD),
    "Topic.config": plain(topics={"orders": {"replicas": ["A"], "config": {"compression.type": WORD}}}),
    "Upgrade.kafka": one_phase({"upgrade": {"node": "A", "kafka": WORD}}),
}


def takes(model: type[Model], name: str, text: str) -> bool:
    """Return whether a field accepts a text as its value, in a list, or as a value or key of a mapping."""

    def wrong(value: object) -> list[tuple[int | str, ...]]:
        try:
            model.model_validate({name: value})
        except ValidationError as refused:
            return [error["loc"][1:] for error in refused.errors() if error["loc"][0:1] == (name,)]
        return []

    return (
        not wrong(text)
        or not wrong([text])
        or all(place[-1:] == ("[key]",) for place in wrong({"x": text}))
        or all(place[:1] == (text,) and place[-1] != "[key]" for place in wrong({text: None}))
    )


def with_word(told: Any, text: str) -> Any:
    """Return the document with this text in place of WORD."""
    return json.loads(json.dumps(told).replace(WORD, json.dumps(text)[1:-1]))


@pytest.mark.parametrize("text", HOSTILE)
def test_a_field_takes_any_text_only_where_it_is_listed(text: str) -> None:
    """Only the listed fields accept any text, over all fields of a scenario and its steps."""
    assert {f"{model.__name__}.{name}" for model, name in FIELDS if takes(model, name, text)} == {*NAMES, *TEXTS}


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("field", NAMES)
def test_what_is_no_text_takes_no_shell_command(field: str, text: str) -> None:
    """A name field rejects a shell command in one sentence, without running it."""
    told, sound = NAMES[field]
    assert parse_scenario(yaml.safe_dump(with_word(told, sound)), "x.yaml")

    said = refusal(with_word(told, text))

    assert said.count("\n") == 0
    assert not Path(MADE).exists()


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("field", TEXTS)
def test_a_text_stays_what_it_is(field: str, text: str) -> None:
    """A text field keeps a shell command unchanged, without running it."""
    told, a_word = (parse_scenario(yaml.safe_dump(with_word(TEXTS[field], each)), "x.yaml") for each in (text, WORD))

    assert told.model_dump(mode="json") == with_word(a_word.model_dump(mode="json"), text)
    assert not Path(MADE).exists()


@pytest.mark.parametrize("topic", [".", "..", "a/b", "../x", "; touch x", "$(touch x)", "", "x" * 250])
def test_a_topic_is_no_way_out_of_a_folder(topic: str) -> None:
    """A topic name that leaves its folder is rejected, as in Kafka; dots within a name are accepted."""
    told = plain()
    told["topics"] = {topic: told["topics"]["orders"]}
    told["load"]["topic"] = topic
    assert refusal(told).count("\n") == 0

    told["topics"] = {"..a": told["topics"][topic]}
    told["load"]["topic"] = "..a"
    assert parse_scenario(yaml.safe_dump(told), "x.yaml").topics.keys() == {"..a"}


@pytest.mark.parametrize("flag", ["OnError=touch", "OnOutOfMemoryError=touch", "Flags=.hotspotrc", "VMOptionsFile=x"])
def test_no_flag_makes_the_jvm_run_a_command(flag: str) -> None:
    """JVM flags that run a command or read a file are rejected; one that exits the JVM is accepted."""
    assert "leave it out" in refusal(plain(cluster={"brokers": 3, "jvm_flags": [f"-XX:{flag}"]}))
    told = plain(cluster={"brokers": 3, "jvm_flags": ["-XX:+ExitOnOutOfMemoryError"]})
    assert parse_scenario(yaml.safe_dump(told), "x.yaml").cluster.jvm_flags == ["-XX:+ExitOnOutOfMemoryError"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (
            {"cluster": {"brokers": 3, "config": {"replica_lag_time_max_ms": 4000}}},
            "replica_lag_time_max_ms is no broker setting of Kafka; did you mean replica.lag.time.max.ms?",
        ),
        ({"cluster": {"brokers": 3, "config": {"retention.ms": 1}}}, "the latter is log.retention.ms"),
        ({"topics": {"orders": {**ORDERS, "config": {"min.isync.replicas": 2}}}}, "did you mean min.insync.replicas?"),
        ({"phases": [{"p": [{"restart": {"node": "A", "with": {"broker.rak": "x"}}}]}]}, "did you mean broker.rack?"),
        (
            {"phases": [{"p": [{"configure": {"topic": "orders", "set": {"segment.size": 1}}}]}]},
            "configure.set: segment",
        ),
    ],
)
def test_a_setting_that_kafka_does_not_know_is_refused(change, why):
    """An unknown Kafka setting is rejected with the nearest name, since Kafka itself would only log it."""
    with pytest.raises(ValidationError, match=why.replace("?", ".")):
        Scenario.model_validate(plain(**change))


def test_settings_of_plug_ins_are_named():
    """Plug-in settings are allowed by name or by prefix in ``allow_unknown``; Kafka's own prefixes always are."""
    config = {"rsm.config.dir": "x", "listener.name.probe.ssl.client.auth": "none", "my.plugin.a": 1, "other": 2}
    named = {"brokers": 3, "config": config, "allow_unknown": ["my.plugin.", "other"]}

    assert Scenario.model_validate(plain(cluster=named)).cluster.config["other"] == "2"
    with pytest.raises(ValidationError, match="other is no broker setting"):
        Scenario.model_validate(plain(cluster={**named, "allow_unknown": ["my.plugin.", "others"]}))
