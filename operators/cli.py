"""The commands behind make that run, clean up and serve: ``python -m operators.cli``.

Exit codes of runs and campaigns: 0 pass, 1 fail, 2 unknown, 3 bad input, 130 interrupted.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import re
import secrets
import shutil
import signal
import sys
import traceback
from collections.abc import Collection
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from clusters import rotation
from clusters.builds import build_of
from clusters.host_lock import beside_others
from clusters.jars import DEFAULT
from clusters.runtimes import CAPABILITIES, choose_runtime
from clusters.scenario import load_scenario, scenario_names
from history.errors import BadInput, PlimsollError
from history.events import errors_of
from history.folder import RunFolder, write_atomically
from operators import airflow_home, service
from operators.campaign_progress import CampaignProgress
from operators.dag_run import run_dag
from operators.progress import Progress
from operators.steps import runs_folder
from spark.connection import spark_master

if TYPE_CHECKING:
    from campaigns.campaign import Item

    _Commands = argparse._SubParsersAction["_Parser"]  # noqa: SLF001 - it has no public name

_CAMPAIGNS = {
    "compare": "compare two versions of Kafka",
    "nightly": "run the nightly matrix and screen it for changes",
    "capacity": "measure how much load is safe",
    "known_bugs": "find bugs that Kafka had, where it had them",
    "claims": "ask one version of Kafka claim by claim",
}
EXIT_CODES = {"pass": 0, "fail": 1, "unknown": 2}
_INTERRUPTED = 130
_DATABASE = "PLIMSOLL_DB"  # in the environment: it may hold a password, and command lines are read by everyone
MOST_MINUTES = 240


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise BadInput(f"{message[:1].upper()}{message[1:]}; see {self.prog} --help.")


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns its exit code, and says in one sentence what was wrong."""
    for number in (signal.SIGINT, signal.SIGTERM):  # a shell's background job has SIGINT ignored, and so would Airflow
        signal.signal(number, _as_interrupt)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup wants to go on
        signal.signal(signal.SIGHUP, _as_hang_up)
    _show_what_is_fetched()
    try:
        asked = _parser().parse_args(arguments)
        code: int = asked.command(asked)
    except KeyboardInterrupt:
        return _INTERRUPTED
    except PlimsollError as error:
        _complain(str(error))
        return getattr(error, "exit_code", EXIT_CODES["unknown"])
    except Exception:  # noqa: BLE001  # Python's own exit code, 1, says that a promise was broken
        _complain(traceback.format_exc())
        return EXIT_CODES["unknown"]
    return code


def _show_what_is_fetched() -> None:
    """The first run waits for downloads; the parts that fetch say so under the logger ``plimsoll``."""
    lines = logging.StreamHandler()
    lines.setFormatter(logging.Formatter("%(message)s"))
    logger = logging.getLogger("plimsoll")
    logger.handlers, logger.propagate = [lines], False  # Airflow logs whatever reaches the root
    logger.setLevel(logging.INFO)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="python -m operators.cli", description=__doc__, allow_abbrev=False)
    commands = parser.add_subparsers(required=True, metavar="command")

    run = commands.add_parser("run", help="run one scenario and judge it")
    run.add_argument("--scenario", required=True, help="a name, or the path of a .yaml file")
    run.add_argument("--kafka", default=DEFAULT, help="a version, or a folder or tarball of jars")
    run.add_argument("--runtime", default="auto", choices=["auto", "docker", "process"])
    run.add_argument("--rate", type=float, help="records per second instead of the scenario's")
    run.add_argument("--seed", type=int)
    run.add_argument("--subnet", help="the run's own network, such as 10.199.7.0/24")
    run.add_argument("--runs", type=Path, default=runs_folder(), help="where run folders are put")
    run.set_defaults(command=_run)

    judge = commands.add_parser("judge", help="judge recorded runs again and write their pages anew")
    judge.add_argument("folders", nargs="+", type=Path, metavar="RUN")
    judge.set_defaults(command=_judge)

    clean = commands.add_parser("clean", help="remove what runs left behind")
    clean.add_argument("--all", action="store_true", help="also of runs that live")
    clean.set_defaults(command=_clean)

    commands.add_parser("scenarios", help="list the scenarios").set_defaults(command=_scenarios)

    _add_campaigns(commands)
    _add_schedules(commands)

    archive = commands.add_parser("archive", help="list what the archive holds")
    archive.add_argument("--rebuild", action="store_true", help="write it anew from the run folders first")
    archive.add_argument("--runs", type=Path, default=runs_folder())
    archive.set_defaults(command=_archive)

    up = commands.add_parser("up", help=f"start Airflow with its web page; {_DATABASE} names a PostgreSQL database")
    up.add_argument("--port", type=int, default=8080)
    up.set_defaults(command=_up)
    commands.add_parser("down", help="end it").set_defaults(command=_down)
    return parser


