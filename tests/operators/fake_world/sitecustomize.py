"""Replaces Kafka, Spark and the page in other processes: Python imports this file at its start.

Each call is a line of the file ``FAKE_CALLS``. The JSON file ``FAKE_SETTINGS`` has settings: ``FAKE_BREAK`` names a
call that raises, ``FAKE_HANG`` one that waits until the setting changes, ``FAKE_JUDGE`` is the judge's exit code.
"""

import json
import os
import sys
import threading
import types
from pathlib import Path

CALLS = (
    *("start_cluster", "create_topics", "capture", "start_clients", "run_phase"),
    *("stop_producers", "quiesce", "drain", "stop_clients", "tear_down"),
)


def setting(name, default=None):
    """Return a setting of the fakes."""
    return json.loads(Path(os.environ["FAKE_SETTINGS"]).read_text()).get(name, default)


def note(name, *arguments):
    """Record a call; raise or hang if the settings request it."""
    with Path(os.environ["FAKE_CALLS"]).open("a") as calls:
        calls.write(" ".join([name, *map(str, arguments)]) + "\n")
    while name == setting("FAKE_HANG"):
        threading.Event().wait(0.1)
    if name == setting("FAKE_BREAK"):
        raise RuntimeError(f"{name} broke as asked")


def call(name):
    """Return a fake of a call on a run."""
    return lambda run, *arguments: note(name, *arguments)


def prepare(scenario, *, kafka, rate, seed, runs, runtime="auto", subnet=None, cluster=None, changes=None, labels=None):
    """Make an empty run folder with a lease."""
    from clusters.run.leftovers import write_lease

    run = Path(runs) / setting("FAKE_RUN", f"run-of-{scenario}")
    (run / "work").mkdir(parents=True)
    write_lease(run, "time")
    note("prepare", kafka)
    return run


def collect(run):
    """Seal the run folder."""
    from history.folder import RunFolder

    note("collect")
    RunFolder(run).seal()


def judge(runs):
    """Write the requested verdict."""
    note("judge")
    code = int(setting("FAKE_JUDGE", "0"))
    (runs[0] / "verdict").mkdir()
    (runs[0] / "verdict" / "verdict.json").write_text(json.dumps({"verdict": ["pass", "fail", "unknown"][code]}))
    return code


def publish(run, site):
    """Write no page."""
    note("publish")
    return run / "report" / "index.html"


def reap(*, all_runs=False, docker_may_be_down=False):
    """Return one leftover."""
    note("reap", all_runs)
    return ["left-over"]


def register(name, **functions):
    """Register a module of these functions under the real one's name."""
    module = types.ModuleType(name)
    vars(module).update(functions)
    sys.modules[name] = module


if "FAKE_CALLS" in os.environ:
    from clusters.run import host

    host.HOST = Path(os.environ["FAKE_CALLS"]).parent / "host"  # a test does not wait for another one's benchmark
    register(
        "clusters.run.experiment",
        prepare=prepare,
        collect=collect,
        reap=reap,
        check_unstarted=lambda run: None,
        **{name: call(name) for name in CALLS},
    )
    register("spark.submit", judge=judge)
    register("reports.run_page", publish=publish)
