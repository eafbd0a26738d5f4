"""Write docs/trust.md, the error rates of the judge and the campaigns, from docs/data/: ``python -m bench.trust``."""

from __future__ import annotations

import json
import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench import absence, bisection, comparisons, mutate, power, promises, reliability, screen
from bench.mutations.kinds import HARMLESS, KINDS
from campaigns.known_bugs.bugs import BUGS
from campaigns.statistics import changes, sequential
from campaigns.statistics.intervals import clopper_pearson, none_in
from clusters.scenario.scenario import scenario_names
from history.anomalies import SEVERITY
from history.kafka_versions import DEFAULT_RELEASE
from judge.checks import invariants

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "trust.md"
KNOWN_BUGS = ROOT / "docs" / "known-bugs.json"
Row = Mapping[str, Any]
MANY_PAIRS = 10


def page() -> str:
    """Return the page of the files in docs/data/."""
    return render(
        damaged=_read(mutate.RESULTS),
        deleted=_read(absence.RESULTS),
        repeated=_read(reliability.RESULTS),
        compared=_read(comparisons.RESULTS),
        simulated=_read(power.RESULTS),
        screened=_read(screen.RESULTS),
        bisected=_read(bisection.RESULTS),
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
        simulated_comparisons(simulated),
        nightly_screen(screened),
        bisections(bisected),
        promises.section(),
    ]
    head = [
        "# How far can you trust it",
        "",
        *_prose(
            """How well the judge, the comparisons and the nightly screen do where the right answer is known, what that
            does not show, and whether Plimsoll survives its own faults; for bugs that Kafka really had see
            [known bugs](known-bugs.md). Intervals
            (exact, Clopper-Pearson) and bounds are at 95 %. Written by `python -m bench.trust` from `docs/data/`."""
        ),
    ]
    return "\n".join([*head, *(line for section in sections for line in ["", *section])]) + "\n"


def _prose(text: str, *, bullet: bool = False) -> list[str]:
    start, more = ("- ", "  ") if bullet else ("", "")
    wide = textwrap.TextWrapper(118, initial_indent=start, subsequent_indent=more, break_on_hyphens=False)
    return wide.wrap(" ".join(text.split()))


def _read(path: Path) -> Any:
    return json.loads(path.read_text())


def _scenarios_of_bugs() -> frozenset[str]:
    counted = {row["bug"] for row in _read(KNOWN_BUGS)}
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
        f"""**Few versions.** Damaged and repeated runs are of Kafka {_listed(versions)} alone.
        {"" if DEFAULT_RELEASE in versions else f"The default, {DEFAULT_RELEASE}, is not among them."}""",
        """**One small host.** All brokers of a run share one Linux host (two cores here), and a run lasts minutes.
        Violations carry over to other machines, durations do not.""",
        f"""**Old recordings are not judged again.** A row has the verdict of its day, without the judge's version.
        Repeated runs: {_dates(row["date"] for row in repeated)}; comparisons:
        {_dates(str(row["created_at"])[:10] for row in compared)}; damaged recordings:
        {_dates(row.get("date", "") for row in damaged)}. Later checks were not applied to them.""",
        """**Rare false alarms stay undetected.** Zero alarms in n runs allow a rate of about 3/n.""",
        f"""**Not every scenario is counted.** Without repeated runs are {_code(uncounted)}.""",
        f"""**The authors of the checks also chose the damage**, at one place for each kind and version. It shows that a
        check works, not that other damage is detected. Without a kind of damage are {_code(untested_checks())}.""",
        """**Known bugs are reproduced by recipes written for them.** Finding them says little about unknown ones.""",
        f"""**Few real comparisons.** The largest has {largest} pairs, and there {_are(of_largest)} of that size. Their
        latency is calmer than that of a cluster with default settings.""",
        """**Simulations use normal noise of a known size.** They do not measure Kafka; real noise may be worse.""",
        """**A pass is about one run**, its faults and its load. It is no probability for production.""",
    ]
    return ["## Limits of the evidence", "", *(line for text in bullets for line in _prose(text, bullet=True))]


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
    clean = [row for row in repeated if row["scenario"] in {*mutate.SCENARIOS, "steady"}]
    decided = [row for row in clean if row["verdict"] != "unknown" or row["anomalies"]]
    alarms = sum(not reliability.nothing_found(dict(row)) for row in decided)
    bugs = sum(bool(row.get("known_bugs")) for row in clean)
    with_faults = sum(row["scenario"] in mutate.SCENARIOS for row in decided)
    seen, kinds = sum(row["seen"] for row in rows), len({row["kind"] for row in rows})
    return [
        "## Does the judge find damage, and how often does it give false alarms?",
        "",
        *_prose(
            """`make mutate` damages recorded runs in their raw files, one way at a time, at places that a seed chooses,
            then seals and judges them like any other. Found means: reported under a name that fits the damage; or,
            after evidence was removed, `unknown` with the reason that names it."""
        ),
        "",
        *_prose(f"**{seen} of {len(rows)}** damaged copies, of {kinds} kinds, were found.", bullet=True),
        *_prose(
            f"""**{sum(row["seen"] for row in legal)} of {len(legal)}** copies with a legal change passed without a
            report: {" ".join(kind.words for kind in HARMLESS)}""",
            bullet=True,
        ),
        *_prose(
            f"""**{alarms} false alarms in {len(decided)} clean runs**: at most
            {mutate.upper_bound(alarms, len(decided)):.1%}; {len(clean) - len(decided)} more are unknown.
            {with_faults} of these runs have leader kills, pauses and restarts.
            In {bugs} an invariant was violated by a bug of that Kafka version that
            the broker's own log shows: those are findings, not false alarms.""",
            bullet=True,
        ),
        "",
        "| damage | to be reported as | kinds | found |",
        "|---|---|---|---|",
        *(
            f"| {group} | {report} | {len({r['kind'] for r in own})} | {sum(r['seen'] for r in own)} of {len(own)} |"
            for group, report, own in _by_group(rows)
        ),
        "",
        *_prose(
            """`bench/mutations/kinds.py` describes each kind. A kind is omitted if a recording has no place for it:
            before Kafka 3.7 the high watermark may move below `min.insync.replicas`, and with ZooKeeper the
            timed limits are longer than the phases."""
        ),
    ]


