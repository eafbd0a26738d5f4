"""Rows of requests, from literal ones."""

from tests.acceptance.requests import SECOND_NS, replica_ids, rows
from tests.wire_proxy import Request


def request(second: int, name: str = "Fetch", client_id: str | None = "plimsoll-0a3f-prober") -> Request:
    """Return a request to broker 1."""
    return Request(second * SECOND_NS, 1, name, client_id, -1)


def test_requests_are_counted_by_name_and_client() -> None:
    """The digits of a run are left out; the rate counts the steady part alone, for each of three brokers."""
    found = rows(
        "run", [request(1), request(2), request(11), request(12, client_id=None)], (2 * SECOND_NS, 12 * SECOND_NS)
    )
    assert [(row["request"], row["client_id"], row["count"], row["per_s_and_broker"]) for row in found] == [
        ("Fetch", "", 1, 0.0),
        ("Fetch", "plimsoll-…-prober", 3, 0.07),
    ]


def test_without_a_steady_part_there_is_no_rate() -> None:
    """A short command has counts only; a client id that is not a run's is not changed."""
    (row,) = rows("clean", [request(1, client_id="plimsoll-world")])
    assert (row["client_id"], row["count"], row["per_s_and_broker"]) == ("plimsoll-world", 1, None)


def test_ids_of_brokers_are_found() -> None:
    """A consumer's and a debugging consumer's ids are none."""
    sent = [request(1)._replace(replica_id=number) for number in (-1, -2, None, 3)]
    assert replica_ids(sent) == {3}
