"""Damage to where readers were at the end, and to what consumer groups and share groups did."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise

from history.readers import CATCH_UP, LIVE_CONSUMER
from tests.mutations.kind import SECOND_NS, kind, middle
from tests.mutations.recording import NoPlaceError, Recording, Row

# --- where readers were at the end -----------------------------------------------------------------


def _stood_still(run: Recording) -> None:
    """Move the readers' last check by two minutes, with reports up to then."""
    looked = next((event for event in run.events if event.step == CATCH_UP), None)
    if looked is None:
        raise NoPlaceError
    at_ns = looked.t_ns + 120 * SECOND_NS
    detail = {**looked.detail, "told": dict.fromkeys(looked.detail["told"], at_ns)}
    run.put_events([replace(each, t_ns=at_ns, detail=detail) if each is looked else each for each in run.events])


def _had(run: Recording) -> list[Row]:
    return [
        row for row in run.rows("positions") if row["partition"] == run.partition and row["reader"] != LIVE_CONSUMER
    ]


@kind("I37", scenario="group_members")
def member_that_stands_still(run: Recording) -> str:
    """A group member stopped below the end of its partition."""
    row = run.choose(_had(run))
    row["position"] = run.choose([None, *range(row["position"])])
    run.put("positions", run.rows("positions"))
    _stood_still(run)
    return f"{row['reader']} at offset {row['position']}"


@kind("I37", scenario="group_members")
def live_consumer_that_stands_still(run: Recording) -> str:
    """The live consumer stopped below the end of a partition."""
    row = run.choose([row for row in run.rows("positions") if row["reader"] == LIVE_CONSUMER])
    row["position"] = run.choose(range(row["position"]))
    run.put("positions", run.rows("positions"))
    _stood_still(run)
    return f"{row['topic']}-{row['partition']} at offset {row['position']}"


@kind("I37", scenario="group_members")
def partition_that_no_member_has(run: Recording) -> str:
    """No group member had a partition, although all were alive."""
    had = _had(run)
    run.put("positions", [row for row in run.rows("positions") if row not in had])
    _stood_still(run)
    return f"partition {run.partition}"


@kind(reason="reader", scenario="group_members")
def member_that_was_not_waited_for(run: Recording) -> str:
    """A member was below the end of its partition just after it had moved."""
    row = run.choose(_had(run))
    row["position"] = run.choose(range(row["position"]))
    run.put("positions", run.rows("positions"))
    return f"{row['reader']} at offset {row['position']}"


# --- what a consumer group read and committed ------------------------------------------------------


@kind("group_skip", scenario="group_members")
def committed_record_read_by_no_member(run: Recording) -> str:
    """The members' reads lack a record below the committed offset."""
    reads = [row for row in run.rows("group_reads") if row["partition"] == run.partition]
    counted = Counter(offset for row in reads for offset in (row["first_offset"], row["last_offset"]))

    def alone(row: Row) -> bool:
        at = row["last_offset"]
        inside = any(other is not row and other["first_offset"] <= at <= other["last_offset"] for other in reads)
        return row["first_offset"] < at and counted[at] == 1 and not inside

    victim = run.first(middle(reads), alone)
    victim["last_offset"] -= 1
    run.put("group_reads", run.rows("group_reads"))
    return f"offset {victim['last_offset'] + 1}"


def _handed_over(run: Recording) -> list[tuple[Row, Row]]:
    of_partition = (row for row in run.rows("rebalances") if row["partition"] == run.partition)
    in_order = sorted(of_partition, key=lambda row: int(row["changed_ns"]))
    return [
        (before, after)
        for before, after in pairwise(in_order)
        if (before["change"], after["change"]) == ("revoked", "assigned") and before["member"] != after["member"]
    ]


def _first_read(run: Recording) -> Row:
    _, given = run.choose(_handed_over(run))
    reads = [
        row
        for row in run.rows("group_reads")
        if (row["partition"], row["member"]) == (run.partition, given["member"])
        and row["received_ns"] > given["changed_ns"]
        and row["last_offset"] > row["first_offset"] + 3
    ]
    return min(reads, key=lambda row: int(row["received_ns"]))


@kind("I29", scenario="group_members")
def owner_starts_too_late(run: Recording) -> str:
    """A new owner began to read behind the offset that the group had committed."""
    first = _first_read(run)
    first["first_offset"] += run.choose(range(1, 4))
    run.put("group_reads", run.rows("group_reads"))
    return f"{first['member']} at offset {first['first_offset']}"


@kind("I30", scenario="group_members")
def owner_starts_too_early(run: Recording) -> str:
    """A new owner read records again that were already committed."""
    first = _first_read(run)
    first["first_offset"] = max(0, first["first_offset"] - run.choose(range(1, 9)))
    run.put("group_reads", run.rows("group_reads"))
    return f"{first['member']} at offset {first['first_offset']}"


@kind("I31", scenario="group_members")
def commit_falls(run: Recording) -> str:
    """An accepted commit has a lower offset than those before it."""
    taken = [
        row
        for row in run.rows("commits")
        if row["partition"] == run.partition and row["answered_ns"] is not None and row["error"] is None
    ]
    victim = run.choose(middle(sorted(taken, key=lambda row: int(row["asked_ns"]))))
    victim["offset"] = run.choose(range(100))
    run.put("commits", run.rows("commits"))
    return f"{victim['member']} to offset {victim['offset']}"


