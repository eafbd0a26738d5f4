"""Render pages from data: one template for runs and campaigns.

Pages work on a phone and by keyboard, and open from disk. Every figure has a table. A site holds one copy of Plotly,
which saves 5 MB per run folder.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
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
from history.results.base import Summary
from reports.cells import Table

PLOTLY = f"plotly-{version('plotly')}.min.js"  # a page never loads another version


@dataclass(frozen=True)
class Words:
    """A paragraph or a list; ``kind`` is the style. Text in backticks becomes code."""

    text: str | Sequence[str]
    kind: Literal["", "lead", "note", "absent", "control", "missing"] = ""
    title: str = ""

    @property
    def several(self) -> list[str]:
        return [] if isinstance(self.text, str) else list(self.text)


@dataclass(frozen=True)
class Plot:
    """A figure as plain Plotly JSON (``data``, ``layout`` with a ``height``, no theme colours) and its table.

    ``label`` is for screen readers. Set ``automargin`` on axes with long labels. Without a ``table``, the browser
    builds one from ``figure["table"]`` or the traces; ``stored`` names the data's folder.
    """

    name: str
    figure: dict[str, Any]
    label: str
    caption: str
    table: Table | None = None
    stored: str = ""


@dataclass(frozen=True)
class Listing:
    """A table; ``folded`` hides it behind its caption, ``filtered`` adds a search field, ``whole`` avoids scrolling."""

    name: str
    table: Table
    folded: bool = False
    filtered: bool = False
    whole: bool = False


@dataclass(frozen=True)
class Links:
    """Links as (label, address relative to the page)."""

    addresses: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Command:
    """A command for the terminal."""

    text: str


@dataclass(frozen=True)
class Bar:
    """A span of the strip, in percent; ``number`` replaces a ``label`` that does not fit.

    ``wide`` and ``narrow``: what a desktop and a phone show.
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
    """A part of the page; ``short`` is its title in the navigation."""

    name: str
    title: str
    blocks: Sequence[Block]
    short: str = ""


@dataclass(frozen=True)
class Page:
    """A page: its subject (``kind``), its result in one ``sentence``, and sections.

    ``state`` colours the head, ``state_word`` names it. ``root`` is the path to the site's folder. A page that
    ``lies_outside`` the site does not link to the index.
    """

    title: str
    kind: str
    sentence: str
    sections: Sequence[Section]
    state: Literal["", "pass", "fail", "unknown"] = ""
    state_word: str = ""
    meaning: str = ""
    above: str = ""
    facts: Sequence[tuple[str, str]] = ()
    root: str = "../../"
    footer: str = "Counts are of these runs and their injected faults, on this host; they do not estimate production."
    head: Sequence[Block] = field(default_factory=tuple)
    lies_outside: bool = False

    @property
    def home(self) -> str:
        return "" if self.lies_outside or not self.root else f"{self.root}index.html"

    @property
    def plotly(self) -> list[str]:
        """Return where Plotly may be: in the site, or next to a copied page."""
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


def of_campaign(
    name: str,
    result: Summary,
    sections: Sequence[Section],
    *,
    kind: str,
    means: Mapping[str, str],
    facts: Sequence[tuple[str, str]],
    state_word: str = "",
) -> str:
    """Render a campaign's page; ``means`` explains each state."""
    page = Page(
        title=f"{name} {result.campaign_id}",
        kind=kind,
        sentence=result.sentence,
        state=result.state,
        state_word=state_word,
        meaning=means[result.state],
        facts=facts,
        sections=sections,
    )
    return render(page)


def policy(script: str) -> str:
    """Return a content-security policy that runs only this script and Plotly.

    Plotly writes inline styles, which cannot fetch anything.
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
    """Return whether an address is relative, http or https."""
    try:
        return bool(address) and urlsplit(address).scheme in ("", "http", "https")
    except ValueError:
        return False


def write(html: str, path: Path, site: Path) -> Path:
    """Write a page, and Plotly if the site lacks it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    site.mkdir(parents=True, exist_ok=True)
    if not (site / PLOTLY).is_file():
        write_atomically(site / PLOTLY, (files("plotly") / "package_data" / "plotly.min.js").read_text("utf-8"))
    write_atomically(path, html)
    return path


def embedded(value: Any) -> Markup:
    """Return JSON for a script element; escaping "<" keeps data from ending it."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"), ensure_ascii=False)
    return Markup(text.replace("<", "\\u003c"))


def prose(text: str) -> Markup:
    """Escape text; backticks become code, ``orders-0`` and ``5 %`` never break."""
    marked = re.sub(r"`([^`]+)`", r"<code>\g<1></code>", str(escape(text)))
    return Markup(re.sub(r"[\w.]+-\d+|[+−±]?[\d.,]+ %", r'<span class="unbroken">\g<0></span>', marked))
