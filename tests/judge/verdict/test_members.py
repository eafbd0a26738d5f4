"""Members of a group that recorded what they report, and those that did not."""

from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evidence.faults import fault_spans
from evidence.run import open_folder
from history.tables import RECORDED
from judge.checks.premises import Premises
from judge.run import run_facts
from judge.verdict.members import ended_by_faults, unrecorded_members
from tests.evidence.folders import S, clean, happened

A_MEMBER = {"role": "member", "clean": True, "group_reads": 1, "rebalances": 0, "commits": 0}


KILLED, KILL = {"role": "member", "clean": False}, happened(1, "inject", step="kill", target="member-1")


def collected(rows):
    """Return the collector's count of a table's rows."""
    return happened(2, "step", step="table", target="group_reads", detail={"rows": rows})


@pytest.mark.parametrize(
    ("words", "events", "said"),
    [
        ({"member-1.1": A_MEMBER}, [], []),
        ({}, [], ["The group's members wrote no final report."]),
        (
            {"member-1.1": A_MEMBER | {"group_reads": 2}},
            [],
            ["Of 2 rows of group_reads that member-1.1 wrote 1 are there."],
        ),
        (
            {"member-1.1": KILLED},
            [],
            ["The member member-1.1 did not end cleanly: it may have recorded less than it did."],
        ),
        ({"member-1.1": KILLED}, [KILL, collected(1)], []),
        ({"member-1.1": KILLED}, [KILL, collected(2)], ["Of 2 collected rows of group_reads 1 are there."]),
        (
            {"member-1.2": A_MEMBER | {"group_reads": 0}},
            [KILL],
            ["The member member-1.1 wrote no final report: how much it did is unknown."],
        ),
        (
            {"member-1.1": A_MEMBER, "member-1.2": A_MEMBER | {"group_reads": 0}},
            [KILL],
            [],
        ),
    ],
)
def test_members_of_a_group_must_have_recorded_what_they_say(tmp_path, words, events, said):
    """A group's members must have recorded the rows that they report; members ended by a fault are excused."""
    history = clean()
    history.clients |= words
    folder = history.write(tmp_path / "run")
    folder.table("group_reads").mkdir()
    row = {"member": "member-1.1", "topic": "orders", "partition": 0, "first_offset": 0, "last_offset": 3}
    rows = pa.Table.from_pylist([row | {"received_ns": S}], RECORDED["group_reads"])
    pq.write_table(rows, folder.table("group_reads") / "member-1.1.parquet")
    run = open_folder(folder)
    scenario = {"load": {"topic": "orders", "group": {"session_timeout": 6.0, "members": 1}}}
    told = replace(run, manifest=run.manifest.model_copy(update={"scenario": scenario}), events=events)

    assert unrecorded_members(told) == said
    assert unrecorded_members(run) == []
    assert (run_facts(Premises(told)).group is None) == bool(said)


def of_member(number, started_s, *, clean=False):
    """Return the summary of one life of member 1."""
    return {"client_id": f"member-1.{number}", "started_ns": started_s * S, "clean": clean}


def fault_of_member(step, begun_s, healed_s=None, target="member-1"):
    """Return the events of a fault of a member."""
    healed = [] if healed_s is None else [happened(healed_s * S, "healed", step=step, target=target)]
    return [happened(begun_s * S, "inject", step=step, target=target), *healed]


@pytest.mark.parametrize(
    ("members", "events", "excused"),
    [
        ([of_member(1, 5), of_member(2, 25)], fault_of_member("kill", 20, 25), {"member-1.1"}),
        ([of_member(1, 5), of_member(2, 25)], fault_of_member("kill", 26), {"member-1.2"}),
        ([of_member(9, 5), of_member(10, 25)], fault_of_member("kill", 20, 25), {"member-1.9"}),
        ([of_member(1, 5)], fault_of_member("kill", 20), {"member-1.1"}),
        ([of_member(1, 5)], fault_of_member("kill", 4), set()),
        ([of_member(1, 5)], fault_of_member("pause", 20, 25), set()),  # the life went on
        ([of_member(1, 5)], fault_of_member("kill", 20, target="member-2, member-1"), {"member-1.1"}),
        ([of_member(1, 5)], fault_of_member("kill", 20, target="member-11"), set()),
    ],
)
def test_a_fault_excuses_the_life_of_a_member_in_which_it_began(members, events, excused):
    """A fault excuses the life of a member in which it began, not the next one."""
    assert ended_by_faults(members, fault_spans(events)) == excused


def test_a_member_that_dies_after_its_return_from_a_fault_is_missing_evidence(tmp_path):
    """A member that dies after its return from a fault is missing evidence."""
    history = clean()
    words = {"role": "member", "group_reads": 0, "rebalances": 0, "commits": 0}
    history.clients |= {f"member-1.{n}": words | of_member(n, 5 * n) for n in (1, 2)}
    run = open_folder(history.write(tmp_path / "run"))
    scenario = {"load": {"topic": "orders", "group": {"session_timeout": 6.0, "members": 1}}}
    told = replace(
        run,
        manifest=run.manifest.model_copy(update={"scenario": scenario}),
        events=fault_of_member("kill", 7, 10),
    )

    assert unrecorded_members(told) == [
        "The member member-1.2 did not end cleanly: it may have recorded less than it did."
    ]


def test_every_member_of_a_group_must_have_left_words(tmp_path):
    """Every started member must have left a summary, even if it read nothing."""
    history = clean()
    history.clients |= {"member-1.1": A_MEMBER | {"group_reads": 0}}
    run = open_folder(history.write(tmp_path / "run"))

    def said(members):
        scenario = {"load": {"topic": "orders", "group": {"session_timeout": 6.0, "members": members}}}
        told = replace(run, manifest=run.manifest.model_copy(update={"scenario": scenario}))
        return unrecorded_members(told)

    assert said(1) == []
    assert said(2) == ["The member member-2 wrote no final report: how much it did is unknown."]
