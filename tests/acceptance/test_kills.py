"""Kills at seeded moments: the choice of moments, and what counts as wrong."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from clusters.scenario.scenario import load_scenario
from history.events import EventLog
from tests.acceptance import host, kills
from tests.acceptance.host import left, staying, without_checkout
from tests.acceptance.kills import (
    AMID_FAULTS,
    AT_RISK,
    is_whole,
    met,
    moment,
    untried,
    victims,
    wrong,
)
from tests.evidence.folders import manifest

ROW: dict[str, Any] = {
    "killed": "java",
    "exit_code": 2,
    "clean": 0,
    "left": [],
    "judged": [{"whole": False, "verdict": "unknown"}],
}

RECORDING = [
    *("start_cluster", "create_topics", "start_clients", "capture_before"),
    *("phase_1_baseline", "phase_2_the_leader_dies", "phase_3_it_is_back"),
    *("stop_producers", "quiesce", "drain", "capture_after", "stop_clients", "collect"),
]


def test_two_hundred_moments_meet_everything() -> None:
    """Of 200 moments half are where files are written or removed, half are in containers; each victim is repeated."""
    moments = [moment(number) for number in range(200)]

    assert sum(at.stage in AT_RISK for at in moments) == 100
    assert Counter(at.runtime for at in moments) == {"process": 100, "docker": 100}
    killed = Counter(at.victim for at in moments)
    assert set(killed) == {
        *("command", "api-server", "scheduler", "triggerer", "worker", "task", "producer", "consumer", "prober"),
        *("spark-submit", "spark-driver", "shim", "docker"),
    }
    assert min(killed.values()) >= 2


def test_a_number_is_one_moment() -> None:
    """A number always yields the same moment, so that a try can be repeated."""
    assert moment(7) == moment(7)
    assert moment(7) != moment(8)


def test_later_tries_are_amid_faults() -> None:
    """Later tries kill in containers during the second phase of a scenario with network rules, limits and pauses."""
    moments = [moment(AMID_FAULTS + number) for number in range(40)]

    assert {(at.scenario, at.runtime, at.stage) for at in moments} == {("kills_amid_faults", "docker", "phase 2/3")}
    assert {at.victim for at in moments} == set(victims("phase 2/3", "docker"))
    assert moment(AMID_FAULTS - 1).scenario == "kills"
    _, amid, _ = load_scenario(str(Path(kills.__file__).with_name("kills_amid_faults.yaml"))).phases
    assert [step.key for step in amid.steps] == ["lose", "limit_bandwidth", "disconnect", "pause", "hold"]


def test_only_containers_have_shims() -> None:
    """Only containers have shims, and Spark runs only during judging."""
    assert "shim" in victims("collecting", "docker")
    assert "shim" not in victims("collecting", "process")
    assert "spark-driver" in victims("judging", "process")
    assert "spark-driver" not in victims("collecting", "process")


def test_left_is_what_was_not_there_before() -> None:
    """Leftovers exclude what existed on the host before, and what was removed."""
    before = {"containers": {"mine"}, "mounts": {"/", "/gone"}}

    assert left(before, {"containers": {"mine"}, "mounts": {"/"}}) == []
    assert left(before, {"containers": {"mine", "broker-1"}, "mounts": {"/"}}) == ["containers: broker-1"]


@pytest.mark.parametrize(("looks", "stays"), [(2, []), (9, ["links: veth1"])])
def test_what_goes_by_itself_is_not_left(monkeypatch: pytest.MonkeyPatch, looks: int, stays: list[str]) -> None:
    """A link whose namespace is being removed is not left; one that stays is."""
    seen = iter([{"links": {"veth1"}}] * looks + [{"links": set[str]()}] * 9)
    monkeypatch.setattr(host, "inventory", lambda: next(seen))
    monkeypatch.setattr(host, "GONE_LIMIT_S", 2.5)

    assert staying({"links": set()}) == stays


def test_what_is_meant_to_stay_is_not_left() -> None:
    """The list of a host's runs is meant to stay in /tmp; a run's lock is left."""
    after = {"temporary": {"plimsoll.host", "hsperfdata_root", "run.lock"}}

    assert left({"temporary": set()}, after) == ["temporary: run.lock"]


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({}, []),
        ({"exit_code": None}, ["it did not end"]),
        ({"killed": ""}, ["the process had ended before the kill, with exit code 2"]),
        ({"killed": "", "exit_code": 0}, []),
        ({"clean": 2}, ["clean ended with 2"]),
        ({"left": ["ports: 9092"]}, ["ports: 9092"]),
        ({"judged": [{"whole": False, "verdict": "pass"}]}, ["an incomplete record passed"]),
        ({"judged": [{"whole": True, "verdict": "pass"}]}, []),
        ({"judged": [{"whole": False, "verdict": "fail"}]}, []),
    ],
)
def test_what_must_not_be(changed: dict[str, Any], found: list[str]) -> None:
    """Leftovers, a command that hangs or fails by itself, and a pass on half of the evidence are wrong."""
    assert wrong(ROW | changed) == found


def test_only_who_was_there_counts_as_killed() -> None:
    """A try that names no killed process does not count as a kill."""
    assert met([{"killed": "java -cp"}, {"killed": ""}, {"killed": "python"}]) == 2


def test_the_next_try_is_one_without_a_row() -> None:
    """The next try is the first number without a row; hosts start at numbers far apart and share one file."""
    rows = [{"number": 0}, {"number": 1}, {"number": 100}]

    assert untried(rows, 0) == 2
    assert untried(rows, 100) == 101
    assert untried([], 100) == 100


@pytest.mark.parametrize(
    ("missing", "added", "sealed", "whole"),
    [
        ("", [], True, True),
        ("", [], False, False),
        ("drain", [], True, False),  # its end, that is: it was cut off
        ("phase_2_the_leader_dies", [], True, False),
        ("stop_clients", [], True, False),
        ("collect", [], True, True),  # killed after the seal
        ("", [("drain", "failed")], True, False),
        ("collect", [("collect", "failed")], True, False),
        ("", [("stop_clients", "success"), ("collect", "success")], True, True),  # performed again by who ends the run
        ("", [("tear_down", "failed"), ("judge", "failed")], True, True),
    ],
)
def test_a_record_is_whole_when_it_is_sealed_and_each_stage_before_succeeded(
    tmp_path: Path, missing: str, added: list[tuple[str, str]], sealed: bool, whole: bool
) -> None:
    """A record is whole if it is sealed and each stage before succeeded, even if its containers remain."""
    scenario = load_scenario(str(Path(kills.__file__).with_name("kills.yaml")))
    recorded = manifest().model_copy(update={"scenario": scenario.model_dump(mode="json")})
    recorded.write(tmp_path / "manifest.json")
    log = EventLog(tmp_path / "stages.jsonl")
    for stage, state in [*((each, "success") for each in RECORDING if each != missing), *added]:
        log.add("stage_ended", step=stage, state=state)
    if sealed:
        (tmp_path / "sealed.json").write_text("{}")

    assert is_whole(tmp_path) is whole


def test_a_text_names_no_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts contain neither the checkout's path nor that of its packages; other paths are kept."""
    here, other = tmp_path / "here", tmp_path / "other"
    here.mkdir()
    (other / ".venv").mkdir(parents=True)
    (here / ".venv").symlink_to(other / ".venv")
    monkeypatch.setattr(host, "ROOT", here)

    told = f"{other}/.venv/bin/python {here}/spark/application.py /usr/bin/java"

    assert without_checkout(told) == ".venv/bin/python spark/application.py /usr/bin/java"
