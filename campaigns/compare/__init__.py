"""Compare two versions of Kafka."""

from campaigns.kinds import Kind, Option

KIND = Kind(
    name="compare",
    title="Comparison",
    many="Comparisons",
    help="Compare two versions, builds or configurations of Kafka",
    why="To find what an upgrade changes: lost records first, then latency, recovery times and CPU.",
    phases=(
        "Base is compared with itself, to measure the noise of this host. Then base and head run in pairs, in ABBA "
        "order. Each run has a fresh cluster. Then all runs are judged and compared. By default there are 30 runs."
    ),
    expected="For each primary metric: improvement, regression, equivalent or inconclusive, with an interval.",
    reading="The page's first sentence is the result. An inconclusive effect needs more `pairs`.",
    examples=(
        "compare --base 3.0.2 --head 3.1.2",
        "compare --base 4.3.0 --head ../kafka/build/dist --scenario survived_faults --pairs 5",
        "compare --base 4.3.1 --change 'load: {compression: zstd}'",
    ),
    docs_page="docs/comparison.md",
    options=(
        Option("base", "the version to compare with", "3.0.2"),
        Option("head", "the version to test: a release, or a folder or tarball of jars", "3.1.2"),
        Option(
            "change",
            "settings of a scenario's file for head only; without --head, head has base's version",
            "load: {compression: zstd}",
        ),
        Option(
            "scenario",
            "a scenario by name or file, or several separated by commas",
            "failover",
            default="benchmark",
            setting="scenarios",
        ),
        Option("pairs", "pairs of runs, one of base and one of head", "10", int, default="10"),
        Option(
            "of_knee",
            "the load as a share of the rate that both sides sustain on this host (measured first); default: the "
            "scenario's rate",
            "0.5",
        ),
        Option(
            "view",
            "the settings: same_settings (on both sides), default_settings (Kafka's default timers) or unfinalised "
            "(head before its upgrade is finalised); default if both sides have one version: same_settings",
            "default_settings",
            choices=("same_settings", "default_settings", "unfinalised"),
            default="default_settings",
        ),
    ),
)
