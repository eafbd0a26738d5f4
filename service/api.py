"""Call Airflow's public REST API (v2)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, urlsplit

from clusters.waiting import wait_until
from history.errors import LAST_SEEN, BadInput, HarnessError, PlimsollError, WaitTimeout
from history.product import version

if TYPE_CHECKING:
    import httpx

    from service.pools import Pool

NAMED = "PLIMSOLL_AIRFLOW"  # the variable with its URL, and with a suffix the token, user and password
ACTIVE = ("queued", "running")
ACTIVE_TASK = (*ACTIVE, "scheduled", "deferred", "restarting")
_OLDEST = (3, 2)  # the first whose TriggerDagRunOperator knows paused DAGs
_REFUSED = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_ANSWER_LIMIT_S = 90.0  # for one request: a wait for SQLite's lock takes 60 s
_CONNECT_LIMIT_S = 5.0
_FIRST_LIMIT_S = 10.0  # for the first answer
_AWAY_LIMIT_S = 180.0  # for a restart
_PARSE_LIMIT_S = 120.0  # until a new Airflow has read the DAGs
_AGAIN_S = 1.0
_PROGRESS = re.compile(r"\[\d{2,}:\d\d\] ")


class Address(NamedTuple):
    """Airflow's URL and credentials; ``home`` is set for this checkout's own."""

    url: str
    token: str = ""
    user: str = ""
    password: str = ""
    home: Path | None = None

    @classmethod
    def named(cls) -> Address | None:
        """Return the address in the environment, if any; raise BadInput if it is no URL."""
        url = os.environ.get(NAMED, "")
        if not url:
            return None
        if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
            raise BadInput(f"--airflow={url} is no URL such as http://airflow.example:8080.")
        token, user, password = (os.environ.get(f"{NAMED}_{what}", "") for what in ("TOKEN", "USER", "PASSWORD"))
        return cls(url.rstrip("/"), token, user, password)


class TaskInstance(NamedTuple):
    """A task's last try; ``started`` is "" before."""

    task_id: str
    map_index: int
    try_number: int
    state: str | None
    started: str


