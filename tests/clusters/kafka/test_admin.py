"""Admin requests and the errors of their answers."""

from __future__ import annotations

import uuid
from types import SimpleNamespace
from typing import Any

import pytest

from clusters.kafka.admin import delete_topic, setting_of_topics
from clusters.kafka.views import id_text
from history.errors import Refused

ID = id_text(uuid.UUID(int=7))


@pytest.mark.parametrize(("error", "deleted"), [(0, True), (100, True), (73, False)])
def test_a_topic_is_deleted_by_its_id(error: int, deleted: bool) -> None:
    """A topic without that id is deleted already; delete.topic.enable=false is an answer of its own."""
    requests: list[Any] = []

    def send(request: Any) -> Any:
        requests.append(request)
        return SimpleNamespace(responses=[SimpleNamespace(error_code=error)])

    connection: Any = SimpleNamespace(forwards_to_controller=True, send=send)

    assert delete_topic(connection, "orders", ID) is deleted
    assert [(each.name, each.topic_id) for each in requests[0].topics] == [(None, uuid.UUID(int=7))]


def test_a_rejected_deletion_is_an_error() -> None:
    """A missing right is not taken for a deletion."""
    answer = SimpleNamespace(error_code=29, error_message=None)
    connection: Any = SimpleNamespace(forwards_to_controller=True, send=lambda _: SimpleNamespace(responses=[answer]))

    with pytest.raises(Refused, match="Could not delete topic orders: TOPIC_AUTHORIZATION_FAILED"):
        delete_topic(connection, "orders", ID)


def test_a_setting_of_many_topics_is_one_request() -> None:
    """A topic that may not be described has no value."""
    value = SimpleNamespace(name="min.insync.replicas", value="2")
    answers = [
        SimpleNamespace(error_code=0, resource_name="a", configs=[value]),
        SimpleNamespace(error_code=29, resource_name="b", configs=[]),
    ]
    connection: Any = SimpleNamespace(send=lambda _: SimpleNamespace(results=answers))

    assert setting_of_topics(connection, ["a", "b"], "min.insync.replicas") == {"a": "2"}
