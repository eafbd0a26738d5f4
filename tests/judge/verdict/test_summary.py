"""The verdict's sentence and reasons: failures, missing evidence, reviews and permissions."""

import re
from pathlib import Path

import pytest

from evidence.profiles import attached
from evidence.sources import Gaps
from expectations.checkpoint import Result, Subject
from expectations.suites import EVIDENCE, Outcome, outcome
from history.anomalies import SEVERITY
from history.manifest import ATTACHED
from history.partition import TopicPartition
from judge.checks import cases, invariants
from judge.checks.account import FATES
from judge.checks.findings import Findings, Tally
from judge.checks.invariants import Required
from judge.verdict.decided import invariants_decided
from judge.verdict.summary import Conclusion, verdict_of

DELIVERED = {"acked": 50, "lost": 0, "unseen": 0, "truncated_ack": 0, "unknown_offset_ack": 0, "duplicated": 0}
HELD = "Every guarantee held: all 50 acknowledged records are accounted for."


def judged(verdict, *, invariants=(), missing=(), excused=(), allowed=None, delivered=None, about=None, **forbidden):
    """Return verdict.json of some findings; ``excused`` are (anomaly, why, count)."""
    counted = dict.fromkeys(SEVERITY, 0) | forbidden
    for name, _, count in excused:
        counted[name] += count
    none = dict.fromkeys(SEVERITY, 0)
    return verdict_of(
        Conclusion(
            outcome=Outcome(verdict, [], []),
            missing=missing,
            anomalies=counted,
            forbidden=none | forbidden,
            invariants=invariants,
            delivery=DELIVERED | (delivered or {}),
            allowed=allowed or {},
            notes=["a wait ran out"],
            excused=excused,
            **(about or {}),
        )
    )


def test_a_pass_names_limited_evidence_and_counts_what_it_left_out():
    """On a cluster of others, a pass says from what it is; with all evidence it need not."""
    about = {"profile": attached(ATTACHED), "not_judged": ["I19", "I20"]}
    found = judged("pass", about=about)
    assert found["sentence"] == (
        "Pass, from clients and the offsets of every replica: every judged guarantee held, and all 50 acknowledged "
        "records are accounted for. 2 checks were not made."
    )
    assert found["not_judged"] == ["I19", "I20"]
    assert judged("fail", about=about, lost_write=1)["sentence"].startswith("A guarantee was violated: 1 x lost_write")


def broken(name, severity):
    """Return an invariant with one violation."""
    row = {"invariant": name, "title": "a title", "severity": severity, "verdict": "fail", "reason": "first on t-0"}
    return row | {"checked": 3, "violations": 1, "first_on": "t-0", "known_bug": ""}


def test_a_record_that_nobody_can_read_yet_is_not_accounted_for():
    """Records above the high watermark violate no guarantee, and the sentence counts them."""
    told = judged("pass", delivered={"unseen": 5}, invisible_ack=5)["sentence"]

    assert told.startswith("The guarantees held; 5 of 50 acknowledged records cannot be read yet.")
    assert judged("pass")["sentence"] == HELD


def test_sources_that_disagree_are_named_and_do_not_fail():
    """Disagreeing sources are counted for review and do not fail the run."""
    found = judged("pass", source_disagreement=3)

    assert found["anomalies"] == {"source_disagreement": 3}
    assert found["sentence"] == f"{HELD} Needs review, no guarantee violated: 3 x source_disagreement."
    assert found["reasons"] == ["3 x source_disagreement, which needs review.", "a wait ran out"]
    assert judged("pass")["sentence"] == HELD


def test_a_change_of_behaviour_is_permitted_with_its_own_reason():
    """A change of behaviour is permitted with its own reason."""
    found = judged("pass", excused=[("behaviour_change", "from 3.7 it stands still", 2)])

    assert found["anomalies"] == {"behaviour_change": 2}
    assert found["sentence"] == HELD
    assert found["reasons"][-1] == "2 x behaviour_change is permitted here: from 3.7 it stands still."


def test_a_failure_names_a_broken_promise_first():
    """A failure names a violated guarantee first; S2 findings follow."""
    found = judged("fail", invariants=[broken("I7", "S1"), broken("I23", "S2")], invisible_ack=1)

    assert found["sentence"].startswith("A guarantee was violated: I7 (a title) does not hold: 1 of 3 checks")
    assert [reason.split(" ")[0] for reason in found["reasons"]] == ["I7", "1", "I23", "a"]


