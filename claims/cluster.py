"""Claims about defaults, the controller, and writes."""

from __future__ import annotations

from collections.abc import Iterator

from claims.answer import Case, decided, happened, logged, sent
from claims.recording import Recording
from claims.rest import lines, state_at
from history.events import Event
from history.partition import TopicPartition


def default_is(setting: str, claimed: str, recording: Recording) -> Iterator[Case]:
    """Answer C28 and C31."""
    for event, value in defaults(recording, setting):
        yield Case(value == claimed, [happened(event, f"{setting}: {value} by default")])


def defaults(recording: Recording, setting: str) -> Iterator[tuple[Event, str]]:
    """Yield brokers' reports of a setting's default, and the value."""
    for event in recording.described:
        named = event.detail["settings"]["broker"].get(setting, {})
        if "default" in named:
            yield event, named["default"]


def only_leaders_take_records(recording: Recording) -> Iterator[Case]:
    """Answer C29."""
    yield from _taken(recording)
    for of in recording.all:
        fetched = [line for line in lines(of, "leo_recorded") if line["log_end_offset"] > 0]
        for row, code in enumerate(of.sends.error.tolist()):
            if code >= 0 and of.names.listed[code] == "NOT_LEADER_OR_FOLLOWER":
                yield Case(True, [sent(of, row), *logged(*fetched[:2])])


def _taken(recording: Recording) -> Iterator[Case]:
    write: Event | None = None
    for event in (event for event in recording.run.events if event.kind == "step"):
        if event.step == "write":
            write = event
        elif event.step == "written" and write and event.detail["acked"] and not write.detail["background"]:
            of = recording.partitions.get(TopicPartition.of(write.detail))
            states = [state for t_ns in (write.t_ns, event.t_ns) if of and (state := state_at(of, t_ns))]
            if states and event.target not in {f"broker-{state.leader}" for state in states}:
                text = f"{event.detail['acked']} records acknowledged by {event.target}"
                yield Case(False, [happened(event, text), *decided(states[-1])])


def controller_depends_on_zookeeper(recording: Recording) -> Iterator[Case]:
    """Answer C32."""
    zookeeper = any(node.role == "zookeeper" for node in recording.run.manifest.nodes)
    for state in (of.dated[0] for of in recording.all):
        if (state.source == "znode") is zookeeper:
            yield Case(zookeeper, decided(state))


def kraft_exists(recording: Recording) -> Iterator[Case]:
    """Answer C33."""
    states = (of.dated[0] for of in recording.all)
    return (Case(True, decided(state)) for state in states if state.source == "metadata_log")
