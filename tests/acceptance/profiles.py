"""Record what the judge decides with more and with less evidence, for docs/verdicts.md; takes four minutes."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from kafka.admin import ACLOperation

from history.errors import BadInput
from history.exit_codes import BAD_INPUT
from history.folder import RunFolder
from judge.run import CHECKS
from tests.own_cluster import OwnCluster, free_port
from tests.own_runs import HOOKS, KILL_LEADER, described, granted, on, recorded, result, scenario, verdict_of
from tests.rows import DATA, Row, put, today

RESULTS = DATA / "profiles.json"
WATCHED, WATCHED_S = "payments", 10
FOLLOWERS = (2, 3)

Verdict = Mapping[str, Any]  # of verdict.json


def _watch(cluster: OwnCluster, folder: Path, user: str = "ann", blocked: Sequence[int] = ()) -> Verdict:
    """Return the verdict on a watch to which some brokers are closed."""
    ports = {number: free_port() if number in blocked else port for number, port in cluster.ports.items()}
    addresses = {number: f"localhost:{port}" for number, port in ports.items()}
    file = described(cluster, folder, user=user, addresses=addresses)
    options = ("--cluster", str(file), "--seconds", str(WATCHED_S), "--runs", str(folder / "runs"))
    _, facts, said = result("watch", WATCHED, *options)
    assert "run" in facts, said
    return dict(json.loads(RunFolder(Path(facts["run"])).verdict_file.read_text()))


def _run(cluster: OwnCluster, folder: Path, user: str = "ann", delivered: Sequence[str] = ()) -> Verdict:
    """Return the verdict on a run whose leader is killed, where hooks deliver some of the brokers' files."""
    file = described(cluster, folder, HOOKS | {name: name for name in delivered}, user)
    run, why = recorded(file, scenario(folder, *KILL_LEADER))
    assert not why, why
    return verdict_of(run)


def _run_without_a_broker(cluster: OwnCluster, folder: Path) -> Verdict:
    """Return the sentence with which a run is rejected while a broker is down."""
    cluster.kill(FOLLOWERS[-1])
    outcome = on(described(cluster, folder), scenario(folder))
    assert outcome.code == BAD_INPUT, outcome
    return {"verdict": "rejected", "sentence": outcome.error}


CASES: Mapping[str, Callable[[OwnCluster, Path], Verdict]] = {
    "watch with READ": _watch,
    "watch with all rights": partial(_watch, user="admin"),
    "watch, followers do not answer": partial(_watch, blocked=FOLLOWERS),
    "run": _run,
    "run with all rights": partial(_run, user="admin"),
    "run, `logs`": partial(_run, delivered=("logs",)),
    "run, `segments`": partial(_run, delivered=("segments",)),
    "run, `logs` and `segments`": partial(_run, delivered=("logs", "segments")),
    "run, a broker does not answer": _run_without_a_broker,
}


def row(case: str, verdict: Verdict) -> Row:
    """Return the row of a case; a run that was rejected judges nothing."""
    lacking = verdict.get("not_judged", list(CHECKS))
    return {
        "case": case,
        "evidence": verdict.get("evidence", ""),
        "judged": len(CHECKS) - len(lacking),
        "not_judged": len(lacking),
        "verdict": verdict["verdict"],
        "sentence": verdict["sentence"],
        "date": today(),
    }


def record(folder: Path, names: Sequence[str]) -> None:
    """Try cases one after the other on a cluster; keep each row at once."""
    (own := folder / "own").mkdir()
    order = list(CASES)
    with granted(own) as cluster:
        cluster.create_topic(WATCHED, min_insync_replicas="2")
        cluster.produce(WATCHED, 300)
        cluster.allow("ann", ACLOperation.READ, WATCHED)
        for number, name in enumerate(names):
            (case := folder / str(number)).mkdir()
            found = row(name, CASES[name](cluster, case))
            put(RESULTS, "case", [found], lambda each: order.index(each["case"]))
            print(f"{name}: {found['sentence']}", flush=True)


def main(names: Sequence[str]) -> int:
    """Record the rows of the named cases, or of all."""
    if unknown := set(names) - CASES.keys():
        raise BadInput(f"There is no case {min(unknown)!r}; known: {', '.join(CASES)}.")
    with tempfile.TemporaryDirectory(prefix="plimsoll-profiles-") as folder:
        record(Path(folder), names or list(CASES))
    return 0
