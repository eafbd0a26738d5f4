"""Render pages from data: one template for every page of a run or a campaign.

Pages follow the reader's theme, work on a phone and by keyboard, and open from disk. Every figure has a table. A site
holds one copy of Plotly, which pages of runs use too, so that a run folder is 5 MB smaller.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from history.folder import write_atomically
from reports.cells import Table

PLOTLY = f"plotly-{version('plotly')}.min.js"  # with its version: a page never loads another one


@dataclass(frozen=True)
class Words:
    """A paragraph, or a list of several; ``kind`` sets the style, ``title`` a heading above. Text in backticks becomes
    code.
    """

    text: str | Sequence[str]
    kind: Literal["", "lead", "note", "absent", "control", "missing"] = ""
    title: str = ""

    @property
    def several(self) -> list[str]:
        return [] if isinstance(self.text, str) else list(self.text)


@dataclass(frozen=True)
class Plot:
    """A figure as plain Plotly JSON (``data``, ``layout`` with a ``height``, no theme colours) and its table.

    ``label`` describes the figure for screen readers, ``caption`` explains it. It draws only values of its table. Set
    ``automargin`` on axes with long labels.

    Figures of many samples have no ``table``: the browser builds one on opening, from ``figure["table"]`` or the
    traces; ``stored`` names the folder of the data. They select partitions and zoom together.
    """

    name: str
    figure: dict[str, Any]
    label: str
    caption: str
    table: Table | None = None
    stored: str = ""


@dataclass(frozen=True)
class Listing:
    """A table as a block of its own; ``folded`` hides it behind its caption, ``filtered`` adds a search field.

    A long table scrolls in a box, unless it is ``whole``.
    """

    name: str
    table: Table
    folded: bool = False
    filtered: bool = False
    whole: bool = False


@dataclass(frozen=True)
class Links:
    """Links to files, as (label, address relative to the page)."""

    addresses: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Command:
    """A command for the terminal."""

    text: str


@dataclass(frozen=True)
class Bar:
    """A span of the strip, in percent of its width; ``number`` replaces ``label`` where that does not fit.

    ``wide`` and ``narrow`` set what it shows on a desktop and on a phone.
    """

    label: str
    number: str
    left: float
    width: float
    wide: Literal["label", "number", "nothing"] = "label"
    narrow: Literal["label", "number", "nothing"] = "label"
    mark: str = ""


@dataclass(frozen=True)
class Strip:
    """Time from left to right: phases, lanes of overlapping faults, moments, and a scale."""

    phases: Sequence[Bar]
    faults: Sequence[Sequence[Bar]]
    moments: Sequence[tuple[float, bool, str]]  # position in percent, whether it is good, text
    ticks: Sequence[tuple[float, str]]


Block = Words | Plot | Listing | Links | Command | Strip


@dataclass(frozen=True)
class Section:
    """A part of the page; ``name`` is its anchor, ``short`` its title in the navigation."""

    name: str
    title: str
    blocks: Sequence[Block]
    short: str = ""


@dataclass(frozen=True)
class Page:
    """A page: its subject (``kind``, such as "one comparison"), its result in one ``sentence``, and sections.

    ``state`` colours the head (empty without a verdict), ``state_word`` names it. ``root`` is the path to the site's
    folder, "" for the index. A page that ``lies_outside`` the site does not link to the index.
    """

    title: str
    kind: str
    sentence: str
    sections: Sequence[Section]
    state: Literal["", "pass", "fail", "unknown"] = ""
    state_word: str = ""
    meaning: str = ""
    above: str = ""  # the question, above the sentence
    facts: Sequence[tuple[str, str]] = ()
    root: str = "../../"
    footer: str = "Counts are of these runs and their injected faults, on this host; they do not estimate production."
    head: Sequence[Block] = field(default_factory=tuple)  # blocks of the result, between the sentence and the facts
    lies_outside: bool = False

    @property
    def home(self) -> str:
        return "" if self.lies_outside or not self.root else f"{self.root}index.html"

    @property
    def plotly(self) -> list[str]:
        """Return where Plotly may be: in the site, or next to a copied page; empty for a page without figures."""
        has_figure = any(isinstance(block, Plot) for section in self.sections for block in section.blocks)
        return list(dict.fromkeys((f"{self.root}{PLOTLY}", PLOTLY))) if has_figure else []


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"embedded": embedded, "prose": prose, "harmless": is_harmless}
    made.globals["kind_of"] = lambda block: type(block).__name__.lower()
    return made


def render(page: Page) -> str:
    """Render the page as HTML."""
    script = (files("reports") / "templates" / "theme.js").read_text("utf-8")
    return _environment().get_template("page.html").render(page=page, script=Markup(script), policy=policy(script))


def policy(script: str) -> str:
    """Return a content-security policy that runs only this script and the scripts it loads (Plotly).

    Inline styles are allowed because Plotly writes them; they cannot fetch anything. Images are Plotly's own downloads.
    """
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return "; ".join(
        [
            "default-src 'none'",
            f"script-src 'sha256-{digest}' 'strict-dynamic'",
            "style-src 'unsafe-inline'",
            "img-src data: blob:",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )


def is_harmless(address: str) -> bool:
    """Return whether a link's address is a relative path, http or https, never a script."""
    try:
        return bool(address) and urlsplit(address).scheme in ("", "http", "https")
    except ValueError:
        return False


def write(html: str, path: Path, site: Path) -> Path:
    """Write a page, and copy Plotly into the site if it is not there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    site.mkdir(parents=True, exist_ok=True)
    if not (site / PLOTLY).is_file():
        write_atomically(site / PLOTLY, (files("plotly") / "package_data" / "plotly.min.js").read_text("utf-8"))
    write_atomically(path, html)
    return path


def embedded(value: Any) -> Markup:
    """Return JSON for a script element; escaping "<" keeps the data from ending the element."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"), ensure_ascii=False)
    return Markup(text.replace("<", "\\u003c"))


def prose(text: str) -> Markup:
    """Escape text, turn backticks into code, and never break names such as ``orders-0`` or shares such as ``5 %``."""
    marked = re.sub(r"`([^`]+)`", r"<code>\g<1></code>", str(escape(text)))
    return Markup(re.sub(r"[\w.]+-\d+|[+−±]?[\d.,]+ %", r'<span class="unbroken">\g<0></span>', marked))
