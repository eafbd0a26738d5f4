"""The pages on runtimes and Airflow agree with the code."""

import re
from importlib.util import find_spec
from pathlib import Path

import yaml

from clusters.runtimes import capabilities
from clusters.runtimes.runtime import OPTIONAL
from clusters.scenario.scenario import load_scenario
from operators.campaign_dag import COMMON
from service.stages import UPLOAD, stages
from tests.docs.pages import ROOT, page, rows, section


def test_capabilities_are_those_of_the_runtimes() -> None:
    """The table shows "yes" where a runtime has a capability, and "no" where it does not."""
    head, _, *told = rows(section(page("runtimes.md"), "What each can do"))

    assert {row[0]: row[1:3] for row in told} == {
        name: ["yes" if name in capabilities(runtime) else "no" for runtime in head[1:3]] for name in OPTIONAL
    }


def test_every_task_is_explained() -> None:
    """The table has a run's tasks in addition to its phases, also the one for several hosts."""
    told = {row[0] for row in rows(section(page("airflow.md"), "The DAGs"))[2:]}

    names = {stage.name for stage in stages(load_scenario("steady")) if not stage.phase}

    assert {name for name in told if not name.startswith("phase_")} == {*names, UPLOAD.name, "watcher"}


def test_every_parameter_is_explained() -> None:
    """The table has the params of dags/chaos.py."""
    source = (ROOT / "dags" / "chaos.py").read_text()
    params = re.findall(r'^    "(\w+)": Param\(', source, re.MULTILINE)

    assert [row[0] for row in rows(section(page("airflow.md"), "Parameters"))[2:]] == params
    assert params


def test_every_parameter_of_a_campaign_is_explained() -> None:
    """The table has the parameters that all campaigns share; the others are options, which a kind's page explains."""
    assert [row[0] for row in rows(section(page("airflow.md"), "Of a campaign"))[2:]] == list(COMMON)


def test_airflows_metrics_and_settings_exist() -> None:
    """The installed Airflow has each metric and setting that the page names; it has none that is nearly one."""
    spec = find_spec("airflow")
    assert spec
    airflow, text = Path(spec.origin or "").parent, section(page("observability.md"), "Airflow's own metrics")
    registry = yaml.safe_load((airflow / "_shared/observability/metrics/metrics_template.yaml").read_text())
    options = yaml.safe_load((airflow / "config_templates/config.yml").read_text())["metrics"]["options"]
    metrics = {each["name"] for each in registry["metrics"]}
    told = {name for row in rows(text)[2:] for name in row[1].split(", ")}
    settings = set(re.findall(r"AIRFLOW__METRICS__(\w+)=True", text))

    assert told <= metrics
    assert settings == {"OTEL_ON", "STATSD_ON"}
    assert {name.lower() for name in settings} <= options.keys()
    assert {"pool.open_slots", "dagrun.duration.success"} <= told
    assert "pool.open_slot" not in metrics
