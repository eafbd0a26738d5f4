"""Watch a cluster that somebody else runs, then judge what its replicas showed."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from rich.console import Console
from rich.live import Live

from clusters.attached.cluster_file import access_of, read_cluster_file
from clusters.attached.discover import Discovered, discover, grant
from clusters.attached.state import Health, PartitionNow
from clusters.run.watch import Watch
from commands.live_table import json_line, lines, summary, table
from commands.outcome import Outcome, print_error, say, stdout_for_json
from commands.runs import cases_of, facts_of, judge_again
from history.errors import BadInput
from history.words import counted, some_of

Show = Callable[[Sequence[PartitionNow]], None]
LINES_BESIDE_TABLE = 8
FIRST_ANSWER_S = 60.0


def watch_cluster(
    file: Path, topics: Sequence[str], *, hz: float, seconds: float | None, runs: Path, as_json: bool
) -> Outcome:
    """Watch until Ctrl-C or for some seconds; then seal, judge and write the page.

    Raises:
        BadInput: the cluster cannot be reached, or a topic not be read; nothing was written.
    """
    described = read_cluster_file(file)
    access = access_of(described)
    found = discover(described, access, list(dict.fromkeys(topics)))
    if refused := min(found.unreadable, default=None):
        raise BadInput(f"The user may not read the topic {refused!r}: {grant(refused, described, access)}")
    for sentence in (*found.unreachable, *_unknown_settings(found)):
        print_error(sentence)
    watch = Watch(runs, described, found, access, hz)
    with watch.recording() as probing, _screen(watch, as_json=as_json) as show:
        try:
            _follow(watch, probing, show, hz, seconds)
        except KeyboardInterrupt:
            print_error("The watch ends; press Ctrl-C again to leave it unjudged.")
    with stdout_for_json() if as_json else nullcontext():
        judged = judge_again([watch.folder.path])
    return Outcome(judged.code, facts=facts_of(watch.folder), cases=cases_of(watch.folder, "watch"))


def _unknown_settings(found: Discovered) -> list[str]:
    hidden = [topic.name for topic in found.topics.values() if topic.settings is None]
    if not hidden:
        return []
    topics = f"{'topics' if len(hidden) > 1 else 'topic'} {some_of(hidden)}"
    return [
        f"The settings of the {topics} are unknown without DESCRIBE_CONFIGS, so min.insync.replicas is not checked."
    ]


def _follow(watch: Watch, probing: Future[None], show: Show, hz: float, seconds: float | None) -> None:
    until_s = time.monotonic() + FIRST_ANSWER_S
    began_s = None  # a loaded host may need longer than ``seconds`` until the first answer
    while not probing.done():
        partitions, now_s = watch.now(), time.monotonic()
        if began_s is None and (_has_answered(partitions) or now_s > until_s):
            began_s = now_s
        left_s = float("inf") if seconds is None or began_s is None else began_s + seconds - now_s
        if left_s <= 0:
            return
        show(partitions)
        time.sleep(min(1 / hz, left_s))  # the prober ends only if it fails


def _has_answered(partitions: Sequence[PartitionNow]) -> bool:
    return any(each.replicas and each.leader_epoch >= 0 for each in partitions)


def _screen(watch: Watch, *, as_json: bool) -> AbstractContextManager[Show]:
    if as_json:
        return nullcontext(lambda partitions: say(json_line(partitions)))
    return _Table(watch.folder.run_id) if sys.stdout.isatty() else _Changes()


class _Table:
    """A table that is drawn again at each sample."""

    def __init__(self, title: str) -> None:
        self._title, self._console = title, Console()
        self._live = Live(console=self._console, auto_refresh=False)

    def __enter__(self) -> Show:
        self._live.__enter__()
        return self._show

    def __exit__(self, *error: object) -> None:
        self._live.__exit__(None, None, None)

    def _show(self, partitions: Sequence[PartitionNow]) -> None:
        rows = max(1, self._console.height - LINES_BESIDE_TABLE)
        self._live.update(table(partitions, f"{self._title}, Ctrl-C ends it", rows), refresh=True)


class _Changes:
    """A line for each partition whose state changes, for logs."""

    def __init__(self) -> None:
        self._known: dict[object, tuple[Health, int]] = {}
        self._began_s = time.monotonic()

    def __enter__(self) -> Show:
        return self._show

    def __exit__(self, *error: object) -> None:
        say(f"watched for {time.monotonic() - self._began_s:.0f} s, {counted(len(self._known), 'partition')}")

    def _show(self, partitions: Sequence[PartitionNow]) -> None:
        if not _has_answered(partitions):
            return
        changed = [each for each in partitions if self._known.get(each.where) != (each.health, each.leader_epoch)]
        if changed:
            at_s = int(time.monotonic() - self._began_s)
            say(f"[{at_s // 60:02}:{at_s % 60:02}] {summary(partitions)}")
            for line in lines([each for each in changed if each.health is not Health.HEALTHY or self._known]):
                say(f"        {line}")
        self._known = {each.where: (each.health, each.leader_epoch) for each in partitions}
