"""Write the sections of docs/trust.md on simulated comparisons, nightly histories and bisections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from campaigns.statistics import changes, sequential
from tests.decisions import power, screen
from tests.docs.writers.prose import prose, share, span

Row = Mapping[str, Any]
ALWAYS = 0.999  # tables leave out rows with an answer as frequent as this

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
    steady = [row for row in found["rows"] if row["host"] == "steady" and not _certain(row, "regression")]
    simulations = found["rows"][0]["simulations"]
    return [
        "## What can ten pairs find? (simulated)",
        "",
        *prose(
            f"""**These figures are simulated.** The functions that judge comparisons
            (`campaigns/statistics/effects.py`) judge runs drawn with known noise, the standard deviation of a run's
            logarithm: {simulations:,} comparisons a row, {power.PAIRS} ABBA pairs, one primary metric with a margin
            of {power.MARGIN:.0%}. Without a slowdown, a regression is a false alarm. A slowdown as large as the
            margin is called a regression half of the time at best. "Computed" is the rate without simulation."""
        ),
        "",
        "| noise of a run | slowdown | called a regression | computed | improvement | equivalent | inconclusive |",
        "|---|---|---|---|---|---|---|",
        *(_comparison(row, simulations) for row in steady),
    ]


def _certain(row: Row, answer: str) -> bool:
    return bool(row[answer] >= ALWAYS * row["simulations"])


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
            f"""If the host slows down by {power.SLOWER:.0%} from the first run to the last, or drifts randomly by
            {power.STEP:.0%} from run to run, these rates of regressions differ by at most
            {100 * _farthest(found["rows"]):.1f} percentage points, thanks to the ABBA order. False alarms without any
            difference, at a noise of {power.NOISES[1]:.0%}:"""
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
            {found["nightly_runs"] - changes.MIN_NIGHTLY_RUNS} have a basis and are screened, a control series of
            {screen.CONTROL_RUNS} runs and a pinned release; a candidate regression reruns {found["pairs"]} pairs.
            Window {found["window"]}, margin {found["margin"]:.0%}, alpha {found["alpha"]}. Not simulated are the
            cool-down after a refuted candidate, confirmations that stay, {
                "and pinned nightly runs"
                if found.get("worst_change")
                else "pinned nightly runs, and the comparison of the newest level with all earlier ones"
            }."""
        ),
        "",
        *prose(
            f"""Histories without a change, {first["histories"]} of each kind, with a noise of a run of
            {first["noise"]:.0%}, in which any nightly run had an alarm; in brackets the share of nightly runs."""
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
            """If a series drifts while control series and release do not, a rerun cannot distinguish that from a
            change of the version: those alarms remain."""
        ),
    ]


def detections(found: Row) -> list[str]:
    """Return the table of injected slowdowns in simulated nightly histories."""
    lines = [
        "",
        *prose(
            """An injected slowdown, normal noise. Right place: the share of the seventh nightly run's candidates
            placed within one run of the injection. Small changes are confirmed only if their estimate is too large."""
        ),
        "",
        "| noise | injected | candidate, run 1 | confirmed, run 1 | by run 3 | by run 7 | right place | size shown |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in (row for row in found["detections"] if not _always_found(row)):
        size = "none" if row["size"] is None else "{1:+.1f}% ({0:+.1f} to {2:+.1f})".format(*row["size"])
        shown = " | ".join(_rate(row[name]) for name in screen.RATES)
        lines.append(f"| {row['noise']:.0%} | {row['percent']:+d}% | {shown} | {size} |")
    return lines


def _always_found(row: Row) -> bool:
    rate = row["confirmed_in_first_run"]
    return bool(rate["shown"] >= ALWAYS * rate["of"])


def _alarmed(row: Row, name: str) -> str:
    low, high = row[name]["interval"]
    share = row[name]["nightly_runs"] / row["nightly_runs"]
    return f"{row[name]['histories']}: {span(low, high, 1)} ({share:.2%})"


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
            f"""[A bisection](bisect.md) runs a build until it is called bad or good, at most {rows[0]["limit"]}
            times. You set the least share of runs, or the least change of a metric, that a bad build shows. Each
            answer may be wrong in at most 1 % of cases: bad for a build with the violation in up to
            {100 * sequential.FALSE_ALARM:.0f} % of runs, good for one with the least share or more. Between the two
            neither is wrong. {shares[0]["simulations"]:,} simulations a row:"""
        ),
        "",
        "| least share | true share | called bad | called good | not sure | mean runs |",
        "|---|---|---|---|---|---|",
    ]
    lines += [f"| {row['least']:.0%} | {row['true']:.0%} | {_answers(row)} |" for row in shares if _is_open(row)]
    lines += [
        "",
        *prose(
            f"""A metric in pairs with the good build, with a least change of 10 %; the log-ratios are normal, with a
            standard deviation that the search does not know. {changed[0]["simulations"]:,} simulations a row:"""
        ),
        "",
        "| noise of a pair | true change | called bad | called good | not sure | mean pairs |",
        "|---|---|---|---|---|---|",
    ]
    return lines + [f"| {row['sd']:.0%} | {row['true']:+.0%} | {_answers(row)} |" for row in changed if _is_open(row)]


def _is_open(row: Row) -> bool:
    """Return whether a row is about a sound build, or one whose answer is not certain."""
    return row["true"] == 0 or not (_certain(row, "bad") or _certain(row, "good"))


def _answers(row: Row) -> str:
    of = row["simulations"]
    answered = []
    for word in ("bad", "good"):
        low, high = row[f"{word}_interval"]
        answered.append(f"{row[word] / of:.2%} ({span(low, high, 2)})")
    unsure = (of - row["bad"] - row["good"]) / of
    return " | ".join([*answered, f"{unsure:.1%}", f"{row['mean_runs']:g}"])
