"""Faults of disks: real files, fake brokers."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from clusters.faults import disk, phase, processes
from clusters.faults.phase import PhaseRun
from clusters.kafka.producing import record_batch
from history.errors import HarnessError
from history.partition import TopicPartition
from kafka_files.batches import whole_batches
from tests.clusters.fakes import FakeWorld, scenario

SEGMENT = f"{0:020}.log"
CHECKPOINT = "replication-offset-checkpoint"


def batch(base_offset: int, records: int) -> bytes:
    """Return a record batch as a leader would write it."""
    return base_offset.to_bytes(8, "big") + record_batch([b"value" * 4] * records, 0)[8:]


LOG = batch(0, 5) + batch(5, 3) + batch(8, 2)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait limits of 0 s; captures and usage counters are skipped."""
    for module in (disk, processes):
        monkeypatch.setattr(module, "LIMIT_S", 0.0)
    monkeypatch.setattr(phase, "capture_offsets", lambda _world, _label: None)
    monkeypatch.setattr(phase, "carry_usage", lambda _world, _nodes: None)
    monkeypatch.setattr(phase, "LEADER_LIMIT_S", 0.0)


@pytest.fixture
def world(tmp_path: Path) -> Any:
    """Three brokers; broker 3's data folder has ten records in three batches, and Kafka's usual other files."""
    played: Any = FakeWorld(tmp_path, scenario([{"hold": 1}]))
    played.servers.brokers[3] = replace(played.servers.brokers[3], folder=tmp_path / "broker-3")
    data = played.servers.brokers[3].folder / "data"
    (data / "orders-0").mkdir(parents=True)
    (data / "orders-0" / SEGMENT).write_bytes(LOG)
    for name in (CHECKPOINT, ".kafka_cleanshutdown", "meta.properties"):
        (data / name).write_text("0")
    played.servers.brokers[3].log.write_text("earlier: No space left on device, Permission denied\n")
    return played


def run(world: Any, *told: dict[str, Any]) -> dict[str, Any]:
    """Run one phase with these steps; return the detail of each "injected" event by step."""
    disks = {"C": "1MB"} if "fill_disk" in told[0] else {}
    PhaseRun(world, scenario(list(told), cluster={"brokers": 3, "disks": disks}).phases[0]).run()
    return {event.step: dict(event.detail) for event in world.seen("injected")}


def data(world: Any) -> Path:
    """Return broker 3's data folder."""
    return Path(world.servers.brokers[3].folder / "data")


def test_a_wiped_broker_keeps_its_name_only(world: Any) -> None:
    """``wipe`` keeps only meta.properties; it heals when the restarted broker is in the ISR again."""
    found = run(world, {"kill": "C"}, {"wipe": "C"})

    assert not (data(world) / "orders-0").exists()
    assert found["wipe"]["last_copy_of"] == []
    assert "meta.properties" in found["wipe"]["left"]
    assert [(e.step, e.detail["recovery_verified"]) for e in world.seen("healed")] == [("kill", True), ("wipe", True)]


@pytest.mark.parametrize(("isr", "killed", "last"), [([3], ["C"], ["orders-0"]), ([1, 3], ["A", "C"], ["orders-0"])])
def test_the_last_copy_is_told(world: Any, isr: list[int], killed: list[str], last: list[str]) -> None:
    """If the wiped replica was the last one in sync that is alive, the event lists its partition."""
    world.reports.isr = isr
    found = run(world, *({"kill": letter} for letter in killed), {"wipe": "C"})

    assert found["wipe"]["last_copy_of"] == last


def test_a_broker_that_runs_is_not_wiped(world: Any) -> None:
    """A running broker is not wiped; the error asks to kill or stop it first."""
    with pytest.raises(HarnessError, match="broker-3 runs, but wipe needs it down; kill or stop it first"):
        run(world, {"kill": "A"}, {"wipe": "C"})

    assert (data(world) / "orders-0" / SEGMENT).read_bytes() == LOG


