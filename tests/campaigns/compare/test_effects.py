"""Effects of pairs of runs, and pairs that are left out."""

import math

import pytest

from campaigns.compare.effects import compared, latency_by_phase, noise, not_asked
from campaigns.compare.runs import pairs_of, runs_of
from history.results.compare import Times
from tests.campaigns.comparison import CPU, NOISE, P99, campaign, rows

PLAN = campaign()
ELECT = ("elect_s", "storm")


def pairs(found, plan=PLAN, part="comparison"):
    """Return the pairs of these rows."""
    other = "head" if part == "comparison" else "base2"
    return pairs_of(plan, runs_of(plan, found), part, ("base", other))


def effects(found, plan=PLAN):
    """Return the effects of these rows by metric."""
    return {effect.metric: effect for effect in compared(plan.settings, pairs(found, plan))}


def item(pair, role):
    """Return the name of a run of the comparison."""
    return next(i.name for i in PLAN.items if i.name.endswith(role) and f"comparison-{pair:02}" in i.name)


@pytest.mark.parametrize(
    ("change", "verdict"),
    [(0.10, "regression"), (0.055, "regression"), (0.04, "inconclusive"), (0.03, "equivalent"), (-0.10, "improvement")],
)
def test_the_verdict_of_a_primary_metric(change, verdict):
    """The verdict of a primary metric compares its interval with the margin of 5%."""
    effect = effects(rows(PLAN, change))["latency_p99_ms"]

    assert (effect.role, effect.n, effect.verdict) == ("primary", 10, verdict)
    assert effect.mean == pytest.approx(100 * change)
    assert effect.low == pytest.approx(100 * ((1 + change) * math.exp(-0.014307) - 1), abs=1e-3)  # t = 2.26216
    assert (effect.why is None) == (verdict != "inconclusive")


def test_where_more_is_better_less_is_a_regression():
    """For a metric where more is better, a decrease is a regression."""
    place = ("sustainable_rate_per_s", "")
    plan = campaign(primary={"sustainable_rate_per_s": 0.05})

    assert effects(rows(plan, -0.10, place=place), plan)["sustainable_rate_per_s"].verdict == "regression"


def test_a_pair_with_an_unusable_run_is_left_out_and_named():
    """A pair with an untrusted or failed run is left out, and the run is named with the reason."""
    about = {
        item(2, "head"): {"trusted": False, "note": "host_steal_ratio was 9%"},
        item(5, "base"): {"verdict": "fail", "sentence": "Lost."},
    }
    effect = effects(rows(PLAN, 0.10, about=about))["latency_p99_ms"]

    assert effect.n == 8
    assert [pair.pair for pair in effect.pairs] == ["1", "3", "4", "6", "7", "8", "9", "10"]
    assert [(left.pair, left.run, left.why) for left in effect.left_out] == [
        ("2", f"run-{item(2, 'head')}", "host_steal_ratio was 9%"),
        ("5", f"run-{item(5, 'base')}", "its verdict is fail: Lost."),
    ]


def test_one_pair_is_no_comparison():
    """A metric with fewer than two usable pairs is inconclusive."""
    about = {item(pair, "head"): {"trusted": False, "note": "pressure"} for pair in range(2, 11)}
    one = effects(rows(PLAN, 0.10, about=about))["latency_p99_ms"]
    none = effects([])["latency_p99_ms"]

    assert (one.verdict, one.why) == ("inconclusive", "1 of 10 pairs can be used, and 2 are needed")
    assert (none.verdict, none.why) == ("inconclusive", "0 of 10 pairs can be used, and 2 are needed")


def offered(records):
    """Return rows with the number of records that each run's phase offered."""
    return [{**row, "samples": records} for row in rows(PLAN, place=("offered_per_s", "steady"))]


def few(records):
    """Return rows of a p99 from this many records."""
    return [{**row, "samples": records, "trusted": False, "note": "…"} for row in rows(PLAN)]


@pytest.mark.parametrize(("records", "asked"), [(150, False), (999, False), (1_000, True)])
def test_a_percentile_that_the_load_has_too_few_records_for_is_not_asked(records, asked):
    """A percentile that needs more records than the scenario offers is not compared, and not missing."""
    found = few(150) + offered(records)

    assert ("latency_p99_ms" in effects(found)) is asked
    assert [(own.offered, own.least) for own in not_asked(PLAN.settings, pairs(found))] == (
        [] if asked else [(records, 1_000)]
    )


