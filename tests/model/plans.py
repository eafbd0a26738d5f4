"""Make random plans: the same seed and version of this module give the same plan."""

from __future__ import annotations

import random
from collections.abc import Sequence

from tests.model import consumer_group
from tests.model.cluster import BROKER_VERBS, CONSUMERS, MEMBER_VERBS, OTHER_ORDERS, Plan
from tests.model.damages import MISSING
from tests.model.parts import BROKERS, Step
from tests.model.truth import FLAWS, TWICE

# All events of the model in half a minute; producer 0 has acks=all, producer 1 acks=1.
EVENTFUL: list[Step] = [
    ("write", 0, 3), ("write", 1, 3), ("poll", 0, 0),
    # Broker 3 is slowed until it has left the ISR, and returns.
    ("slow", 2, 0), ("write", 0, 4), ("write", 0, 4), ("write", 1, 4), ("wait", 0, 4), ("fast", 2, 0), ("wait", 0, 2),
    # Broker 2 is paused under load, then nothing is written for 6 s.
    ("pause", 1, 0), ("write", 1, 4), ("write", 0, 1), ("wait", 0, 22), ("resume", 1, 0),
    ("wait", 0, 2), ("lose_answer", 0, 0), ("write", 0, 2), ("wait", 0, 3), ("poll", 0, 0),
    # Broker 3 is out of the ISR when leader 1 is disconnected; the leader continues to accept acks=1.
    ("slow", 2, 0), ("write", 0, 4), ("write", 1, 4), ("write", 0, 4), ("wait", 0, 4),
    ("cut", 0, 0), ("write", 1, 4), ("wait", 0, 4), ("poll", 0, 0), ("write", 0, 3), ("fast", 2, 0), ("wait", 0, 5),
    ("poll_follower", 1, 0), ("wait", 0, 1), ("join", 0, 0), ("wait", 0, 4), ("poll", 0, 0),
    # Leader 2 is killed and returns slowly.
    ("kill", 1, 0), ("wait", 0, 4), ("write", 0, 4), ("write", 1, 4), ("wait", 0, 4), ("slow", 1, 0), ("restart", 1, 0),
    ("wait", 0, 4), ("fast", 1, 0), ("wait", 0, 4),
    # The leader is alone, below min.insync.replicas.
    ("kill", 1, 0), ("kill", 2, 0), ("write", 1, 3), ("wait", 0, 9), ("write", 1, 3), ("wait", 0, 3),
    ("write", 0, 1), ("wait", 0, 3), ("restart", 1, 0),
    ("wait", 0, 2), ("write", 0, 2), ("wait", 0, 2), ("poll", 0, 0), ("poll", 0, 0),
]  # fmt: skip
CALM_VERBS = ("write", "write", "write", "write", "poll", "poll_follower", "wait")
VERBS = (*CALM_VERBS, "write", "move", "lose_answer", "poll", "wait", *BROKER_VERBS)
OF_GROUP = ("start_member", "stop_member", "wait")


