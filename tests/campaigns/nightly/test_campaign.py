"""A nightly run from its plan to its result: order, reruns, alerts and sentence."""

from copy import deepcopy
from typing import Any

import pytest

from campaigns.nightly import campaign as nightly
from campaigns.nightly.settings import read_settings
from clusters.paths import ROOT
from history.errors import BadInput
from history.results.nightly import NightlyResult, Series
from tests.campaigns.nightly_runs import SETTINGS, Row, campaign_of, history, name_of, rerun, rows_of

LATE = 14
SLOW = {"4.3.0": (LATE, 1.2)}
WAIVER = {"scenario": "steady", "kafka": "4.3.0", "who": "ada", "why": "KAFKA-1", "until": "2026-12-31"}
LOST = {"verdict": "fail", "sentence": "5 acknowledged records are gone.", "anomalies": {"lost_write": 5}}


def result(rows: list[Row], nightly_run: int = LATE, **settings: Any) -> NightlyResult:
    """Return the result of a nightly run."""
    return nightly.result(campaign_of(nightly_run, **settings), rows)


def with_reruns(rows: list[Row], factor: float, nightly_run: int = LATE, **settings: Any) -> list[Row]:
    """Return the rows with the reruns that the nightly run plans; candidates are slower by this factor."""
    campaign = campaign_of(nightly_run, **settings)
    return rows + rows_of(campaign, nightly.follow_up(campaign, rows), rerun(factor))


def failing(rows: list[Row], *nightly_runs: int, kafka: str = "4.3.0", **more: Any) -> list[Row]:
    """Return the rows with a version's runs failing on these nightly runs."""
    rows = deepcopy(rows)
    for found in rows:
        if found["kafka_version"] == kafka and found["labels"]["campaign"] in map(name_of, nightly_runs):
            found |= {**LOST, **more}
    return rows


def series_of(told: NightlyResult, kafka: str = "4.3.0") -> Series:
    """Return the matrix's series of a version."""
    [found] = [each for each in told.series if each.role == "matrix" and each.kafka_version == kafka]
    return found


# --- the plan -------------------------------------------------------------------------------------------


def test_the_control_is_first_and_last_and_the_matrix_between() -> None:
    """The control runs first and last; the matrix between has each repetition whole, in a different order."""
    asked = {**SETTINGS, "scenarios": ["steady", "survived_faults", "transactions"], "repetitions": 2}
    campaign = nightly.plan(asked, campaign_id="n", created_at="2026-10-01T02:00:00+00:00", seed=3)

    roles = [item.labels["role"] for item in campaign.items]
    cells = [(item.scenario, item.kafka) for item in campaign.items[1:-1]]
    assert roles == ["control", *["matrix"] * 12, "control"]
    assert set(cells[:6]) == set(cells[6:])
    assert len(set(cells[:6])) == 6
    assert cells[:6] != cells[6:]
    assert len({item.name for item in campaign.items}) == 14


def test_correctness_comes_first_and_is_no_series() -> None:
    """Correctness runs come first, at once, on every version and with their own changes; their failures count."""
    asked = {"correctness": {"scenarios": ["steady"], "repetitions": 2, "changes": {"load": {"rate": "2000/s"}}}}
    campaign = campaign_of(LATE, **asked)
    first = campaign.items[:4]

    assert [item.labels["role"] for item in campaign.items] == [
        *["correctness"] * 4,
        "control",
        *["matrix"] * 2,
        "control",
    ]
    assert [item.at_once for item in campaign.items] == [True] * 4 + [False] * 4
    assert {str(item.changes) for item in first} == {"{'load': {'rate': '2000/s'}}"}
    assert [item.changes for item in campaign.items[4:]] == [{}] * 4

    rows = history(LATE + 1, {"correctness": (LATE, 3.0)}, **asked)
    told = result(rows, **asked)
    assert (told.state, {each.state for each in told.series}) == ("pass", {"steady"})
    failed = [row | LOST if row["run_id"] == f"{campaign.campaign_id}-{first[0].name}" else row for row in rows]
    assert [(each.kafka, each.status) for each in result(failed, **asked).failures] == [(first[0].kafka, "new")]


