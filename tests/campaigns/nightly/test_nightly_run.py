"""The state of each series of a nightly run: candidates, other states with their reasons, and reruns."""

from collections.abc import Mapping
from typing import Any

import pytest

from campaigns.campaign import Campaign
from campaigns.nightly.campaign import follow_up
from campaigns.nightly.nightly_run import NightlyRun, Watched
from tests.campaigns.nightly_runs import Row, campaign_of, figure, history, name_of, rerun, row, rows_of

LATE = 14  # the nightly run that is looked at


def states(rows: list[Row], nightly_run: int = LATE, **settings: Any) -> dict[tuple[str, str], str]:
    """Return the state of each series by role and version."""
    watched = NightlyRun(campaign_of(nightly_run, **settings), rows).watched
    return {(told.role, told.key.kafka_version): told.state for told in watched}


def candidate(rows: list[Row], nightly_run: int = LATE, **settings: Any) -> tuple[NightlyRun, Watched]:
    """Return a nightly run and its single candidate."""
    looked = NightlyRun(campaign_of(nightly_run, **settings), rows)
    [told] = [told for told in looked.watched if told.state == "candidate"]
    return looked, told


def reruns(nightly_run: int, rows: list[Row], factor: float, **settings: Any) -> list[Row]:
    """Return the reruns of a nightly run; candidates are slower than the release by this factor."""
    campaign = campaign_of(nightly_run, **settings)
    return rows_of(campaign, follow_up(campaign, rows), rerun(factor))


# --- series -----------------------------------------------------------------------------------------


def test_a_series_is_told_to_have_no_basis_until_it_has_one() -> None:
    """A series needs nine nightly runs; before that its reason has the number so far."""
    young = NightlyRun(campaign_of(1), history(2)).watched

    assert {told.state for told in young} == {"no basis"}
    assert young[0].why == "2 of the 9 nightly runs that a comparison needs, this one included"
    assert set(states(history(8), 7).values()) == {"no basis"}
    assert set(states(history(9), 8).values()) == {"steady"}


def test_nightly_runs_to_come_are_not_looked_at() -> None:
    """A nightly run ignores later ones, so its result does not change."""
    slow_later = history(20, {"4.3.0": (15, 1.3)})

    assert states(slow_later)["matrix", "4.3.0"] == "steady"
    assert len(NightlyRun(campaign_of(LATE), slow_later).began) == LATE + 1


def test_another_host_or_scenario_begins_anew() -> None:
    """A new host or a changed scenario begins a new series."""
    old = history(LATE)
    current = campaign_of(LATE)

    def on(**more: Any) -> list[Row]:
        return old + rows_of(current, current.items, lambda item: figure(item, LATE, {}), **more)

    assert set(states(on()).values()) == {"steady"}
    assert set(states(on(host="host-b")).values()) == {"no basis"}
    assert set(states(on(scenario_digest="changed")).values()) == {"no basis"}


def test_a_patch_of_the_kernel_is_a_marker_and_no_new_series() -> None:
    """A kernel update is noted at its point and the series continues; another machine begins a new one."""
    old = [{**row, "machine": "m", "environment": {"kernel": "6.1.0", "java": "25.0.1"}} for row in history(LATE)]
    current = campaign_of(LATE)

    def on(machine: str, **environment: str) -> NightlyRun:
        rows = rows_of(current, current.items, lambda item: figure(item, LATE, {}), host="host-b", machine=machine)
        return NightlyRun(current, old + [{**row, "environment": {"java": "25.0.1", **environment}} for row in rows])

    patched = on("m", kernel="6.1.1").watched
    assert {told.state for told in patched} == {"steady"}
    assert {tuple(told.points[-1].changed) for told in patched} == {("kernel 6.1.0 to 6.1.1",)}
    assert {tuple(told.points[-2].changed) for told in patched} == {()}
    assert {told.state for told in on("another", kernel="6.1.0").watched} == {"no basis"}


def test_rows_of_before_machines_were_named_go_on_with_those_of_the_same_host() -> None:
    """Rows without a machine continue with rows of the same host digest."""
    old, current = history(LATE), campaign_of(LATE)
    new = rows_of(current, current.items, lambda item: figure(item, LATE, {}), machine="m")
    renamed = [{**row, "host": "host-b"} for row in new]

    assert set(states(old + new).values()) == {"steady"}
    assert set(states(old + renamed).values()) == {"no basis"}


def test_a_candidate_names_what_changed_together_with_it() -> None:
    """A candidate's reason names what changed in the same nightly run, such as the kernel."""
    rows = history(LATE + 1, {"4.3.0": (LATE, 1.2)})
    for found in rows:
        kernel = "6.1.1" if found["labels"]["campaign"] == name_of(LATE) else "6.1.0"
        found |= {"machine": "m", "environment": {"kernel": kernel}}

    assert candidate(rows)[1].why == "it looks worse since nightly-14, together with kernel 6.1.0 to 6.1.1"


