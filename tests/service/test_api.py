"""Requests to Airflow, answered by a tiny server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from history.errors import BadInput, HarnessError
from service import api
from service.api import Address, Airflow, check_named
from tests.service.fake_airflow import RUN, STEADY, FakeAirflow, fake_airflow

OTHER = [{"name": "0.0.9"}, {"name": "scenario"}]


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeAirflow]:
    """An Airflow that answers; requests are repeated soon."""
    monkeypatch.setattr(api, "_AGAIN_S", 0.01)
    with fake_airflow() as served:
        yield served


def test_a_dag_run_is_triggered_once(fake: FakeAirflow) -> None:
    """A DAG run gets its id and conf; one that exists since a lost answer is no error."""
    airflow = Airflow(Address(fake.url))
    airflow.check("steady")
    fake.answers["POST /api/v2/dags/steady/dagRuns"] = [(500, {}), (409, {})]
    airflow.trigger("steady", {"run_dir": "/r1"}, "r1")

    body = {"dag_run_id": "r1", "logical_date": None, "conf": {"run_dir": "/r1"}}
    assert fake.sent("POST") == [("/api/v2/dags/steady/dagRuns", body)] * 2
    assert (airflow.state("steady", "r1"), airflow.state("steady", "r2")) == ("running", "")
    assert airflow.link("steady", "r 1") == f"{fake.url}/dags/steady/runs/r%201"


@pytest.mark.parametrize(
    ("request_", "answer", "sentence"),
    [
        ("GET /api/v2/version", (404, {}), r"answers no Airflow from 3.2 on \(its version: none\); check --airflow"),
        ("GET /api/v2/version", (200, {"version": "3.1.8"}), r"its version: 3.1.8"),
        ("GET /api/v2/version", (500, {}), r"No Airflow answers at http://.*500.*; check --airflow, or start it"),
        ("GET /api/v2/monitor/health", (200, {"scheduler": {"status": "unhealthy"}}), "no healthy scheduler"),
        ("GET /api/v2/dags/steady", (404, {}), "has no DAG steady; let it read Plimsoll's folder dags"),
        ("GET /api/v2/dags/steady", (200, STEADY | {"is_stale": True}), "has no DAG steady"),
        ("GET /api/v2/dags/steady", (200, STEADY | {"has_import_errors": True}), "cannot import DAG steady"),
        ("GET /api/v2/dags/steady", (200, STEADY | {"tags": OTHER}), r"is of Plimsoll 0\.0\.9, this is"),
        ("GET /api/v2/dags/steady", (200, STEADY | {"tags": []}), "is of Plimsoll another version, this is"),
        ("GET /api/v2/dags/steady", (200, STEADY | {"is_paused": True}), "DAG steady is paused at .*; unpause it"),
        ("GET /api/v2/dags/steady", (401, {}), "needs credentials; set PLIMSOLL_AIRFLOW_TOKEN, or PLIMSOLL_AIRFLOW_U"),
        ("GET /api/v2/dags/steady", (400, {"detail": "no"}), r"refused a request \(GET dags/steady: 400 .*no"),
    ],
)
def test_an_airflow_that_does_not_fit_is_bad_input(
    request_: str, answer: tuple[int, Any], sentence: str, fake: FakeAirflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An Airflow that cannot run a DAG is rejected in one sentence; nothing is triggered."""
    monkeypatch.setattr(api, "_FIRST_LIMIT_S", 0.05)
    fake.answers[request_] = [answer]

    with pytest.raises(BadInput, match=sentence) as error:
        Airflow(Address(fake.url)).check("steady")
    assert str(error.value).count(". ") == 0
    assert fake.sent("POST") == []


def test_an_airflow_that_does_not_answer_is_bad_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """An address where nothing listens is rejected before a run is made, without the environment's it is not tried."""
    monkeypatch.setattr(api, "_FIRST_LIMIT_S", 0.05)
    monkeypatch.delenv(api.NAMED, raising=False)
    check_named("steady")
    monkeypatch.setenv(api.NAMED, "http://127.0.0.1:1/")

    with pytest.raises(BadInput, match=r"No Airflow answers at http://127.0.0.1:1 \(ConnectError: .*; check --airflow"):
        check_named("steady")


