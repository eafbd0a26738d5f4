"""Every claim of the table, answered on one version."""

from campaigns.kinds import Kind, Option

KIND = Kind(
    name="claims",
    title="Claims",
    many="Claims campaigns",
    help="Check 48 claims about replication against one version",
    why="To find which statements about high watermark, ISR, elections and storage are true for this version.",
    phases="Each experiment runs once. Then each claim is answered from the recorded runs.",
    expected="Each claim is shown, refuted or not observable.",
    reading='A table of claims with their evidence. "Not observable": no run could decide the claim.',
    examples=("claims --kafka 4.3.0",),
    docs_page="docs/claims.md",
    options=(
        Option("kafka", "the release to check", "4.3.0"),
        Option(
            "mode",
            "where metadata is kept, kraft or zookeeper; default: the version's usual mode",
            "zookeeper",
            choices=("kraft", "zookeeper"),
        ),
    ),
    benchmark=False,
    reads_run_folders=True,
)