def _add_campaigns(commands: _Commands) -> None:
    for kind, words in _CAMPAIGNS.items():
        campaign = commands.add_parser(kind, help=f"{words}; docs/README.md leads to its page")
        campaign.add_argument("--name", help="one that is there already goes on where it stopped")
        campaign.add_argument("--file", type=Path, help="the settings, as YAML")
        campaign.add_argument("--seed", type=int)
        campaign.add_argument("--runs", type=Path, default=runs_folder(), help="where run folders are put")
        if kind == "compare":
            campaign.add_argument("--base", help="the version that is compared with")
            campaign.add_argument("--head", help="the version that is judged, or a folder or tarball of jars")
            campaign.add_argument("--scenario", help="a name, or the path of a .yaml file")
            campaign.add_argument("--pairs", type=int, help="fresh clusters on each side")
        if kind == "known_bugs":
            campaign.add_argument("--bugs", help="such as kafka-13091,kafka-14704; all where nothing is said")
            campaign.add_argument("--kafka", help="versions to try instead of each bug's own two")
            campaign.add_argument("--tries", type=int, help="fresh clusters for each bug and version")
        if kind == "claims":
            campaign.add_argument("--kafka", default=DEFAULT, help="the version that is asked")
        campaign.set_defaults(command=_campaign, kind=kind)


def _add_schedules(commands: _Commands) -> None:
    soak = commands.add_parser("soak", help="run faults in an order that a seed draws, with quiet periods between")
    soak.add_argument("--kafka", default=DEFAULT, help="a version, or a folder or tarball of jars")
    soak.add_argument("--minutes", type=float, default=10.0)
    soak.add_argument("--seed", type=int, help="of the schedule and of the run")
    soak.add_argument("--menu", type=Path, help="what is drawn from, as YAML")
    soak.add_argument("--runtime", default="auto", choices=["auto", "docker", "process"])
    soak.add_argument("--runs", type=Path, default=runs_folder(), help="where run folders are put")
    soak.set_defaults(command=_soak)

    hunt = commands.add_parser("hunt", help="run such schedules until a promise is broken, then find the smallest")
    hunt.add_argument("--kafka", default=DEFAULT, help="a version, or a folder or tarball of jars")
    hunt.add_argument("--schedules", type=int, default=20, help="how many are tried at most")
    hunt.add_argument("--seed", type=int, help="of the first; the next have those after it")
    hunt.add_argument("--seconds", type=float, default=90.0, help="about how long each is")
    hunt.add_argument("--shrink-runs", type=int, default=40, help="spent on finding a smaller one")
    hunt.add_argument("--menu", type=Path, help="what is drawn from, as YAML")
    hunt.add_argument("--name", help="one that is there already goes on where it stopped")
    hunt.add_argument("--runtime", default="auto", choices=["auto", "docker", "process"])
    hunt.add_argument("--runs", type=Path, default=runs_folder(), help="where run folders are put")
    hunt.set_defaults(command=_hunt)


def _run(asked: argparse.Namespace) -> int:
    from clusters import experiment  # heavy

    scenario = load_scenario(asked.scenario)
    spark_master(os.environ)  # refused before anything is recorded for it
    experiment.reap()  # what runs that died left behind would take CPU time and addresses from this one
    run = experiment.prepare(
        asked.scenario,
        kafka=asked.kafka,
        runtime=asked.runtime,
        rate=asked.rate,
        seed=asked.seed,
        runs=asked.runs.resolve(),
        subnet=asked.subnet,
        lease="process",
    )
    named = str(Path(asked.scenario).resolve()) if asked.scenario.endswith((".yaml", ".yml")) else asked.scenario
    with beside_others(), experiment.hold_lease(run), airflow_home.home_of_run(run.name) as home:
        log = home / "airflow.log"
        progress = Progress(scenario, log, RunFolder(run).events, _say)
        progress.begin()
        try:
            succeeded = run_dag(
                scenario.name,
                {"run_dir": str(run)},
                home=home,
                log=log,
                progress=progress,
                salvage=partial(_salvage_unsealed, run),
                PLIMSOLL_SCENARIO=named,
            )
        except KeyboardInterrupt:
            _say(f"run: {run}\n")
            shutil.rmtree(home)
            raise
        code = _conclude(RunFolder(run), succeeded, log)
        if code in (EXIT_CODES["pass"], EXIT_CODES["fail"]):
            shutil.rmtree(home)
    return code