@kind("I32", scenario="group_members")
def former_owner_commits(run: Recording) -> str:
    """A member's commit was accepted after another member received its partition."""
    gave_up, given = run.choose(_handed_over(run))
    gave_up["changed_ns"] = given["changed_ns"] + 3_000_000
    own = [
        row
        for row in run.rows("commits")
        if (row["partition"], row["member"]) == (run.partition, gave_up["member"]) and row["error"] is None
    ]
    before = [row for row in own if row["answered_ns"] is not None and row["answered_ns"] < given["changed_ns"]]
    last = max(before, key=lambda row: int(row["asked_ns"]), default=None)
    if last is None:
        raise NoPlaceError
    last |= {"asked_ns": given["changed_ns"] + 1_000_000, "answered_ns": given["changed_ns"] + 2_000_000}
    for table in ("rebalances", "commits"):
        run.put(table, run.rows(table))
    return f"{gave_up['member']} at offset {last['offset']}"


# --- what a share group was given and acknowledged --------------------------------------------------


def _calm(run: Recording, *, left_s: float) -> Row:
    """Return a first delivery of at least four records, ``left_s`` to ``left_s + 2`` seconds before the first fault."""
    first_fault = min(event.t_ns for event in run.events if event.kind == "inject")
    to_ns = first_fault - int(left_s * 1e9)
    return run.choose(
        [
            row
            for row in run.rows("share_reads")
            if (row["partition"], row["delivery_count"]) == (run.partition, 1)
            and to_ns - 2_000_000_000 <= row["received_ns"] <= to_ns
            and row["last_offset"] > row["first_offset"] + 2
        ]
    )


def _without(rows: list[Row], partition: int, offset: int) -> list[Row]:
    found = []
    for row in rows:
        if row["partition"] != partition or not row["first_offset"] <= offset <= row["last_offset"]:
            found.append(row)
            continue
        parts = [row | {"last_offset": offset - 1}, row | {"first_offset": offset + 1}]
        found += [part for part in parts if part["first_offset"] <= part["last_offset"]]
    return found


def _given_again(run: Recording, row: Row, after_s: float, count: int, polled_s: float | None = None) -> str:
    """The other member's fetch begins ``polled_s`` after the first delivery."""
    living = {each["member"] for each in run.rows("share_reads") if each["received_ns"] <= row["received_ns"]}
    others = sorted(living - {row["member"]})
    offset, received_ns = row["first_offset"] + 1, row["received_ns"] + int(after_s * 1e9)
    again = row | {"member": run.choose(others), "first_offset": offset, "last_offset": offset, "delivery_count": count}
    again |= {"received_ns": received_ns, "since_ns": row["received_ns"] + int((polled_s or after_s - 0.1) * 1e9)}
    run.put("share_reads", [*run.rows("share_reads"), again])
    return f"offset {offset} to {again['member']}"


@kind("stuck_record", scenario="share_group")
def shared_record_given_to_nobody(run: Recording) -> str:
    """A record is missing in the deliveries and acknowledgements of a share group."""
    offset = _calm(run, left_s=1)["first_offset"] + 1
    for table in ("share_reads", "share_acks"):
        run.put(table, _without(run.rows(table), run.partition, offset))
    return f"offset {offset}"


@kind("archived_record", scenario="share_group")
def shared_record_given_up(run: Recording) -> str:
    """A record's first delivery has the limit as its delivery count, and no member accepts it."""
    row = _calm(run, left_s=6)
    offset, limit = row["first_offset"] + 1, (run.manifest.group or {})["delivery_limit"]
    last = row | {"first_offset": offset, "last_offset": offset, "delivery_count": limit}
    run.put("share_reads", [*_without(run.rows("share_reads"), run.partition, offset), last])
    run.put("share_acks", _without(run.rows("share_acks"), run.partition, offset))
    return f"offset {offset}"


@kind("I33", scenario="share_group")
def accepted_record_given_again(run: Recording) -> str:
    """A record is delivered to another member long after it was accepted."""
    return _given_again(run, _calm(run, left_s=5), 4.0, 2)


@kind("I34", scenario="share_group")
def shared_record_with_two_holders(run: Recording) -> str:
    """A record is delivered to another member while the first one holds it."""
    return _given_again(run, _calm(run, left_s=3), 0.5, 2)


@kind("I35", scenario="share_group")
def shared_record_beyond_its_limit(run: Recording) -> str:
    """A record is delivered more often than the limit allows."""
    row = _calm(run, left_s=1)
    row["delivery_count"] = (run.manifest.group or {})["delivery_limit"] + run.choose(range(1, 4))
    run.put("share_reads", run.rows("share_reads"))
    return f"offsets {row['first_offset']} to {row['last_offset']}"


@kind("I36", scenario="share_group")
def delivery_that_was_not_counted(run: Recording) -> str:
    """A record has the same delivery count at another member, who may have fetched it before."""
    return _given_again(run, _calm(run, left_s=3), 2.7, 1, polled_s=0.01)
