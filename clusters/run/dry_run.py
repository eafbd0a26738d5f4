"""Say what a run would do on a cluster that somebody else runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from clusters.attached.cluster_file import ENDED_BY
from clusters.attached.fit import not_applied
from clusters.live.plan import Plan
from clusters.run.attached import RIGHTS
from clusters.run.stages import expected_s
from clusters.scenario.durations import expected_bytes, longest_phase_s, peak_bytes_per_s
from clusters.scenario.scenario import Scenario
from clusters.scenario.steps.owner import AwaitUpgrade
from history.words import counted


def described(plan: Plan, given: Scenario, evidence: str) -> dict[str, Any]:
    """Return what a run would create, send, break and record; ``given`` is the scenario as written,
    ``evidence`` names what is recorded.
    """
    scenario, cluster = plan.scenario, plan.foreign
    hooks = cluster.description.hooks
    longest_s = sum(map(longest_phase_s, scenario.phases))
    return {
        "cluster": f"{cluster.cluster_id} ({cluster.mode}), {counted(len(cluster.brokers), 'broker')}",
        "brokers": [
            f"{letter} is broker {number} at {broker.host}:{broker.port}"
            + (f", rack {broker.rack}" if broker.rack else "")
            for letter, number in scenario.cluster.broker_ids.items()
            if (broker := cluster.brokers[number])
        ],
        "creates": [f"the registry {cluster.description.topics.prefix}registry, unless it exists", *_topics(scenario)],
        "needs": f"the rights {', '.join(RIGHTS)} on topics with the prefix {cluster.description.topics.prefix}",
        "load": f"at most {peak_bytes_per_s(scenario) / 1e6:,.2f} MB/s, "
        f"about {expected_bytes(scenario) / 1e6:,.0f} MB in all replicas",
        "takes": f"about {expected_s(scenario):.0f} s, and phases at most {longest_s:.0f} s",
        "steps": [f"{phase.name}: {step}" for phase in scenario.phases for step in phase.steps],
        "hooks": [
            f"{name}: {' '.join(hooks[name].run)}"
            for fault in dict.fromkeys([*scenario.faults, *_upgrades(scenario)])
            for name in (fault, ENDED_BY.get(fault, ""))
            if name in hooks
        ],
        "evidence": evidence,
        "not_applied": list(not_applied(given, {number: own.settings for number, own in cluster.brokers.items()})),
        "removes": "its topics, when it ends; after a crash: plimsoll clean --cluster",
    }


def _upgrades(scenario: Scenario) -> Iterator[str]:
    return ("upgrade" for step in scenario.steps if isinstance(step, AwaitUpgrade))


def _topics(scenario: Scenario) -> Iterator[str]:
    for name, topic in scenario.topics.items():
        settings = "".join(f", {key}={value}" for key, value in topic.config.items())
        yield f"{name}: {counted(topic.partitions, 'partition')}, replicas on {', '.join(topic.replicas)}{settings}"


def lines(facts: dict[str, Any]) -> Iterator[str]:
    """Yield the facts as text."""
    for name, value in facts.items():
        title = name.replace("_", " ")
        if isinstance(value, list):
            yield f"{title}: {'none' if not value else ''}".rstrip()
            yield from (f"  {each}" for each in value)
        else:
            yield f"{title}: {value}"
