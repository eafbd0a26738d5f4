"""Go or no-go for an upgrade; docs/qualify.md has the rules."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Unpack

from campaigns.campaign import Campaign, Item, Row, When
from campaigns.compare import campaign as compare
from campaigns.compare.findings import BY_DESIGN
from campaigns.compare.words import pairs_that_decide
from campaigns.known_bugs import campaign as known_bugs
from campaigns.known_bugs.bugs import BUGS
from campaigns.qualify import KIND, on_cluster
from campaigns.qualify.lines import of_both_sides, of_runs
from campaigns.qualify.questions import MEASURED, VIEWS, Settings, Sides, correctness, questions
from history.kafka_versions import FEATURES, Version
from history.results.compare import CompareResult
from history.results.known_bugs import Arm
from history.results.qualify import STATES, Answer, Line, QualifyResult

_VIEWS = {"default_settings": "performance, default settings", "same_settings": "performance, same settings"}
_PERFORMANCE: dict[str, Answer] = {
    "correctness regression": "no-go",
    "regression": "not yet",
    "no violation": "not yet",  # no primary metric had enough load
    "inconclusive": "note",
}


def plan(settings: Mapping[str, Any], **when: Unpack[When]) -> Campaign:
    """Plan all questions' runs; raise BadInput for wrong settings, or a question that does not fit the versions."""
    if settings.get("cluster"):
        return on_cluster.plan(settings, **when)
    question = KIND.check(Settings, settings)
    parts = questions(question, when)
    settings = {**question.model_dump(), "questions": {name: part.settings for name, part in parts.items()}}
    items = [_of_question(name, item) for name, part in parts.items() for item in part.items]
    return Campaign(kind=KIND.name, settings=settings, items=items, **when)


def _of_question(question: str, item: Item) -> Item:
    name = f"{question.replace('_', '-')}-{item.name}"
    labels = {**item.labels, "question": question}
    return item.model_copy(update={"name": name, "labels": labels, "at_once": question not in VIEWS})


def later(campaign: Campaign) -> list[Item]:
    """Return the items that the plan lacks because they are decided later, to be checked now."""
    return on_cluster.later(campaign) if "cluster" in campaign.settings else []


def _question(campaign: Campaign, name: str) -> Campaign:
    items = [item for item in campaign.items if item.labels["question"] == name]
    return campaign.model_copy(update={"settings": campaign.settings["questions"].get(name, {}), "items": items})