class Airflow:
    """An Airflow; its errors are bad input until ``check`` has succeeded, later the harness's."""

    def __init__(self, address: Address, *, error: type[PlimsollError] = BadInput) -> None:
        import httpx  # slow import

        self.address = address
        self._headers = {"Authorization": f"Bearer {address.token}"} if address.token else {}
        self._error = error
        self._limit_s = _FIRST_LIMIT_S
        self._client = httpx.Client(
            base_url=address.url,
            timeout=httpx.Timeout(_ANSWER_LIMIT_S, connect=_CONNECT_LIMIT_S),
            trust_env=urlsplit(address.url).hostname not in _LOOPBACK,  # a proxy does not reach this host
        )

    def check(self, dag_id: str, pools: Sequence[Pool] = ()) -> None:
        """Raise BadInput unless it can run a DAG of this Plimsoll, with these pools."""
        url = self.address.url
        its = str(self._ask("GET", "version").get("version", ""))
        if _numbers(its) < _OLDEST:
            raise BadInput(f"At {url} answers no Airflow from 3.2 on (its version: {its or 'none'}); check --airflow.")
        dag = self._known_dag(dag_id)
        if dag["has_import_errors"]:
            raise BadInput(f"The Airflow at {url} cannot import DAG {dag_id}; its page shows the reason.")
        versions = [tag["name"] for tag in dag["tags"] if _numbers(tag["name"])]
        if version() not in versions:
            its = versions[0] if versions else "another version"
            raise BadInput(f"DAG {dag_id} at {url} is of Plimsoll {its}, this is {version()}; update one of them.")
        for pool in pools:
            found = self._ask("GET", f"pools/{pool.name}")
            if not (found.get("slots") and found["include_deferred"]):
                make = f"airflow pools set {pool.name} {pool.slots} '{pool.description}' --include-deferred"
                raise BadInput(f"The Airflow at {url} has no pool {pool.name} with slots for deferred tasks: {make}")
        if not self.address.home:
            if dag["is_paused"]:
                raise BadInput(f"DAG {dag_id} is paused at {url}, so no run would start; unpause it there.")
            if self._ask("GET", "monitor/health").get("scheduler", {}).get("status") != "healthy":
                raise BadInput(f"The Airflow at {url} has no healthy scheduler, so no run would start; start one.")
        self._error, self._limit_s = HarnessError, _AWAY_LIMIT_S

    @contextmanager
    def unpaused(self, dag_id: str) -> Iterator[None]:
        """Unpause a DAG meanwhile, since runs of a paused one do not go on."""
        path = f"dags/{quote(dag_id)}"
        was_paused = self._ask("GET", path).get("is_paused")
        if was_paused:
            self._ask("PATCH", path, {"is_paused": False})
        try:
            yield
        finally:
            with suppress(PlimsollError):
                if was_paused and dag_id not in dict(self.active_runs()):
                    self._ask("PATCH", path, {"is_paused": True})

    def trigger(self, dag_id: str, conf: Mapping[str, Any], run_id: str) -> None:
        """Trigger a DAG run, unless it exists since a try whose answer was lost."""
        self._ask("POST", _runs(dag_id), {"dag_run_id": run_id, "logical_date": None, "conf": conf})

    def state(self, dag_id: str, run_id: str) -> str:
        """Return a DAG run's state, or "" if it does not exist."""
        return str(self._ask("GET", _runs(dag_id, run_id)).get("state", ""))

    def tasks(self, dag_id: str, run_id: str, *states: str) -> dict[str, str | None]:
        """Return the states of at most 100 tasks, with ``states`` only of those."""
        found = self._ask("GET", f"{_runs(dag_id, run_id)}/taskInstances", params={"state": states})
        return {task["task_id"]: task["state"] for task in found.get("task_instances", ())}

    def task_instances(self, dag_id: str, run_id: str) -> list[TaskInstance]:
        """Return at most 100 tasks of a DAG run."""
        found = self._ask("GET", f"{_runs(dag_id, run_id)}/taskInstances", params={"limit": ["100"]})
        names, tasks = ("task_id", "map_index", "try_number", "state"), found.get("task_instances", ())
        return [
            TaskInstance(**{name: task[name] for name in names}, started=task["start_date"] or "") for task in tasks
        ]

    def log_lines(self, dag_id: str, run_id: str, task: TaskInstance) -> list[str]:
        """Return what a task's try has logged of a run's progress: lines that begin with a time, such as [00:12]."""
        path = f"{_runs(dag_id, run_id)}/taskInstances/{quote(task.task_id)}/logs/{task.try_number}"
        found = self._ask("GET", path, params={"map_index": [str(task.map_index)], "full_content": ["true"]})
        said = [str(line["event"]) for line in found.get("content", ()) if isinstance(line, dict)]
        return [line for line in said if _PROGRESS.match(line)]

    def returned(self, dag_id: str, run_id: str, task_id: str) -> Any:
        """Return what a task has returned, None if nothing."""
        path = f"{_runs(dag_id, run_id)}/taskInstances/{quote(task_id)}/xcomEntries/return_value"
        return self._ask("GET", path).get("value")

    def active_runs(self, prefix: str = "") -> list[tuple[str, str]]:
        """Return the DAG and run ids of at most 100 runs that have not ended and whose ids begin so."""
        asked: dict[str, Any] = {"state": ACTIVE, "limit": 100}
        found = self._ask("GET", _runs("~"), params=asked | ({"run_id_prefix_pattern": prefix} if prefix else {}))
        return [(run["dag_id"], run["dag_run_id"]) for run in found.get("dag_runs", ())]

    def fail(self, dag_id: str, run_id: str) -> None:
        """End a DAG run: Airflow kills its tasks and starts its teardowns."""
        self._ask("PATCH", _runs(dag_id, run_id), {"state": "failed"})

    def link(self, dag_id: str, run_id: str) -> str:
        return f"{self.address.url}/dags/{quote(dag_id)}/runs/{quote(run_id)}"

    def log(self, dag_id: str, run_id: str) -> str:
        """Return where a DAG run's logs are; the own Airflow may have ended."""
        if home := self.address.home:
            return str(home / "logs" / f"dag_id={dag_id}" / f"run_id={run_id}")
        return self.link(dag_id, run_id)

    def _known_dag(self, dag_id: str) -> dict[str, Any]:
        """Return a DAG; wait until the own Airflow has read it."""

        def known() -> dict[str, Any] | None:
            dag = self._ask("GET", f"dags/{quote(dag_id)}")
            return None if dag.get("is_stale", True) else dag

        limit_s, url = _PARSE_LIMIT_S if self.address.home else 0.0, self.address.url
        with suppress(WaitTimeout):
            return wait_until(known, limit_s=limit_s, every_s=0.5, what=f"DAG {dag_id}")
        raise BadInput(f"The Airflow at {url} has no DAG {dag_id}; let it read Plimsoll's folder dags.")

    def _ask(
        self, method: str, path: str, body: object = None, params: Mapping[str, Sequence[str]] | None = None
    ) -> dict[str, Any]:
        """Return the answer's content, {} if something does not exist, or exists already."""
        answer = self._answer(method, f"/api/v2/{path}", json=body, params=params)
        if answer.status_code in (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT):
            return {}
        if answer.is_success:
            with suppress(ValueError):
                content: dict[str, Any] = answer.json()
                return content
        why = f"{method} {path}: {answer.status_code} {answer.text[:200]}".strip()
        raise self._error(f"The Airflow at {self.address.url} refused a request ({why}); look at its logs.")

    def _answer(self, method: str, path: str, **content: Any) -> httpx.Response:
        """Send a request again while Airflow restarts or its database is locked."""
        import httpx

        url = self.address.url
        try:
            return wait_until(
                lambda: self._try(method, path, **content),
                limit_s=self._limit_s,
                every_s=_AGAIN_S,
                what="an answer",
                ignoring=(httpx.HTTPError,),
            )
        except WaitTimeout as error:
            why = str(error).partition(LAST_SEEN)[2].rstrip(".")
            if self._error is BadInput:
                raise BadInput(f"No Airflow answers at {url} ({why}); check --airflow, or start it.") from error
            raise HarnessError(f"Airflow no longer answers at {url} ({why}); look at its logs.") from error

    def _try(self, method: str, path: str, **content: Any) -> httpx.Response:
        answer = self._client.request(method, path, headers=self._headers, **content)
        if answer.status_code in _REFUSED:  # without a token, or with an expired one
            self._headers = {"Authorization": f"Bearer {self._new_token()}"}
            answer = self._client.request(method, path, headers=self._headers, **content)
        return answer.raise_for_status() if answer.is_server_error else answer

    def _new_token(self) -> str:
        """Return a token of the user; without one, as an Airflow grants it to everybody."""
        url, given, user, password, _ = self.address
        if given:
            raise self._error(f"The Airflow at {url} refuses {NAMED}_TOKEN; set one that may trigger DAG runs.")
        login = {"username": user, "password": password} if user else None
        answer = self._client.request("POST" if user else "GET", "/auth/token", json=login)
        if answer.is_server_error:
            answer.raise_for_status()
        if answer.is_success:
            return str(answer.json()["access_token"])
        raise self._error(
            f"The Airflow at {url} {'refuses these' if user else 'needs'} credentials; set {NAMED}_TOKEN, or "
            f"{NAMED}_USER and {NAMED}_PASSWORD."
        )


def check_named(dag_id: str) -> None:
    """Raise BadInput if the environment names an Airflow that cannot run this DAG."""
    if address := Address.named():
        Airflow(address).check(dag_id)


def _runs(dag_id: str, run_id: str = "") -> str:
    return "/".join(["dags", quote(dag_id), "dagRuns", *([quote(run_id)] if run_id else [])])


def _numbers(text: str) -> tuple[int, ...]:
    """Return a version's first numbers; () for another text."""
    found = re.match(r"(\d+)\.(\d+)", text)
    return tuple(map(int, found.groups())) if found else ()
