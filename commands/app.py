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
from commands.outcome import Outcome, outcome_of, say
from history.exit_codes import BAD_INPUT, MEANINGS, PASS, UNKNOWN
from history.java import VARIABLE as JAVA_VARIABLE
from history.kafka_versions import DEFAULT_RELEASE

DATABASE = "PLIMSOLL_DB"  # environment only: it may hold a password

app = typer.Typer(
    name="plimsoll",
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    help=(
        "Test whether a Kafka version, build or configuration keeps its durability guarantees under failures, and how "
        "long it takes to recover.\n\n"
        "Start with [bold]plimsoll doctor[/bold], then [bold]plimsoll run[/bold]. Every command has its own --help."
    ),
    epilog=f"Exit codes: {', '.join(f'{code} {meaning}' for code, meaning in MEANINGS.items())}.",
)

RUN, MANY, SERVE, KEEP = "One run", "Many runs, one question", "Airflow and Spark", "Upkeep"


def command(
    panel: str,
    *examples: str,
    name: str | None = None,
    runs_java: bool = False,
    has_verdict: bool = False,
    **how: Any,
) -> Callable[[Callable[..., Outcome]], Callable[..., Outcome]]:
    """Register a function as a command; ``examples`` lack the word ``plimsoll``."""

    def register(function: Callable[..., Outcome]) -> Callable[..., Outcome]:
        @wraps(function)
        def answer(**options: Any) -> Outcome:
            options.pop("json")  # main reads it, too
            if java := options.pop("java", None):
                os.environ[JAVA_VARIABLE] = java
            if not has_verdict:
                return outcome_of(function, options)
            files = Files.of(options.pop("junit"), options.pop("summary"))
            return reported(f"plimsoll {shown}", files, function, options)

        shown = name or function.__name__
        signature = inspect.signature(function, eval_str=True)
        shared = [_option("json", AsJson, default=False)]
        if has_verdict:
            shared += [_option("junit", Junit), _option("summary", SummaryFile)]
        if runs_java:
            shared.append(_option("java", JavaOption))
        answer.__signature__ = signature.replace(  # type: ignore[attr-defined]
            parameters=[*signature.parameters.values(), *shared], return_annotation=Outcome
        )
        epilog = "\n".join(["Examples:", *(f"  plimsoll {example}" for example in examples)]) if examples else None
        app.command(shown, rich_help_panel=panel, epilog=epilog, **how)(answer)
        return function

    return register


def _option(name: str, annotation: Any, default: Any = None) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def complete_scenario(incomplete: str) -> list[str]:
    """Complete names without importing clusters.scenario, which takes a second."""
    return sorted(path.stem for path in (ROOT / "scenarios").glob(f"{incomplete}*.yaml"))


def complete_run(incomplete: str) -> list[str]:
    """Complete paths of runs."""
    return [str(path) for path in sorted(Path("runs").glob("*/")) if str(path).startswith(incomplete)]


AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object at the end; progress goes to stderr.")]
Junit = Annotated[
    Path | None, typer.Option(help="Write what was decided as JUnit XML, for CI systems.", metavar="FILE")
]
SummaryFile = Annotated[
    Path | None,
    typer.Option(
        help="Write a summary in Markdown; where GITHUB_STEP_SUMMARY is set, it is appended there, too.", metavar="FILE"
    ),
]
Kafka = Annotated[
    str,
    typer.Option(help="A released version, a folder or tarball of jars, or image:<reference>.", metavar="VERSION"),
]
Runtime = Annotated[
    Literal["auto", "docker", "process"],
    typer.Option(help="Where the brokers run: containers, or processes of this host (fewer faults)."),
]


def _local_folder(text: str | Path) -> Path:
    if "://" in str(text):
        raise typer.BadParameter(f"{text} is no folder of this machine, where runs are recorded")
    return Path(text)


Runs = Annotated[
    Path,
    typer.Option(
        help="The folder of run folders; default: runs.",
        envvar="PLIMSOLL_RUNS",
        show_default=False,
        metavar="FOLDER",
        parser=_local_folder,
    ),
]
JavaOption = Annotated[
    str | None,
    typer.Option(
        "--java",
        help="The Java of Spark and of every server: 17, 21, 25, or a JDK's folder; default: the one of "
        "requirements.lock.",
        metavar="JAVA",
        show_default=False,
    ),
]
RUNS = ROOT / "runs"
MetricsPort = Annotated[
    int | None,
    typer.Option(
        help="Serve the metrics of the runs that go on on this port of the loopback (docs/observability.md).",
        min=1,
        max=65535,
        metavar="PORT",
    ),
]
Seed = Annotated[int | None, typer.Option(help="Makes random choices repeatable; drawn where nothing is said.")]


