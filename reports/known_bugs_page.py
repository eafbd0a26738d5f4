"""The page of known bugs: bug by version, the checks that detected each, and every try."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from history.results.known_bugs import Arm, KnownBugsResult, Timeline, Try
from reports.cells import DASH, Cell, Column, linked, page_of, plain, table
from reports.page import Block, Listing, Section, Words, of_campaign
from reports.page import Links as Addresses

Links = Mapping[str, str]

STATE_WORDS = {"pass": "as expected", "fail": "not as expected", "unknown": "not decided"}
MEANS = {
    "pass": "Each bug was found on the versions that have it, and on no other.",
    "fail": "A bug was not found on a version that has it, or was found on one that does not.",
    "unknown": "A try was not recorded, or a version has no decided try; nothing contradicts what is expected.",
}
MARKS = {"found": "fail", "clean": "pass", "window missed": "quiet", "unknown": "unknown"}
OUTCOMES = {"window missed": "precondition not met"}
LIMITS = [
    "These are known bugs, reproduced by recipes that were written for them. How often a recipe finds its bug does not "
    "say how often the bug occurs elsewhere.",
    "The invariants and behaviour changes that the judge checks in every run find a bug; there are no special checks.",
    "A try whose precondition was not met counts for neither side: it did not reach the state that the bug needs.",
    "“Also violated” are invariants that do not count for the bug: the recipe may show another bug of the version.",
    "A version is clean if these tries found nothing on it. The interval says what so few tries leave open.",
]

REPLICAS = (
    "The first run of each bug that found it. Brokers A, B, C are 1, 2, 3. `20/520 e1` is a replica just before, as "
    "its own broker reports it: high watermark 20, log end offset 520, leader epoch 1. A dash: as above; silent: no "
    "answer within 0.5 s."
)


def render(result: KnownBugsResult, links: Links) -> str:
    """Render the page as HTML."""
    sections = [
        Section("versions", "Bug by version", list(_versions(result, links))),
        Section("tries", "Every try", [_tries(result, links)]),
        *_timelines(result, links),
        Section("limits", "Limits", [Words(LIMITS)]),
    ]
    facts, word = _facts(result), STATE_WORDS[result.state]
    return of_campaign("Known bugs", result, sections, kind="known bugs", means=MEANS, facts=facts, state_word=word)


def _facts(result: KnownBugsResult) -> list[tuple[str, str]]:
    return [
        ("Bugs", ", ".join(dict.fromkeys(arm.issue for arm in result.arms))),
        ("Tries", f"{result.tries} for each bug and version, {sum(arm.tries for arm in result.arms)} judged in all"),
        ("Planned", result.planned),
        ("Host", ", ".join(result.hosts) or "no run"),
    ]


def _versions(result: KnownBugsResult, links: Links) -> Iterator[Block]:
    columns: list[Column[Arm]] = [
        Column("bug", lambda arm: arm.issue, "name"),
        Column("Kafka", lambda arm: arm.version),
        Column("expected", lambda arm: arm.expected or Cell("not known", "quiet"), "name"),
        Column("as expected", _as_expected, "name"),
        Column("found", lambda arm: f"{arm.found} of {arm.decided}", "number", "In the decided tries."),
        Column("rate at 95 %", lambda arm: f"{arm.interval[0]:.0%} to {arm.interval[1]:.0%}", "name"),
        Column("clean", lambda arm: f"{arm.clean} of {arm.decided}", "number"),
        Column(
            "precondition not met",
            lambda arm: arm.window_missed,
            "number",
            "The state that the bug needs did not come about, so the try shows nothing.",
        ),
        Column("unknown", lambda arm: arm.unknown, "number", "Tries without a verdict."),
        Column("found by", lambda arm: _counts(arm.found_by)),
        Column("also violated", lambda arm: _counts(arm.also)),
        Column("a try", lambda arm: _a_run(arm, links)),
    ]
    yield Listing("versions", table("Tries by bug and version", columns, result.arms))
    titles = {arm.issue: arm.title for arm in result.arms}
    yield Words([f"{issue}: {title}." for issue, title in titles.items()])
    if notes := [*result.left_out, *(f"{item} was not recorded." for item in result.missing)]:
        yield Words(notes, "note")


def _as_expected(arm: Arm) -> Cell:
    if arm.expected is None:
        return Cell(DASH, "quiet")
    mark, word = {True: ("pass", "yes"), False: ("fail", "no"), None: ("quiet", "not decided")}[arm.as_expected]
    return Cell(word, mark)


def _counts(names: Mapping[str, int]) -> str:
    return ", ".join(f"{name} in {count}" for name, count in names.items())


def _a_run(arm: Arm, links: Links) -> Cell:
    runs = sorted(arm.runs, key=lambda run: run.outcome != "found")
    return page_of((run.run_id for run in runs), links)


def _tries(result: KnownBugsResult, links: Links) -> Block:
    columns: list[Column[tuple[Arm, Try]]] = [
        Column("try", lambda row: linked(row[1].run_id, links, row[1].item)),
        Column("Kafka", lambda row: row[0].version),
        Column(
            "outcome", lambda row: Cell(OUTCOMES.get(row[1].outcome, row[1].outcome), MARKS[row[1].outcome]), "name"
        ),
        Column("found by", lambda row: ", ".join(row[1].found_by)),
        Column("the judge's sentence", lambda row: row[1].sentence, "text"),
    ]
    rows = [(arm, run) for arm in result.arms for run in arm.runs]
    return Listing("tries", table("Every judged try", columns, rows), filtered=True)


def _timelines(result: KnownBugsResult, links: Links) -> Iterator[Section]:
    if result.timelines:
        blocks = [block for each in result.timelines for block in _timeline(each, links)]
        yield Section("timelines", "What goes wrong, replica by replica", [Words(REPLICAS), *blocks], "Replicas")


def _timeline(run: Timeline, links: Links) -> Iterator[Block]:
    above: Mapping[str, str] = {}
    rows = []
    for moment in run.moments:
        changed = ["" if above.get(broker) == state else state for broker, state in moment.replicas.items()]
        rows.append([f"{moment.s:.1f}", moment.what, *changed])
        above = moment.replicas
    columns = plain("second", "action or observation", *(f"broker {broker}" for broker in above))
    caption = f"{run.issue} on Kafka {run.version}: {run.partition}"
    yield Listing(f"replicas-{run.run_id}", table(caption, columns, rows), folded=True)
    if run.run_id in links:
        yield Addresses([(f"run: {run.run_id}", links[run.run_id])])
