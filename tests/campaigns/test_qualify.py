"""Go or no-go for an upgrade: the plan, and the evidence behind each answer."""

from __future__ import annotations

from typing import Any

import pytest

from campaigns.campaign import Campaign, Item
from campaigns.known_bugs import campaign as known_bugs
from campaigns.known_bugs.bugs import BUGS, Bug
from campaigns.qualify import KIND, questions
from campaigns.qualify import campaign as qualify
from history.errors import BadInput
from history.kafka_versions import FEATURES
from history.results.qualify import Line, QualifyResult
from tests.campaigns.comparison import run_rows
from tests.junit_schema import outcomes_of

PRIMARY = [(name, "measured") for name in ("latency_p99_ms", "end_to_end_p99_ms", "broker_cpu_s_per_gb")]
MENDED = Bug("KAFKA-18723", "records are gone", "steady", "3.9.0", "3.9.1", ("I6",))
OLD = Bug("STALE-HW", "it stands still", "steady", "3.4.1", "3.4.0", ("I10",))


@pytest.fixture(autouse=True)
def two_bugs(monkeypatch: pytest.MonkeyPatch) -> None:
    """One bug that is fixed between 3.9.0 and 3.9.1, and one that both have."""
    for module in (known_bugs, questions, qualify):
        monkeypatch.setattr(module, "BUGS", (MENDED, OLD))


def plan(**settings: Any) -> Campaign:
    """Return the plan from 3.9.0 to 3.9.1 with one scenario and one try, with ``settings`` replaced."""
    usual = {"base": "3.9.0", "head": "3.9.1", "scenarios": "survived_faults", "tries": 1, "pairs": 0, "clients": 0}
    return qualify.plan(usual | settings, campaign_id="q1", created_at="2026-11-24T08:00:00+00:00", seed=7)


def rows(campaign: Campaign, /, **about: dict[str, Any]) -> list[dict[str, Any]]:
    """Return passing runs of a plan; ``about`` changes items by name, with underscores for hyphens."""
    return [row for item in campaign.items for row in rows_of(item, **about.get(item.name.replace("-", "_"), {}))]


def rows_of(item: Item, **about: Any) -> list[dict[str, Any]]:
    """Return the archive rows of one run."""
    usual = {"precondition_met": True, "labels": {**item.labels, "campaign": "q1", "item": item.name}}
    return run_rows(item, dict.fromkeys(PRIMARY, 10.0), **usual | about)


FOUND = {"verdict": "fail", "broken": ["I6"], "sentence": "500 records are gone."}
FAILS = {"verdict": "fail", "sentence": "A promise is broken."}


def answered(campaign: Campaign, /, **about: dict[str, Any]) -> QualifyResult:
    """Return the result of a plan whose runs pass except those in ``about``."""
    return qualify.result(campaign, rows(campaign, **about))


def line(result: QualifyResult, question: str, what: str = "") -> Line:
    """Return the answer to a question."""
    (found,) = (each for each in result.answers if each.question == question and what in each.what)
    return found


# --- the plan ------------------------------------------------------------------------------------------


def test_the_plan_asks_one_question_after_the_other() -> None:
    """The plan has upgrade, correctness, bugs, clients and pairs in order; bugs of both versions cost no run.

    All but the pairs may run at once.
    """
    planned = plan(clients=1, pairs=2)

    assert [item.name for item in planned.items[:6]] == [
        "upgrade-upgrade-01",
        "upgrade-rollback-01",
        "correctness-head-survived-faults-01",
        "bugs-kafka-18723-given-1-01",
        "bugs-kafka-18723-given-2-01",
        "clients-client-4.3.1",
    ]
    assert [item.at_once for item in planned.items] == [True] * 6 + [False] * 8
    paired = [item.name for item in planned.items[6:]]
    assert {name.rpartition("-comparison-")[0] for name in paired} == {
        "default-settings-benchmark",
        "same-settings-benchmark",
    }
    assert [sum(name.endswith(side) for name in paired) for side in ("base", "head")] == [4, 4]
    assert [item.kafka for item in planned.items[:6]] == ["3.9.0", "3.9.0", "3.9.1", "3.9.0", "3.9.1", "3.9.1"]


def phases(planned: Campaign, number: int) -> list[str]:
    """Return the names of a run's steps."""
    told = planned.items[number].changes["phases"]
    return [verb for phase in told for steps in phase.values() for step in steps for verb in step]


