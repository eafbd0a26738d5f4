"""Claims about defaults, the controller, and the brokers that accept records."""

from __future__ import annotations

from collections.abc import Iterator

from claims.answer import Answer, Evidence, refuted, shown, unseen
from claims.isr import default_is
from claims.recording import Recording
from history.events import Event
from history.partition import TopicPartition
from history.words import counted


def default_factor_is_1(recording: Recording) -> Answer:
    """Answer C28."""
    return default_is(recording, "default.replication.factor", "1")


def only_leaders_take_records(recording: Recording) -> Answer:
    """Answer C29."""
    if taken := next(_taken(recording), None):
        return refuted("A broker that does not lead acknowledged records.", taken)
    refused = []
    for send in recording.sends:
        where = send["topic"], send["partition"]
        if send["error"] == "NOT_LEADER_OR_FOLLOWER" and where in recording.states:
            refused.append(send)
    if not refused:
        return unseen("Nobody sent a record to a follower.")
    pulled = [remote for remote in recording.remotes if remote.leo > 0]
    return shown(
        f"Followers refused {counted(len(refused), 'record')} sent to them; "
        f"leaders noted {len(pulled):,} of their fetches.",
        [*(recording.sent(send) for send in refused[:2]), *(recording.noted(remote) for remote in pulled[:2])],
    )


def _taken(recording: Recording) -> Iterator[list[Evidence]]:
    asked: Event | None = None
    for event in recording.events:
        if event.kind != "step":
            continue
        if event.step == "write":
            asked = event
        elif event.step == "written" and asked and event.detail["acked"] and not asked.detail["background"]:
            where = TopicPartition.of(asked.detail)
            states = [state for at_ns in (asked.t_ns, event.t_ns) if (state := recording.state_at(where, at_ns))]
            if states and event.target not in {f"broker-{state.leader}" for state in states}:
                text = f"{event.detail['acked']} records for {where} acknowledged by {event.target}"
                yield [recording.happened(event, text), *(recording.decided(state) for state in states[-1:])]


def controller_depends_on_zookeeper(recording: Recording) -> Answer:
    """Answer C32."""
    sources = {state.source for history in recording.states.values() for state in history}
    states = [state for history in recording.states.values() for state in history]
    evidence = [
        Evidence("manifest.json", None, f"nodes: {', '.join(recording.roles)}"),
        *(recording.decided(s) for s in states[:2]),
    ]
    if sources == {"znode"}:
        return shown("Leaders and ISR are in ZooKeeper's znodes, and a broker is the controller.", evidence)
    if sources == {"metadata_log"} and "zookeeper" not in recording.roles:
        return refuted("There is no ZooKeeper: leaders and ISR are in the controllers' metadata log.", evidence)
    return unseen("The controller's history is missing.")


def kraft_exists(recording: Recording) -> Answer:
    """Answer C33."""
    states = [s for history in recording.states.values() for s in history if s.source == "metadata_log"]
    if not states:
        return unseen("These runs use ZooKeeper; KRaft needs separate runs.")
    return shown(
        f"It ran here, and its log holds {len(states)} states of partitions.",
        [recording.decided(s) for s in states[:2]],
    )
