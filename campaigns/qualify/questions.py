"""A qualification's questions: upgrade and rollback with faults, and other campaigns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import Field, field_validator

from campaigns.campaign import MAX_TIMES, Campaign, Item, Strict, When
from campaigns.clients import campaign as clients
from campaigns.compare import campaign as compare
from campaigns.kinds import split_words
from campaigns.known_bugs import campaign as known_bugs
from campaigns.known_bugs.bugs import BUGS, Bug
from clusters.kafka.builds import reported_version
from clusters.kafka.jars import version_of
from clusters.kafka.servers import choose_mode
from clusters.scenario.scenario import load_scenario
from history.errors import BadInput
from history.kafka_versions import CLIENT_RELEASES

VIEWS = ("default_settings", "same_settings")  # default settings first, as after an upgrade
MEASURED = "benchmark"
_LIMIT = "90s"


class Sides(NamedTuple):
    """Today's version and the new one, as given."""

    base: str
    head: str

    @property
    def versions(self) -> tuple[str, str]:
        return reported_version(self.base), reported_version(self.head)

    def affected(self, bug: Bug) -> tuple[bool, bool]:
        base, head = map(bug.affects, self.versions)
        return base, head


class Settings(Strict):
    """``base`` is today's version, ``head`` the new one."""

    base: str
    head: str
    scenario: str = "rolling_upgrade"
    scenarios: list[str] = Field(default=["survived_faults", "group_members", "exactly_once"], min_length=1)
    tries: int = Field(default=2, ge=1, le=MAX_TIMES)
    pairs: int = Field(default=3, ge=0, le=MAX_TIMES)
    clients: int = Field(default=3, ge=0, le=len(CLIENT_RELEASES))
    runtime: str = Field(default="docker", pattern="^docker$")

    @field_validator("scenarios", mode="before")
    @classmethod
    def _several(cls, value: object) -> object:
        return split_words(value)

    @property
    def sides(self) -> Sides:
        return Sides(self.base, self.head)


def questions(settings: Settings, when: When) -> dict[str, Campaign]:
    """Return the campaigns in running order, without item prefixes; raise BadInput for wrong settings."""
    sides = settings.sides
    own = {"upgrade": _upgrades(settings, when["seed"]), "correctness": correctness("head", settings, when["seed"])}
    found = {name: Campaign(kind="qualify", settings={}, items=list(items), **when) for name, items in own.items()}
    if bugs := [bug.name for bug in BUGS if _differs(bug, sides)]:
        found["bugs"] = known_bugs.plan({"bugs": bugs, "kafka": list(sides), "tries": settings.tries}, **when)
    if settings.clients:
        of_clients = {"kafka": sides.head, "clients": str(settings.clients), "runtime": "docker"}
        found["clients"] = clients.plan(of_clients, **when)
    for view in VIEWS if settings.pairs else ():
        compared = {**sides._asdict(), "pairs": settings.pairs, "view": view, "scenarios": MEASURED}
        planned = compare.plan(compared, **when)
        items = [item for item in planned.items if item.labels["part"] == "comparison"]
        found[view] = planned.model_copy(update={"items": items})
    return found


def _differs(bug: Bug, sides: Sides) -> bool:
    base, head = sides.affected(bug)
    return base != head and not bug.by_setting and bug.good is not None


def _upgrades(settings: Settings, seed: int) -> Iterator[Item]:
    base, head = settings.sides.versions
    if version_of(head) == version_of(base):
        raise BadInput(
            f"--from={settings.sides.base} and --to={settings.sides.head} are one version; there is nothing to qualify."
        )
    scenario = load_scenario(settings.scenario)
    choose_mode(head, choose_mode(base, scenario.cluster.mode))
    if scenario.topics and version_of(head) < version_of(base) and not _one_minor(base, head):
        raise BadInput(f"--to={head} is older than --from={base}; Kafka goes back within a minor release only.")
    if not scenario.topics:
        raise BadInput(f"--scenario={settings.scenario} has no topic; an upgrade without records shows nothing.")
    topic = next(iter(scenario.topics))
    release = None if _one_minor(base, head) else version_of(head).minor_release
    ways = {
        "upgrade": upgrade_phases(topic, settings.sides.head, release),
        "rollback": rollback_phases(topic, settings.sides.head),
    }
    for number in range(1, settings.tries + 1):
        for way, phases in ways.items():
            yield Item(
                name=f"{way}-{number:02}",
                scenario=settings.scenario,
                kafka=settings.sides.base,
                changes={"phases": phases},
                seed=seed + number,
                labels={"role": way, "try": str(number)},
            )


def _one_minor(base: str, head: str) -> bool:
    return version_of(base).minor_release == version_of(head).minor_release


Phases = list[Mapping[str, Sequence[Mapping[str, Any]]]]


def upgrade_phases(topic: str, kafka: str, release: str | None) -> Phases:
    """Upgrade node by node; leaders die halfway, before finalising ``release`` (None: same minor), and after."""
    finalised: Phases = [{"finalised": [{"finalise": release}, {"hold": "2s"}]}] if release else []
    return [
        {"steady": [{"hold": "4s"}]},
        {"the first node": [{"upgrade": {"node": "A", "kafka": kafka}}, _whole(topic)]},
        {"a leader dies between old and new": _leader_dies(topic)},
        {"all nodes": [*_all_to(kafka), _whole(topic)]},
        {"a leader dies": _leader_dies(topic)},
        *finalised,
        {"a leader dies at the end": [*_leader_dies(topic), {"hold": "4s"}]},
    ]


def rollback_phases(topic: str, kafka: str) -> Phases:
    """Upgrade all nodes and roll back; leaders die in between and after."""
    back = [{"rollback": "brokers"}, {"rollback": "controllers"}]
    return [
        {"steady": [{"hold": "4s"}]},
        {"all nodes": [*_all_to(kafka), _whole(topic)]},
        {"a leader dies": _leader_dies(topic)},
        {"back again": [*back, _whole(topic)]},
        {"a leader dies at the end": [*_leader_dies(topic), {"hold": "4s"}]},
    ]


def _all_to(kafka: str) -> list[Mapping[str, Any]]:
    """Upgrade KRaft controllers first."""
    return [{"upgrade": {"node": node, "kafka": kafka}} for node in ("controllers", "brokers")]


def _whole(topic: str) -> Mapping[str, Any]:
    return {"wait": {"for": {"isr_full": topic}, "limit": _LIMIT}}


def _leader_dies(topic: str) -> list[Mapping[str, Any]]:
    leader = f"leader of {topic}-0"
    return [
        {"kill": leader},
        {"wait": {"for": {"leader_changed": f"{topic}-0"}, "limit": _LIMIT}},
        {"hold": "2s"},
        {"start": leader},
        _whole(topic),
    ]


def correctness(side: str, settings: Settings, seed: int, only: Sequence[str] | None = None) -> Iterator[Item]:
    """Yield each scenario on a side (``base``, ``head``), once per try."""
    for number in range(1, settings.tries + 1):
        for scenario in settings.scenarios if only is None else only:
            name = load_scenario(scenario).name.replace("_", "-")
            yield Item(
                name=f"{side}-{name}-{number:02}",
                scenario=scenario,
                kafka=getattr(settings.sides, side),
                seed=seed + number,
                labels={"role": f"{side}-{scenario}", "side": side, "of": scenario, "try": str(number)},
            )
