"""The figures of the table of promises, from literal rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.docs.writers import promises
from tests.docs.writers.promises import NOT_MEASURED, Promise

KILL: dict[str, Any] = {
    "number": 1,
    "killed": "java",
    "clean": 0,
    "left": [],
    "judged": [{"verdict": "unknown", "whole": False}],
}


@pytest.mark.parametrize(
    ("row", "figure"),
    [
        ({"number": 10_000}, "1 kills (1 amid faults) of 2 tries"),
        (
            {},
            "1 kills (0 amid faults) of 2 tries: 0 left something behind; of 2 judged runs 0 pass, 0 of",
        ),
        ({"left": ["mounts: /x"]}, "1 left something behind"),
        ({"clean": 2}, "1 left something behind"),
        ({"judged": [{"verdict": "pass", "whole": False}]}, "1 pass, 1 of them with an incomplete record"),
        ({"judged": [{"verdict": "pass", "whole": True}]}, "1 pass, 0 of them with an incomplete record"),
        ({"judged": [{"verdict": "fail", "whole": False}]}, "1 report a violation"),
        ({"judged": []}, "of 1 judged runs"),
    ],
)
def test_kills_are_counted_with_what_they_left(row: dict[str, Any], figure: str) -> None:
    """Kills are counted with their leftovers; a try whose process had already ended is no kill."""
    assert figure in promises.after_kills([KILL | row, KILL | {"killed": ""}])


def test_starts_are_counted_apart_from_their_controls() -> None:
    """Starts that must fail are counted separately from controls that must pass."""
    rows = [
        {"name": "no package index", "wrong": []},
        {"name": "a port taken", "wrong": ["a traceback"]},
        {"name": "nothing is wrong", "wrong": []},
    ]

    assert promises.failing_starts(rows) == ("1 of 2 starts; 1 of 1 runs that do not need the removed resource pass")


def test_suites_are_counted_on_quiet_and_on_busy_hosts() -> None:
    """Suites are counted separately on quiet and busy hosts, with the names of failed tests."""
    rows = [
        {"try": "quiet 1", "exit_code": 0, "passed": 9, "failed": 0, "which": []},
        {"try": "busy 1", "exit_code": 1, "passed": 8, "failed": 1, "which": ["tests/a.py::b"]},
    ]

    told = "the whole suite passed 1 of 1 on a quiet host, 0 of 1 with a busy loop on each core"
    assert promises.suites(rows) == f"{told}; failed: tests/a.py::b"
    assert (
        promises.suites(rows[:1])
        == "the whole suite passed 1 of 1 on a quiet host, 0 of 0 with a busy loop on each core"
    )


def test_soaks_are_told_by_what_grew_most_of_our_own() -> None:
    """A soak reports the largest growth of Plimsoll's processes over all soaks, without the brokers' memory."""
    row = {
        "mode": "kraft",
        "minutes": 61.2,
        "verdict": "pass",
        "grew": {"broker-1": 0.5, "prober": 0.01, "producer": 0.03},
    }
    row |= {"most_mb": {"drain": 80, "driver": 300, "driver's JVM": 1200}, "record_mb": 447}
    row["invariants"] = {"I1": "pass", "I2": "pass"}
    other = {**row, "mode": "zookeeper", "minutes": 60.1, "verdict": "unknown", "most_mb": {"drain": 90}}
    other |= {"record_mb": 1470, "invariants": {"I1": "pass", "I2": "unknown"}}

    assert promises.soaked([row, other]) == (
        "kraft 61 min: pass; zookeeper 60 min: unknown. 0 of 2 valid verdicts report another violation, 1 invariants "
        "were not judged. Plimsoll's processes grew by at most 3%; peaks: 90 MB (drain), 300 MB (driver), "
        "1,200 MB (driver's JVM); a recording has at most 1,470 MB"
    )


@pytest.mark.parametrize(
    ("bugs", "told"),
    [
        (["STALE-ISR"], "kraft 61 min: fail by STALE-ISR. 0 of 1 valid verdicts report another violation"),
        ([], "kraft 61 min: fail. 1 of 1 valid verdicts report another violation"),
    ],
)
def test_a_bug_of_kafka_is_no_false_finding_of_a_soak(bugs: list[str], told: str) -> None:
    """A soak names a bug of Kafka; a violation without a known bug counts as a false finding."""
    row = {"mode": "kraft", "minutes": 61.2, "verdict": "fail", "invariants": {"I11": "fail"}, "known_bugs": bugs}

    assert promises.soaked([row | {"grew": {"prober": 0.0}, "most_mb": {}, "record_mb": 9}]).startswith(told)


def test_a_soak_whose_verdict_was_withdrawn_accuses_nobody() -> None:
    """A soak whose verdict was withdrawn is no false finding; its row, reason and memory figures remain."""
    row = {"mode": "kraft", "minutes": 61.2, "verdict": "fail", "invariants": {"I11": "fail"}}
    row |= {"grew": {"prober": 0.0}, "most_mb": {}, "record_mb": 9}

    assert promises.soaked([row | {"withdrawn": "wrong"}, row]).startswith(
        "kraft 61 min: fail, withdrawn: wrong; kraft 61 min: fail. 1 of 1 valid verdicts report another violation"
    )


def test_troubles_of_airflow_are_counted() -> None:
    """Airflow's troubles are counted; one whose cluster remains is not met."""
    row = {"name": "a task is marked as failed", "state": "failed", "verdict": "unknown", "whole": False, "left": []}

    assert promises.airflow_troubles([row, row | {"left": ["ports: 9092"]}]) == ("1 of 2 runs")


