"""Derive the judge's right answer to a history from the model.

The model imports nothing of the project.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.model import consumer_group
from tests.model.cluster import Recorded
from tests.model.damages import Effects

GONE = "gone"  # acknowledged, but in no log
DUPLICATE = "duplicate"
TWICE = "appends_plain_batches_twice"
Records = frozenset[tuple[str, int]]
REVIEW = frozenset({"I22", "I23"})  # findings that do not fail a run
OPEN = frozenset({"undrained", "unseen"})  # the fate of these records is unknown, which is not a violation
# Violated rule of a partition → the checks that must report it.
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
    """The judge's right answer.

    ``verdicts`` are the allowed ones; ``named`` must be reported as violated or forbidden. ``counts`` maps (partition,
    GONE or DUPLICATE) to the records to be found, and ``forbidden`` to those of them that nothing allows; a partition
    with missing evidence is exempt. ``may`` limits all reports; None: no limit.
    """

    verdicts: frozenset[str]
    why: str
    named: frozenset[str] = frozenset()
    counts: Mapping[tuple[int, str], Records] = field(default_factory=dict)
    forbidden: Mapping[tuple[int, str], Records] = field(default_factory=dict)
    may: frozenset[str] | None = None


def demand(recorded: Recorded, effects: Effects) -> Demand:
    """Return the right answer to a record."""
    plan = recorded.plan
    forbidden = {(number, GONE): frozenset(gone) for number, gone in effects.stolen.items()}
    if plan.flaw == TWICE and (twice := frozenset(recorded.partitions[plan.flawed].doubled())):
        forbidden[plan.flawed, DUPLICATE] = twice
    named = _named(recorded, effects)
    missing = [*(words for words, _ in effects.missing), *_unexplained(recorded, effects)]
    missing += ["the end"] if plan.ends_early else []
    legal = not (plan.flaw or plan.group_flaw or plan.starved is not None or effects.stolen)
    proven = bool(named - REVIEW) or any(map(effects.spares, {partition for partition, _ in forbidden}))
    spared = {number: history for number, history in recorded.partitions.items() if effects.spares(number)}
    counts = {(number, GONE): frozenset(history.lost()) for number, history in spared.items()}
    counts |= {(number, DUPLICATE): frozenset(history.doubled()) for number, history in spared.items()}
    broken = bool(forbidden or _flaw_fired(recorded))
    verdicts, why = _verdicts(recorded, effects, missing, proven=proven, broken=broken, legal=legal)
    return Demand(
        verdicts=frozenset(verdicts),
        why=why,
        named=frozenset(named),
        counts={} if plan.flaw in FLAWS or plan.ends_early else counts,
        forbidden=forbidden,
        may=OPEN | ({"source_disagreement"} if plan.ends_early else set()) if legal else None,
    )


def _verdicts(
    recorded: Recorded, effects: Effects, missing: list[str], *, proven: bool, broken: bool, legal: bool
) -> tuple[set[str], str]:
    lacking = f"evidence is missing: {', '.join(missing)}"
    little = effects.hidden or recorded.plan.ends_quietly
    rows = (
        (proven, {"fail"}, "a guarantee was violated"),
        (broken, {"fail", "unknown"}, f"a guarantee was violated, and {lacking}"),
        (_starved(recorded), {"fail", "unknown"} if missing else {"unknown"}, "a reader may have been starved"),
        (missing and legal, {"unknown"}, lacking),
        (missing, {"fail", "unknown"}, lacking),
        (not legal, {"pass", "fail", "unknown"}, "a rule was broken, with or without an effect"),
        (little, {"pass", "unknown"}, "nothing is wrong, and little happened"),
        (True, {"pass"}, "nothing is wrong"),
    )
    return next((verdicts, why) for holds, verdicts, why in rows if holds)


def _named(recorded: Recorded, effects: Effects) -> set[str]:
    """Return the checks that must report: those of a flaw that took effect, in a partition with complete evidence."""
    plan = recorded.plan
    named = {"I37"} if plan.starved is not None and _starved(recorded) and not effects.missing else set()
    if plan.ends_early or not effects.spares(plan.flawed):
        return named - effects.undecided
    named |= set(FLAWS.get(plan.flaw, ())) if plan.eventful else set()
    if plan.flaw == TWICE and recorded.partitions[plan.flawed].doubled():
        named.add("duplicate")
    return (named | _of_group(recorded)) - effects.undecided


def _flaw_fired(recorded: Recorded) -> bool:
    of_partition = FLAWS.get(recorded.plan.flaw, set()) - REVIEW if recorded.plan.eventful else set()
    return bool(of_partition | _of_group(recorded))


def _of_group(recorded: Recorded) -> set[str]:
    group = recorded.group
    return set(consumer_group.FLAWS[group.flaw]) if group and group.flaw and group.fired else set()


def _starved(recorded: Recorded) -> bool:
    plan, group = recorded.plan, recorded.group
    if plan.starved is not None:
        name = recorded.readers[plan.starved]
        for history in recorded.partitions.values():
            read = [row["offset"] for row in history.polls if row["consumer_id"] == name]
            if max(read, default=-1) + 1 < history.drain_end:
                return True
    return bool(group and group.flaw in {"starves", "never_assigns"} and group.fired)


def _unexplained(recorded: Recorded, effects: Effects) -> list[str]:
    """Describe the partitions with lost records whose leader changes are all hidden by a snapshot."""
    found = []
    for number, hidden in effects.hidden.items():
        history = recorded.partitions[number]
        known = [state.leader for state in history.states[max(hidden - 1, 0) :]]
        moved = len({state.leader for state in history.states}) > 1
        if history.lost() and moved and len(set(known)) == 1:
            found.append(f"the cause of losses of {number}")
    return found
