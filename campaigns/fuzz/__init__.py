"""Many short randomised schedules, to find one that violates a guarantee."""

from campaigns.kinds import FAULT_MIX, RUNTIME, Kind, Option
from history.kafka_versions import DEFAULT_RELEASE

SHRINK_RUNS = 40

KIND = Kind(
    name="fuzz",
    title="Fuzzing",
    many="Fuzzing campaigns",
    help="Run short randomised schedules of faults, and shrink one that violates a guarantee",
    why="To find what nobody wrote a scenario for.",
    phases=(
        "Schedules are drawn from a fault mix by seed and run on fresh clusters, every second one with load; all are "
        "judged. On the command line the first one that violates a guarantee is then shrunk to the steps that matter."
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
        Option("schedules", "how many are drawn; the seeds follow one another", "50", int, default="20"),
        Option("seconds", "about how long each is", "90", int, default="90"),
        FAULT_MIX,
        RUNTIME,
        Option(
            "shrink_runs", "runs to spend on a smaller schedule", "40", int, default=str(SHRINK_RUNS), planned=False
        ),
    ),
    benchmark=False,
    reads_run_folders=True,
)
