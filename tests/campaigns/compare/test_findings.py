"""Guarantees, losses and behaviour, counted in runs."""

import pytest

from campaigns.compare.findings import behaviour, correctness, counts, missed_loads
from campaigns.compare.runs import runs_of
from history.results.compare import Arms, Having, Verdicts
from tests.campaigns.comparison import campaign, rows

PLAN = campaign(pairs=10, aa_pairs=5)
LOST = {"verdict": "fail", "sentence": "12 x lost_write.", "anomalies": {"lost_write": 12}}
NAMES = Arms[str](base="Kafka 3.9.0", head="Kafka 3.9.1")
OLD_BUG = {"verdict": "fail", "sentence": "I6 does not hold.", "broken": ["I6"]}


def runs(head=(), base=(), place=("latency_p99_ms", "steady")):
    """Return ten runs of head and twenty of base; the first ones are as given."""
    special = {"head": list(head), "base": list(base)}
    about = {}
    for item in PLAN.items:
        of_arm = special["head" if item.labels["role"] == "head" else "base"]
        about[item.name] = of_arm.pop(0) if of_arm else {}
    return runs_of(PLAN, rows(PLAN, about=about, place=place))


@pytest.mark.parametrize(
    ("head", "base", "verdict"),
    [
        ([], [], "none"),
        ([LOST], [], "regression"),  # once is enough
        ([], [LOST] * 8, "improvement"),  # Fisher's p is 0.03
        ([], [LOST] * 7, "base only"),  # 0.06
        ([LOST], [LOST], "both"),
        ([OLD_BUG] * 2, [OLD_BUG] * 6, "both"),
        ([OLD_BUG, LOST], [OLD_BUG] * 6, "regression"),  # the old bug hides no new one
        ([OLD_BUG] * 9, [OLD_BUG] * 2, "regression"),  # far more often than chance allows
        ([OLD_BUG] * 3, [OLD_BUG] * 2, "both"),
        ([{"verdict": "unknown"}] * 10, [], "unknown"),
    ],
)
def test_a_guarantee_that_base_keeps(head, base, verdict):
    """A violation in head only is a regression; one in base only is an improvement if enough runs show it."""
    assert correctness(runs(head, base), NAMES).verdict == verdict


def test_a_run_without_a_verdict_keeps_no_guarantee():
    """Runs without a verdict do not count as free of a violation."""
    (lost,) = correctness(runs([LOST], [{"verdict": "unknown"}] * 4), NAMES).findings

    assert (lost.head.runs, lost.base.runs) == (10, 16)


def test_counts_stand_behind_a_correctness_regression():
    """A correctness regression has its counts, Fisher's p and the failing runs."""
    found = correctness(runs([LOST] * 5), NAMES)
    (lost,) = found.findings

    assert found.at_most == {"base": pytest.approx(1 - 0.05 ** (1 / 20))}  # head did fail
    assert found.arms.head == Verdicts(runs=10, passed=5, failed=5, unknown=0)
    assert found.p == pytest.approx(252 / 142_506)
    assert (lost.what, len(lost.head.having), lost.base) == ("lost_write", 5, Having(runs=20, having=[]))
    assert [run.sentence for run in found.failed] == ["12 x lost_write."] * 5


def test_what_passing_runs_have_is_not_blamed():
    """Anomalies that passing runs show too are permitted and not reported as findings."""
    permitted = {"anomalies": {"duplicate": 3}}
    failing = {**LOST, "anomalies": {"lost_write": 12, "duplicate": 3, "undrained": 1, "behaviour_change": 1}}

    assert [f.what for f in correctness(runs([failing, permitted]), NAMES).findings] == ["lost_write"]
    assert [f.what for f in correctness(runs([failing]), NAMES).findings] == ["duplicate", "lost_write"]


def test_one_known_bug_is_one_finding_however_it_shows():
    """A known bug is one finding, whichever invariants it violates."""
    known = [{**OLD_BUG, "broken": [name], "known_bugs": {name: "KAFKA-14704"}} for name in ("I2", "I6")]
    unnamed = {**OLD_BUG, "broken": ["I2"]}

    named = correctness(runs(known[:1], known[1:]), NAMES)

    assert (named.verdict, [finding.what for finding in named.findings]) == ("both", ["KAFKA-14704"])
    assert correctness(runs([unnamed], known[1:]), NAMES).verdict == "regression"


def test_losses_are_counted_in_runs():
    """Losses are counted in runs, with the largest share; unmeasured losses have no row."""
    found = counts(
        runs([{"value": 0.01}, {"value": 0.02}] + [{"value": 0.0}] * 8, [{"value": 0.0}] * 20, ("loss_ratio", ""))
    )

    (row,) = found
    assert (row.what, len(row.head.having), row.head.largest, row.base.largest) == (
        "share of acknowledged records lost",
        2,
        0.02,
        0.0,
    )
    assert counts(runs()) == []


def test_behaviour_that_changed_by_design():
    """Behaviour that changed by design is counted per side."""
    found = behaviour(runs(base=[{"anomalies": {"behaviour_change": 2}}] * 20))

    assert [(row.what, len(row.base.having), len(row.head.having)) for row in found] == [("behaviour_change", 20, 0)]
    assert behaviour(runs()) == []


def test_what_only_one_side_shows():
    """Permitted anomalies and censored times of only one side are listed."""
    one = behaviour(runs(head=[{"anomalies": {"duplicate": 1}}, {"censored": True}], place=("elect_s", "storm")))
    both = behaviour(runs([{"anomalies": {"duplicate": 1}}], [{"anomalies": {"duplicate": 1}}], ("elect_s", "storm")))

    assert [row.what for row in one] == [
        "duplicate",
        "time until a new leader was elected in phase storm: not over when the observation ended",
    ]
    assert both == []


@pytest.mark.parametrize(
    ("head", "base", "missed"),
    [
        (7, 0, [(7, 0, True)]),
        (1, 0, [(1, 0, False)]),  # within chance
        (10, 3, [(10, 3, True)]),
        (4, 3, []),  # both do
        (0, 3, []),  # head is the better one
    ],
)
def test_loads_that_head_missed_are_counted(head, base, missed):
    """Runs that missed their load (97%, not 99.6%) are counted per side."""
    short, kept = {"value": 0.97}, {"value": 0.996}
    found = missed_loads(
        runs([short] * head + [kept] * (10 - head), [short] * base + [kept] * (20 - base), ("achieved_ratio", "steady"))
    )

    assert [(len(row.head.having), len(row.base.having), row.surely) for row in found] == missed
    assert all((row.scenario, row.phase) == ("steady", "steady") for row in found)


def test_a_load_that_the_host_took_is_nobodys():
    """Missed loads on a disturbed host, or in runs without a verdict, do not count."""
    place = ("achieved_ratio", "steady")

    assert (
        missed_loads(runs([{"value": 0.5, "trusted": False}] * 7 + [{"value": 1.0}] * 3, [{"value": 1.0}] * 20, place))
        == []
    )
    assert missed_loads(runs([{"value": 0.5, "verdict": "unknown"}] * 10, [{"value": 1.0}] * 20, place)) == []