@pytest.mark.parametrize("url", ["airflow.example:8080", "ftp://airflow.example", "http://"])
def test_an_address_is_a_url(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The named Airflow is a URL of http or https; it comes with the environment's credentials."""
    monkeypatch.setenv(api.NAMED, "https://airflow.example/a/")
    monkeypatch.setenv(f"{api.NAMED}_USER", "u")
    assert Address.named() == Address("https://airflow.example/a", user="u")
    monkeypatch.setenv(api.NAMED, url)

    with pytest.raises(BadInput, match=f"--airflow={url} is no URL such as"):
        Address.named()


def test_an_expired_token_is_renewed(fake: FakeAirflow) -> None:
    """A 401 fetches a token, with user and password if there are any, and repeats the request."""
    fake.answers["GET /api/v2/dags/steady"] = [(401, {}), (200, STEADY), (401, {}), (200, STEADY)]
    fake.answers["POST /auth/token"] = [(201, {"access_token": "one"}), (201, {"access_token": "two"})]
    airflow = Airflow(Address(fake.url, "", "u", "p"))
    airflow.check("steady")
    airflow.check("steady")

    assert fake.sent("POST") == [("/auth/token", {"username": "u", "password": "p"})] * 2
    assert [who for request, _, who in fake.requests if request == "GET /api/v2/dags/steady"] == [
        *("", "Bearer one", "Bearer one", "Bearer two")
    ]


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ({"token": "t"}, "refuses PLIMSOLL_AIRFLOW_TOKEN; set one that may trigger DAG runs"),
        ({"user": "u", "password": "wrong"}, "refuses these credentials"),
    ],
)
def test_refused_credentials_are_bad_input(address: dict[str, str], sentence: str, fake: FakeAirflow) -> None:
    """A token without permission is rejected, as are a wrong user and password."""
    fake.answers["GET /api/v2/dags/steady"] = [(403, {"detail": "Forbidden"})]
    fake.answers["POST /auth/token"] = [(401, {})]

    with pytest.raises(BadInput, match=sentence):
        Airflow(Address(fake.url, **address)).check("steady")  # type: ignore[arg-type]  # no home among them


def test_an_airflow_that_ends_later_is_the_harness(fake: FakeAirflow, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once a run may have started, no answer and a refusal are errors of the harness."""
    monkeypatch.setattr(api, "_AWAY_LIMIT_S", 0.05)
    airflow = Airflow(Address(fake.url))
    airflow.check("steady")
    fake.answers[f"GET {RUN}"] = [(503, {})]
    with pytest.raises(HarnessError, match=r"no longer answers at http://.* \(.*503"):
        airflow.state("steady", "r1")
    fake.answers[f"PATCH {RUN}"] = [(422, {})]
    with pytest.raises(HarnessError, match="refused a request"):
        airflow.fail("steady", "r1")


def test_an_own_airflow_may_be_new(fake: FakeAirflow, tmp_path: Path) -> None:
    """This checkout's Airflow has time to read its DAGs; a paused one runs meanwhile, and is paused again."""
    paused = STEADY | {"is_paused": True}
    fake.answers["GET /api/v2/dags/steady"] = [(404, {}), (200, STEADY | {"is_stale": True}), (200, paused)]
    fake.answers["PATCH /api/v2/dags/steady"] = [(200, paused)]
    airflow = Airflow(Address(fake.url, home=tmp_path))
    airflow.check("steady")
    with airflow.unpaused("steady"):
        assert fake.sent("PATCH") == [("/api/v2/dags/steady", {"is_paused": False})]

    assert fake.sent("PATCH")[1:] == [("/api/v2/dags/steady", {"is_paused": True})]
    assert airflow.log("steady", "r1") == str(tmp_path / "logs" / "dag_id=steady" / "run_id=r1")


def test_a_proxy_does_not_reach_this_host(fake: FakeAirflow, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy in the environment is not used for an Airflow of this host."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.delenv("NO_PROXY", raising=False)

    Airflow(Address(fake.url)).check("steady")