@pytest.mark.parametrize(
    ("cut", "left", "end"),
    [
        ({"records": 1}, len(batch(0, 5) + batch(5, 3)), 8),
        ({"records": 2}, len(batch(0, 5) + batch(5, 3)), 8),
        ({"records": 3}, len(batch(0, 5)), 5),
        ({"records": 99}, 0, 0),
        ({"bytes": 1}, len(LOG) - 1, 8),
        ({"bytes": 10**6}, 0, 0),
    ],
)
def test_a_tail_is_cut(world: Any, cut: dict[str, int], left: int, end: int) -> None:
    """``truncate`` cuts whole batches or bytes off the log, and removes the mark of a clean shutdown."""
    found = run(world, {"stop": "C"}, {"truncate": {"node": "C", "partition": "orders-0", **cut}})

    assert (data(world) / "orders-0" / SEGMENT).read_bytes() == LOG[:left]
    assert not (data(world) / ".kafka_cleanshutdown").exists()
    told = {
        "effect_verified": True,
        "last_copy_of": [],
        "segment": SEGMENT,
        "bytes": [len(LOG), left],
        "log_end_offset": end,
    }
    assert found["truncate"] == told


def test_an_empty_log_cannot_be_cut(world: Any) -> None:
    """An empty log cannot be cut."""
    (data(world) / "orders-0" / SEGMENT).write_bytes(b"")
    with pytest.raises(HarnessError, match="broker-3 has no record of orders-0 that could be cut off"):
        run(world, {"stop": "C"}, {"truncate": {"node": "C", "partition": "orders-0", "bytes": 1}})


def test_a_forgotten_checkpoint_has_to_come_back(world: Any) -> None:
    """A deleted checkpoint is healed only when the broker has written it again."""
    forget = {"delete_checkpoint": {"node": "C", "what": "high watermark checkpoint"}}
    found = run(world, {"kill": "C"}, forget)

    assert found["delete_checkpoint"] == {"effect_verified": True, "deleted": CHECKPOINT}
    assert world.seen("healed")[1].detail["recovery_verified"] is False
    with pytest.raises(HarnessError, match="has no high watermark checkpoint yet"):
        run(world, {"kill": "C"}, forget)


def test_one_bit_is_flipped_and_stays(world: Any) -> None:
    """``flip_bit`` changes one bit in the records of the batch with that offset; size and position stay."""
    found = run(world, {"flip_bit": {"node": "C", "partition": "orders-0", "offset": 6}})
    now = (data(world) / "orders-0" / SEGMENT).read_bytes()

    changed = [(at, a ^ b) for at, (a, b) in enumerate(zip(now, LOG, strict=True)) if a != b]
    (place, bit), second = changed[0], whole_batches(LOG)[1]
    assert (len(changed), bit.bit_count()) == (1, 1)
    assert second["position"] + 61 <= place < second["position"] + second["size"]
    assert found["flip_bit"] == {
        "effect_verified": True,
        "segment": SEGMENT,
        "position": second["position"],
        "fits_checksum": False,
    }


def test_an_offset_that_is_not_there_cannot_be_damaged(world: Any) -> None:
    """``flip_bit`` at an offset past the log end is an error."""
    with pytest.raises(HarnessError, match="broker-3 has no offset 10 of orders-0 in its log"):
        run(world, {"flip_bit": {"node": "C", "partition": "orders-0", "offset": 10}})


def gives_up(world: Any, monkeypatch: pytest.MonkeyPatch, words: str, free: str = "0") -> list[str]:
    """Let broker 3 exit with this log line once its disk is broken; return the disk commands that were run."""
    asked: list[str] = []

    def end() -> None:
        with world.servers.brokers[3].log.open("a") as log:
            log.write(f"{words}\n")
        world.runtime.states["broker-3"] = "exited"

    def on_disk(_node: object, script: str) -> str:
        asked.append(script.split(maxsplit=1)[0])
        if script.startswith("dd"):
            end()
        return free if "rm" not in asked else "4096"

    chmod = Path.chmod

    def change(path: Path, mode: int) -> None:
        chmod(path, mode)
        if path.resolve() == data(world) and not mode & 0o200:
            end()

    world.runtime.disks = SimpleNamespace(run_script=on_disk)
    monkeypatch.setattr(Path, "chmod", change)
    return asked


