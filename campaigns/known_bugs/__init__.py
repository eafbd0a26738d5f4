"""Known bugs of Kafka, reproduced by recipes written for them."""

from campaigns.kinds import Kind, Option

KIND = Kind(
    name="known_bugs",
    title="Known bugs",
    many="Known-bug campaigns",
    help="Reproduce bugs that Kafka had, on versions with and without them",
    why="To show that the judge finds real bugs where Kafka has them, and nothing where they were fixed.",
    phases=(
        "Each bug's scenario runs on a version with the bug and on one without, several tries each, then all "
        "are judged."
    ),
    expected="Found on the first, clean on the second. A try that missed the bug's precondition counts as neither.",
    reading="One row for each bug and version, with the number of tries that found it.",
    examples=("known-bugs --bugs kafka-18991 --tries 1", "known-bugs --kafka 3.9.1"),
    docs_page="docs/known-bugs.md",
    options=(
        Option("bugs", "issue numbers with commas between; default: all", "kafka-13091,kafka-14704"),
        Option("kafka", "versions to try instead of each bug's own two", "3.0.1,3.9.1"),
        Option("mode", "kraft or zookeeper, for these versions; by default the usual one", "zookeeper"),
        Option("tries", "fresh clusters for each bug and version", "10", int, default="10"),
    ),
    benchmark=False,
)
