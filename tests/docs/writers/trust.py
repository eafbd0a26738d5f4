"""Write docs/trust.md, the error rates of the judge and the campaigns, from docs/data/."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from campaigns.known_bugs.bugs import BUGS
from campaigns.statistics.intervals import clopper_pearson, none_in
from clusters.scenario.scenario import scenario_names
from history.anomalies import SEVERITY
from history.kafka_versions import DEFAULT_RELEASE
from judge.checks import invariants
from tests.acceptance import comparisons, reliability
from tests.decisions import bisection, power, screen
from tests.docs.writers import known_bugs, promises, simulations
from tests.docs.writers.prose import prose, span
from tests.mutations import absence, mutate
from tests.mutations.kinds import HARMLESS, KINDS
from tests.rows import read

Row = Mapping[str, Any]
MANY_PAIRS = 10
VIOLATED = re.compile(r"(I\d+) \(")  # the start of a reason
REPEATED = "does-a-scenario-have-its-expected-result-every-time"


def pages() -> dict[str, str]:
    """Return the page of the files in docs/data/."""
    return {"trust.md": page()}


def page() -> str:
    """Return the page's text."""
    return render(
        damaged=read(mutate.RESULTS),
        deleted=read(absence.RESULTS),
        repeated=read(reliability.RESULTS),
        compared=read(comparisons.RESULTS),
        simulated=json.loads(power.RESULTS.read_text()),
        screened=json.loads(screen.RESULTS.read_text()),
        bisected=read(bisection.RESULTS),
        bug_scenarios=_scenarios_of_bugs(),
    )


def render(
    *,
    damaged: Sequence[Row],
    deleted: Sequence[Row],
    repeated: Sequence[Row],
    compared: Sequence[Row],
    simulated: Row,
    screened: Row,
    bisected: Sequence[Row],
    bug_scenarios: frozenset[str] = frozenset(),
) -> str:
    """Return the page; each argument is the content of one file."""
    sections = [
        limits(damaged, repeated, compared, bug_scenarios),
        recordings(damaged, repeated),
        absences(deleted),
        scenarios(repeated),
        real_comparisons(compared),
        *simulations.sections(simulated, screened, bisected),
        promises.section(),
    ]
    head = [
        "# How far can you trust it",
        "",
        *prose(
            f"""How well the judge, the comparisons and the nightly screen do where the right answer is known, the
            limits of that, and whether Plimsoll survives its own faults ([known bugs](known-bugs.md) of Kafka apart).
            Intervals (exact, Clopper-Pearson) and bounds are at 95 %. Simulated tables leave out rows with the same
            answer in {simulations.ALWAYS:.1%} of cases. Written by `make docs` from `docs/data/`."""
        ),
    ]
    return "\n".join([*head, *(line for section in sections for line in ["", *section])]) + "\n"


def _scenarios_of_bugs() -> frozenset[str]:
    counted = {row["bug"] for row in read(known_bugs.RESULTS)}
    return frozenset(bug.scenario for bug in BUGS if bug.name in counted)


# --- limits ----------------------------------------------------------------------------------------


