"""The first sentence of a comparison."""

import re

import pytest

from campaigns.compare.campaign import result
from history.results.compare import CompareResult
from tests.campaigns.comparison import CPU, NOISE, P99, campaign, rows, run_rows
from tests.junit_schema import outcomes_of

PLAN = campaign()
LOST = {"verdict": "fail", "sentence": "12 x lost_write.", "anomalies": {"lost_write": 12}}


def heads(about):
    """Return these columns for every run of head."""
    return {item.name: about for item in PLAN.items if item.labels["role"] == "head"}


def test_a_regression_is_told_with_its_interval():
    """A regression is reported with versions, metric, phase, size, interval and number of pairs."""
    found = result(PLAN, rows(PLAN, 0.10))

    assert found.verdict == "regression"
    assert found.sentence == (
        "Kafka 3.9.1 is worse than Kafka 3.9.0: p99 latency in phase steady +10 % (95 % interval +8.4 % to +12 %, "
        "10 pairs)."
    )


def test_an_improvement_and_an_equivalence_are_told():
    """An improvement and an equivalence are reported with the metric."""
    better, same = (result(PLAN, rows(PLAN, change)) for change in (-0.10, 0.0))

    assert better.sentence.startswith("Kafka 3.9.1 is better than Kafka 3.9.0: p99 latency in phase steady −10 %")
    assert same.sentence.startswith("Kafka 3.9.1 is equivalent to Kafka 3.9.0 within the margins: p99")
    assert (better.verdict, same.verdict) == ("improvement", "equivalent")


def test_what_is_not_known_says_what_could_have_been_seen():
    """An inconclusive result has the number of pairs that would decide, and the smallest effect detectable now."""
    found = result(PLAN, rows(PLAN, 0.03, noise=[10 * value for value in NOISE]))

    assert found.verdict == "inconclusive"
    assert re.fullmatch(
        r"10 pairs cannot decide whether Kafka 3\.9\.1 differs from Kafka 3\.9\.0\. All guarantees were kept\. "
        r"About \d+ pairs would decide\.",
        found.sentence,
    )
    assert any(said.startswith("Undecided: p99 latency in phase steady") for said in found.further)
    assert found.state == "unknown"
    (known,) = [said for said in found.further if said.startswith("Smallest worsening that 10 pairs detect")]
    assert "in four cases of five, with the noise of this host: p99 latency in phase steady: 24 %." in known
    assert "the interval holds 0 and reaches beyond the margin of ±5 %" in found.effects[0].why
    hopeless = result(PLAN, rows(PLAN, 0.03, noise=[150 * value for value in NOISE])).further
    assert any("p99 latency in phase steady: no detectable size" in said for said in hopeless)


def test_one_worse_one_better():
    """With one metric worse and one better, the worse one comes first and decides the verdict."""
    two = campaign(primary={"latency_p99_ms@steady": 0.05, "broker_cpu_s_per_gb@steady": 0.05})
    found = result(two, rows(two, -0.10) + rows(two, 0.10, place=CPU))

    assert found.verdict == "regression"
    assert found.sentence.startswith("Kafka 3.9.1 is worse than Kafka 3.9.0: broker CPU per GB in phase steady +10 %")
    assert any(said.startswith("Better: p99 latency in phase steady −10 %") for said in found.further)


def test_correctness_comes_before_speed():
    """A loss in head comes before any latency."""
    found = result(PLAN, rows(PLAN, -0.5, about=heads(LOST)))

    assert found.verdict == "correctness regression"
    assert found.sentence == (
        "Kafka 3.9.1 showed lost_write in 10 of 10 judged runs, Kafka 3.9.0 in none of 16 (Fisher's exact p < 0.0001)."
    )
    assert found.state == "fail"
    assert found.further[0].startswith("Do not upgrade before the violated guarantee is understood")
    assert found.effects[0].verdict == "inconclusive"


def bases(about, runs=16):
    """Return these columns for this many runs of base."""
    return {item.name: about for item in [i for i in PLAN.items if i.labels["role"] != "head"][:runs]}


def test_a_guarantee_that_only_base_violates_comes_first_too():
    """A violation in base only comes first too, before inconclusive metrics."""
    found = result(PLAN, rows(PLAN, about=bases({"verdict": "fail", "sentence": "I10 …", "broken": ["I10"]}, 13)))

    assert (found.verdict, found.state) == ("correctness improvement", "pass")
    assert found.sentence == (
        "Kafka 3.9.0 violated I10 (without produce the high watermark reaches the log end on every in-sync replica) in "
        "13 of 16 judged runs, Kafka 3.9.1 in none of 10 (Fisher's exact p = 0.00011)."
    )
    assert found.further[0].startswith("3 pairs cannot decide whether Kafka 3.9.1 differs from Kafka 3.9.0.")


