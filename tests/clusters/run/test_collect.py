"""What collecting does with a run's files."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusters.live.files import Files
from clusters.live.servers import PREFIX
from clusters.run import collect
from clusters.run.collect import collect_servers, with_incarnations
from clusters.runtimes.nodes import Node
from history.errors import HarnessError
from history.events import EventLog, read_events
from history.folder import RunFolder
from history.streams import BatchWriter
from history.tables import REPLICAS
from tests.clusters.fakes import FakeWorld, scenario

MOMENTS = st.integers(0, 30)
STARTS = st.dictionaries(st.integers(1, 3), st.lists(MOMENTS, unique=True, max_size=4).map(sorted))


def replicas(samples: list[tuple[int, int]]) -> pa.RecordBatch:
    """Return samples of (broker id, sent_ns)."""
    rows = [{"broker_id": b, "topic": "orders", "partition": 0, "sent_ns": t, "received_ns": t + 1} for b, t in samples]
    return pa.RecordBatch.from_pylist(rows, schema=REPLICAS)


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(1, 3), MOMENTS)), STARTS)
def test_a_sample_belongs_to_the_last_start_before_it(
    samples: list[tuple[int, int]], started: dict[int, list[int]]
) -> None:
    """A sample has the incarnation of its broker's last start before it, or null; other columns stay."""
    starts = {b: [(t, n) for n, t in enumerate(moments, start=1)] for b, moments in started.items()}
    before = replicas(samples)
    after = with_incarnations(before, starts)

    expected = [sum(t <= sent for t in started.get(b, [])) or None for b, sent in samples]
    assert after["incarnation"].to_pylist() == expected
    assert after.schema.equals(REPLICAS)
    assert after.drop_columns(["incarnation"]).equals(before.drop_columns(["incarnation"]))


def test_replicas_are_never_held_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replica samples are read and written batch by batch, so memory does not grow with the run.

    The table has the rows in their order, each with its incarnation.
    """
    world: Any = FakeWorld(tmp_path, scenario([{"hold": 1}]))
    (world.folder.work / "streams").mkdir()
    for number in (1, 2):
        world.events.add("node_started", target="broker-1", incarnation=number, role="broker")
    first, second = (event.t_ns for event in world.seen("node_started"))
    moments = [first - 1, first, second, second + 5]
    with BatchWriter(world.folder.work / "streams" / "replicas-prober.arrow", REPLICAS) as stream:
        for sent_ns in moments:
            stream.add(replicas([(1, sent_ns), (2, sent_ns)]))
            stream.flush()
    sizes = []

    def of_batch(batch: pa.RecordBatch, starts: Any) -> pa.RecordBatch:
        sizes.append(batch.num_rows)
        return with_incarnations(batch, starts)

    monkeypatch.setattr(collect, "with_incarnations", of_batch)
    collect.write_tables(world)

    table = pq.read_table(world.folder.table("replicas") / "replicas-prober.parquet")
    assert sizes == [2, 2, 2, 2]
    assert table.schema.equals(REPLICAS)
    assert table["incarnation"].to_pylist() == [None, None, 1, None, 2, None, 2, None]
    assert table["sent_ns"].to_pylist() == [moment for moment in moments for _ in (1, 2)]
    assert [(event.target, event.detail["rows"]) for event in world.seen("step")][-2:] == [("replicas", 8), ("isr", 0)]


class Runtime:
    """Keeps the calls on nodes."""

    def __init__(self, states: dict[str, str]) -> None:
        self.states = states
        self.done: list[str] = []

    def state(self, name: str) -> str:
        return self.states[name]

    def pause(self, name: str) -> None:
        self.done.append(f"pause {name}")

    def kill(self, name: str, signal: str) -> None:
        self.done.append(f"{signal} {name}")


def world_of(path: Path, nodes: list[Node], runtime: Any) -> Any:
    """Return the world of a run with these servers, each in its first incarnation."""
    folder = RunFolder(path)
    folder.work.mkdir(exist_ok=True)
    (folder.work / PREFIX).touch()
    events = EventLog(folder.events)
    return SimpleNamespace(
        servers=SimpleNamespace(nodes=nodes, exit_status=lambda _: None, files=Files()),
        plan=SimpleNamespace(attached=None),
        runtime=runtime,
        folder=folder,
        events=events,
        incarnation=lambda _: 1,
        state=lambda node: runtime.state(node.name),
        pause=lambda node: runtime.pause(node.name),
        kill=lambda node, signal: runtime.kill(node.name, signal),
    )


def test_servers_are_frozen_together_and_killed_as_they_stand(tmp_path: Any) -> None:
    """Running servers are paused together and killed without SIGTERM; files of dead ones are kept.

    A second call finds everything in place.
    """
    names = ("controller", "broker-1", "broker-2")
    nodes = [Node(name, "broker", "x", tmp_path / "work" / name, "java", ()) for name in names]
    for node in nodes:
        (node.folder / "data" / "orders-0").mkdir(parents=True)
        (node.folder / "data" / "orders-0" / "00.log").write_text(node.name)
        (node.folder / "server.log").write_text("started")
    runtime = Runtime({"controller": "running", "broker-1": "exited", "broker-2": "running"})
    world = world_of(tmp_path, nodes, runtime)
    collect_servers(world)

    ends = ["SIGKILL controller", "SIGKILL broker-2"]
    assert runtime.done == ["pause controller", "pause broker-2", *ends]
    runtime.states = dict.fromkeys(names, "exited")
    collect_servers(world)
    assert len(runtime.done) == 4
    assert [event.target for event in read_events(world.folder.events)] == ["broker-1"], "it ended by itself"
    kept = [tmp_path / "brokers" / name / "data" / "orders-0" / "00.log" for name in names]
    assert [log.read_text() for log in kept] == list(names)
    assert not [node.name for node in nodes if (node.folder / "data").exists()], "the disk would have it twice"
    assert not (tmp_path / "brokers" / "broker-1" / "server.properties").exists()


def test_a_disk_of_its_own_is_copied_out_first(tmp_path: Any) -> None:
    """The disk of a broker with a separate disk is copied to the host before it is collected."""
    node = Node("broker-1", "broker", "x", tmp_path / "work" / "broker-1", "java", (), disk_bytes=10**6)
    (node.folder / "data").mkdir(parents=True)
    runtime: Any = Runtime({"broker-1": "exited", "controller": "exited"})
    runtime.disks = SimpleNamespace(run_script=lambda of, script: (of.folder / "data" / "copied").write_text(script))
    world = world_of(tmp_path, [Node("controller", "controller", "x", tmp_path / "none", "java", ()), node], runtime)
    collect_servers(world)

    assert (tmp_path / "brokers" / "broker-1" / "data" / "copied").read_text().endswith("/disk/. data/")


def test_every_log_directory_is_kept(tmp_path: Any) -> None:
    """Every log directory and the metadata log are kept under their own names."""
    node = Node("broker-1", "broker", "x", tmp_path / "work" / "broker-1", "java", (), log_dir_count=2)
    for folder in ("data", "data-2", "metadata"):
        (node.folder / folder).mkdir(parents=True)
        (node.folder / folder / "meta.properties").write_text(folder)
    world = world_of(tmp_path, [node], Runtime({"broker-1": "exited"}))
    collect_servers(world)

    kept = (tmp_path / "brokers" / "broker-1").glob("*/meta.properties")
    assert sorted(file.read_text() for file in kept) == ["data", "data-2", "metadata"]


def test_a_symbolic_link_of_a_server_is_not_collected(tmp_path: Any) -> None:
    """Symbolic links in a server's folder are not collected: a build may point them at any file of the host."""
    (tmp_path / "secret").write_text("keep this")
    node = Node("broker-1", "broker", "x", tmp_path / "work" / "broker-1", "java", ())
    (node.folder / "data").mkdir(parents=True)
    (node.folder / "data" / "00.log").write_text("a record")
    (node.folder / "data" / "link").symlink_to(tmp_path / "secret")
    (node.folder / "data" / "folder").symlink_to(tmp_path)
    (node.folder / "server.log").symlink_to(tmp_path / "secret")
    world = world_of(tmp_path, [node], Runtime({"broker-1": "exited"}))

    collect_servers(world)

    left = sorted(str(file.relative_to(tmp_path / "brokers")) for file in (tmp_path / "brokers").rglob("*"))
    assert left == ["broker-1", "broker-1/data", "broker-1/data/00.log"]
    assert (tmp_path / "secret").read_text() == "keep this"