def _rows_of(campaign: Campaign, rows: Iterable[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {name: [] for name in campaign.settings["questions"]}
    for row in campaign.own(rows):
        found[row["labels"]["question"]].append(row)
    return found


def follow_up(campaign: Campaign, rows: Sequence[Row]) -> list[Item]:
    """Rerun the new version's failures on today's, and bug tries that missed their window; or the next part.

    The search calls it after each round.
    """
    if "cluster" in campaign.settings:
        return on_cluster.next_part(campaign, rows)
    own, settings = _rows_of(campaign, rows), _settings(campaign)
    scenarios, releases = (
        {row["labels"][name]: None for row in own.get(question, []) if _failed_on_head(row)}
        for question, name in (("correctness", "of"), ("clients", "role"))
    )
    again = [
        _of_question("correctness", item) for item in correctness("base", settings, campaign.seed, list(scenarios))
    ]
    again += [
        _of_question("clients", _on_base(item, settings))
        for item in _question(campaign, "clients").items
        if item.labels["role"] in releases
    ]
    if "bugs" in own:
        tries = known_bugs.follow_up(_question(campaign, "bugs"), own["bugs"])
        again += [_of_question("bugs", item) for item in tries]
    return again


def _on_base(item: Item, settings: Settings) -> Item:
    name = f"base-{item.name.removeprefix('clients-')}"
    return item.model_copy(
        update={"name": name, "kafka": settings.sides.base, "labels": {**item.labels, "side": "base"}}
    )


def _failed_on_head(row: Row) -> bool:
    return bool(row["labels"].get("side") != "base" and row["verdict"] == "fail")


def _settings(campaign: Campaign) -> Settings:
    return Settings.model_validate({name: campaign.settings[name] for name in Settings.model_fields})


def result(campaign: Campaign, rows: Sequence[Row]) -> QualifyResult:
    """Combine the answers; the worst decides."""
    if "cluster" in campaign.settings:
        return _on_cluster(campaign, on_cluster.in_time(campaign.own(rows)))
    settings, own = _settings(campaign), _rows_of(campaign, rows)
    judged = [row for of_question in own.values() for row in of_question]
    lines = list(_lines(_answered(campaign, own), judged))
    base, head = settings.sides.versions
    jars = {
        side: sorted({str(row["kafka_jars_digest"]) for row in judged if row["kafka_version"] == version})
        for side, version in (("base", base), ("head", head))
    }
    return _concluded(
        campaign,
        lines,
        judged,
        f"from Kafka {base} to {head}",
        "upgrade and rollback under load",
        base=base,
        head=head,
        by_design=list(_by_design(settings.sides)),
        doubts=list(_doubts(settings, lines)),
        jars=jars,
    )


def _on_cluster(campaign: Campaign, rows: Sequence[Row]) -> QualifyResult:
    lines = list(_lines(on_cluster.lines(campaign, rows), rows))
    base, head = on_cluster.names(campaign)
    return _concluded(
        campaign,
        lines,
        rows,
        f"from {base} to {head}",
        "the upgrade under load",
        base=base,
        head=head,
        by_design=[],
        doubts=list(on_cluster.doubts(campaign)),
        jars={},
    )


def _concluded(
    campaign: Campaign, lines: list[Line], rows: Sequence[Row], way: str, kept: str, **about: Any
) -> QualifyResult:
    verdict: Answer = next((each for each in STATES if any(line.answer == each for line in lines)), "not yet")
    return QualifyResult(
        **campaign.named,
        state=STATES[verdict],
        sentence=_sentence(way, kept, verdict, lines),
        lines=[f"{line.answer:8} {line.question}: {line.what}: {line.sentence}" for line in lines],
        seed=campaign.seed,
        settings=campaign.settings,
        verdict=verdict,
        answers=lines,
        hosts=sorted({str(row["host"]) for row in rows}),
        digest=_digest(about["jars"], rows),
        **about,
    )


def _digest(jars: Mapping[str, Sequence[str]], rows: Iterable[Row]) -> str:
    verdicts = sorted({(str(row["run_id"]), str(row["verdict"])) for row in rows})
    return hashlib.sha256(json.dumps([dict(jars), verdicts]).encode()).hexdigest()


def _lines(answered: Iterable[tuple[Line, Sequence[Item]]], rows: Iterable[Row]) -> Iterator[Line]:
    recorded = {row["labels"]["item"] for row in rows}
    for line, items in answered:
        yield _complete(line, [item.name for item in items if item.name not in recorded])


def _complete(line: Line, missing: Sequence[str]) -> Line:
    """Unless no-go, missing runs make the answer "not yet"."""
    if not missing:
        return line
    answer: Answer = "no-go" if line.answer == "no-go" else "not yet"
    return line.model_copy(update={"answer": answer, "sentence": f"{line.sentence} {len(missing)} not recorded."})


def _answered(campaign: Campaign, own: Mapping[str, Sequence[Row]]) -> Iterator[tuple[Line, Sequence[Item]]]:
    settings = _settings(campaign)
    upgrade = _question(campaign, "upgrade")
    for way, words in (("upgrade", "upgraded node by node, leaders dying"), ("rollback", "upgraded and rolled back")):
        items = [item for item in upgrade.items if item.labels["role"] == way]
        yield of_runs("upgrade", words, items, own["upgrade"]), items
    for scenario in settings.scenarios:
        items = [item for item in _question(campaign, "correctness").items if item.labels["of"] == scenario]
        tries = [row for row in own["correctness"] if row["labels"]["of"] == scenario]
        yield of_both_sides("correctness", scenario, items, tries), items
    if "bugs" in own:
        part = _question(campaign, "bugs")
        found = known_bugs.result(part, own["bugs"])
        for bug in dict.fromkeys(arm.bug for arm in found.arms):
            arms = {arm.kafka: arm for arm in found.arms if arm.bug == bug}
            yield (
                _of_bug(arms[settings.base], arms[settings.head]),
                [item for item in part.items if item.labels["bug"] == bug],
            )
    yield from ((line, []) for line in _bugs_on_both(settings.sides))
    for item in _question(campaign, "clients").items:
        release = item.labels["role"]
        tries = [row for row in own["clients"] if row["labels"]["role"] == release]
        yield of_both_sides("clients", f"Java {release}", [item], tries), [item]
    for view in (view for view in VIEWS if view in own):
        part = _question(campaign, view)
        yield _of_performance(_VIEWS[view], compare.result(part, own[view])), part.items


def _of_performance(question: str, compared: CompareResult) -> Line:
    """You decide on a regression; noise is a note, missing evidence "not yet"."""
    answer, words = _PERFORMANCE.get(compared.verdict, "go"), compared.sentence
    unjudged = sum(run.verdict == "unknown" for run in compared.runs.each)
    if answer == "note":
        words = f"{words} {pairs_that_decide(compared)}".rstrip()
    if unjudged:
        words = f"{words} {unjudged} of {compared.runs.planned} runs {'has' if unjudged == 1 else 'have'} no verdict."
    if answer != "no-go" and (unjudged or compared.refusals or (compared.state == "unknown" and answer == "go")):
        answer = "not yet"
    runs = [run.run_id for run in compared.runs.each]
    return Line(question=question, what=MEASURED, answer=answer, sentence=words, runs=runs)


def _of_bug(base: Arm, head: Arm) -> Line:
    answer: Answer
    counts = f"found on {base.version} in {base.found} of {base.decided} tries, on {head.version} in {head.found} of "
    counts += f"{head.decided}."
    if not (base.decided and head.decided):
        answer, word = "not yet", "Not decided"
    elif head.found:
        answer, word = ("note", "On both sides") if base.found else ("no-go", "New")
    elif base.found:
        answer, word = "go", "Fixed"
    elif head.expected == "found":
        answer, word = "not yet", "Known to be new, and not seen"
    else:
        answer, word = "note", "Known to be fixed, and not seen on either side"
    runs = [run.run_id for arm in (base, head) for run in arm.runs]
    return Line(
        question="bugs", what=f"{base.issue}: {base.title}", answer=answer, sentence=f"{word}: {counts}", runs=runs
    )


def _bugs_on_both(sides: Sides) -> Iterator[Line]:
    for bug in BUGS:
        if all(sides.affected(bug)) and not bug.by_setting and BY_DESIGN not in bug.shown_as:
            words = "Both versions have it, and no run was spent on it."
            yield Line(question="bugs", what=f"{bug.issue}: {bug.title}", answer="note", sentence=words, runs=[])


_FEATURES = {
    "zookeeper": "ZooKeeper mode",
    "kraft": "KRaft, ready for production",
    "kraft_scram": "SCRAM users in KRaft mode (KIP-900)",
    "kraft_jbod": "several log folders in KRaft mode (KIP-858)",
    "strict_min_isr": "a high watermark that stands still below min.insync.replicas (KAFKA-15583)",
    "consumer_protocol": "the new protocol of consumer groups (KIP-848)",
    "share_groups": "share groups (KIP-932)",
    "elr": "eligible leader replicas (KIP-966)",
    "sasl_from_java_23": "SASL on Java 23 and later (KAFKA-17078)",
}


def _by_design(sides: Sides) -> Iterator[str]:
    base, head = map(Version.parse, sides.versions)
    for feature, words in _FEATURES.items():
        before, after = base in FEATURES[feature], head in FEATURES[feature]
        if before != after:
            yield f"{'New' if after else 'Gone'}: {words}."


def _doubts(settings: Settings, lines: Sequence[Line]) -> Iterator[str]:
    if not settings.pairs:
        yield "Performance was not compared (--pairs=0)."
    if not settings.clients:
        yield "Java clients were not tested (--clients=0)."
    for line in lines:
        if line.question in _VIEWS.values() and line.answer == "note":
            yield f"{line.question.capitalize()}: {line.sentence}"
    tries = f"{settings.tries} {'try' if settings.tries == 1 else 'tries'}"
    yield f"{tries} of each scenario and bug: what is rarer stays unseen."
    yield "Defaults that changed are not listed; the default-settings view of performance runs with them."
    yield "Connect, Streams, MirrorMaker and formats on disk from years of use are not asked."


def _sentence(way: str, kept: str, verdict: Answer, lines: Sequence[Line]) -> str:
    begin = f"{verdict[:1].upper()}{verdict[1:]} {way}"
    if verdict != "go":
        reasons = [f"{line.what}: {line.sentence}" for line in lines if line.answer == verdict]
        more = f" And {len(reasons) - 2} more." if len(reasons) > 2 else ""
        return f"{begin}. {' '.join(reasons[:2])}{more}" if reasons else f"{begin}: nothing was answered."
    passed = Counter(line.question for line in lines if line.answer == "go")
    fixed = [line.what.partition(":")[0] for line in lines if line.question == "bugs" and line.answer == "go"]
    mended = f"; fixed: {', '.join(fixed)}" if fixed else ""
    return (
        f"{begin}: {kept} kept every guarantee, {passed['correctness']} of "
        f"{sum(line.question == 'correctness' for line in lines)} scenarios pass{mended}."
    )
