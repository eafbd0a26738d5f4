"""The options that commands share, and those of ``plimsoll import`` and of campaigns."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from campaigns import kinds
from clusters.paths import ROOT
from service.api import NAMED

RUNS = ROOT / "runs"


def parameter(name: str, annotation: Any, default: Any = None) -> inspect.Parameter:
    """Return a keyword-only parameter, which Typer shows as an option."""
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def annotation_of(option: kinds.Option) -> Any:
    """Return the annotation of a campaign's option; None means that the settings decide."""
    taken: Any = Literal[option.choices] if option.choices else option.type
    text = option.help if option.choices or option.default else option.with_example(option.example)
    by_default = f"; default: {option.default}" if option.default else ""
    return Annotated[
        taken | None,
        typer.Option(
            option.flag,
            help=f"{text[:1].upper()}{text[1:]}{by_default}.",
            metavar=option.name.upper(),
            min=option.minimum,
        ),
    ]


def complete_scenario(incomplete: str) -> list[str]:
    """Complete names without importing clusters.scenario, which takes a second."""
    return sorted(path.stem for path in (ROOT / "scenarios").glob(f"{incomplete}*.yaml"))


def complete_run(incomplete: str) -> list[str]:
    """Complete paths of runs."""
    return [str(path) for path in sorted(Path("runs").glob("*/")) if str(path).startswith(incomplete)]


AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object at the end; progress goes to stderr.")]
Junit = Annotated[Path | None, typer.Option(help="Write the result as JUnit XML, for CI systems.", metavar="FILE")]
SummaryFile = Annotated[
    Path | None,
    typer.Option(
        help="Write a summary in Markdown. It is also appended to $GITHUB_STEP_SUMMARY if that is set.", metavar="FILE"
    ),
]
Kafka = Annotated[
    str,
    typer.Option(
        help="The Kafka to run: a release from 2.8.0 on, a folder or tarball of jars, or image:<reference>.",
        metavar="VERSION",
    ),
]
Runtime = Annotated[
    Literal["auto", "docker", "process"],
    typer.Option(
        help="Run the brokers in Docker containers, or as processes of this host (which supports fewer faults); auto: "
        "in containers if Docker answers."
    ),
]


def _local_folder(text: str | Path) -> Path:
    if "://" in str(text):
        raise typer.BadParameter(f"{text} is no folder of this machine, where runs are recorded")
    return Path(text)


Runs = Annotated[
    Path,
    typer.Option(
        help="The folder that contains the run folders; default: runs.",
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
        help="The Java that runs Spark and all servers: 17, 21, 25, or a JDK's folder; default: the one in "
        "requirements.lock.",
        metavar="JAVA",
        show_default=False,
    ),
]
AirflowUrl = Annotated[
    str | None,
    typer.Option(
        "--airflow",
        help="The URL of the Airflow that runs it (docs/airflow.md); default: this checkout's, started if needed.",
        envvar=NAMED,
        show_envvar=True,
        metavar="URL",
        show_default=False,
    ),
]
MetricsPort = Annotated[
    int | None,
    typer.Option(
        help="Serve metrics of the current runs on this port of 127.0.0.1 (docs/observability.md).",
        min=1,
        max=65535,
        metavar="PORT",
    ),
]
ScenarioName = Annotated[
    str,
    typer.Argument(
        help="A name (see plimsoll scenarios), or a .yaml file.", autocompletion=complete_scenario, metavar="SCENARIO"
    ),
]
Upload = Annotated[
    str | None,
    typer.Option(
        help="URL in an object store to which the run is uploaded, such as s3://bucket/plimsoll.",
        envvar="PLIMSOLL_UPLOAD",
        metavar="URL",
        show_default=False,
    ),
]
Subnet = Annotated[
    str | None,
    typer.Option(
        help="The address range of the run's network, such as 10.199.7.0/24; default: a free one.", metavar="RANGE"
    ),
]
OwnCluster = Annotated[
    Path | None,
    typer.Option(
        help="Run on a cluster that somebody else runs, described by this file (docs/own-cluster-run.md), instead of "
        "starting one.",
        metavar="FILE",
    ),
]
Seed = Annotated[int | None, typer.Option(help="Seed of all random choices, to repeat a run; default: a random one.")]
CampaignName = Annotated[
    str | None,
    typer.Option(help="The campaign's name. A campaign of this name that stopped is resumed.", metavar="NAME"),
]


Format = Annotated[
    Literal["operations", "verifiable", "ledger", "jepsen"],
    typer.Option(help="The format of the files: operations, verifiable, ledger or jepsen.", metavar="FORMAT"),
]
Idempotence = Annotated[
    Literal["true", "false"] | None,
    typer.Option(help="Whether producers are idempotent; default: true with transactions."),
]
UncleanElection = Annotated[
    Literal["true", "false"], typer.Option(help="Whether an out-of-sync replica may become leader.")
]
Isolation = Annotated[
    Literal["read_uncommitted", "read_committed"],
    typer.Option(help="The consumers' isolation level: read_committed or read_uncommitted.", metavar="LEVEL"),
]
Faults = Annotated[
    str,
    typer.Option(help="The faults that were injected, by the names of steps, such as kill,pause.", metavar="STEPS"),
]
TopicConfig = Annotated[
    list[str] | None,
    typer.Option(
        help="A topic's setting, such as orders:cleanup.policy=compact; without a topic, it applies to all topics."
    ),
]