def test_a_disk_that_is_still_read_only_is_collected(tmp_path: Path) -> None:
    """Read-only data are made writable for their owner and collected; targets of links are not changed."""
    (tmp_path / "script").write_text("keep this")
    (tmp_path / "script").chmod(0o555)
    node = Node("broker-1", "broker", "x", tmp_path / "work" / "broker-1", "java", ())
    data = node.folder / "data"
    (data / "orders-0").mkdir(parents=True)
    (data / "orders-0" / "00.log").write_text("a record")
    (data / "link").symlink_to(tmp_path / "script")
    for path, mode in ((data / "orders-0" / "00.log", 0o444), (data / "orders-0", 0o555), (data, 0o555)):
        path.chmod(mode)
    world = world_of(tmp_path, [node], Runtime({"broker-1": "exited"}))

    collect_servers(world)

    kept = tmp_path / "brokers" / "broker-1" / "data"
    modes = [(kept / name).stat().st_mode & 0o777 for name in (".", "orders-0", "orders-0/00.log")]
    assert modes == [0o755, 0o755, 0o644]
    assert (tmp_path / "script").stat().st_mode & 0o777 == 0o555


def test_what_is_there_already_is_not_overwritten(tmp_path: Any) -> None:
    """If the target folder has files already, collecting raises an error and both folders stay."""
    node = Node("broker-1", "broker", "x", tmp_path / "work" / "broker-1", "java", ())
    for folder in (node.folder / "data", tmp_path / "brokers" / "broker-1" / "data"):
        folder.mkdir(parents=True)
        (folder / "00.log").write_text(folder.parent.parent.name)
    world = world_of(tmp_path, [node], Runtime({"broker-1": "exited"}))

    with pytest.raises(HarnessError, match=r"What broker-1 wrote could not be collected: .*not empty"):
        collect_servers(world)

    assert [file.read_text() for file in sorted(tmp_path.rglob("00.log"))] == ["brokers", "work"]


def test_a_cluster_that_got_no_addresses_has_no_servers_to_collect(tmp_path: Any) -> None:
    """Without reserved addresses no server was started, so none is collected."""
    node = Node("broker-1", "broker", "x", tmp_path / "work" / "broker-1", "java", ())
    world = world_of(tmp_path, [node], Runtime({"broker-1": "running"}))
    (world.folder.work / PREFIX).unlink()
    collect_servers(world)
    assert world.runtime.done == []

    (world.folder.work / PREFIX).touch()
    collect_servers(world)
    assert world.runtime.done == ["pause broker-1", "SIGKILL broker-1"]


def test_servers_without_files_are_left_alone(tmp_path: Any) -> None:
    """Servers whose files cannot be read are neither paused nor killed."""
    node = Node("broker-1", "broker", "x", tmp_path / "work" / "broker-1")
    world = world_of(tmp_path, [node], Runtime({"broker-1": "running"}))
    world.servers.files = None
    collect_servers(world)

    assert world.runtime.done == []
