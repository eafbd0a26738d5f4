"""The command behind ``make import``: a foreign history becomes a run folder, is judged and gets its page.

Exit codes: 0 pass, 1 fail, 2 unknown, 3 bad input, 130 interrupted.
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from clusters.story.menu import STEPS
from history import extras
from history.errors import BadInput, PlimsollError
from history.folder import RunFolder
from history.manifest import Origin
from imports import ledger, operations, run_folder, verifiable
from imports.records import History, Tables, tables
from imports.run_folder import Settings


def _read_jepsen(paths: Sequence[Path]) -> History:
    extras.require("edn", "edn_format", "FORMAT=jepsen")
    from imports import jepsen

    return jepsen.read(paths)


READERS: dict[Origin, Callable[[Sequence[Path]], History | Tables]] = {
    "operations": operations.read,
    "verifiable": verifiable.read,
    "ledger": ledger.read,
    "jepsen": _read_jepsen,
}
_UNKNOWN = 2
_INTERRUPTED = 130


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise BadInput(f"{message[:1].upper()}{message[1:]}; see docs/imports.md.")


def main(arguments: Sequence[str] | None = None) -> int:
    """Import, judge and publish; returns the exit code, and says in one sentence what was wrong."""
    try:
        asked = _parser().parse_args(arguments)
        folder = import_history(asked.history, asked.format, _settings(asked), asked.runs.resolve())
        return _judge(folder)
    except KeyboardInterrupt:
        return _INTERRUPTED
    except PlimsollError as error:
        sys.stderr.write(f"{error}\n")
        return getattr(error, "exit_code", _UNKNOWN)
    except Exception:  # noqa: BLE001  # Python's own exit code, 1, says that a promise was broken
        sys.stderr.write(traceback.format_exc())
        return _UNKNOWN


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="python -m imports.cli", description=__doc__, allow_abbrev=False)
    parser.add_argument("--history", required=True, help="a file, or several with commas between them")
    parser.add_argument("--format", required=True, help=", ".join(READERS))
    parser.add_argument("--acks", choices=["0", "1", "all"], default="all")
    parser.add_argument("--idempotence", choices=["true", "false"], help="default: true where there are transactions")
    parser.add_argument("--unclean-election", choices=["true", "false"], default="false")
    parser.add_argument("--isolation", choices=["read_uncommitted", "read_committed"], default="read_committed")
    parser.add_argument("--faults", default="", help="what was done to the cluster, such as kill,pause")
    parser.add_argument("--kafka", default="unknown", help="the cluster's version")
    runs = Path(os.environ.get("PLIMSOLL_RUNS", Path(__file__).parents[1] / "runs"))
    parser.add_argument("--runs", type=Path, default=runs, help="where run folders are put")
    return parser


def _settings(asked: argparse.Namespace) -> Settings:
    return Settings(
        acks=asked.acks,
        idempotence=None if asked.idempotence is None else asked.idempotence == "true",
        unclean_election=asked.unclean_election == "true",
        isolation=asked.isolation,
        faults=_faults(asked.faults),
        kafka_version=asked.kafka,
    )


def _faults(text: str) -> tuple[str, ...]:
    """What a configuration permits goes by the names of our own steps."""
    names = tuple(filter(None, (name.strip() for name in text.split(","))))
    for name in names:
        if name not in STEPS:
            raise BadInput(f"--faults names {name!r}, which is no step; known: {', '.join(sorted(STEPS))}.")
    return names


def import_history(history: str, origin: str, settings: Settings, runs: Path) -> RunFolder:
    """Write the run folder of a foreign history; several files are named with commas between them.

    Raises:
        BadInput: the format is none of ours, or a file cannot be read as it; then nothing is left behind.
    """
    named = {str(name): name for name in READERS}
    if origin not in named:
        raise BadInput(f"FORMAT must be one of {', '.join(READERS)}, not {origin!r}.")
    sources = [Path(name) for name in history.split(",") if name]
    if not sources:
        raise BadInput("HISTORY must name a file, or several with commas between them.")
    found = READERS[named[origin]](sources)
    if isinstance(found, History):
        found = tables(found, settings.acks, settings.isolation)
    return run_folder.write(runs, named[origin], sources, found, settings)


def _judge(folder: RunFolder) -> int:
    from campaigns.site import publish  # heavy
    from clusters.host_lock import beside_others
    from spark.submit import judge

    with beside_others():
        code = judge([folder.path])
        publish(folder.path)
    return code


if __name__ == "__main__":
    sys.exit(main())