def limits(
    damaged: Sequence[Row], repeated: Sequence[Row], compared: Sequence[Row], bug_scenarios: frozenset[str]
) -> list[str]:
    """Return the section on limits."""
    versions = {row["kafka"] for row in [*damaged, *repeated]}
    counted = {row["scenario"] for row in repeated}
    uncounted = [name for name in scenario_names() if name not in counted | bug_scenarios]
    largest = max((row["pairs"] for row in compared), default=0)
    of_largest = sum(row["pairs"] == largest for row in compared)
    bullets = [
        f"""**Few versions.** Damaged and repeated runs are of Kafka {_listed(versions)}{
            "" if DEFAULT_RELEASE in versions else f", not of the default {DEFAULT_RELEASE}"
        }.""",
        """**One small host.** A run lasts minutes, its brokers share a Linux host of two cores. Violations carry over
        to other machines, durations do not.""",
        f"""**Old recordings are not judged again**, so later checks were not applied. Repeated runs:
        {_dates(row["date"] for row in repeated)}; comparisons:
        {_dates(str(row["created_at"])[:10] for row in compared)}; damaged recordings:
        {_dates(row.get("date", "") for row in damaged)}.""",
        """**Rare false alarms stay undetected.** Zero alarms in n runs allow a rate of about 3/n.""",
        f"""**Not every scenario is counted.** Without repeated runs are {_code(uncounted)}.""",
        f"""**The authors of the checks also chose the damage**, at one place for each kind and version. Other damage
        may go undetected. Without a kind of damage are {_code(untested_checks())}.""",
        """**Known bugs are reproduced by recipes written for them**, which says little about unknown ones.""",
        f"""**Few real comparisons.** The largest has {largest} pairs, and there {_are(of_largest)} of that size.
        Latency with default settings is noisier.""",
        """**Simulations use normal noise of a known size**; that of Kafka may be worse.""",
        """**A pass is about one run**, its faults and its load, not about production.""",
    ]
    return ["## Limits of the evidence", "", *(line for text in bullets for line in prose(text, bullet=True))]


def untested_checks() -> list[str]:
    """Return the invariants and anomalies without a kind of damage."""
    targets = {name for kind in KINDS for name in kind.found_by}
    every = [*SEVERITY, *sorted(invariants.INVARIANTS, key=lambda name: int(name[1:]))]
    return [name for name in every if name not in targets]


def _are(count: int) -> str:
    return "is one" if count == 1 else f"are {count}"


