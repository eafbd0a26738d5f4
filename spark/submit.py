"""Judge run folders with spark-submit or Spark Connect, here or on Airflow's Spark connection."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pyspark

from history.access import variables
from history.errors import BadInput, HarnessError
from history.exit_codes import worst
from history.folder import SEAL, RunFolder
from history.java import java_of, spark_java_home
from history.remote import check_reachable, remove_tree
from history.scratch import scratch
from spark import environment as executor_environment
from spark.class_cache import class_cache
from spark.connection import EXECUTOR_LIMIT, NO_EXECUTOR, SparkConnection, spark_connection

ROOT = Path(__file__).parents[1]
SPARK_HOME = Path(pyspark.__file__).parent
# The JVM runs for seconds, and verifying the locked jars' classes takes one of them.
_SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
_MASTER_LIMIT_S = 10.0
# Partitions allocate and free large arrays. One allocator that unmaps them keeps a fifth less than the separate caches
# of Arrow and numpy.
_GIVEN_BACK = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_MMAP_THRESHOLD_": "4194304",
    "MALLOC_TRIM_THRESHOLD_": "33554432",
}
# A query of a thousand rows ends before code for it is compiled and its plan adapted (1 s of CPU).
_SMALL_QUERIES = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
# They choose a server of Spark Connect.
_CONNECT = frozenset({"SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED", "SPARK_API_MODE"})
SENT = ("spark.archives", "spark.submit.pyFiles")
_PACKAGES = ("history", "kafka_files", "evidence", "judge", "spark", "expectations")


def judge(folders: list[Path]) -> int:
    """Judge run folders in one Spark application and print two lines for each.

    Returns: 0 when all pass, 1 when one fails, else 2.

    Raises:
        BadInput: a folder is no run folder, or the Spark connection cannot be read.
        HarnessError: the master or its executors do not answer, or the application ended without a verdict.
    """
    runs = run_folders(folders)
    connection = spark_connection(variables())
    driver_host = driver_address(connection)
    for run in runs:
        remove_tree(run.verdict)  # an old verdict must not outlive a judge that dies
    _submit([str(run.path) for run in runs], connection, driver_host)
    verdicts = [_verdict(run) for run in runs]
    for run, verdict in zip(runs, verdicts, strict=True):
        print(f"run: {run.path}\nverdict: {verdict}", flush=True)  # noqa: T201  # what machines read
    return worst(verdicts)


def run_folders(folders: list[Path]) -> list[RunFolder]:
    """Return the folders to judge; raise BadInput if there is none, or one is no run folder."""
    runs = [RunFolder(folder.resolve()) for folder in folders]
    for run in runs:
        check_reachable(run.path)
    if not runs:
        raise BadInput("Say which run folders to judge, for example: plimsoll judge runs/<run id>.")
    for run in runs:
        if not (run.manifest.is_file() or (run.path / SEAL).is_file()):
            raise BadInput(f"{run.path} is no run folder: it holds neither manifest.json nor {SEAL}.")
    return runs


def _verdict(run: RunFolder) -> str:
    if not run.verdict_file.is_file():
        raise HarnessError(f"The judge ended without a verdict on {run.path}; its messages are above.")
    verdict = json.loads(run.verdict_file.read_text())
    print(verdict["sentence"])  # noqa: T201  # what people read
    return str(verdict["verdict"])


def _submit(folders: list[str], connection: SparkConnection, driver_host: str | None) -> None:
    with scratch() as folder, _jvm_options(connection) as options:
        conf = {} if connection.is_connect else settings(connection, driver_host, folder, options)
        starter = [sys.executable] if connection.is_connect else _spark_submit(connection, conf, folder)
        command = [*starter, str(ROOT / "spark" / "application.py"), connection.job, *folders]
        with _own_group(command, _environment(connection, folder)) as process:
            code = process.wait()
    if code == NO_EXECUTOR:
        raise HarnessError(_no_executor(connection.master, conf))
    if code:
        raise HarnessError(f"The judge on {connection.server} ended with exit code {code}; its messages are above.")


def _spark_submit(connection: SparkConnection, conf: Mapping[str, str], folder: Path) -> list[str]:
    return [
        str(SPARK_HOME / "bin" / "spark-submit"),
        *("--master", connection.master, "--deploy-mode", connection.deploy_mode),
        *("--load-spark-defaults", "--properties-file", str(_written(conf, folder))),
    ]


def _written(conf: Mapping[str, str], folder: Path) -> Path:
    """Write the settings to a file that only its owner can read: command lines are public, and some are secrets."""
    lines = [f"{name}={value}".replace("\\", r"\\").replace("\n", r"\n") for name, value in conf.items()]
    path = folder / "spark.properties"
    path.touch(mode=0o600)
    path.write_text("\n".join(lines) + "\n")
    return path


def _no_executor(master: str, conf: Mapping[str, str]) -> str:
    address = conf.get("spark.driver.host") or os.environ.get("SPARK_LOCAL_IP") or socket.gethostname()
    return (
        f"No executor of {master} answered the driver at {address} for {conf[EXECUTOR_LIMIT]}: the workers' hosts must "
        "reach that address (spark.driver.host in the connection's conf names another) and have cores and memory free "
        f"({EXECUTOR_LIMIT} there is how long to wait); the workers' logs say how each executor ended."
    )


def _environment(connection: SparkConnection, folder: Path) -> dict[str, str]:
    """Return the environment of spark-submit and driver; the caller's Spark variables stay."""
    ours = {} if "spark.local.dir" in connection.conf else {"SPARK_LOCAL_DIRS": str(folder)}
    if connection.is_local:
        ours["SPARK_LOCAL_IP"] = "127.0.0.1"
    remote = {"SPARK_REMOTE": connection.master} if connection.is_connect else {}
    return {
        **_GIVEN_BACK,
        **ours,
        **{name: value for name, value in variables().items() if name not in _CONNECT},
        "JAVA_HOME": str(spark_java_home()),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
        "GX_ANALYTICS_ENABLED": "false",
        **remote,
    }