def test_what_so_few_runs_do_not_tell_is_no_improvement():
    """One violating run of base is too few to call head an improvement."""
    found = result(PLAN, rows(PLAN, noise=[value / 10 for value in NOISE], about=bases(LOST, 1)))

    assert (found.effects[0].verdict, found.verdict, found.state) == ("equivalent", "inconclusive", "unknown")
    assert found.sentence == (
        "Kafka 3.9.0 showed lost_write in 1 of 16 judged runs, Kafka 3.9.1 in none of 10 (Fisher's exact p = 1; too "
        "few runs to decide whether Kafka 3.9.1 keeps what Kafka 3.9.0 violates)."
    )
    assert found.further[0].startswith("Kafka 3.9.1 is equivalent to Kafka 3.9.0")


def test_what_head_no_longer_violates_does_not_hide_what_is_slower():
    """A violation that head no longer has does not hide that head is slower."""
    found = result(PLAN, rows(PLAN, 0.10, about=bases(LOST, 11)))

    assert (found.verdict, found.state) == ("regression", "fail")
    assert found.sentence.startswith("Kafka 3.9.0 showed lost_write in 11 of 16 judged runs, Kafka 3.9.1 in none of 10")
    assert found.further[0].startswith("Kafka 3.9.1 is worse than Kafka 3.9.0: p99 latency in phase steady +")


def test_a_scenario_without_load_is_compared_by_its_guarantees():
    """A scenario without load is compared by its guarantees; runs without a verdict make it unknown."""
    idle = rows(PLAN, place=("offered_per_s", "steady"), about={i.name: {"samples": 150} for i in PLAN.items})
    kept, unknown = (result(PLAN, idle), result(PLAN, [{**r, "verdict": "unknown"} for r in idle[:9]] + idle[9:]))

    assert (kept.verdict, kept.state) == ("no violation", "pass")
    assert kept.sentence == (
        "All runs that could be judged kept their guarantees (16 of 16 runs of base and 10 of 10 runs of head)."
    )
    assert kept.further == [
        "There is no primary metric to compare.",
        "Not asked, for there is too little load: p99 latency in phase steady (150 of the 1,000 records that a run "
        "needs).",
    ]
    assert (unknown.verdict, unknown.state) == ("inconclusive", "unknown")


def test_base_with_itself_alone_proposes_a_number_of_pairs():
    """A calibration alone has no verdict and proposes a number of pairs."""
    alone = campaign(pairs=0, aa_pairs=5)
    one, none = (result(alone, found) for found in (rows(alone, noise=[5 * value for value in NOISE]), []))

    assert (one.verdict, one.state, one.noise[0].pairs_planned) == ("calibration", "", 10)
    assert one.sentence == (
        "Pairs that detect a worsening by twice its margin in four cases of five, by base with itself: p99 latency in "
        f"phase steady +10 %: {one.noise[0].needed}. --pairs={one.noise[0].needed} is proposed."
    )
    assert none.sentence.endswith("is not known: base was not measured often enough.")
    assert set(outcomes_of(one).values()) == {"skipped"}
    assert set(outcomes_of(result(PLAN, rows(PLAN))).values()) == {"pass"}


def test_base_that_could_not_be_measured_says_why():
    """If base could not be measured, the sentence has the reason."""
    alone = campaign(pairs=0, aa_pairs=2)
    why = "no steady state: median latency drifts by 15%"
    found = result(alone, [{**row, "trusted": False, "note": why} for row in rows(alone)])

    assert found.sentence.endswith(f"is not known: base was not measured often enough ({why}).")
    assert [len(each.left_out) for each in found.without_noise] == [4]


def test_several_violations_are_counted_one_by_one():
    """Several violations are counted one by one, new ones first."""
    old = {"verdict": "fail", "sentence": "I6 …", "broken": ["I6"]}
    names = list(heads({}))
    found = result(PLAN, rows(PLAN, about={**bases(old, 6), names[0]: LOST, names[1]: old}))

    assert found.sentence == (
        "Kafka 3.9.1 violated guarantees in 2 of 10 judged runs, Kafka 3.9.0 in 6 of 16 (Fisher's exact p = 0.42; too "
        "few runs to decide whether Kafka 3.9.0 keeps what Kafka 3.9.1 violates): lost_write in 1 against 0, I6 (no "
        "replica's log end falls below a high watermark that it has shown) in 1 against 6."
    )


def test_two_hosts_are_not_compared():
    """Runs of two hosts are not compared, and the sentence has the reason."""
    found = result(PLAN, rows(PLAN, 0.10, about=heads({"host": "other"})))

    assert found.sentence == (
        "Kafka 3.9.1 is not compared with Kafka 3.9.0: "
        "the runs come from 2 hosts; only runs of one host can be compared."
    )
    assert found.verdict == "inconclusive"


def test_an_unfinished_comparison_says_so_first():
    """An unfinished comparison begins with the number of recorded runs, and lists the missing ones."""
    some = [row for row in rows(PLAN) if row["labels"]["item"] in {item.name for item in PLAN.items[:10]}]
    found = result(PLAN, some)

    assert found.sentence.startswith("Not finished, 10 of 26 runs are recorded: ")
    assert len(found.runs.missing) == 16
    assert CompareResult.model_validate_json(found.model_dump_json()) == found