def test_a_phase_without_any_load_is_not_asked_for_latency_or_cpu():
    """In a phase without load, latency and CPU are not compared; without any verdict they are inconclusive."""
    plan = campaign(primary={"latency_p99_ms@at rest": 0.1, "broker_cpu_s_per_gb@at rest": 0.1, "elect_s@at rest": 0.1})
    host = rows(plan, place=("host_steal_ratio", "at rest"))
    unknown = [{**row, "verdict": "unknown"} for row in host]

    assert set(effects(host, plan)) == {"elect_s", "host_steal_ratio"}
    assert {"latency_p99_ms", "broker_cpu_s_per_gb"} < set(effects(unknown, plan))


def test_two_primary_metrics_share_the_error():
    """Two primary metrics share the error rate (Holm), so the same p of 0.04 decides neither."""
    spread = 0.0612 * 10**0.5 / 2.3984  # t of 9 degrees of freedom at 0.04
    noise_of_one = [value / 0.02 * spread for value in NOISE]
    change = math.expm1(0.0612)
    two = campaign(primary={"latency_p99_ms@steady": 0.05, "broker_cpu_s_per_gb@steady": 0.05})
    found = rows(two, change, noise=noise_of_one) + rows(two, change, noise=noise_of_one, place=CPU)

    alone = effects(rows(PLAN, change, noise=noise_of_one))["latency_p99_ms"]
    shared = effects(found, two)["latency_p99_ms"]

    assert alone.p == pytest.approx(0.04, abs=1e-5)
    assert (alone.verdict, shared.verdict) == ("regression", "inconclusive")
    assert shared.p_holm == pytest.approx(0.08, abs=2e-5)
    assert "0.08 after Holm" in shared.why


def test_what_explains_is_not_judged():
    """Other metrics are secondary with a separate Holm correction; explanatory metrics have no verdict."""
    found = effects(
        rows(PLAN) + rows(PLAN, 0.3, place=CPU) + rows(PLAN, 0.5, place=("request_produce_queue_ms", "steady"))
    )

    assert (found["broker_cpu_s_per_gb"].role, found["broker_cpu_s_per_gb"].verdict) == (
        "secondary",
        "regression",
    )
    assert found["broker_cpu_s_per_gb"].p_holm == found["broker_cpu_s_per_gb"].p
    queue = found["request_produce_queue_ms"]
    assert (queue.role, queue.verdict, queue.p_holm) == ("why", None, None)
    assert queue.mean == pytest.approx(50)


def test_zero_has_no_ratio_and_its_pair_is_not_dropped():
    """A value of 0 has no ratio and makes the metric inconclusive instead of dropping the pair."""
    effect = effects(rows(PLAN, 0.10, about={item(3, "head"): {"value": 0.0}}))["latency_p99_ms"]

    assert (effect.verdict, effect.why) == (
        "inconclusive",
        "in 1 of 10 pairs a value is 0, which has no ratio",
    )


def test_censored_times_are_compared_as_a_whole():
    """Censored times are compared by log-rank test and restricted means, without ratios."""
    plan = campaign(primary={"elect_s@storm": 0.10})
    late = {i.name: {"value": 30.0, "censored": True} for i in plan.items if i.labels["role"] == "head"}
    effect = effects(rows(plan, place=ELECT, about=late), plan)["elect_s"]
    never = effects(rows(plan, 0.0, place=ELECT), plan)["elect_s"]

    assert (effect.method, effect.n, effect.verdict) == ("log-rank", 10, "regression")
    assert effect.survival.limit == 30
    assert effect.survival.head == Times(runs=10, ended=0, median=None, restricted_mean=30)
    assert all(pair.log is None for pair in effect.pairs)
    assert never.method == "paired"  # nothing censored: pairs as usual


def test_a_scenario_of_its_own_is_an_effect_of_its_own():
    """Each scenario has its own effect."""
    plan = campaign(scenarios=["steady", "storm"])
    others = [i.model_copy(update={"scenario": "storm", "name": f"storm-{i.name}"}) for i in plan.items]
    plan = plan.model_copy(update={"items": [*plan.items, *others]})
    in_both = compared(plan.settings, pairs(rows(plan, 0.10), plan))

    assert [(effect.scenario, effect.n) for effect in in_both] == [("steady", 10), ("storm", 10)]