@pytest.mark.parametrize(
    ("more", "state", "why"),
    [
        ({"trusted": False, "note": "the host was under pressure"}, "missing data", "the host was under pressure"),
        ({"verdict": "fail"}, "no figure", "the verdict is fail, and such a run is neither slow nor fast"),
        ({"value": None}, "missing data", "nothing was seen"),
        ({"metric": "latency_p50_ms"}, "missing data", "no run measured it"),
    ],
)
def test_a_nightly_run_without_a_good_run_has_no_figure(more: Mapping[str, Any], state: str, why: str) -> None:
    """A nightly run without a good run has no point; only if its runs passed, data are missing."""
    current = campaign_of(LATE)
    rows = history(LATE) + rows_of(current, current.items, lambda _: 99.0, **more)

    watched = NightlyRun(current, rows).watched

    lost = f"14 earlier nightly runs had a figure, and this one has none: {why}"
    assert {(told.state, told.why) for told in watched} == {(state, lost if state == "missing data" else why)}
    assert {len(told.points) for told in watched} == {LATE}


@pytest.mark.parametrize(("nightly_runs", "state"), [(7, "no figure"), (8, "missing data")])
def test_a_series_that_hardly_had_figures_is_not_missed(nightly_runs: int, state: str) -> None:
    """A series that rarely had values has no missing data; nor has one of another scenario digest."""
    current = campaign_of(LATE)
    last = rows_of(current, current.items, lambda _: 99.0, trusted=False)
    before = [row for row in history(LATE) if row["labels"]["campaign"] >= name_of(LATE - nightly_runs)]
    edited = [{**row, "scenario_digest": "edited"} for row in last]

    assert set(states(before + last).values()) == {state}
    assert set(states(before + edited).values()) == {"no figure"}


def test_figures_that_are_older_than_the_window_are_not_missed() -> None:
    """Data are missing only if enough values are within the window."""
    rows = [row if row["labels"]["campaign"] < name_of(8) else {**row, "trusted": False} for row in history(20)]
    short = {"nightly_runs": 12, "releases": ["3.9.1"]}

    assert set(states(rows, 8, baseline=short).values()) == {"missing data"}
    assert set(states(rows, 19, baseline=short).values()) == {"no figure"}


# --- candidates -------------------------------------------------------------------------------------


def test_a_slow_version_is_a_candidate_on_its_nightly_run() -> None:
    """A version that is 20% slower in this nightly run is a candidate; other series are steady."""
    _, told = candidate(history(LATE + 1, {"4.3.0": (LATE, 1.2)}))

    assert told.key.kafka_version == "4.3.0"
    assert told.after == [name_of(LATE)]
    assert told.before == [name_of(nightly_run) for nightly_run in range(LATE)]
    assert states(history(LATE + 1, {"4.3.0": (LATE, 1.2)}))["control", "3.9.1"] == "steady"


@pytest.mark.parametrize(("factor", "state"), [(1.045, "steady"), (1.2, "candidate"), (0.8, "better")])
def test_a_change_must_be_for_the_worse_and_beyond_the_margin(factor: float, state: str) -> None:
    """A change is a candidate only if it is worse by more than the margin."""
    rows = history(LATE + 1, {"4.3.0": (LATE - 3, factor)})

    assert states(rows)["matrix", "4.3.0"] == state
    assert all(told.change for told in NightlyRun(campaign_of(LATE), rows).watched if told.key.kafka_version == "4.3.0")


def test_the_host_is_a_candidate_if_the_control_moved() -> None:
    """If control and versions slow down together, the host is the likely cause, and nothing is rerun."""
    everything = {"matrix": (LATE, 1.2), "control": (LATE, 1.2)}
    rows = history(LATE + 1, everything)

    assert states(rows) == {
        ("control", "3.9.1"): "moved",
        ("matrix", "3.9.1"): "host",
        ("matrix", "4.3.0"): "host",
    }
    assert follow_up(campaign_of(LATE), rows) == []


def test_a_control_that_moved_on_another_nightly_run_explains_nothing() -> None:
    """A control that moved on another nightly run does not explain a change."""
    rows = history(LATE + 1, {"4.3.0": (LATE, 1.4), "control": (LATE - 4, 1.1)})

    assert states(rows)["control", "3.9.1"] == "moved"
    assert states(rows)["matrix", "4.3.0"] == "candidate"


