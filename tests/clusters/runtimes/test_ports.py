"""Where nodes listen."""

from __future__ import annotations

import pytest

from clusters.runtimes.ports import PORTS, Endpoint, endpoints_of


def test_no_two_ports_are_the_same() -> None:
    """A fault that filters by port must hit one listener only."""
    assert len(set(PORTS.values())) == len(PORTS)


@pytest.mark.parametrize(("host", "text"), [("b-1.staging", "b-1.staging:9092"), ("fd00::7", "[fd00::7]:9092")])
def test_an_endpoint_is_host_and_port(host: str, text: str) -> None:
    """An endpoint is written as host and port; an IPv6 address has brackets."""
    assert str(Endpoint(host, 9092)) == text


@pytest.mark.parametrize(
    ("role", "listeners"),
    [
        ("broker", {"REPLICATION": 9091, "CLIENT": 9092, "PROBE": 9093, "METRICS": 9095}),
        ("controller", {"CONTROLLER": 9094}),
        ("zookeeper", {"ZOOKEEPER": 2181}),
        ("prober", {}),
    ],
)
def test_each_role_has_its_listeners(role: str, listeners: dict[str, int]) -> None:
    """Servers listen at their address on the ports of their role; clients listen nowhere."""
    assert endpoints_of(role, "127.1.1.11") == {name: ("127.1.1.11", port) for name, port in listeners.items()}
