"""The notes' walk-throughs as tables."""

from typing import Any

from claims.walkthrough import walkthroughs
from tests.claims.rows import event, note, ns, recording, send, state, still


def test_each_fetch_is_told_with_what_it_should_bring() -> None:
    """Each fetch is shown with its expected effect: the HW stays at 5 until both followers fetch from 6."""
    given = recording(
        [*still(1, 0, 1.1, 5, 6), *still(1, 1.2, 2, 6, 6), *still(2, 0, 2, 5, 6), *still(3, 0, 2, 5, 6)],
        sends=[send(1, 5, producer_id="write-2")],
        lines=[note(0.5, 2, 5), note(0.6, 3, 5), note(1.05, 2, 6), note(1.15, 3, 6)],
    )
    (table,) = walkthroughs({"propagation": given})

    assert [dict(zip(table["columns"], row, strict=True))["noted LEOs"] for row in table["rows"]] == [
        "2: 6, 3: 5",
        "2: 6, 3: 6",
    ]
    assert [(row[5], row[6]) for row in table["rows"]] == [(5, 5), (6, 6)]
    assert [row[4] for row in table["rows"]] == [6, 6]  # the leader's LEO
    assert walkthroughs({"propagation": recording(sends=[send(1, 5, producer_id="write-2")])}) == []


def test_each_describe_is_told_with_what_came_before() -> None:
    """Each describe is shown after its fault, with a row for each partition and the brokers' leader counts."""
    parts = [{"partition": n, "leader": 1, "replicas": [1 + n, 2], "isr": [1]} for n in (0, 1)]
    described = event(2, "described", target="orders", partitions=parts)
    (table,) = walkthroughs({"elections": recording(events=[event(1, "injected", "stop", "broker-3"), described])})

    assert table["rows"][1] == ["2.0 s", "stop broker-3", "orders-1", 1, "2, 2", "1"]


def test_a_log_start_beyond_a_followers_end_is_told() -> None:
    """Each log start is shown with its first and last row; a log that starts at 0 throughout has no table."""
    grows = [each for number in range(1, 5) for each in still(3, number / 10, number / 10, 20, 500 * number)]
    away = [*still(3, 0, 0, 20, 20), *grows, *still(3, 5, 6, 900, 900, log_start_offset=900, incarnation=2)]
    (table,) = walkthroughs({"log_start": recording(away)})

    assert [row[1:] for row in table["rows"]] == [
        ["broker 3", 1, 0, 20, 20],
        ["broker 3", 1, 0, 20, 2000],
        ["broker 3", 2, 900, 900, 900],
    ]
    assert walkthroughs({"log_start": recording(still(3, 0, 1, 20, 20))}) == []


def test_costs_are_those_between_the_boundaries() -> None:
    """Costs are the brokers' bytes for each byte of records; uncounted ones are blank."""
    counted: list[dict[str, Any]] = [
        {"t_ns": ns(at_s), "source": f"broker-{broker}", "name": "disk_write_bytes", "value": value}
        for broker in (1, 2)
        for at_s, value in ((0.5, 1000.0), (3, 1400.0))
    ]
    sends = [send(1 + n / 10, n, producer_id="load-1") for n in range(4)]  # of 100 bytes
    given = recording([], [state(0, replicas=(1, 2))], sends=sends)
    vars(given.run)["usage"] = counted
    (table,) = walkthroughs({"factor": given})

    assert table["rows"] == [[2, 13, "10.00", "10.00", "2.00", None, None]]