def test_a_disk_with_room_is_not_full(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """If one byte of the disk is free, a full disk is not verified, whatever the broker logs."""
    monkeypatch.setattr("clusters.faults.disk.LIMIT_S", 0.0)
    world.servers.brokers[3] = replace(world.servers.brokers[3], disk_bytes=10**7)
    gives_up(world, monkeypatch, "java.io.IOException: No space left on device", free="1")
    found = run(world, {"fill_disk": "C"})

    assert found["fill_disk"]["effect_verified"] is False


def test_a_full_disk_ends_its_broker(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk is verified by 0 free bytes and the broker's log line; healing frees space and starts the broker."""
    world.servers.brokers[3] = replace(world.servers.brokers[3], disk_bytes=10**7)
    asked = gives_up(world, monkeypatch, "java.io.IOException: No space left on device")
    found = run(world, {"fill_disk": "C"})

    line = "java.io.IOException: No space left on device"
    assert found["fill_disk"] == {
        "effect_verified": True,
        "free_bytes": [0],
        "probe": "connection refused",
        "log": [line],
    }
    assert world.seen("healed")[0].detail["free_bytes"] == [4096]
    assert (asked, world.runtime.started) == (["dd", "df", "rm", "df"], ["broker-3"])


def test_a_broker_that_ends_for_another_reason_was_not_full(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the broker ends for another reason, a full disk is not verified; earlier log lines do not count."""
    world.servers.brokers[3] = replace(world.servers.brokers[3], disk_bytes=10**7)
    gives_up(world, monkeypatch, "java.lang.OutOfMemoryError")
    found = run(world, {"fill_disk": "C"})

    assert found["fill_disk"]["effect_verified"] is False


def test_a_read_only_disk_takes_writing_again(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A read-only data folder and its files become writable again when the fault heals."""
    gives_up(world, monkeypatch, "java.nio.file.AccessDeniedException")
    before = data(world).stat().st_mode
    found = run(world, {"read_only_disk": "C"})

    assert found["read_only_disk"]["log"] == ["java.nio.file.AccessDeniedException"]
    assert world.seen("healed")[0].detail["recovery_verified"] is True
    assert (data(world).stat().st_mode, world.runtime.started) == (before, ["broker-3"])


class Failure(NamedTuple):
    """The reaction of broker 3 and of the others to a failed log directory; by default the right one."""

    line: str = "WARN kafka.log.LogManager - Stopping serving logs in dir {folder}\n"
    offline: bool = True
    leader: int = 1
    ends: bool = False


def jbod(world: Any, monkeypatch: pytest.MonkeyPatch, says: Failure) -> Path:
    """Put orders-0 into broker 3's second log directory, which reacts to a failure like this; return that directory."""
    node = world.servers.brokers[3] = replace(world.servers.brokers[3], log_dir_count=2)
    shutil.move(node.folder / "data" / "orders-0", node.folder / "data-2" / "orders-0")
    failed = node.folder / "data-2"
    chmod = Path.chmod
    view = world.reports.partition_view

    def change(path: Path, mode: int) -> None:
        chmod(path, mode)
        if path.resolve() == failed and not mode & 0o200:
            with node.log.open("a") as log:
                log.write(says.line.format(folder=failed))
            world.runtime.states["broker-3"] = "exited" if says.ends else "running"

    def seen(partition: TopicPartition, without: int | None = None) -> Any:
        now = view(partition, without)
        broken = not failed.stat().st_mode & 0o200
        return replace(now, isr=[1, 2], leader=says.leader, offline=[3] if says.offline else []) if broken else now

    monkeypatch.setattr(Path, "chmod", change)
    monkeypatch.setattr(world.reports, "partition_view", seen)
    return failed


def fail_dir(world: Any) -> dict[str, Any]:
    """Run the step; return the recorded detail of its effect."""
    cluster = {"brokers": 3, "log_dirs": 2}
    step = {"fail_log_dir": {"node": "C", "partition": "orders-0"}}
    PhaseRun(world, scenario([step], cluster=cluster).phases[0]).run()
    return dict(world.seen("injected")[0].detail)


def test_a_broker_goes_on_with_its_other_log_directory(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a failed log directory the broker answers, its replica there is offline, and a restart recovers it."""
    failed = jbod(world, monkeypatch, Failure())
    before = failed.stat().st_mode

    assert fail_dir(world) == {
        "effect_verified": True,
        "log": f"WARN kafka.log.LogManager - Stopping serving logs in dir {failed}"[-200:],
        "directory": "data-2",
        "leader": 1,
        "isr": [1, 2],
        "offline": [3],
        "probe": "answers",
    }
    assert world.seen("healed")[0].detail == {
        "recovery_verified": True,
        "probe": "answers",
        "registered": True,
        "in_sync": "orders-0",
    }
    assert (failed.stat().st_mode, world.runtime.started) == (before, ["broker-3"])


@pytest.mark.parametrize(
    "says",
    [
        Failure(line=""),
        Failure(line="Stopping serving logs in dir {folder}0\n"),
        Failure(offline=False),
        Failure(leader=3),
        Failure(ends=True),
    ],
)
def test_a_log_directory_that_did_not_fail_alone_is_no_proof(
    world: Any, monkeypatch: pytest.MonkeyPatch, says: Failure
) -> None:
    """A failed log directory is verified by the log line, an offline replica, a new leader and a live broker."""
    jbod(world, monkeypatch, says)

    assert fail_dir(world)["effect_verified"] is False


def test_what_a_broker_used_is_carried_over_the_restart_that_heals(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker's usage is carried over once: its process survives the failure, and the restart ends it."""
    jbod(world, monkeypatch, Failure())
    carried: list[list[str]] = []
    monkeypatch.setattr(phase, "carry_usage", lambda _, nodes: carried.append([node.name for node in nodes]))
    fail_dir(world)

    assert carried == [["broker-3"]]


def test_a_log_directory_without_the_replica_cannot_fail_for_it(world: Any) -> None:
    """``fail_log_dir`` needs a log directory that has the replica."""
    world.servers.brokers[3] = replace(
        world.servers.brokers[3], folder=world.servers.brokers[3].folder / "empty", log_dir_count=2
    )

    with pytest.raises(HarnessError, match="broker-3 has no replica of orders-0 whose log directory could fail"):
        fail_dir(world)


LINKED = {
    "wipe": ("data", "data/orders-0"),
    "truncate": ("data", "data/orders-0", f"data/orders-0/{SEGMENT}"),
    "delete_checkpoint": ("data",),
    "flip_bit": ("data", "data/orders-0", f"data/orders-0/{SEGMENT}"),
    "read_only_disk": ("data",),
    "fail_log_dir": ("data",),
}


def linked(world: Any, place: str) -> Path:
    """Move a path of broker 3 elsewhere and leave a symbolic link in its place; return the new path."""
    folder = Path(world.servers.brokers[3].folder)
    outside = folder.with_name("home") / Path(place).name
    outside.parent.mkdir()
    shutil.move(folder / place, outside)
    (folder / place).symlink_to(outside)
    return outside


def state(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Return mode and content of all files in a folder, or of a file."""
    files = [folder, *folder.rglob("*")]
    return {str(file): (file.stat().st_mode, file.read_bytes() if file.is_file() else b"") for file in files}


@pytest.mark.parametrize(("key", "place"), [(key, place) for key, places in LINKED.items() for place in places])
def test_no_fault_of_a_disk_follows_a_link(world: Any, key: str, place: str) -> None:
    """Disk faults reject symbolic links, which a build may have created, and leave the link's target unchanged."""
    log_dirs = 2 if key == "fail_log_dir" else 1
    world.servers.brokers[3] = replace(world.servers.brokers[3], log_dir_count=log_dirs)
    outside = linked(world, place)
    before = state(outside)
    of_replica = {"node": "C", "partition": "orders-0"}
    told: dict[str, Any] = {
        "truncate": {**of_replica, "bytes": 1},
        "delete_checkpoint": {"node": "C", "what": "high watermark checkpoint"},
        "flip_bit": {**of_replica, "offset": 6},
        "fail_log_dir": of_replica,
    }
    ends = [{"kill": "C"}] if key in ("wipe", "truncate", "delete_checkpoint") else []
    played = scenario([*ends, {key: told.get(key, "C")}], cluster={"brokers": 3, "log_dirs": log_dirs})

    with pytest.raises(HarnessError, match=f"at {Path(place).name}, and links are not followed"):
        PhaseRun(world, played.phases[0]).run()
    assert state(outside) == before


def test_a_link_in_a_log_directory_is_left_as_it_is(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """``read_only_disk`` skips symbolic links in a log directory; other files lose and regain the write permission."""
    gives_up(world, monkeypatch, "java.nio.file.AccessDeniedException")
    outside = Path(world.servers.brokers[3].folder).with_name("home")
    (outside / "orders-1").mkdir(parents=True)
    (outside / "orders-1" / SEGMENT).write_text("keep this")
    for place, leads_to in ((f"orders-0/{1:020}.log", f"orders-1/{SEGMENT}"), ("orders-1", "orders-1")):
        (data(world) / place).symlink_to(outside / leads_to)
    before, modes = state(outside), []
    mend = disk.allow_writing

    def allow_writing(node: Any, folder: Path) -> None:
        modes.extend((folder / name).stat().st_mode & 0o222 for name in (".", "orders-0", f"orders-0/{SEGMENT}"))
        assert state(outside) == before
        mend(node, folder)

    monkeypatch.setattr(disk, "allow_writing", allow_writing)
    run(world, {"read_only_disk": "C"})

    assert modes == [0, 0, 0]
    assert (data(world) / "orders-0" / SEGMENT).stat().st_mode & 0o200
    assert state(outside) == before
