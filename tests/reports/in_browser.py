"""Opening a page from disk in the machine's Chromium, and what may be asked of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

VIEWS = ((1280, "light"), (390, "dark"))  # what fits goes by the width, what can be read by the colours
SEEN_ROWS = 10


@dataclass
class Opened:
    """A page that was opened from disk, and what it asked for and complained about."""

    page: Page
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    @property
    def strangers(self) -> list[str]:
        """What it asked for beside files of this disk."""
        return [address for address in self.requests if not address.startswith(("file:", "data:", "blob:"))]

    @property
    def overflow(self) -> int:
        """Pixels by which it is wider than its window."""
        return int(self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))

    def drawn(self, figure: str) -> list[dict[str, Any]]:
        """Name, x and y of every trace of a figure, as Plotly holds them."""
        traces = "(all) => all.map((t) => ({name: t.name, x: [...(t.x ?? [])], y: [...(t.y ?? [])]}))"
        found: list[dict[str, Any]] = self.page.evaluate(f"({traces})(document.getElementById('plot-{figure}').data)")
        return found

    def table(self, name: str) -> list[list[str]]:
        """The cells of a table, folded away or not."""
        rows = "(rows) => rows.map((row) => [...row.cells].map((cell) => cell.textContent.trim()))"
        found: list[list[str]] = self.page.locator(f"#table-{name} tbody tr").evaluate_all(rows)
        return found

    def inaccessible(self) -> list[str]:
        """What axe-core finds serious or critical, folded parts opened: the rule and the elements.

        Of a long table it sees the ends: it takes milliseconds for each cell, and the rows between are made alike.
        """
        self.page.evaluate("for (const folded of document.querySelectorAll('details')) folded.open = true")
        self.page.evaluate(
            "for (const body of document.querySelectorAll('tbody'))"
            f" for (const row of [...body.rows].slice({SEEN_ROWS}, -{SEEN_ROWS})) row.remove()"
        )
        found = Axe().run(self.page).response["violations"]
        return [
            f"{violation['id']}: {', '.join(node['html'][:120] for node in violation['nodes'][:3])}"
            for violation in found
            if violation["impact"] in ("serious", "critical")
        ]


def open_page(browser: Browser, path: Path, width: int = 1280, scheme: str = "light") -> Opened:
    """Open a page and wait until its figures are drawn."""
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)  # type: ignore[arg-type]  # a literal
    opened = Opened(page)
    page.on("request", lambda request: opened.requests.append(request.url))
    page.on("console", lambda message: opened.complaints.append(message.text))
    page.on("pageerror", lambda error: opened.complaints.append(str(error)))
    page.goto(path.as_uri())
    page.wait_for_selector("body[data-drawn]", state="attached")
    return opened
