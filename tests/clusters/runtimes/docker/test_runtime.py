"""Nodes as containers, with a fake daemon."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from docker.errors import APIError, DockerException

from clusters.runtimes.docker import daemon, image
from clusters.runtimes.docker import runtime as runtime_module
from clusters.runtimes.docker.daemon import Daemon
from clusters.runtimes.docker.namespaces import Namespaces
from clusters.runtimes.docker.runtime import DockerRuntime
from clusters.runtimes.nodes import Node
from clusters.runtimes.runtime import Flow
from history.errors import BadInput, HarnessError

NODE = Node("broker-1", "broker", "172.30.7.11", Path("/w"), "java", (), node_id=1, disk_bytes=10**6)


class Networks:
    """Docker's networks, with some ranges in use."""

    def __init__(self, taken: set[str], error: str = "Pool overlaps with other one on this address space") -> None:
        self.taken, self.error = taken, error
        self.created: list[dict[str, Any]] = []

    def create(self, name: str, *, ipam: Any, **settings: Any) -> None:
        subnet = ipam["Config"][0]["Subnet"]
        if subnet in self.taken:
            raise APIError(self.error)
        self.created.append({"name": name, "subnet": subnet, **settings})


def runtime(networks: Networks, run: str = "/runs/20260101-120000-a-scenario-3-9-1-beef") -> DockerRuntime:
    """Return the runtime of a run on a fake daemon."""
    opened = DockerRuntime(Path(run))
    opened._daemon.__dict__["client"] = SimpleNamespace(networks=networks)  # in the place of the cached client
    return opened


@pytest.fixture(autouse=True)
def interfaces(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[SimpleNamespace]]:
    """The host's network interfaces; tests may add one."""
    held = {
        "lo": [SimpleNamespace(family=socket.AF_INET, address="127.0.0.1", netmask="255.0.0.0")],
        "tun0": [SimpleNamespace(family=socket.AF_INET6, address="fe80::1", netmask=None)],
    }
    monkeypatch.setattr(runtime_module.psutil, "net_if_addrs", lambda: held)
    return held


@pytest.mark.parametrize(("address", "netmask"), [("172.30.7.1", "255.255.255.0"), ("172.30.200.9", "255.255.0.0")])
def test_a_range_that_the_host_has_is_refused_when_asked_for(
    interfaces: dict[str, list[SimpleNamespace]], address: str, netmask: str
) -> None:
    """A requested range that overlaps a host interface, such as a VPN, is rejected; another range is accepted."""
    interfaces["br0"] = [SimpleNamespace(family=socket.AF_INET, address=address, netmask=netmask)]
    networks = Networks(set())

    with pytest.raises(
        BadInput, match=r"^--subnet=172\.30\.7 overlaps 172\.30\..*, in use by br0; name another range or none"
    ):
        runtime(networks).reserve("172.30.7")
    assert networks.created == []
    assert runtime(networks).reserve("172.31.7") == "172.31.7"


def test_without_a_wish_a_range_of_the_hosts_is_passed_over(interfaces: dict[str, list[SimpleNamespace]]) -> None:
    """Without a requested range, ranges of host interfaces are skipped."""
    first = runtime(Networks(set())).reserve(None)
    interfaces["br0"] = [SimpleNamespace(family=socket.AF_INET, address=f"{first}.1", netmask="255.255.255.0")]

    assert runtime(Networks(set())).reserve(None) != first


@pytest.mark.parametrize("subnet", ["172.30.7.0/24", "172.30.7", "10.1.2.0/24", "192.168.77"])
def test_a_private_range_is_taken_as_asked(subnet: str) -> None:
    """A requested private range becomes an internal network with the run's label."""
    networks = Networks(set())
    prefix = runtime(networks).reserve(subnet)

    assert prefix == subnet.removesuffix(".0/24")
    assert networks.created[0]["subnet"] == f"{prefix}.0/24"
    assert networks.created[0]["internal"] is True
    assert networks.created[0]["labels"] == {"plimsoll.run": "/runs/20260101-120000-a-scenario-3-9-1-beef"}


@pytest.mark.parametrize(
    "subnet",
    ["", "here", "172.30.7.5/24", "172.30.0.0/16", "172.30.7.0/25", "8.8.8.0/24", "127.0.0", "fd00::/24"],
)
def test_what_is_no_private_range_is_refused(subnet: str) -> None:
    """Public, loopback, IPv6 and malformed ranges, and sizes other than /24, are rejected with the allowed form."""
    networks = Networks(set())

    with pytest.raises(BadInput, match=r"is no (private )?/24 range such as 172\.30\.7\.0/24") as refused:
        runtime(networks).reserve(subnet)
    assert str(refused.value).startswith(f"--subnet={subnet} ")
    assert networks.created == []


def test_a_range_in_use_is_refused_when_asked_for() -> None:
    """A requested range that is in use is rejected and not replaced by another one."""
    networks = Networks({"172.30.7.0/24"})

    with pytest.raises(BadInput, match=r"172\.30\.7 overlaps a network that is in use; name another range or none"):
        runtime(networks).reserve("172.30.7")
    assert networks.created == []