def _salvage_unsealed(run: Path) -> None:
    """Collect and remove what Airflow left when it broke off."""
    from clusters import experiment  # heavy

    if not RunFolder(run).is_sealed:
        experiment.salvage(run)


def _conclude(run: RunFolder, succeeded: bool, log: Path) -> int:
    """End with the two lines that machines read; what broke is said before them."""
    verdict = read_verdict(run)
    for why in errors_of(run)[:1]:  # the others follow from it
        _complain(f"The harness broke: {why}")
    code = EXIT_CODES[verdict]
    if code == 0 and not succeeded:  # teardown or the page: the verdict stands, the run is not fine
        code = EXIT_CODES["unknown"]
        _complain("The verdict stands, but a task after it or the teardown failed.")
    if code == EXIT_CODES["unknown"]:
        _complain(f"Airflow's log: {log}")
    _say(f"run: {run.path}\nverdict: {verdict}\n")
    return code


def read_verdict(run: RunFolder) -> str:
    """The verdict that the judge wrote; unknown when it wrote none."""
    try:
        verdict = json.loads(run.verdict_file.read_text())["verdict"]
    except (FileNotFoundError, ValueError, KeyError):
        return "unknown"
    return verdict if verdict in EXIT_CODES else "unknown"


def _judge(asked: argparse.Namespace) -> int:
    from campaigns.site import publish  # heavy
    from spark.submit import judge

    with beside_others():
        code = judge(asked.folders)
        for folder in asked.folders:
            publish(folder.resolve())
    return code


def _campaign(asked: argparse.Namespace) -> int:
    from campaigns import recording, runner  # heavy
    from campaigns.asked import settings_of
    from campaigns.places import Places
    from clusters import experiment

    places = Places.beside(asked.runs.resolve())
    settings = settings_of(asked.kind, vars(asked))
    folder = runner.plan(asked.kind, settings, name=asked.name, seed=asked.seed, places=places)
    campaign = folder.read_plan()

    def listed(follow_up: bool) -> list[Item]:
        return recording.outstanding(folder, recording.items_of(folder, places, more=follow_up), places)

    before = _written_ns(folder.result)
    with airflow_home.home_of_run(f"{asked.kind}-{campaign.campaign_id}") as home:
        log = home / "airflow.log"
        progress = CampaignProgress(log, _say, listed, recording.expected_seconds)
        todo = listed(False)
        progress.say(f"{asked.kind} {campaign.campaign_id}: {len(todo)} of {len(campaign.items)} runs to record")
        try:
            succeeded = run_dag(
                asked.kind,
                {"campaign": str(folder.path)},
                home=home,
                log=log,
                progress=progress,
                salvage=experiment.reap,  # a run that broke off has lost its lease with its process
                PLIMSOLL_RUNS=str(places.runs),
                PLIMSOLL_SCENARIO="steady",  # this DAG needs no scenario's
            )
        finally:
            _say(f"campaign: {folder.path}\n")
        state = _conclude_campaign(folder.result, folder.page, before)
        if succeeded or state == "fail":
            shutil.rmtree(home)
            return EXIT_CODES.get(state, 0)
        _complain(f"A task failed. The same command with NAME={campaign.campaign_id} goes on; Airflow's log: {log}")
    return EXIT_CODES["unknown"]


def _written_ns(file: Path) -> int:
    return file.stat().st_mtime_ns if file.is_file() else 0


def _conclude_campaign(result: Path, page: Path, before: int) -> str:
    """End with the lines that machines read; returns the state. One written ``before`` is no result of this time."""
    if _written_ns(result) == before:
        _complain("The campaign came to no result.")
        return "unknown"
    found = json.loads(result.read_text())
    for line in found.get("lines", []):
        _say(f"{line}\n")
    _say(f"{found['sentence']}\npage: {page}\nstate: {found['state'] or 'none'}\n")
    return str(found["state"])


def _soak(asked: argparse.Namespace) -> int:
    from campaigns.places import Places  # heavy

    seed = secrets.randbelow(2**31) if asked.seed is None else asked.seed
    if not 0 < asked.minutes <= MOST_MINUTES:
        raise BadInput(f"MINUTES={asked.minutes:g} is no length of a schedule; above 0 and up to {MOST_MINUTES} are.")
    made = rotation.rotation(_menu(asked), seed=seed, length_s=60 * asked.minutes)
    build_of(asked.kafka)  # refused before anything is written
    file = Places.beside(asked.runs.resolve()).site / "soaks" / f"{made.name}-{made.digest[:8]}.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, rotation.as_yaml(made))
    _say(f"seed: {seed}\nschedule: {file}\n")
    asked.scenario, asked.seed, asked.rate, asked.subnet = str(file), seed, None, None
    return _run(asked)


