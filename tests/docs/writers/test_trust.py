"""The page on trust in results is generated from its data, and begins with the limits."""

import json
import re
from typing import Any

import pytest

from campaigns.compare.campaign import result
from tests.acceptance import comparisons, reliability
from tests.acceptance.test_comparisons import INJECTED, ITSELF
from tests.campaigns.comparison import rows
from tests.decisions import power, screen
from tests.docs.writers import simulations, trust
from tests.mutations import mutate
from tests.mutations.kinds import KINDS
from tests.rows import read

SIMULATED = {"simulations": 200, "improvement": 0, "equivalent": 0, "noise": 0.05}


def damage(kind: str, *, seen: bool = True, kafka: str = "3.9.1") -> dict[str, Any]:
    """Return a row of mutation.json with the page's columns."""
    return {"kind": kind, "kafka": kafka, "seen": seen}


def test_the_limits_come_first() -> None:
    """The limits come before any figure, and each kind of evidence has its section."""
    titles = re.findall(r"^## (.+)$", trust.page(), re.MULTILINE)

    assert titles[0] == "Limits of the evidence"
    assert len(titles) == 9


def test_every_kind_of_damage_has_been_tried() -> None:
    """The page counts exactly the existing kinds of damage."""
    counted = {row["kind"] for row in read(mutate.RESULTS)}

    assert counted == {kind.name for kind in [*mutate.UNDAMAGED, *KINDS]}


def test_the_simulations_are_large_enough() -> None:
    """The simulations have at least 200 histories of each kind, and 1,000 comparisons in a row."""
    assert min(row["histories"] for row in json.loads(screen.RESULTS.read_text())["false_alarms"]) >= 200
    assert min(row["simulations"] for row in json.loads(power.RESULTS.read_text())["rows"]) >= 1000


def test_what_is_not_covered_is_named() -> None:
    """Scenarios without repeated runs and checks without damage are named."""
    text = "\n".join(trust.limits([damage("no_probe")], [], [], frozenset({"kafka_14704"})))

    assert "`steady`" in text
    assert "`kafka_14704`" not in text
    assert "`behaviour_change`" in text
    assert {"lost_write", "I6"}.isdisjoint(trust.untested_checks())


def test_damage_is_counted_by_what_it_must_be_reported_as() -> None:
    """Damage is counted by the check that must report it; a miss is shown, and undamaged copies do not count."""
    damaged = [
        damage("undamaged_survived_faults"),
        damage("acknowledged_record_lost"),
        damage("acknowledged_record_lost", seen=False, kafka="4.3.0"),
        damage("leader_began_elsewhere"),
        damage("no_probe"),
    ]
    lines = trust.recordings(damaged, [])

    assert "- **3 of 4** damaged copies, of 3 kinds, were found." in lines
    assert "| records and clients' ledgers | an anomaly | 1 | 1 of 2 |" in lines
    assert any("or `source_disagreement` | 1 | 1 of 1 |" in line for line in lines)
    assert "| missing evidence | `unknown`, naming what is missing | 1 | 1 of 1 |" in lines


def test_a_known_bug_is_no_false_alarm() -> None:
    """A known bug is no false alarm, but another finding on a clean run is one; an unknown run does not count."""
    clean = {"scenario": "steady", "kafka": "3.9.1", "verdict": "pass", "anomalies": {}}
    bug = {**clean, "scenario": "survived_faults", "verdict": "fail", "known_bugs": ["KAFKA-14704"]}
    undecided = {**clean, "verdict": "unknown"}
    lines = trust.recordings([], [clean, bug, {**clean, "anomalies": {"duplicate": 1}}, undecided])
    text = " ".join(" ".join(lines).split())

    assert "**1 false alarms in 3 clean runs**" in text
    assert "1 more are unknown" in text
    assert "In 1 of them the broker's log shows a known bug" in text


CONTROL = {"scenario": "acks1_lag_leader_kill", "kafka": "3.9.1", "duplicate_copies": 0, "recount_agrees": True}
CONTROL |= {"verdict": "pass", "lost": 1000, "known_bugs": [], "reasons": []}
FAILED = CONTROL | {"verdict": "fail", "reasons": ["3 x lost_write is permitted here.", "I10 (without produce) fails."]}


def told(*rows: dict[str, Any]) -> list[str]:
    """Return the table's lines, from the verdicts on."""
    return [line.split("records lost | ")[1] for line in trust.scenarios(rows) if line.startswith("| `")]


