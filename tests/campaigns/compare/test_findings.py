"""Promises, losses and behaviour are counted in runs."""

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
    """Ten runs of head and twenty of base; the first ones of each are as given."""
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
    """A regression is what head violates and base keeps; that head keeps what base violates takes runs enough to tell;
    missing evidence of one side is no verdict.
    """
    assert correctness(runs(head, base), NAMES).verdict == verdict


def test_a_run_without_a_verdict_keeps_no_guarantee():
    """Four of twenty runs of base could not be judged: they are no evidence that base is free of the loss."""
    (lost,) = correctness(runs([LOST], [{"verdict": "unknown"}] * 4), NAMES).findings

    assert (lost.head.runs, lost.base.runs) == (10, 16)


def test_counts_stand_behind_a_correctness_regression():
    """Five of ten against none of twenty: Fisher's p is C(10,5) / C(30,5), and every failing run is named."""
    found = correctness(runs([LOST] * 5), NAMES)
    (lost,) = found.findings

    assert found.at_most == {"base": pytest.approx(1 - 0.05 ** (1 / 20))}  # head did fail
    assert found.arms.head == Verdicts(runs=10, passed=5, failed=5, unknown=0)
    assert found.p == pytest.approx(252 / 142_506)
    assert (lost.what, len(lost.head.having), lost.base) == ("lost_write", 5, Having(runs=20, having=[]))
    assert [run.sentence for run in found.failed] == ["12 x lost_write."] * 5


def test_what_passing_runs_have_is_not_blamed():
    """A duplicate that this configuration permits broke nothing; what was not drained is no finding either."""
    permitted = {"anomalies": {"duplicate": 3}}
    failing = {**LOST, "anomalies": {"lost_write": 12, "duplicate": 3, "undrained": 1, "behaviour_change": 1}}

    assert [f.what for f in correctness(runs([failing, permitted]), NAMES).findings] == ["lost_write"]
    assert [f.what for f in correctness(runs([failing]), NAMES).findings] == ["duplicate", "lost_write"]


def test_one_known_bug_is_one_finding_however_it_shows():
    """KAFKA-14704 breaks I2 here and I6 there: head shows nothing that base lacks; without its name it does."""
    says = "I6 does not hold: 1 of 9 checks. This is KAFKA-14704 (a follower raises its high watermark)."
    known = [{**OLD_BUG, "broken": [name], "sentence": says} for name in ("I2", "I6")]
    unnamed = {**OLD_BUG, "broken": ["I2"]}

    named = correctness(runs(known[:1], known[1:]), NAMES)

    assert (named.verdict, [finding.what for finding in named.findings]) == ("both", ["KAFKA-14704"])
    assert correctness(runs([unnamed], known[1:]), NAMES).verdict == "regression"


def test_losses_are_counted_in_runs():
    """A share above zero in two of ten runs, and the largest; no run measured it: no row."""
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
    """Found in base's runs (a high watermark that moves below min ISR before 3.7), none in head's."""
    found = behaviour(runs(base=[{"anomalies": {"behaviour_change": 2}}] * 20))

    assert [(row.what, len(row.base.having), len(row.head.having)) for row in found] == [("behaviour_change", 20, 0)]
    assert behaviour(runs()) == []


def test_what_only_one_side_shows():
    """Permitted anomalies and censored times of one side; what both show is no difference."""
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
        (1, 0, [(1, 0, False)]),  # told, and no more than chance
        (10, 3, [(10, 3, True)]),
        (4, 3, []),  # both do
        (0, 3, []),  # head is the better one
    ],
)
def test_loads_that_head_missed_are_counted(head, base, missed):
    """97 % achieved is a load that was missed, 99.6 % none."""
    short, kept = {"value": 0.97}, {"value": 0.996}
    found = missed_loads(
        runs([short] * head + [kept] * (10 - head), [short] * base + [kept] * (20 - base), ("achieved_ratio", "steady"))
    )

    assert [(len(row.head.having), len(row.base.having), row.surely) for row in found] == missed
    assert all((row.scenario, row.phase) == ("steady", "steady") for row in found)


def test_a_load_that_the_host_took_is_nobodys():
    """Seven runs of head under pressure, or without a verdict, say nothing of head."""
    place = ("achieved_ratio", "steady")

    assert (
        missed_loads(runs([{"value": 0.5, "trusted": False}] * 7 + [{"value": 1.0}] * 3, [{"value": 1.0}] * 20, place))
        == []
    )
    assert missed_loads(runs([{"value": 0.5, "verdict": "unknown"}] * 10, [{"value": 1.0}] * 20, place)) == []
