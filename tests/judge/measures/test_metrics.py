"""The metrics of a run, from literal rows, and when they are not trusted."""

from typing import Any

import pytest

from evidence.faults import fault_spans
from history.events import Event
from history.manifest import Manifest
from history.metrics import METRICS, RECOVERY, metric_of
from judge.measures.metrics import Measured, crossing, least_load, metrics
from tests.evidence.folders import S, manifest

STEADY = {
    "phase": "steady",
    "seconds": 10.0,
    "due": 20_000,
    "acked": 20_000,
    "arrived": 19_990,
    "owed": 18_000,
    "kept": 18_000,
}
STEADY |= {"p50_ms": 4.0, "p99_ms": 12.0, "p999_ms": 40.0, "max_ms": 50.0}
STEADY |= {"received": 9_000, **{f"end_to_end_{name}": STEADY[name] + 3 for name in ("p50_ms", "p99_ms", "p999_ms")}}
WHOLE = {"acked": 1_000, "lost": 0, "truncated_ack": 0, "unknown_offset_ack": 0, "duplicate_copies": 0}


def _measured(**parts: Any) -> dict[tuple[str, str], dict[str, Any]]:
    began = Event(t_ns=0, wall="", kind="phase_started", phase="steady")
    usual: dict[str, Any] = {
        "manifest": manifest(),
        "events": [began],
        "latency": [],
        "recovery": [],
        "delivery": WHOLE,
    }
    known = usual | parts
    rows = metrics(Measured(faults=fault_spans(known["events"]), **known))
    assert [row for row in rows if metric_of(row["metric"]).of_run == bool(row["phase"])] == []
    return {(row["metric"], row["phase"]): row for row in rows}


def test_end_to_end_latency_of_a_phase() -> None:
    """End-to-end latency needs enough received records; otherwise its value is not trusted."""
    found = _measured(latency=[STEADY])
    p99, p999 = found["end_to_end_p99_ms", "steady"], found["end_to_end_p999_ms", "steady"]

    assert (p99["value"], p99["samples"], p99["trusted"]) == (15.0, 9_000, True)
    assert (p999["value"], p999["trusted"], p999["note"]) == (43.0, False, "9000 samples; 10000 are needed")

    (lost,) = [_measured(latency=[STEADY | {"end_to_end_p99_ms": None}])["end_to_end_p99_ms", "steady"]]
    assert (lost["trusted"], lost["note"]) == (
        False,
        "so many of the sends were never received that there is no such percentile",
    )


def _with_limit(limit_s: float) -> Manifest:
    told = manifest()
    scenario = {**told.scenario, "load": {**(told.scenario.get("load") or {}), "p99_limit": limit_s}}
    return told.model_copy(update={"scenario": scenario})


def test_load_and_latency_of_a_phase() -> None:
    """Rates count what was due and what was acknowledged; quantiles have their number of samples."""
    found = _measured(latency=[STEADY])

    assert found["offered_per_s", "steady"]["value"] == 2_000
    assert found["acked_per_s", "steady"]["value"] == 1_999
    assert found["latency_p99_ms", "steady"] | {"note": None} == {
        "metric": "latency_p99_ms",
        "phase": "steady",
        "value": 12.0,
        "samples": 20_000,
        "censored": False,
        "trusted": True,
        "note": None,
    }


@pytest.mark.parametrize(("kept", "trusted"), [(17_910, True), (17_909, False)])
def test_a_load_that_was_missed_has_no_latency(kept: int, trusted: bool) -> None:
    """Below 99.5% of the offered load, latencies are not trusted; the throughput is."""
    found = _measured(latency=[STEADY | {"kept": kept}])

    assert found["latency_p99_ms", "steady"]["trusted"] is trusted
    assert found["acked_per_s", "steady"]["trusted"]


def test_a_rare_quantile_needs_many_samples() -> None:
    """5,000 sends are enough for p99 but not for p99.9."""
    found = _measured(latency=[STEADY | {"due": 5_000, "acked": 5_000, "arrived": 5_000}])

    assert found["latency_p99_ms", "steady"]["trusted"]
    assert found["latency_p999_ms", "steady"]["note"] == "5000 samples; 10000 are needed"