@pytest.mark.parametrize(("verdict", "state"), [("pass", "pass"), ("fail", "fail"), ("unknown", "unknown")])
def test_the_ten_minute_profile_comes_to_a_verdict(verdict: str, state: str) -> None:
    """ten-minutes.yaml comes to a verdict without benchmarks and control."""
    asked = read_settings(ROOT / "ten-minutes.yaml")
    campaign = nightly.plan(asked, campaign_id="n", created_at="2026-12-01T00:00:00+00:00", seed=1)
    rows = rows_of(campaign, campaign.items, lambda _: 10.0)
    rows[0]["verdict"] = verdict
    told = nightly.result(campaign, rows)

    assert {item.labels["role"] for item in campaign.items} == {"correctness"}
    assert (told.state, told.control.state, told.series) == (state, "no basis", [])
    assert "slowdown" not in told.sentence
    assert told.sentence.endswith("; there are no benchmarks, so nothing was measured.")


def test_the_seed_decides_the_order() -> None:
    """The seed decides the order of the same runs."""
    asked = {**SETTINGS, "scenarios": ["steady", "survived_faults", "transactions"]}
    one, same, other = (nightly.plan(asked, campaign_id="n", created_at="x", seed=seed) for seed in (1, 1, 2))

    assert one == same
    assert [item.name for item in one.items] != [item.name for item in other.items]
    assert {item.name for item in one.items} == {item.name for item in other.items}


def test_what_is_merged_into_scenarios_is_in_every_run() -> None:
    """``changes`` apply to every run; invalid changes or scenarios are rejected before anything runs."""
    changes = {"cluster": {"jvm": "production"}}

    assert {str(item.changes) for item in campaign_of(0, changes=changes).items} == {str(changes)}
    with pytest.raises(BadInput):
        campaign_of(0, changes={"cluster": {"jvm": "fast"}})
    with pytest.raises(BadInput, match="There is no scenario 'stedy'"):
        campaign_of(0, scenarios=["stedy"])


# --- the follow-up ----------------------------------------------------------------------------------------


def test_candidates_are_rerun_beside_a_release_in_turn() -> None:
    """A candidate is rerun in pairs with a release, in ABBA order; labels have pair, order and role."""
    items = nightly.follow_up(campaign_of(LATE), history(LATE + 1, SLOW))

    assert [item.labels["pair"] for item in items] == ["1", "1", "2", "2", "3", "3"]
    assert [item.labels["order"] for item in items] == ["1", "2"] * 3
    roles = [item.labels["role"] for item in items]
    assert roles[:2] == roles[3:1:-1] == roles[4:]
    assert {(item.labels["role"], item.kafka) for item in items} == {("candidate", "4.3.0"), ("baseline", "3.9.1")}


def test_a_nightly_run_that_is_resumed_asks_for_the_same_reruns() -> None:
    """A resumed nightly run plans the same reruns, whichever exist already."""
    rows = history(LATE + 1, SLOW)
    campaign = campaign_of(LATE)

    assert nightly.follow_up(campaign, with_reruns(rows, 1.0)[:-3]) == nightly.follow_up(campaign, rows)


def test_reruns_have_a_limit_and_the_largest_change_comes_first() -> None:
    """Reruns are limited to the largest changes."""
    asked: dict[str, Any] = {"versions": ["2.8.2", "3.9.1", "4.3.0"], "baseline": {"releases": ["3.9.1", "2.8.2"]}}
    rows = history(LATE + 1, {"2.8.2": (LATE, 1.2), "4.3.0": (LATE, 1.5)}, **asked)

    def candidates(most: int) -> list[str]:
        campaign = campaign_of(LATE, **asked, confirm={"pairs": 3, "candidates": most})
        items = nightly.follow_up(campaign, rows)
        return list(dict.fromkeys(item.labels["candidate"] for item in items))

    assert candidates(0) == []
    assert candidates(1) == ["steady on 4.3.0"]
    assert candidates(2) == ["steady on 4.3.0", "steady on 2.8.2"]


def test_a_release_is_rerun_beside_another_one() -> None:
    """If the first baseline release is a candidate itself, the next one is used; without one nothing is rerun."""
    slow = history(LATE + 1, {"matrix": (LATE, 1.2), "4.3.0": (LATE, 1 / 1.2)})

    def releases(names: list[str]) -> set[str]:
        items = nightly.follow_up(campaign_of(LATE, baseline={"releases": names}), slow)
        return {item.kafka for item in items if item.labels["role"] == "baseline"}

    assert releases(["3.9.1", "4.3.0"]) == {"4.3.0"}
    assert releases(["3.9.1"]) == set()


# --- the result: correctness --------------------------------------------------------------------------------


