"""The archive's metrics: names, units and which direction is better."""

import re

import pytest

from history.metrics import METRICS, Metric, disturbed, metric_of, why_not_in


def test_a_metrics_name_ends_in_its_unit():
    """A metric's name ends in its unit; a ratio's does not."""
    endings = {
        "ms": "_ms",
        "s": "_s",
        "/s": "_per_s",
        "s/GB": "_s_per_gb",
        "MB": "_mb",
        "MB/s": "_mb_per_s",
        "": "_ratio",
    }

    assert [name for name, metric in METRICS.items() if not name.endswith(endings[metric.unit])] == []
    assert [name for name in METRICS if not re.fullmatch("[a-z0-9_]+", name)] == []


def test_what_is_judged_has_a_direction_and_what_explains_has_none():
    """A judged metric has a direction; explanatory and unknown metrics have none."""
    assert metric_of("latency_p99_ms").better == "lower"
    assert metric_of("sustainable_rate_per_s").better == "higher"
    assert metric_of("request_produce_queue_ms") == Metric(None, "ms", "time of produce requests in the request queue")
    assert metric_of("colour") == Metric(None, "", "colour")


@pytest.mark.parametrize(
    ("metric", "value", "expected"),
    [
        ("host_other_cpu_ratio", 0.26, True),
        ("host_other_cpu_ratio", 0.25, False),
        ("host_other_cpu_ratio", None, False),
        ("host_pressure_cpu_ratio", 0.9, False),  # brokers under a quota cause it
        ("loss_ratio", 0.9, False),
    ],
)
def test_a_host_disturbs_a_run_above_a_limit(metric, value, expected):
    """Only a figure of the host has such a limit, and a missing figure shows nothing."""
    assert disturbed({"metric": metric, "value": value}) is expected


def test_only_times_and_counts_are_special():
    """Recovery times may be censored, and losses are counted in runs."""
    assert {name for name, metric in METRICS.items() if metric.kind == "count"} == {"loss_ratio", "duplication_ratio"}
    assert metric_of("elect_s").kind == "time"
    assert metric_of("broker_cpu_s_per_gb").kind == "value"


def test_a_metric_is_measured_in_each_phase_or_in_the_run():
    """A metric is measured in each phase or over the run; a wrong phase is reported before a run."""
    assert why_not_in("latency_p99_ms", "steady", ["steady"]) is None
    assert why_not_in("loss_ratio", "", ["steady"]) is None
    assert why_not_in("latency_p99_ms", "", ["warm up", "steady"]) == (
        "latency_p99_ms is measured in each phase; name one of warm up, steady"
    )
    assert why_not_in("latency_p99_ms", "storm", ["steady"]) == "there is no phase 'storm', known: steady"
    assert why_not_in("loss_ratio", "steady", ["steady"]) == "loss_ratio is measured over the whole run; name no phase"
