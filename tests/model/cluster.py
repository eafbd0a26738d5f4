"""Model a small Kafka cluster with several partitions, producers, consumers and a consumer group.

Its partitions (``tests.model.replicated_log``) run in lock-step: an event of a broker applies to all its replicas. A
``Plan`` lists all events; ``Recorded`` is what a run would have recorded. The model imports nothing of the project.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple

from tests.model.consumer_group import Group, Life
from tests.model.parts import BROKERS, MS, NOBODY, REST_TICKS, History, Producer, Reader, Step
from tests.model.replicated_log import Partition

BROKER_VERBS = ("slow", "fast", "kill", "stop", "restart", "pause", "resume", "cut", "join")
MEMBER_VERBS = ("kill_member", "stop_member", "start_member", "pause_member", "resume_member")
FAULTS = {"kill": "kill", "stop": "stop", "pause": "pause", "cut": "disconnect", "slow": "slow"}
LOST_ANSWER_TICKS = 10
STARVED_FROM_STEP = 2
RETURN_TICKS = 25  # until every broker is back in each ISR
PATIENCE_NS = 3_000 * MS  # a reader without progress for longer is stuck
IDLE_NS = 5_000 * MS  # rest at the end
CONSUMERS = ("consumer", "consumer-2", "consumer-3")
OTHER_ORDERS = ((1, 2, 3), (2, 3, 1), (3, 1, 2), (1, 3, 2))


class Event(NamedTuple):
    """A line of the run's events, as in the run folder."""

    t_ns: int
    kind: str
    step: str
    target: str


@dataclass(frozen=True)
class Plan:
    """All events of a history; equal plans give equal histories.

    ``orders`` are the brokers of each partition, preferred leader first. ``acks_1`` and ``acks_all`` are numbers of
    producers; those with acks=all are idempotent. Partition ``flawed`` has the ``flaw`` and, in the group,
    ``group_flaw``; the reader ``starved`` stops polling at the third step. ``ends_early``: nothing is healed and there
    is no rest. Unless ``ends_quietly``, every producer writes to every partition again after the faults. ``eventful``:
    every flaw takes effect with these steps. ``damages`` are then applied to the record (``tests.model.damages``), each
    with a number as seed.
    """

    steps: tuple[Step, ...]
    orders: tuple[tuple[int, ...], ...] = (BROKERS,)
    acks_all: int = 1
    acks_1: int = 1
    readers: int = 1
    members: int = 0
    effective_min_isr: int = 2
    strict_min_isr: bool = True
    flaw: str = ""
    group_flaw: str = ""
    flawed: int = 0
    starved: int | None = None
    ends_early: bool = False
    ends_quietly: bool = False
    eventful: bool = False
    damages: tuple[tuple[str, int], ...] = ()


@dataclass
class Recorded:
    """What a run would have recorded, as plain rows."""

    plan: Plan
    partitions: dict[int, History]
    readers: list[str]
    events: list[Event]
    group: Group | None
    quiesced_ns: int
    looked_ns: int  # the time of the readers' last check
    ended_ns: int
    positions: list[dict[str, Any]] = field(default_factory=list)  # their positions then
    alive: list[str] = field(default_factory=list)  # the readers that reported then; empty: there was no check
    lacking: set[str] = field(default_factory=set)  # pieces removed by a damage, as named in ``tests.model.folder``
    told: dict[str, int] = field(default_factory=dict)  # client → rows that it wrote, if some are lost
    stopped: dict[int, int] = field(default_factory=dict)  # partition → offset at which its drain stopped early