def test_a_phase_that_was_not_steady_has_no_latency() -> None:
    """Latencies of a phase without steady state are not trusted; its rates and other phases are."""
    found = _measured(latency=[STEADY], unsteady={"steady": "no steady state: …"})
    other = _measured(latency=[STEADY], unsteady={"another": "no steady state: …"})

    assert found["latency_p99_ms", "steady"]["note"] == "no steady state: …"
    assert found["acked_per_s", "steady"]["trusted"]
    assert other["latency_p99_ms", "steady"]["trusted"]


@pytest.mark.parametrize(
    ("metric", "least"),
    [
        ("latency_p50_ms", 20),
        ("end_to_end_p99_ms", 1_000),
        ("latency_p999_ms", 10_000),
        ("broker_cpu_s_per_gb", 1),
        ("elect_s", 0),
    ],
)
def test_ten_records_are_expected_beyond_a_percentile(metric: str, least: int) -> None:
    """A percentile needs ten expected samples above it; CPU per GB needs any load, a recovery time none."""
    assert least_load(metric) == least


def test_a_percentile_of_what_was_never_acknowledged_is_none() -> None:
    """A percentile that falls on unacknowledged sends has no value and is not trusted."""
    found = _measured(latency=[STEADY | {"p999_ms": None}])
    lost, kept = found["latency_p999_ms", "steady"], found["latency_p99_ms", "steady"]

    assert (lost["value"], lost["trusted"]) == (None, False)
    assert lost["note"] == "so many of the sends were never acknowledged that there is no such percentile"
    assert (kept["value"], kept["trusted"]) == (12.0, True)


def test_the_rate_that_keeps_the_limit() -> None:
    """The sustainable rate is interpolated where p99 crosses the limit, on a logarithmic scale."""
    assert crossing([(1_000.0, 50.0), (2_000.0, 200.0)], 100) == (pytest.approx(1_500), False, None)
    assert crossing([(1_000.0, 50.0), (2_000.0, 99.0)], 100)[:2] == (2_000.0, True)
    assert crossing([(1_000.0, 101.0), (2_000.0, 102.0)], 100)[:2] == (None, False)


def test_what_is_slow_below_a_rate_that_is_kept_does_not_count() -> None:
    """Slow steps below a rate that keeps the limit do not count, such as during JIT compilation."""
    assert crossing([(500.0, 150.0), (1_000.0, 50.0), (2_000.0, 200.0)], 100)[:2] == (pytest.approx(1_500), False)
    assert crossing([(500.0, 150.0), (1_000.0, 50.0)], 100)[:2] == (1_000.0, True)


def test_a_rate_that_was_not_answered_is_not_sustained() -> None:
    """A rate with p99 on unacknowledged sends is not sustained; the lower one is, if there is one."""
    kept, lost = STEADY | {"phase": "a", "p99_ms": 50.0}, STEADY | {"phase": "b", "due": 40_000, "p99_ms": None}
    offered = [Event(t_ns=S, wall="", kind="rate_set", phase=name) for name in ("a", "b")]
    both, alone = (
        _measured(manifest=_with_limit(0.1), events=offered, latency=rows)["sustainable_rate_per_s", ""]
        for rows in ([kept, lost], [lost])
    )

    assert (both["value"], both["censored"], both["trusted"]) == (2_000, False, True)
    assert (alone["value"], alone["trusted"]) == (None, False)


def test_a_rate_that_was_not_answered_steadily_is_not_sustained() -> None:
    """A rate without steady state is not sustained; if there is no steady one, the metric has no value."""
    rows = [STEADY | {"phase": "a", "p99_ms": 50.0}, STEADY | {"phase": "b", "due": 40_000, "p99_ms": 60.0}]
    offered = [Event(t_ns=S, wall="", kind="rate_set", phase=name) for name in ("a", "b")]
    all_steady, one, none = (
        _measured(manifest=_with_limit(0.1), events=offered, latency=rows, unsteady=dict.fromkeys(unsteady, "why"))[
            "sustainable_rate_per_s", ""
        ]
        for unsteady in ((), ("b",), ("a", "b"))
    )

    assert (all_steady["value"], all_steady["censored"]) == (4_000, True)
    assert (one["value"], one["censored"], one["trusted"]) == (2_000, False, True)
    assert (none["value"], none["note"]) == (
        None,
        "p99 is above 100 ms, or in no steady state, at every rate that was offered",
    )