def test_a_correctness_failure_alerts_at_once() -> None:
    """A correctness failure alerts on the first nightly run already, with its runs."""
    told = result(failing(history(1), 0), 0)

    assert (told.state, told.failures[0].status) == ("fail", "new")
    assert told.sentence.startswith(
        "4 runs of 1 scenario on 2 versions: 1 correctness failure (1 new), 0 confirmed slowdowns; a series"
    )
    [alert] = told.alerts
    assert (alert.kind, alert.runs) == ("correctness", ["nightly-00-steady-4.3.0-1"])
    assert alert.text == "steady on 4.3.0 failed in 1 of 1 runs: 5 acknowledged records are gone."


@pytest.mark.parametrize(
    ("more", "status", "first"),
    [
        ({}, "known", "nightly-01"),
        ({"broken": ["I6"]}, "new", "nightly-02"),
        ({"anomalies": {}, "broken": ["I6"]}, "new", "nightly-02"),
    ],
)
def test_a_failure_is_known_if_an_earlier_nightly_run_showed_all_of_it(more: Any, status: str, first: str) -> None:
    """A failure is known if an earlier nightly run showed all of it; known failures still alert."""
    rows = failing(failing(history(3), 1), 2, **more)
    [failure] = result(rows, 2).failures

    assert (failure.status, failure.first_nightly_run) == (status, first)
    assert len(result(rows, 2).alerts) == 1


@pytest.mark.parametrize(
    ("found", "until", "status", "state"),
    [
        (["lost_write"], "2026-10-15", "waived", "pass"),
        (["lost_write"], "2026-10-14", "new", "fail"),  # expired: alerts again
        (["I6"], "2026-10-15", "new", "fail"),
    ],
)
def test_what_is_waived_does_not_alert(found: list[str], until: str, status: str, state: str) -> None:
    """A waived failure does not alert, up to the entry's last day and only for the findings that it names."""
    entry = {**WAIVER, "found": found, "until": until}
    told = result(failing(history(LATE + 1), LATE), waivers=[entry])

    assert (told.failures[0].status, told.state) == (status, state)
    assert [(each.used, each.expired) for each in told.waivers] == [(status == "waived", until == "2026-10-14")]


NAMED = {"I6": "KAFKA-14704"}


@pytest.mark.parametrize(
    ("bugs", "broken", "status", "state"),
    [
        (NAMED, ["I2", "I6"], "known bug", "pass"),
        (NAMED, ["I2", "I6", "I16"], "known bug", "pass"),
        (NAMED, ["I2", "I6", "I15"], "new", "fail"),  # one thing more
        ({}, ["I2", "I6"], "new", "fail"),
        (None, ["I2", "I6"], "new", "fail"),  # archived before the column
    ],
)
def test_a_known_bug_of_kafka_does_not_alert(
    bugs: dict[str, str] | None, broken: list[str], status: str, state: str
) -> None:
    """A failure that the judge attributes to a known Kafka bug does not alert, unless it shows more than that bug."""
    rows = failing(history(LATE + 1), LATE, known_bugs=bugs, broken=broken, anomalies={})
    told = result(rows)

    assert [failure.status for failure in told.failures] == [status]
    assert (told.state, len(told.alerts)) == (state, int(state == "fail"))


@pytest.mark.parametrize(("year", "status", "state"), [(2026, "waived", "pass"), (2031, "new", "fail")])
def test_what_ships_is_green_on_a_healthy_host(year: int, status: str, state: str) -> None:
    """nightly.yaml passes on a healthy host; with 2.8.2 it meets KAFKA-14704, waived until the entry expires."""
    asked = read_settings(ROOT / "nightly.yaml")
    alone = nightly.plan(asked, campaign_id="n", created_at=f"{year}-12-01T00:00:00+00:00", seed=1)
    assert nightly.result(alone, rows_of(alone, alone.items, lambda _: 10.0)).state == "pass"

    asked["versions"].append("2.8.2")
    campaign = nightly.plan(asked, campaign_id="n", created_at=f"{year}-12-01T00:00:00+00:00", seed=1)
    rows = rows_of(campaign, campaign.items, lambda _: 10.0)
    for row in rows:
        if row["labels"]["item"] in {"survived_faults-2.8.2-correctness-1"}:
            row |= {"verdict": "fail", "broken": ["I2", "I6"], "sentence": "I2 does not hold."}
    told = nightly.result(campaign, rows)

    assert [(failure.status, len(failure.runs)) for failure in told.failures] == [(status, 1)]
    assert told.state == state


def test_what_versions_do_by_design_is_no_finding() -> None:
    """Changes of behaviour by design are no findings of a failure."""
    [failure] = result(
        failing(history(1), 0, anomalies={"lost_write": 5, "behaviour_change": 2, "phantom": 0}), 0
    ).failures

    assert failure.found == ["lost_write"]


