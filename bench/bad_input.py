"""Give bad inputs to the commands' functions: ``python -m bench.bad_input`` writes docs/data/bad_input.json.

Inputs are mutations of valid documents, and handwritten ones (``bench/bad_input.yaml``) for one rule each. They must be
rejected with their group's error, in one sentence, without a file, a process or a connection. Mutations that are still
valid do not count.
"""

from __future__ import annotations

import json
import random
import re
import resource
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, TypeAlias, cast

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from campaigns import kinds
from campaigns.campaign import Campaign, CampaignFolder
from clusters.kafka.builds import reported_version
from clusters.scenario.scenario import load_scenario
from clusters.scenario.schedules import randomised_schedule, read_fault_mix
from history import archive
from history.errors import MAX_SENTENCE, BadInput, EvidenceError, PlimsollError
from history.events import read_events
from history.folder import RunFolder
from history.manifest import Origin, read_manifest
from history.results.base import Summary
from history.results.schedules import SchedulesResult
from history.tables import METRICS
from imports.formats import import_history
from imports.run_folder import Settings

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs" / "data" / "bad_input.json"
BY_HAND = ROOT / "bench" / "bad_input.yaml"
SEED = 1
MEMORY_LIMIT = 8 << 30  # address space; libraries map most of it
INPUT_LIMIT_S = 60.0
Place: TypeAlias = tuple[str | int, ...]
_PLANNED: Mapping[str, Any] = {"campaign_id": "bad-input", "created_at": "2026-01-01T00:00:00+00:00", "seed": 1}


class Input(NamedTuple):
    """A document, its change, and words of which the message must contain one, if any."""

    what: str
    content: bytes
    says: tuple[str, ...] = ()
    always: bool = False  # tried before the random choice


@dataclass(frozen=True)
class Group:
    """Documents of one kind. ``feed`` writes one into a folder and calls what the command calls.

    ``most`` limits the mutations.
    """

    kind: str
    valid: Mapping[str, str]
    feed: Callable[[Path, bytes], object]
    mutations: Callable[[str], Iterator[Input]]
    refusal: type[PlimsollError] = BadInput
    most: int = 200


@dataclass
class Count:
    """A group's result, with a sentence for each wrong reaction."""

    kind: str
    inputs: int = 0
    refused: int = 0
    by_hand: int = 0
    valid: int = 0
    wrong: list[str] = field(default_factory=list)


# --- mutations of values -----------------------------------------------------------------------------

_LONG = "x" * 10_000
VALUES: Mapping[str, Any] = {
    "null": None,
    "a list": [1],
    "an empty list": [],
    "a mapping": {"x": 1},
    "an empty mapping": {},
    "another word": "nonsense",
    "an empty text": "",
    "a long text": _LONG,
    "-1": -1,
    "0": 0,
    "1.5": 1.5,
    "NaN": float("nan"),
    "infinity": float("inf"),
    "a number of 62 bits": 2**62,
    "a huge number": 10**30,
    "a number of 401 digits": 10**400,
    "true": True,
    "a wrong unit": "5 parsecs",
    "a date": date(2024, 2, 29),
    "shell text": "$(touch plimsoll-was-here)",
    "a path": "../../../../etc/passwd",
    "a NUL": "a\0b",
    "a lone line feed": "a\nb",
}


def places(document: Any, above: Place = ()) -> Iterator[Place]:
    """Yield a document's places, from the top down."""
    if above:
        yield above
    inner = document.items() if isinstance(document, dict) else enumerate(document) if _is_list(document) else ()
    for key, value in inner:
        yield from places(value, (*above, key))


def _is_list(value: object) -> bool:
    return isinstance(value, list)


def changed(document: Any, place: Place, value: Any) -> Any:
    """Return a copy with another value at a place."""
    copy = deepcopy(document)
    _holder(copy, place)[place[-1]] = deepcopy(value)
    return copy


def without(document: Any, place: Place) -> Any:
    """Return a copy without a place."""
    copy = deepcopy(document)
    del _holder(copy, place)[place[-1]]
    return copy