def test_sustainable_rate_is_of_the_stepped_phases_alone() -> None:
    """The sustainable rate uses only phases that set a rate, and needs a latency limit."""
    steps = [STEADY | {"phase": "a", "p99_ms": 50.0}, STEADY | {"phase": "b", "due": 40_000, "p99_ms": 200.0}]
    offered = [Event(t_ns=S, wall="", kind="rate_set", phase=name) for name in ("a", "b")]
    rows = [STEADY | {"p99_ms": 900.0}, *steps]

    found = _measured(manifest=_with_limit(0.1), events=offered, latency=rows)

    assert found["sustainable_rate_per_s", ""]["value"] == pytest.approx(3_000)
    assert ("sustainable_rate_per_s", "") not in _measured(events=offered, latency=rows)


def _time(value_ms: float | None, **other: Any) -> dict[str, Any]:
    """Return a row of the recovery table."""
    usual = {"phase": "p", "metric": "catch_up", "censored": False, "source": "controller", "note": None}
    return {**usual, "value_ms": value_ms, **other}


def test_a_phase_takes_as_long_as_its_last_partition() -> None:
    """A phase's recovery time is the longest of its partitions, and censored if any is."""
    times = [_time(500, censored=True), _time(900)]
    found = _measured(recovery=[*times, _time(1, metric="isr_full")])

    assert (found["catch_up_s", "p"]["value"], found["catch_up_s", "p"]["censored"]) == (0.9, True)
    assert found["catch_up_s", "p"]["trusted"]
    assert not [key for key in found if key[0] == "isr_full_s"]


def test_a_measure_has_one_name_from_the_recovery_table_to_the_archive() -> None:
    """Recovery metrics have the same name in the recovery table and, with the unit, in the archive."""
    archived = {name for name, _ in _measured(recovery=[_time(1, metric=name) for name in RECOVERY])}

    assert archived - {"loss_ratio", "duplication_ratio"} == {f"{name}_s" for name in RECOVERY} - {"isr_full_s"}
    assert archived <= METRICS.keys()


def test_an_upper_bound_is_no_basis_for_a_comparison() -> None:
    """A recovery time that is only an upper bound, or unknown, is not trusted."""
    bound, unknown = _time(900, source="metadata", note="at most"), _time(None, source="metadata", note="not seen")
    bounded = _measured(recovery=[_time(500), bound])["catch_up_s", "p"]
    nobody_knows = _measured(recovery=[_time(500), unknown])["catch_up_s", "p"]

    assert (bounded["value"], bounded["trusted"], bounded["note"]) == (0.9, False, "at most")
    assert (nobody_knows["value"], nobody_knows["trusted"], nobody_knows["note"]) == (None, False, "not seen")


def test_a_broker_is_down_between_two_orders() -> None:
    """A broker's downtime is from kill to start, the longest of the phase; pauses and missing returns do not count."""

    def fault(kind: str, t_s: float, step: str, target: str, phase: str = "p") -> Event:
        return Event(int(t_s * 1e9), "", kind, phase, step, target)

    events = [
        fault("inject", 10, "kill", "broker-1"),
        fault("injected", 11, "kill", "broker-1"),
        fault("inject", 12, "stop", "broker-2"),
        fault("inject", 12, "pause", "broker-3"),
        fault("heal", 25.5, "kill", "broker-1"),
        fault("heal", 20, "stop", "broker-2"),
        fault("heal", 60, "pause", "broker-3"),
        fault("inject", 70, "kill", "broker-1", "q"),
    ]
    found = _measured(events=events)

    assert found["down_s", "p"]["value"] == 15.5
    assert ("down_s", "q") not in found


def test_records_that_are_gone_or_doubled() -> None:
    """Loss and duplication are shares of the acknowledged records; without any there is neither."""
    found = _measured(delivery=WHOLE | {"lost": 4, "truncated_ack": 1, "duplicate_copies": 20})

    assert (found["loss_ratio", ""]["value"], found["duplication_ratio", ""]["value"]) == (0.005, 0.02)
    assert ("loss_ratio", "") not in _measured(delivery=WHOLE | {"acked": 0})


def _usage(label: str, t_s: float, source: str, **values: float) -> list[dict[str, Any]]:
    return [
        {"t_ns": int(t_s * S), "label": label, "source": source, "name": name, "value": value}
        for name, value in values.items()
    ]


def _brokers_used(label: str, t_s: float, cpu_s: float) -> list[dict[str, Any]]:
    names = [node.name for node in manifest().brokers]
    return [row for name in names for row in _usage(label, t_s, name, cpu_ns=cpu_s * 1e9 / len(names))]