def test_leaders_die_between_old_and_new_before_it_is_finalised_and_after() -> None:
    """Leaders are killed between, before and after finalising; a patch release has nothing to finalise."""
    minor, patch = plan(base="3.8.1", head="3.9.1"), plan()
    ups = [verb for verb in phases(minor, 0) if verb in ("upgrade", "kill", "finalise")]

    assert ups == ["upgrade", "kill", "upgrade", "upgrade", "kill", "finalise", "kill"]
    assert "finalise" not in phases(patch, 0)
    assert [verb for verb in phases(patch, 1) if verb in ("upgrade", "kill", "rollback")] == [
        "upgrade",
        "upgrade",
        "kill",
        "rollback",
        "rollback",
        "kill",
    ]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"head": "3.9.0"}, r"--from=3\.9\.0 and --to=3\.9\.0 are one version; there is nothing to qualify"),
        ({"head": "3.8.1"}, r"--to=3\.8\.1 is older than --from=3\.9\.0; Kafka goes back within a minor release only"),
        ({"base": "2.8.2", "head": "4.3.0"}, r"4\.3\.0"),
        ({"pairs": 1}, "--pairs=1 is refused"),
        ({"tries": 0}, "--tries=0 is refused"),
        ({"scenario": "nowhere"}, "nowhere"),
    ],
)
def test_what_cannot_be_asked_is_refused(settings: dict[str, Any], sentence: str) -> None:
    """Invalid settings are rejected before anything starts."""
    with pytest.raises(BadInput, match=sentence):
        plan(**settings)


def test_a_patch_release_may_be_the_older_one() -> None:
    """Between patch releases the target may be older than the base."""
    assert plan(base="3.9.1", head="3.9.0").items[2].kafka == "3.9.0"


# --- the answer ----------------------------------------------------------------------------------------


def test_everything_kept_and_a_bug_mended_is_go() -> None:
    """If all guarantees hold and a bug is fixed, the answer is go; a bug of both versions is a note."""
    result = answered(plan(tries=2), bugs_kafka_18723_given_1_01=FOUND, bugs_kafka_18723_given_1_02=FOUND)

    assert (result.state, result.verdict) == ("pass", "go")
    assert result.sentence == (
        "Go from Kafka 3.9.0 to 3.9.1: upgrade and rollback under load kept every guarantee, 1 of 1 scenarios pass; "
        "fixed: KAFKA-18723."
    )
    assert line(result, "bugs", "KAFKA-18723").sentence == (
        "Fixed: found on 3.9.0 in 2 of 2 tries, on 3.9.1 in 0 of 2."
    )
    assert line(result, "bugs", "STALE-HW").answer == "note"
    assert line(result, "upgrade", "rolled back").runs == ["run-upgrade-rollback-01", "run-upgrade-rollback-02"]


def test_the_way_back_is_no_go_by_the_same_bug() -> None:
    """If the target has a bug that the base lacks, the answer is no-go."""
    result = answered(plan(base="3.9.1", head="3.9.0"), bugs_kafka_18723_given_2_01=FOUND)

    assert (result.state, result.verdict) == ("fail", "no-go")
    assert result.sentence.startswith(
        "No-go from Kafka 3.9.1 to 3.9.0. KAFKA-18723: records are gone: New: found on 3.9.1"
    )


@pytest.mark.parametrize(
    ("base", "head", "about", "answer"),
    [
        ("3.9.0", "3.9.1", {"bugs_kafka_18723_given_1_01": FOUND}, "go"),
        ("3.9.0", "3.9.1", {}, "note"),
        ("3.9.0", "3.9.1", {"bugs_kafka_18723_given_1_01": FOUND, "bugs_kafka_18723_given_2_01": FOUND}, "note"),
        ("3.9.0", "3.9.1", {"bugs_kafka_18723_given_2_01": FOUND}, "no-go"),
        ("3.9.1", "3.9.0", {}, "not yet"),
        ("3.9.1", "3.9.0", {"bugs_kafka_18723_given_2_01": {"verdict": "unknown"}}, "not yet"),
    ],
)
def test_what_counts_of_a_bug_is_who_showed_it(base: str, head: str, about: dict[str, Any], answer: str) -> None:
    """A bug counts as fixed only if the base showed it and the target was decided."""
    assert line(answered(plan(base=base, head=head), **about), "bugs", "KAFKA-18723").answer == answer


@pytest.mark.parametrize(("verdict", "answer"), [("fail", "no-go"), ("unknown", "not yet"), ("pass", "go")])
def test_one_run_of_the_upgrade_decides(verdict: str, answer: str) -> None:
    """The worst try of the upgrade decides."""
    result = answered(plan(tries=2), upgrade_upgrade_02={"verdict": verdict, "sentence": "It is so."})

    assert line(result, "upgrade", "node by node").answer == answer


