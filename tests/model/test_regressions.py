"""Test plans whose histories once got a wrong answer, each with a near miss."""

from dataclasses import replace

import pytest

from tests.model.cluster import Plan
from tests.model.judged_run import judged_plan
from tests.model.parts import Step
from tests.model.plans import EVENTFUL

TWO = ((1, 2, 3), (2, 3, 1))
# Writes to both partitions, by the producers with acks=all (0, 1) and acks=1 (2, 3).
WRITTEN: tuple[Step, ...] = (*(("also_write", whom, 2) for whom in range(4)), ("wait", 0, 2))
# Broker 1 continues alone while broker 2 leads: records that it accepted with acks=1 are lost.
LEADER_CUT_OFF: tuple[Step, ...] = (
    ("cut", 0, 0), ("write", 2, 3), ("wait", 0, 4), ("write", 0, 2), ("wait", 0, 4), ("join", 0, 0), ("wait", 0, 3),
)  # fmt: skip
# Broker 2 accepts records while the former leader, broker 1, is dead.
LEADER_KILLED: tuple[Step, ...] = (
    ("kill", 0, 0), ("wait", 0, 4), ("write", 2, 3), ("write", 2, 2), ("wait", 0, 3), ("restart", 0, 0), ("wait", 0, 4),
)  # fmt: skip
FOLLOWER_KILLED: tuple[Step, ...] = (("kill", 2, 0), ("wait", 0, 4), ("restart", 2, 0), ("wait", 0, 4))
MEMBER_AWAY: tuple[Step, ...] = (
    ("write", 0, 4), ("wait", 0, 2), ("stop_member", 0, 0), ("wait", 0, 2), ("start_member", 0, 0), ("write", 0, 4),
    ("wait", 0, 2),
)  # fmt: skip
OF_THE_FIRST: tuple[Step, ...] = tuple((verb, 2 * whom if verb == "write" else whom, n) for verb, whom, n in EVENTFUL)
GONE = ("last_leader_forgets", 1)

# The earlier error, the plan, its verdict, and the verdict on the near miss: the plan without flaw or damages.
CASES: dict[str, tuple[Plan, str, str]] = {
    "a history that begins with a snapshot permitted every loss": (
        Plan((*WRITTEN, *FOLLOWER_KILLED), TWO, damages=(GONE, ("snapshot", 1))), "unknown", "pass"),
    "a loss passed although the snapshot hides every leader change": (
        Plan((*WRITTEN, *LEADER_CUT_OFF), TWO, damages=(("snapshot", 0),)), "unknown", "pass"),
    "one partition's metadata passed for that of another": (
        Plan(WRITTEN, TWO, damages=(("no_metadata", 0),)), "unknown", "pass"),
    "the end of a killed leader permitted what its successor lost": (
        Plan((*WRITTEN, *LEADER_KILLED), TWO, damages=(GONE,)), "fail", "pass"),
    "a consumer that stopped reading passed": (
        Plan((*WRITTEN, ("write", 0, 1), ("write", 0, 1)), TWO, starved=0), "fail", "pass"),
    "a consumer that may still get to the end is not starved": (
        Plan((*WRITTEN, ("write", 0, 1)), TWO, starved=0, damages=(("impatient", 0),)), "unknown", "pass"),
    "a member that never reads its partition passed": (
        Plan((*WRITTEN, ("write", 0, 1)), TWO, members=2, group_flaw="starves"), "fail", "pass"),
    "a rebalance that never ends passed": (
        Plan((*WRITTEN, *MEMBER_AWAY), TWO, members=2, group_flaw="never_assigns"), "fail", "pass"),
    "a short log of one partition hid what was read too early in another": (
        Plan((("also_write", 1, 2), *OF_THE_FIRST), TWO, flaw="serves_uncommitted", eventful=True, ends_quietly=True,
             damages=(("short_segment", 0),)), "fail", "pass"),
    "a plain record that was written twice in a quiet run was permitted": (
        Plan(WRITTEN, TWO, flaw="appends_plain_batches_twice", ends_quietly=True), "fail", "pass"),
    "a former leader permitted what was lost after its process had ended": (
        Plan((("kill", 2, 0), ("write", 1, 3)), ((3, 1, 2),), damages=(GONE,)), "fail", "pass"),
    "a leader that led long ago permitted what a later one lost": (
        Plan((("also_write", 2, 2), ("wait", 0, 2), ("cut", 0, 0), ("wait", 0, 4), ("write", 2, 2), ("join", 0, 0),
              ("wait", 0, 3), ("cut", 0, 0), ("wait", 0, 4), ("kill", 1, 0), ("wait", 0, 4), ("write", 2, 3),
              ("write", 3, 2), ("wait", 0, 3), ("join", 0, 0), ("restart", 1, 0), ("wait", 0, 4)), ((1, 2, 3),),
             damages=(GONE,)), "fail", "pass"),
    "a snapshot that has a partition's first state left open what became of its records": (
        Plan((("also_write", 3, 2), ("wait", 0, 1), ("fast", 2, 0), ("kill", 2, 0)), ((2, 3, 1), (1, 2, 3)),
             damages=(("last_leader_forgets", 738), ("snapshot", 255))), "fail", "pass"),
    "a member that committed beyond what it had not read hid that it began there": (
        Plan((("wait", 0, 4), ("write", 0, 4), ("stop_member", 0, 0), ("write", 32, 4), ("write", 17, 1),
              ("write", 42, 4), ("write", 21, 4), ("wait", 28, 2)), ((3, 1, 2),), members=2, group_flaw="skips"),
        "fail", "pass"),
    "an outage in the last state spared a new leader its high watermark": (
        Plan((*EVENTFUL, ("cut", 0, 0), ("wait", 0, 1)), flaw="new_leaders_hw_stays", eventful=True,
             ends_quietly=True), "fail", "pass"),
    "a log without a captured end counted as whole": (
        Plan(WRITTEN, TWO, damages=(("short_segment_without_capture", 0),)), "unknown", "pass"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_an_answer_that_was_wrong_once(name: str) -> None:
    """The judge gives the right answer to each plan and its near miss."""
    plan, verdict, near_verdict = CASES[name]
    near_miss = replace(plan, flaw="", group_flaw="", starved=None, damages=())
    answers = [judged_plan(each) for each in (plan, near_miss)]

    assert [(said.verdict, wrong) for said, wrong in answers] == [(verdict, []), (near_verdict, [])]
