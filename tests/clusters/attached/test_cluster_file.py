"""Files that describe a cluster, with hooks, caps and permitted faults."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from clusters.attached.cluster_file import ENDED_BY, HOOKS, ClusterFile, Hook, read_cluster_file
from clusters.scenario.steps.catalog import STEPS
from history.errors import BadInput

KILL, START = {"run": ["ssh", "{host}", "kill"]}, {"run": ["ssh", "{host}", "start"]}


def read(folder: Path, **entries: Any) -> ClusterFile:
    """Return the cluster of a file with these entries and a bootstrap address."""
    path = folder / "mine.yaml"
    path.write_text(yaml.safe_dump({"bootstrap": ["b1:9092"], **entries}))
    return read_cluster_file(path)


def test_only_bootstrap_is_required(tmp_path: Path) -> None:
    """By default no fault is permitted, and caps are low."""
    file = read(tmp_path)

    assert (file.topics.prefix, file.allow, file.hooks, file.down) == ("plimsoll-", [], {}, "until_start")
    assert file.caps.model_dump() == {"rate": 5e6, "partitions": 24, "bytes": 10**10, "duration": 3600.0}


def test_every_entry_is_read(tmp_path: Path) -> None:
    """Caps have units, numbers among the arguments become text, and the result survives JSON."""
    file = read(
        tmp_path,
        topics={"prefix": "chaos."},
        caps={"rate": "1MB/s", "partitions": 3, "bytes": "20GB", "duration": "90m"},
        allow=["kill"],
        hooks={"kill": {"run": ["kill", -9, "{broker}", 0.5], "limit": "5s", "environment": ["TOKEN"]}, "start": START},
    )

    assert file.caps.model_dump() == {"rate": 1e6, "partitions": 3, "bytes": 20 * 10**9, "duration": 5400.0}
    assert file.hooks["kill"] == Hook(run=["kill", "-9", "{broker}", "0.5"], limit=5.0, environment=["TOKEN"])
    assert ClusterFile.model_validate_json(file.model_dump_json()) == file


def test_a_program_with_a_slash_is_relative_to_the_file(tmp_path: Path) -> None:
    """A program without one is searched in PATH, and other arguments are not changed."""
    hooks = {"kill": {"run": ["./kill.sh", "./data"]}, "start": {"run": ["/opt/start"]}, "logs": {"run": ["ssh"]}}
    file = read(tmp_path, hooks=hooks)

    assert file.hooks["kill"].run == [str(tmp_path / "kill.sh"), "./data"]
    assert [file.hooks[name].run for name in ("start", "logs")] == [["/opt/start"], ["ssh"]]


@pytest.mark.parametrize(
    ("argument", "filled"),
    [
        ("broker-{broker}", "broker-1"),
        ("{host}:{broker}", "b1:1"),
        ('{"node":{broker}}', '{"node":1}'),
        ("{{broker}}", "{{broker}}"),
        ("{{.Names}}", "{{.Names}}"),
        ("{print $1}", "{print $1}"),
    ],
)
def test_placeholders_are_replaced(argument: str, filled: str) -> None:
    """Other braces stay: those of JSON, awk, and Go templates."""
    assert Hook(run=[argument]).arguments({"broker": "1", "host": "b1"}) == [filled]


def test_a_cluster_that_restarts_its_brokers_needs_no_start(tmp_path: Path) -> None:
    """Kill and stop are permitted without the hook start then."""
    file = read(tmp_path, down="restarts_itself", hooks={"kill": KILL, "stop": KILL}, allow=["kill", "stop"])

    assert file.allow == ["kill", "stop"]


@pytest.mark.parametrize(
    ("entries", "sentence"),
    [
        ({"hooks": {"kill": KILL}}, "hooks.kill needs a hook that ends it; add start: {run: [program, …]}, or down: "),
        ({"hooks": {"stop": KILL}}, "hooks.stop needs a hook that ends it; add start: "),
        ({"hooks": {"pause": KILL}}, "hooks.pause needs a hook that ends it; add resume: {run: [program, …]}."),
        ({"hooks": {"pause": KILL}, "down": "restarts_itself"}, "hooks.pause needs a hook that ends it; add resume"),
        ({"hooks": {"disconnect": KILL}}, "hooks.disconnect needs a hook that ends it; add reconnect: "),
        ({"hooks": {"kil": KILL}}, "hooks.kil is no hook; known: kill, start, stop, "),
        ({"hooks": {"logs": {"run": ["{hosts}"]}}}, "hooks.logs.run: unknown placeholder {hosts}; known: {broker}, "),
        ({"hooks": {"start": {"run": ["{seconds}"]}}}, "hooks.start.run: unknown placeholder {seconds}; known: "),
        ({"hooks": {"logs": {"run": "ssh {host}"}}}, "hooks.logs: no shell runs hooks; give run: a list of program "),
        ({"hooks": {"logs": ["ssh", "{host}"]}}, "hooks.logs: no shell runs hooks; give run: a list of program "),
        ({"hooks": {"logs": {"run": []}}}, "hooks.logs.run: List should have at least 1 item"),
        ({"hooks": {"logs": {"run": ["a", True]}}}, "hooks.logs.run.1: Input should be a valid string (got True)"),
        ({"hooks": {"logs": {"run": ["a"], "limit": "6"}}}, "hooks.logs.limit: '6' is not a duration such as 500ms, "),
        ({"hooks": {"logs": {"run": ["a"], "environment": ["A-B"]}}}, "hooks.logs.environment.0: String should match"),
        ({"allow": ["kill"]}, "allow: kill needs hooks.kill; add kill: {run: [program, argument, …]}."),
        ({"allow": ["lag"]}, "allow: hooks cannot inject 'lag'; known: disconnect, pause, kill, stop, upgrade."),
        ({"allow": "kill"}, "allow: Input should be a valid list (got 'kill')."),
        ({"down": "stays"}, "down: Input should be 'until_start' or 'restarts_itself' (got 'stays')."),
        ({"topics": {"prefix": "chaos/"}}, "topics.prefix: String should match pattern"),
        ({"topics": {"prefix": ""}}, "topics.prefix: String should match pattern"),
        ({"caps": {"rate": "5MB"}}, "caps.rate: '5MB' is not a data rate such as 20MB/s."),
        ({"caps": {"duration": "1d"}}, "caps.duration: '1d' is not a duration such as 30s, 5m or 1h."),
        ({"caps": {"partitions": 0}}, "caps.partitions: Input should be greater than or equal to 1 (got 0)."),
    ],
)
def test_a_bad_entry_is_one_sentence(tmp_path: Path, entries: dict[str, Any], sentence: str) -> None:
    """It names the file, the entry, and what to write."""
    with pytest.raises(BadInput) as refused:
        read(tmp_path, **entries)

    assert str(refused.value).startswith(f"{tmp_path}/mine.yaml: {sentence}")


def test_hooks_are_named_like_steps() -> None:
    """Each fault that a hook injects is a step, and another hook's step ends it."""
    assert ENDED_BY == {"disconnect": "reconnect", "pause": "resume", "kill": "start", "stop": "start"}
    assert all(STEPS[name].fault for name in ENDED_BY)
    assert set(HOOKS) - STEPS.keys() == {"logs", "segments"}
