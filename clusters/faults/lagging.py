"""Keep a live follower behind its leader, with a closed loop on its log end offset (docs/dev/architecture.md)."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Protocol

from clusters.faults import Evidence, Fault
from clusters.faults.phase import PhaseRun, performs
from clusters.live.servers import broker_id
from clusters.live.world import World
from clusters.runtimes.nodes import Node
from clusters.runtimes.ports import PORTS
from clusters.runtimes.runtime import Network, available
from clusters.scenario.steps.network import Lag, Slow
from clusters.waiting import wait_until
from history.errors import HarnessError
from history.partition import TopicPartition

TICK_S = 0.1
SLICE_S = 0.003  # in which a resumed follower runs
FETCH_LIMIT_S = 0.5  # time for a resumed follower's fetch
PROTOCOL_OVERHEAD = 1.06  # relative to log bytes
SHARES = (0.3, 2.0)  # least and largest, of the produce rate
DAMPED = 1 / 3  # exponent of the correction
REACTION_S = 2.0  # until a new share takes effect
STARVED_SHARE = 0.1  # for ``slow``
REJOIN_SHARE = 10.0  # an evicted follower does not hold back the high watermark
PATIENCE_S = 2.0  # with a wrong lag, until the rate is corrected
LESS = 0.6  # of the measured rate, if the lag stays below half of the wanted one
TOO_FAR = 2.0  # times the wanted lag
PROOF_S = 20.0  # on top of the time to fall behind
MEASURED_S = 6  # at most, for the produce rate
RECENT_S = 3.0
LONGEST_STOP = 0.65  # of the session timeout: ZooKeeper clients send a heartbeat every third


@dataclass(frozen=True)
class Observation:
    """Hold simultaneous answers of follower and leader."""

    t_ns: int
    lag: int
    leader_hw: int
    leader_leo: int
    follower_leo: int
    in_isr: bool

    def __str__(self) -> str:
        leader, isr = f"leader HW {self.leader_hw} LEO {self.leader_leo}", "in" if self.in_isr else "out of"
        return f"lag {self.lag}, {leader}, follower LEO {self.follower_leo}, {isr} the ISR"


Sizes = Mapping[tuple[int, TopicPartition], int]


class Valve(Protocol):
    """Limit the follower's replication until ``open``."""

    def tick(self) -> None: ...

    def open(self) -> None: ...


