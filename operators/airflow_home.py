"""Make an Airflow home for one run or for ``make up``; never use the user's own.

A migration takes 11 s, so each Airflow version's database is migrated once and copied. Separate homes do not share
SQLite's lock.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path

from clusters.paths import CACHE, ROOT, locked
from clusters.waiting import wait_until
from history.commands import run_command
from history.errors import HarnessError, remove_each
from operators.processes import kill, with_variable

log = logging.getLogger("plimsoll.airflow_home")

HOMES = CACHE / "airflow"
BENCHMARK_POOL = "benchmark"
PAGES = "PLIMSOLL_PAGES"  # the variable with the address of the pages server
_LOCK = "lock"
_DATABASE_LIMIT_S = 60

_SETTINGS = {
    "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",  # a run of a paused DAG never starts
    "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
    "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW__CORE__PARALLELISM": "4",
    "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
    "AIRFLOW__LOGGING__COLORED_CONSOLE_LOG": "False",
    "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.1",
    "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
    "AIRFLOW__WORKERS__EXECUTION_API_RETRIES": "10",  # on a busy host, tasks start before the api-server
}


def environment(home: Path, **more: str) -> dict[str, str]:
    """Return the environment of an ``airflow`` command in this home, without other Airflows' settings."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW__")}
    python_path = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {
        **inherited,
        **_SETTINGS,
        # SQLite's default of 5 s is too short on a busy disk ("database is locked").
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow.db?timeout={_DATABASE_LIMIT_S}",
        "AIRFLOW_HOME": str(home),
        "GX_ANALYTICS_ENABLED": "false",
        "NO_COLOR": "1",
        "PYTHONPATH": os.pathsep.join(python_path),
        "SPT_NOENV": "1",  # else a worker's title overwrites its environment, which identifies it
        "PYTHONUNBUFFERED": "1",  # a killed process's last lines are in the log
        **more,
    }


def airflow(*arguments: str) -> list[str]:
    """Return the command line of this Python's ``airflow``."""
    return [sys.executable, "-m", "airflow", *arguments]


def make_home(home: Path) -> Path:
    """Make an Airflow home unless it exists; its database, written last, marks it as complete.

    Raises:
        HarnessError: the database could not be migrated.
    """
    if not (home / "airflow.db").is_file():
        template = _template()
        home.mkdir(parents=True, exist_ok=True)
        # Airflow writes its home and its components' secrets into its configuration.
        settings = (template / "airflow.cfg").read_text().replace(str(_partial(template)), str(home))
        (home / "airflow.cfg").touch(0o600)
        (home / "airflow.cfg").write_text(settings)
        shutil.copy2(template / "airflow.db", home / ".airflow.db")
        (home / ".airflow.db").rename(home / "airflow.db")
    return home


@contextmanager
def home_of_run(run_id: str) -> Iterator[Path]:
    """Yield a run's Airflow home; a lock marks it as used."""
    home = HOMES / "runs" / run_id
    with locked(home / _LOCK):
        try:
            make_home(home)
        except BaseException:
            shutil.rmtree(home, ignore_errors=True)
            raise
        yield home


def remove_leftovers() -> list[str]:
    """Remove homes of ended commands with their processes; return them.

    Raises:
        NotRemoved: a process or home could not be removed; the others were.
    """
    return remove_each(partial(_remove_home, lock) for lock in sorted((HOMES / "runs").glob(f"*/{_LOCK}")))


def _remove_home(lock: Path) -> list[str]:
    home = lock.parent
    with lock.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # its command still runs
            return []
        wait_until(partial(_is_deserted, home), limit_s=10, what=f"the processes of {home} to end")
        shutil.rmtree(home)
    return [f"{home.name}/airflow"]


def _is_deserted(home: Path) -> bool:
    """Kill the home's processes; return whether there were none."""
    found = with_variable("AIRFLOW_HOME", str(home))
    kill(found)
    return not found


def _template() -> Path:
    settings = json.dumps([_SETTINGS, BENCHMARK_POOL], sort_keys=True)
    digest = hashlib.sha256(settings.encode()).hexdigest()[:8]
    template = HOMES / f"{version('apache-airflow')}-{digest}"
    with locked(HOMES / _LOCK):
        if not template.is_dir():
            partial = _partial(template)
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()
            log.info("preparing Airflow's database, once (about 15 s)")
            try:
                migrate(partial)
                partial.rename(template)
            finally:
                shutil.rmtree(partial, ignore_errors=True)
    return template


def _partial(template: Path) -> Path:
    return template.with_name(f".{template.name}")


def migrate(home: Path, **variables: str) -> None:
    """Migrate the database to this Airflow's version and add the benchmarks' pool; repeatable.

    Raises:
        HarnessError: Airflow failed.
    """
    for command in (("db", "migrate"), ("pools", "set", BENCHMARK_POOL, "1", "benchmark runs, one after the other")):
        done = run_command(airflow(*command), env=environment(home, **variables), cwd=ROOT)
        if done.returncode or not (home / "airflow.cfg").is_file():
            last = (done.stdout + done.stderr).strip().rpartition("\n")[2]
            raise HarnessError(
                f"airflow {' '.join(command[:2])} in {home} ended with exit code {done.returncode}: {last}; see "
                "whether its disk has room and your user may write there, and start again."
            )