class Draw:
    """The random choices of one plan."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.partitions = self.chance.choice((1, 2, 2, 3, 4))
        self.members = self.chance.choice((0, 0, 1, 2, 3))
        self.producers = 2

    def maybe(self, share: float) -> bool:
        return self.chance.random() < share

    def write(self, partition: int, producer: int, amount: int, verb: str = "write") -> Step:
        return verb, producer * self.partitions + partition, amount

    def written(self) -> list[Step]:
        places = [(p, n) for p in range(self.partitions) for n in range(self.producers)]
        return [self.write(*place, self.chance.randint(1, 2), "also_write") for place in places] + [("wait", 0, 1)]

    def some(self, verbs: Sequence[str], most: int) -> list[Step]:
        return [
            (self.chance.choice(verbs), self.chance.randrange(60), self.chance.randint(1, 4))
            for _ in range(self.chance.randint(2, most))
        ]

    def motif(self) -> list[Step]:
        """Return random steps with a combined effect that single steps rarely have."""
        broker, member, partition = (
            *(self.chance.randrange(3) for _ in range(2)),
            self.chance.randrange(self.partitions),
        )
        plain, safe, wait, rest = (
            self.write(partition, 1, 3),
            self.write(partition, 0, 2),
            ("wait", 0, 4),
            ("wait", 0, 2),
        )
        motifs: list[list[Step]] = [
            [("kill", broker, 0), wait, plain, safe, plain, wait, ("restart", broker, 0), wait],
            [("cut", broker, 0), plain, wait, safe, wait, ("join", broker, 0), rest],
            [("slow", broker, 0), safe, plain, safe, wait, ("fast", broker, 0), safe, rest],
            [("pause", broker, 0), plain, safe, wait, ("resume", broker, 0), plain, rest],
            [("stop", broker, 0), plain, safe, wait, ("restart", broker, 0), wait, ("move", partition, 0)],
            [("lose_answer", partition, 0), plain, wait],
            [safe, ("kill_member", member, 0), safe, wait, rest, ("start_member", member, 0), safe, wait],
            [safe, ("pause_member", member, 0), safe, wait, rest, ("resume_member", member, 0), safe, wait],
            [safe, ("stop_member", member, 0), safe, rest, ("start_member", member, 0), safe, rest],
        ]
        return self.chance.choice(motifs)

    def steps(self, *, calm: bool) -> tuple[Step, ...]:
        found = [] if self.maybe(0.1) else self.written()
        for _ in range(self.chance.randint(1, 3)):
            if calm:
                found += self.some(CALM_VERBS, 6)
            else:
                found += self.motif() if self.maybe(0.6) else self.some((*VERBS, *MEMBER_VERBS), 10)
        return tuple(found)

    def damages(self, *, steals: bool) -> tuple[tuple[str, int], ...]:
        found = []
        if steals and self.maybe(0.2):
            found.append("last_leader_forgets")
        if self.maybe(0.35):
            found += [self.chance.choice(MISSING).__name__ for _ in range(self.chance.choice((1, 1, 2)))]
        found += [name for name, share in (("snapshot", 0.15), ("impatient", 0.1)) if self.maybe(share)]
        return tuple((name, self.chance.randrange(1000)) for name in found)


def plan_of(seed: int) -> Plan:
    """Return the plan of a seed."""
    draw = Draw(seed)
    chance = draw.chance
    kind = chance.choices(("any", "flaw", "group", "starved", "twice", "early"), (75, 5, 6, 4, 4, 6))[0]
    if kind == "group":
        draw.members = chance.randint(2, 3)
    orders = [chance.choice(OTHER_ORDERS) for _ in range(draw.partitions)]
    flawed = chance.randrange(draw.partitions)
    calm = kind in {"group", "twice"} or draw.maybe(0.15)
    steps = draw.steps(calm=calm)
    if kind == "flaw":
        orders[flawed] = BROKERS
        steps = (*eventful(draw, flawed), *steps)
    if kind == "group":
        steps = (*draw.written(), *rebalanced(draw, flawed), *steps)
    return Plan(
        steps=steps,
        orders=tuple(orders),
        readers=1 if kind == "flaw" else chance.randint(1, len(CONSUMERS)),
        members=draw.members,
        effective_min_isr=2 if kind == "flaw" else chance.choice((1, 2, 2)),
        strict_min_isr=kind == "flaw" or draw.maybe(0.6),
        flaw=chance.choice(sorted(FLAWS)) if kind == "flaw" else TWICE if kind == "twice" else "",
        group_flaw=chance.choice(sorted(consumer_group.FLAWS)) if kind == "group" else "",
        flawed=flawed,
        starved=0 if kind == "starved" else None,
        ends_early=kind == "early",
        ends_quietly=kind in {"flaw", "twice"} or draw.maybe(0.15),
        eventful=kind == "flaw",
        damages=() if kind == "early" else draw.damages(steals=kind not in {"flaw", "twice"}),
    )


def eventful(draw: Draw, partition: int) -> list[Step]:
    """Return the eventful script for one partition, with some writes to the others."""
    found: list[Step] = []
    for verb, whom, amount in EVENTFUL:
        if verb == "write":
            other = draw.chance.randrange(draw.partitions)
            if other != partition and draw.maybe(0.3):
                found.append(draw.write(other, draw.chance.randrange(2), 1, "also_write"))
            found.append(draw.write(partition, whom, amount))
        else:
            found.append((verb, whom, amount))
    return found


def rebalanced(draw: Draw, partition: int) -> list[Step]:
    """Return steps in which members leave and return under load, so that a partition changes its owner."""
    found: list[Step] = []
    for member in (partition % draw.members, 0):
        for verb in ("stop_member", "start_member"):
            found += [draw.write(partition, 0, 4), ("wait", 0, 1), (verb, member, 0), ("wait", 0, 4)]
    return found
