"""The docker runtime, with the daemon's answers played."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
from docker.errors import APIError, DockerException, NotFound

from clusters.nodes import Node
from clusters.runtimes import Limited
from clusters.runtimes import docker as module
from clusters.runtimes.docker import (
    DockerRuntime,
    block_device,
    daemon_answers,
    fetch_what_nodes_need,
    runs_with_leftovers,
)
from history.errors import BadInput, HarnessError


class Networks:
    """Docker's networks, of which some ranges are taken."""

    def __init__(self, taken: set[str], error: str = "Pool overlaps with other one on this address space") -> None:
        self.taken, self.error = taken, error
        self.created: list[dict[str, Any]] = []

    def create(self, name: str, *, ipam: Any, **settings: Any) -> None:
        subnet = ipam["Config"][0]["Subnet"]
        if subnet in self.taken:
            raise APIError(self.error)
        self.created.append({"name": name, "subnet": subnet, **settings})


class Daemon:
    """As much of a client as reserving needs."""

    def __init__(self, networks: Networks) -> None:
        self.networks = networks


def runtime(networks: Networks, run: str = "/runs/20260101-120000-a-scenario-3-9-1-beef") -> DockerRuntime:
    """The runtime of a run, talking to a played daemon."""
    opened = DockerRuntime(Path(run))
    opened.__dict__["_docker"] = Daemon(networks)  # in the place of the cached client
    return opened


@pytest.mark.parametrize("subnet", ["172.30.7.0/24", "172.30.7", "10.1.2.0/24", "192.168.77"])
def test_a_private_range_is_taken_as_asked(subnet: str) -> None:
    """The network is internal and carries the run's label, by which it is found again."""
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
    """A host's address, another size, a public one, the loopback: the sentence says what is allowed."""
    networks = Networks(set())

    with pytest.raises(BadInput, match=r"is no (private )?/24 range such as 172\.30\.7\.0/24") as refused:
        runtime(networks).reserve(subnet)
    assert str(refused.value).startswith(f"SUBNET={subnet} ")
    assert networks.created == []


def test_a_range_in_use_is_refused_when_asked_for() -> None:
    """It is never replaced silently by another one."""
    networks = Networks({"172.30.7.0/24"})

    with pytest.raises(BadInput, match=r"172\.30\.7 overlaps a network that is in use; name another range or none"):
        runtime(networks).reserve("172.30.7")
    assert networks.created == []


def test_without_a_wish_the_next_free_range_is_taken() -> None:
    """Those in use are passed over."""
    first = runtime(Networks(set())).reserve(None)
    second = runtime(Networks({f"{first}.0/24"})).reserve(None)

    assert first != second
    assert second == runtime(Networks({f"{first}.0/24"})).reserve(None)


def test_another_error_of_the_daemon_is_no_range_in_use() -> None:
    """64 more tries would hide it."""
    networks = Networks({"172.30.7.0/24"}, error="permission denied")

    with pytest.raises(HarnessError, match=r"Docker could not create the network plimsoll-.*permission denied"):
        runtime(networks).reserve("172.30.7")


def test_names_stay_short_enough_for_dns() -> None:
    """Docker's DNS answers no reverse look-up beyond 63 characters; the run's token stays in the name."""
    networks = Networks(set())
    runtime(networks, "/runs/20260101-120000-" + "x" * 40 + "-beef").reserve("172.30.7")

    name = networks.created[0]["name"]
    assert name == "plimsoll-20260101-120000-beef"
    assert len(f"{name}-controller-net") <= 63


