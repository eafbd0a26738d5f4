"""Compare two versions of Kafka."""

from campaigns.kinds import Kind, Option

KIND = Kind(
    name="compare",
    title="Comparison",
    many="Comparisons",
    help="Compare two versions, builds or configurations of Kafka",
    why="To know before an upgrade what changes: lost records first, then latency, recovery times and CPU.",
    phases=(
        "Base runs against itself (the noise of this host), then base and head run in pairs, in ABBA order, "
        "each on a fresh cluster. Then all runs are judged and compared."
    ),
    expected=(
        "One verdict for each primary metric: equivalent, improvement, regression or inconclusive, each with "
        "an interval."
    ),
    reading="The page's first sentence is the answer. An inconclusive effect needs more `pairs`.",
    examples=(
        "compare --base 3.0.2 --head 3.1.2",
        "compare --base 4.3.0 --head ../kafka/build/dist --scenario survived_faults --pairs 5",
        "compare --base 4.3.1 --change 'load: {compression: zstd}'",
    ),
    docs_page="docs/comparison.md",
    options=(
        Option("base", "the version that is compared with", "3.0.2"),
        Option("head", "the version that is judged, or a folder or tarball of jars", "3.1.2"),
        Option(
            "change",
            "what only head has: a part of a scenario's file; without --head on base's version",
            "load: {compression: zstd}",
        ),
        Option(
            "scenario",
            "a scenario by name or file, or several with commas between",
            "failover",
            default="benchmark",
            setting="scenarios",
        ),
        Option("pairs", "fresh clusters on each side", "10", int, default="10"),
        Option(
            "of_knee",
            "the load as a share of the rate that both sides sustain on this host, which is measured first; by "
            "default the scenario's own rate",
            "0.5",
        ),
        Option(
            "view",
            "the settings: same_settings (on both sides), default_settings (Kafka's own) or unfinalised (head before "
            "its upgrade is finalised); same_settings where both are one version",
            "default_settings",
            choices=("same_settings", "default_settings", "unfinalised"),
            default="default_settings",
        ),
    ),
)
