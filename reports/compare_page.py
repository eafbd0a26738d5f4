"""The page of a comparison: what somebody who upgrades should know, how sure that is, and what is behind it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median
from typing import Any

from reports.cells import DASH, Cell, Table, cells, change, p_value
from reports.compare_plots import forest, latency, pairs_figure
from reports.site import Block, Listing, Page, Plot, Section, Words
from reports.site import render as render_page

Found = Mapping[str, Any]
Links = Mapping[str, str]
VERDICT_MARKS = {"regression": "fail", "improvement": "pass", "equivalent": "pass", "inconclusive": "unknown"}
MEANS = {
    "correctness regression": "Head breaks a promise that base keeps.",
    "regression": "Something named beforehand is worse, by more than its margin.",
    "improvement": "Something named beforehand is better, by more than its margin, and nothing is worse.",
    "equivalent": "Everything named beforehand lies within its margin.",
    "inconclusive": "The runs do not suffice to say.",
}
VIEWS = {
    "matched": "matched configuration: both sides run the scenario's own settings, so a difference is the code's",
    "shipped": "shipped defaults: the scenario's short timers are gone, so a difference is what an upgrade brings",
    "unfinalised": "unfinalised upgrade: head runs with base's metadata.version or inter.broker.protocol.version, so a "
    "difference is what new binaries bring before the upgrade is finalised",
}
_BY_DESIGN = (
    "behaviour_change is what a version does differently on purpose, such as a high watermark that moves below "
    "min.insync.replicas before Kafka 3.7 (KAFKA-15583, KIP-966). The page of each run tells the case."
)
PERCENTILES = {"latency_p50_ms": "p50", "latency_p99_ms": "p99", "latency_p999_ms": "p99.9"}


def render(result: Found, links: Links) -> str:
    """The page as HTML; ``links`` maps run ids to the addresses of their pages, as far as there are any."""
    sections = [
        _section("summary", "What else to know", "Summary", _summary(result)),
        _section("effects", "Effects", "", _effects(result)),
        _section("pairs", "Pair by pair", "Pairs", _pairs(result, links)),
        _section("phases", "Latency by phase", "Latency", _phases(result)),
        _section("correctness", "Correctness", "", _correctness(result, links)),
        _section("behaviour", "Behaviour that differs", "Behaviour", _behaviour(result, links)),
        _section("noise", "The noise of this host", "Noise", _noise(result)),
        _section("why", "What explains it", "Why", _why(result)),
        _section("limits", "What this cannot say", "Limits", _limits(result)),
        _section("runs", "Runs", "", _runs(result, links)),
    ]
    return render_page(
        Page(
            title=f"{_name(result, 'head')} against {_name(result, 'base')}",
            kind="one comparison",
            above=_question(result),
            sentence=result["sentence"],
            state=result["state"],
            state_word=result["verdict"],
            meaning=MEANS[result["verdict"]],
            facts=_facts(result),
            sections=sections,
        )
    )


def _section(name: str, title: str, short: str, blocks: Iterable[Block]) -> Section:
    return Section(name, title, list(blocks), short)


def _name(result: Found, arm: str) -> str:
    return str(result["sides"][arm]["name"])


def _several(result: Found) -> bool:
    return len(result["settings"]["scenarios"]) > 1


# --- the head ----------------------------------------------------------------------------------------


def _question(result: Found) -> str:
    scenarios = ", ".join(result["settings"]["scenarios"])
    return f"Is {_name(result, 'head')} as good as {_name(result, 'base')} in {scenarios}?"


def _facts(result: Found) -> list[tuple[str, str]]:
    settings, runs = result["settings"], result["runs"]
    each = sorted(run["started_at"] for run in runs["each"])
    facts = [
        ("Base", _side(result["sides"]["base"])),
        ("Head", _side(result["sides"]["head"])),
        ("View", settings["view"]),
        ("Pairs", f"{settings['pairs']}, after {settings['aa_pairs']} of base with itself"),
        ("Runs", f"{runs['recorded']} of {runs['planned']}"),
        ("JVM flags", ", ".join(sorted({flag for side in result["sides"].values() for flag in side["jvm"]}))),
        ("Host", ", ".join(host[:12] for host in result["hosts"])),
        ("Seed", str(result["seed"])),
        ("Recorded", f"{_when(each[0])} to {_when(each[-1])} UTC" if each else ""),
        ("Comparison", result["campaign_id"]),
    ]
    return [(name, value) for name, value in facts if value]


def _side(side: Found) -> str:
    jars = ", ".join(digest[:12] for digest in side["jars"])
    parts = [", ".join(side["versions"]) or side["kafka"], side["mode"], f"jars {jars}" if jars else ""]
    return ", ".join(part for part in parts if part)


def _when(started_at: str) -> str:
    return started_at[:16].replace("T", " ")


# --- numbers -----------------------------------------------------------------------------------------


def _number(value: float | None, unit: str = "") -> str:
    """Three digits that mean something, with the unit."""
    if value is None:
        return DASH
    shown = f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{shown} {unit}".rstrip()


def _metric(effect: Found, *, several: bool) -> str:
    phase = f", {effect['phase']}" if effect["phase"] else ""
    return f"{effect['words']}{phase}" + (f" ({effect['scenario']})" if several else "")


def _amount(percent: float) -> str:
    return change(percent).removeprefix("+")


def _change(value: float | None) -> str:
    return DASH if value is None else change(value)


def _verdict(word: str | None) -> Cell:
    return Cell(word or DASH, VERDICT_MARKS.get(word or "", "quiet"))


def _run(run_id: str | None, text: str, links: Links) -> Cell:
    return Cell(text, link=links.get(run_id or "", ""))


# --- summary and effects -----------------------------------------------------------------------------


def _summary(result: Found) -> Iterator[Block]:
    yield Words(list(result["further"]))
    if result["refusals"]:
        yield Words(list(result["refusals"]), "lead")
    yield Words(f"The view is {VIEWS[result['settings']['view']]}.", "note")
    modes = {side["mode"] for side in result["sides"].values()}
    if len(modes) > 1:
        yield Words("One side runs with ZooKeeper and the other with KRaft: this compares two ways to run a cluster.")


def _effects(result: Found) -> Iterator[Block]:
    for role, title in (("primary", "Primary metrics, named beforehand."), ("secondary", "All other judged metrics.")):
        own = [effect for effect in result["effects"] if effect["role"] == role]
        if not own:
            continue
        labels = [_metric(effect, several=_several(result)) for effect in own]
        yield Plot(
            f"effects-{role}",
            forest(own, labels),
            f"Change of each {role} metric from base to head, with its 95 % interval and its margin",
            f"{title} Mark and line: the mean change over all pairs and its 95 % interval; grey: the margin within "
            "which a change does not matter. Right of 0 head has more, which is worse for a time and better for a "
            "rate: the mark says which. A line that leaves the figure goes on in the table; a mark without one rests "
            "on times that had not ended.",
            _effect_table(own, labels, title),
        )
    if not any(effect["role"] != "why" for effect in result["effects"]):
        yield Words("Nothing was compared yet.", "absent")


def _effect_table(effects: Sequence[Found], labels: Sequence[str], title: str) -> Table:
    columns = (
        *("metric", "verdict", "change", "interval from", "to", "margin", "pairs", "p", "p after Holm"),
        *("base", "head", "least samples", "why"),
    )
    rows = [
        cells(
            label,
            _verdict(effect["verdict"]),
            _change(effect["mean"]),
            _change(effect["low"]),
            _change(effect["high"]),
            f"±{100 * effect['margin']:g} %",
            len(effect["pairs"]),
            _p(effect["p"]),
            _p(effect["p_holm"]),
            _number(effect["base"], effect["unit"]),
            _number(effect["head"], effect["unit"]),
            effect["samples"],
            _times(effect) or effect["why"],
        )
        for effect, label in zip(effects, labels, strict=True)
    ]
    return Table(f"{title} Base and head: medians.", columns, rows, frozenset(range(2, 12)))


def _p(p: float | None) -> str:
    return DASH if p is None else p_value(p).removeprefix("p ").removeprefix("= ")


def _times(effect: Found) -> str:
    """Times of which some had not ended, in words."""
    told = effect["survival"]
    if told is None:
        return ""
    up_to = f"mean up to {_number(told['limit'], effect['unit'])}"
    arms = []
    for arm in ("base", "head"):
        own = told[arm]
        middle = "not reached" if own["median"] is None else _number(own["median"], effect["unit"])
        mean = _number(own["restricted_mean"], effect["unit"])
        arms.append(f"{arm}: {own['ended']} of {own['runs']} ended, median {middle}, {up_to} is {mean}")
    return "; ".join([*arms, *filter(None, [effect["why"]])])


# --- pairs -------------------------------------------------------------------------------------------


def _pairs(result: Found, links: Links) -> Iterator[Block]:
    primary = [effect for effect in result["effects"] if effect["role"] == "primary"]
    drawn = [effect for effect in primary if any(pair["change"] is not None for pair in effect["pairs"])]
    if not drawn:
        yield Words("No pair is complete yet.", "absent")
    for index, effect in enumerate(drawn):
        label = _metric(effect, several=_several(result))
        yield Plot(
            f"pairs-{index}",
            pairs_figure(effect, label),
            f"Change from base to head in every pair: {label}",
            "One mark is one pair of fresh clusters, side by side in time. Grey: the margin; the line is the mean of "
            "all pairs, the wash its interval. Marks that follow who ran first show an effect of the order, which "
            "alternates. A pair with a time that had not ended has no mark: it is in the table.",
            _pair_table(effect, label, links),
        )
    if missed := result["missed_loads"]:
        named = [{**row, "what": _missed(row, several=_several(result))} for row in missed]
        yield Listing("missed", _counted("Loads that head missed, in how many runs.", named, result))
    left_out = list(_left_out(result, links))
    if left_out:
        columns = ("pair", "run", "left out of", "why")
        yield Listing("left-out", Table("Runs that some effect could not use.", columns, left_out), filtered=True)


def _missed(row: Found, *, several: bool) -> str:
    phase = row["phase"] or "whole run"
    return f"{phase} ({row['scenario']})" if several else str(phase)


def _pair_table(effect: Found, label: str, links: Links) -> Table:
    rows = [
        cells(
            pair["pair"],
            ("base", "head")[pair["ran_first"]],
            *(
                _run(run, ("≥ " if late else "") + _number(value, effect["unit"]), links)
                for run, value, late in zip(pair["runs"], pair["values"], pair["censored"], strict=True)
            ),
            _change(pair["change"]),
        )
        for pair in effect["pairs"]
    ]
    return Table(
        f"{label}. Values lead to their runs.",
        ("pair", "ran first", "base", "head", "change"),
        rows,
        frozenset({2, 3, 4}),
    )


def _left_out(result: Found, links: Links) -> Iterator[tuple[Cell, ...]]:
    """A row for each run and reason, with the metrics that lack it."""
    metrics: dict[tuple[int, str | None, str], list[str]] = {}
    for effect in result["effects"]:
        if effect["role"] != "why":
            for left in effect["left_out"]:
                place = (int(left["pair"]), left["run"], left["why"])
                metrics.setdefault(place, []).append(_metric(effect, several=_several(result)))
    for (pair, run, why), names in sorted(metrics.items(), key=lambda entry: (entry[0][0], entry[0][1] or "")):
        many = f"{len(names)} metrics" if len(names) > 3 else "; ".join(names)
        yield cells(pair, _run(run, run or "not recorded", links), many, why)


# --- latency by phase --------------------------------------------------------------------------------


def _phases(result: Found) -> Iterator[Block]:
    for index, scenario in enumerate(result["settings"]["scenarios"]):
        own = [row for row in result["phases"] if row["scenario"] == scenario and (row["base"] or row["head"])]
        if own:
            columns = ("phase", "percentile", *(f"{arm}: {what}" for arm in ("base", "head") for what in _SPREAD))
            rows = [
                cells(
                    row["phase"] or "whole run",
                    PERCENTILES[row["metric"]],
                    *_spread(row["base"]),
                    *_spread(row["head"]),
                )
                for row in own
            ]
            yield Plot(
                f"latency-{index}",
                latency(own, PERCENTILES),
                f"Latency by phase of {scenario}, both sides",
                f"{scenario}: latency from the time at which a record was due, so that a cluster that is down does "
                "not stop the clock. Mark: the median over runs; line: from the least to the largest run. Runs that "
                "missed their load, or had too few records for a percentile, are not in it.",
                Table(f"Milliseconds, over the usable runs of {scenario}.", columns, rows, frozenset(range(2, 10))),
            )
    if not any(row["base"] or row["head"] for row in result["phases"]):
        yield Words("No phase has a valid latency on either side.", "absent")


_SPREAD = ("median", "least", "largest", "runs")


def _spread(values: Sequence[float]) -> tuple[str, str, str, int]:
    if not values:
        return DASH, DASH, DASH, 0
    return _number(median(values)), _number(min(values)), _number(max(values)), len(values)


# --- correctness and behaviour -----------------------------------------------------------------------


def _correctness(result: Found, links: Links) -> Iterator[Block]:
    told = result["correctness"]
    yield Words(told["sentence"], "lead")
    rows = [
        cells(
            _name(result, arm),
            *(told["arms"][arm][word] for word in ("runs", "pass", "fail", "unknown")),
            f"{100 * told['at_most'][arm]:.3g} %" if arm in told["at_most"] else DASH,
        )
        for arm in ("base", "head")
    ]
    columns = ("side", "runs", "pass", "fail", "unknown", "may still fail in up to")
    note = "Runs of base with itself are base's, too. The last column is a bound at 95 % confidence."
    yield Listing("verdicts", Table("Verdicts of the runs.", columns, rows, frozenset(range(1, 6)), [note]))
    if told["findings"]:
        yield Listing("findings", _counted("What broke a promise, in how many runs.", told["findings"], result))
    if result["counts"]:
        yield Listing("counts", _count_table(result))
    for name, title in (("failed", "Runs that failed"), ("unknown", "Runs that are unknown")):
        if told[name]:
            rows = [cells(_run(run["run"], run["run"], links), run["arm"], run["sentence"]) for run in told[name]]
            yield Listing(name, Table(f"{title}.", ("run", "side", "why"), rows))


def _counted(caption: str, found: Sequence[Found], result: Found) -> Table:
    rows = [cells(row["what"], _of(row["base"]), _of(row["head"]), _p(row["p"])) for row in found]
    columns = ("what", _name(result, "base"), _name(result, "head"), "Fisher's p")
    return Table(caption, columns, rows, frozenset({1, 2, 3}))


def _of(arm: Found) -> str:
    return f"{len(arm['with'])} of {arm['runs']}"


def _count_table(result: Found) -> Table:
    rows = [
        cells(
            row["words"],
            *(cell for arm in ("base", "head") for cell in (_of(row[arm]), _share(row[arm]["largest"]))),
            _p(row["p"]),
        )
        for row in result["counts"]
    ]
    columns = ("what", "base: runs with any", "largest", "head: runs with any", "largest", "Fisher's p")
    return Table(
        "Lost and doubled records, in runs.",
        columns,
        rows,
        frozenset(range(1, 6)),
    )


def _share(value: float | None) -> str:
    return DASH if value is None else f"{100 * value:.3g} %"


def _behaviour(result: Found, links: Links) -> Iterator[Block]:
    if not result["behaviour"]:
        yield Words("Nothing was seen on one side only, and no behaviour that changed by design.", "absent")
        return
    yield Listing(
        "behaviour", _counted("Seen on one side only, or changed by design; in runs.", result["behaviour"], result)
    )
    if any(row["what"] == "behaviour_change" for row in result["behaviour"]):
        yield Words(_BY_DESIGN, "note")
    rows = [
        cells(row["what"], arm, _run(run, run, links))
        for row in result["behaviour"]
        for arm in ("base", "head")
        for run in row[arm]["with"]
    ]
    table = Table("The runs in which it was seen.", ("what", "side", "run"), rows)
    yield Listing("behaviour-runs", table, folded=True)


# --- noise, explanations, limits, runs -----------------------------------------------------------------


def _noise(result: Found) -> Iterator[Block]:
    if not result["noise"]:
        yield Words("Base was not compared with itself yet, so nothing is known of this host's noise.", "absent")
        return
    pairs = result["settings"]["pairs"]
    yield Words(
        "Base ran against itself before anything was compared. Its pairs differ by noise alone, and what they say is "
        "the yardstick: a host that can be trusted gives equivalent or inconclusive here.",
    )
    rates = list(result["noise"][0]["detection"])
    rows = [
        cells(
            _metric(own, several=_several(result)),
            _verdict(own["verdict"]),
            own["n"],
            f"{change(own['low'])} to {change(own['high'])}",
            *(
                f"{_amount(own[name])} ({_amount(own[f'{name}_low'])} to {_amount(own[f'{name}_high'])})"
                for name in ("sd", "smallest")
            ),
            *(f"{100 * own['detection'][rate]:.0f} %" for rate in rates),
        )
        for own in result["noise"]
    ]
    columns = (
        *("metric", "base with itself", "pairs", "95 % interval", "noise of a pair", "smallest worsening found"),
        *(f"finds {rate} in" for rate in rates),
    )
    note = (
        f"Noise is the standard deviation of a pair's ratio, with its interval. The smallest worsening is what {pairs} "
        "pairs call a regression four times of five, computed from that noise; the last columns say how often others "
        "would be."
    )
    table = Table("Base against itself, metric by metric.", columns, rows, frozenset(range(2, len(columns))), [note])
    yield Listing("noise-table", table)


def _why(result: Found) -> Iterator[Block]:
    own = [effect for effect in result["effects"] if effect["role"] == "why"]
    if not own:
        yield Words("Nothing was measured on both sides that would explain a difference.", "absent")
        return
    rows = [
        cells(
            _metric(effect, several=_several(result)),
            _number(effect["base"], effect["unit"]),
            _number(effect["head"], effect["unit"]),
            _change(effect["mean"]),
            f"{change(effect['low'])} to {change(effect['high'])}" if effect["low"] is not None else DASH,
            len(effect["pairs"]),
        )
        for effect in own
    ]
    columns = ("metric", "base", "head", "change", "95 % interval", "pairs")
    caption = "Load, requests, garbage collection, network, disk and host: shown and never judged."
    yield Listing("explains", Table(caption, columns, rows, frozenset(range(1, 6))), filtered=True)


_BEFORE_FINALISING = (
    "Each side runs at its own version's metadata.version or inter.broker.protocol.version, finalised; what an upgrade "
    "does before it is finalised was not looked at."
)
_BY_FINALISING = (
    "Head runs at base's metadata.version or inter.broker.protocol.version; what finalising the upgrade then changes "
    "was not looked at."
)
_NOT_LOOKED_AT = {  # by view
    "matched": _BEFORE_FINALISING,
    "shipped": _BEFORE_FINALISING,
    "unfinalised": _BY_FINALISING,
}


def _limits(result: Found) -> Iterator[Block]:
    primary = sum(effect["role"] == "primary" for effect in result["effects"])
    yield Words(
        [
            "The unit is a fresh cluster run, and a pair of runs is one observation, however many records it holds.",
            "Intervals are paired t intervals on log-ratios at 95 %. With few pairs a single odd run moves them, and "
            "nothing here checks that log-ratios are normal: look at the pairs.",
            f"The error of {primary} primary metric{'s' * (primary != 1)} together is held at 5 % by Holm's method, "
            "that of all secondary ones separately. An interval is that of its metric alone.",
            "Equivalent means: the whole interval lies within the margin. Inconclusive does not mean equivalent.",
            "Times of which some had not ended when the observation did are compared by log-rank and restricted means; "
            "that never shows equivalence, and it does not use that runs are paired.",
            "Runs that failed, are unknown, missed their load or ran while the host was under pressure are in no "
            "effect. If a version makes that happen, it shows in the counts and not in the effects.",
            "No failure in so many runs still allows some: see the last column of the verdicts.",
            "All nodes share one host. Figures compare two sides on it; they are no figures of another one.",
            _NOT_LOOKED_AT[result["settings"]["view"]],
        ]
    )


def _runs(result: Found, links: Links) -> Iterator[Block]:
    rows = [
        cells(
            _run(run["run_id"], run["run_id"], links),
            run["part"],
            run["pair"],
            run["order"],
            run["role"],
            run["kafka_version"],
            run["scenario"],
            Cell(run["verdict"], run["verdict"]),
            run["sentence"],
        )
        for run in result["runs"]["each"]
    ]
    columns = ("run", "part", "pair", "order", "side", "Kafka", "scenario", "verdict", "in words")
    caption = "In the order of the plan. A run without a link lives on in the archive alone."
    yield Listing("runs", Table(caption, columns, rows, frozenset({2, 3})), filtered=True)
    if missing := result["runs"]["missing"]:
        yield Listing("missing", Table("Not recorded yet.", ("run",), [cells(name) for name in missing]), folded=True)
