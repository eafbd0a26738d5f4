"""Find the first bad build by bisection."""

from campaigns.kinds import RUNTIME, Kind, Option

KIND = Kind(
    name="bisect",
    title="Bisection",
    many="Bisections",
    help="Find the first bad build or commit between a good one and a bad one",
    why="To know which change lost records or made it slower.",
    phases=(
        "The first and last build run until a sequential test distinguishes them. The middle of "
        "the remaining builds is then built and run until a sequential test decides whether it is good or bad, and so "
        "on."
    ),
    expected="Pass: the first bad build is found. Unknown: the ends do not differ, or a build in between is undecided.",
    reading="A row for each build that was tested, with its evidence. The first sentence names the first bad build.",
    examples=(
        "bisect --builds 3.3.2,3.4.0,3.4.1,3.5.1 --scenario stale_high_watermark",
        'bisect --builds "$(git -C ../kafka rev-list --reverse --first-parent $GOOD~1..trunk)" --command ./build.sh '
        "--kafka ../kafka/build.tgz --scenario benchmark --metric latency_p99_ms --phase measured",
    ),
    docs_page="docs/bisect.md",
    options=(
        Option(
            "builds",
            "the builds in their order, separated by commas or blanks; the first is good, the last is bad",
            "3.3.2,3.4.0,3.4.1,3.5.1",
        ),
        Option("command", "a bash command that builds $BUILD; omit it if all builds exist", "./build.sh $BUILD"),
        Option(
            "kafka",
            "where the command leaves a build: a folder of jars, an archive or an image; default: the build's name",
            "../kafka/build.tgz",
        ),
        Option("scenario", "a scenario by name or file", "stale_high_watermark", default="survived_faults"),
        Option(
            "metric",
            "the metric that is worse in a bad build; default: a bad build violates a guarantee",
            "latency_p99_ms",
        ),
        Option("phase", "the phase in which the metric is measured; omit it for a metric of the whole run", "measured"),
        Option("tries", "runs of each end, or pairs of both ends for a metric", "5", int, default="3"),
        Option(
            "least",
            "the smallest share of a bad build's runs that violate a guarantee, or its smallest change of the metric, "
            "in percent",
            "50",
            int,
            default="10",
        ),
        Option("limit", "runs or pairs after which a build in between is undecided", "100", int, default="80"),
        RUNTIME,
    ),
    commands=("command",),
)
