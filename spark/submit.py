"""Judges run folders with spark-submit, on this machine or where Airflow's Spark connection says."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import pyspark

from history.errors import BadInput, HarnessError
from history.folder import SEAL, RunFolder
from history.java import spark_java_home
from history.remote import check_reachable, remove_tree
from spark.connection import spark_master

ROOT = Path(__file__).parents[1]
EXIT_CODES = {"pass": 0, "fail": 1, "unknown": 2}
# The JVM lives for half a minute; Spark's generated classes overflow the code cache that comes with one tier, and a
# full one ends all compiling.
_SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"
# From the 129th group on, Spark 4.3.0 sorts instead of hashing, and a set of structs then holds equal ones twice.
CORRECT = {"spark.sql.execution.useObjectHashAggregateExec": "false"}
_PACKAGES = ("history", "kafka_files", "spark", "expectations")


def judge(folders: list[Path]) -> int:
    """Judge run folders in one Spark application and print two lines for each.

    Returns: 0 when all pass, 1 when one fails, else 2.

    Raises:
        BadInput: a folder is no run folder, or the Spark connection cannot be read.
        HarnessError: the application ended without a verdict.
    """
    runs = [RunFolder(folder.resolve()) for folder in folders]
    for run in runs:
        check_reachable(run.path)
    if not runs:
        raise BadInput("Say which run folders to judge, for example: plimsoll judge runs/<run id>.")
    for run in runs:
        if not (run.manifest.is_file() or (run.path / SEAL).is_file()):
            raise BadInput(f"{run.path} is no run folder: it holds neither manifest.json nor {SEAL}.")
    for run in runs:
        remove_tree(run.verdict)  # an old verdict must not outlive a judge that dies
    _submit([str(run.path) for run in runs])
    verdicts = [_verdict(run) for run in runs]
    for run, verdict in zip(runs, verdicts, strict=True):
        print(f"run: {run.path}\nverdict: {verdict}", flush=True)  # noqa: T201  # what machines read
    return max((EXIT_CODES[verdict] for verdict in verdicts), key=[0, 2, 1].index)


def _verdict(run: RunFolder) -> str:
    if not run.verdict_file.is_file():
        raise HarnessError(f"The judge ended without a verdict on {run.path}; its messages are above.")
    verdict = json.loads(run.verdict_file.read_text())
    print(verdict["sentence"])  # noqa: T201  # what people read
    return str(verdict["verdict"])


def _submit(folders: list[str]) -> None:
    master, options = spark_master(os.environ)
    with tempfile.TemporaryDirectory(prefix="plimsoll-judge-") as scratch:
        command = [
            str(Path(pyspark.__file__).parent / "bin" / "spark-submit"),
            *("--master", master),
            *(part for name, value in options.items() for part in (f"--{name}", value)),
            *(part for name, value in _settings(scratch).items() for part in ("--conf", f"{name}={value}")),
            *([] if master.startswith("local") else ["--py-files", _packed(Path(scratch))]),
            str(ROOT / "spark" / "job.py"),
            *folders,
        ]
        environment = {
            **os.environ,
            "JAVA_HOME": str(spark_java_home()),
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "PYTHONPATH": str(ROOT),
            "SPARK_LOCAL_IP": os.environ.get("SPARK_LOCAL_IP", "127.0.0.1") if master.startswith("local") else "",
            "GX_ANALYTICS_ENABLED": "false",
        }
        with _own_group(command, environment) as process:
            code = process.wait()
    if code:
        raise HarnessError(f"spark-submit on {master} ended with exit code {code}; its messages are above.")


def _settings(scratch: str) -> dict[str, str]:
    logging = (ROOT / "spark" / "log4j2.properties").as_uri()
    return {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "2g",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={logging} {_SHORT_LIVED}",
        "spark.local.dir": scratch,
        "spark.sql.warehouse.dir": f"{scratch}/warehouse",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.wholeStage": "false",  # compiling costs more than these rows
        "spark.sql.codegen.cache.maxEntries": "10000",  # what one run had compiled serves the next
        **CORRECT,
        "spark.sql.execution.arrow.pyspark.enabled": "true",
    }


def _packed(scratch: Path) -> str:
    """The packages that executors on other machines need, as one archive."""
    source = scratch / "packages"
    for package in _PACKAGES:
        shutil.copytree(ROOT / package, source / package, ignore=shutil.ignore_patterns("__pycache__"))
    return shutil.make_archive(str(scratch / "plimsoll"), "zip", source)


@contextmanager
def _own_group(command: list[str], environment: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """A child in a process group of its own that never outlives the block, with its whole group."""
    process = subprocess.Popen(command, env=dict(environment), cwd=ROOT, start_new_session=True)
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield process
    finally:
        signal.signal(signal.SIGTERM, before)
        # The Python driver outlives its spark-submit when only that is killed.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _interrupt(number: int, frame: object) -> None:  # noqa: ARG001  # a signal handler takes both
    raise KeyboardInterrupt
