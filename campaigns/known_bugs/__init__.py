"""Known bugs of Kafka, reproduced by recipes written for them."""

from campaigns.kinds import Kind, Option

KIND = Kind(
    name="known_bugs",
    title="Known bugs",
    many="Known-bug campaigns",
    help="Reproduce known Kafka bugs, on versions with and without the bug",
    why="To show that the judge finds real bugs in the versions that have them, and nothing in fixed versions.",
    phases=(
        "Each bug's scenario runs several times on a version with the bug and on one without. Then all runs are judged."
    ),
    expected="The bug is found on the first version and not on the second. Runs that missed the bug's "
    "precondition count as neither.",
    reading="One row for each bug and version, with the number of runs that found the bug.",
    examples=("known-bugs --bugs kafka-18991 --tries 1", "known-bugs --kafka 3.9.1"),
    docs_page="docs/known-bugs.md",
    options=(
        Option("bugs", "issue numbers, separated by commas; default: all", "kafka-13091,kafka-14704"),
        Option("kafka", "versions to try instead of each bug's own two", "3.0.1,3.9.1"),
        Option("mode", "where metadata is kept, kraft or zookeeper; default: each version's usual mode", "zookeeper"),
        Option("tries", "fresh clusters for each bug and version", "10", int, default="10"),
    ),
    benchmark=False,
)
