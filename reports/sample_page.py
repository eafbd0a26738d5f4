"""The overview of the sample site: each page, and its command."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from reports.cells import DASH, Cell, Column, table
from reports.page import Listing, Page, Section, Words
from reports.page import render as render_page


class Made(NamedTuple):
    """A command's result: page address in the site, state, sentence, seconds."""

    address: str
    state: str
    sentence: str
    took_s: int


class Shown(NamedTuple):
    """A row; ``settings`` is the ``--settings`` file's address, or empty."""

    title: str
    shows: str
    command: str
    settings: str
    made: Made | None


_COLUMNS: list[Column[Shown]] = [
    Column("page", lambda row: Cell(row.title, link=row.made.address if row.made else ""), "name"),
    Column("what it shows", lambda row: row.shows, "text"),
    Column("state", lambda row: Cell(row.made.state, row.made.state) if row.made else Cell("not made yet", "quiet")),
    Column("result", lambda row: row.made.sentence if row.made else DASH, "text"),
    Column("took", lambda row: duration(row.made.took_s) if row.made else DASH, "name"),
]
_HOW: list[Column[Shown]] = [
    Column("page", lambda row: row.title, "name"),
    Column("command", lambda row: row.command, "name"),
    Column("--settings", lambda row: Cell(row.settings or DASH, link=row.settings)),
]


def render(rows: Sequence[Shown]) -> str:
    """Render the page as HTML."""
    return render_page(
        Page(
            title="Sample site",
            kind="sample site",
            sentence=_sentence(rows),
            sections=[
                Section(
                    "pages",
                    "Pages",
                    [
                        Listing("pages", table("One row is one command.", _COLUMNS, rows), whole=True),
                        Words(
                            "A state is the command's own: a `fail` or `unknown` here is a result, not a defect of the "
                            "sample. Every run of every command is listed on the page over all runs.",
                            "note",
                        ),
                    ],
                ),
                Section("how", "How each was made", [Listing("how", table("As typed", _HOW, rows), whole=True)]),
            ],
        )
    )


def _sentence(rows: Sequence[Shown]) -> str:
    made = [row.made for row in rows if row.made]
    if not made:
        return "No sample pages yet: `make sample`."
    took = duration(sum(each.took_s for each in made))
    return f"{len(made)} of {len(rows)} sample pages, each made by one command from real runs on this host, in {took}."


def duration(seconds: int) -> str:
    """Format in seconds, from two minutes on in minutes."""
    return f"{seconds} s" if seconds < 120 else f"{round(seconds / 60)} min"