def _code(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "none"


def _listed(names: Iterable[str]) -> str:
    *others, last = sorted(names) or ["none"]
    return f"{', '.join(others)} and {last}" if others else last


def _dates(days: Iterable[str]) -> str:
    """Describe the first and last date; "" is a row without one."""
    told = set(days)
    every = sorted(told - {""})
    if not every:
        return "the rows hold no date"
    if "" in told:
        return f"some on {every[-1]}, most rows hold no date"
    return f"made on {every[0]}" if len(every) == 1 else f"made from {every[0]} to {every[-1]}"


# --- the judge -------------------------------------------------------------------------------------


def recordings(damaged: Sequence[Row], repeated: Sequence[Row]) -> list[str]:
    """Return the section on detected damage and false alarms."""
    undamaged = {kind.name for kind in mutate.UNDAMAGED}
    rows = [row for row in damaged if row["kind"] not in undamaged]
    legal = [row for row in damaged if row["kind"] in {kind.name for kind in HARMLESS}]
    seen, kinds = sum(row["seen"] for row in rows), len({row["kind"] for row in rows})
    return [
        "## Does the judge find damage, and how often does it give false alarms?",
        "",
        *prose(
            """`make mutate` damages recorded runs in their raw files, in one way at a place that a seed chooses, then
            seals and judges them. Found: reported under a name that fits, or, after evidence was removed, `unknown`
            with the reason that names it."""
        ),
        "",
        *prose(f"**{seen} of {len(rows)}** damaged copies, of {kinds} kinds, were found.", bullet=True),
        *prose(
            f"""**{sum(row["seen"] for row in legal)} of {len(legal)}** copies with a legal change passed without a
            report: {" ".join(kind.words for kind in HARMLESS)}""",
            bullet=True,
        ),
        *prose(_false_alarms(repeated), bullet=True),
        "",
        "| damage | to be reported as | kinds | found |",
        "|---|---|---|---|",
        *(
            f"| {group} | {report} | {len({r['kind'] for r in own})} | {sum(r['seen'] for r in own)} of {len(own)} |"
            for group, report, own in _by_group(rows)
        ),
        "",
        *prose(
            """`tests/mutations/` describes each kind. One is omitted if a recording has no place for it: before Kafka
            3.7 the high watermark may move below `min.insync.replicas`, and with ZooKeeper the phases are shorter than
            the limits of [timed](checks.md) checks."""
        ),
    ]


def _false_alarms(repeated: Sequence[Row]) -> str:
    expected = {claim.key[:2] for claim in reliability.CAMPAIGN if claim.words == reliability.CLEAN}
    clean = [row for row in repeated if (row["scenario"], row["kafka"]) in expected]
    decided = [row for row in clean if row["verdict"] != "unknown" or row["anomalies"]]
    alarms = sum(not reliability.nothing_found(dict(row)) for row in decided)
    bugs = sum(bool(row.get("known_bugs")) for row in decided)
    with_faults = sum(row["scenario"] != "steady" for row in decided)
    return f"""**{alarms} false alarms in {len(decided)} clean runs**, those [below](#{REPEATED}) that expect "pass"
        alone: at most {mutate.upper_bound(alarms, len(decided)):.1%}. {with_faults} had kills, pauses and restarts. In
        {bugs} of them the broker's log shows a known bug, which is no false alarm. {len(clean) - len(decided)} more are
        unknown."""


def absences(rows: Sequence[Row]) -> list[str]:
    """Return the section on missing evidence."""
    wrong = sum(len(row["wrong"]) for row in rows)
    return [
        "## Does the judge pass runs with missing evidence?",
        "",
        *prose(
            f"""`python -m tests.mutations.absence` deletes the evidence of a folder piece by piece: each table's rows
            by partition, replica and client, each file, each client's report and each broker's lines on a partition.
            A judgement is wrong if it passes without a required check, reports a violation that the whole folder does
            not have, or misses one that does not depend on the piece. **{wrong} of
            {sum(row["deleted"] for row in rows):,}** were wrong."""
        ),
        "",
        "| folder | verdict of the whole | deletions | pass | fail | unknown | wrong |",
        "|---|---|---|---|---|---|---|",
        *(
            f"| {row['folder']} | {row['whole']} | {row['deleted']} | {row['pass']} | {row['fail']} | {row['unknown']} "
            f"| {len(row['wrong'])} |"
            for row in rows
        ),
    ]


def _by_group(rows: Sequence[Row]) -> list[tuple[str, str, list[Row]]]:
    kinds = {kind.name: kind for kind in KINDS}
    groups: dict[tuple[str, str], list[Row]] = {
        ("records and clients' ledgers", "an anomaly"): [],
        ("replicas, their logs and the controller's history", "an invariant, or `source_disagreement`"): [],
        ("missing evidence", "`unknown`, naming what is missing"): [],
    }
    records, replicas, missing = groups.values()
    for row in rows:
        found_by = set(kinds[row["kind"]].found_by)
        of_records = found_by & SEVERITY.keys() - {"source_disagreement"}
        (records if of_records else replicas if found_by else missing).append(row)
    return [(group, report, own) for (group, report), own in groups.items() if own]


def scenarios(rows: Sequence[Row]) -> list[str]:
    """Return the section on expected results, recounted without the judge's code."""
    lines = [
        "## Does a scenario have its expected result every time?",
        "",
        *prose(
            f"""Fresh clusters in Docker. `tests/judge/recount.py`, which shares no code with the judge, counts each
            run's records again from the raw ledgers, and agrees in **{sum(row["recount_agrees"] for row in rows)} of
            {len(rows)}** runs. A known bug of the version counts as met. "Pass" alone is without anomalies."""
        ),
        "",
        "| scenario | Kafka | expected | verdicts | met | at least | lost | copies |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for claim in reliability.CAMPAIGN:
        own = [row for row in rows if (row["scenario"], row["kafka"]) == (claim.scenario, claim.kafka)]
        if not own:
            continue
        met = sum(claim.met(dict(row)) for row in own)
        expected = "pass" if claim.words == reliability.CLEAN else f"pass, {claim.words}"
        lines.append(
            f"| `{claim.scenario}` | {claim.kafka} | {expected} | {_verdicts(own)} | {met} "
            f"| {reliability.lower_bound(met, len(own)):.0%} "
            f"| {_range(row['lost'] for row in own)} | {_range(row['duplicate_copies'] for row in own)} |"
        )
    notes = Counter((row["scenario"], row["note"]) for row in rows if "note" in row)
    for (scenario, note), count in notes.items():
        lines += ["", *prose(f"The {count} failed runs of `{scenario}`: {note}")]
    return lines


def _verdicts(rows: Sequence[Row]) -> str:
    """Count verdicts; name the known bug, else the violated invariants, of those that fail."""
    counts = Counter((row["verdict"], ", ".join(row.get("known_bugs") or _violated(row))) for row in rows)
    return ", ".join(
        f"{count} {verdict}{f' ({causes})' if causes else ''}"
        for (verdict, causes), count in sorted(counts.items(), key=lambda each: each[0][0] != "pass")
    )


def _violated(row: Row) -> list[str]:
    return (
        [found[1] for reason in row["reasons"] if (found := VIOLATED.match(reason))] if row["verdict"] == "fail" else []
    )


def _range(counts: Iterable[int]) -> str:
    every = sorted(counts)
    return f"{every[0]:,}" if every[0] == every[-1] else f"{every[0]:,} to {every[-1]:,}"


# --- comparisons -----------------------------------------------------------------------------------


def real_comparisons(rows: Sequence[Row]) -> list[str]:
    """Return the section on real comparisons."""
    itself = [row["verdicts"] for row in rows if not row["injected"]]
    of_many = [row["verdicts"] for row in rows if not row["injected"] and row["pairs"] >= MANY_PAIRS]
    calibrated = [row["calibration"] for row in rows if row["calibration"]]
    injected = [row for row in rows if row["injected"]]
    lines = [
        "## What did real comparisons find?",
        "",
        *prose(
            """`python -m tests.acceptance injected` compares Kafka 3.9.1 with itself: two brokers, 150 records a
            second, and followers whose fetches last as long as a timer. With two or three pairs hardly any change can
            be called a regression, so few pairs without a false alarm prove little."""
        ),
        "",
        f"- A version against itself, called a regression: **{_alarms(itself)}**; by {MANY_PAIRS} pairs or more: "
        f"**{_alarms(of_many)}**.",
        f"- The calibrations, base against itself before each comparison: {_alarms(calibrated)}.",
        f"- Both together: {_alarms([*itself, *calibrated])}.",
        "",
        "Injected slowdowns that were called a regression, by a metric chosen before the first run:",
        "",
        "| injected | pairs | found | rate | change in each comparison |",
        "|---|---|---|---|---|",
    ]
    for size, pairs in sorted({(row["injected"]["size"], row["pairs"]) for row in injected}):
        own = [row for row in injected if (row["injected"]["size"], row["pairs"]) == (size, pairs)]
        found = sum(row["injected"]["found"] for row in own)
        low, high = clopper_pearson(found, len(own))
        seen = "; ".join(_change(effect) for row in own for effect in row["seen"])
        lines.append(f"| {size:.0%} | {pairs} | {found} of {len(own)} | {span(low, high)} | {seen} |")
    return lines


def _alarms(verdicts: Sequence[Sequence[str]]) -> str:
    alarms, tried = sum("regression" in own for own in verdicts), len(verdicts)
    if not tried:
        return "not run yet"
    if not alarms:
        return f"0 of {tried}, at most {none_in(tried):.0%}"
    low, high = clopper_pearson(alarms, tried)
    return f"{alarms} of {tried}, {span(low, high)}"


def _change(effect: Row) -> str:
    if effect["mean"] is None:
        return "not known"
    interval = "" if effect["low"] is None else f" ({effect['low']:+.1f} to {effect['high']:+.1f}%)"
    return f"{effect['mean']:+.1f}%{interval}"