def test_shaping_is_set_at_every_sender(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a follower receives is limited where it is sent, by address and port; None takes it away."""
    scripts: list[tuple[str, str]] = []
    monkeypatch.setattr(DockerRuntime, "_in_namespace", lambda _self, node, script: scripts.append((node.name, script)))
    a, b, c = (Node(name, "broker", f"172.30.7.{n}", Path("/w"), "java", ()) for n, name in enumerate("abc", 11))
    shaper = runtime(Networks(set()))
    shaper.limit_ingress(a, [b, c], 9091, 1000.0)
    shaper.limit_ingress(a, [b, c], 9091, None)

    assert [name for name, _ in scripts] == ["b", "c", "b", "c"]
    assert all("match ip dst 172.30.7.11/32" in script for _, script in scripts[:2])
    assert all("match ip sport 9091" in script and "rate 8000bit" in script for _, script in scripts[:2])
    assert all("tc qdisc del" in script for _, script in scripts[2:])


def test_an_allowance_and_a_lag_share_one_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lag's class goes below the sender's own where there is one, and only that class is taken away again."""
    scripts: list[str] = []
    monkeypatch.setattr(DockerRuntime, "_in_namespace", lambda _self, _node, script: scripts.append(script))
    a, b = (Node(name, "broker", f"172.30.7.{n}", Path("/w"), "java", ()) for n, name in enumerate("ab", 11))
    shaper = runtime(Networks(set()))
    shaper.limit_egress(b, 1_000_000.0)
    shaper.limit_ingress(a, [b], 9091, 1000.0)
    shaper.limit_ingress(a, [b], 9091, None)
    own, lag, lifted = scripts

    assert "parent 1: classid 1:1 htb rate 8000000bit" in own
    assert "parent 1:1 classid 1:2 htb rate 800000bit ceil 8000000bit" in own
    assert "grep -q 'htb 1:1 ' && parent=1:1" in lag
    assert "parent $parent classid 1:10" in lag
    assert "tc filter del dev eth0 parent 1: prio 10; tc class del dev eth0 classid 1:10;" in lifted
    assert "tc class show dev eth0 | grep -q htb || tc qdisc del dev eth0 root" in lifted


def test_traffic_into_two_brokers_is_limited_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has a class and a filter of its own at the same sender."""
    scripts: list[str] = []
    monkeypatch.setattr(DockerRuntime, "_in_namespace", lambda _self, _node, script: scripts.append(script))
    one, other, sender = (
        Node(name, "broker", f"172.30.7.{n}", Path("/w"), "java", (), node_id=n) for n, name in enumerate("abc", 1)
    )
    shaper = runtime(Networks(set()))
    shaper.limit_ingress(one, [sender], 9091, 1000.0)
    shaper.limit_ingress(other, [sender], 9091, 1000.0)

    assert ["flowid 1:11" in script and "prio 11 u32" in script for script in scripts] == [True, False]
    assert ["flowid 1:12" in script and "prio 12 u32" in script for script in scripts] == [False, True]


def test_packets_are_held_back_within_the_limits_class(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that only those are which the limit is about, and lifting it lifts both."""
    scripts: list[tuple[str, str]] = []
    monkeypatch.setattr(DockerRuntime, "_in_namespace", lambda _self, node, script: scripts.append((node.name, script)))
    a, b = (Node(name, "broker", "172.30.7.1", Path("/w"), "java", (), node_id=n) for n, name in enumerate("ab", 1))
    runtime(Networks(set())).delay_ingress(a, b, 0.25)
    runtime(Networks(set())).delay_ingress(a, b, 0.01, 25)

    assert scripts == [
        ("b", "tc qdisc add dev eth0 parent 1:11 netem delay 250ms limit 100000"),
        ("b", "tc qdisc add dev eth0 parent 1:11 netem delay 10ms reorder 25% limit 100000"),
    ]


CLASS = """class htb 1:11 root prio 0 rate 80Kbit ceil 80Kbit burst 15Kb cburst 1600b
 Sent 905 bytes 3 pkt (dropped 0, overlimits 7 requeues 0)
 backlog 0b 0p requeues 0
 lended: 3 borrowed: 0 giants: 0
"""


@pytest.mark.parametrize(
    ("shown", "counted"),
    [(CLASS, Limited(905, 7)), (CLASS.replace("backlog 0b 0p", "backlog 1514b 1p"), Limited(905, 8)), ("", None)],
)
def test_what_passed_a_limit_and_had_to_wait_is_the_kernels_count(
    monkeypatch: pytest.MonkeyPatch, shown: str, counted: Limited | None
) -> None:
    """Where there is no such class it lists nothing; what waits at this moment counts, too."""
    monkeypatch.setattr(DockerRuntime, "_shown", lambda *_: shown)
    a, b = (Node(name, "broker", "172.30.7.1", Path("/w"), "java", (), node_id=1) for name in "ab")

    assert runtime(Networks(set())).limited(a, b) == counted


QDISCS = """qdisc htb 1: root refcnt 2 r2q 10 default 0 direct_packets_stat 5 direct_qlen 1000
 Sent 99 bytes 9 pkt (dropped 0, overlimits 0 requeues 0)
 backlog 0b 0p requeues 0
qdisc netem 8002: parent 1:12 limit 100000 delay 50ms
 Sent 44 bytes 4 pkt (dropped 0, overlimits 0 requeues 0)
 backlog 0b 0p requeues 0
qdisc netem 8001: parent 1:11 limit 100000 delay 50ms
 Sent 905 bytes 3 pkt (dropped 0, overlimits 0 requeues 0)
 backlog 66b 1p requeues 0
"""


@pytest.mark.parametrize(("shown", "delayed"), [(QDISCS, 905), (QDISCS.replace("1:11", "1:13"), None), ("", None)])
def test_what_was_delayed_is_netems_own_count(monkeypatch: pytest.MonkeyPatch, shown: str, delayed: int | None) -> None:
    """Not that of the class above it, nor of the delay into another broker."""
    monkeypatch.setattr(DockerRuntime, "_shown", lambda *_: shown)
    a, b = (Node(name, "broker", "172.30.7.1", Path("/w"), "java", (), node_id=1) for name in "ab")

    assert runtime(Networks(set())).delayed_bytes(a, b) == delayed


CHAIN = """Chain cut-1 (2 references)
    pkts      bytes target     prot opt in     out     source               destination
      12      720 DROP       tcp  --  *      *       172.30.7.2           172.30.7.1           tcp dpt:9091
       3      180 DROP       tcp  --  *      *       172.30.7.1           172.30.7.2           tcp spt:9091
"""


@pytest.mark.parametrize(
    ("said", "dropped"), [(CHAIN, 15), (CHAIN.replace("12 ", "0 ").replace(" 3 ", " 0 "), 0), ("", None)]
)
def test_dropped_packets_are_counted_over_all_matches(
    monkeypatch: pytest.MonkeyPatch, said: str, dropped: int | None
) -> None:
    """None is no such rule, zero a rule that has dropped nothing."""
    monkeypatch.setattr(DockerRuntime, "_in_namespace", lambda *_: said)
    node = Node("a", "broker", "172.30.7.1", Path("/w"), "java", ())

    assert runtime(Networks(set())).dropped_packets(node, "cut-1") == dropped


@pytest.mark.parametrize(("said", "dropped"), [(CHAIN, 15), (f"{CHAIN}-N cut-1\nstill there\n", None)])
def test_rules_are_taken_away_whole(monkeypatch: pytest.MonkeyPatch, said: str, dropped: int | None) -> None:
    """Out of both hooks; what the kernel lists afterwards says whether that succeeded."""
    scripts: list[str] = []
    monkeypatch.setattr(DockerRuntime, "_in_namespace", lambda _self, _node, script: scripts.append(script) or said)
    node = Node("a", "broker", "172.30.7.1", Path("/w"), "java", ())
    network = runtime(Networks(set()))
    network.drop_packets(node, "cut-1", ["-p tcp --dport 9092"])
    assert network.stop_dropping(node, "cut-1") == dropped

    assert scripts[0] == (
        "iptables -w -N cut-1 && iptables -w -A cut-1 -p tcp --dport 9092 -j DROP"
        " && iptables -w -I INPUT -j cut-1 && iptables -w -I OUTPUT -j cut-1"
    )
    assert scripts[1].startswith("iptables -w -D INPUT -j cut-1; iptables -w -D OUTPUT -j cut-1; ")


class Updated:
    """A container whose limits Docker changes."""

    def __init__(self) -> None:
        self.changes: list[dict[str, Any]] = []

    def update(self, **change: Any) -> None:
        self.changes.append(change)


def test_cpu_time_is_a_quota_of_short_periods(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without one it is unlimited; CPUs that nobody names stay as they are."""
    container = Updated()
    monkeypatch.setattr(DockerRuntime, "_get", lambda _self, _name: container)
    runtime(Networks(set())).limit_cpu("broker-1", 0.3, "0")
    runtime(Networks(set())).limit_cpu("broker-1", None, None)

    assert container.changes == [
        {"cpu_period": 20_000, "cpu_quota": 6000, "cpuset_cpus": "0"},
        {"cpu_period": 20_000, "cpu_quota": -1},
    ]


def test_a_folder_lies_on_a_disk_or_on_none(tmp_path: Path) -> None:
    """One that will be made lies where its parent does; /proc is no disk."""
    with pytest.raises(BadInput, match="disk_read cannot be limited: /proc/x lies on no block device"):
        block_device(Path("/proc/x"))


def test_a_partition_is_limited_by_its_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel limits whole disks only."""
    (tmp_path / "sda" / "sda1").mkdir(parents=True)
    monkeypatch.setattr(Path, "resolve", lambda _self: tmp_path / "sda" / "sda1")
    assert block_device(tmp_path) == "/dev/sda1"

    (tmp_path / "sda" / "sda1" / "partition").touch()
    assert block_device(tmp_path) == "/dev/sda"


@pytest.mark.parametrize("error", [DockerException("no socket"), OSError("timed out")])
def test_no_daemon_is_an_answer(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the socket is missing or does not answer."""

    def nobody(**_: object) -> None:
        raise error

    monkeypatch.setattr(module.docker, "from_env", nobody)
    assert daemon_answers() is False


class Freezer:
    """A container that the kernel freezes at the third try only, or that Docker refuses to pause."""

    def __init__(self, error: str) -> None:
        self.error, self.tries = error, 0

    def pause(self) -> None:
        self.tries += 1
        if self.tries < 3:
            raise APIError(self.error)


def test_a_freeze_that_the_kernel_gave_up_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy host cannot stop every thread in time; any other refusal passes on at once."""
    busy, refused = Freezer("OCI runtime pause failed: unable to freeze: unknown"), Freezer("is not running")
    monkeypatch.setattr(DockerRuntime, "_get", lambda _self, name: {"busy": busy, "refused": refused}[name])

    runtime(Networks(set())).pause("busy")
    with pytest.raises(HarnessError, match="Docker could not freeze refused: is not running"):
        runtime(Networks(set())).pause("refused")

    assert (busy.tries, refused.tries) == (3, 1)


class Containers:
    """Docker's containers; what was run is noted. As docker-py does, it hands over what one driver has written."""

    def __init__(self) -> None:
        self.ran: list[dict[str, Any]] = []

    def run(self, _image: str, command: list[str], **settings: Any) -> bytes | None:
        self.ran.append({"script": command[-1], **settings})
        return b"said" if settings.get("log_config", {}).get("Type") == "json-file" else None


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The runtime of a run on a played daemon with its image; disks that are made are in ``disks``."""
    disks: list[tuple[str, Any]] = []
    volumes = SimpleNamespace(create=lambda name, **settings: disks.append((name, settings["labels"])))
    opened = runtime(Networks(set()), "/runs/a-run")
    client = SimpleNamespace(containers=Containers(), volumes=volumes)
    opened.__dict__["_docker"] = client
    monkeypatch.setattr(module, "node_image", lambda _: "x")
    monkeypatch.setattr(DockerRuntime, "_holder", lambda *_: "holder")
    return SimpleNamespace(runtime=opened, client=client, disks=disks)


def test_what_a_script_printed_is_read_whatever_the_hosts_log_driver(played: Any) -> None:
    """It may do nothing beyond what it is for, and what is left of it is found."""
    node = Node("a", "broker", "172.30.7.1", Path("/w"), "java", ())
    assert played.runtime._in_namespace(node, "echo said") == "said"

    (ran,) = played.client.containers.ran
    assert (ran["network_mode"], ran["cap_drop"], ran["cap_add"]) == ("container:holder", ["ALL"], ["NET_ADMIN"])
    assert (ran["labels"], ran["remove"]) == ({"plimsoll.run": "/runs/a-run"}, True)


def test_a_disk_that_is_gone_is_not_made_without_a_label(played: Any) -> None:
    """As a mount alone would make it, which nobody removes again."""
    node = Node("a", "broker", "172.30.7.1", Path("/w"), "java", (), disk_bytes=10**6)
    assert played.runtime.on_disk(node, "cp -a /disk/. data/") == "said"

    (ran,) = played.client.containers.ran
    assert (ran["network_mode"], "cap_add" in ran) == ("none", False)
    ((name, labels),) = played.disks
    assert name in ran["volumes"]
    assert labels == {"plimsoll.run": "/runs/a-run"}


class Thing:
    """Something of Docker's that can be removed, unless an error is told; what was removed is noted."""

    def __init__(self, name: str, gone: list[str], error: APIError | None = None) -> None:
        self.name, self.gone, self.error = name, gone, error

    def remove(self, **_: Any) -> None:
        if self.error:
            raise self.error
        self.gone.append(self.name)


def with_leftovers(containers: list[Thing], networks: list[Thing], disks: list[Thing]) -> DockerRuntime:
    """The runtime of a run of which these are left."""

    def found(things: list[Thing]) -> SimpleNamespace:
        by_name = {thing.name: thing for thing in things}
        return SimpleNamespace(list=lambda **_: things, get=by_name.__getitem__)

    opened = runtime(Networks(set()), "/runs/a-run")
    opened.__dict__["_docker"] = SimpleNamespace(
        containers=found(containers), networks=found(networks), volumes=found(disks)
    )
    return opened


def answer(status: int) -> Any:
    """A response of the daemon."""
    return SimpleNamespace(status_code=status, url="http://docker", reason="refused")


def test_everything_of_a_run_is_removed_in_order() -> None:
    """A node before the holder of its address; what somebody else has removed meanwhile is no error."""
    gone: list[str] = []
    containers = [Thing("b-net", gone), Thing("b", gone), Thing("c", gone, APIError("removing", answer(409)))]
    networks = [Thing("n", gone, NotFound("no such network")), Thing("m", gone)]
    disks = [Thing("d", gone, NotFound("no such volume")), Thing("e", gone)]

    assert with_leftovers(containers, networks, disks).remove_all() == ["b", "b-net", "c", "d", "e", "m", "n"]
    assert gone == ["b", "b-net", "m", "e"]


def test_what_docker_refuses_keeps_nothing_else_from_being_removed() -> None:
    """It is told with its name."""
    gone: list[str] = []
    busy = APIError("refused", answer(403), "n has active endpoints")
    left = with_leftovers([Thing("b", gone)], [Thing("n", gone, busy)], [Thing("d", gone)])

    with pytest.raises(HarnessError, match=r"Docker did not remove all of a-run; run `make clean`. n: .*n has active"):
        left.remove_all()
    assert gone == ["b", "d"]


@pytest.mark.parametrize("error", [DockerException("no socket"), OSError("timed out")])
def test_a_silent_daemon_has_not_said_that_nothing_is_left(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether it is reached for in vain or hangs."""

    def silent(**_: object) -> None:
        raise error

    monkeypatch.setattr(module.docker, "from_env", silent)
    with pytest.raises(HarnessError, match=f"Docker does not say what is left of a-run; .*: {error}"):
        DockerRuntime(Path("/runs/a-run")).remove_all()


class Refusing:
    """A daemon, or anything of it, that answers whatever it is asked with one error."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __getattr__(self, _: str) -> Refusing:
        return self

    def __call__(self, *_: object, **__: object) -> NoReturn:
        raise self._error


BROKER = Node("broker-1", "broker", "172.30.7.11", Path("/w"), "java", (), disk_bytes=10**6)
ASKED: dict[str, Callable[[DockerRuntime], object]] = {
    "reserve": lambda runtime: runtime.reserve(None),
    "start": lambda runtime: runtime.start(BROKER),
    "kill": lambda runtime: runtime.kill("broker-1", "SIGKILL"),
    "pause": lambda runtime: runtime.pause("broker-1"),
    "resume": lambda runtime: runtime.resume("broker-1"),
    "state": lambda runtime: runtime.state("broker-1"),
    "limit_ingress": lambda runtime: runtime.limit_ingress(BROKER, [BROKER], 9091, 1.0),
    "delay_ingress": lambda runtime: runtime.delay_ingress(BROKER, BROKER, 1.0),
    "limited": lambda runtime: runtime.limited(BROKER, BROKER),
    "delayed_bytes": lambda runtime: runtime.delayed_bytes(BROKER, BROKER),
    "drop_packets": lambda runtime: runtime.drop_packets(BROKER, "cut-1", []),
    "dropped_packets": lambda runtime: runtime.dropped_packets(BROKER, "cut-1"),
    "stop_dropping": lambda runtime: runtime.stop_dropping(BROKER, "cut-1"),
    "limit_egress": lambda runtime: runtime.limit_egress(BROKER, 1.0),
    "limit_cpu": lambda runtime: runtime.limit_cpu("broker-1", 1.0, None),
    "on_disk": lambda runtime: runtime.on_disk(BROKER, "true"),
    "limits": lambda runtime: runtime.limits(BROKER),
    "usage": lambda runtime: runtime.usage("broker-1"),
    "remove_all": lambda runtime: runtime.remove_all(),
}


@pytest.mark.parametrize("error", [APIError("no space left"), OSError("timed out")])
@pytest.mark.parametrize("name", ASKED)
def test_what_docker_refuses_is_an_error_of_the_harness(name: str, error: Exception) -> None:
    """Whoever catches those is told what was tried and why not; no exception of docker's goes past them."""
    opened = DockerRuntime(Path("/runs/a-run"))
    opened.__dict__["_docker"] = Refusing(error)

    with pytest.raises(HarnessError, match=f"(Docker|broker-1) .*: {error}") as refused:
        ASKED[name](opened)
    assert "{" not in str(refused.value)


def test_every_operation_of_a_runtime_was_tried() -> None:
    """One that is added is tried as well."""
    public = {name for name, of in vars(DockerRuntime).items() if callable(of) and not name.startswith("_")}
    assert public - {"pid"} == ASKED.keys()


@pytest.mark.parametrize("call", [runs_with_leftovers, fetch_what_nodes_need])
def test_a_daemon_that_is_gone_is_an_error_of_the_harness(
    call: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where no run is."""
    monkeypatch.setattr(module.docker, "from_env", Refusing(DockerException("no socket")))

    with pytest.raises(HarnessError, match=r"Docker could not .*: no socket"):
        call()
