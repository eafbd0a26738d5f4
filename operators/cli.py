"""The commands behind make that run, clean up and serve: ``python -m operators.cli``.

Exit codes of ``run``: 0 pass, 1 fail, 2 unknown, 3 bad input, 130 interrupted.
"""

from __future__ import annotations

import argparse
import json
import logging
import shutil
import signal
import sys
from pathlib import Path
from typing import NoReturn

from clusters.scenario import load_scenario, scenario_names
from history.errors import BadInput, PlimsollError
from history.folder import RunFolder
from operators import airflow_home, service
from operators.dag_run import run_dag
from operators.progress import Progress
from operators.steps import errors_of, runs_folder

EXIT_CODES = {"pass": 0, "fail": 1, "unknown": 2}
_INTERRUPTED = 130


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise BadInput(f"{message[:1].upper()}{message[1:]}; see {self.prog} --help.")


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns its exit code, and says in one sentence what was wrong."""
    for number in (signal.SIGINT, signal.SIGTERM):  # a shell's background job has SIGINT ignored, and so would Airflow
        signal.signal(number, _as_interrupt)
    _show_what_is_fetched()
    try:
        asked = _parser().parse_args(arguments)
        code: int = asked.command(asked)
    except KeyboardInterrupt:
        return _INTERRUPTED
    except PlimsollError as error:
        _complain(str(error))
        return getattr(error, "exit_code", EXIT_CODES["unknown"])
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
    run.add_argument("--kafka", required=True, help="a version, or a folder or tarball of jars")
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

    up = commands.add_parser("up", help="start Airflow with its web page")
    up.add_argument("--port", type=int, default=8080)
    up.set_defaults(command=_up)
    commands.add_parser("down", help="end it").set_defaults(command=_down)
    return parser


def _run(asked: argparse.Namespace) -> int:
    from clusters import experiment  # heavy

    scenario = load_scenario(asked.scenario)
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
    with experiment.hold_lease(run), airflow_home.home_of_run(run.name) as home:
        log = home / "airflow.log"
        progress = Progress(scenario, log, RunFolder(run).events, _say)
        progress.begin()
        try:
            succeeded = run_dag(run, scenario.name, named, home=home, log=log, progress=progress)
        except KeyboardInterrupt:
            _say(f"run: {run}\n")
            shutil.rmtree(home)
            raise
        code = _conclude(RunFolder(run), succeeded, log)
        if code in (EXIT_CODES["pass"], EXIT_CODES["fail"]):
            shutil.rmtree(home)
    return code


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
    from reports.run_page import publish  # heavy
    from spark.submit import judge

    code = judge(asked.folders)
    for folder in asked.folders:
        publish(folder.resolve())
    return code


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
    _say("starting Airflow … (about 15 s)\n")
    _say(f"Airflow is up: {service.up(asked.port)} (make down ends it)\n")
    return 0


def _down(_: argparse.Namespace) -> int:
    _say("Airflow is down\n" if service.down() else "Airflow was not up\n")
    return 0


def _say(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _complain(sentence: str) -> None:
    sys.stderr.write(f"{sentence}\n")


def _as_interrupt(_signal: int, _frame: object) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