@dataclass
class LagFault(Fault):
    """Keep ``node`` about ``records`` behind on ``partition``; with None (``slow``), let it fall behind."""

    world: World
    node: Node
    partition: TopicPartition
    records: int | None
    key: str
    throttles_fetches = True
    ended: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _seen: deque[Observation] = field(default_factory=lambda: deque(maxlen=3000))
    _error: BaseException | None = None

    @property
    def nodes(self) -> list[Node]:
        return [self.node]

    def inject(self) -> None:
        self._thread = threading.Thread(target=self._hold, name=f"lag {self.node.name}", daemon=True)
        self._thread.start()

    def _hold(self) -> None:
        try:
            with World.open(self.world.folder.path) as world:  # connections are not shared between threads
                network = world.runtime.network
                valve: Valve = ShapedTraffic(world, network, self) if network else DutyCycle(world, self)
                try:
                    while not self.ended.is_set():
                        valve.tick()
                finally:
                    valve.open()
        except Exception as error:  # noqa: BLE001  # raised in the thread that waits for proof
            self._error = error

    def observe(self, world: World, follower_leo: int | None = None) -> Observation | None:
        seen = observe(world, self.node, self.partition, follower_leo)
        if seen:
            self._seen.append(seen)
        return seen

    def verify_injected(self) -> Evidence:
        """Wait until the follower is half of the wanted lag behind, in the ISR; for ``slow``, one second of load."""
        wanted = self.records / 2 if self.records else self.rate or 1

        def proven() -> bool:
            self._raise_error()
            if self.world.runtime.network:  # otherwise the pausing thread observes
                self.observe(self.world)  # the valve can be busy for 1 s
            return self.reached() >= wanted

        wait_until(
            proven,
            limit_s=PROOF_S + self._least_s(wanted),
            every_s=TICK_S,
            what=f"{self.node.name} to trail the leader of {self.partition} by {wanted:.0f} records",
            last_seen=lambda: str(self._seen[-1]) if self._seen else "no sample",
        )
        return self.figures()

    def reached(self) -> int:
        """Return the lag that three of the last ten observations reached, else 0; for ``slow``, their maximum.

        Observations count if the follower is in the ISR and the high watermark is below the leader's log end.
        """
        newest = list(self._seen)[-10:]
        if self.records is None:
            return max((seen.lag for seen in newest), default=0)
        held = sorted(seen.lag for seen in newest if seen.in_isr and seen.leader_hw < seen.leader_leo)
        return held[-3] if len(held) >= 3 else 0

    def heal(self) -> None:
        self.ended.set()
        if self._thread:
            self._thread.join(timeout=30)
            if self._thread.is_alive():
                raise HarnessError(f"The lag of {self.node.name} could not be ended within 30 s.")
        self._raise_error()

    def verify_cleared(self) -> Evidence:
        def caught_up() -> Observation | None:
            seen = observe(self.world, self.node, self.partition)
            return seen if seen and seen.lag <= max(10.0, self.rate * 0.5) else None

        seen = wait_until(caught_up, limit_s=30, what=f"{self.node.name} to catch up on {self.partition}")
        return {"lag": seen.lag, **self.figures()}

    @property
    def rate(self) -> float:
        topic = self.partition.topic
        return self.world.scenario.rate_of(topic) / self.world.scenario.topics[topic].partitions

    @property
    def least_share(self) -> float:
        """Return the smallest share with which the lag grows slowly enough for the loop to react."""
        in_time = 1 - self.records / (self.rate * REACTION_S) if self.records and self.rate else 0.0
        return max(SHARES[0], in_time)

    def _least_s(self, lag: float) -> float:
        return lag / (self.rate * (1 - self.least_share)) if self.rate else 0.0

    def figures(self) -> Evidence:
        """Return the lag's range in the ISR; ``near`` is the share within half to twice the wanted lag."""
        lags = sorted(o.lag for o in list(self._seen) if o.in_isr)
        if not lags:
            return {"samples": 0}
        found = {"samples": len(lags), "lag_min": lags[0], "lag_median": lags[len(lags) // 2], "lag_max": lags[-1]}
        if self.records is None:
            return found
        near = sum(self.records / 2 <= lag <= 2 * self.records for lag in lags)
        return {**found, "near": round(near / len(lags), 2)}

    def _raise_error(self) -> None:
        if self._error:
            raise HarnessError(f"The lag of {self.node.name} could not be held: {self._error}") from self._error


def share_for(lag: int, records: int, least: float = SHARES[0]) -> float:
    """Return the share of the produce rate that the follower may receive; 1 at the wanted lag.

    A new share takes effect one or two fetches later; with less damping the lag would overshoot.
    """
    return float(min(max((max(lag, 0) / records) ** DAMPED, least), SHARES[1]))


def steady(rates: Iterator[float]) -> float:
    """Return the first rate within 25% of its predecessor, else the last: traffic after an outage is a burst."""
    for before, rate in pairwise(rates):
        if abs(rate - before) <= before / 4:
            break
    return rate


def observe(world: World, node: Node, partition: TopicPartition, follower_leo: int | None = None) -> Observation | None:
    """Sample the follower before the leader, so that the lag is never understated; None without an answer.

    A follower in the ISR has at least the records below the high watermark, which is sampled later.
    """
    number = broker_id(node)
    if follower_leo is None:
        follower = world.reports.sample(number, partition)
        follower_leo = follower.log_end_offset if follower else None
    view = world.reports.partition_view(partition, without=number)
    leader = world.reports.sample(view.leader, partition) if view and view.leader in world.servers.brokers else None
    if view is None or leader is None or leader.log_end_offset is None or follower_leo is None:
        return None
    high_watermark, in_isr = leader.high_watermark or 0, number in view.isr
    if in_isr:
        follower_leo = max(follower_leo, min(high_watermark, leader.log_end_offset))
    return Observation(
        t_ns=leader.received_ns,
        lag=leader.log_end_offset - follower_leo,
        leader_hw=high_watermark,
        leader_leo=leader.log_end_offset,
        follower_leo=follower_leo,
        in_isr=in_isr,
    )


@dataclass
class ShapedTraffic:
    """Limit the other brokers' traffic to the follower's replica fetchers."""

    world: World
    network: Network
    fault: LagFault
    _limit: float = 0.0
    _append_rate: float = 0.0
    _trailed_s: float = 0.0
    _grown: deque[tuple[float, Sizes]] = field(default_factory=lambda: deque(maxlen=60))

    def tick(self) -> None:
        if not self._append_rate:
            self._append_rate = steady(self._append_rates())
            self._trailed_s = time.monotonic()
        seen = self.fault.observe(self.world)
        if self.fault.records is None:
            self._limit_to(STARVED_SHARE)
        elif seen:
            self._correct(seen, self.fault.records)
            share = share_for(seen.lag, self.fault.records, self.fault.least_share)
            self._limit_to(share if seen.in_isr else REJOIN_SHARE)
        self.fault.ended.wait(TICK_S)

    def _correct(self, seen: Observation, records: int) -> None:
        """Correct the measured rate if no share of it reaches the wanted lag.

        Too high: producers that wait for acknowledgements fill larger batches, which compress better. Too low:
        producers were stopped during the measurement.
        """
        now_s = time.monotonic()
        self._grown.append((now_s, self._log_sizes()))
        far_enough = self.fault.reached() >= records / 2 or not seen.in_isr  # never reduce further after an eviction
        too_far = seen.lag > TOO_FAR * records
        if far_enough and not too_far:
            self._trailed_s = now_s
        elif now_s - self._trailed_s >= PATIENCE_S:
            if not too_far:
                self._append_rate *= LESS
            else:
                self._append_rate = max(self._append_rate, self._recent_rate())
            self._trailed_s = now_s

    def open(self) -> None:
        self.network.restore_ingress(self.fault.node, self._senders)

    def _limit_to(self, share: float) -> None:
        bytes_per_s = self._append_rate * PROTOCOL_OVERHEAD * share
        if abs(bytes_per_s - self._limit) > 0.15 * self._limit:  # a change costs a container start
            began_s = time.monotonic()
            self.network.limit_ingress(self.fault.node, self._senders, PORTS["REPLICATION"], bytes_per_s)
            self._limit = bytes_per_s
            self._trailed_s += time.monotonic() - began_s

    @property
    def _senders(self) -> list[Node]:
        return [other for other in self.world.servers.brokers.values() if other != self.fault.node]

    def _append_rates(self) -> Iterator[float]:
        for _ in range(MEASURED_S):
            before = (time.monotonic(), self._log_sizes())
            self.fault.ended.wait(1)
            yield max(self._rate(before, (time.monotonic(), self._log_sizes())), 1000.0)

    def _recent_rate(self) -> float:
        now = self._grown[-1]
        return self._rate(next(then for then in self._grown if then[0] >= now[0] - RECENT_S), now)

    def _rate(self, before: tuple[float, Sizes], after: tuple[float, Sizes]) -> float:
        """Return the growth per second of all logs that this partition's leader leads: they share the limit."""
        (then_s, then), (now_s, now) = before, after
        views = self.world.reports.partition_views({partition for _, partition in now})
        own = views.get(self.fault.partition)
        if own is None or now_s <= then_s:
            return 0.0
        led = {(own.leader, partition) for partition, view in views.items() if view and view.leader == own.leader}
        return sum(now[log] - then[log] for log in led & now.keys() & then.keys()) / (now_s - then_s)

    def _log_sizes(self) -> Sizes:
        """Return the other brokers' log sizes, read from files: requests would disturb the brokers."""
        partitions = self.world.partitions_of(broker_id(self.fault.node))
        others = [(number, node) for number, node in self.world.servers.brokers.items() if node != self.fault.node]
        files = available(self.world.servers.files, "files of its servers")
        return {(number, each): files.log_bytes(node, each) for number, node in others for each in partitions}


@dataclass
class DutyCycle:
    """Pause the follower until it is far enough behind, then resume it for about one fetch.

    That fetch returns the records from before the pause; with a second one the follower would catch up.
    """

    world: World
    fault: LagFault
    _stop_s: float = 0.0
    _stopped: bool = False
    _reached: int | None = None

    def tick(self) -> None:
        before = self._reached if self._reached is not None else self._follower_leo()
        if before is None:
            self.fault.ended.wait(TICK_S)
            return
        self._stop()
        seen = self._stay_stopped(before)
        self._adjust(seen.lag if seen else 0)
        before = seen.follower_leo if seen else before
        self._reached = self._one_fetch(before) if seen and seen.in_isr else self._some_fetch(before)

    def _one_fetch(self, before: int) -> int | None:
        """Run the follower in slices until the high watermark shows a fetch."""
        deadline = time.monotonic() + FETCH_LIMIT_S
        while time.monotonic() < deadline and not self.fault.ended.is_set():
            self.open()
            self.fault.ended.wait(SLICE_S)
            self._stop()
            seen = observe(self.world, self.fault.node, self.fault.partition, before)
            if seen and seen.follower_leo > before:
                return seen.follower_leo
        return self._some_fetch(before)

    def _some_fetch(self, before: int) -> int | None:
        self.open()
        deadline = time.monotonic() + FETCH_LIMIT_S
        while (reached := self._follower_leo()) in (before, None) and time.monotonic() < deadline:
            pass
        return reached

    def _stop(self) -> None:
        self._stopped = True
        self._send(self.world.pause)

    def _stay_stopped(self, follower_leo: int) -> Observation | None:
        deadline = time.monotonic() + (self._stop_s or self._first_stop_s())
        last = None
        while time.monotonic() < deadline and not self.fault.ended.wait(TICK_S):
            last = self.fault.observe(self.world, follower_leo) or last
        return last

    def _adjust(self, lag: int) -> None:
        if self.fault.records is not None:
            correction = min(max((self.fault.records / max(lag, 1)) ** 0.5, 0.5), 2.0)
            self._stop_s = min((self._stop_s or self._first_stop_s()) * correction, self._longest_s())

    def _first_stop_s(self) -> float:
        if self.fault.records is None or not self.fault.rate:
            return self._longest_s()
        return min(self.fault.records / self.fault.rate, self._longest_s())

    def _longest_s(self) -> float:
        """Return the longest pause: below the session timeout and, for ``lag``, below replica.lag.time.max.ms."""
        cluster = self.world.scenario.cluster
        of_session = LONGEST_STOP * cluster.session_timeout
        lag_time_max_s = float(cluster.config.get("replica.lag.time.max.ms", "30000")) / 1000
        return of_session if self.fault.records is None else min(of_session, 0.6 * lag_time_max_s)

    def _follower_leo(self) -> int | None:
        sample = self.world.reports.sample(broker_id(self.fault.node), self.fault.partition)
        return sample.log_end_offset if sample else None

    def open(self) -> None:
        if self._stopped:
            self._send(self.world.resume)
            self._stopped = False

    def _send(self, signal: Callable[[Node], None]) -> None:
        try:
            signal(self.fault.node)
        except HarnessError:
            if self.world.state(self.fault.node) in ("running", "paused"):
                raise


@performs(Lag)
def _lag(run: PhaseRun, step: Lag) -> None:
    run.inject(
        LagFault(run.world, run.node(step.node), step.node.of or run.world.partitions[0], step.records, step.key), step
    )


@performs(Slow)
def _slow(run: PhaseRun, step: Slow) -> None:
    node = run.node(step.node)
    if any(fault.key == Lag.key for fault in run.active([node])):
        run.heal_on([node], (Lag.key,))
    run.inject(LagFault(run.world, node, step.node.of or run.world.partitions[0], None, step.key), step)
    run.wait(step.until, step.limit, step)