def _hunt(asked: argparse.Namespace) -> int:
    from campaigns import hunt  # heavy
    from campaigns.places import Places
    from clusters import experiment

    if asked.schedules < 1 or not 0 < asked.seconds <= 60 * MOST_MINUTES:
        raise BadInput(
            f"N={asked.schedules} schedules of {asked.seconds:g} s are no hunt; N is 1 or more, "
            f"LENGTH above 0 and up to {60 * MOST_MINUTES}."
        )
    seed = 1 if asked.seed is None else asked.seed
    name = asked.name or f"{re.sub(r'[^a-z0-9.]+', '-', asked.kafka.lower()).strip('-.')}-{seed}"
    wanted = hunt.Asked(asked.kafka, asked.schedules, seed, asked.seconds, asked.shrink_runs, runtime=asked.runtime)
    places, menu = Places.beside(asked.runs.resolve()), _menu(asked)
    build_of(asked.kafka)  # refused before anything is written
    folder = hunt.open_folder(wanted, name, places)
    try:
        notebook = hunt.Notebook(folder / "looks.jsonl")
        examine = hunt.examiner(wanted, folder, name, places)
        search = hunt.Hunt(wanted, menu, notebook, examine, lambda line: _say(f"{line}\n"))
        catch = search.run()
    finally:
        experiment.reap()  # of a run that broke off
    undecided = search.undecided()
    for line in hunt.conclusion(catch, undecided, wanted, folder, places):
        _say(f"{line}\n")
    return EXIT_CODES[hunt.state(catch, undecided)]


def _menu(asked: argparse.Namespace) -> rotation.Menu:
    """The menu, without what the runtime or the host's kernel cannot do."""
    menu, runtime = rotation.read_menu(asked.menu or rotation.MENU), choose_runtime(asked.runtime)
    without: Collection[str] = ()
    if runtime == "docker":
        from clusters.runtimes.kernel import lacking  # heavy

        without = lacking(rotation.step_keys(menu))
    return rotation.possible(menu, CAPABILITIES[runtime], without)


def _archive(asked: argparse.Namespace) -> int:
    from campaigns import site  # heavy
    from campaigns.places import Places

    places = Places.beside(asked.runs.resolve())
    if asked.rebuild:
        for sentence in site.rebuild(places):
            _complain(sentence)
    site.write_index(places)
    for line in site.archived(places):
        _say(f"{line}\n")
    return 0


def _clean(asked: argparse.Namespace) -> int:
    from clusters import experiment  # heavy

    removed = airflow_home.remove_leftovers()  # first: an Airflow that outlived its command would start nodes anew
    removed += experiment.reap(all_runs=asked.all)
    _say(f"removed what was left of: {', '.join(removed) or 'no run'}\n")
    return 0


def _scenarios(_: argparse.Namespace) -> int:
    names = scenario_names()
    width = max(map(len, names))
    for name in names:
        _say(f"{name:{width}}  {load_scenario(name).why}\n")
    return 0


def _up(asked: argparse.Namespace) -> int:
    from campaigns.places import Places  # heavy
    from campaigns.site import write_index

    _say("starting Airflow … (about 15 s)\n")
    write_index(Places.beside(runs_folder()))
    port = service.up(asked.port, database=os.environ.get(_DATABASE) or None)
    _say(f"Airflow is up: {service.url_of(port)} (make down ends it)\n")
    _say(f"runs, nights, comparisons and plans: {service.url_of(port + 1)}\n")
    return 0


def _down(_: argparse.Namespace) -> int:
    _say("Airflow is down\n" if service.down() else "Airflow was not up\n")
    return 0


def _say(text: str) -> None:
    with suppress(OSError):  # nobody reads on; what was started has to be collected and removed all the same
        sys.stdout.write(text)
        sys.stdout.flush()


def _complain(sentence: str) -> None:
    with suppress(OSError):
        sys.stderr.write(f"{sentence}\n")


def _as_interrupt(_signal: int, _frame: object) -> NoReturn:
    raise KeyboardInterrupt


def _as_hang_up(number: int, _frame: object) -> NoReturn:
    signal.signal(number, signal.SIG_IGN)  # a terminal that is closed says it more than once
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
