"""Every claim of the table, answered on one version."""

from campaigns.kinds import Kind, Option

KIND = Kind(
    name="claims",
    title="Claims",
    many="Claims campaigns",
    help="Check 48 claims about replication against one version",
    why="To know which statements about high watermark, ISR, elections and storage hold on this version.",
    phases="A run of each experiment; then every claim is answered from what those runs recorded.",
    expected="Shown, refuted or not observable, for each claim.",
    reading='A table of claims with their evidence; "not observable" means that no run could decide it.',
    examples=("claims --kafka 4.3.0",),
    docs_page="docs/claims.md",
    options=(
        Option("kafka", "the release to check", "4.3.0"),
        Option(
            "mode",
            "where metadata is kept, kraft or zookeeper; by default the version's usual mode",
            "zookeeper",
            choices=("kraft", "zookeeper"),
        ),
    ),
    benchmark=False,
    reads_run_folders=True,
)
