"""Make an Airflow home from a database that is migrated once."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import sqlite3
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from importlib.metadata import version
from pathlib import Path

from clusters.paths import CACHE, ROOT, locked
from history.commands import run_command
from history.errors import HarnessError
from service.pools import BENCHMARKS, RUNS
from service.stages import QUEUE, UPLOAD_TO

log = logging.getLogger("plimsoll.airflow_home")

HOMES = CACHE / "airflow"
PAGES = "PLIMSOLL_PAGES"  # the variable with the address of the pages server
_POOLS = (BENCHMARKS, RUNS)
_LOCK = "lock"
_PREPARED = "prepared"  # Airflow's release and the DAGs' digest
_SOURCES = ("dags", "operators", "service", "scenarios", "campaigns", "clusters", "history")
DATABASE = "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"
_READ_BY_DAGS = ("PLIMSOLL_NIGHTLY", QUEUE, UPLOAD_TO, "PLIMSOLL_OWNER", "PLIMSOLL_RETRIES", "PLIMSOLL_DEADLINE")
_DATABASE_LIMIT_S = 60  # SQLite's default of 5 s is too short on a busy disk ("database is locked")

_SETTINGS = {
    "AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT": "300",  # a busy host took 32 s; 30 s make a DAG stale, and tasks fail
    "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",  # a run of a paused DAG never starts
    "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
    "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW__CORE__PARALLELISM": "16",
    "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
    "AIRFLOW__DAG_PROCESSOR__DAG_FILE_PROCESSOR_TIMEOUT": "600",
    "AIRFLOW__LOGGING__COLORED_CONSOLE_LOG": "False",
    "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
    "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": "90",  # longer than SQLite's lock: a repeated request to trigger fails
    "AIRFLOW__WORKERS__EXECUTION_API_RETRIES": "10",  # on a busy host, tasks start before the api-server
}


def environment(home: Path, **more: str) -> dict[str, str]:
    """Return the environment of this home's commands, without other Airflows' settings."""
    kept = {name for name in os.environ if not name.startswith("AIRFLOW__") or name.startswith("AIRFLOW__METRICS__")}
    python_path = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {
        **{name: os.environ[name] for name in kept},
        **_SETTINGS,
        DATABASE: sqlite_address(home, _DATABASE_LIMIT_S),
        "AIRFLOW_HOME": str(home),
        "GX_ANALYTICS_ENABLED": "false",
        "NO_COLOR": "1",
        "PYTHONPATH": os.pathsep.join(python_path),
        "SPT_NOENV": "1",  # else a worker's title overwrites its environment, which identifies it
        "PYTHONUNBUFFERED": "1",  # a killed process's last lines are in the log
        **more,
    }


def sqlite_address(home: Path, limit_s: float) -> str:
    """Return the address of a home's database; a writer waits this long for others."""
    return f"sqlite:///{home}/airflow.db?timeout={limit_s:g}"


def airflow(*arguments: str) -> list[str]:
    """Return the command line of this Python's ``airflow``."""
    return [sys.executable, "-m", "airflow", *arguments]


def make_home(home: Path) -> Path:
    """Make or update an Airflow home; its database, written last, marks it as complete.

    Raises: HarnessError: Airflow failed.
    """
    if not (home / "airflow.db").is_file():
        home.mkdir(parents=True, exist_ok=True)
        with _template() as template:
            # Airflow writes its home and its components' secrets into its configuration.
            settings = (template / "airflow.cfg").read_text().replace(str(_partial(template)), str(home))
            (home / "airflow.cfg").touch(0o600)
            (home / "airflow.cfg").write_text(settings)
            for name in (_PREPARED, "airflow.db"):
                shutil.copy2(template / name, home / f".{name}")
                (home / f".{name}").rename(home / name)
    _prepare(home)
    return home


@contextmanager
def _template() -> Iterator[Path]:
    settings = json.dumps([_SETTINGS, _POOLS], sort_keys=True)
    digest = hashlib.sha256(settings.encode()).hexdigest()[:8]
    template = HOMES / f"{version('apache-airflow')}-{digest}"
    with locked(HOMES / _LOCK):
        if template.is_dir():
            _prepare(template)
        else:
            partial = _partial(template)
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()
            log.info("preparing Airflow's database, once (about 20 s)")
            try:
                _prepare(partial)
                partial.rename(template)
            finally:
                shutil.rmtree(partial, ignore_errors=True)
        yield template


def _partial(template: Path) -> Path:
    return template.with_name(f".{template.name}")


def _prepare(home: Path) -> None:
    """Migrate the database of another version or with other pools; serialize changed DAGs."""
    mark = home / _PREPARED
    before = mark.read_text() if mark.is_file() else ""
    schema = f"{version('apache-airflow')}-{hashlib.sha256(repr(_POOLS).encode()).hexdigest()[:4]}"
    wanted = f"{schema} {_digest_of_sources()}"
    if before.partition(" ")[0] != schema:
        migrate(home)
    if before != wanted:
        _run(home, {}, "dags", "reserialize")
        with closing(sqlite3.connect(home / "airflow.db")) as database:
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        mark.write_text(wanted)


def _digest_of_sources() -> str:
    found = hashlib.sha256(" ".join(os.environ.get(name, "") for name in _READ_BY_DAGS).encode())
    for folder in _SOURCES:
        for file in sorted((ROOT / folder).rglob("*.*")):
            if file.suffix in {".py", ".yaml"}:
                found.update(file.read_bytes())
    return found.hexdigest()[:8]


def migrate(home: Path, **variables: str) -> None:
    """Migrate the database to this Airflow's version and add the pools; repeatable."""
    _run(home, variables, "db", "migrate")
    for pool in _POOLS:
        _run(home, variables, "pools", "set", pool.name, str(pool.slots), pool.description, "--include-deferred")


def _run(home: Path, variables: Mapping[str, str], *words: str) -> None:
    done = run_command(airflow(*words), env=environment(home, **variables), cwd=ROOT)
    if done.returncode or not (home / "airflow.cfg").is_file():
        last = (done.stdout + done.stderr).strip().rpartition("\n")[2]
        raise HarnessError(
            f"airflow {' '.join(words[:2])} in {home} ended with exit code {done.returncode}: {last}; see "
            "whether its disk has room and your user may write there, and start again."
        )