def test_without_a_control_it_says_that_nothing_tells_the_host() -> None:
    """Without a control value the candidate stays, and its reason has the doubt."""
    rows = [row for row in history(LATE + 1, {"4.3.0": (LATE, 1.2)}) if row["labels"]["role"] != "control"]

    assert (
        candidate(rows)[1].why
        == "it looks worse since nightly-14; no figure of the control shows whether the host changed"
    )


def test_what_is_waived_is_no_candidate_until_the_entry_expires() -> None:
    """A waived series is no candidate up to the entry's last day."""
    entry = {"scenario": "steady", "kafka": "4.3.0", "metric": "latency_p99_ms", "who": "ada", "why": "KAFKA-1"}
    entry["up_to"] = 25
    rows = history(LATE + 1, {"4.3.0": (LATE, 1.2)})

    assert states(rows, waivers=[{**entry, "until": "2026-10-15"}])["matrix", "4.3.0"] == "waived"
    assert states(rows, waivers=[{**entry, "until": "2026-10-14"}])["matrix", "4.3.0"] == "candidate"
    assert states(rows, waivers=[{**entry, "kafka": "3.9.1", "until": "2026-10-15"}])["matrix", "4.3.0"] == "candidate"


@pytest.mark.parametrize(("up_to", "state"), [(22, "waived"), (18, "candidate")])
def test_what_is_waived_has_a_bound(up_to: float, state: str) -> None:
    """A waiver covers a slowdown up to its bound; of two entries the wider one counts."""
    entry = {"scenario": "steady", "metric": "latency_p99_ms", "who": "ada", "why": "KAFKA-1", "until": "2026-10-15"}
    rows = history(LATE + 1, {"4.3.0": (LATE, 1.2)})
    narrow, own = {**entry, "up_to": 10}, {**entry, "up_to": up_to}

    assert states(rows, waivers=[narrow, own])["matrix", "4.3.0"] == state
    if state == "candidate":
        why = candidate(rows, waivers=[own])[1].why
        assert why.startswith("it looks worse since nightly-14, by 19.")
        assert why.endswith("% where 18 % are waived")


def test_pinned_nightly_runs_show_what_the_rolling_window_forgot() -> None:
    """Pinned nightly runs show a slowdown that is older than the rolling window."""
    rows = history(26, {"4.3.0": (14, 1.2)})
    short = {"nightly_runs": 10, "releases": ["3.9.1"]}
    pinned = [name_of(nightly_run) for nightly_run in range(4)]

    assert states(rows, 25, baseline=short)["matrix", "4.3.0"] == "steady"
    assert states(rows, 25, baseline={**short, "pinned": pinned})["matrix", "4.3.0"] == "candidate"


# --- reruns -------------------------------------------------------------------------------------------

SLOW = {"4.3.0": (LATE, 1.2)}


@pytest.mark.parametrize(("factor", "verdict"), [(1.2, "confirmed"), (1.0, "refuted"), (1.03, "inconclusive")])
def test_reruns_of_the_nightly_run_settle_a_candidate(factor: float, verdict: str) -> None:
    """Reruns confirm a candidate, refute it, or are inconclusive near the margin."""
    rows = history(LATE + 1, SLOW)
    nightly_run, told = candidate(rows + reruns(LATE, rows, factor))

    found = nightly_run.reruns(told, nightly_run.name)

    assert found
    assert (found.verdict, found.pairs, found.release) == (verdict, 3, "3.9.1")
    assert len(found.runs) == 6


def test_pairs_that_are_not_whole_do_not_count() -> None:
    """A pair with a failed run does not count, and two pairs are inconclusive."""
    rows = history(LATE + 1, SLOW)
    again = reruns(LATE, rows, 1.2)
    again[0]["verdict"] = "fail"
    nightly_run, told = candidate(rows + again)

    found = nightly_run.reruns(told, nightly_run.name)

    assert found
    assert (found.verdict, found.pairs) == ("inconclusive", 2)


@pytest.mark.parametrize(("role", "pairs"), [("candidate", 3), ("baseline", 2)])
def test_a_time_that_was_cut_short_bounds_only_the_candidate(role: str, pairs: int) -> None:
    """A censored time is a lower bound of the ratio for the candidate, and none for the release."""
    rows = history(LATE + 1, SLOW)
    again = reruns(LATE, rows, 1.2)
    next(row for row in again if row["labels"]["role"] == role)["censored"] = True
    nightly_run, told = candidate(rows + again)

    found = nightly_run.reruns(told, nightly_run.name)

    assert found
    assert found.pairs == pairs


