"""Clients of several releases against one version of the brokers."""

from campaigns.kinds import RUNTIME, Kind, Option
from history.kafka_versions import CLIENT_RELEASES

KIND = Kind(
    name="clients",
    title="Client matrix",
    one="Client matrix",
    many="Client matrices",
    help="Run the Java clients of several releases against one version of Kafka",
    why="To find before an upgrade whether each client version keeps its guarantees.",
    phases="The scenario runs once for each client release, on a fresh cluster. Then all runs are judged.",
    expected="Each client release passes, fails, or is unknown.",
    reading="One row for each client, with a link to its run.",
    examples=("clients --kafka 4.3.1 --clients 3", "clients --kafka 4.3.1 --clients 3.9.1,2.8.2 --runtime process"),
    docs_page="docs/client-matrix.md",
    options=(
        Option(
            "kafka",
            "the brokers: a released version, or a folder or tarball of jars",
            "3.9.1",
            default=CLIENT_RELEASES[0],
        ),
        Option(
            "clients", "how many of the latest releases, or releases separated by commas", "3.9.1,2.8.2", default="5"
        ),
        Option(
            "scenario", "a scenario by name or file, whose load has engine: java", "java_client", default="java_client"
        ),
        RUNTIME,
    ),
    benchmark=False,
)
