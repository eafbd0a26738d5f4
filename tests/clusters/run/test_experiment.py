"""The calls of a run, on a played world."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from clusters.clients import nodes as client_nodes
from clusters.live.plan import Plan
from clusters.live.reports import Reports
from clusters.live.servers import MadeServers
from clusters.live.world import World
from clusters.run import experiment
from clusters.run.experiment import run_phase
from clusters.runtimes.nodes import Node
from history.errors import BadInput, EvidenceError, HarnessError, WaitTimeout
from history.events import read_events
from history.partition import TopicPartition
from tests.clusters.fakes import FakeWorld, plan_of, scenario
from tests.clusters.run.small import SCENARIO, left_under_runs, prepared


@pytest.mark.parametrize(
    ("answers", "missing"),
    [
        ({1: {0: 7, 1: 0}, 2: {0: 7, 1: 0}}, []),
        ({1: {0: 7, 1: 0}, 2: {0: 7, 1: None}}, ["orders-1 on broker 2"]),  # an error has no log end
        ({1: {0: 7, 1: 0}, 2: {}}, ["orders-0 on broker 2", "orders-1 on broker 2"]),  # it does not answer
    ],
)
def test_a_topic_is_there_once_every_broker_has_its_replicas(answers: Any, missing: list[str]) -> None:
    """A topic exists once every broker reports its replicas; the ISR does not matter."""
    partitions = [TopicPartition("orders", 0), TopicPartition("orders", 1)]
    world: Any = SimpleNamespace(
        partitions=partitions,
        replicas=lambda partition: list(answers),
        servers=None,
    )
    world.reports = Reports(world.servers, plan_of(scenario([{"hold": 1}])), None)
    world.reports.samples = lambda number, wanted: {
        TopicPartition("orders", at): SimpleNamespace(log_end_offset=end) for at, end in answers[number].items()
    }

    assert experiment._without_replica(world) == missing


def test_a_folder_without_a_plan_is_no_run(tmp_path: Path) -> None:
    """A folder without a plan is rejected with its name and the command that starts a run."""
    with pytest.raises(EvidenceError, match=r"nothing is no run that is under way; start a new one with `make run`"):
        World(tmp_path / "nothing")


def test_a_plan_survives_its_file(told: str, tmp_path: Path) -> None:
    """A plan read back from its file is equal, since every task reads it."""
    plan = World(prepared(told, tmp_path, subnet="127.91.18")).plan

    assert Plan.model_validate_json(plan.model_dump_json()) == plan


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A world of three brokers and two phases, which records captures as events."""
    played: Any = FakeWorld(tmp_path / "a-run", scenario([{"hold": "1ms"}], [{"resume": "A"}]))
    monkeypatch.setattr(experiment.World, "open", lambda _run, _limit_s=None: nullcontext(played))
    monkeypatch.setattr(experiment, "capture_offsets", lambda world, label: world.events.add("capture", target=label))
    monkeypatch.setattr(experiment, "record_usage", lambda world, label: world.events.add("usage", target=label))
    return played


def test_secrets_are_made_for_the_run_and_stand_in_no_setting(told: str, tmp_path: Path) -> None:
    """With security each broker, each client and the harness gets a certificate, and settings contain no secret."""
    changes = {"cluster": {"security": {"tls": "mutual", "sasl": "PLAIN"}}}
    run = prepared(told, tmp_path, runtime="process", changes=changes)
    (run / "work" / "prefix").write_text("127.1.2")
    opened = World(run)
    made = MadeServers(opened.folder, opened.plan, opened.runtime)
    experiment._secure(opened, made)
    folder = run / "work" / "security"
    keys = [key for file in folder.glob("*.pem") for key in file.read_text().splitlines() if "-----" not in key]
    settings = str(experiment._server_configs(opened, made))

    clients = {"producer", "consumer", "prober", "drain", "copier"}
    names = {"broker-1", "broker-2", *clients, "plimsoll-world", "authority"}
    assert {file.stem for file in folder.glob("*.pem")} == names
    assert {file.stem for file in folder.glob("*.properties")} == names - {"authority"}
    assert "sasl.jaas.config" in settings
    assert [secret for secret in [(folder / "password").read_text(), *keys] if secret in settings] == []

    plain = prepared(told, tmp_path, runtime="process")
    opened = World(plain)
    experiment._secure(opened, MadeServers(opened.folder, opened.plan, opened.runtime))
    assert not (plain / "work" / "security").exists()


