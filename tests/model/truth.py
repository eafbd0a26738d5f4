"""What a judge must say of a history of the model, as the model itself knows it.

Like the model this imports nothing of the project.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.model import consumer_group
from tests.model.cluster import Recorded
from tests.model.damages import Effects
from tests.model.replicated_log import History

GONE = "gone"  # acknowledged, and in no log any more
DUPLICATE = "duplicate"
OPEN = frozenset({"undrained", "unseen"})  # nobody knows what became of these records: no accusation
# A rule that a partition breaks → what has to name it.
FLAWS: dict[str, set[str]] = {
    "hw_ignores_followers": {"I7", "I8"},
    "follower_hw_is_leo": {"I9"},
    "follower_hw_falls": {"I4"},
    "truncates_below_hw": {"I6"},
    "hw_ignores_min_isr": {"I11"},
    "hw_waits_for_appends": {"I10"},
    "new_leaders_hw_stays": {"I22"},
    "never_evicts": {"I23"},
    "joins_behind": {"I24", "I7"},
    "elects_last": {"I20"},
    "elects_outsiders": {"I20", "I8"},
    "epoch_stays": {"I19", "I21"},
    "epoch_falls": {"I21"},
    "partition_epoch_skips": {"I21"},
    "stamps_old_epochs": {"I14"},
    "boots_above_its_log": {"I25", "I2"},
    "appends_twice": {"I17", "duplicate"},
    "acknowledges_early": {"lost_write"},
    "acknowledges_below_min_isr": {"I28"},
    "serves_uncommitted": {"I16", "nonrepeatable_read"},
}


@dataclass(frozen=True)
class Demand:
    """What a judge must say.

    ``verdicts`` are those that it may give; ``named`` what it must report as violated or forbidden. ``counts`` maps
    (partition, GONE or DUPLICATE) to the records that it must find (None: with what is missing it need not), and
    ``forbidden`` to those of them that nothing permits. ``silent``: it reports nothing else.
    """

    verdicts: frozenset[str]
    why: str
    named: frozenset[str] = frozenset()
    counts: Mapping[tuple[int, str], frozenset[tuple[str, int]]] | None = None
    forbidden: Mapping[tuple[int, str], frozenset[tuple[str, int]]] = field(default_factory=dict)
    silent: bool = False


def demand(recorded: Recorded, effects: Effects) -> Demand:
    """Return what a judge must say of a record."""
    plan = recorded.plan
    named = set(FLAWS.get(plan.flaw, ())) if plan.eventful else set()
    named |= _of_group(recorded)
    counts = {(number, GONE): frozenset(history.lost()) for number, history in recorded.partitions.items()}
    counts |= {(number, DUPLICATE): frozenset(history.doubled()) for number, history in recorded.partitions.items()}
    forbidden = {(number, GONE): frozenset(gone) for number, gone in effects.stolen.items()}
    if plan.flaw == "appends_plain_batches_twice":
        forbidden[plan.flawed, DUPLICATE] = counts[plan.flawed, DUPLICATE]
        named |= {"duplicate"} if counts[plan.flawed, DUPLICATE] else set()
    legal = not (plan.flaw or plan.group_flaw or plan.starved is not None or effects.stolen)
    starved = _starved(recorded)
    wrong = bool(named or any(forbidden.values()))
    missing = [*effects.missing, *(["it ended early"] if plan.ends_early else []), *_unexplained(recorded, effects)]
    verdicts, why = _verdicts(recorded, wrong=wrong, starved=starved, missing=missing, legal=legal, effects=effects)
    return Demand(
        verdicts=frozenset(verdicts),
        why=why,
        named=frozenset() if missing else frozenset(named),
        counts=None if missing or plan.flaw in FLAWS else counts,
        forbidden=forbidden,
        silent=legal,
    )


def _verdicts(
    recorded: Recorded, *, wrong: bool, starved: bool, missing: list[str], legal: bool, effects: Effects
) -> tuple[set[str], str]:
    if wrong:
        return ({"fail", "unknown"} if missing or effects.hidden else {"fail"}), "a guarantee was violated"
    if starved:
        return {"fail", "unknown"}, "a reader was starved"
    if missing:
        return {"unknown"} if legal else {"unknown", "fail"}, f"evidence is missing: {', '.join(missing)}"
    if not legal:
        return {"pass", "unknown", "fail"}, "a rule was broken, with or without an effect"
    if effects.hidden or not all(map(_told_enough, recorded.partitions.values())):
        return {"pass", "unknown"}, "nothing is wrong, and little happened"
    return {"pass"}, "nothing is wrong"


def _of_group(recorded: Recorded) -> set[str]:
    group = recorded.group
    return set(consumer_group.FLAWS[group.flaw]) if group and group.flaw and group.fired else set()


def _starved(recorded: Recorded) -> bool:
    """Return whether a reader that lived was left without records that were there."""
    plan, group = recorded.plan, recorded.group
    if plan.starved is not None:
        name = recorded.readers[plan.starved]
        for history in recorded.partitions.values():
            read = [row["offset"] for row in history.polls if row["consumer_id"] == name]
            if max(read, default=-1) + 1 < history.drain_end:
                return True
    return bool(group and group.flaw in {"starves", "never_assigns"} and group.fired)


def _unexplained(recorded: Recorded, effects: Effects) -> list[str]:
    """Return the partitions with records that are gone, all of whose leader changes a snapshot hides, in words."""
    found = []
    for number, hidden in effects.hidden.items():
        history = recorded.partitions[number]
        known = [state.leader for state in history.states[max(hidden - 1, 0) :]]
        moved = len({state.leader for state in history.states}) > 1
        if history.lost() and moved and len(set(known)) == 1:
            found.append(f"the cause of losses of {number}")
    return found


def _told_enough(history: History) -> bool:
    """Return whether a record was acknowledged with acks=all, so that a guarantee can be checked."""
    return any(row["outcome"] == "ok" and row["acks"] == "all" for row in history.sends)
