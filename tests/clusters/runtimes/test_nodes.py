"""Nodes and their folders."""

from __future__ import annotations

from pathlib import Path

from clusters.runtimes.nodes import Node


def test_the_log_lies_in_the_nodes_own_folder() -> None:
    """So that collecting the folder collects it."""
    node = Node("broker-1", "broker", "127.1.1.11", Path("/w/broker-1"), "java", ())

    assert node.log == Path("/w/broker-1/server.log")


def test_a_replica_is_found_in_whichever_log_directory_has_it(tmp_path: Path) -> None:
    """One that is nowhere would be in the first; metadata lie apart where there are several."""
    node = Node("broker-1", "broker", "127.1.1.11", tmp_path, "java", (), log_dir_count=3)
    (tmp_path / "data-2" / "orders-0").mkdir(parents=True)

    assert [folder.name for folder in node.log_dirs] == ["data", "data-2", "data-3"]
    assert [node.log_dir_of(replica).name for replica in ("orders-0", "orders-1")] == ["data-2", "data"]
    assert node.metadata_dir == tmp_path / "metadata"
    alone = Node("broker-1", "broker", "127.1.1.11", tmp_path, "java", ())
    assert [*alone.log_dirs, alone.metadata_dir] == [tmp_path / "data"] * 2
