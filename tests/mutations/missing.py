"""Evidence that is taken away."""

from __future__ import annotations

import shutil
from dataclasses import replace

from tests.mutations.kind import kind
from tests.mutations.recording import Recording, drained_to, replace_file


@kind(reason="probe")
def no_probe(run: Recording) -> str:
    """The probe's samples are missing."""
    run.put("replicas", [])
    return "all of them"


@kind(reason="probe")
def replica_never_probed(run: Recording) -> str:
    """The probe has no sample of one replica."""
    broker_id = run.choose(list(run.brokers))
    run.put("replicas", [row for row in run.rows("replicas") if row["broker_id"] != broker_id])
    return f"broker {broker_id}"


@kind(reason="server log")
def no_broker_log(run: Recording) -> str:
    """One broker's log was not collected."""
    broker_id = run.choose(list(run.brokers))
    run.server_logs()[broker_id].unlink()
    return f"broker {broker_id}"


@kind(reason="segment")
def no_segments(run: Recording) -> str:
    """No replica's segments were exported."""
    for broker_id in run.brokers:
        run.segment(broker_id).unlink()
    return "all of them"


@kind(reason="segment")
def segments_of_one_replica_missing(run: Recording) -> str:
    """One replica's segments were not exported."""
    broker_id = run.choose(list(run.brokers))
    run.segment(broker_id).unlink()
    return f"broker {broker_id}"


@kind(reason="log of orders-0")
def segment_torn(run: Recording) -> str:
    """One replica's segment was exported in part."""
    broker_id = run.choose(list(run.brokers))
    whole = run.segment(broker_id).read_bytes()
    replace_file(run.segment(broker_id), whole[: len(whole) * run.choose(range(2, 9)) // 10 + 7])
    return f"broker {broker_id}"


@kind(reason="drain")
def no_final_drain(run: Recording) -> str:
    """There is no final drain of the log."""
    run.put("polls", [row for row in run.rows("polls") if row["pass"] != "final"])
    (run.folder.clients / "drain.json").unlink()
    return "all of it"


@kind(reason="controller|ZooKeeper")
def no_history(run: Recording) -> str:
    """The controller's history was not collected."""
    names = ("__cluster_metadata-0", "version-2")
    for folder in [path for name in names for path in run.folder.brokers.rglob(name)]:
        shutil.rmtree(folder)
    return "all copies"


@kind(reason="capture")
def capture_missing(run: Recording) -> str:
    """One of the captures of all offsets is missing: before the first phase, or at the end."""
    chosen = run.choose(["before", "after"])
    run.put("offsets", [row for row in run.rows("offsets") if row["capture"] != chosen])
    return chosen


@kind(reason="ledger")
def ledger_cut_short(run: Recording) -> str:
    """The last sends are missing in the ledger, the logs and the readers' records."""
    cut = run.acked()[-run.choose(range(10, 100))]
    run.put("sends", [row for row in run.rows("sends") if row["seq"] < cut["seq"]])
    run.put("polls", [row for row in run.rows("polls") if row["offset"] < cut["offset"]])
    drained_to(run, cut["offset"], cut["offset"])
    return f"from number {cut['seq']}"


@kind(reason="read")
def table_damaged(run: Recording) -> str:
    """A recorded table's file is cut in two."""
    file = run.choose(sorted(run.folder.table("sends").glob("*.parquet")))
    replace_file(file, file.read_bytes()[: file.stat().st_size // 2])
    return file.name


@kind(reason="effect")
def fault_took_no_effect(run: Recording) -> str:
    """One fault has no proof that it took effect."""
    event = run.choose([event for event in run.events if event.kind == "injected"])
    changed = replace(event, detail={**event.detail, "effect_verified": False})
    run.put_events([changed if each is event else each for each in run.events])
    return f"{event.step} of {event.target}"


@kind(reason="heal")
def fault_never_healed(run: Recording) -> str:
    """One fault has no proof that it healed."""
    event = [event for event in run.events if event.kind == "healed"][-1]
    run.put_events([each for each in run.events if each is not event])
    return f"{event.step} of {event.target}"


@kind(reason="phase")
def phase_missing(run: Recording) -> str:
    """One phase of the scenario did not finish."""
    event = run.choose([event for event in run.events if event.kind == "phase_ended"])
    run.put_events([each for each in run.events if each is not event])
    return event.phase


@kind(reason="harness")
def harness_failed(run: Recording) -> str:
    """The harness recorded an internal error."""
    event = run.choose(run.events)
    run.put_events([*run.events, replace(event, kind="error", detail={"why": "the daemon went away"})])
    return event.kind
