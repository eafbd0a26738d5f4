"""A qualification's questions: upgrade and rollback with faults, and other campaigns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from campaigns.campaign import Campaign, Item, When
from campaigns.clients import campaign as clients
from campaigns.compare import campaign as compare
from campaigns.known_bugs import campaign as known_bugs
from campaigns.known_bugs.bugs import BUGS, Bug
from clusters.kafka.builds import reported_version
from clusters.kafka.jars import version_of
from clusters.kafka.servers import choose_mode
from clusters.scenario.scenario import load_scenario
from history.errors import BadInput

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


@dataclass(frozen=True)
class Asked:
    """A qualification's validated settings."""

    sides: Sides
    scenario: str
    scenarios: Sequence[str]
    tries: int
    pairs: int
    clients: int


def questions(asked: Asked, when: When) -> dict[str, Campaign]:
    """Return the campaigns in running order, without item prefixes; raise BadInput for wrong settings."""
    sides = asked.sides
    own = {"upgrade": _upgrades(asked, when["seed"]), "correctness": correctness("head", asked, when["seed"])}
    found = {name: Campaign(kind="qualify", settings={}, items=list(items), **when) for name, items in own.items()}
    if bugs := [bug.name for bug in BUGS if _differs(bug, sides)]:
        found["bugs"] = known_bugs.plan({"bugs": bugs, "kafka": list(sides), "tries": asked.tries}, **when)
    if asked.clients:
        of_clients = {"kafka": sides.head, "clients": str(asked.clients), "runtime": "docker"}
        found["clients"] = clients.plan(of_clients, **when)
    for view in VIEWS if asked.pairs else ():
        settings = {**sides._asdict(), "pairs": asked.pairs, "view": view, "scenarios": MEASURED}
        planned = compare.plan(settings, **when)
        items = [item for item in planned.items if item.labels["part"] == "comparison"]
        found[view] = planned.model_copy(update={"items": items})
    return found


def _differs(bug: Bug, sides: Sides) -> bool:
    base, head = sides.affected(bug)
    return base != head and not bug.by_setting and bug.good is not None


# --- the upgrade and the way back ----------------------------------------------------------------------


def _upgrades(asked: Asked, seed: int) -> Iterator[Item]:
    base, head = asked.sides.versions
    if version_of(head) == version_of(base):
        raise BadInput(
            f"--from={asked.sides.base} and --to={asked.sides.head} are one version; there is nothing to qualify."
        )
    told = load_scenario(asked.scenario)
    choose_mode(head, choose_mode(base, told.cluster.mode))
    if told.topics and version_of(head) < version_of(base) and not _one_minor(base, head):
        raise BadInput(f"--to={head} is older than --from={base}; Kafka goes back within a minor release only.")
    if not told.topics:
        raise BadInput(f"--scenario={asked.scenario} has no topic; an upgrade without records shows nothing.")
    topic = next(iter(told.topics))
    release = None if _one_minor(base, head) else version_of(head).minor_release
    ways = {
        "upgrade": upgrade_phases(topic, asked.sides.head, release),
        "rollback": rollback_phases(topic, asked.sides.head),
    }
    for number in range(1, asked.tries + 1):
        for way, phases in ways.items():
            yield Item(
                name=f"{way}-{number:02}",
                scenario=asked.scenario,
                kafka=asked.sides.base,
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


# --- what the new version has to pass ------------------------------------------------------------------


def correctness(side: str, asked: Asked, seed: int, only: Sequence[str] | None = None) -> Iterator[Item]:
    """Yield each scenario on a side (``base``, ``head``), once per try."""
    for number in range(1, asked.tries + 1):
        for scenario in asked.scenarios if only is None else only:
            name = load_scenario(scenario).name.replace("_", "-")
            yield Item(
                name=f"{side}-{name}-{number:02}",
                scenario=scenario,
                kafka=getattr(asked.sides, side),
                seed=seed + number,
                labels={"role": f"{side}-{scenario}", "side": side, "of": scenario, "try": str(number)},
            )
