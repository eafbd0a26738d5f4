"""One long randomised schedule."""

from campaigns.kinds import FAULT_MIX, RUNTIME, Kind, Option
from history.kafka_versions import DEFAULT_RELEASE

KIND = Kind(
    name="soak",
    title="Soak",
    many="Soaks",
    help="Run one long randomised schedule of faults, with quiet periods between",
    why="To see whether a cluster keeps its guarantees through many faults in a row.",
    phases="One schedule, drawn from a fault mix by the seed, runs under load; then it is judged.",
    expected="Pass: no guarantee is violated, whatever the order of the faults.",
    reading="The page names the run; its timeline shows every fault.",
    examples=("soak --kafka 4.3.0 --minutes 30 --seed 7",),
    docs_page="docs/randomised-schedules.md",
    options=(
        Option("kafka", "a released version, or a folder or tarball of jars", "4.3.0", default=DEFAULT_RELEASE),
        Option("minutes", "about how long the faults go on", "30", int, default="10"),
        FAULT_MIX,
        RUNTIME,
    ),
    benchmark=False,
    reads_run_folders=True,
)
