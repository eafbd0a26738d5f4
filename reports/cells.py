"""What stands in a table of a page, and how numbers are written there."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

DASH = "–"


@dataclass(frozen=True)
class Cell:
    """One cell; ``mark`` is a style of the page (pass, fail, unknown, differs, quiet), and never all there is."""

    text: str
    mark: str = ""
    link: str = ""  # an address relative to the page


@dataclass(frozen=True)
class Table:
    """A table with its caption. ``numeric`` holds the columns that are set flush right."""

    caption: str
    columns: tuple[str, ...]
    rows: list[tuple[Cell, ...]]
    numeric: frozenset[int] = frozenset()
    notes: list[str] = field(default_factory=list)


def cells(*values: Any) -> tuple[Cell, ...]:
    """A row; what is no cell yet becomes one by ``count``."""
    return tuple(value if isinstance(value, Cell) else Cell(count(value)) for value in values)


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
