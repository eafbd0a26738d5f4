"""Write the sections of docs/trust.md on simulated comparisons, nightly histories and bisections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from campaigns.statistics import changes, sequential
from tests.decisions import power, screen
from tests.docs.writers.prose import prose, share, span

Row = Mapping[str, Any]

# --- comparisons -------------------------------------------------------------------------------------


def sections(compared: Row, screened: Row, bisected: Sequence[Row]) -> list[list[str]]:
    """Return the sections on simulations; each argument is the content of one file."""
    return [
        [*comparisons(compared), *host_drifts(compared)],
        [*false_alarms(screened), *detections(screened)],
        bisections(bisected),
    ]


def comparisons(found: Row) -> list[str]:
    """Return the table of simulated comparisons on a steady host."""
    steady = [row for row in found["rows"] if row["host"] == "steady"]
    simulations = found["rows"][0]["simulations"]
    return [
        "## What can ten pairs find? (simulated)",
        "",
        *prose(
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
        *(_comparison(row, simulations) for row in steady),
    ]


def _comparison(row: Row, simulations: int) -> str:
    computed = "–" if row["computed"] is None else f"{100 * row['computed']:.1f}%"
    others = " | ".join(f"{row[word] / simulations:.1%}" for word in ("improvement", "equivalent", "inconclusive"))
    slowdown = f"{row['slowdown']:.0%}" if row["slowdown"] else "none"
    return f"| {row['noise']:.0%} | {slowdown} | {share(row['regression'], simulations)} | {computed} | {others} |"


def host_drifts(found: Row) -> list[str]:
    """Return the lines on hosts that are not steady, and on several metrics."""
    return [
        "",
        *prose(
            f"""On a host that slows down by {power.SLOWER:.0%} from the first run to the last, or that drifts randomly
            by {power.STEP:.0%} from run to run, the rate of regressions differs from these by at most
            {100 * _farthest(found["rows"]):.1f} percentage points. The ABBA order is the reason. False alarms
            without any difference, at a noise of {power.NOISES[1]:.0%}:"""
        ),
        "",
        "| host | all runs of base first | ABBA order |",
        "|---|---|---|",
        *(
            f"| {r['host']} | {share(r['blocks'], r['simulations'])} | {share(r['abba'], r['simulations'])} |"
            for r in found["blocks"]
        ),
        "",
        *prose(
            f"""With {power.FAMILY} primary metrics and no difference, some metric is called a regression or an
            improvement in {" and in ".join(_family(row) for row in found["families"])}."""
        ),
    ]


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
    return f"{share(row['alarms'], row['simulations'])} of comparisons {margin}"


# --- the nightly screen ----------------------------------------------------------------------------


def false_alarms(found: Row) -> list[str]:
    """Return the table of simulated nightly histories without a change."""
    first = found["false_alarms"][0]
    return [
        "## What does the nightly screen find? (simulated)",
        "",
        *prose(
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
        *prose(
            f"""Without a change: {first["histories"]} histories of each kind, with a noise of a run of
            {first["noise"]:.0%}. The table counts histories with an alarm on any nightly run, in brackets the share of
            nightly runs."""
        ),
        "",
        "| noise | the screen alone | without changes that the control series shares | confirmed: a false alarm |",
        "|---|---|---|---|",
        *(
            f"| {screen.KINDS[row['kind']]} | {_alarmed(row, 'screened')} | {_alarmed(row, 'candidates')} "
            f"| {_alarmed(row, 'confirmed')} |"
            for row in found["false_alarms"]
        ),
        "",
        *prose(
            """If a series drifts by itself while control series and release do not, a rerun at the same time cannot
            distinguish that from a change of the version. Those alarms remain."""
        ),
    ]


def detections(found: Row) -> list[str]:
    """Return the table of injected slowdowns in simulated nightly histories."""
    lines = [
        "",
        *prose(
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
    return f"{row[name]['histories']} of {row['histories']}: {span(low, high, 1)} ({share:.2%})"


def _rate(rate: Row) -> str:
    if not rate["of"]:
        return "none"
    low, high = rate["interval"]
    return f"{rate['shown'] / rate['of']:.0%} ({span(low, high)})"


# --- bisections --------------------------------------------------------------------------------------


def bisections(rows: Sequence[Row]) -> list[str]:
    """Return the section on simulated bisections."""
    shares, changed = ([row for row in rows if (row["sd"] is None) == of_runs] for of_runs in (True, False))
    lines = [
        "## How often is a bisection's answer about a build wrong? (simulated)",
        "",
        *prose(
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
        *prose(
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
        answered.append(f"{row[word] / of:.2%} ({span(low, high, 2)})")
    unsure = (of - row["bad"] - row["good"]) / of
    return " | ".join([*answered, f"{unsure:.1%}", f"{row['mean_runs']:g}", f"{of:,}"])
