"""Tables of a page, declared by their columns, and number formats."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Generic, Literal, TypeVar

DASH = "–"
Row = TypeVar("Row")
Kind = Literal["", "number", "name", "text"]


@dataclass(frozen=True)
class Cell:
    """One cell; ``mark`` is a style (pass, fail, unknown, differs, quiet) that repeats the text."""

    text: str
    mark: str = ""
    link: str = ""  # relative to the page


@dataclass(frozen=True)
class Column(Generic[Row]):
    """A column: its heading, a row's value, and its style.

    ``number`` is right-aligned, ``name`` does not wrap, ``text`` fits sentences. ``help`` is the tooltip.
    """

    heading: str
    cell: Callable[[Row], Any]
    kind: Kind = ""
    help: str = ""


@dataclass(frozen=True)
class Table:
    """A caption, columns, and a cell per column in every row."""

    caption: str
    columns: Sequence[Column[Any]]
    rows: Sequence[Sequence[Cell]]
    notes: Sequence[str] = ()


def table(caption: str, columns: Sequence[Column[Row]], rows: Iterable[Row], notes: Sequence[str] = ()) -> Table:
    """Apply each column to each row."""
    return Table(caption, columns, [[_cell(column.cell(row)) for column in columns] for row in rows], notes)


def plain(*headings: str, **kinds: Kind) -> list[Column[Sequence[Any]]]:
    """Return columns for rows that are sequences; ``kinds`` maps headings to styles."""
    return [Column(heading, itemgetter(index), kinds.get(heading, "")) for index, heading in enumerate(headings)]


def _cell(value: Any) -> Cell:
    return value if isinstance(value, Cell) else Cell(count(value))


def linked(run_id: str | None, links: Mapping[str, str], text: str = "") -> Cell:
    """Link a run to its page, if any."""
    return Cell(text or run_id or DASH, link=links.get(run_id or "", ""))


def page_of(runs: Iterable[str], links: Mapping[str, str]) -> Cell:
    """Link to the first run that has a page."""
    run = next((run for run in runs if run in links), "")
    return Cell("its page", link=links[run]) if run else Cell(DASH)


def count(value: Any) -> str:
    """Format with thousands separators; None is a dash."""
    if value is None or value == "":
        return DASH
    return f"{value:,}" if isinstance(value, int) else str(value)


def minute(at: str) -> str:
    """Shorten an ISO time to its minute."""
    return at[:16].replace("T", " ")


def percent(rate: float | None) -> str:
    """Format as a percentage; only zero is shown as zero."""
    if rate is None:
        return DASH
    if rate == 0:
        return "0 %"
    return "below 0.0001 %" if rate < 1e-6 else f"{100 * rate:.3g} %" if rate < 0.01 else f"{100 * rate:.2f} %"


def milliseconds(value: float | None, *, censored: bool = False) -> str:
    """Format a time; "≥" marks a censored one."""
    if value is None:
        return DASH
    shown = f"{value:,.1f}" if value < 100 else f"{value:,.0f}"
    return f"≥ {shown} ms" if censored else f"{shown} ms"


def change(percent: float) -> str:
    """Format a change such as +3.4 %; tenfold changes as a factor.

    A factor above 1,000 is implausible, so its size is not shown.
    """
    factor = 1 + percent / 100
    if factor >= 10:
        return f"×{factor:,.0f}" if factor <= 1000 else "beyond ×1,000"
    if 0 < factor <= 0.1:
        return f"÷{1 / factor:,.0f}" if factor >= 0.001 else "beyond ÷1,000"
    digits = 0 if abs(percent) >= 9.95 else 1
    shown = f"{abs(percent):,.{digits}f}"
    return f"{'−' if percent < 0 and float(shown.replace(',', '')) else '+'}{shown} %"


def p_value(p: float) -> str:
    """Format a p-value, never as zero."""
    return "p < 0.0001" if p < 0.0001 else f"p = {p:.2g}"


def detectable(percent: float) -> str:
    """Format the smallest detectable change; 900 % or more is none."""
    return "no detectable size" if percent >= 900 else change(percent).removeprefix("+")