def test_bad_input_and_damaged_answers_are_counted_apart() -> None:
    """Bad inputs and damaged answers are counted separately; a damaged answer can be readable but must not crash."""
    rows = [
        {"kind": "scenario", "inputs": 7, "refused": 6, "by_hand": 2},
        {"kind": "answer to probe, cut", "inputs": 9, "refused": 9, "crashes": 1},
    ]

    assert promises.bad_inputs(rows) == "6 of 7 rejected, 2 of them written by hand"
    assert promises.damaged_answers(rows) == "9 answers: 1 crashes"


def test_fuzzing_counts_from_the_last_crash() -> None:
    """Fuzzing counts from the last crash; readers of a kind add up, and the kind with the least time is named."""
    minutes = {"segments": 30.0, "codecs": 0.5, "clock": 4.25}
    rows = [{"target": target, "clean_minutes": each, "inputs": 1000} for target, each in minutes.items()]

    assert promises.fuzzed(rows) == (
        "2 kinds of file, 3 readers, 3,000 inputs; 34.8 min of a core since the last crash, "
        "at least 4.2 for each kind (clock)"
    )


def test_nightly_runs_are_counted_with_their_positive_control() -> None:
    """Nightly runs are counted with their positive control, also one that did not lose records."""
    control = {"scenario": "acks1_lag_leader_kill", "shown": {"lost_write": 3}}
    other = {"scenario": "group_members", "shown": {}}
    rows = [
        {"state": "pass", "minutes": 5.5, "runs": [control, other]},
        {"state": "fail", "minutes": 5.0, "runs": [control | {"shown": {}}, other]},
    ]

    assert promises.nightly(rows) == (
        "1 of 2 nightly runs pass (4 runs), 5 to 5.5 min each; the positive control lost records in 1 of 2"
    )


def test_runs_side_by_side_are_counted() -> None:
    """Parallel runs are counted; an unknown run neither passes nor was touched; an older row names no user."""
    run = {"scenario": "steady", "exit_code": 0, "verdict": "pass", "touched": []}
    row = {"runs": [run, run | {"verdict": "unknown", "exit_code": 2}], "shared": [], "left": []}
    of_two = {"runs": [run | {"user": "root"}, run | {"user": "nobody"}], "shared": [], "left": ["mounts: /x"]}

    assert promises.together([row, of_two]) == (
        "2 times four runs at once, 1 of them of two users: 1 with effects on another run or leftovers; 3 of 4 pass"
    )


def test_a_false_alarm_is_counted() -> None:
    """A false alarm is counted; an unknown run is neither clean nor an alarm, and a positive control is left out."""
    clean = {"scenario": "steady", "verdict": "pass", "anomalies": {}, "invariants": {}, "known_bugs": []}
    rows = [
        clean | {"violated": []},
        clean | {"verdict": "fail", "anomalies": {"lost_write": 1}, "violated": []},
        clean | {"verdict": "unknown", "violated": []},
        clean | {"scenario": "acks1_lag_leader_kill", "violated": []},
    ]

    assert promises.clean_runs(rows) == "1 false alarms in 2 runs; 1 more are unknown"


def test_what_was_not_measured_says_so(tmp_path: Path) -> None:
    """A figure whose file is missing or without rows is "not measured"."""
    (tmp_path / "none.json").write_text("[]")
    table = promises.section(
        [Promise("a", "`x`", promises.after_kills, [tmp_path / name]) for name in ("gone.json", "none.json")]
    )

    assert table[-2:] == [f"| a | `x` | {NOT_MEASURED} |"] * 2


def test_schedules_are_counted_with_what_they_exclude() -> None:
    """Schedules are counted with the violation rate that they exclude, without those that were not judged."""
    rows = [
        {"kafka": "4.4.0", "schedules": 30, "violations": {}, "unknown": {"7": "A gap."}},
        {"kafka": "4.4.0", "schedules": 30, "violations": {}, "unknown": {}},
    ]

    assert promises.drawn(rows) == (
        "60 schedules of 2 kinds on Kafka 4.4.0: 0 violate a guarantee, at most 5.0% do; 1 could not be judged"
    )
    assert ": 1 violate a guarantee" in promises.drawn([rows[0] | {"violations": {"9": ["I6"]}}])
