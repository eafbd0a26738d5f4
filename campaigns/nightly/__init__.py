"""The same matrix in every nightly run, compared with earlier ones."""

from campaigns.kinds import Kind

KIND = Kind(
    name="nightly",
    title="Nightly run",
    many="Nightly runs",
    help="Run the nightly matrix and alert on regressions",
    why="To see the next morning whether a build lost records or became slower.",
    phases=(
        "The control scenario runs, then each scenario on each version, then the control scenario again. All runs are "
        "judged and compared with earlier runs. Candidate regressions run again, in pairs with a pinned release."
    ),
    expected=(
        "No alert. A correctness failure alerts at once, a slower series only after reruns confirm it. The webhook "
        "receives the summary."
    ),
    reading="The page begins with the alerts. Each alert links to its runs.",
    examples=("nightly", "nightly --name 2026-03-01"),
    docs_page="docs/nightly.md",
    settings_file="nightly.yaml",
    mixed=True,
    commands=("subject.command",),
)