@contextmanager
def _serving_metrics(port: int | None, runs: Path) -> Iterator[None]:
    from operators.metrics_endpoint import serving, url_of

    with serving(port, runs):
        if port is not None:
            say(f"metrics: {url_of(port)}")
        yield


# --- one run ---------------------------------------------------------------------------------------


@command(
    RUN,
    "run",
    "run survived_faults --kafka 4.3.0 --seed 7",
    "run my/scenario.yaml --kafka ../kafka/build/dist",
    runs_java=True,
    has_verdict=True,
)
def run(
    *,
    scenario: Annotated[
        str,
        typer.Argument(
            help="A name (see plimsoll scenarios), or a .yaml file.",
            autocompletion=complete_scenario,
            metavar="SCENARIO",
        ),
    ] = "follower_lag_then_leader_kill",
    kafka: Kafka = DEFAULT_RELEASE,
    runtime: Runtime = "auto",
    rate: Annotated[float | None, typer.Option(help="Records per second, instead of the scenario's.")] = None,
    seed: Seed = None,
    subnet: Annotated[
        str | None, typer.Option(help="The run's own network, such as 10.199.7.0/24.", metavar="RANGE")
    ] = None,
    metrics_port: MetricsPort = None,
    runs: Runs = RUNS,
) -> Outcome:
    """Run one scenario on a fresh cluster, and judge it.

    The last two lines are "run: <folder>" and "verdict: pass|fail|unknown"; the folder has the page.
    """
    from commands.runs import record_and_judge

    with _serving_metrics(metrics_port, runs.resolve()):
        return record_and_judge(
            scenario, kafka=kafka, runtime=runtime, rate=rate, seed=seed, subnet=subnet, runs=runs.resolve()
        )


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


Format = Annotated[
    Literal["operations", "verifiable", "ledger", "jepsen"],
    typer.Option(help="operations, verifiable, ledger or jepsen.", metavar="FORMAT"),
]
Idempotence = Annotated[
    Literal["true", "false"] | None,
    typer.Option(help="Whether producers are idempotent; default: true with transactions."),
]
UncleanElection = Annotated[Literal["true", "false"], typer.Option(help="May a replica out of sync lead?")]
Isolation = Annotated[
    Literal["read_uncommitted", "read_committed"],
    typer.Option(help="The consumers' level: read_committed or read_uncommitted.", metavar="LEVEL"),
]
Faults = Annotated[
    str,
    typer.Option(help="What was done to the cluster, by the names of steps, such as kill,pause.", metavar="STEPS"),
]
TopicConfig = Annotated[
    list[str] | None,
    typer.Option(help="A topic's setting, such as orders:cleanup.policy=compact; without a topic: of all."),
]


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
    acks: Annotated[Literal["0", "1", "all"], typer.Option(help="What the producers asked for.")] = "all",
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


@command(RUN, "scenarios")
def scenarios() -> Outcome:
    """List the scenarios, and why each is run."""
    from commands.runs import list_scenarios

    return list_scenarios()


# --- many runs -------------------------------------------------------------------------------------


def _register(kind: kinds.Kind) -> None:
    def campaign(
        *,
        name: str | None,
        settings: Path | None,
        seed: int | None,
        upload: str | None,
        metrics_port: int | None,
        runs: Path,
        **options: Any,
    ) -> Outcome:
        from commands.campaigns import run_campaign

        asked = {option.name: options[option.key] for option in kind.options}
        with _serving_metrics(metrics_port, runs.resolve()):
            return run_campaign(kind, asked, file=settings, name=name, seed=seed, runs=runs.resolve(), upload=upload)

    by_default = f"; default: {kind.settings_file}" if kind.settings_file else ""
    file = typer.Option(help=f"The settings, as YAML ({kind.docs_page}){by_default}.", metavar="FILE")
    campaign.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            *(_option(option.key, _annotation(option)) for option in kind.options),  # "from" is a Python keyword
            _option("settings", Annotated[Path | None, file]),
            _option(
                "name",
                Annotated[str | None, typer.Option(help="One that exists goes on where it stopped.", metavar="NAME")],
            ),
            _option("seed", Seed),
            _option(kinds.UPLOAD.name, _annotation(kinds.UPLOAD)),
            _option("metrics_port", MetricsPort),
            _option("runs", Runs, RUNS),
        ]
    )
    campaign.__doc__ = f"{kind.help}.\n\n{kind.why}\n\nPhases: {kind.phases}\n\nExpected result: {kind.expected}"
    command(MANY, *kind.examples, name=kind.command, runs_java=True, has_verdict=True)(campaign)


