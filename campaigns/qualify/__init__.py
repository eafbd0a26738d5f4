"""Go or no-go for an upgrade."""

from campaigns.kinds import Kind, Option

KIND = Kind(
    name="qualify",
    title="Qualification",
    many="Qualifications",
    help="Qualify an upgrade: go, no-go or not yet, with the evidence of each line",
    why="To find before an upgrade whether it loses records, which bugs it fixes or adds, and what it costs.",
    phases=(
        "A cluster under load is upgraded and another one rolled back, with faults in between. Scenarios, known bugs "
        "that only one side has, clients and performance pairs run on fresh clusters. Then all runs are judged."
    ),
    expected="Go, no-go, or not yet with each reason.",
    reading="A row for each question, with its answer, its evidence and links to its runs.",
    examples=(
        "qualify --from 3.9.0 --to 3.9.1",
        "qualify --from 3.9.1 --to 4.3.1 --scenario ours.yaml --pairs 5",
        "qualify --cluster mine.yaml --scenarios steady,failover",
    ),
    docs_page="docs/qualify.md",
    whole_evidence=True,
    options=(
        Option(
            "from", "the version that you run today: a release, or a folder or tarball of jars", "3.9.0", setting="base"
        ),
        Option("to", "the version to upgrade to: a release, or a folder or tarball of jars", "3.9.1", setting="head"),
        Option(
            "cluster",
            "instead of versions: a cluster of yours, which you upgrade when the command says so",
            "mine.yaml",
        ),
        Option(
            "scenario",
            "a scenario by name or file, whose cluster, topics and load the upgrade runs under",
            "rolling_upgrade",
            default="rolling_upgrade",
        ),
        Option(
            "scenarios",
            "scenarios that the new version must pass, separated by commas; a cluster: steady,group_members",
            "survived_faults,transactions",
            default="survived_faults,group_members,exactly_once",
        ),
        Option("tries", "runs of each scenario and of each bug on each side", "3", int, default="2"),
        Option("pairs", "performance pairs for each view; 0: none", "5", int, default="3"),
        Option("clients", "how many of the latest releases of the Java client; 0: none", "5", int, default="3"),
    ),
    mixed=True,
)
