"""Check that the members of a consumer or share group recorded what they did."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from evidence.facts import FOREVER_NS
from evidence.faults import FaultSpan
from evidence.reader import Tables
from evidence.run import Run

MEMBER_TABLES = ("group_reads", "rebalances", "commits", "share_reads", "share_acks")


def unrecorded_members(run: Run) -> list[str]:
    """Return what is missing of group members' records."""
    group = run.manifest.group
    if group is None:
        return []
    members = [client for client in run.clients if client["role"] == "member"]
    if not members:
        return ["The group's members wrote no final report."]
    counted = {name: Tables(run.folder).counted(name, "member") for name in MEMBER_TABLES}
    lives = {member["client_id"] for member in members}
    begun = {name.rpartition(".")[0] for name in lives}
    silent = {f"member-{number}" for number in range(1, group.get("members", 0) + 1)} - begun
    silent |= {name for rows in counted.values() for name in rows} - lives
    found = [f"The member {name} wrote no final report: how much it did is unknown." for name in sorted(silent)]
    collected = {event.target: event.detail["rows"] for event in run.events if event.step == "table"}
    for table, rows in counted.items():  # a member that was killed counted nothing
        if rows.total() < collected.get(table, 0):
            found.append(f"Of {collected[table]} collected rows of {table} {rows.total()} are there.")
    excused = ended_by_faults(members, run.faults)
    for member in members:
        name = member["client_id"]
        if member.get("clean") is not True and name not in excused:
            found.append(f"The member {name} did not end cleanly: it may have recorded less than it did.")
        for table, rows in counted.items():
            if rows[name] < (member.get(table) or 0):
                found.append(f"Of {member[table]} rows of {table} that {name} wrote {rows[name]} are there.")
    return found


def ended_by_faults(members: Iterable[Mapping[str, Any]], faults: Sequence[FaultSpan]) -> set[str]:
    """Return the member incarnations that a fault ended.

    A paused member must end cleanly.
    """
    lives: dict[str, list[tuple[int, str]]] = {}  # (start, client id)
    for member in members:
        node = member["client_id"].rpartition(".")[0]
        lives.setdefault(node, []).append((member.get("started_ns") or 0, member["client_id"]))
    found = set()
    for node, of_node in lives.items():
        for (from_ns, name), (until_ns, _) in pairwise([*sorted(of_node), (FOREVER_NS, "")]):
            within = [span.is_over for span in faults if node in span.nodes and from_ns <= span.from_ns < until_ns]
            if not all(within) or (within and until_ns < FOREVER_NS):
                found.add(name)
    return found