def test_repeated_runs_are_told_with_their_bound() -> None:
    """Repeated runs are shown with their confidence limit; a scenario without runs has no line."""
    rows = [CONTROL | {"lost": 1000 * n} for n in range(10)]

    assert told(*rows) == ["10 pass | 9 | 61% | 0 to 9,000 | 0 |"]
    assert "agrees in **10 of 10** runs" in " ".join(trust.scenarios(rows))


def test_a_control_that_fails_is_not_met() -> None:
    """A run that shows its anomaly and fails is not met, unless a known bug explains it; its invariants are named."""
    bug = FAILED | {"known_bugs": ["STALE-HW"]}

    assert told(CONTROL, FAILED) == ["1 pass, 1 fail (I10) | 1 | 3% | 1,000 | 0 |"]
    assert told(CONTROL, bug) == ["1 pass, 1 fail (STALE-HW) | 2 | 22% | 1,000 | 0 |"]
    assert told(CONTROL | {"verdict": "unknown"}) == ["1 unknown | 0 | 0% | 1,000 | 0 |"]


def test_each_unexplained_failure_has_a_note() -> None:
    """The page explains every repeated run that fails without a known bug."""
    rows = read(reliability.RESULTS)

    assert all("note" in row for row in rows if row["verdict"] == "fail" and not row["known_bugs"])
    assert trust.scenarios([FAILED | {"note": "a cause."}])[-1] == (
        "The 1 failed runs of `acks1_lag_leader_kill`: a cause."
    )


def test_comparisons_are_counted_with_bounds() -> None:
    """Comparisons are counted with confidence limits; without any count there is no claim."""
    itself = comparisons.row_of(result(ITSELF, rows(ITSELF)))
    injected = [comparisons.row_of(result(INJECTED, rows(INJECTED, change))) for change in (0.10, 0.03)]
    text = "\n".join(trust.real_comparisons([row for row in [itself, *injected] if row]))

    assert "called a regression: **0 of 1, at most 95%**; by 10 pairs or more: **0 of 1, at most 95%**." in text
    assert "before each comparison: 0 of 3, at most 63%." in text
    assert "- Both together: 0 of 4, at most 53%." in text
    assert "| 10% | 10 | 1 of 2 | 1–99% | +10.0% (+8.4 to +11.6%); " in text
    assert "called a regression: **not run yet**;" in "\n".join(trust.real_comparisons([]))


@pytest.mark.parametrize(("computed", "shown"), [(0.96, "96.0%"), (None, "–")])
def test_simulated_figures_say_so(computed: float | None, shown: str) -> None:
    """Simulated figures are labelled as such; each has the formula's value, where the formula has one."""
    row = {"host": "steady", "slowdown": 0.1, "regression": 190, "inconclusive": 10, "computed": computed, **SIMULATED}
    away = {**row, "host": "drifting", "regression": 180}
    found = {"rows": [row, away], "blocks": [], "families": []}
    lines = [*simulations.comparisons(found), *simulations.host_drifts(found)]

    assert lines[2].startswith("**These figures are simulated.**")
    assert f"| 5% | 10% | 95.0% (91.0–97.6%) | {shown} | 0.0% | 0.0% | 5.0% |" in lines
    assert "at most 5.0 percentage points" in " ".join(lines)


def test_the_screens_rates_have_their_intervals() -> None:
    """The screen's rates have their intervals; without a candidate the rate is "none", and so is the size."""
    rate = {"shown": 1, "of": 2, "interval": [0.013, 0.987]}
    found = screen.measure(histories=1)
    row = {"percent": 5, "noise": 0.03, "size": None, **dict.fromkeys(screen.RATES, rate)}
    found |= {"detections": [{**row, "right_run": {"shown": 0, "of": 0}}]}
    lines = [*simulations.false_alarms(found), *simulations.detections(found)]

    assert lines[-1].endswith("| 50% (1–99%) | none | none |")
    assert "0: 0.0–97.5% (0.00%)" in " ".join(lines)
    assert reliability.lower_bound(9, 10) == pytest.approx(0.606, abs=0.001)


def test_days_are_told_as_far_as_rows_hold_them() -> None:
    """Dates are shown for the rows that have them; rows without a date are counted separately."""
    assert trust._dates(["2026-01-02", "2026-01-01"]) == "made from 2026-01-01 to 2026-01-02"
    assert trust._dates(["", "2026-01-02"]) == "some on 2026-01-02, most rows hold no date"
    assert trust._dates([""]) == "the rows hold no date"