def test_a_missing_run_is_told() -> None:
    """A missing run makes the nightly run unknown."""
    told = result(history(LATE + 1)[:-2])

    assert told.state == "unknown"
    assert "2 missing runs" in told.sentence
    assert [run.item for run in told.runs if run.verdict == "missing"] == [
        item.name for item in campaign_of(LATE).items[-2:]
    ]


def test_a_run_without_a_verdict_is_told() -> None:
    """A run without a verdict makes the nightly run unknown."""
    told = result(failing(history(1), 0, verdict="unknown"), 0)

    assert (told.state, told.failures) == ("unknown", [])
    assert "1 run without a verdict" in told.sentence


def test_a_nightly_run_without_any_run_has_a_result() -> None:
    """A nightly run without any run is unknown, with a missing control."""
    told = result([], 0)

    assert (told.state, told.series, told.control.state) == ("unknown", [], "missing")


# --- the result: performance ----------------------------------------------------------------------------------


def test_a_candidate_alone_alerts_nobody() -> None:
    """A candidate that was not rerun does not alert, and the nightly run is unknown."""
    told = result(history(LATE + 1, SLOW), confirm={"candidates": 0})

    assert (told.alerts, told.state) == ([], "unknown")
    assert "1 candidate regression not settled" in told.sentence
    assert series_of(told).why.endswith("it was not rerun, so nothing is known yet")


def test_a_confirmed_slowdown_alerts() -> None:
    """A confirmed slowdown alerts with size, interval, first nightly run and runs."""
    told = result(with_reruns(history(LATE + 1, SLOW), 1.2))

    assert told.sentence == (
        "10 runs of 1 scenario on 2 versions: 0 correctness failures, 1 confirmed slowdown; the control did not change."
    )
    [alert] = told.alerts
    assert alert.text.startswith("p99 latency, steady on 4.3.0: +20.")
    assert alert.text.endswith("since nightly-14")
    assert (alert.kind, alert.status, len(alert.runs)) == ("performance", "new", 6)
    confirmed = series_of(told).confirmation
    assert confirmed.low_percent < 20 < confirmed.high_percent


def test_a_refuted_candidate_does_not() -> None:
    """A refuted candidate is listed, and the nightly run passes."""
    told = result(with_reruns(history(LATE + 1, SLOW), 1.0))

    assert (told.alerts, told.state, series_of(told).state) == ([], "pass", "refuted")
    assert "1 refuted candidate regression" in told.sentence


def test_an_earlier_confirmation_goes_on_as_known() -> None:
    """A slowdown confirmed earlier needs no rerun and still alerts, as known."""
    rows = history(LATE + 2, SLOW)
    rows += with_reruns(history(LATE + 1, SLOW), 1.2)[len(history(LATE + 1)) :]
    told = result(rows, LATE + 1)

    assert [alert.status for alert in told.alerts] == ["known"]
    assert series_of(told).confirmation.nightly_run == name_of(LATE)


def test_a_confirmation_stays_whatever_else_becomes_a_candidate() -> None:
    """A confirmed slowdown stays confirmed when more candidates of the version appear later."""
    names = ("latency_p99_ms", "latency_p50_ms", "latency_p999_ms", "end_to_end_p99_ms")
    watch = {name: {"margin": 0.05} for name in names}
    rows = history(LATE + 2, SLOW)
    others = [
        {**row, "metric": name, "value": row["value"] / (1.2 if slow_before(row) else 1)}
        for row in rows
        for name in names[1:]
    ]
    first = [row for row in [*rows, *others] if row["labels"]["campaign"] <= name_of(LATE)]
    campaign = campaign_of(LATE, watch=watch)
    scattered = {"1": 1.085, "2": 1.13, "3": 1.175}
    reruns = rows_of(
        campaign,
        nightly.follow_up(campaign, first),
        lambda item: 20 * (scattered[item.labels["pair"]] if item.labels["role"] == "candidate" else 1),
    )

    def state_on(nightly_run: int, found: list[Row]) -> str:
        told = result(found, nightly_run, watch=watch)
        return next(
            each.state
            for each in told.series
            if (each.role, each.metric, each.kafka_version) == ("matrix", names[0], "4.3.0")
        )

    assert state_on(LATE, first + reruns) == "confirmed"
    assert state_on(LATE + 1, [*rows, *others, *reruns]) == "confirmed"


