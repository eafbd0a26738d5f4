"""Commands on a cluster of others send only the requests that docs/own-cluster-safety.md lists."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.requests import RESULTS, counted_cluster, replica_ids, sent
from tests.rows import read

pytestmark = pytest.mark.cluster


def test_a_watch_sends_only_what_the_page_lists(tmp_path: Path) -> None:
    """Counted on the wire by name and client id; none carries the replica id of a broker."""
    listed = {(row["request"], row["client_id"]) for row in read(RESULTS) if row["command"] == "watch"}
    with counted_cluster(tmp_path) as counted:
        requests = counted.watch(5)
    assert {("Fetch", "plimsoll-watch"), ("Metadata", "plimsoll-watch")} <= set(map(sent, requests)) <= listed
    assert {request.broker for request in requests} == {1, 2, 3}
    assert replica_ids(requests) == set()
