"""Remove evidence from a record, or records from the logs, without a cause.

A damage changes the model's record and returns the consequence for a judge: evidence is missing, so that the run must
not pass, or a guarantee was violated. The model imports nothing of the project.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tests.model.cluster import Recorded
from tests.model.parts import BROKERS, MS, Batch, History

CERTAIN_NS = 3_000 * MS  # a former leader that has known of a later epoch for so long accepts no records


@dataclass
class Effects:
    """The consequences of damages.

    ``missing``: descriptions with their partition (None: all). ``stolen``: the records lost without cause, by
    partition. ``hidden``: how many states a snapshot replaces, by partition. ``undecided``: invariants whose violation
    cannot be decided.
    """

    missing: list[tuple[str, int | None]] = field(default_factory=list)
    stolen: dict[int, set[tuple[str, int]]] = field(default_factory=dict)
    hidden: dict[int, int] = field(default_factory=dict)
    undecided: set[str] = field(default_factory=set)

    def spares(self, partition: int) -> bool:
        """Return whether a partition's evidence is complete."""
        touched = {of for _, of in self.missing}
        return None not in touched and partition not in touched and self.hidden.get(partition, 0) <= 1


Damage = Callable[[Recorded, random.Random, Effects], None]


def _some(recorded: Recorded, chance: random.Random) -> tuple[int, History, int]:
    number = chance.randrange(len(recorded.partitions))
    return number, recorded.partitions[number], chance.choice(BROKERS)


# --- missing evidence --------------------------------------------------------------------------------


def no_metadata(recorded: Recorded, chance: random.Random, found: Effects) -> None:
    """Remove every broker's view of a partition."""
    number, history, _ = _some(recorded, chance)
    history.views = []
    found.missing.append((f"metadata of {number}", number))


def no_samples(recorded: Recorded, chance: random.Random, found: Effects) -> None:
    """Remove every probe of a replica."""
    number, history, broker = _some(recorded, chance)
    history.samples = [row for row in history.samples if row["broker_id"] != broker]
    history.silent = [row for row in history.silent if row["broker_id"] != broker]
    found.missing.append((f"samples of {number} on {broker}", number))


def no_states(recorded: Recorded, chance: random.Random, found: Effects) -> None:
    """Remove a partition from the controller's history."""
    number, _, _ = _some(recorded, chance)
    recorded.lacking.add(f"states {number}")
    found.missing.append((f"history of {number}", number))


def no_capture(recorded: Recorded, chance: random.Random, found: Effects) -> None:
    """Remove a replica's answer from the last capture."""
    number, history, broker = _some(recorded, chance)
    _uncapture(history, broker)
    found.missing.append((f"last capture of {number} on {broker}", number))


def _uncapture(history: History, broker: int) -> None:
    history.captures = [row for row in history.captures if (row["capture"], row["broker_id"]) != ("after", broker)]


def no_segment(recorded: Recorded, chance: random.Random, found: Effects) -> None:
    """Remove a replica's exported log."""
    number, _, broker = _some(recorded, chance)
    recorded.lacking.add(f"segment {number} {broker}")
    found.missing.append((f"segment of {number} on {broker}", number))


def short_segment(recorded: Recorded, chance: random.Random, found: Effects) -> None:
    """Remove the last batches of a replica's exported log."""
    number, history, broker = _some(recorded, chance)
    if history.logs[broker]:
        history.logs[broker] = history.logs[broker][: -chance.randint(1, 3)]
        found.missing.append((f"end of {number} on {broker}", number))


def short_segment_without_capture(recorded: Recorded, chance: random.Random, found: Effects) -> None:
    """Remove the last batches of a replica's exported log, and the capture that shows its end."""
    number, history, broker = _some(recorded, chance)
    if history.logs[broker]:
        history.logs[broker] = history.logs[broker][: -chance.randint(1, 3)]
        _uncapture(history, broker)
        found.missing.append((f"end and last capture of {number} on {broker}", number))


def no_drain(recorded: Recorded, chance: random.Random, found: Effects) -> None:
    """Remove the final drain of a partition."""
    number, history, _ = _some(recorded, chance)
    history.polls = [row for row in history.polls if row["pass"] == "live"]
    recorded.lacking.add(f"drain {number}")
    found.missing.append((f"drain of {number}", number))


def short_drain(recorded: Recorded, chance: random.Random, found: Effects) -> None:
    """Stop the final drain of a partition before its end."""
    number, history, _ = _some(recorded, chance)
    if history.drain_end:
        cut = chance.randrange(history.drain_end)
        history.polls = [row for row in history.polls if row["pass"] == "live" or row["offset"] < cut]
        recorded.stopped[number] = cut
        found.missing.append((f"end of the drain of {number}", number))


def no_last_words(recorded: Recorded, chance: random.Random, found: Effects) -> None:
    """Remove a client's final summary."""
    lives = sorted({row["member"] for row in recorded.group.rebalances}) if recorded.group else []
    name = chance.choice(
        [*recorded.readers, *(each.name for each in recorded.partitions[0].producers), *lives, "probe-1"]
    )
    recorded.lacking.add(f"words {name}")
    found.missing.append((f"last words of {name}", None))


def short_ledger(recorded: Recorded, chance: random.Random, found: Effects) -> None:
    """Remove a row of a producer's ledger but not from the count in its summary."""
    _, history, _ = _some(recorded, chance)
    if history.sends:
        row = chance.choice(history.sends)
        recorded.told[row["producer_id"]] = sum(
            other["producer_id"] == row["producer_id"] for each in recorded.partitions.values() for other in each.sends
        )
        history.sends.remove(row)
        found.missing.append((f"a send of {row['producer_id']}", None))


