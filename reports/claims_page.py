"""The page of one version's answers to the claims, with evidence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from history.results.claims import Answer, Claim, ClaimsResult, Evidence
from reports.cells import DASH, Cell, Column, plain, table
from reports.page import Block, Links, Listing, Page, Section, Words
from reports.page import render as render_page

RUN_PAGE = "report/index.html"
_MARKS = {"shown": "pass", "refuted": "fail", "not observable": "unknown"}


def render(result: ClaimsResult, links: Mapping[str, str]) -> str:
    """Render the page as HTML."""
    runs = [(f"run: {name}", links[run_id]) for name, run_id in result.runs.items() if run_id in links]
    page = Page(
        title=f"Claims on Kafka {result.kafka}",
        kind="claims about replication, tested on one version",
        sentence=result.sentence,
        state=result.state,
        head=[Links(runs)] if runs else [],
        facts=[
            ("Kafka", result.kafka),
            ("Mode", ", ".join(result.modes)),
            ("Planned", result.planned),
        ],
        sections=[
            Section("answers", "Claim by claim", [_answers(result)], "Claims"),
            Section("criteria", "What decides each claim", [_criteria(result)], "Criteria"),
            *_walkthroughs(result),
            Section("evidence", "The evidence of each answer", [*_evidence(result, links)], "Evidence"),
        ],
        footer="An answer holds for these runs; a refuted claim has its counterexample here.",
    )
    return render_page(page)


def _answers(result: ClaimsResult) -> Block:
    def name(entry: tuple[str, Answer]) -> Cell:
        return Cell(entry[0], link=f"#table-{entry[0].lower()}" if entry[1].evidence else "")

    columns: list[Column[tuple[str, Answer]]] = [
        Column("name", name, "name"),
        Column("claim", lambda entry: result.claims[entry[0]].text, "text"),
        Column("answer", lambda entry: Cell(entry[1].verdict, _MARKS[entry[1].verdict])),
        Column("in this run", lambda entry: entry[1].sentence, "text"),
        Column("where the answer changes", lambda entry: result.claims[entry[0]].changes),
    ]
    answers = table("One row is one claim; its name leads to the evidence.", columns, result.answers.items())
    return Listing("answers", answers, filtered=True, whole=True)


def _criteria(result: ClaimsResult) -> Block:
    columns: list[Column[tuple[str, Claim]]] = [
        Column("name", lambda entry: entry[0], "name"),
        Column("known", lambda entry: entry[1].known, "text", "The answer of Kafka's source and KIPs for 2.8 to 4.x."),
        Column("shown by", lambda entry: entry[1].shows, "text"),
        Column("refuted by", lambda entry: entry[1].refutes, "text"),
    ]
    caption = "“Partly”: a claim that holds in most cases is refuted by a recorded counterexample."
    return Listing("criteria", table(caption, columns, result.claims.items()), filtered=True, whole=True)


def _evidence(result: ClaimsResult, links: Mapping[str, str]) -> Iterator[Block]:
    yield Words("Sources are files and tables of the run folder; times are seconds since the run began.")
    for name, answer in result.answers.items():
        if not answer.evidence:
            continue
        page = links.get(answer.run_id, "")
        of_run = Evidence(source=answer.run_id, at_s=None, text=f"the run of experiment {answer.experiment}")
        caption = f"{name}, {answer.verdict}: {result.claims[name].text}"
        yield Listing(name.lower(), table(caption, _sources(page, answer.run_id), [*answer.evidence, of_run]))


def _sources(page: str, run_id: str) -> list[Column[Evidence]]:
    def source(row: Evidence) -> Cell:
        file = row.source.partition(":")[0]  # without the line
        return Cell(row.source, link=page if row.source == run_id or not page else page.removesuffix(RUN_PAGE) + file)

    return [
        Column("source", source, "name"),
        Column("at", lambda row: DASH if row.at_s is None else f"{row.at_s:.3f} s", "name"),
        Column("what it says", lambda row: row.text, "text"),
    ]


def _walkthroughs(result: ClaimsResult) -> Iterator[Section]:
    for number, walk in enumerate(result.walkthroughs, 1):
        name = f"walkthrough-{number}"
        steps = Listing(name, table(walk.title, plain(*walk.columns), walk.rows))
        yield Section(name, walk.title, [Words(walk.words), steps], walk.short)
