"""Commands that serve and clean up."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from clusters.paths import runs_folder
from commands.outcome import Outcome, print_error, say
from history.errors import BadInput, NotRemoved, remove_each
from history.exit_codes import PASS, UNKNOWN
from history.remote import check_reachable, path_of
from history.scratch import remove_scratch
from service import airflow, metrics_endpoint, spark_cluster


def list_archive(runs: str | Path, *, rebuild: bool, metrics: Path | None = None) -> Outcome:
    """List judged runs and write the index page.

    ``rebuild`` first rewrites the rows from run folders; ``metrics`` is an OpenMetrics file.

    Raises:
        BadInput: the store cannot be reached, or the file's folder does not exist.
    """
    from campaigns import archive_metrics, site  # slow import
    from campaigns.places import Places
    from history import archive

    if metrics and not metrics.parent.is_dir():
        raise BadInput(f"--metrics={metrics}: there is no folder {metrics.parent}.")
    folder = path_of(runs).resolve()
    check_reachable(folder)
    places = Places.beside(folder)
    if rebuild:
        for sentence in site.rebuild(places):
            print_error(sentence)
    page = site.write_index(places)
    if metrics:
        archive_metrics.write_metrics(archive.read(places.archive), metrics)
    runs_kept = site.archived(places)
    lines = [
        f"{run.run_id:62}  {run.kafka_version:8}  {run.verdict:8}  {run.metrics:3} metrics  {run.campaign}".rstrip()
        for run in runs_kept
    ]
    return Outcome(lines=lines, facts={"page": page, "runs": [run._asdict() for run in runs_kept]})


def remove_leftovers(*, everything: bool) -> Outcome:
    """Remove leftovers of dead runs, or all; continue after failures."""
    from clusters.run import experiment  # slow import

    code, error = PASS, ""
    try:
        removed = remove_each(
            [
                partial(airflow.end_unused, say=say),  # first: it would start new nodes
                partial(experiment.reap, all_runs=everything),
                partial(spark_cluster.remove_leftovers, everything=everything),
                remove_scratch,
            ]
        )
    except NotRemoved as incomplete:
        code, error, removed = UNKNOWN, str(incomplete), list(incomplete.removed)
    lines = [f"removed what was left of: {', '.join(removed) or 'no run'}"]
    return Outcome(code, lines, {"removed": removed}, error)


def start_airflow(port: int, database: str | None, metrics_port: int | None = None) -> Outcome:
    """Start Airflow, pages and metrics, unless they run.

    Raises:
        BadInput: a port is in use, or the address is not PostgreSQL's.
        HarnessError: it did not start; everything was removed again.
    """
    from campaigns.places import Places  # slow import
    from campaigns.site import write_index

    say("starting Airflow … (about 15 s)")
    write_index(Places.beside(runs_folder()))
    port, metrics_port = airflow.up(port, database=database or None, metrics_port=metrics_port)
    page, pages = airflow.url_of(port), airflow.url_of(port + 1)
    lines = [f"Airflow is up: {page} (plimsoll down ends it)", f"pages of all runs and campaigns: {pages}"]
    metrics = metrics_endpoint.url_of(metrics_port) if metrics_port else None
    if metrics:
        lines.append(f"metrics of the runs that go on: {metrics}")
    return Outcome(lines=lines, facts={"airflow": page, "pages": pages, "metrics": metrics})


def stop_airflow() -> Outcome:
    """Stop Airflow, if it runs."""
    was_up = airflow.down()
    return Outcome(lines=["Airflow is down" if was_up else "Airflow was not up"], facts={"was_up": was_up})


def start_spark_cluster() -> Outcome:
    """Start this host's Spark cluster, unless it runs.

    Raises:
        BadInput: network namespaces are not possible.
        HarnessError: it did not start; everything was removed again.
    """
    spark_cluster.check_possible()
    say("starting Spark's master and workers … (about 15 s)")
    cluster = spark_cluster.up()
    lines = [
        f"Spark's master: {cluster.master}, its page: {cluster.page} (plimsoll spark-cluster --stop ends it)",
        f"workers: {', '.join(cluster.worker_addresses)}",
        f"to judge there: AIRFLOW_CONN_SPARK_DEFAULT={cluster.master} ./plimsoll judge <run>",
    ]
    return Outcome(lines=lines, facts=cluster._asdict())


def stop_spark_cluster() -> Outcome:
    """Stop this host's Spark cluster, if it runs."""
    was_up = spark_cluster.down()
    return Outcome(
        lines=["Spark's cluster is down" if was_up else "Spark's cluster was not up"], facts={"was_up": was_up}
    )