def test_the_noise_of_the_host():
    """Calibration pairs give the noise, and the smallest effect that ten pairs can detect."""
    found = rows(PLAN)
    (own,) = noise(PLAN.settings, pairs(found, part="calibration"))

    spread = 0.02 * 0.9**0.5 * 2 / 3**0.5  # of 1, -1 and -1 times NOISE[0]
    assert (own.n, own.role, own.verdict) == (3, "primary", "inconclusive")
    assert own.sd == pytest.approx(100 * math.expm1(spread))
    assert own.smallest_low < own.smallest < own.smallest_high
    assert own.smallest == pytest.approx(5.61, abs=0.01)  # log 1.05, and 0.842 standard errors of 0.0069
    assert own.detection["3%"] < 0.01
    assert own.detection["10%"] > 0.99


def test_without_calibration_nothing_is_said_of_noise():
    """Without calibration pairs no noise is reported."""
    found = [row for row in rows(PLAN) if row["labels"]["part"] == "comparison"]

    assert noise(PLAN.settings, pairs(found, part="calibration")) == []


def test_latency_by_phase_has_every_usable_run():
    """Latency by phase has the values of all usable runs of both sides."""
    found = rows(PLAN, 0.10, about={item(1, "head"): {"trusted": False, "note": "load missed"}}) + rows(PLAN, place=CPU)
    (phase,) = latency_by_phase(PLAN.settings, pairs(found))

    assert (phase.metric, phase.phase) == P99
    assert (len(phase.base), len(phase.head)) == (10, 9)
    assert phase.base == [10.0] * 10


def test_phases_come_in_the_order_of_the_scenario():
    """Phases are in the scenario's order, the whole run first and unknown phases last."""
    names = ["a last one", "leader dies", "steady", "", "another"]
    found = [row for name in names for row in rows(PLAN, place=("latency_p50_ms", name))]

    assert [phase.phase for phase in latency_by_phase(PLAN.settings, pairs(found))] == [
        "",
        "steady",
        "leader dies",
        "a last one",
        "another",
    ]


def test_a_warm_up_is_not_compared():
    """Warm-up phases are not compared."""
    warming = PLAN.settings | {"warm_ups": {"steady": ["leader dies"]}}
    found = [row for name in ("leader dies", "steady") for row in rows(PLAN, place=("latency_p50_ms", name))]

    assert [phase.phase for phase in latency_by_phase(warming, pairs(found))] == ["steady"]
    assert {each.phase for each in noise(warming, pairs(found, part="calibration"))} == {"steady"}


@pytest.mark.parametrize(("left", "verdict"), [(8, "equivalent"), (7, "inconclusive")])
def test_survivors_are_not_called_as_good(left, verdict):
    """If fewer than 80% of the pairs are usable, head is not called equivalent or better, but can be worse."""
    about = {item(pair, "head"): {"trusted": False, "note": "the load was missed"} for pair in range(left + 1, 11)}
    quiet = [value / 10 for value in NOISE]
    same, worse, better = (
        effects(rows(PLAN, change, noise=quiet, about=about))["latency_p99_ms"] for change in (0.0, 0.1, -0.1)
    )

    assert (same.verdict, worse.verdict) == (verdict, "regression")
    assert better.verdict == ("improvement" if left == 8 else "inconclusive")
    assert same.why == (None if left == 8 else "7 of 10 pairs can be used; to call head as good or better takes 80 %")


def test_a_host_that_differs_from_itself_is_told_by_few_pairs_too():
    """In calibration, two pairs are enough to report that base differs from itself."""
    about = {i.name: {"value": 9.0} for i in PLAN.items if i.labels["role"] == "base2"}
    first = next(i.name for i in PLAN.items if i.labels["role"] == "base")
    about[first] = {"trusted": False, "note": "pressure"}
    slight = [value / 10 for value in NOISE]
    base = {
        i.name: {"value": 10 + slight[int(i.labels["pair"]) % 10]} for i in PLAN.items if i.labels["role"] == "base"
    }
    found = rows(PLAN, about={**base, **about})
    (own,) = noise(PLAN.settings, pairs(found, part="calibration"))

    assert (own.n, own.verdict) == (2, "improvement")


def test_a_pair_that_is_not_side_by_side_is_left_out():
    """A pair whose runs are not adjacent in time is left out."""
    late = {item(2, "head"): {"started_at": "2026-11-01T23:00:00Z"}}
    effect = effects(rows(PLAN, 0.10, about=late))["latency_p99_ms"]
    last = effects(rows(PLAN, 0.10, about={item(10, "head"): {"started_at": "2026-11-01T23:00:00Z"}}))["latency_p99_ms"]

    assert (effect.n, last.n) == (9, 10)
    assert {(left.pair, left.why) for left in effect.left_out} == {
        ("2", "another run of the comparison was started between the two of this pair")
    }
    assert [pair.ran_first for pair in last.pairs][-3:] == [1, 0, 0]