def _annotation(option: kinds.Option) -> Any:
    """None means that the settings decide; help shows their default."""
    taken: Any = Literal[option.choices] if option.choices else option.type
    example = "" if option.choices or option.default else f", such as {option.example}"
    by_default = f"; default: {option.default}" if option.default else ""
    return Annotated[
        taken | None,
        typer.Option(
            f"--{option.name.replace('_', '-')}",
            help=f"{option.words}{example}{by_default}.",
            metavar=option.name.upper(),
        ),
    ]


for _name in kinds.names():
    _register(kinds.of(_name))


@command(MANY, "sample", "sample --only run,known-bug", runs_java=True)
def sample(
    *,
    only: Annotated[
        str | None, typer.Option(help="Names of sample.yaml with commas between; default: all.", metavar="NAMES")
    ] = None,
    folder: Annotated[
        Path, typer.Option(help="For its runs, archive and site.", show_default="sample", metavar="FOLDER")
    ] = ROOT / "sample",
) -> Outcome:
    """Make a small site of real runs: each command of sample.yaml once, and a page with links to the results.

    It takes about an hour. Existing results are kept.
    """
    from commands.sample import make_sample

    return make_sample(folder.resolve(), only, run_command)


# --- Airflow, Spark and upkeep ----------------------------------------------------------------------------


@command(SERVE, "up --port 9090", runs_java=True)
def up(
    port: Annotated[int, typer.Option(help="Of Airflow's page; the next one has the pages of runs.")] = 8080,
    db: Annotated[
        str | None,
        typer.Option(
            help="A PostgreSQL database, as postgresql://user@host/name. Better in the environment: other users of "
            "this host read command lines.",
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
    stop: Annotated[bool, typer.Option("--stop", help="End it, with all of its executors.")] = False,
) -> Outcome:
    """Start a Spark cluster on this host, to try judging on one: a master and two workers with separate addresses.

    It needs root for network namespaces (docs/spark-cluster.md).
    """
    from commands.upkeep import start_spark_cluster, stop_spark_cluster

    return stop_spark_cluster() if stop else start_spark_cluster()


@command(KEEP, "doctor --json")
def doctor(
    port: Annotated[int, typer.Option(help="That plimsoll up would use, with the next one.")] = 8080,
) -> Outcome:
    """List what this machine can do, what each missing thing prevents, and how to get it.

    Exit code 1 means that no scenario can run here.
    """
    from commands.doctor import examine

    return examine(port)


@command(KEEP, "archive", "archive --metrics /var/lib/prometheus/node-exporter/plimsoll.prom")
def archive(
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Write it anew from the run folders first.")] = False,
    metrics: Annotated[
        Path | None,
        typer.Option(help="Also write it as an OpenMetrics text file (docs/observability.md).", metavar="FILE"),
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
    """List every judged run that is kept, and write the page over all of them."""
    from commands.upkeep import list_archive

    return list_archive(runs, rebuild=rebuild, metrics=metrics)


@command(KEEP)
def clean(
    all_: Annotated[bool, typer.Option("--all", help="Also end runs and a Spark cluster that are alive.")] = False,
) -> Outcome:
    """Remove the containers, processes and networks of interrupted runs and Spark clusters.

    Recorded runs, results and pages stay.
    """
    from commands.upkeep import remove_leftovers

    return remove_leftovers(everything=all_)


def run_command(arguments: Sequence[str]) -> Outcome:
    """Run a command line without ``plimsoll``; parse errors are bad input."""
    try:
        ended = get_command(app).main(list(arguments) or ["--help"], prog_name="plimsoll", standalone_mode=False)
    except typer.TyperException as error:
        return Outcome(BAD_INPUT, error=_one_sentence(error))
    except SystemExit as asked:  # by completion, and with 1 by help into a closed pipe
        return Outcome(UNKNOWN if asked.code else PASS)
    return ended if isinstance(ended, Outcome) else Outcome(int(ended or 0))  # --help, completion


def _one_sentence(error: typer.TyperException) -> str:
    context = getattr(error, "ctx", None)
    path = context.command_path if context else "plimsoll"
    message = " ".join(error.format_message().split()).replace("Value error, ", "")
    return f"{message.rstrip('.')}; see {path} --help."
