"""Limit brokers and clients on their host, so that a failed broker makes no other one faster.

The CPU limit applies once a broker is registered, because a JVM takes 30 s to start on a third of a CPU. The network
limit belongs to the address, which outlives restarts.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from clusters.live.world import World
from clusters.runtimes.nodes import Node
from clusters.runtimes.runtime import ResourceLimits, available


def limit_cluster(world: World) -> None:
    """Apply the scenario's limits to all brokers, and to metadata nodes as clients."""
    resource_limits = world.scenario.cluster.resource_limits
    if resource_limits is None:
        return
    limits = _limits(world)
    brokers = list(world.servers.brokers.values())
    if resource_limits.network is not None:
        rate = resource_limits.network
        with ThreadPoolExecutor(len(brokers)) as pool:  # each starts a container
            list(pool.map(lambda node: limits.limit_egress(node, rate), brokers))
    limit_brokers(world, brokers)
    limit_clients(world, world.servers.metadata_nodes)


def limit_brokers(world: World, brokers: list[Node]) -> None:
    """Limit the CPU of started brokers, and record the kernel's values."""
    resource_limits = world.scenario.cluster.resource_limits
    if resource_limits is None:
        return
    for node in brokers:
        _limits(world).limit_cpu(node.name, resource_limits.cpus, resource_limits.cpu_set)
    _record(world, brokers, "given")


def limit_clients(world: World, nodes: Sequence[Node]) -> None:
    """Restrict other nodes to the clients' CPUs."""
    resource_limits = world.scenario.cluster.resource_limits
    if resource_limits is not None and resource_limits.clients_cpu_set is not None:
        for node in nodes:
            _limits(world).limit_cpu(node.name, None, resource_limits.clients_cpu_set)


def end_cpu_limits(world: World) -> None:
    """Record the kernel's counters, then remove the CPU quotas for the final drain."""
    resource_limits = world.scenario.cluster.resource_limits
    if resource_limits is None:
        return
    running = [node for node in world.servers.brokers.values() if world.state(node) == "running"]
    _record(world, running, "at the end of the load")
    for node in running:
        _limits(world).limit_cpu(node.name, None, resource_limits.cpu_set)


def _record(world: World, brokers: list[Node], when: str) -> None:
    resource_limits = world.scenario.cluster.resource_limits
    asked = resource_limits.model_dump(exclude_none=True) if resource_limits else {}
    for node in brokers:
        kernel = _limits(world).in_effect(node)
        world.events.add("resource_limits", target=node.name, when=when, asked=asked, kernel=kernel)


def _limits(world: World) -> ResourceLimits:
    return available(world.runtime.resource_limits, "resource limits")