@pytest.mark.parametrize(("kafka", "censored"), [("3.9.1", 4), ("4.3.0", 4), ("4.3.0", 0)])
def test_nightly_runs_that_were_cut_short_are_no_base(kafka: str, censored: int) -> None:
    """Nightly runs with censored values do not count as baseline."""
    rows = history(LATE + 1, SLOW)
    for found in rows:
        nightly_run = found["labels"]["campaign"]
        if found["labels"]["role"] == "matrix" and found["kafka_version"] == kafka and nightly_run < name_of(censored):
            found["censored"] = True
    nightly_run, told = candidate(rows + reruns(LATE, rows, 1.2))
    found = nightly_run.reruns(told, nightly_run.name)

    assert found
    assert found.nightly_runs == LATE - censored


def test_what_was_confirmed_is_not_rerun_and_what_was_refuted_rests() -> None:
    """A confirmed change is not rerun; a refuted one is rerun after two nightly runs."""

    def next_nightly_runs(factor: float) -> list[bool]:
        rows = history(LATE + 4, SLOW)
        rows += reruns(LATE, history(LATE + 1, SLOW), factor)
        return [bool(follow_up(campaign_of(nightly_run), rows)) for nightly_run in (LATE + 1, LATE + 2, LATE + 3)]

    assert next_nightly_runs(1.2) == [False, False, False]
    assert next_nightly_runs(1.0) == [False, False, True]


@pytest.mark.parametrize(("factor", "again"), [(1.0, True), (1.2, False)])
def test_reruns_before_a_change_cannot_refute_it(factor: float, again: bool) -> None:
    """Reruns before a change cannot refute it; if they confirmed it, it stays confirmed."""
    earlier = reruns(LATE - 1, history(LATE, {"4.3.0": (LATE - 1, 1.2)}), factor)
    nightly_run, told = candidate(history(LATE + 1, SLOW) + earlier)

    assert told.after == [name_of(LATE)]
    assert bool(nightly_run.candidates) == again
    assert bool(follow_up(nightly_run.campaign, nightly_run.rows)) == again


def test_a_fixed_change_is_no_candidate() -> None:
    """A series that is fast again is no candidate."""
    rows = history(LATE + 8, {"4.3.0": (LATE, 1.2)})
    for found in rows:
        if found["kafka_version"] == "4.3.0" and found["labels"]["campaign"] >= name_of(LATE + 6):
            found["value"] /= 1.2

    assert states(rows, LATE + 5)["matrix", "4.3.0"] == "candidate"
    assert states(rows, LATE + 7)["matrix", "4.3.0"] in ("steady", "better")


def slowed(nightly_runs: int, *levels: tuple[int, float]) -> list[Row]:
    """Return nightly runs on which 4.3.0 is slower by each factor from its nightly run on."""
    rows = history(nightly_runs)
    for found in rows:
        if found["kafka_version"] == "4.3.0":
            reached = [factor for since, factor in levels if found["labels"]["campaign"] >= name_of(since)]
            found["value"] *= reached[-1] if reached else 1
    return rows


def test_half_a_mend_is_still_a_slowdown() -> None:
    """After a partial fix, the remaining slowdown is measured against the level before it."""
    half, whole = (slowed(30, (14, 1.2), (22, left)) for left in (1.1, 1.0))
    _, told = candidate(half, 29)

    assert told.before == [name_of(nightly_run) for nightly_run in range(14)]
    assert told.after == [name_of(nightly_run) for nightly_run in range(22, 30)]
    assert states(whole, 29)["matrix", "4.3.0"] in ("steady", "better")


def test_steps_below_the_margin_add_up() -> None:
    """Two steps of 4% below the margin of 5% are a candidate together."""
    rows = slowed(38, (14, 1.04), (26, 1.082))

    assert states(rows, 25)["matrix", "4.3.0"] == "steady"
    assert states(rows, 37)["matrix", "4.3.0"] == "candidate"


def test_pinned_nightly_runs_remember_what_later_changes_hide() -> None:
    """With pinned nightly runs, an old slowdown and a later small step add up."""
    rows = slowed(40, (10, 1.08), (32, 1.112))
    short = {"nightly_runs": 20, "releases": ["3.9.1"]}
    pinned = {**short, "pinned": [name_of(nightly_run) for nightly_run in range(4)]}

    assert states(rows, 39, baseline=short)["matrix", "4.3.0"] == "steady"
    assert candidate(rows, 39, baseline=pinned)[1].before == [name_of(nightly_run) for nightly_run in range(4)]


def test_runs_of_other_campaigns_are_no_nightly_runs() -> None:
    """Runs of other campaigns in the archive are ignored."""
    campaign: Campaign = campaign_of(3)
    stranger = row(campaign, campaign.items[1], 50.0) | {
        "labels": {"campaign": "compare-1", "item": "x", "role": "head"}
    }

    assert len(NightlyRun(campaign, [*history(4), stranger]).rows) == 16
