"""One long randomised schedule."""

from campaigns.kinds import FAULT_MIX, RUNTIME, Kind, Option
from history.kafka_versions import DEFAULT_RELEASE

KIND = Kind(
    name="soak",
    title="Soak",
    many="Soaks",
    help="Run one long randomised schedule of faults with quiet periods",
    why="To test whether a cluster keeps its guarantees through many faults in a row.",
    phases="One schedule, generated from a fault mix and a seed, runs under load. Then the run is judged.",
    expected="Pass: no guarantee is violated.",
    reading="The page links the run, whose timeline shows each fault.",
    examples=("soak --kafka 4.3.0 --minutes 30 --seed 7",),
    docs_page="docs/randomised-schedules.md",
    options=(
        Option("kafka", "a released version, or a folder or tarball of jars", "4.3.0", default=DEFAULT_RELEASE),
        Option("minutes", "the approximate length of the schedule, in minutes", "30", int, default="10"),
        FAULT_MIX,
        RUNTIME,
    ),
    benchmark=False,
    reads_run_folders=True,
)