def test_nothing_recorded_is_a_result_too():
    """Without any run there is a result too, for the page."""
    found = result(PLAN, [])

    assert found.sentence.startswith("Not finished, 0 of 26 runs are recorded: No pairs decide yet whether")
    assert found.further[0] == (
        "Correctness is not known: 0 of 0 runs of base and 0 of 0 runs of head could be judged."
    )


def test_a_host_that_differs_from_itself_is_doubted():
    """If base differs from itself on this host, its metric is reported with doubt."""
    drifted = {i.name: {"value": 11.0} for i in PLAN.items if i.labels["role"] == "base2"}
    found = result(PLAN, rows(PLAN, 0.10, about=drifted))

    assert found.further[-1].startswith("Kafka 3.9.0 differs from itself in p99 latency in phase steady on this host")


@pytest.mark.parametrize(("slower", "said"), [(0.10, "and was detected."), (0.02, "and was not detected.")])
def test_an_injected_slowdown_is_named(slower, said):
    """The sentence reports an injected slowdown, and whether it was detected."""
    injected_slowdown = {"metric": "latency_p99_ms@steady", "changes": {}, "words": "half a CPU"}
    plan = campaign(injected_slowdown=injected_slowdown)

    assert result(plan, rows(plan, slower)).further[-1] == f"A slowdown was injected on purpose (half a CPU) {said}"


def missing(head, base=0):
    """Return rows in which this many runs missed their load, at 97%."""
    runs = {arm: [i for i in PLAN.items if (i.labels["role"] == "head") == (arm == "head")] for arm in ("head", "base")}
    late = {item.name for item in (*runs["head"][:head], *runs["base"][:base])}
    told = {name: {"trusted": False, "note": "97.0% of the offered load was acknowledged in time"} for name in late}
    ratio = {item.name: {"value": 0.97 if item.name in late else 1.0} for item in PLAN.items}
    quiet = [value / 10 for value in NOISE]
    return rows(PLAN, noise=quiet, about=told) + rows(PLAN, place=("achieved_ratio", "steady"), about=ratio)


def test_a_head_that_misses_its_load_is_not_green_by_its_survivors():
    """If head misses its load in most runs, the sentence reports that, and nothing is equivalent."""
    found = result(PLAN, missing(7))

    assert (found.verdict, found.state) == ("inconclusive", "unknown")
    assert found.sentence == (
        "Kafka 3.9.1 misses its offered load in phase steady in 7 of 10 runs, Kafka 3.9.0 in 0 of 16 "
        "(Fisher's exact p = 0.00018); such runs have no latency."
    )
    assert (
        "Too few usable pairs of p99 latency in phase steady: 3 of 10 pairs can be used; to call head as good or "
        "better takes 80 %."
    ) in found.further


def test_a_load_missed_once_is_told_and_decides_nothing():
    """A load missed once is listed and decides nothing; if base misses it as often, it is not listed."""
    once, both = result(PLAN, missing(1)), result(PLAN, missing(2, 3))

    assert (once.verdict, once.state) == ("equivalent", "pass")
    assert once.further[1].startswith("Kafka 3.9.1 misses its offered load in phase steady in 1 of 10 runs")
    assert both.missed_loads == []


def test_both_sides_that_violate_guarantees_are_no_pass():
    """If both sides violate a guarantee, the state is unknown even if the metrics are equivalent."""
    first = {role: next(i.name for i in PLAN.items if i.labels["role"] == role) for role in ("base", "head")}
    quiet = [value / 10 for value in NOISE]
    both = result(PLAN, rows(PLAN, noise=quiet, about=dict.fromkeys(first.values(), LOST)))

    assert both.sentence == (
        "Kafka 3.9.1 showed lost_write in 1 of 10 judged runs, Kafka 3.9.0 in 1 of 16 (Fisher's exact p = 1)."
    )
    assert (both.correctness.verdict, both.verdict, both.state) == ("both", "equivalent", "unknown")
    assert outcomes_of(both)["correctness/guarantees"] == "unknown"


@pytest.mark.parametrize(
    ("measured", "sentence"),
    [
        (
            {P99: 10.0, ("others_per_s", "steady"): 1_200.0},
            "Others wrote records meanwhile, on base and head: 1,200/s and 1,200/s in phase steady. Their load is part "
            "of each figure.",
        ),
        (
            {P99: 10.0},
            "It is not known how much others wrote to the clusters meanwhile; their load is part of each figure.",
        ),
    ],
)
def test_the_load_of_others_stands_beside_the_figures(measured, sentence):
    """On clusters of others alone."""
    sides = {side: {"kafka": "", "cluster": f"/{side}.yaml", "name": side, "changes": {}} for side in ("base", "head")}
    others = campaign(**sides)
    about = {"cluster": "abc", "jvm": "", "runtime": "process"}
    found = [row for item in others.items for row in run_rows(item, measured, **about)]

    assert sentence in result(others, found).further
    assert not any("Others" in each or "others" in each for each in result(PLAN, rows(PLAN)).further)
