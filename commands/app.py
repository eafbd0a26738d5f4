"""The commands of ``plimsoll``: names, help, options."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer.main import get_command

from campaigns import kinds
from clusters.paths import ROOT
from commands.ci import Files, reported
from commands.options import (
    RUNS,
    AirflowUrl,
    AsJson,
    CampaignName,
    Faults,
    Format,
    Idempotence,
    Isolation,
    JavaOption,
    Junit,
    Kafka,
    MetricsPort,
    OwnCluster,
    Runs,
    Runtime,
    ScenarioName,
    Seed,
    Subnet,
    SummaryFile,
    TopicConfig,
    UncleanElection,
    Upload,
    annotation_of,
    complete_run,
    parameter,
)
from commands.outcome import Outcome, outcome_of, say
from history.exit_codes import BAD_INPUT, MEANINGS, PASS, UNKNOWN
from history.java import VARIABLE as JAVA_VARIABLE
from history.kafka_versions import DEFAULT_RELEASE
from service.api import NAMED as AIRFLOW_VARIABLE

DATABASE = "PLIMSOLL_DB"  # environment only: it may hold a password

app = typer.Typer(
    name="plimsoll",
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    help=(
        "Test whether a Kafka version, build or configuration keeps its durability guarantees under failures, and how "
        "long it takes to recover.\n\nStart with [bold]plimsoll doctor[/bold], then [bold]plimsoll run[/bold]. Every "
        "command has its own --help."
    ),
    epilog=f"Exit codes: {', '.join(f'{code} {meaning}' for code, meaning in MEANINGS.items())}.",
)

PRINT_JSON: set[str] = set()  # commands with ``as_json``: they print lines of JSON before the last one
RUN, MANY, SERVE, KEEP = "One run", "Many runs, one question", "Airflow and Spark", "Upkeep"


def command(
    panel: str,
    *examples: str,
    name: str | None = None,
    runs_java: bool = False,
    records: bool = False,
    has_verdict: bool = False,
    **how: Any,
) -> Callable[[Callable[..., Outcome]], Callable[..., Outcome]]:
    """Register a function as a command; ``examples`` lack the word ``plimsoll``."""
    shared = [parameter("json", AsJson, default=False)]
    if has_verdict:
        shared += [parameter("junit", Junit), parameter("summary", SummaryFile)]
    if records:
        shared.append(parameter("airflow", AirflowUrl))
    if records or runs_java:
        shared.append(parameter("java", JavaOption))

    def register(function: Callable[..., Outcome]) -> Callable[..., Outcome]:
        shown = name or function.__name__
        answer, signature = _answer_of(function, shown), inspect.signature(function, eval_str=True)
        if "as_json" in signature.parameters:
            PRINT_JSON.add(shown)
        own = [each for each in signature.parameters.values() if each.name != "as_json"]
        answer.__signature__ = signature.replace(  # type: ignore[attr-defined]
            parameters=[*own, *shared], return_annotation=Outcome
        )
        epilog = "\n".join(["Examples:", *(f"  plimsoll {example}" for example in examples)]) if examples else None
        app.command(shown, rich_help_panel=panel, epilog=epilog, **how)(answer)
        return function

    return register


def _answer_of(function: Callable[..., Outcome], shown: str) -> Callable[..., Outcome]:
    @wraps(function)
    def answer(**options: Any) -> Outcome:
        as_json = options.pop("json")  # main reads it, too
        if shown in PRINT_JSON:
            options["as_json"] = as_json
        for option, variable in (("java", JAVA_VARIABLE), ("airflow", AIRFLOW_VARIABLE)):
            if value := options.pop(option, None):
                os.environ[variable] = value
        if "junit" not in options:
            return outcome_of(function, options)
        files = Files.of(options.pop("junit"), options.pop("summary"))
        return reported(f"plimsoll {shown}", files, function, options)

    return answer


@contextmanager
def _serving_metrics(port: int | None, runs: Path) -> Iterator[None]:
    from service.metrics_endpoint import serving, url_of

    with serving(port, runs):
        if port is not None:
            say(f"metrics: {url_of(port)}")
        yield


@command(
    RUN,
    "run",
    "run survived_faults --kafka 4.3.0 --seed 7",
    "run my/scenario.yaml --kafka ../kafka/build/dist",
    "run failover --cluster mine.yaml --dry-run",
    records=True,
    has_verdict=True,
)
def run(
    *,
    scenario: ScenarioName = "follower_lag_then_leader_kill",
    kafka: Kafka = DEFAULT_RELEASE,
    runtime: Runtime = "auto",
    rate: Annotated[float | None, typer.Option(help="Records per second; default: the scenario's rate.")] = None,
    seed: Seed = None,
    subnet: Subnet = None,
    upload: Upload = None,
    remote: Annotated[
        bool, typer.Option("--remote", help="With --airflow and --upload: its workers share no folder with this host.")
    ] = False,
    cluster: OwnCluster = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="With --cluster: say what the run would do, and do nothing.")
    ] = False,
    metrics_port: MetricsPort = None,
    runs: Runs = RUNS,
) -> Outcome:
    """Run one scenario on a fresh cluster or on your own, and judge it.

    The last two lines are "run: <folder>" and "verdict: pass|fail|unknown"; the page is <folder>/report/index.html.
    """
    if dry_run:
        from commands.own_cluster import dry_run as say_what

        return say_what(scenario, cluster, rate=rate)
    asked = {"kafka": kafka, "runtime": runtime, "rate": rate, "seed": seed, "subnet": subnet}
    if remote:
        from commands.remote import record_remotely

        return record_remotely(scenario, upload, asked, cluster)
    from commands.runs import record_and_judge

    with _serving_metrics(metrics_port, runs.resolve()):
        return record_and_judge(scenario, upload, cluster=cluster, runs=runs.resolve(), **asked)


@command(RUN, "judge runs/20260101-120000-steady", runs_java=True, has_verdict=True)
def judge(
    run: Annotated[
        list[str],
        typer.Argument(
            help="Run folders, or their URLs, such as s3://bucket/runs/x.", autocompletion=complete_run, metavar="RUN"
        ),
    ],
) -> Outcome:
    """Judge recorded runs again and rewrite their pages.

    The exit code for several runs is the worst: fail, then unknown, then pass.
    """
    from commands.runs import judge_again

    return judge_again(run)


@command(
    RUN,
    "import docs/examples/jepsen.edn --format jepsen",
    "import producer.json consumer.json --format verifiable --acks 1 --faults kill",
    name="import",
    runs_java=True,
    has_verdict=True,
)
def import_(
    *,
    history: Annotated[list[Path], typer.Argument(help="The files of one history.", metavar="FILE")],
    format: Format,  # noqa: A002  # the option's name
    acks: Annotated[Literal["0", "1", "all"], typer.Option(help="The producers' acks.")] = "all",
    idempotence: Idempotence = None,
    unclean_election: UncleanElection = "false",
    isolation: Isolation = "read_committed",
    faults: Faults = "",
    topic_config: TopicConfig = None,
    kafka: Annotated[str, typer.Option(help="The cluster's version.", metavar="VERSION")] = "unknown",
    runs: Runs = RUNS,
) -> Outcome:
    """Judge a history that another tool recorded, such as Jepsen or Kafka's verifiable clients.

    docs/imports.md describes the formats, and what can be judged without replicas.
    """
    from commands.runs import import_and_judge
    from imports.run_folder import Settings, topic_settings

    settings = Settings(
        acks=acks,
        idempotence=None if idempotence is None else idempotence == "true",
        unclean_election=unclean_election == "true",
        isolation=isolation,
        faults=tuple(filter(None, (name.strip() for name in faults.split(",")))),
        topics=topic_settings(topic_config or []),
        kafka_version=kafka,
    )
    return import_and_judge(history, format, settings, runs.resolve())


@command(RUN, "inspect /var/lib/kafka/data", "inspect data/orders-0/00000000000000000000.log --json", name="inspect")
def inspect_(
    logs: Annotated[
        list[Path],
        typer.Argument(help="Log directories, folders of replicas, or segments.", metavar="LOGS"),
    ],
) -> Outcome:
    """Read a broker's log directory or a segment: batches, CRCs, leader epochs, gaps, transaction markers, problems.

    It needs no cluster and changes nothing. It reads neither records inside batches nor .index and .timeindex files.
    Exit code 1 means a problem; a gap alone is none, since compaction leaves gaps.
    """
    from commands.inspect import inspect_logs

    return inspect_logs(logs)


@command(
    RUN,
    "watch orders payments --cluster mine.yaml",
    "watch orders --cluster mine.yaml --seconds 600 --json",
    runs_java=True,
    has_verdict=True,
)
def watch(
    *,
    topics: Annotated[list[str], typer.Argument(help="The topics to watch.", metavar="TOPIC")],
    cluster: Annotated[
        Path, typer.Option(help="The file that describes the cluster (docs/own-cluster.md).", metavar="FILE")
    ],
    hz: Annotated[float, typer.Option(help="Samples of each replica per second.", min=0.1, max=20)] = 1.0,
    seconds: Annotated[float | None, typer.Option(help="How long to watch; default: until Ctrl-C.", min=1)] = None,
    metrics_port: MetricsPort = None,
    runs: Runs = RUNS,
    as_json: bool,
) -> Outcome:
    """Watch every replica of topics on your own cluster, which is only read, and judge what they showed.

    Shows high watermark, log end offset, ISR, leader and lag: which replica is behind, and since when.
    With --json, each sample is one line.
    """
    from commands.watch import watch_cluster

    with _serving_metrics(metrics_port, runs.resolve()):
        return watch_cluster(cluster, topics, hz=hz, seconds=seconds, runs=runs.resolve(), as_json=as_json)


@command(RUN, "scenarios")
def scenarios() -> Outcome:
    """List the scenarios and their purposes."""
    from commands.runs import list_scenarios

    return list_scenarios()


def _register(kind: kinds.Kind) -> None:
    def campaign(
        *,
        name: str | None,
        settings: Path | None,
        seed: int | None,
        metrics_port: int | None,
        runs: Path,
        **options: Any,
    ) -> Outcome:
        from commands.campaigns import run_campaign

        chosen, recording = (
            {option.name: options[option.key] for option in of} for of in (kind.options, kind.recording)
        )
        with _serving_metrics(metrics_port, runs.resolve()):
            return run_campaign(
                kind, chosen, file=settings, name=name, seed=seed, runs=runs.resolve(), recording=recording
            )

    by_default = f"; default: {kind.settings_file}" if kind.settings_file else ""
    file = typer.Option(help=f"The settings, as YAML ({kind.docs_page}){by_default}.", metavar="FILE")
    campaign.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            *(parameter(option.key, annotation_of(option)) for option in kind.options),  # "from" is a Python keyword
            parameter("settings", Annotated[Path | None, file]),
            parameter("name", CampaignName),
            parameter("seed", Seed),
            *(parameter(option.key, annotation_of(option)) for option in kind.recording),
            parameter("metrics_port", MetricsPort),
            parameter("runs", Runs, RUNS),
        ]
    )
    campaign.__doc__ = f"{kind.help}.\n\n{kind.why}\n\nPhases: {kind.phases}\n\nExpected result: {kind.expected}"
    command(MANY, *kind.examples, name=kind.command, records=True, has_verdict=True)(campaign)


for _name in kinds.names():
    _register(kinds.of(_name))


@command(MANY, "sample", "sample --only run,known-bug", records=True)
def sample(
    *,
    only: Annotated[
        str | None, typer.Option(help="Names from sample.yaml, separated by commas; default: all.", metavar="NAMES")
    ] = None,
    folder: Annotated[
        Path, typer.Option(help="The folder for its runs, archive and site.", show_default="sample", metavar="FOLDER")
    ] = ROOT / "sample",
) -> Outcome:
    """Run each command of sample.yaml once, and make a small site with links to the results.

    It takes about an hour. Existing results are kept.
    """
    from commands.sample import make_sample

    return make_sample(folder.resolve(), only, run_command)


@command(SERVE, "up --port 9090", runs_java=True)
def up(
    port: Annotated[int, typer.Option(help="The port of Airflow's page; the next port serves the runs' pages.")] = 8080,
    db: Annotated[
        str | None,
        typer.Option(
            help="Airflow's PostgreSQL database, as postgresql://user@host/name. Prefer the environment "
            "variable: other users of this host read command lines.",
            envvar=DATABASE,
            show_envvar=True,
            metavar="ADDRESS",
        ),
    ] = None,
    metrics_port: MetricsPort = None,
) -> Outcome:
    """Start Airflow with its web page, and the pages of all runs."""
    from commands.upkeep import start_airflow

    return start_airflow(port, db, metrics_port)


@command(SERVE)
def down() -> Outcome:
    """Stop Airflow."""
    from commands.upkeep import stop_airflow

    return stop_airflow()


@command(SERVE, "spark-cluster", "spark-cluster --stop", name="spark-cluster", runs_java=True)
def spark_cluster(
    stop: Annotated[bool, typer.Option("--stop", help="Stop the cluster and all of its executors.")] = False,
) -> Outcome:
    """Start a Spark cluster on this host, to try judging on one: a master and two workers with separate addresses.

    It needs root for network namespaces (docs/spark-cluster.md).
    """
    from commands.upkeep import start_spark_cluster, stop_spark_cluster

    return stop_spark_cluster() if stop else start_spark_cluster()


@command(KEEP, "doctor --json")
def doctor(
    port: Annotated[int, typer.Option(help="The port that plimsoll up would use, together with the next one.")] = 8080,
) -> Outcome:
    """Check this machine: list what works, what each missing item prevents, and how to install it.

    Exit code 1 means that no scenario can run here.
    """
    from commands.doctor import examine

    return examine(port)


@command(KEEP, "archive", "archive --metrics /var/lib/prometheus/node-exporter/plimsoll.prom")
def archive(
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Build the archive again from the run folders first.")
    ] = False,
    metrics: Annotated[
        Path | None,
        typer.Option(
            help="Also write the archive as an OpenMetrics text file (docs/observability.md).", metavar="FILE"
        ),
    ] = None,
    runs: Annotated[
        str,
        typer.Option(
            help="The folder of run folders, or its URL, such as s3://bucket/plimsoll/runs; default: runs.",
            envvar="PLIMSOLL_RUNS",
            show_default=False,
            metavar="FOLDER",
        ),
    ] = str(RUNS),
) -> Outcome:
    """List all archived runs, and write the page that summarises them."""
    from commands.upkeep import list_archive

    return list_archive(runs, rebuild=rebuild, metrics=metrics)


@command(KEEP)
def clean(
    all_: Annotated[
        bool,
        typer.Option(
            "--all",
            help="Also stop current runs and the Spark cluster; with --cluster: also topics of other hosts' runs.",
        ),
    ] = False,
    cluster: Annotated[
        Path | None,
        typer.Option(
            help="End faults and delete topics that crashed runs left on the cluster that this file describes.",
            metavar="FILE",
        ),
    ] = None,
) -> Outcome:
    """Remove the containers, processes and networks of interrupted runs and Spark clusters.

    Recorded runs, results and pages stay.
    """
    if cluster:
        from commands.own_cluster import clean_cluster

        return clean_cluster(cluster, everything=all_)
    from commands.upkeep import remove_leftovers

    return remove_leftovers(everything=all_)


def run_command(arguments: Sequence[str]) -> Outcome:
    """Run a command line without ``plimsoll``; parse errors are bad input."""
    try:
        ended = get_command(app).main(list(arguments) or ["--help"], prog_name="plimsoll", standalone_mode=False)
    except typer.TyperException as error:
        return Outcome(BAD_INPUT, error=_one_sentence(error))
    except SystemExit as exit_:  # by completion, and with 1 by help into a closed pipe
        return Outcome(UNKNOWN if exit_.code else PASS)
    return ended if isinstance(ended, Outcome) else Outcome(int(ended or 0))  # --help, completion


def _one_sentence(error: typer.TyperException) -> str:
    context = getattr(error, "ctx", None)
    path = context.command_path if context else "plimsoll"
    message = " ".join(error.format_message().split()).replace("Value error, ", "")
    return f"{message.rstrip('.')}; see {path} --help."