def absences(rows: Sequence[Row]) -> list[str]:
    """Return the section on missing evidence."""
    wrong = sum(len(row["wrong"]) for row in rows)
    return [
        "## Does the judge pass runs with missing evidence?",
        "",
        *_prose(
            f"""`python -m bench.absence` deletes each piece of evidence of a folder, one at a time: each table's rows
            by partition, replica and client, each file, each client's report and each broker's lines on a partition.
            A judgement is wrong if it is a pass although a required check was not made, if it reports a violation that
            the whole folder does not have, or if it misses a violation that does not depend on the piece.
            **{wrong} of {sum(row["deleted"] for row in rows):,}** judgements were wrong."""
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
        *_prose(
            """Fresh clusters in Docker; each run's records are counted again from the raw ledgers by
            `bench/recount.py`, which shares no code with the judge. A known bug of the version counts as expected, and
            is named."""
        ),
        "",
        "| scenario | Kafka | expected | shown | at least | recount agrees | lost | copies |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for claim in reliability.CAMPAIGN:
        own = [row for row in rows if (row["scenario"], row["kafka"]) == (claim.scenario, claim.kafka)]
        if not own:
            continue
        shown = sum(claim.shown(dict(row)) for row in own)
        agreeing = sum(row["recount_agrees"] for row in own)
        bugs = Counter(issue for row in own for issue in row.get("known_bugs", []))
        named = "".join(f"; {issue} in {count}" for issue, count in bugs.items())
        lines.append(
            f"| `{claim.scenario}` | {claim.kafka} | {claim.words} | {shown} of {len(own)}{named} "
            f"| {reliability.lower_bound(shown, len(own)):.0%} | {agreeing} of {len(own)} "
            f"| {_range(row['lost'] for row in own)} | {_range(row['duplicate_copies'] for row in own)} |"
        )
    return lines


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
        *_prose(
            """`python -m bench.injected` runs comparisons with a known effect: Kafka 3.9.1 on both sides, two brokers,
            150 records a second, and followers whose fetches last as long as a timer. Noise makes real comparisons less
            sensitive. With two or three pairs hardly any change can be called a regression, so that few pairs without a
            false alarm prove little."""
        ),
        "",
        f"- A version against itself, called a regression: **{_alarms(itself)}**; by {MANY_PAIRS} pairs or more: "
        f"**{_alarms(of_many)}**.",
        f"- The calibrations, base against itself before each comparison: {_alarms(calibrated)}.",
        f"- Both together: {_alarms([*itself, *calibrated])}.",
        "",
        "Injected slowdowns; the metric was chosen before the first run; found means called a regression:",
        "",
        "| injected | pairs | found | rate | change in each comparison |",
        "|---|---|---|---|---|",
    ]
    for size, pairs in sorted({(row["injected"]["size"], row["pairs"]) for row in injected}):
        own = [row for row in injected if (row["injected"]["size"], row["pairs"]) == (size, pairs)]
        found = sum(row["injected"]["found"] for row in own)
        low, high = clopper_pearson(found, len(own))
        seen = "; ".join(_change(effect) for row in own for effect in row["seen"])
        lines.append(f"| {size:.0%} | {pairs} | {found} of {len(own)} | {_span(low, high)} | {seen} |")
    return lines


def _alarms(verdicts: Sequence[Sequence[str]]) -> str:
    alarms, tried = sum("regression" in own for own in verdicts), len(verdicts)
    if not tried:
        return "not run yet"
    if not alarms:
        return f"0 of {tried}, at most {none_in(tried):.0%}"
    low, high = clopper_pearson(alarms, tried)
    return f"{alarms} of {tried}, {_span(low, high)}"


def _span(low: float, high: float, digits: int = 0) -> str:
    return f"{100 * low:.{digits}f}–{high:.{digits}%}"


def _change(effect: Row) -> str:
    if effect["mean"] is None:
        return "not known"
    interval = "" if effect["low"] is None else f" ({effect['low']:+.1f} to {effect['high']:+.1f}%)"
    return f"{effect['mean']:+.1f}%{interval}"


def simulated_comparisons(found: Row) -> list[str]:
    """Return the section on simulated comparisons."""
    steady = [row for row in found["rows"] if row["host"] == "steady"]
    simulations = found["rows"][0]["simulations"]
    lines = [
        "## What can ten pairs find? (simulated)",
        "",
        *_prose(
            f"""**These figures are simulated.** Runs are drawn with known noise and judged by the functions that judge
            comparisons (`campaigns/statistics/effects.py`): {simulations:,} comparisons a row, {power.PAIRS} ABBA
            pairs, one primary metric with a margin of {power.MARGIN:.0%}. Noise is the standard deviation of the
            logarithm of one run. Without a slowdown, a regression is a false alarm. A slowdown as large as the margin
            is called a regression half of the time at best, as the estimate must lie beyond it. "Computed" is the
            rate without simulation."""
        ),
        "",
        "| noise of a run | slowdown | called a regression | computed | improvement | equivalent | inconclusive |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in steady:
        computed = "–" if row["computed"] is None else f"{100 * row['computed']:.1f}%"
        others = " | ".join(f"{row[word] / simulations:.1%}" for word in ("improvement", "equivalent", "inconclusive"))
        slowdown = f"{row['slowdown']:.0%}" if row["slowdown"] else "none"
        lines.append(
            f"| {row['noise']:.0%} | {slowdown} | {_share(row['regression'], simulations)} | {computed} | {others} |"
        )
    lines += [
        "",
        *_prose(
            f"""On a host that slows down by {power.SLOWER:.0%} from the first run to the last, or that drifts randomly
            by {power.STEP:.0%} from run to run, the rate of regressions differs from these by at most
            {100 * _farthest(found["rows"]):.1f} percentage points. The ABBA order is the reason. False alarms
            without any difference, at a noise of {power.NOISES[1]:.0%}:"""
        ),
        "",
        "| host | all runs of base first | ABBA order |",
        "|---|---|---|",
        *(
            f"| {r['host']} | {_share(r['blocks'], r['simulations'])} | {_share(r['abba'], r['simulations'])} |"
            for r in found["blocks"]
        ),
        "",
        *_prose(
            f"""With {power.FAMILY} primary metrics and no difference, some metric is called a regression or an
            improvement in {" and in ".join(_family(row) for row in found["families"])}."""
        ),
    ]
    return lines


def _farthest(rows: Sequence[Row]) -> float:
    steady = {(r["noise"], r["slowdown"]): r["regression"] / r["simulations"] for r in rows if r["host"] == "steady"}
    away = (
        abs(row["regression"] / row["simulations"] - steady[row["noise"], row["slowdown"]])
        for row in rows
        if (row["noise"], row["slowdown"]) in steady
    )
    return max(away, default=0.0)


def _family(row: Row) -> str:
    margin = f"with a margin of {row['margin']:.0%}" if row["margin"] >= 0.01 else "without a margin"
    return f"{_share(row['alarms'], row['simulations'])} of comparisons {margin}"


def _share(events: int, of: int) -> str:
    low, high = clopper_pearson(events, of)
    return f"{100 * events / of:.1f}% ({_span(low, high, 1)})"


# --- the nightly screen ----------------------------------------------------------------------------


def nightly_screen(found: Row) -> list[str]:
    """Return the section on simulated nightly histories."""
    first = found["false_alarms"][0]
    lines = [
        "## What does the nightly screen find? (simulated)",
        "",
        *_prose(
            f"""A history has {found["nightly_runs"]} nightly runs of {found["runs"]} repetitions, of which
            {found["nightly_runs"] - changes.MIN_NIGHTLY_RUNS} have a basis and are screened. It also has a control
            series of {screen.CONTROL_RUNS} runs and a pinned release; a nightly run with a candidate regression reruns
            {found["pairs"]} pairs. Window {found["window"]}, margin {found["margin"]:.0%}, alpha {found["alpha"]}. Not
            simulated are the cool-down after a refuted candidate, confirmations that stay, {
                "and pinned nightly runs"
                if found.get("worst_change")
                else "pinned nightly runs, and the comparison of the newest level with all earlier ones"
            }."""
        ),
        "",
        *_prose(
            f"""Without a change: {first["histories"]} histories of each kind, with a noise of a run of
            {first["noise"]:.0%}. The table counts histories with an alarm on any nightly run, in brackets the share of
            nightly runs."""
        ),
        "",
        "| noise | the screen alone | without changes that the control series shares | confirmed: a false alarm |",
        "|---|---|---|---|",
    ]
    for row in found["false_alarms"]:
        cells = [_alarmed(row, name) for name in ("screened", "candidates", "confirmed")]
        lines.append(f"| {screen.KINDS[row['kind']]} | {' | '.join(cells)} |")
    lines += [
        "",
        *_prose(
            """If a series drifts by itself while control series and release do not, a rerun at the same time cannot
            distinguish that from a change of the version. Those alarms remain."""
        ),
        "",
        *_prose(
            """An injected slowdown, normal noise. Right place: the share of the seventh nightly run's candidates whose
            change is placed within one of the injected one. Small changes are confirmed only if their estimate is
            too large."""
        ),
        "",
        "| noise | injected | candidate, run 1 | confirmed, run 1 | by run 3 | by run 7 | right place | size shown |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in found["detections"]:
        size = "none" if row["size"] is None else "{1:+.1f}% ({0:+.1f} to {2:+.1f})".format(*row["size"])
        shown = " | ".join(_rate(row[name]) for name in screen.RATES)
        lines.append(f"| {row['noise']:.0%} | {row['percent']:+d}% | {shown} | {size} |")
    return lines


def _alarmed(row: Row, name: str) -> str:
    low, high = row[name]["interval"]
    share = row[name]["nightly_runs"] / row["nightly_runs"]
    return f"{row[name]['histories']} of {row['histories']}: {_span(low, high, 1)} ({share:.2%})"


def _rate(rate: Row) -> str:
    if not rate["of"]:
        return "none"
    low, high = rate["interval"]
    return f"{rate['shown'] / rate['of']:.0%} ({_span(low, high)})"


# --- bisections --------------------------------------------------------------------------------------


def bisections(rows: Sequence[Row]) -> list[str]:
    """Return the section on simulated bisections."""
    shares, changed = ([row for row in rows if (row["sd"] is None) == of_runs] for of_runs in (True, False))
    lines = [
        "## How often is a bisection's answer about a build wrong? (simulated)",
        "",
        *_prose(
            f"""[A bisection](bisect.md) runs a build until it is called bad or good, at most
            {rows[0]["limit"]} times. You configure the least share of runs, or the least change of a metric, that a bad
            build shows. The builds below have a share or a change that the search does not know. Each answer may be
            wrong in at most 1 % of cases: bad for a build with the violation in up to
            {100 * sequential.FALSE_ALARM:.0f} % of runs, good for one that shows it in the least share or more. Between
            the two, neither answer is wrong and there is no bound."""
        ),
        "",
        "| least share | true share | called bad | called good | not sure | mean runs | simulations |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [f"| {row['least']:.0%} | {row['true']:.0%} | {_answers(row)} |" for row in shares]
    lines += [
        "",
        *_prose(
            """The same for a metric, in pairs with the good build. The log-ratios are normal; the search does not know
            their standard deviation either. With a least change of 10 %:"""
        ),
        "",
        "| noise of a pair | true change | called bad | called good | not sure | mean pairs | simulations |",
        "|---|---|---|---|---|---|---|",
    ]
    return lines + [f"| {row['sd']:.0%} | {row['true']:+.0%} | {_answers(row)} |" for row in changed]


def _answers(row: Row) -> str:
    of = row["simulations"]
    answered = []
    for word in ("bad", "good"):
        low, high = row[f"{word}_interval"]
        answered.append(f"{row[word] / of:.2%} ({_span(low, high, 2)})")
    unsure = (of - row["bad"] - row["good"]) / of
    return " | ".join([*answered, f"{unsure:.1%}", f"{row['mean_runs']:g}", f"{of:,}"])


if __name__ == "__main__":
    PAGE.write_text(page())
