"""The page of a comparison: advice, its certainty, and the evidence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from statistics import median
from typing import Any

from history.results import compare as results
from reports.cells import DASH, Cell, Column, change, detectable, linked, minute, p_value, plain, table
from reports.compare_plots import forest, latency, pairs_figure
from reports.compare_texts import BY_DESIGN, MEANS, limits, view_name, view_note
from reports.page import Block, Listing, Page, Plot, Section, Words
from reports.page import render as render_page

Links = Mapping[str, str]
ARMS: tuple[results.Arm, results.Arm] = ("base", "head")
VERDICT_MARKS = {"regression": "fail", "improvement": "pass", "equivalent": "pass", "inconclusive": "unknown"}
PERCENTILES = {"latency_p50_ms": "p50", "latency_p99_ms": "p99", "latency_p999_ms": "p99.9"}


def render(result: results.CompareResult, links: Links) -> str:
    """Render the page as HTML."""
    of_pairs = [
        _section("effects", "Effects", "", _effects(result)),
        _section("pairs", "Pair by pair", "Pairs", _pairs(result, links)),
        _section("phases", "Latency by phase", "Latency", _phases(result)),
        _section("correctness", "Correctness", "", _correctness(result, links)),
        _section("behaviour", "Behaviour that differs", "Behaviour", _behaviour(result, links)),
    ]
    primary = sum(effect.role == "primary" for effect in result.effects)
    sections = [
        _section("summary", "Summary", "", _summary(result)),
        *(of_pairs if result.pairs else []),
        _section("noise", "Noise of this host", "Noise", _noise(result, links)),
        *([_section("why", "What may explain a difference", "Explanations", _why(result))] if result.pairs else []),
        _section("limits", "Limits", "", [Words(limits(primary, result.view, on_clusters=result.on_clusters))]),
        _section("runs", "Runs", "", _runs(result, links)),
    ]
    return render_page(
        Page(
            title=f"{result.sides.head.name} against {result.sides.base.name}",
            kind="one comparison",
            above=_question(result),
            sentence=result.sentence,
            state=result.state,
            state_word=result.verdict,
            meaning=MEANS[result.verdict],
            facts=_facts(result),
            sections=sections,
        )
    )


def _section(name: str, title: str, short: str, blocks: Iterable[Block]) -> Section:
    return Section(name, title, list(blocks), short)


# --- the head ----------------------------------------------------------------------------------------


def _question(result: results.CompareResult) -> str:
    if not result.pairs:
        base = result.sides.base.name
        return f"How many pairs does a comparison need here? {result.aa_pairs} pairs of {base} with itself."
    scenarios = ", ".join(f"`{name}`" for name in result.scenarios)
    return (
        f"Is {result.sides.head.name} as good as {result.sides.base.name} in {scenarios}? "
        f"{result.pairs} pairs of runs, {view_name(result.view, on_clusters=result.on_clusters)}."
    )


def _facts(result: results.CompareResult) -> list[tuple[str, str]]:
    runs, sides = result.runs, (result.sides.base, result.sides.head)
    each = sorted(run.started_at for run in runs.each)
    facts = [
        ("Base", _side(result.sides.base)),
        ("Head", _side(result.sides.head)),
        ("View", view_name(result.view, on_clusters=result.on_clusters)),
        ("Pairs", f"{result.pairs}, after {result.aa_pairs} of base with itself"),
        ("Rate", _rate(result.knee)),
        ("Runs", f"{runs.recorded} of {runs.planned}"),
        ("JVM flags", ", ".join(sorted({flag for side in sides for flag in side.jvm}))),
        ("Host", ", ".join(host[:12] for host in result.hosts)),
        ("Seed", str(result.seed)),
        ("Recorded", f"{minute(each[0])} to {minute(each[-1])} UTC" if each else ""),
        ("Comparison", result.campaign_id),
    ]
    return [(name, value) for name, value in facts if value]


def _rate(knee: results.Knee | None) -> str:
    if knee is None or knee.rate_per_s is None:
        return ""
    each = ", ".join(
        f"{side.arm} {'at least ' * side.at_least}{side.per_s:,.0f}/s" for side in knee.sides if side.per_s
    )
    return f"{knee.rate_per_s:,} records/s, {100 * knee.share:g} % of what is sustained here: {each}"


def _side(side: results.Side) -> str:
    jars = ", ".join(digest[:12] for digest in side.jars)
    version = f"cluster {side.cluster}" if side.cluster else ", ".join(side.versions) or side.kafka
    parts = [version, side.mode, f"jars {jars}" if jars else ""]
    return ", ".join(part for part in parts if part)


# --- numbers -----------------------------------------------------------------------------------------


def _number(value: float | None, unit: str = "") -> str:
    if value is None:
        return DASH
    shown = f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{shown} {unit}".rstrip()


def _metric(effect: results.Effect | results.NotAsked, *, several: bool) -> str:
    phase = f", {effect.phase}" if effect.phase else ""
    return f"{effect.words}{phase}" + (f" ({effect.scenario})" if several else "")


def _amount(percent: float | None) -> str:
    return DASH if percent is None else change(percent).removeprefix("+")


def _change(value: float | None) -> str:
    return DASH if value is None else change(value)


def _interval(effect: results.Effect) -> str:
    return DASH if effect.low is None or effect.high is None else f"{change(effect.low)} to {change(effect.high)}"


def _verdict(word: str | None) -> Cell:
    return Cell(word or DASH, VERDICT_MARKS.get(word or "", "quiet"))


def _p(p: float | None) -> str:
    return DASH if p is None else p_value(p).removeprefix("p ").removeprefix("= ")


def _named(result: results.CompareResult) -> Column[results.Effect]:
    return Column("metric", lambda effect: _metric(effect, several=result.several), "text")


# --- summary and effects -----------------------------------------------------------------------------


def _summary(result: results.CompareResult) -> Iterator[Block]:
    yield Words(result.further)
    if result.refusals:
        yield Words(result.refusals, "lead")
    yield Words(view_note(result.view, on_clusters=result.on_clusters), "note")
    if len({result.sides.base.mode, result.sides.head.mode} - {""}) > 1:
        yield Words("One side runs with ZooKeeper and the other with KRaft: this compares two ways to run a cluster.")


def _effects(result: results.CompareResult) -> Iterator[Block]:
    compared = [effect for effect in result.effects if effect.role != "why" and effect.pairs]
    for role, title in (("primary", "Primary metrics, chosen beforehand."), ("secondary", "All other judged metrics.")):
        own = [effect for effect in compared if effect.role == role]
        if not own:
            continue
        labels = [_metric(effect, several=result.several) for effect in own]
        yield Plot(
            f"effects-{role}",
            forest(own, labels),
            f"Change of each {role} metric from base to head, with its 95 % interval and its margin",
            f"{title} Mark and line: the mean change over all pairs and its 95 % interval; grey: the margin within "
            "which a change does not matter. Right of 0, head has more: worse for a time, better for a rate; the mark "
            "shows which. A line that leaves the figure continues in the table; a mark without a line rests on times "
            "that had not ended.",
            table(f"{title} Base and head: medians.", [_named(result), *_EFFECT], own),
        )
    if result.not_asked:
        columns: list[Column[results.NotAsked]] = [
            Column("metric", lambda own: _metric(own, several=result.several), "text"),
            Column(
                "records a run",
                lambda own: own.offered,
                "number",
                "That the scenario offers, in the run with the most.",
            ),
            Column("needed", lambda own: own.least, "number", "So that ten are expected beyond the percentile."),
        ]
        yield Listing("not-asked", table("Not asked: too little load.", columns, result.not_asked))
    elif not compared:
        yield Words("Nothing was compared yet.", "absent")


def _times(effect: results.Effect) -> str:
    if effect.survival is None:
        return ""
    up_to = f"mean up to {_number(effect.survival.limit, effect.unit)}"
    parts = []
    for arm, own in (("base", effect.survival.base), ("head", effect.survival.head)):
        middle = "not reached" if own.median is None else _number(own.median, effect.unit)
        mean = _number(own.restricted_mean, effect.unit)
        parts.append(f"{arm}: {own.ended} of {own.runs} ended, median {middle}, {up_to} is {mean}")
    return "; ".join([*parts, *filter(None, [effect.why])])


_EFFECT: list[Column[results.Effect]] = [
    Column("verdict", lambda effect: _verdict(effect.verdict), "name"),
    Column("change", lambda effect: _change(effect.mean), "number"),
    Column("interval from", lambda effect: _change(effect.low), "number"),
    Column("to", lambda effect: _change(effect.high), "number"),
    Column("margin", lambda effect: f"±{100 * effect.margin:g} %", "number", "A change within it does not matter."),
    Column("pairs", lambda effect: len(effect.pairs), "number"),
    Column("p", lambda effect: _p(effect.p), "number"),
    Column("p after Holm", lambda effect: _p(effect.p_holm), "number", "Adjusted for the number of metrics tested."),
    Column("base", lambda effect: _number(effect.base, effect.unit), "number"),
    Column("head", lambda effect: _number(effect.head, effect.unit), "number"),
    Column("fewest samples", lambda effect: effect.samples, "number", "In the compared runs."),
    Column("why", lambda effect: _times(effect) or effect.why, "text"),
]


# --- pairs -------------------------------------------------------------------------------------------


def _pairs(result: results.CompareResult, links: Links) -> Iterator[Block]:
    primary = [effect for effect in result.effects if effect.role == "primary"]
    drawn = [effect for effect in primary if any(pair.change is not None for pair in effect.pairs)]
    if not drawn:
        yield Words("There are no complete pairs yet.", "absent")
    for index, effect in enumerate(drawn):
        label = _metric(effect, several=result.several)
        yield Plot(
            f"pairs-{index}",
            pairs_figure(effect, label),
            f"Change from base to head in every pair: {label}",
            "One mark is one pair of fresh clusters, one after the other. Grey: the margin; line: the mean of all "
            "pairs; coloured band: its interval. Marks that depend on which side ran first show an effect of the "
            "order, which alternates. A pair with a time that had not ended has no mark; it is in the table.",
            table(f"{label}. Values lead to their runs.", _pair_columns(effect, links), effect.pairs),
        )
    if missed := result.missed_loads:
        columns = _finding_columns(result, lambda row: _place(row, several=result.several))
        yield Listing("missed", table("Offered loads that head missed, in how many runs.", columns, missed))
    effects = [effect for effect in result.effects if effect.role != "why"]
    yield from _left_out("left-out", "Runs that some effect could not use.", effects, result, links)


def _place(row: results.MissedLoad, *, several: bool) -> str:
    phase = row.phase or "whole run"
    return f"{phase} ({row.scenario})" if several else phase


def _pair_columns(effect: results.Effect, links: Links) -> list[Column[results.PairOfRuns]]:
    def value(arm: int) -> Callable[[results.PairOfRuns], Cell]:
        def shown(pair: results.PairOfRuns) -> Cell:
            at_least = "≥ " if pair.censored[arm] else ""
            return linked(pair.runs[arm], links, at_least + _number(pair.values[arm], effect.unit))

        return shown

    return [
        Column("pair", lambda pair: pair.pair),
        Column("ran first", lambda pair: ("base", "head")[pair.ran_first]),
        Column("base", value(0), "number"),
        Column("head", value(1), "number"),
        Column("change", lambda pair: _change(pair.change), "number"),
    ]


def _left_out(
    name: str, caption: str, effects: Iterable[results.Effect], result: results.CompareResult, links: Links
) -> Iterator[Block]:
    names: dict[tuple[int, str | None, str], list[str]] = {}
    for effect in effects:
        for left in effect.left_out:
            own = names.setdefault((int(left.pair), left.run, left.why), [])
            own.append(_metric(effect, several=result.several))
    if not names:
        return
    rows = [
        (
            pair,
            linked(run, links, run or "not recorded"),
            f"{len(own)} metrics" if len(own) > 3 else "; ".join(own),
            why,
        )
        for (pair, run, why), own in sorted(names.items(), key=lambda entry: (entry[0][0], entry[0][1] or ""))
    ]
    columns = plain("pair", "run", "left out of", "why", pair="number", why="text")
    yield Listing(name, table(caption, columns, rows), filtered=True)


# --- latency by phase --------------------------------------------------------------------------------


def _phases(result: results.CompareResult) -> Iterator[Block]:
    for index, scenario in enumerate(result.scenarios):
        own = [row for row in result.phases if row.scenario == scenario and (row.base or row.head)]
        if own:
            yield Plot(
                f"latency-{index}",
                latency(own, PERCENTILES),
                f"Latency by phase of {scenario}, both sides",
                f"`{scenario}`: latency counts from the time at which a record was due, so it goes on while a cluster "
                "is down. Mark: the median over runs; line: from the smallest to the largest run. Runs that missed "
                "their load, or had too few records for a percentile, are left out.",
                table(f"Milliseconds, over the usable runs of {scenario}.", _LATENCY, own),
            )
    if not any(row.base or row.head for row in result.phases):
        yield Words("There are no valid latencies on either side.", "absent")


def _spread(arm: results.Arm) -> list[Column[results.PhaseLatency]]:
    def over_runs(of: Callable[[Sequence[float]], float]) -> Callable[[results.PhaseLatency], str]:
        return lambda row: _number(of(row.of(arm))) if row.of(arm) else DASH

    return [
        Column(f"{arm}: median", over_runs(median), "number"),
        Column("smallest", over_runs(min), "number"),
        Column("largest", over_runs(max), "number"),
        Column("runs", lambda row: len(row.of(arm)), "number"),
    ]


_LATENCY: list[Column[results.PhaseLatency]] = [
    Column("phase", lambda row: row.phase or "whole run", "name"),
    Column("percentile", lambda row: PERCENTILES[row.metric]),
    *_spread("base"),
    *_spread("head"),
]


# --- correctness and behaviour -----------------------------------------------------------------------


def _correctness(result: results.CompareResult, links: Links) -> Iterator[Block]:
    guarantees = result.correctness
    yield Words(guarantees.sentence, "lead")
    columns: list[Column[results.Arm]] = [
        Column("side", lambda arm: result.sides.of(arm).name),
        Column("runs", lambda arm: guarantees.arms.of(arm).runs, "number"),
        Column("pass", lambda arm: guarantees.arms.of(arm).passed, "number"),
        Column("fail", lambda arm: guarantees.arms.of(arm).failed, "number"),
        Column("unknown", lambda arm: guarantees.arms.of(arm).unknown, "number"),
        Column(
            "may still fail in up to",
            lambda arm: f"{100 * guarantees.at_most[arm]:.3g} %" if arm in guarantees.at_most else DASH,
            "number",
            "A bound at 95 % confidence, where no run failed.",
        ),
    ]
    note = "Runs of base with itself count for base, too. The last column is a bound at 95 % confidence."
    yield Listing("verdicts", table("Verdicts of the runs.", columns, ARMS, [note]))
    if guarantees.findings:
        caption = "What violated a guarantee, in how many runs."
        yield Listing("findings", table(caption, _finding_columns(result), guarantees.findings))
    if result.counts:
        yield Listing("counts", table("Lost and duplicated records, in runs.", _COUNTS, result.counts))
    for name, title, runs in (
        ("failed", "Runs that failed", guarantees.failed),
        ("unknown", "Runs that are unknown", guarantees.unknown),
    ):
        if runs:
            of_runs: list[Column[results.RunSentence]] = [
                Column("run", lambda run: linked(run.run, links)),
                Column("side", lambda run: run.arm),
                Column("why", lambda run: run.sentence, "text"),
            ]
            yield Listing(name, table(f"{title}.", of_runs, runs))


def _finding_columns(
    result: results.CompareResult, what: Callable[[Any], str] = lambda row: row.what
) -> list[Column[Any]]:
    return [
        Column("what", what),
        Column(result.sides.base.name, lambda row: row.base.count, "number"),
        Column(result.sides.head.name, lambda row: row.head.count, "number"),
        Column("Fisher's p", lambda row: _p(row.p), "number"),
    ]


def _share(value: float | None) -> str:
    return DASH if value is None else f"{100 * value:.3g} %"


_COUNTS: list[Column[results.Finding]] = [
    Column("what", lambda row: row.what),
    Column("base: runs with any", lambda row: row.base.count, "number"),
    Column("largest", lambda row: _share(row.base.largest), "number"),
    Column("head: runs with any", lambda row: row.head.count, "number"),
    Column("largest", lambda row: _share(row.head.largest), "number"),
    Column("Fisher's p", lambda row: _p(row.p), "number"),
]


def _behaviour(result: results.CompareResult, links: Links) -> Iterator[Block]:
    if not result.behaviour:
        yield Words("Nothing was observed on one side only, and no change of behaviour by design.", "absent")
        return
    caption = "Observed on one side only, or changed by design; in runs."
    yield Listing("behaviour", table(caption, _finding_columns(result), result.behaviour))
    if any(row.what == "behaviour_change" for row in result.behaviour):
        yield Words(BY_DESIGN, "note")
    rows = [
        (row.what, arm, linked(run, links)) for row in result.behaviour for arm in ARMS for run in row.of(arm).having
    ]
    runs = table("The runs in which it was observed.", plain("what", "side", "run"), rows)
    yield Listing("behaviour-runs", runs, folded=True)


# --- noise, explanations, limits, runs -----------------------------------------------------------------


def _noise(result: results.CompareResult, links: Links) -> Iterator[Block]:
    effects = [*result.noise, *result.without_noise]
    left_out = _left_out("noise-left-out", "Runs of base that its noise could not use.", effects, result, links)
    if not result.noise:
        compared = "in a way that counts" if result.without_noise else "yet"
        yield Words(f"Base was not compared with itself {compared}, so the noise of this host is not known.", "absent")
        yield from left_out
        return
    yield Words(
        "Base ran against itself before anything was compared. Its pairs differ by noise alone: on a host that can be "
        "trusted each verdict here is equivalent or inconclusive.",
    )
    columns: list[Column[results.Noise]] = [
        Column("metric", lambda own: _metric(own, several=result.several), "text"),
        Column("base with itself", lambda own: _verdict(own.verdict), "name"),
        Column("pairs", lambda own: own.n, "number"),
        Column("95 % interval", _interval, "number"),
        Column("noise of a pair", lambda own: _with_interval(own.sd, own.sd_low, own.sd_high), "number"),
        Column("smallest worsening detected", _smallest, "number"),
        *(_detects(rate) for rate in result.noise[0].detection),
        Column(
            "pairs that detect twice the margin",
            lambda own: own.needed or "too many",
            "number",
            "In four cases of five.",
        ),
    ]
    note = (
        f"Noise is the standard deviation of a pair's ratio, with its interval. The smallest worsening is what "
        f"{result.noise[0].pairs_planned} pairs call a regression in four cases of five, computed from that noise; "
        "the next columns show how often they detect other sizes."
    )
    yield Listing("noise-table", table("Base against itself, metric by metric.", columns, result.noise, [note]))
    yield from left_out


def _with_interval(value: float | None, low: float, high: float) -> str:
    return f"{_amount(value)} ({_amount(low)} to {_amount(high)})"


def _smallest(own: results.Noise) -> str:
    """Omit the interval if the estimate itself is implausibly large."""
    smallest = detectable(own.smallest)
    if smallest != _amount(own.smallest):
        return smallest
    return f"{smallest} ({detectable(own.smallest_low)} to {detectable(own.smallest_high)})"


def _detects(rate: str) -> Column[results.Noise]:
    return Column(f"detects {rate} in", lambda own: f"{100 * own.detection[rate]:.0f} %", "number")


def _why(result: results.CompareResult) -> Iterator[Block]:
    own = [effect for effect in result.effects if effect.role == "why"]
    if not own:
        yield Words("Nothing was measured on both sides that would explain a difference.", "absent")
        return
    columns: list[Column[results.Effect]] = [
        _named(result),
        Column("base", lambda effect: _number(effect.base, effect.unit), "number"),
        Column("head", lambda effect: _number(effect.head, effect.unit), "number"),
        Column("change", lambda effect: _change(effect.mean), "number"),
        Column("95 % interval", _interval, "number"),
        Column("pairs", lambda effect: len(effect.pairs), "number"),
    ]
    caption = "Load, requests, garbage collection, network, disk and host: shown and never judged."
    yield Listing("explains", table(caption, columns, own), filtered=True)


def _runs(result: results.CompareResult, links: Links) -> Iterator[Block]:
    columns: list[Column[results.ComparedRun]] = [
        Column("run", lambda run: linked(run.run_id, links)),
        Column("part", lambda run: run.part),
        Column("pair", lambda run: run.pair, "number"),
        Column("order", lambda run: run.order, "number"),
        Column("side", lambda run: run.role),
        Column("Kafka", lambda run: run.kafka_version),
        Column("scenario", lambda run: run.scenario),
        Column("verdict", lambda run: Cell(run.verdict, run.verdict)),
        Column("result", lambda run: run.sentence, "text"),
    ]
    caption = "In the order of the plan. Runs without a link are in the archive only."
    yield Listing("runs", table(caption, columns, result.runs.each), filtered=True)
    if missing := result.runs.missing:
        yield Listing("missing", table("Not recorded yet.", plain("run"), [(name,) for name in missing]), folded=True)
