"""The archive's metrics: names, units and which direction is better."""

import re

from history.metrics import METRICS, metric_of, why_not_in


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
    assert metric_of("request_produce_queue_ms") == (
        None,
        "ms",
        "time of produce requests in the request queue",
        "value",
        False,
    )
    assert metric_of("colour") == (None, "", "colour", "value", False)


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