def test_cpu_per_gigabyte_of_a_phase() -> None:
    """CPU seconds per GB need the usage of all brokers; two for 20,000 records of 100 bytes are 1,000 s/GB."""
    rows = [*_brokers_used("before", 0, 1), *_brokers_used("steady", 10, 3)]
    found = _measured(latency=[STEADY | {"arrived": 20_000}], usage=rows)

    assert found["broker_cpu_s_per_gb", "steady"]["value"] == pytest.approx(1_000)
    assert ("broker_cpu_s_per_gb", "steady") not in _measured(latency=[STEADY], usage=rows[:-1])


def test_cpu_per_gigabyte_needs_records_of_one_size() -> None:
    """CPU per GB needs a single record size, since bytes are not counted per producer."""
    rows = [*_brokers_used("before", 0, 1), *_brokers_used("steady", 10, 3)]
    told = manifest()
    sizes = [told.producers[0].model_copy(update={"rate_per_s": 5.0, "record_bytes": size}) for size in (100, 100, 200)]
    found = [
        _measured(latency=[STEADY], usage=rows, manifest=told.model_copy(update={"producers": producers}))
        for producers in (sizes[:2], sizes)
    ]

    assert [("broker_cpu_s_per_gb", "steady") in each for each in found] == [True, False]


def test_what_the_drain_used_is_no_phases() -> None:
    """Usage is measured for phases only, not for the final drain."""
    rows = [*_brokers_used("before", 0, 1), *_brokers_used("steady", 10, 3), *_brokers_used("after", 20, 9)]

    assert {phase for metric, phase in _measured(latency=[STEADY], usage=rows) if metric == "broker_cpu_s_per_gb"} == {
        "steady"
    }


def test_a_counter_that_fell_says_nothing() -> None:
    """A counter that fell, after a broker's restart, yields no value."""
    rows = [*_brokers_used("before", 0, 3), *_brokers_used("steady", 10, 1)]

    assert ("broker_cpu_s_per_gb", "steady") not in _measured(latency=[STEADY], usage=rows)


@pytest.mark.parametrize(("steal_s", "trusted"), [(0.5, True), (0.7, False)])
def test_a_host_under_pressure_measures_nothing(steal_s: float, trusted: bool) -> None:
    """Above 5% of stolen CPU time performance metrics are not trusted; losses are."""
    rows = _usage("before", 0, "host", steal_ns=0.0, busy_ns=0.0, idle_ns=0.0)
    rows += _usage("steady", 10, "host", steal_ns=steal_s * 1e9, busy_ns=4e9, idle_ns=6e9)
    found = _measured(latency=[STEADY], usage=rows)

    assert found["latency_p99_ms", "steady"]["trusted"] is trusted
    assert found["loss_ratio", ""]["trusted"]


@pytest.mark.parametrize(("own_s", "other"), [(7, 0.05), (2, 0.3)])
def test_what_else_ran_on_the_host(own_s: float, other: float) -> None:
    """CPU time of other processes is neither idle nor of this run's nodes; above 25% latencies are not trusted."""
    rows = [*_usage("before", 0, "host", steal_ns=0.0, busy_ns=0.0, idle_ns=0.0), *_brokers_used("before", 0, 0)]
    rows += [
        *_usage("steady", 10, "host", steal_ns=0.0, busy_ns=8e9, idle_ns=12e9),
        *_brokers_used("steady", 10, own_s),
    ]
    found = _measured(latency=[STEADY], usage=rows)

    assert found["host_other_cpu_ratio", "steady"]["value"] == pytest.approx(other)
    assert found["latency_p99_ms", "steady"]["trusted"] is (other < 0.25)


@pytest.mark.parametrize(("partitions", "known"), [(7, True), (8, False)])
def test_what_others_wrote_to_their_cluster(partitions: int, known: bool) -> None:
    """The growth of their topics, unless a topic came or went meanwhile."""
    rows = _usage("before", 0, "others", partitions=7, records=1_000.0)
    rows += _usage("steady", 10, "others", partitions=partitions, records=6_000.0)
    found = _measured(latency=[STEADY], usage=rows)

    assert (("others_per_s", "steady") in found) is known
    assert not known or found["others_per_s", "steady"]["value"] == 500
