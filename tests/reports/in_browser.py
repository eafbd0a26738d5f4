"""Pages opened from disk in the machine's Chromium, and queries on them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

WIDTHS = (1280, 390)  # a narrow page hides what a wide one shows
SCHEMES = ("light", "dark")
FEW_OF_EACH_SHAPE = """
for (const body of document.querySelectorAll("tbody")) {
  const met = {};
  for (const row of [...body.rows]) {
    const shape = row.outerHTML.replace(/>[^<]*/g, ">");
    met[shape] = (met[shape] ?? 0) + 1;
    if (met[shape] > 3) row.remove();
  }
}
"""


@dataclass
class Opened:
    """A page opened from disk, with its requests and its console messages."""

    page: Page
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    @property
    def strangers(self) -> list[str]:
        """Return the requests other than files of this disk."""
        return [address for address in self.requests if not address.startswith(("file:", "data:", "blob:"))]

    @property
    def overflow(self) -> int:
        """Return the pixels by which the page is wider than its window."""
        return int(self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))

    def drawn(self, figure: str) -> list[dict[str, Any]]:
        """Return name, x and y of every trace of a figure, as Plotly holds them."""
        traces = "(all) => all.map((t) => ({name: t.name, x: [...(t.x ?? [])], y: [...(t.y ?? [])]}))"
        found: list[dict[str, Any]] = self.page.evaluate(f"({traces})(document.getElementById('plot-{figure}').data)")
        return found

    def table(self, name: str) -> list[list[str]]:
        """Return the cells of a table, collapsed or not."""
        rows = "(rows) => rows.map((row) => [...row.cells].map((cell) => cell.textContent.trim()))"
        found: list[list[str]] = self.page.locator(f"#table-{name} tbody tr").evaluate_all(rows)
        return found

    def inaccessible(self) -> list[str]:
        """Return axe-core's serious and critical findings in each scheme: scheme, rule and elements.

        Collapsed parts are opened. Only a few of the rows that differ in text alone are kept, since axe-core takes
        milliseconds for each cell.
        """
        self.page.evaluate("for (const folded of document.querySelectorAll('details')) folded.open = true")
        self.page.evaluate(FEW_OF_EACH_SHAPE)
        found = []
        for scheme in SCHEMES:
            self.page.emulate_media(color_scheme=scheme)
            found += [
                f"{scheme}, {violation['id']}: {', '.join(node['html'][:120] for node in violation['nodes'][:3])}"
                for violation in Axe().run(self.page).response["violations"]
                if violation["impact"] in ("serious", "critical")
            ]
        return found


def open_page(browser: Browser, path: Path, width: int = 1280) -> Opened:
    """Open a page and wait until its figures are drawn."""
    page = browser.new_page(viewport={"width": width, "height": 900})
    opened = Opened(page)
    page.on("request", lambda request: opened.requests.append(request.url))
    page.on("console", lambda message: opened.complaints.append(message.text))
    page.on("pageerror", lambda error: opened.complaints.append(str(error)))
    page.goto(path.as_uri())
    page.wait_for_selector("body[data-drawn]", state="attached")
    return opened