def slow_before(row: Row) -> bool:
    """Return whether a row is of the slow version on its first slow nightly run."""
    return bool(row["kafka_version"] == "4.3.0" and row["labels"]["campaign"] == name_of(LATE))


def test_alerts_about_performance_have_a_budget() -> None:
    """Performance alerts beyond the limit are suppressed with the reason; correctness alerts have no limit."""
    rows = failing(with_reruns(history(LATE + 1, SLOW), 1.2), LATE, kafka="3.9.1")
    rows = [found for found in rows if found["labels"]["role"] in ("matrix", "control") or found["verdict"] == "pass"]
    told = result(with_reruns(history(LATE + 1, SLOW), 1.2), alerts=0)

    assert told.alerts == []
    assert [alert.why for alert in told.suppressed] == [
        "the limit of 0 performance alerts for a nightly run is reached"
    ]
    assert told.state == "fail"
    assert [alert.kind for alert in result(rows, alerts=0).alerts] == ["correctness", "correctness"]


def test_a_change_that_the_host_may_have_caused_is_no_pass() -> None:
    """If the control moved together with a series, the host is the likely cause, and the result is unknown."""
    factor = {"4.3.0": (LATE - 3, 1.07), "control": (LATE - 3, 1.04)}
    told = result(history(LATE + 1, factor))
    control = [each.state for each in told.series if each.role == "control"]

    assert (series_of(told).state, control, told.state) == ("host", ["steady"], "unknown")
    assert told.sentence.endswith(
        "; the control changed together with p99 latency, steady on 4.3.0, so the host is the likely cause."
    )
    assert told.control.state == "moved"
    assert told.control.sentence.endswith(
        "changed together with p99 latency, steady on 4.3.0, so the host is the likely cause."
    )


def test_a_nightly_run_that_became_too_slow_to_measure_is_not_green() -> None:
    """A series whose runs all missed their load has missing data, and the result is unknown."""
    rows = history(LATE + 1)
    for found in rows:
        if found["kafka_version"] == "4.3.0" and found["labels"]["campaign"] == name_of(LATE):
            found |= {"trusted": False, "note": "80.0% of the offered load was acknowledged in time"}
    told = result(rows)

    assert (told.state, series_of(told).state) == ("unknown", "missing data")
    assert "1 series with missing data" in told.sentence
    assert series_of(told).why.endswith("80.0% of the offered load was acknowledged in time")
    assert result(history(LATE + 1)).state == "pass"


def test_a_control_without_a_figure_is_missing() -> None:
    """A control without a value counts as missing."""
    rows = history(LATE + 1)
    for found in rows:
        if found["labels"]["role"] == "control" and found["labels"]["campaign"] == name_of(LATE):
            found |= {"trusted": False, "note": "the host was under pressure"}

    assert result(rows).control.state == "missing"
    assert result(rows).sentence.endswith("the control is missing.")


def test_a_history_of_sixty_nightly_runs_with_an_injected_change() -> None:
    """In sixty nightly runs, a change of 12% is found on the right one with its size, and none before."""
    rows = history(60, {"4.3.0": (45, 1.12)})

    last = series_of(result(rows, 59))
    assert (last.state, last.change.since) == ("candidate", "nightly-45")
    assert last.change.percent == pytest.approx(12, abs=1)
    assert last.change.low_percent < 12 < last.change.high_percent
    assert [nightly_run for nightly_run in range(9, 45) if nightly.follow_up(campaign_of(nightly_run), rows)] == []
    assert nightly.follow_up(campaign_of(45), rows) != []


def test_a_history_of_sixty_nightly_runs_without_a_change() -> None:
    """In sixty nightly runs without a change there are no reruns and no alerts."""
    rows = history(60)

    assert [nightly_run for nightly_run in range(9, 60) if nightly.follow_up(campaign_of(nightly_run), rows)] == []
    told = result(rows, 59)
    assert (told.state, told.alerts) == ("pass", [])
    assert len(told.nightly_runs) == 60


def test_what_began_anew_is_noted() -> None:
    """A new host or a changed scenario begins new series and is noted."""
    current = campaign_of(LATE)

    def notes(**more: Any) -> list[str]:
        return list(result(history(LATE) + rows_of(current, current.items, lambda _: 20.0, **more)).notes)

    assert notes() == []
    assert notes(host="host-b") == [
        "The host is not the one of nightly-13 (its fingerprint changed), so every series begins anew."
    ]
    assert notes(scenario_digest="new") == [
        "Changed since nightly-13, so that its series begin anew: steady, transactions."
    ]
