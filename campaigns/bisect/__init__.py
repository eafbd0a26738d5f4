"""Find the first bad build by bisection."""

from campaigns.kinds import RUNTIME, Kind, Option

KIND = Kind(
    name="bisect",
    title="Bisection",
    help="Find the first bad build or commit between a good one and a bad one",
    why="To know which change lost records or made it slower.",
    phases=(
        "Both ends are run until it is known what tells bad from good. On the command line the build in the middle is "
        "then made and run, again and again, each until a sequential test has its answer."
    ),
    expected="Pass: the first bad build is found. Unknown: the ends do not differ, or a build in between stays open.",
    reading="A row for each build that was judged, with its evidence; the first bad one stands in the sentence.",
    examples=(
        "bisect --builds 3.3.2,3.4.0,3.4.1,3.5.1 --scenario stale_high_watermark",
        'bisect --builds "$(git -C ../kafka rev-list --reverse --first-parent $GOOD~1..trunk)" --command ./build.sh '
        "--kafka ../kafka/build.tgz --scenario benchmark --metric latency_p99_ms --phase measured",
    ),
    docs_page="docs/bisect.md",
    options=(
        Option(
            "builds",
            "the builds in their order, with commas or blanks between; the first is good, the last is bad",
            "3.3.2,3.4.0,3.4.1,3.5.1",
        ),
        Option("command", "what makes $BUILD, in bash; nothing: the builds are there", "./build.sh $BUILD"),
        Option(
            "kafka",
            "where the command leaves a build: a folder of jars, an archive or an image; nothing: at its own name",
            "../kafka/build.tgz",
        ),
        Option("scenario", "a scenario by name or file", "stale_high_watermark", default="survived_faults"),
        Option("metric", "what is slower in the bad build; nothing: a guarantee is violated", "latency_p99_ms"),
        Option("phase", "the phase in which the metric is measured; a metric of the whole run has none", "measured"),
        Option("tries", "runs of each end, or pairs of both ends for a metric", "5", int, default="3"),
        Option(
            "least",
            "the smallest share of runs, in percent, in which a bad build violates a guarantee; of a metric the "
            "smallest change, in percent, of a bad build",
            "50",
            int,
            default="10",
        ),
        Option("limit", "runs or pairs after which a build in between is left open", "100", int, default="80"),
        RUNTIME,
    ),
    searches=True,
)