def _holder(document: Any, place: Place) -> Any:
    for key in place[:-1]:
        document = document[key]
    return document


def of_values(document: Any) -> Iterator[tuple[str, Any]]:
    """Remove, add or replace one value at a time."""
    for place in places(document):
        named = "/".join(map(str, place))
        yield f"{named} is missing", without(document, place)
        for words, value in VALUES.items():
            yield f"{named} is {words}", changed(document, place, value)
        if isinstance(_at(document, place), dict):
            yield f"{named} has an unknown key", changed(document, (*place, "no_such_key"), 1)


def _at(document: Any, place: Place) -> Any:
    return _holder(document, (*place, ""))


# --- mutations of text -------------------------------------------------------------------------------


def of_text(text: str) -> Iterator[tuple[str, bytes]]:
    """Yield text that is cut, doubled, nested too deeply or in another encoding."""
    plain = text.encode()
    yield "empty", b""
    yield "blanks", b" \n\n"
    yield "NUL bytes", bytes(64)
    yield "not UTF-8", plain + b"\xff\xfe\xfa"
    yield "UTF-16", text.encode("utf-16")
    yield "Latin-1", b"\xe9: " + plain
    yield "a NUL within", plain[:20] + b"\0" + plain[20:]
    yield "an escape within", plain[:20] + b"\x1b[2J" + plain[20:]
    yield "nested lists", b"[" * 20_000
    yield "nested mappings", b'{"a":' * 20_000
    yield "closed twice", plain + b"\n]}"
    yield "an ELF header", b"\x7fELF\x02\x01\x01" + plain
    yield "HTML", b"<!doctype html><title>404</title>"
    for share in range(1, 20):
        yield f"cut after {share}/20", plain[: len(plain) * share // 20]


def of_yaml_text(text: str) -> Iterator[tuple[str, bytes]]:
    """Yield tabs, tags, anchors, duplicate keys and several documents."""
    lines = text.splitlines()
    tops = [line for line in lines if re.match(r"[a-z_]+:", line)]
    yield from of_text(text)
    yield "tabs", text.replace("  ", "\t").encode() + b"\n\tx: 1"
    yield "two documents", f"{text}\n---\n{text}".encode()
    yield "a comment alone", b"# nothing\n"
    yield "a scalar", b"just words\n"
    yield "a list", b"- a\n- b\n"
    yield "a Python object", b"!!python/object/apply:os.system ['touch plimsoll-was-here']\n"
    yield "an unknown tag", f"!secret\n{text}".encode()
    yield "an alias of nothing", f"{text}\nno_such_key: *nothing\n".encode()
    yield "an alias of itself", b"&a [*a]\n"
    yield "a mapping of itself", b"&a {name: *a}\n"
    yield "aliases that multiply", _multiplied().encode()
    yield "a merge key", f"{text}\n<<: {{no_such_key: 1}}\n".encode()
    yield "a date that is none", f"{text}\nno_such_key: 2024-02-30\n".encode()
    yield "a number of 5,000 digits", f"{text}\nno_such_key: {'9' * 5_000}\n".encode()
    yield "a key that is a list", f"{text}\n? [a, b]\n: 1\n".encode()
    yield "a key that is null", f"{text}\n~: 1\n".encode()
    yield "a key that is a number", f"{text}\n7: 1\n".encode()
    yield "megabytes", f"{text}\n# {'x' * (1 << 21)}\n".encode()
    for number, line in enumerate(tops):
        yield f"line {number} twice", f"{text}\n{line}\n".encode()


def _multiplied() -> str:
    """9^9 entries in 500 bytes."""
    rows = ["a: &a [x, x, x, x, x, x, x, x, x]"]
    for before, name in pairwise("abcdefghi"):
        rows.append(f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]")
    return "\n".join(rows)


def yaml_mutations(text: str) -> Iterator[Input]:
    """Yield all mutations of a YAML document."""
    yield from (Input(what, content, always=True) for what, content in of_yaml_text(text))
    for what, document in of_values(yaml.safe_load(text)):
        yield Input(what, _dumped(document).encode())


def _dumped(document: Any) -> str:
    # thousands are written for a dozen that are tried; libyaml is five times faster
    return yaml.dump(document, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True, width=1000)


def json_mutations(text: str) -> Iterator[Input]:
    """Yield all mutations of a JSON document."""
    yield from (Input(what, content, always=True) for what, content in of_text(text))
    for what, document in of_values(json.loads(text)):
        yield Input(what, json.dumps(document, default=str).encode())


def lines_mutations(text: str) -> Iterator[Input]:
    """Yield mutations of a JSON lines file, line by line."""
    lines = text.splitlines()
    yield from (Input(what, content, always=True) for what, content in of_text(text) if not what.startswith("cut"))
    yield Input("the same history twice", f"{text}{text}".encode())
    for number, line in enumerate(lines):
        before, after = lines[:number], lines[number + 1 :]
        for share in range(1, 6):
            cut = [*before, line[: len(line) * share // 6], *after]
            yield Input(f"line {number + 1} is cut after {share}/6", "\n".join(cut).encode())
        for what, document in of_values(json.loads(line)):
            told = json.dumps(document, default=str)
            yield Input(f"line {number + 1}: {what}", "\n".join([*before, told, *after]).encode())


_EDN_TOKEN = re.compile(r':[\w-]+|"[^"]*"|\d+|[\[\]{}()]')
_EDN_VALUES = (
    "",
    ":x",
    '"x"',
    "nil",
    "-1",
    "1e999",
    "99999999999999999999999",
    "[",
    "}",
    "#inst 1",
    "##NaN",
    "\\",
    "#_",
)


def edn_mutations(text: str) -> Iterator[Input]:
    """Yield an EDN history with one token replaced."""
    yield from (Input(what, content, always=True) for what, content in of_text(text))
    for token in _EDN_TOKEN.finditer(text):
        for value in _EDN_VALUES:
            told = f"{text[: token.start()]}{value}{text[token.end() :]}"
            yield Input(f"{token[0]!r} at {token.start()} is {value!r}", told.encode())


# --- the commands' functions -------------------------------------------------------------------------


def _scenario(folder: Path, content: bytes) -> object:
    file = folder / "scenario.yaml"
    file.write_bytes(content)
    return load_scenario(str(file))


def _fault_mix(folder: Path, content: bytes) -> object:
    file = folder / "fault_mix.yaml"
    file.write_bytes(content)
    mix = read_fault_mix(file)
    return [randomised_schedule(mix, seed=seed, length_s=200, load=seed % 2 == 1) for seed in range(4)]


def _planned(kind: str, folder: Path, content: bytes) -> object:
    file = folder / "settings.yaml"
    file.write_bytes(content)
    return _plan(kind, file)


def _plan(kind: str, file: Path) -> Campaign:
    of = kinds.of(kind)
    planned = of.campaign.plan(of.settings({}, file=file), **_PLANNED)
    for kafka in {item.kafka for item in planned.items}:
        reported_version(kafka)
    return planned


def _waivers(folder: Path, content: bytes) -> object:
    (folder / "waivers.yaml").write_bytes(content)
    file = folder / "settings.yaml"
    file.write_bytes((ROOT / "nightly.yaml").read_bytes())
    return _plan("nightly", file)


def _demand(folder: Path, content: bytes) -> object:
    (folder / "metrics").write_bytes(content)
    settings = yaml.safe_load((ROOT / "capacity.yaml").read_text())
    settings["question"]["demand"] = str(folder / "metrics")
    for name in ("write_mb_per_s", "burst", "growth_per_month", "consumer_groups"):
        del settings["question"][name]
    file = folder / "settings.yaml"
    file.write_text(_dumped(settings))
    return _plan("capacity", file)


def _history(origin: Origin, folder: Path, content: bytes) -> object:
    file = folder / "history"
    file.write_bytes(content)
    return import_history([file], origin, Settings(), folder / "runs")


def _file(name: str, read: Callable[[Path], object], folder: Path, content: bytes) -> object:
    file = folder / name
    file.write_bytes(content)
    return read(file)


def _judged(folder: Path, content: bytes) -> object:
    run = RunFolder(folder)
    _manifest_of().write(run.manifest)
    run.events.write_text("")
    run.judged("metrics").mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist([], schema=METRICS), run.judged("metrics") / "part.parquet")
    run.verdict_file.write_bytes(content)
    rows = archive.rows_of(run)
    archive.add(folder / "archive", rows)
    return rows


def _events(folder: Path, content: bytes) -> object:
    """Raise the error event that replaces an unreadable line."""
    file = folder / "events.jsonl"
    file.write_bytes(content)
    for event in read_events(file):
        if event.kind == "error" and "cannot be read" in event.detail.get("why", ""):
            raise EvidenceError(event.detail["why"])
    return file


@cache
def _manifest_of() -> Any:
    with tempfile.TemporaryDirectory() as folder:
        content = (ROOT / "docs" / "examples" / "operations.jsonl").read_bytes()
        run = _history("operations", Path(folder), content)
        return read_manifest(cast("RunFolder", run).manifest)


# --- the groups --------------------------------------------------------------------------------------

_VERDICT = {
    "verdict": "pass",
    "sentence": "Nothing was found.",
    "anomalies": {},
    "invariants": {"I1": {"violations": 0}},
}
_SUMMARY = {"campaign_id": "c", "created_at": "2026-01-01T00:00:00+00:00", "state": "pass", "sentence": "All is well."}
_EVENT = {"t_ns": 5, "wall": "2026-01-01T00:00:00+00:00", "kind": "phase_started", "phase": "steady", "detail": {}}
_SCENARIOS = ("survived_faults", "exactly_once", "group_members", "shaped_load")
_EXAMPLES: Mapping[Origin, str] = {
    "operations": "operations.jsonl",
    "ledger": "ledger.jsonl",
    "verifiable": "verifiable.json",
    "jepsen": "jepsen.edn",
}


def groups() -> list[Group]:
    """Return all groups."""
    told = by_hand()
    scenarios = {name: _read("scenarios", f"{name}.yaml") for name in _SCENARIOS}
    return [
        Group("scenario", scenarios, _scenario, yaml_mutations, most=400),
        Group("fault mix", {"at_rest": _read("docs/examples/fault_mixes", "at_rest.yaml")}, _fault_mix, yaml_mutations),
        Group("nightly", {"ten minutes": _read("ten-minutes.yaml")}, partial(_with_waivers, "nightly"), yaml_mutations),
        Group("waivers", {"waivers": _read("waivers.yaml")}, _waivers, yaml_mutations),
        Group("capacity", {"capacity": _read("capacity.yaml")}, partial(_planned, "capacity"), yaml_mutations),
        *(
            Group(kind, {kind: _dumped(told[kind]["valid"])}, partial(_planned, kind), yaml_mutations, most=100)
            for kind in ("compare", "bisect", "qualify", "clients", "claims", "known_bugs")
        ),
        Group("demand", {"csv": _metrics_by_hour()}, _demand, _text_mutations, most=60),
        *(
            Group(
                f"history: {origin}",
                {origin: _read("docs/examples", example)},
                partial(_history, origin),
                edn_mutations if origin == "jepsen" else lines_mutations,
                most=150,
            )
            for origin, example in _EXAMPLES.items()
        ),
        *_of_results(),
    ]


def _metrics_by_hour() -> str:
    start = datetime(2026, 1, 5, tzinfo=UTC)
    hours = (start + timedelta(hours=number) for number in range(5 * 7 * 24))
    rows = (f"{at.isoformat()},{200_000_000 + 10_000 * at.day},{400_000_000}\n" for at in hours)
    return "time,bytes_in,bytes_out\n" + "".join(rows)


def _of_results() -> list[Group]:
    plan = Campaign(kind="nightly", settings={"a": 1}, items=[], **_PLANNED).model_dump_json()
    schedules = {**_SUMMARY, "kind": "fuzz", "kafka": "4.3.0", "settings": {}, "runs": []}
    sealed = json.dumps({"manifest.json": "0" * 64})
    manifest = _manifest_of().model_dump_json()

    def group(kind: str, valid: str, feed: Callable[[Path, bytes], object], **more: Any) -> Group:
        return Group(kind, {kind: valid}, feed, json_mutations, **{"refusal": EvidenceError, "most": 60, **more})

    return [
        group(
            "plan of a campaign", plan, lambda at, told: _file("campaign.json", _read_plan, at, told), refusal=BadInput
        ),
        group("result of a campaign", json.dumps(_SUMMARY), partial(_file, "result.json", Summary.read)),
        group("result of schedules", json.dumps(schedules), partial(_file, "result.json", SchedulesResult.read)),
        group("verdict", json.dumps(_VERDICT), _judged),
        group("manifest", manifest, partial(_file, "manifest.json", read_manifest), most=150),
        group("seal", sealed, partial(_file, "sealed.json", lambda file: RunFolder(file.parent).check_seal())),
        Group("events", {"events": json.dumps(_EVENT) + "\n"}, _events, _event_mutations, EvidenceError, most=60),
    ]


def _read_plan(file: Path) -> object:
    return CampaignFolder(file.parent).read_plan()


def _with_waivers(kind: str, folder: Path, content: bytes) -> object:
    (folder / "waivers.yaml").write_bytes((ROOT / "waivers.yaml").read_bytes())
    return _planned(kind, folder, content)


def _text_mutations(text: str) -> Iterator[Input]:
    yield from (Input(what, content, always=True) for what, content in of_text(text))


def _event_mutations(text: str) -> Iterator[Input]:
    """Add a valid line: a torn last line is allowed."""
    for each in json_mutations(text):
        yield each._replace(content=each.content + b"\n" + text.encode())


def _read(*parts: str) -> str:
    return ROOT.joinpath(*parts).read_text()


@cache
def by_hand() -> Mapping[str, Any]:
    """Return ``bad_input.yaml``: bad documents by kind, some with a valid one."""
    told: Mapping[str, Any] = yaml.safe_load(BY_HAND.read_text())
    return told


def inputs_by_hand(group: Group) -> Iterator[Input]:
    """Yield the handwritten inputs.

    ``set`` maps places such as load/rate to values, ``drop`` lists places, ``from`` names another valid document.
    """
    for each in by_hand().get(group.kind, {}).get("bad", ()):
        says = (each["says"],)
        if "text" in each:
            yield Input(each["says"], each["text"].encode(), says)
            continue
        text = group.valid[each["from"]] if "from" in each else next(iter(group.valid.values()))
        document = yaml.load(text, yaml.CSafeLoader)
        for place, value in each.get("set", {}).items():
            document = changed(document, _place(place), value)
        for place in each.get("drop", ()):
            document = without(document, _place(place))
        yield Input(each["says"], _dumped(document).encode(), says)


def _place(written: str) -> Place:
    return tuple(int(part) if part.isdecimal() else part for part in written.split("/"))


# --- trying the inputs -------------------------------------------------------------------------------

_STARTS = ("subprocess.Popen", "os.system", "os.posix_spawn", "os.fork", "os.exec", "socket.connect", "pty.spawn")
_started: list[str] = []


@cache
def _watch() -> None:
    """Python cannot remove such a hook."""
    sys.addaudithook(lambda event, _: _started.append(event) if event in _STARTS else None)


class HungError(Exception):
    """An input exceeded its time limit."""


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raise HungError in the main thread after ``seconds``."""

    def end(*_: object) -> NoReturn:
        raise HungError(f"not done after {seconds:g} s")

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def wrong_with(sentence: str, says: Sequence[str] = ()) -> str | None:
    """Return why a message is not one sentence on one line with the expected words."""
    if not sentence.strip() or sentence.rstrip()[-1] not in ".…!?)":
        return "ends without a full stop"
    if len(sentence) > MAX_SENTENCE + 3:
        return f"has {len(sentence)} characters"
    if odd := next((char for char in sentence if not char.isprintable()), None):
        return f"has {odd!r} in it"
    return None if not says or any(part in sentence for part in says) else f"does not say {says[0]!r}"


def attempt(group: Group, one: Input) -> tuple[bool, str | None]:
    """Return whether an input was rejected, and what was wrong."""
    _watch()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "given"
        folder.mkdir()
        _started.clear()
        try:
            with within(INPUT_LIMIT_S):
                group.feed(folder, one.content)
        except group.refusal as error:
            sentence = str(error)
        except Exception as error:  # noqa: BLE001  # any other exception is a finding
            return True, f"crashed: {type(error).__name__}: {error}"[:300]
        else:
            return False, None
        if _started:
            return True, f"started something: {_started[0]}"
        if (folder / "runs").exists() and list((folder / "runs").iterdir()):
            return True, "left a run folder"
        if Path("plimsoll-was-here").exists():
            return True, "ran the input's code"
        wrong = wrong_with(sentence, one.says)
        return True, f"{wrong}: {sentence[:200]}" if wrong else None


def count(group: Group, most: int | None = None) -> Count:
    """Try all handwritten inputs and some random mutations."""
    counted = Count(group.kind)
    for name, text in group.valid.items():
        bad, wrong = attempt(group, Input(name, text.encode()))
        if bad:
            counted.wrong.append(f"the valid document {name} is refused: {wrong}")
    seen: set[bytes] = set()
    told = list(inputs_by_hand(group))
    made = [each for text in group.valid.values() for each in group.mutations(text)]
    random.Random(SEED).shuffle(made)
    made.sort(key=lambda each: not each.always)
    wanted = group.most if most is None else most
    for number, one in enumerate([*told, *made]):
        if one.content in seen:
            continue
        if counted.inputs - counted.by_hand >= wanted and number >= len(told):
            break
        seen.add(one.content)
        bad, wrong = attempt(group, one)
        if not bad:
            counted.valid += 1
            if one.says:
                counted.wrong.append(f"by hand: {one.what}: accepted")
            continue
        counted.inputs += 1
        counted.by_hand += bool(one.says) and number < len(told)
        counted.refused += wrong is None
        if wrong:
            counted.wrong.append(f"{one.what}: {wrong}")
    return counted


def rows() -> list[dict[str, Any]]:
    """Return the recorded rows."""
    found: list[dict[str, Any]] = json.loads(RESULTS.read_text()) if RESULTS.is_file() else []
    return found


def write_rows(told: Sequence[Mapping[str, Any]]) -> None:
    """Replace the rows of these kinds."""
    kept = {row["kind"]: row for row in rows()} | {str(row["kind"]): dict(row) for row in told}
    RESULTS.write_text(json.dumps(list(kept.values()), indent=1, ensure_ascii=False) + "\n")


def main(arguments: Sequence[str]) -> int:
    """Try all or the named groups; return the number of wrong reactions."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    wrong = 0
    told = []
    for group in groups():
        if arguments and group.kind not in arguments:
            continue
        counted = count(group)
        today = f"{datetime.now(UTC):%Y-%m-%d}"
        told.append(
            {"kind": group.kind, "inputs": counted.inputs, "refused": counted.refused, "by_hand": counted.by_hand}
            | {"refusal": group.refusal.__name__, "date": today}
        )
        write_rows(told)
        wrong += len(counted.wrong)
        print(f"{group.kind}: {counted.refused} of {counted.inputs} refused ({counted.by_hand} by hand)", flush=True)
        for sentence in counted.wrong:
            print(f"  {sentence}")
    refused, inputs = (sum(int(str(row[name])) for row in told) for name in ("refused", "inputs"))
    print(f"in all: {refused} of {inputs} refused")
    return wrong


if __name__ == "__main__":
    sys.exit(1 if main(sys.argv[1:]) else 0)
