"""What a text names: a cluster file, a connection, or neither."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusters.attached.named import cluster_in, file_of
from history.errors import BadInput


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("mine.yaml", str(Path.cwd() / "mine.yaml")),
        ("/etc/plimsoll/staging.yml", "/etc/plimsoll/staging.yml"),
        ("connection:staging", "staging"),
        ("3.9.1", ""),
        ("build/kafka", ""),
        ("kafka-4.4.0.tgz", ""),
        ("image:kafka-trunk", ""),
    ],
)
def test_files_and_connections_are_clusters(text: str, named: str) -> None:
    """A version or a build is none; paths do not depend on the folder in which a task works."""
    assert cluster_in(text) == named


def test_a_command_reads_files_alone() -> None:
    """A connection is Airflow's."""
    assert file_of("/etc/mine.yaml") == Path("/etc/mine.yaml")
    with pytest.raises(BadInput, match="connection:staging is a connection of Airflow, which a command cannot read"):
        file_of("staging")
