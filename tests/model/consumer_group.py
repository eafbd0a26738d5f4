"""Model a small consumer group, to test the judge.

The model follows Kafka's rules (KIP-429, KIP-848) and imports nothing of this project. Each tick, live members read
their partitions and commit; the coordinator moves a partition when its owner has revoked it or its session has expired.
The members' records are plain rows. A ``flaw`` violates one rule for one partition.

Times are nanoseconds. Simplifications: the coordinator never fails, and a partition's offsets have no gaps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MS = 1_000_000
SESSION_NS = 1_000 * MS
COMMIT_TICKS = 3
FLAWS = {  # violated rule → the checks that must report it
    "skips": {"I29"},
    "rereads": {"I30"},
    "commits_less": {"I31"},
    "keeps_the_old_owner": {"I32"},
    "starves": {"I37"},
    "never_assigns": {"I37"},
}


@dataclass
class Life:
    """One life of a member; ``positions`` maps its partitions to their next offsets."""

    name: str
    started_ns: int
    ended_ns: int | None = None
    clean: bool = False
    paused: bool = False
    heard_ns: int = 0
    commits: int = 0
    positions: dict[int, int] = field(default_factory=dict)
    unanswered: list[dict[str, Any]] = field(default_factory=list)

    @property
    def runs(self) -> bool:
        return self.ended_ns is None and not self.paused


class Group:
    """The group and its coordinator at one time; ``fired``: the flaw took effect."""

    def __init__(self, members: int, partitions: int, *, flaw: str = "", flawed: int = 0) -> None:
        self.flaw, self.flawed, self.fired = flaw, flawed, False
        self.partitions = partitions
        self.now = self.ticks = 0
        self.lives: dict[str, list[Life]] = {f"member-{n}": [] for n in range(1, members + 1)}
        self.joined: list[Life] = []
        self.owners: dict[int, Life | None] = dict.fromkeys(range(partitions))
        self.committed: dict[int, int] = {}
        self.stuck: set[int] = set()
        self.reads: list[dict[str, Any]] = []
        self.rebalances: list[dict[str, Any]] = []
        self.commits: list[dict[str, Any]] = []
        for name in self.lives:
            self.start(name)

    def current(self, name: str) -> Life | None:
        return next((life for life in self.lives[name] if life.ended_ns is None), None)

    # --- events of members ------------------------------------------------------------------------------

    def start(self, name: str) -> bool:
        """Start another life of a dead member; return whether it began."""
        if self.current(name) is not None:
            return False
        life = Life(f"{name}.{len(self.lives[name]) + 1}", self.now, heard_ns=self.now)
        self.lives[name].append(life)
        self.joined.append(life)
        return True

    def kill(self, name: str) -> bool:
        """End a member without notice; its session continues."""
        life = self.current(name)
        if life is None:
            return False
        life.ended_ns = self._later()
        return True

    def stop(self, name: str) -> bool:
        """Let a member finish, commit and leave."""
        life = self.current(name)
        if life is None or life.paused:
            return False
        self._answer(life)
        for partition in list(life.positions):
            self._give_up(life, partition)
        life.ended_ns, life.clean = self._later(), True
        if life in self.joined:
            self.joined.remove(life)
        return True

    def pause(self, name: str) -> bool:
        life = self.current(name)
        if life is None or life.paused:
            return False
        life.paused = True
        return True

    def resume(self, name: str) -> bool:
        life = self.current(name)
        if life is None or not life.paused:
            return False
        life.paused = False
        return True

    # --- time -------------------------------------------------------------------------------------------

    def _later(self) -> int:
        self.now += MS
        return self.now

    def tick(self, readable: Mapping[int, int | None]) -> None:
        """Advance by 100 ms; ``readable`` maps a partition to the end of its committed records (None: no leader)."""
        self.ticks += 1
        for lives in self.lives.values():
            for life in lives:
                if life.runs:
                    self._work(life, readable)
        self._expire()
        self._assign(readable)
        self.fired |= any((readable[partition] or 0) > self.committed.get(partition, 0) for partition in self.stuck)

    def _work(self, life: Life, readable: Mapping[int, int | None]) -> None:
        self._answer(life)
        self._read(life, readable)
        if life not in self.joined:  # the coordinator removed it during its pause
            for partition in list(life.positions):
                self._changed(life, partition, "lost")
                del life.positions[partition]
            self.joined.append(life)
        elif self.ticks % COMMIT_TICKS == 0:
            self._ask(life, list(life.positions))
        life.heard_ns = self.now

    def _read(self, life: Life, readable: Mapping[int, int | None]) -> None:
        for partition, position in life.positions.items():
            end = readable[partition]
            if end is None or end <= position:
                continue
            if self._flawed("starves", partition):
                self.fired = True
                continue
            row = {"member": life.name, "partition": partition, "first_offset": position, "last_offset": end - 1}
            self.reads.append(row | {"received_ns": self._later()})
            life.positions[partition] = end

    def _ask(self, life: Life, partitions: list[int]) -> None:
        for partition in partitions:
            offset = life.positions[partition]
            if self._flawed("commits_less", partition) and self.committed.get(partition, 0) > 1:
                offset, self.fired = self.committed[partition] - 1, True
            elif offset == self.committed.get(partition, 0):
                continue
            row = {"member": life.name, "partition": partition, "number": life.commits, "offset": offset}
            row |= {"asked_ns": self._later()}
            self.commits.append(row | {"answered_ns": None, "error": None})
            life.unanswered.append(row)
        life.commits += 1

    def _answer(self, life: Life) -> None:
        """Accept a member's commits, unless the coordinator has assigned the partition to another one."""
        for row in life.unanswered:
            taken = self.owners[row["partition"]] is life
            if (
                not taken
                and self._flawed("keeps_the_old_owner", row["partition"])
                and row["partition"] in life.positions
            ):
                taken = self.fired = True
            if taken:
                self.committed[row["partition"]] = row["offset"]
            error = None if taken else "ILLEGAL_GENERATION"
            self.commits.append(row | {"answered_ns": self._later(), "error": error})
        life.unanswered = []

    def _give_up(self, life: Life, partition: int) -> None:
        self._answer(life)
        self._ask(life, [partition])
        self._answer(life)
        self._changed(life, partition, "revoked")
        del life.positions[partition]
        if self.owners[partition] is life:
            self.owners[partition] = None

    def _changed(self, life: Life, partition: int, change: str) -> None:
        row = {"member": life.name, "partition": partition, "change": change, "changed_ns": self._later()}
        self.rebalances.append(row)

    # --- the coordinator --------------------------------------------------------------------------------

    def _expire(self) -> None:
        for life in list(self.joined):
            if not life.runs and self.now - life.heard_ns > SESSION_NS:
                self.joined.remove(life)
                for partition, owner in self.owners.items():
                    if owner is life:
                        self.owners[partition] = None

    def _assign(self, readable: Mapping[int, int | None]) -> None:
        """Assign each partition to the member whose turn it is, as soon as its owner has revoked it."""
        members = sorted(self.joined, key=lambda life: life.name)
        for partition, owner in self.owners.items() if members else ():
            wanted = members[partition % len(members)]
            if owner is wanted or not wanted.runs or partition in self.stuck:
                continue
            if owner is not None:
                if not owner.runs:
                    continue  # until its session ends
                if not self._flawed("keeps_the_old_owner", partition):
                    self._give_up(owner, partition)
                    if self._flawed("never_assigns", partition):
                        self.stuck.add(partition)
                    continue  # the next owner gets it a tick later
            self._begin(wanted, partition, readable)

    def _begin(self, life: Life, partition: int, readable: Mapping[int, int | None]) -> None:
        self.owners[partition] = life
        self._changed(life, partition, "assigned")
        start, end = self.committed.get(partition, 0), readable[partition] or 0
        if self._flawed("skips", partition) and start < end:
            start, self.fired = start + 1, True
        if self._flawed("rereads", partition) and start > 0:
            start, self.fired = start - 1, True
        life.positions[partition] = start

    def _flawed(self, flaw: str, partition: int) -> bool:
        return self.flaw == flaw and partition == self.flawed

    def end(self) -> None:
        """Let every member finish, commit and leave, without further assignments."""
        for name in self.lives:
            self.stop(name)
