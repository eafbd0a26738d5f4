"""Tables of a page, declared by their columns, and how numbers are written in them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Generic, Literal, TypeVar

DASH = "–"
Row = TypeVar("Row")


@dataclass(frozen=True)
class Cell:
    """One cell; ``mark`` is a style of the page (pass, fail, unknown, differs, quiet), and never all there is."""

    text: str
    mark: str = ""
    link: str = ""  # an address relative to the page


@dataclass(frozen=True)
class Column(Generic[Row]):
    """A column: its heading, what it shows of a row (text, a number, None, or a ``Cell``), and how it is set.

    ``number`` is set flush right, ``name`` never breaks, ``text`` has room for sentences. ``help`` explains the heading
    to who points at it.
    """

    heading: str
    cell: Callable[[Row], Any]
    kind: Literal["", "number", "name", "text"] = ""
    help: str = ""


@dataclass(frozen=True)
class Table:
    """A table with its caption: the columns, and a cell for each of them in every row."""

    caption: str
    columns: Sequence[Column[Any]]
    rows: Sequence[Sequence[Cell]]
    notes: Sequence[str] = ()


def table(caption: str, columns: Sequence[Column[Row]], rows: Iterable[Row], notes: Sequence[str] = ()) -> Table:
    """The table that these columns make of these rows."""
    return Table(caption, columns, [[_cell(column.cell(row)) for column in columns] for row in rows], notes)


def plain(*headings: str) -> list[Column[Sequence[Any]]]:
    """Columns of rows that are sequences already: the first shows the first value, and so on."""
    return [Column(heading, itemgetter(index)) for index, heading in enumerate(headings)]


def _cell(value: Any) -> Cell:
    return value if isinstance(value, Cell) else Cell(count(value))


def page_of(runs: Iterable[str], links: Mapping[str, str]) -> Cell:
    """The first of some runs that has a page, as a link to it."""
    run = next((run for run in runs if run in links), "")
    return Cell("its page", link=links[run]) if run else Cell(DASH)


def count(value: Any) -> str:
    """A number with thousands separators; a dash for what is not known."""
    if value is None or value == "":
        return DASH
    return f"{value:,}" if isinstance(value, int) else str(value)


def percent(rate: float | None) -> str:
    """A rate as a percentage that never rounds something down to zero."""
    if rate is None:
        return DASH
    if rate == 0:
        return "0 %"
    return "below 0.0001 %" if rate < 1e-6 else f"{100 * rate:.3g} %" if rate < 0.01 else f"{100 * rate:.2f} %"


def milliseconds(value: float | None, *, censored: bool = False) -> str:
    """A measured time; "≥" where the observation ended before the thing happened."""
    if value is None:
        return DASH
    shown = f"{value:,.1f}" if value < 100 else f"{value:,.0f}"
    return f"≥ {shown} ms" if censored else f"{shown} ms"


def change(percent: float) -> str:
    """A change in percent with its sign, such as +12 % and +3.4 %; a factor where it is tenfold or more, and only that
    it is beyond a thousandfold, which nobody measures.
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
    """A p-value that never reads as zero."""
    return "p < 0.0001" if p < 0.0001 else f"p = {p:.2g}"


def detectable(percent: float) -> str:
    """The smallest change that a number of pairs shows; a size that nobody measures is none."""
    return "no detectable size" if percent >= 900 else change(percent).removeprefix("+")