@contextmanager
def _jvm_options(connection: SparkConnection) -> Iterator[str]:
    """Yield the driver's JVM options, with its class cache where it runs here and as we configure it."""
    if not connection.is_local or connection.conf:
        yield _SHORT_LIVED
        return
    with class_cache(java_of(), _SHORT_LIVED) as options:
        yield options


def settings(
    connection: SparkConnection, driver_host: str | None, folder: Path, options: str = _SHORT_LIVED
) -> dict[str, str]:
    """Return all of Spark's settings: the connection's, else ours. Files for executors add up."""
    logging = f"-Dlog4j2.configurationFile={(ROOT / 'spark' / 'log4j2.properties').as_uri()}"
    temporary = f'"-Djava.io.tmpdir={folder}"'  # a killed driver does not empty it
    here = connection.deploy_mode == "client"
    ours = {
        "spark.app.name": "plimsoll judge",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        **_SMALL_QUERIES,
        "spark.driver.memory": "2g",
        "spark.driver.extraJavaOptions": f"{logging} {temporary} {options}" if here else options,
    }
    if connection.is_local:
        ours["spark.python.daemon.module"] = "spark.worker_daemon"
    else:
        ours |= _of_cluster(connection, driver_host, folder)
    sent = {name: f"{ours[name]},{connection.conf[name]}" for name in SENT if name in ours and name in connection.conf}
    return {**ours, **connection.conf, **sent}


def _of_cluster(connection: SparkConnection, driver_host: str | None, folder: Path) -> dict[str, str]:
    """Return what executors on other hosts need: the driver's address, a Python with libraries, our code."""
    conf = {EXECUTOR_LIMIT: "120s", "spark.submit.pyFiles": packages(folder)}
    if driver_host:
        conf["spark.driver.host"] = driver_host
    if connection.deploy_mode == "client":
        conf["spark.pyspark.driver.python"] = sys.executable
    if "spark.pyspark.python" not in connection.conf:
        conf["spark.pyspark.python"] = executor_environment.PYTHON
        conf["spark.archives"] = f"{executor_environment.packed()}#{executor_environment.NAME}"
    return conf


def driver_address(connection: SparkConnection) -> str | None:
    """Return this host's address towards the master, where executors find the driver; None if Spark or the user
    chooses.

    Raises:
        HarnessError: no master responds.
    """
    places = _places(connection.master)
    if not places or connection.deploy_mode == "cluster":
        return None
    refused = []
    for host, port in places:
        try:
            with socket.create_connection((host, port), timeout=_MASTER_LIMIT_S) as connected:
                chosen = "spark.driver.host" in connection.conf or "SPARK_LOCAL_IP" in os.environ
                return None if chosen else str(connected.getsockname()[0])
        except OSError as error:
            refused.append(f"{host}:{port}: {error}")
    raise HarnessError(
        f"Spark's master {connection.server} does not answer ({'; '.join(refused)}); start it, or correct the "
        "connection spark_default."
    )


def _places(master: str) -> list[tuple[str, int]]:
    """Return (host, port) of each standalone master, of Kubernetes' API server, or of Spark Connect's."""
    scheme, _, rest = master.partition("://")
    if scheme in ("k8s", "sc"):
        url = urlsplit(rest if "://" in rest else f"{'sc' if scheme == 'sc' else 'https'}://{rest}")
        return [(url.hostname or "", url.port or {"http": 80, "sc": 15002}.get(url.scheme, 443))]
    parts = [place.rpartition(":") for place in rest.split(",")] if scheme == "spark" else []
    return [(host.strip("[]"), int(port)) for host, _, port in parts]


def packages(folder: Path) -> str:
    """Return an archive of this project's packages for executors."""
    source = folder / "packages"
    for package in _PACKAGES:
        shutil.copytree(ROOT / package, source / package, ignore=shutil.ignore_patterns("__pycache__"))
    return shutil.make_archive(str(folder / "plimsoll"), "zip", source)


@contextmanager
def _own_group(command: list[str], environment: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Start a child in its own process group, which ends with the block."""
    process = subprocess.Popen(command, env=dict(environment), cwd=ROOT, start_new_session=True)
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield process
    finally:
        signal.signal(signal.SIGTERM, before)
        # The Python driver outlives a killed spark-submit.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _interrupt(number: int, frame: object) -> None:  # noqa: ARG001  # a signal handler takes both
    raise KeyboardInterrupt