@pytest.mark.parametrize(
    ("bug", "short"),
    [
        ("", "first violation on t-0"),
        (
            "STALE-HW",
            "first violation on t-0. This is STALE-HW (a follower that has truncated its log learns the high watermark "
            "only with the next record; from 3.4.1 on)",
        ),
    ],
)
def test_the_first_sentence_of_a_failure_is_short(bug: str, short: str) -> None:
    """A failure's first sentence is short: the place and the known bug; observations are in the reasons."""
    reason = "first violation on t-0: broker 2, ISR [1, 2]"
    row = broken("I7", "S1") | {"reason": reason, "known_bug": bug}
    found = judged("fail", invariants=[row])

    assert found["sentence"] == f"A guarantee was violated: I7 (a title) does not hold: 1 of 3 checks, {short}."
    assert found["reasons"][0] == f"I7 (a title) does not hold: 1 of 3 checks, {reason}."


def test_a_timed_invariant_that_failed_is_worth_a_look():
    """A timed invariant (S2) that fails leaves a pass that names it."""
    assert judged("pass", invariants=[broken("I23", "S2")])["sentence"].endswith("no guarantee violated: I23.")


@pytest.mark.parametrize(
    "name", [name for name, of in invariants.INVARIANTS.items() if of.required is not Required.NEVER]
)
def test_an_invariant_that_checked_nothing_makes_the_verdict_unknown(name):
    """A required invariant without checks makes the verdict unknown; one good check makes it a pass."""

    def concluded(tallied):
        found = Findings(tallies={name: tallied}, unchecked=set() if tallied.checked else {name})
        told = invariants.verdict(TopicPartition("orders", 0), name, found, Gaps([]), requires_history=True)
        rows = [invariants.row(name, [told])]
        _, lacking = invariants_decided(rows)
        missing = [lacking] if lacking else []
        found = outcome([Result(EVIDENCE, Subject("complete", "", "critical"), not missing)], {})
        return judged(found.verdict, invariants=rows, missing=missing)

    nothing = concluded(Tally())
    why = f"{name} is undecided: nothing that was recorded of orders-0 could be checked."
    assert (nothing["verdict"], nothing["reasons"][0]) == ("unknown", why)
    assert nothing["invariants"][name]["verdict"] == "unknown"
    assert nothing["sentence"] == f"Inconclusive: {why}"
    assert concluded(Tally(checked=1))["verdict"] == "pass"


def test_unknown_says_what_is_missing():
    """An unknown verdict's sentence names only the missing evidence."""
    found = judged("unknown", missing=["I4 is undecided: nothing."], source_disagreement=1)

    assert found["sentence"] == "Inconclusive: I4 is undecided: nothing."
    assert "1 x source_disagreement, which needs review." in found["reasons"]


@pytest.mark.parametrize(("lost", "duplicated", "begins"), [(2, 0, "Loss is allowed"), (0, 2, "Nothing is lost; 2 of")])
def test_what_was_permitted_is_counted(lost, duplicated, begins):
    """Permitted losses and duplicates are counted, losses first."""
    excused = [("lost_write", "acks=1", lost)] if lost else [("duplicate", "no idempotence", duplicated)]
    permitted = {name: why for name, why, _ in excused}
    found = judged("pass", excused=excused, allowed=permitted, delivered={"lost": lost, "duplicated": duplicated})

    assert found["sentence"].startswith(begins)
    assert found["anomalies"] == {name: count for name, _, count in excused}


def test_duplicates_that_only_their_epochs_permit_are_told_first():
    """Duplicates that only their producer epochs permit are named first."""
    found = judged("pass", excused=[("duplicate", "its epoch", 2)], delivered={"duplicated": 2})

    assert found["sentence"].startswith("Nothing is lost; 2 of 50 acknowledged records are there twice")


def test_every_anomaly_that_the_checks_name_has_a_severity():
    """Every anomaly in the checks has a severity, and every severity an anomaly."""
    checks = Path(cases.__file__).parent
    source = "".join(file.read_text() for file in checks.glob("*.py"))
    named = set(re.findall(r'(?:Cases|_cases)\(\s*"(\w+)"', source)) | set(FATES) | {"torn_transaction"}

    assert named - {"", "read", "undecided"} == SEVERITY.keys()
