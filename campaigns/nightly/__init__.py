"""The same matrix in every nightly run, compared with earlier ones."""

from campaigns.kinds import Kind

KIND = Kind(
    name="nightly",
    title="Nightly run",
    many="Nightly runs",
    help="Run the nightly matrix and alert on regressions",
    why="To see the morning after that a build lost records or became slower.",
    phases=(
        "The control scenario, every scenario on every version, the control again; judged and compared with "
        "earlier runs. Candidate regressions are rerun in pairs with a release, which cannot have changed."
    ),
    expected=(
        "No alert. A correctness failure alerts at once, a slower series only once reruns confirm it; the "
        "webhook receives the summary."
    ),
    reading="The page begins with the alerts; each leads to the runs that show it.",
    examples=("nightly", "nightly --name 2026-03-01"),
    docs_page="docs/nightly.md",
    settings_file="nightly.yaml",
)