class Cluster:
    """The cluster at one time."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.events: list[Event] = []
        self.active: dict[tuple[str, str], int] = {}  # (step, target) → when its fault was requested
        counters = {name: count() for name in CONSUMERS[: plan.readers]}
        names = {f"all-{n}": "all" for n in range(plan.acks_all)} | {f"one-{n}": "1" for n in range(plan.acks_1)}
        numbers = {name: count() for name in names}
        self.partitions = [
            Partition(
                [
                    Producer(name, acks, acks == "all", numbers=numbers[name], believes=order[0])
                    for name, acks in names.items()
                ],
                [Reader(name, positions, source=order[0]) for name, positions in counters.items()],
                assigned=order,
                effective_min_isr=plan.effective_min_isr,
                strict_min_isr=plan.strict_min_isr,
                flaw=plan.flaw if number == plan.flawed else "",
            )
            for number, order in enumerate(plan.orders)
        ]
        self.group = (
            Group(plan.members, len(plan.orders), flaw=plan.group_flaw, flawed=plan.flawed) if plan.members else None
        )

    @property
    def _clocks(self) -> list[Partition | Group]:
        return [*self.partitions, *([self.group] if self.group else [])]

    @property
    def now(self) -> int:
        return max(each.now for each in self._clocks)

    def play(self) -> Recorded:
        """Perform every step, heal everything, wait for rest, and read everything again."""
        for each in self.partitions:
            each.capture("before")
        for number, (verb, whom, amount) in enumerate(self.plan.steps):
            if number == STARVED_FROM_STEP:
                self._starve()
            for _ in range(self._act(verb, whom, amount)):
                self._tick()
        quiesced_ns = self.now
        if not self.plan.ends_early:
            self._heal()
            self._write_once_more()
            for _ in range(REST_TICKS):
                self._tick()
            quiesced_ns = self.now
            self._read_to_the_end()
            for each in self.partitions:
                each.capture("after")
            self._align()
            for each in self._clocks:
                each.now += IDLE_NS
        return self._recorded(quiesced_ns)

    def _starve(self) -> None:
        for each in self.partitions if self.plan.starved is not None else ():
            each.readers[self.plan.starved].starved = True

    def _recorded(self, quiesced_ns: int) -> Recorded:
        looked_ns, positions = self.now, list(self._positions())
        alive = [CONSUMERS[0], *(life.name for life in self._living())]
        if self.group:
            self.group.end()
        for each in self.partitions:
            self._align()
            each.finish()
        return Recorded(
            plan=self.plan,
            partitions={number: each.history for number, each in enumerate(self.partitions)},
            readers=[reader.name for reader in self.partitions[0].readers],
            events=self.events,
            group=self.group,
            quiesced_ns=quiesced_ns,
            looked_ns=looked_ns,
            ended_ns=self.now + MS,
            positions=positions,
            alive=alive,
        )

    def _living(self) -> list[Life]:
        return [life for name in self.group.lives if (life := self.group.current(name))] if self.group else []

    def _positions(self) -> Iterator[dict[str, Any]]:
        for number, each in enumerate(self.partitions):
            own = {CONSUMERS[0]: each.readers[0].next_offset}
            own |= {life.name: life.positions[number] for life in self._living() if number in life.positions}
            for reader, position in own.items():
                yield {"reader": reader, "partition": number, "position": position, "told_ns": self.now}

    # --- steps ------------------------------------------------------------------------------------------

    def _act(self, verb: str, whom: int, amount: int) -> int:
        if verb == "wait":
            return 3 * amount + 1
        if verb in MEMBER_VERBS:
            self._act_on_member(verb.removesuffix("_member"), whom)
        elif verb in BROKER_VERBS:
            self._act_on_broker(verb, BROKERS[whom % 3])
        elif verb in {"write", "also_write"}:
            self._of(whom).act("write", whom // len(self.partitions), amount)
        elif verb == "move":
            self._moved(self._of(whom))
        elif verb == "lose_answer":
            self._begin("lose", f"broker-{self._of(whom).assigned[0]}")
            self._of(whom).act(verb, whom, amount)
        else:
            for each in self.partitions:
                each.act(verb, whom, amount)
        return verb != "also_write"

    def _of(self, whom: int) -> Partition:
        return self.partitions[whom % len(self.partitions)]

    def _moved(self, of: Partition) -> None:
        before, at = of.state, self.now
        of.act("move", 0, 0)
        if of.state != before:
            moved = "transfer_leadership", f"broker-{before.leader}"
            self.events += [Event(at, "inject", *moved), Event(of.now, "injected", *moved)]
            self.events += [Event(of.now, "healed", *moved)]

    def _act_on_broker(self, verb: str, broker_id: int) -> None:
        replicas = [each.replicas[broker_id] for each in self.partitions]
        name = f"broker-{broker_id}"
        if verb in {"kill", "pause"} and not all(replica.runs for replica in replicas):
            return
        if verb == "stop" and not all(r.runs and not r.cut and r.told is not None for r in replicas):
            return
        at = self.now
        for each in self.partitions:
            each.act(verb, broker_id - 1, 0)
        if verb in FAULTS:
            self._begin(FAULTS[verb], name, at)
        for healing, step in (("resume", "pause"), ("join", "disconnect"), ("fast", "slow")):
            if verb == healing:
                self._end(step, name)

    def _act_on_member(self, verb: str, whom: int) -> None:
        if self.group is None:
            return
        name = f"member-{whom % self.plan.members + 1}"
        at = self.now
        if not getattr(self.group, verb)(name):
            return
        if verb in {"kill", "stop", "pause"}:
            self._begin(verb, name, at)
            if verb != "pause":
                self._end("pause", name)
        elif verb == "resume":
            self._end("pause", name)
        else:
            self._end("kill", name)
            self._end("stop", name)

    def _begin(self, step: str, target: str, at: int | None = None) -> None:
        if (step, target) not in self.active:
            at = self.now if at is None else at
            self.active[step, target] = at
            self._align()
            self.events += [Event(at, "inject", step, target), Event(max(at + MS, self.now), "injected", step, target)]

    def _end(self, step: str, target: str) -> None:
        if self.active.pop((step, target), None) is not None:
            self._align()
            self.events += [Event(self.now, kind, step, target) for kind in ("heal", "healed")]

    def _heal(self) -> None:
        for each in self.partitions:
            each.heal()
        for step, target in list(self.active):
            if target.startswith("member"):
                self.group.start(target) if step != "pause" else self.group.resume(target)
            if target.startswith("member") or step in {"pause", "disconnect", "slow"}:
                self._end(step, target)

    def _booted(self) -> Iterator[tuple[str, str]]:
        """Yield the faults that ended: their broker restarted, or their answer was lost long ago."""
        for (step, target), at in self.active.items():
            if step in {"kill", "stop"} and target.startswith("broker"):
                if all(each.replicas[int(target[-1])].up for each in self.partitions):
                    yield step, target
            elif step == "lose" and self.now - at > LOST_ANSWER_TICKS * 100 * MS:
                yield step, target

    # --- time -------------------------------------------------------------------------------------------

    def _align(self) -> None:
        now = self.now
        for each in self._clocks:
            each.now = now

    def _tick(self) -> None:
        self._align()
        for each in self.partitions:
            each.tick()
        if self.group:
            self._align()
            self.group.tick({number: _readable(each) for number, each in enumerate(self.partitions)})
        for step, target in list(self._booted()):
            self._end(step, target)

    def _write_once_more(self) -> None:
        for _ in range(0 if self.plan.ends_quietly else RETURN_TICKS):
            self._tick()
        for each in [] if self.plan.ends_quietly else self.partitions:
            for number in range(len(each.producers)):
                each.act("write", number, 1)

    def _read_to_the_end(self) -> None:
        for _ in range(3):
            for number in range(self.plan.readers):
                for each in self.partitions:
                    each.act("poll", number, 0)


def _readable(of: Partition) -> int | None:
    leader = of.replicas.get(of.state.leader) if of.state.leader != NOBODY else None
    return leader.hw if leader is not None and leader.runs and leader.leads else None


def play(plan: Plan) -> Recorded:
    """Return what a run would have recorded of a plan."""
    return Cluster(plan).play()
