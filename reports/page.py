"""Pages as data: a sentence, facts, and sections of words, figures and tables; one template renders them all.

So the pages of runs and campaigns look and work alike: dark and light, on a phone, by keyboard, from disk. Every figure
has its table behind it. Plotly lies once in the site, also for the pages of runs.
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

PLOTLY = f"plotly-{version('plotly')}.min.js"  # by version, so that no page draws with another one's


@dataclass(frozen=True)
class Words:
    """A paragraph, or a list where there are several; ``kind`` is how it looks, ``title`` a heading above it.

    What stands in backticks is set as code.
    """

    text: str | Sequence[str]
    kind: Literal["", "lead", "note", "absent", "control", "missing"] = ""
    title: str = ""

    @property
    def several(self) -> list[str]:
        return [] if isinstance(self.text, str) else list(self.text)


@dataclass(frozen=True)
class Plot:
    """A figure as plain Plotly JSON (``data`` and ``layout`` with a ``height``; no colours of the page) and its table.

    ``label`` says to who cannot see it what is drawn; ``caption`` how to read it. Plotly is asked to draw nothing that
    the table does not hold. An axis with long labels sets ``automargin`` itself.

    Figures of many samples have no ``table``: the browser makes it of ``figure["table"]`` or of the traces once it is
    opened, and ``stored`` names the folder of the same data. Their ``partitions`` are chosen, and zoomed, together.
    """

    name: str
    figure: dict[str, Any]
    label: str
    caption: str
    table: Table | None = None
    stored: str = ""


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


@dataclass(frozen=True)
class Links:
    """(label, address relative to the page) of files."""

    addresses: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Command:
    """What may be typed in a terminal."""

    text: str


@dataclass(frozen=True)
class Bar:
    """A span of the strip, in percent of its width; ``number`` stands for it where ``label`` has no room.

    ``wide`` and ``narrow`` say what it shows on a desk and on a phone.
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
    """Time from left to right: phases, a row of faults for each that overlaps, moments, and a scale."""

    phases: Sequence[Bar]
    faults: Sequence[Sequence[Bar]]
    moments: Sequence[tuple[float, bool, str]]  # place, whether it is good, text
    ticks: Sequence[tuple[float, str]]


Block = Words | Plot | Listing | Links | Command | Strip


@dataclass(frozen=True)
class Section:
    """A part of the page; ``name`` is its anchor, ``short`` its name in the navigation."""

    name: str
    title: str
    blocks: Sequence[Block]
    short: str = ""


@dataclass(frozen=True)
class Page:
    """``kind`` says what this page is about ("one comparison"), ``sentence`` its one result.

    ``state`` colours the head (pass, fail, unknown; nothing for a page that judges nothing) and ``state_word`` says
    the same in a word. ``root`` is the way from the page to the site's own folder, "" for the index; a page that
    ``lies_outside`` of it has no link to the index, which may not be there.
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
    footer: str = "Counts are of these runs and their injected faults, on this host; they do not estimate production."
    head: Sequence[Block] = field(default_factory=tuple)  # what belongs to the result, between it and the facts
    lies_outside: bool = False

    @property
    def home(self) -> str:
        return "" if self.lies_outside or not self.root else f"{self.root}index.html"

    @property
    def plotly(self) -> list[str]:
        """Where Plotly may lie: in the site, or beside a page that was copied away from it; nowhere without figures."""
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
    """The page as HTML."""
    script = (files("reports") / "templates" / "theme.js").read_text("utf-8")
    return _environment().get_template("page.html").render(page=page, script=Markup(script), policy=policy(script))


def policy(script: str) -> str:
    """The content-security policy of a page: this script runs, what it loads itself (Plotly), and nothing else.

    Styles may stand in the page: Plotly writes them, and they can fetch nothing. The pictures are its own downloads.
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
    """Whether a link may lead there: to a file beside the page, or to the web; never to a script."""
    try:
        return bool(address) and urlsplit(address).scheme in ("", "http", "https")
    except ValueError:
        return False


def write(html: str, path: Path, site: Path) -> Path:
    """Write a page, and where the site has none yet the one copy of Plotly that all pages share."""
    path.parent.mkdir(parents=True, exist_ok=True)
    site.mkdir(parents=True, exist_ok=True)
    if not (site / PLOTLY).is_file():
        write_atomically(site / PLOTLY, (files("plotly") / "package_data" / "plotly.min.js").read_text("utf-8"))
    write_atomically(path, html)
    return path


def embedded(value: Any) -> Markup:
    """JSON for a script element: nothing in it can end the element."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"), ensure_ascii=False)
    return Markup(text.replace("<", "\\u003c"))


def prose(text: str) -> Markup:
    """Text with code in backticks; no line ends inside a name such as ``orders-0`` or a share such as ``5 %``."""
    marked = re.sub(r"`([^`]+)`", r"<code>\g<1></code>", str(escape(text)))
    return Markup(re.sub(r"[\w.]+-\d+|[+−±]?[\d.,]+ %", r'<span class="unbroken">\g<0></span>', marked))