def test_a_run_that_is_missing_is_never_go() -> None:
    """A missing run makes the answer "not yet"."""
    planned = plan(tries=2)
    recorded = [row for row in rows(planned) if row["labels"]["item"] != "upgrade-upgrade-02"]
    found = line(qualify.result(planned, recorded), "upgrade", "node by node")

    assert (found.answer, found.sentence) == ("not yet", "1 of 2 runs pass. 1 not recorded.")


@pytest.mark.parametrize("part", ["upgrade", "correctness", "bugs", "clients", "default_settings", "same_settings"])
def test_no_part_is_go_while_one_of_its_runs_is_missing(part: str) -> None:
    """Every part with a missing run is "not yet", and so is the whole."""
    planned = plan(tries=2, pairs=2, clients=1)
    every = rows(planned, bugs_kafka_18723_given_1_01=FOUND, bugs_kafka_18723_given_1_02=FOUND)
    lost = [item.name for item in planned.items if item.labels["question"] == part][-1]
    result = qualify.result(planned, [row for row in every if row["labels"]["item"] != lost])

    assert (result.state, result.verdict) == ("unknown", "not yet")
    (held,) = (each for each in result.answers if each.answer == "not yet")
    assert "not recorded" in held.sentence
    assert qualify.result(planned, every).verdict == "go"


def test_performance_without_a_verdict_is_not_yet() -> None:
    """A comparison without a verdict is "not yet", not a note."""
    planned = plan(pairs=2)
    lost = next(item.name for item in planned.items if item.labels["question"] == "same_settings")
    result = answered(planned, **{lost.replace("-", "_"): {"verdict": "unknown", "sentence": "No probe."}})

    found = line(result, "performance, same settings")
    assert (found.answer, result.verdict) == ("not yet", "not yet")
    assert "1 of 4 runs has no verdict" in found.sentence


def test_a_note_on_performance_says_how_many_pairs_would_decide() -> None:
    """A note on performance has the number of pairs that would decide."""
    planned = plan(pairs=3)
    values = iter([10.0, 12.0, 15.0, 11.0, 10.0, 14.0] * 4)
    found: list[dict[str, Any]] = []
    for item in planned.items:
        usual = {"precondition_met": True, "labels": {**item.labels, "campaign": "q1", "item": item.name}}
        value = next(values) if "comparison" in item.name else 10.0
        found += run_rows(item, dict.fromkeys(PRIMARY, value), **usual)

    noted = line(qualify.result(planned, found), "performance, default settings")
    assert noted.answer == "note"
    assert "pairs would decide" in noted.sentence


def test_performance_of_which_no_primary_metric_was_measured_is_not_yet() -> None:
    """Performance without a measured primary metric is "not yet"."""
    planned = plan(pairs=2)
    found = [
        row
        for item in planned.items
        for row in run_rows(
            item, {("latency_p99_ms", "warm up"): 10.0}, labels={**item.labels, "campaign": "q1", "item": item.name}
        )
    ]

    assert line(qualify.result(planned, found), "performance, default settings").answer == "not yet"


def test_nothing_recorded_is_not_yet() -> None:
    """Without any run the answer is "not yet"."""
    result = qualify.result(plan(), [])

    assert (result.state, result.verdict, result.hosts) == ("unknown", "not yet", [])


def test_what_fails_on_the_new_version_is_tried_on_that_of_today() -> None:
    """A scenario that fails on the target is also run on the base; one that passes is not."""
    planned = plan(scenarios="survived_faults,steady")
    failed = rows(planned, correctness_head_survived_faults_01=FAILS)

    assert qualify.follow_up(planned, rows(planned)) == []
    assert [(item.name, item.kafka) for item in qualify.follow_up(planned, failed)] == [
        ("correctness-base-survived-faults-01", "3.9.0")
    ]


@pytest.mark.parametrize(
    ("on_base", "answer"), [("fail", "note"), ("pass", "no-go"), ("unknown", "not yet"), ("", "not yet")]
)
def test_a_failure_counts_if_the_version_of_today_passes(on_base: str, answer: str) -> None:
    """A failure counts if the base passes; if both fail it is a note, and without the base's run it is "not yet"."""
    planned = plan()
    found = rows(planned, correctness_head_survived_faults_01=FAILS)
    if on_base:
        (again,) = qualify.follow_up(planned, found)
        found += rows_of(again, verdict=on_base)

    assert line(qualify.result(planned, found), "correctness").answer == answer


