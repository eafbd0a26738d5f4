"""Build ``verdict.json`` and its first sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from evidence.profiles import RECORDED, WATCHED, Profile
from expectations.suites import Outcome
from history.anomalies import SEVERITY
from history.words import counted as number_of
from history.words import listed
from judge.checks import known_bugs
from judge.checks.delivery import gone

Row = Mapping[str, Any]
MAX_NAMED = 3  # in the first sentence
OPEN = ("undrained", "unseen")  # evidence is missing, no guarantee is violated


@dataclass(frozen=True)
class Conclusion:
    """``forbidden``: anomalies that were not permitted; ``excused``: (anomaly, why, count)."""

    outcome: Outcome
    missing: Sequence[str]
    anomalies: Mapping[str, int]
    forbidden: Mapping[str, int]
    invariants: Sequence[Row]
    delivery: Mapping[str, int]
    allowed: Mapping[str, str]
    notes: Sequence[str]  # waits, seeks and the like
    excused: Sequence[tuple[str, str, int]] = ()
    profile: Profile = RECORDED
    not_judged: Sequence[str] = ()  # anomalies and invariants that the profile cannot show


def verdict_of(findings: Conclusion) -> dict[str, Any]:
    """Return verdict.json; equal findings give equal content."""
    acked, lost, unseen = (findings.delivery[name] for name in ("acked", "lost", "unseen"))
    return {
        "verdict": findings.outcome.verdict,
        "sentence": _sentence(findings),
        "reasons": [
            *_violations(findings, "S1"),
            *findings.missing,
            *_violations(findings, "S2"),
            *findings.notes,
            *_excused(findings),
        ],
        "anomalies": {name: count for name, count in findings.anomalies.items() if count},
        "invariants": {
            row["invariant"]: {name: row[name] for name in ("verdict", "checked", "violations", "reason", "known_bug")}
            for row in findings.invariants
        },
        "delivery": dict(findings.delivery),
        "loss_rate": [lost / acked, min((lost + unseen) / acked, 1.0)] if acked else [None, None],
        "allowed": dict(findings.allowed),
        "evidence": findings.profile.words,
        "not_judged": list(findings.not_judged),
    }


def _violations(findings: Conclusion, severity: str, tell: Callable[[Row], str] = itemgetter("reason")) -> list[str]:
    what = "which this configuration does not permit" if severity == "S1" else "which needs review"
    records = [f"{count:,} x {name}, {what}." for name, count in _forbidden(findings, severity)]
    replicas = [
        f"{row['invariant']} ({row['title']}) does not hold: {row['violations']:,} of {row['checked']:,} checks, "
        f"{tell(row)}."
        for row in findings.invariants
        if row["verdict"] == "fail" and row["severity"] == severity
    ]
    return records + replicas


def _first_violations(findings: Conclusion) -> str:
    kinds = [f"{count:,} x {name}" for name, count in _forbidden(findings, "S1")]
    if not kinds:
        return _violations(findings, "S1", _in_short)[0]
    more = [f"{len(kinds) - MAX_NAMED} more kinds"] if len(kinds) > MAX_NAMED else []
    return f"{listed([*kinds[:MAX_NAMED], *more])}, which this configuration does not permit."


def _in_short(row: Row) -> str:
    bug = f". {known_bugs.described(row['known_bug'])}" if row["known_bug"] else ""
    return f"first violation on {row['first_on']}{bug}"


def _forbidden(findings: Conclusion, severity: str) -> list[tuple[str, int]]:
    return [
        (name, count)
        for name, count in findings.forbidden.items()
        if count and name not in OPEN and SEVERITY[name] == severity
    ]


def _excused(findings: Conclusion) -> list[str]:
    return [f"{count:,} x {name} is permitted here: {why}." for name, why, count in findings.excused]


def _sentence(findings: Conclusion) -> str:
    if findings.outcome.verdict == "fail":
        return f"A guarantee was violated: {_first_violations(findings)}"
    if findings.outcome.verdict == "unknown":
        return f"Inconclusive: {(list(findings.missing) or ['evidence is missing.'])[0]}"
    held = _replicas_held(findings) if findings.profile is WATCHED else _delivered(findings)
    return " ".join([*_limited(findings, held), *_worth_a_look(findings)])


def _limited(findings: Conclusion, held: str) -> Iterator[str]:
    """Yield a pass's sentence, with its evidence if that is limited."""
    left_out = len(findings.not_judged) if findings.profile is not WATCHED else 0
    yield f"Pass, from {findings.profile.words}: {held[0].lower()}{held[1:]}" if left_out else held
    if left_out:
        yield f"{number_of(left_out, 'check')} {'was' if left_out == 1 else 'were'} not made."


def _replicas_held(findings: Conclusion) -> str:
    checks = sum(row["checked"] for row in findings.invariants)
    return (
        f"Every check of the replicas held: {checks:,} checks of {len(findings.invariants)} invariants, from "
        f"{findings.profile.words}. What clients were promised was not judged."
    )


def _delivered(findings: Conclusion) -> str:
    acked, lost = findings.delivery["acked"], gone(findings.delivery)
    excused = [name for name, count in findings.anomalies.items() if count and name in findings.allowed]
    if lost:
        why = findings.allowed[next(name for name in excused if name != "duplicate")]
        return f"Loss is allowed here ({why}); {lost:,} of {acked:,} acknowledged records are lost."
    if any(name == "duplicate" for name, *_ in findings.excused):
        copies = findings.delivery["duplicated"]
        return (
            f"Nothing is lost; {copies:,} of {acked:,} acknowledged records are there twice or more, which is allowed."
        )
    if hidden := findings.delivery["unseen"]:
        return f"The guarantees held; {hidden:,} of {acked:,} acknowledged records cannot be read yet."
    every = "Every judged guarantee held, and" if findings.not_judged else "Every guarantee held:"
    return f"{every} all {acked:,} acknowledged records are accounted for."


def _worth_a_look(findings: Conclusion) -> list[str]:
    found = [f"{count:,} x {name}" for name, count in _forbidden(findings, "S2")]
    found += [row["invariant"] for row in findings.invariants if row["verdict"] == "fail" and row["severity"] == "S2"]
    return [f"Needs review, no guarantee violated: {', '.join(found)}."] if found else []
