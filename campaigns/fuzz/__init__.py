"""Many short randomised schedules, to find one that violates a guarantee."""

from campaigns.kinds import FAULT_MIX, RUNTIME, Kind, Option
from history.kafka_versions import DEFAULT_RELEASE

KIND = Kind(
    name="fuzz",
    title="Fuzzing",
    many="Fuzzing campaigns",
    help="Run short randomised schedules of faults, and shrink one that violates a guarantee",
    why="To find bugs for which no scenario exists.",
    phases=(
        "Schedules are generated from a fault mix and a seed and run on fresh clusters, every second one under load. "
        "All are judged. The first schedule that violates a guarantee is then reduced to the steps that cause it, one "
        "run after the other."
    ),
    expected="Pass: no guarantee is violated. Fail names the schedules that violate one.",
    reading="A violation is an S1 invariant or anomaly that the configuration does not permit; see its run's page.",
    examples=(
        "fuzz --kafka 3.0.2 --schedules 50 --seed 1",
        "fuzz --kafka 3.0.2 --fault-mix docs/examples/fault_mixes/at_rest.yaml",
    ),
    docs_page="docs/randomised-schedules.md",
    options=(
        Option("kafka", "a released version, or a folder or tarball of jars", "3.0.2", default=DEFAULT_RELEASE),
        Option("schedules", "the number of schedules; their seeds are consecutive", "50", int, default="20"),
        Option("seconds", "the approximate length of each schedule", "90", int, default="90"),
        FAULT_MIX,
        RUNTIME,
        Option("shrink_runs", "runs for reducing a schedule", "40", int, default="40"),
    ),
    benchmark=False,
    reads_run_folders=True,
)