def test_without_a_wish_the_next_free_range_is_taken() -> None:
    """Without a requested range, the next free range is used."""
    first = runtime(Networks(set())).reserve(None)
    second = runtime(Networks({f"{first}.0/24"})).reserve(None)

    assert first != second
    assert second == runtime(Networks({f"{first}.0/24"})).reserve(None)


def test_another_error_of_the_daemon_is_no_range_in_use() -> None:
    """Another daemon error is raised at once, without trying further ranges."""
    networks = Networks({"172.30.7.0/24"}, error="permission denied")

    with pytest.raises(HarnessError, match=r"Docker could not create the network plimsoll-.*permission denied"):
        runtime(networks).reserve("172.30.7")


def test_names_stay_short_enough_for_dns() -> None:
    """Names have at most 63 characters, the limit of Docker's reverse DNS, and keep the run's token."""
    networks = Networks(set())
    runtime(networks, "/runs/20260101-120000-" + "x" * 40 + "-beef").reserve("172.30.7")

    name = networks.created[0]["name"]
    assert name == "plimsoll-20260101-120000-beef"
    assert len(f"{name}-controller-net") <= 63


class Pausing:
    """A container that pauses at the third attempt, or whose pause Docker rejects."""

    def __init__(self, error: str) -> None:
        self.error, self.tries = error, 0

    def pause(self) -> None:
        self.tries += 1
        if self.tries < 3:
            raise APIError(self.error)


def test_a_pause_that_the_kernel_gave_up_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pause that the kernel gave up is tried again; any other error is raised at once."""
    busy, refused = Pausing("OCI runtime pause failed: unable to freeze: unknown"), Pausing("is not running")
    monkeypatch.setattr(Daemon, "container", lambda _self, name: {"busy": busy, "refused": refused}[name])

    runtime(Networks(set())).pause("busy")
    with pytest.raises(HarnessError, match="Docker could not pause refused: is not running"):
        runtime(Networks(set())).pause("refused")

    assert (busy.tries, refused.tries) == (3, 1)


CALLS: dict[str, Callable[[DockerRuntime], object]] = {
    "start broker-1": lambda opened: opened.start(NODE),
    "send SIGKILL to broker-1": lambda opened: opened.kill("broker-1", "SIGKILL"),
    "pause broker-1": lambda opened: opened.pause("broker-1"),
    "resume broker-1": lambda opened: opened.resume("broker-1"),
    "tell the state of broker-1": lambda opened: opened.state("broker-1"),
    "tell the process of broker-1": lambda opened: opened.usage("broker-1"),
    "limit the CPU time of broker-1 to 0.5": lambda opened: opened.resource_limits.limit_cpu("broker-1", 0.5, None),
    "time a write to the disk of broker-1": lambda opened: opened.resource_limits.time_write(NODE, 1000),
    "limit what broker-1 sends": lambda opened: opened.resource_limits.limit_egress(NODE, 1e6),
    "drop packets of broker-1": lambda opened: opened.network.drop_packets(
        NODE, "cut-1", [Flow(None, None, 9092, "source")]
    ),
    "make a disk of 1000000 bytes for broker-1": lambda opened: opened.disks.run_script(NODE, "df"),
}


def refusing(error: Exception) -> Callable[..., None]:
    """Return a call that raises this error."""

    def refuse(*_: object, **__: object) -> None:
        raise error

    return refuse


@pytest.mark.parametrize("error", [APIError("it hangs"), OSError("it hangs")])
@pytest.mark.parametrize("what", CALLS)
def test_what_docker_refuses_is_an_error_of_the_harness(
    what: str, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Docker error in any call becomes a harness error with attempt, node and reason, so a campaign can continue."""
    opened = runtime(Networks(set()))
    calls = dict.fromkeys(("create", "get", "run"), refusing(error))
    opened._daemon.__dict__["client"] = SimpleNamespace(
        containers=SimpleNamespace(**calls), volumes=SimpleNamespace(**calls)
    )
    monkeypatch.setattr(Namespaces, "holder", lambda *_: "holder")
    for module in (runtime_module, image):
        monkeypatch.setattr(module, "node_image", lambda _: "x")
    monkeypatch.setattr(runtime_module, "remove_container", lambda *_: None)

    with pytest.raises(HarnessError, match=rf"^Docker could not {re.escape(what)}.*: it hangs\.$"):
        CALLS[what](opened)


@pytest.mark.parametrize("what", CALLS)
def test_a_daemon_that_is_gone_is_an_error_of_the_harness(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the daemon is down, each call raises a harness error."""
    monkeypatch.setattr(daemon.docker, "from_env", refusing(DockerException("no socket")))

    with pytest.raises(HarnessError, match=r"^Docker could not .*broker-1.*: no socket\.$"):
        CALLS[what](DockerRuntime(Path("/runs/a-run")))