def test_a_phase_is_framed_and_captured(world: Any) -> None:
    """A phase has its start and end events, usage at both, and a capture at its end."""
    run_phase(world.folder.path, 0)

    kinds = [event.kind for event in world.seen("phase_started", "step", "capture", "phase_ended", "error", "usage")]
    assert kinds == ["usage", "phase_started", "step", "usage", "capture", "phase_ended"]
    assert [event.target for event in world.seen("usage")] == ["phase 1: start", "phase 1"]


def test_a_phase_that_breaks_is_captured_all_the_same(world: Any) -> None:
    """A phase that fails is captured, and its error is recorded and raised."""
    with pytest.raises(HarnessError, match="broker-1 has no pause active"):
        run_phase(world.folder.path, 1)

    found = world.seen("error", "capture", "phase_ended")
    assert [event.kind for event in found] == ["error", "capture", "phase_ended"]
    assert found[0].phase == "phase 2"


def test_a_phase_is_not_begun_without_its_clients(world: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A phase does not begin if a client has died."""
    monkeypatch.setattr("clusters.faults.phase.died", lambda _: [Node("prober", "prober", "", tmp_path)])
    with pytest.raises(HarnessError, match="A client died: prober is absent"):
        run_phase(world.folder.path, 0, "phase 1")

    assert [event.kind for event in world.seen("error", "step", "phase_ended")] == ["error", "phase_ended"]


def test_a_phase_is_not_begun_twice(world: Any) -> None:
    """A phase cannot begin twice; another phase can."""
    run_phase(world.folder.path, 0, "phase 1")
    before = world.folder.events.read_text()

    with pytest.raises(HarnessError, match="The phase 'phase 1' of a-run was begun before; start a new run"):
        run_phase(world.folder.path, 0, "phase 1")
    assert world.folder.events.read_text() == before
    with pytest.raises(HarnessError, match="has no pause active"):
        run_phase(world.folder.path, 1, "phase 2")


@pytest.mark.parametrize(("index", "name"), [(0, "phase 2"), (2, "phase 3")])
def test_a_phase_of_another_scenario_is_refused(world: Any, index: int, name: str) -> None:
    """A phase that the plan does not have under that number and name is rejected."""
    with pytest.raises(HarnessError, match=f"Phase {index + 1} of a-run is not '{name}'; it has .*, start a new run"):
        run_phase(world.folder.path, index, name)
    assert not world.folder.events.exists()


@pytest.mark.parametrize(
    ("call", "there", "said"),
    [
        (experiment.start_clients, "streams", "The clients of a-run were started before"),
        (experiment.drain, "drain", "a-run was drained before"),
    ],
)
def test_clients_are_not_started_twice(world: Any, call: Any, there: str, said: str) -> None:
    """Clients and the drain are not started twice, since they would overwrite what they recorded."""
    (world.folder.work / there).mkdir()

    with pytest.raises(HarnessError, match=f"{said}; start a new run"):
        call(world.folder.path)
    assert (world.runtime.started, world.folder.events.exists()) == ([], False)


@pytest.mark.parametrize(
    ("call", "adds"),
    [
        (partial(experiment.capture, label="after"), ["usage", "capture"]),
        (experiment.quiesce, ["quiesced"]),
        (experiment.stop_producers, []),
        (experiment.stop_clients, []),
    ],
)
def test_what_looks_or_ends_may_be_done_again(
    world: Any, call: Any, adds: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Captures and waits may be repeated and record again; ended clients are not stopped again."""
    monkeypatch.setattr(experiment, "_is_quiet", lambda _: True)
    world.events.add("run_started")
    for times in (1, 2):
        call(world.folder.path)
        assert [event.kind for event in read_events(world.folder.events)] == ["run_started", *adds * times]


def test_a_client_that_does_not_end_is_killed(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that does not exit is killed and recorded, and the next one is stopped; exited ones are skipped."""
    sent: list[tuple[str, str]] = []
    states = {"prober": "running", "consumer": "running", "producer": "exited"}
    world.runtime.state = lambda name: states[name]
    world.runtime.kill = lambda name, signal: sent.append((name, signal))

    def wait(condition: Any, *, what: str, **_: Any) -> None:
        if what.startswith("prober"):
            raise WaitTimeout(what)
        states["consumer"] = "exited"
        assert condition()

    monkeypatch.setattr(client_nodes, "wait_until", wait)
    experiment.stop_clients(world.folder.path)

    assert sent == [("prober", "SIGTERM"), ("consumer", "SIGTERM"), ("prober", "SIGKILL")]
    assert [event.target for event in world.seen("error")] == ["prober"]
    assert [event.target for event in world.seen("node_exited")] == ["prober", "consumer"]


def test_a_producer_that_a_failure_left_running_has_time_for_its_answers(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A running producer is stopped first and has the delivery time-out for its answers; others have 15 s."""
    world.replan(scenario=scenario([{"hold": "1ms"}], load={"topic": "orders", "delivery_timeout": "20s"}))
    running = {"prober", "consumer", "producer"}
    world.runtime.state = lambda name: "running" if name in running else "exited"
    world.runtime.kill = lambda name, _: running.remove(name)
    limits: dict[str, float] = {}
    monkeypatch.setattr(client_nodes, "wait_until", lambda _, *, limit_s, what: limits.update({what: limit_s}))
    experiment.stop_clients(world.folder.path)

    assert list(limits.items()) == [("producer to end", 35), ("prober to end", 15), ("consumer to end", 15)]


SHARED = {"topic": "orders", "group": {"protocol": "share", "lock": "2s"}}


@pytest.mark.parametrize("still", [True, False])
def test_a_share_group_comes_to_rest_before_its_members_end(
    world: Any, monkeypatch: pytest.MonkeyPatch, still: bool
) -> None:
    """Share members end after two locks and 6 s without a delivery; if that wait times out, it is recorded."""
    asked: list[tuple[float, str]] = []

    def wait(_: Any, *, limit_s: float, what: str, **_other: Any) -> None:
        asked.append((limit_s, what))
        if not still:
            raise WaitTimeout(what)

    monkeypatch.setattr(experiment, "wait_until", wait)
    world.runtime.state = lambda _: "exited"
    experiment.stop_clients(world.folder.path)
    assert asked == []

    world.replan(scenario=scenario([{"hold": "1ms"}], load=SHARED))
    experiment.stop_clients(world.folder.path)
    assert asked == [(55.0, "no delivery to a member of the share group for 10 s")]
    assert [event.step for event in world.seen("step" if still else "wait_timed_out")] == ["settle"]


def test_a_group_is_at_rest_once_nothing_was_given_for_long_enough(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A share group is at rest after enough time without a delivery; a late record restarts the wait."""
    world.replan(scenario=scenario([{"hold": "1ms"}], load=SHARED))
    given = iter([5, 5, 6, 6, 6])
    now = iter([0.0, *(t for each in (1.0, 8.0, 9.0, 18.5, 19.5) for t in (each, each))])
    times = [0.0]

    def tick() -> float:
        times[0] = next(now, times[0])
        return times[0]

    seen: list[bool] = []
    monkeypatch.setattr(experiment, "member_names", lambda _: ["member-1"])
    monkeypatch.setattr(experiment, "deliveries_to", lambda *_: next(given))
    monkeypatch.setattr(experiment.time, "monotonic", tick)
    monkeypatch.setattr(experiment, "wait_until", lambda condition, **_: seen.extend(condition() for _ in range(5)))
    experiment._settle_group(world)

    assert seen[:2] == [False, False]
    assert seen[-1] is True


def test_a_share_group_is_set_up_before_its_members(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A share group is configured to read from the beginning before its members start; a consumer group is not."""
    told: list[tuple[str, str, dict[str, str]]] = []
    world.reports.connect = lambda *_: nullcontext()
    monkeypatch.setattr(experiment, "alter_config", lambda _, *what: told.append(what))
    for load in ({"topic": "orders", "group": {"members": 1}}, SHARED):
        world.replan(scenario=scenario([{"hold": "1ms"}], load=load))
        experiment._set_up_group(world)

    settings = {"share.auto.offset.reset": "earliest", "share.isolation.level": "read_uncommitted"}
    assert told == [("group", "plimsoll", settings)]


@pytest.mark.parametrize(("kafka", "level"), [("4.1.2", None), ("4.3.0", "4.1")])
def test_a_share_group_is_refused_where_it_is_not_ready(tmp_path: Path, kafka: str, level: str | None) -> None:
    """A share group is rejected if the brokers' version or metadata.version is too old for it."""
    text = SCENARIO.replace("rate: 500/s", "rate: 500/s, group: {protocol: share}")
    cluster = f"{{brokers: 2, metadata_version: '{level}'}}" if level else "{brokers: 2}"
    (tmp_path / "small.yaml").write_text(text.replace("{brokers: 2}", cluster))

    with pytest.raises(BadInput, match=r"protocol: share \(KIP-932\) needs Kafka 4.2 or newer, not 4.1"):
        prepared(str(tmp_path / "small.yaml"), tmp_path, kafka=kafka)
    assert left_under_runs(tmp_path) == []