def test_a_missed_window_of_a_bug_is_tried_once_more() -> None:
    """A bug try whose precondition failed is repeated once."""
    planned = plan()
    missed = rows(planned, bugs_kafka_18723_given_1_01={"precondition_met": False})

    assert [item.name for item in qualify.follow_up(planned, missed)] == ["bugs-kafka-18723-given-1-02"]


@pytest.mark.parametrize(
    ("on_base", "answer"), [("fail", "note"), ("pass", "no-go"), ("unknown", "not yet"), ("", "not yet")]
)
def test_a_failing_client_counts_if_it_passes_on_the_version_of_today(on_base: str, answer: str) -> None:
    """A failing client counts if it passes on the base; if both fail it is a note."""
    planned = plan(clients=1)
    found = rows(planned, **{"clients_client_4.3.1": FAILS})
    again = [item for item in qualify.follow_up(planned, found) if item.labels["question"] == "clients"]
    if on_base and again:
        assert [(item.kafka, item.changes) for item in again] == [("3.9.0", {"load": {"client": "4.3.1"}})]
        found += rows_of(again[0], verdict=on_base)
    told = line(qualify.result(planned, found), "clients")

    assert told.answer == answer
    assert qualify.follow_up(planned, rows(planned)) == []


@pytest.mark.parametrize(("verdict", "answer"), [("pass", "go"), ("fail", "not yet"), ("unknown", "not yet")])
def test_each_client_is_a_line(verdict: str, answer: str) -> None:
    """Each client has an answer from its run's verdict."""
    planned = plan(clients=1)
    result = answered(planned, **{"clients_client_4.3.1": {"verdict": verdict, "sentence": "It is so."}})

    assert (line(result, "clients").answer, line(result, "clients").what) == (answer, "Java 4.3.1")


def test_performance_is_asked_in_two_views_and_says_how_sure_it_is() -> None:
    """Performance is compared with default and same settings, and an undecided comparison is a note."""
    result = answered(plan(pairs=2))
    views = [each for each in result.answers if each.question.startswith("performance")]

    assert [each.question for each in views] == ["performance, default settings", "performance, same settings"]
    assert {each.answer for each in views} <= {"note", "not yet", "go"}
    assert len(views[0].runs) == 4


def test_what_was_not_asked_is_among_the_doubts() -> None:
    """Questions that were left out are listed as doubts."""
    result = answered(plan())

    assert result.doubts[:2] == [
        "Performance was not compared (--pairs=0).",
        "Java clients were not tested (--clients=0).",
    ]


@pytest.mark.parametrize(("lacking", "answer"), [(["I19"], "not yet"), ([], "go")])
def test_a_pass_with_less_evidence_does_not_count(lacking: list[str], answer: str) -> None:
    """A pass that left checks out is no pass, and the answer says why; a violation still counts."""
    planned = plan()
    names = ("upgrade_upgrade_01", "upgrade_rollback_01")
    found = KIND.judged(rows(planned, **{name: {"not_judged": lacking} for name in names}))
    assert line(qualify.result(planned, found), "upgrade", "node by node").answer == answer

    failed = KIND.judged(rows(planned, upgrade_upgrade_01=FAILS | {"not_judged": lacking}))
    assert line(qualify.result(planned, failed), "upgrade", "node by node").answer == "no-go"


def test_each_feature_has_its_words() -> None:
    """Each feature that differs between two versions has a description."""
    result = answered(plan(base="3.9.1", head="4.0.0"))

    assert qualify._FEATURES.keys() == FEATURES.keys()
    assert "Gone: ZooKeeper mode." in result.by_design


def test_each_line_is_a_case_for_ci() -> None:
    """Each answer is a CI case, and a note is a skipped one."""
    told = outcomes_of(answered(plan(), correctness_head_survived_faults_01=FAILS))

    assert told["qualify.bugs/STALE-HW: it stands still"] == "skipped"
    assert told["qualify.correctness/survived_faults"] == "unknown"


def test_the_digest_follows_the_evidence() -> None:
    """The digest depends on the runs' verdicts."""
    planned = plan()

    assert answered(planned).digest == answered(planned).digest
    assert answered(planned).digest != answered(planned, upgrade_upgrade_01=FAILS).digest


def test_real_bugs_between_the_releases_are_asked() -> None:
    """Bugs that differ between the two releases are tried, such as KAFKA-18723."""
    assert {bug.issue for bug in BUGS if questions._differs(bug, questions.Sides("3.9.0", "3.9.1"))} >= {"KAFKA-18723"}
