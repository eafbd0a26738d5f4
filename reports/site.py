"""Pages of more than one run as data: a sentence, facts, and sections of words, figures and tables.

One template renders them all, so that comparisons, nights, plans and the index look and work alike: dark and light,
on a phone, by keyboard, from disk. Every figure has its table behind it.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from history.folder import write_atomically
from reports.cells import Table

PLOTLY = "plotly.min.js"


@dataclass(frozen=True)
class Words:
    """A paragraph, or a list where there are several; ``kind`` is how it looks."""

    text: str | Sequence[str]
    kind: Literal["", "lead", "note", "absent"] = ""

    @property
    def several(self) -> list[str]:
        return [] if isinstance(self.text, str) else list(self.text)


@dataclass(frozen=True)
class Plot:
    """A figure as plain Plotly JSON (``data`` and ``layout`` with a ``height``; no colours of the page) and its table.

    ``label`` says to who cannot see it what is drawn; ``caption`` how to read it. Plotly is asked to draw nothing that
    the table does not hold. An axis with long labels sets ``automargin`` itself.
    """

    name: str
    figure: dict[str, Any]
    label: str
    caption: str
    table: Table


@dataclass(frozen=True)
class Listing:
    """A table of its own; ``folded`` hides it behind its caption, ``filtered`` puts a search field above it.

    A long one scrolls in a box of its own, unless it is shown ``whole``.
    """

    name: str
    table: Table
    folded: bool = False
    filtered: bool = False
    whole: bool = False


Block = Words | Plot | Listing


@dataclass(frozen=True)
class Section:
    """A part of the page; ``name`` is its anchor, ``short`` its name in the menu."""

    name: str
    title: str
    blocks: Sequence[Block]
    short: str = ""


@dataclass(frozen=True)
class Page:
    """``kind`` says what this page is about ("one comparison"), ``sentence`` its one result.

    ``state`` colours the head (pass, fail, unknown; nothing for a page that judges nothing) and ``state_word`` says
    the same in a word. ``root`` is the way from the page to the site's own folder, "" or "../../".
    """

    title: str
    kind: str
    sentence: str
    sections: Sequence[Section]
    state: Literal["", "pass", "fail", "unknown"] = ""
    state_word: str = ""
    meaning: str = ""
    above: str = ""  # the question, a line above the sentence
    facts: Sequence[tuple[str, str]] = ()
    root: str = "../../"
    footer: str = (
        "Counts are of these runs and what was staged in them, on this host; they are no probability in production."
    )
    links: Sequence[tuple[str, str]] = field(default_factory=tuple)  # (label, address) beside the facts


def environment() -> Environment:
    """The templates of all pages."""
    made = Environment(
        loader=PackageLoader("reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"embedded": embedded, "unbroken": unbroken}
    made.tests |= {kind.__name__.lower(): _is(kind) for kind in (Words, Plot, Listing)}
    return made


def _is(kind: type) -> Any:
    return lambda value: isinstance(value, kind)


def render(page: Page) -> str:
    """The page as HTML."""
    return environment().get_template("site.html").render(page=page, plotly=PLOTLY)


def write(html: str, path: Path, site: Path) -> Path:
    """Write a page into the site, with the one copy of plotly that all its pages share."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not (site / PLOTLY).is_file():
        shutil.copyfile(str(files("plotly") / "package_data" / PLOTLY), site / PLOTLY)
    write_atomically(path, html)
    return path


def embedded(value: Any) -> Markup:
    """JSON for a script element: nothing in it can end the element."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"), ensure_ascii=False)
    return Markup(text.replace("<", "\\u003c"))


def unbroken(text: str) -> Markup:
    """Text in which no line ends inside a name such as ``orders-0`` or a share such as ``5 %``."""
    return Markup(re.sub(r"[\w.]+-\d+|[+−±]?[\d.,]+ %", r'<span class="unbroken">\g<0></span>', str(escape(text))))
