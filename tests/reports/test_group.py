"""The consumer group on a run's page."""

from dataclasses import replace
from pathlib import Path

import pytest

from reports import group
from reports.run_data import RunData, read_run
from reports.run_page import render
from tests.reports.sample_run import at, write_sample_run

P0, P1 = {"topic": "orders", "partition": 0}, {"topic": "orders", "partition": 1}
TOLD = {"member": "member-1.1", "changed_ns": at(1), "change": "assigned"}


def committed(offset, at_s, partition=P0, error=None):
    """Return a commit's answer."""
    return {"member": "member-1.1", **partition, "offset": offset, "answered_ns": at(at_s), "error": error}


def shown(hw, at_s, partition=P0):
    """Return a high watermark in the drawn series."""
    return {
        **partition,
        "broker_id": 1,
        "t_ns": at(at_s),
        "leader_epoch": 0,
        "high_watermark": hw,
        "log_end_offset": hw,
    }


@pytest.fixture
def run(tmp_path: Path) -> RunData:
    """A judged run whose tables the test replaces."""
    return read_run(write_sample_run(tmp_path / "run-1"))


def given(run: RunData, **tables) -> RunData:
    """Return the run with some tables replaced."""
    return replace(run, tables={**run.tables, **tables})


def test_the_partitions_of_one_rebalance_are_one_row(run: RunData) -> None:
    """The partitions of one rebalance are one row; another change at the same moment is another row."""
    rows = [{**TOLD, **P1}, {**TOLD, **P0}, {**TOLD, **P0, "change": "revoked"}]
    found = group.rebalance_table(given(run, rebalances=rows))

    assert [[cell.text for cell in row] for row in found.rows] == [
        ["1.0 s", "member-1.1", "assigned", "orders-0, orders-1"],
        ["1.0 s", "member-1.1", "revoked", "orders-0"],
    ]


def test_the_lag_is_what_is_not_committed_below_the_high_watermark(run: RunData) -> None:
    """The lag is the distance of commits to the high watermark over all partitions; only successful commits count."""
    commits = [committed(4, 1), committed(9, 2), committed(99, 2, error="ILLEGAL_GENERATION"), committed(1, 1, P1)]
    series = [shown(5, 0.5), shown(12, 1.5), shown(3, 0.5, P1)]
    unanswered = {**committed(99, 2), "answered_ns": None}

    told = given(run, commits=[*commits, unanswered], timeline_replicas=series, delivery=[P0, P1])
    (line,) = group.lag_figure(told)["data"]

    assert dict(zip(line["x"], line["y"], strict=True)) == {1: 1 + 2, 2: 3 + 2, 3: 3 + 2}


def test_a_run_without_a_commit_has_no_lag_to_draw(run: RunData) -> None:
    """A run without a commit has no lag to draw, and a run without a group has no section."""
    assert group.lag_figure(given(run, commits=[]))["data"] == []
    assert "Consumer group" not in render(run, Path("site"))


def test_a_run_with_a_group_has_a_section(run: RunData) -> None:
    """A run with a group has a section with its figure and its rebalances."""
    told = run.manifest.model_copy(update={"scenario": {"load": {"group": {"members": 1}}}})
    of_group = given(run, commits=[committed(4, 1)], rebalances=[{**TOLD, **P0}], timeline_replicas=[shown(5, 0.5)])
    page = render(replace(of_group, manifest=told), Path("site"))

    assert "Lag of the consumer group over time" in page
    assert "Rebalances, as the members" in page


SHARED = {"load": {"group": {"protocol": "share", "members": 2, "lock": 5.0}}}


def stretch(first, last, partition=P0, **more):
    """Return records that a member of a share group received or acknowledged."""
    return {"member": "member-1.1", **partition, "first_offset": first, "last_offset": last, **more}


def answered(first, last, at_s, partition=P0, *, error=None, kind="accept"):
    """Return an acknowledgement's answer."""
    told = {"kind": kind, "asked_ns": None, "answered_ns": at(at_s), "error": error}
    return stretch(first, last, partition, **told)


def test_what_each_member_of_a_share_group_did(run: RunData) -> None:
    """Deliveries and answered acknowledgements of each share-group member are counted in records."""
    reads = [stretch(0, 9, delivery_count=1), stretch(3, 4, delivery_count=2), stretch(5, 5, delivery_count=None)]
    reads.append(stretch(10, 10, delivery_count=1) | {"member": "member-2.1"})
    refused, released = answered(7, 7, 2, error="INVALID_RECORD_STATE"), answered(8, 8, 2, kind="release")
    acks = [answered(0, 6, 1), refused, released, answered(9, 9, 1) | {"answered_ns": None, "asked_ns": 1}]
    found = group.shared_table(given(run, share_reads=reads, share_acks=acks))

    assert [[cell.text for cell in row] for row in found.rows] == [
        ["member-1.1", "11", "2", "7", "1", "1"],
        ["member-2.1", "1", "0", "0", "0", "0"],
    ]


def test_the_lag_of_a_share_group_is_what_is_not_accepted(run: RunData) -> None:
    """A share group's lag is the number of records without acceptance, with its figure and table."""
    told = replace(run, manifest=run.manifest.model_copy(update={"scenario": SHARED}))
    acks = [answered(0, 3, 1), answered(4, 4, 2), answered(8, 9, 1, error="X"), answered(0, 0, 1, P1)]
    series = [shown(5, 0.5), shown(12, 1.5), shown(3, 0.5, P1)]
    shared = given(told, share_acks=acks, timeline_replicas=series, delivery=[P0, P1])
    (line,) = group.lag_figure(shared)["data"]
    assert dict(zip(line["x"], line["y"], strict=True)) == {1: 1 + 2, 2: 7 + 2, 3: 7 + 2}

    page = render(
        given(told, share_acks=acks, timeline_replicas=series, share_reads=[stretch(0, 9, delivery_count=1)]),
        Path("site"),
    )
    assert "Lag of the share group over time" in page
    assert "Records of each member" in page