def short_polls(recorded: Recorded, chance: random.Random, found: Effects) -> None:
    """Remove a reader's last row but not from the count in its summary."""
    _, history, _ = _some(recorded, chance)
    live = [row for row in history.polls if row["pass"] == "live"]
    if live:
        name = live[-1]["consumer_id"]
        recorded.told[name] = sum(
            row["consumer_id"] == name for each in recorded.partitions.values() for row in each.polls
        )
        history.polls.remove(live[-1])
        found.missing.append((f"a record of {name}", None))


def no_positions(recorded: Recorded, chance: random.Random, found: Effects) -> None:
    """Remove the last check of the readers' positions."""
    recorded.positions, recorded.alive = [], []
    if any(history.drain_end for history in recorded.partitions.values()):
        found.missing.append(("positions", None))


def impatient(recorded: Recorded, chance: random.Random, found: Effects) -> None:
    """Check the readers too early: one that is not at the end may still reach it."""
    recorded.looked_ns = recorded.quiesced_ns + MS
    found.undecided.add("I37")


def not_healed(recorded: Recorded, chance: random.Random, found: Effects) -> None:
    """Remove the end of a fault from the events."""
    healed = [event for event in recorded.events if event.kind == "healed" and event.step != "transfer_leadership"]
    if healed:
        gone = chance.choice(healed)
        same = {event for event in recorded.events if event[1:] == gone[1:] and event.t_ns >= gone.t_ns}
        recorded.events = [event for event in recorded.events if event not in same]
        found.missing.append((f"end of {gone.step} of {gone.target}", None))


def snapshot(recorded: Recorded, chance: random.Random, found: Effects) -> None:
    """Begin the controller's log with a snapshot, which has only each partition's last state."""
    every = sorted((state.t_ns, number) for number, history in recorded.partitions.items() for state in history.states)
    if len(every) > len(recorded.partitions):
        at = chance.randint(len(recorded.partitions) + 1, len(every))
        recorded.lacking.add(f"snapshot at {at}")
        for number in recorded.partitions:
            found.hidden[number] = sum(each == number for _, each in every[:at])


# --- records lost without a cause ---------------------------------------------------------------------


def last_leader_forgets(recorded: Recorded, chance: random.Random, found: Effects) -> None:
    """Remove a batch that the last leader acknowledged from every log and reader, although it led to the end.

    No former leader can have acknowledged it without knowing of the last one.
    """
    candidates = [
        (number, batch)
        for number, history in recorded.partitions.items()
        for batch in _certain(recorded, history, number)
    ]
    if candidates:
        number, gone = chance.choice(candidates)
        history = recorded.partitions[number]
        for broker, log in history.logs.items():
            history.logs[broker] = [batch for batch in log if batch != gone]
        history.polls = [row for row in history.polls if not gone.base <= row["offset"] < gone.end]
        found.stolen.setdefault(number, set()).update((gone.producer, seq) for seq in gone.seqs)
        found.undecided.add("I29")  # a record that a member skipped may be among them


def _certain(recorded: Recorded, history: History, number: int) -> Iterator[Batch]:
    """Yield the acknowledged batches that only the last epoch's leader can have accepted, except the log's last."""
    last = max((state.epoch for state in history.states), default=0)
    former = {state.leader for state in history.states if state.epoch < last and state.leader > 0}
    acked = {(row["producer_id"], row["seq"]): row for row in history.sends if row["outcome"] == "ok"}
    log = history.logs.get(history.leader, [])
    written = [(batch.producer, seq) for batch in log for seq in batch.seqs]
    for batch in log[:-1]:
        if any(written.count((batch.producer, seq)) > 1 for seq in batch.seqs):
            continue
        rows = [acked.get((batch.producer, seq)) for seq in batch.seqs]
        if (
            batch.epoch == last
            and all(rows)
            and all(
                _knew(recorded, history, broker, min(row["sent_ns"] for row in rows if row))
                for broker in former - {history.leader}
            )
        ):
            yield batch


def _knew(recorded: Recorded, history: History, broker: int, sent_ns: int) -> bool:
    """Return whether a former leader, when a record was sent, had been killed since, or had long known a later
    epoch.
    """
    led_ns, epoch = max((state.t_ns, state.epoch) for state in history.states if state.leader == broker)
    killed = any(
        (event.kind, event.step, event.target) == ("injected", "kill", f"broker-{broker}")
        and led_ns < event.t_ns < sent_ns - 200 * MS
        for event in recorded.events
    )
    shown = (
        row["received_ns"] for row in history.views if row["observer"] == str(broker) and row["leader_epoch"] > epoch
    )
    return killed or any(t_ns + CERTAIN_NS < sent_ns for t_ns in shown)


MISSING: tuple[Damage, ...] = (
    no_metadata, no_samples, no_states, no_capture, no_segment, short_segment, short_segment_without_capture, no_drain,
    short_drain, no_positions, no_last_words, short_ledger, short_polls, not_healed,
)  # fmt: skip
DAMAGES: dict[str, Damage] = {
    damage.__name__: damage for damage in (*MISSING, snapshot, impatient, last_leader_forgets)
}


def damage(recorded: Recorded) -> Effects:
    """Apply a plan's damages to a record and return the consequences."""
    found = Effects()
    for name, number in recorded.plan.damages:
        DAMAGES[name](recorded, random.Random(number), found)
    return found
