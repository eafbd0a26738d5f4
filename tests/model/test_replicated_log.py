"""Test that the model behaves like real clusters."""

from tests.model.parts import TICK_NS, History, Producer, Step
from tests.model.replicated_log import Partition

PLAIN = {"acks": "1", "idempotent": False}


def played(steps: list[Step], **rules: object) -> History:
    """Return a history of two producers: 0 with acks=all, 1 with acks=1."""
    return Partition([Producer("all"), Producer("one", **PLAIN)], **rules).play(steps)


def outcomes(history: History, producer: str) -> list[str]:
    """Return the outcomes of a producer's sends."""
    return [row["outcome"] for row in history.sends if row["producer_id"] == producer]


def test_a_quiet_history_is_replicated_and_acknowledged():
    """Six records at six offsets on three replicas, all committed."""
    history = played([("write", 0, 3), ("wait", 0, 3)])

    assert outcomes(history, "all") == ["ok"] * 6
    assert [row["offset"] for row in history.sends] == [0, 1, 2, 3, 4, 5]
    assert history.logs[1] == history.logs[2] == history.logs[3]
    assert history.high_watermarks == {1: 6, 2: 6, 3: 6}


def test_a_follower_learns_the_high_watermark_later_than_its_leader():
    """A response has the high watermark from before the request."""
    samples = played([("write", 0, 1)]).samples
    reached = {b: min(s["sent_ns"] for s in samples if (s["broker_id"], s["high_watermark"]) == (b, 1)) for b in (1, 2)}

    assert reached[2] - reached[1] >= TICK_NS


LOSS: list[Step] = [("cut", 0, 1), ("write", 1, 3), ("wait", 0, 4), ("write", 0, 2), ("wait", 0, 4), ("join", 0, 1)]


def test_a_leader_that_was_cut_off_loses_what_it_took_alone():
    """It acknowledged acks=1 and its log is truncated at the next leader's start; acks=all waited and survived."""
    history = played(LOSS)

    assert history.lost() == {("one", seq) for seq in range(6)}
    assert outcomes(history, "one") == ["ok"] * 6
    assert [state.leader for state in history.states][:2] == [1, 2]
    assert history.epochs[1] == [(1, 0)]


def test_a_lost_answer_doubles_a_plain_record_only():
    """A repeated idempotent batch is answered but not appended again."""
    steps: list[Step] = [("lose_answer", 0, 1), ("write", 1, 1), ("wait", 0, 3), ("lose_answer", 0, 1), ("write", 0, 1)]

    assert played(steps).doubled() == {("one", 0)}


def test_below_min_insync_replicas_the_high_watermark_stands_still():
    """With the strict rule of 3.7; without it, a lone leader's high watermark advances."""
    alone: list[Step] = [("kill", 1, 1), ("kill", 2, 1), ("wait", 0, 4), ("write", 1, 2), ("wait", 0, 1)]

    def at_last_alone(**rules: object) -> tuple[int, int]:
        history = played(alone, **rules)
        last = [s for s in history.samples if s["broker_id"] == 1 and s["sent_ns"] < history.states[3].t_ns][-1]
        return last["high_watermark"], last["log_end_offset"]

    assert at_last_alone() == (0, 3)
    assert at_last_alone(strict_min_isr=False) == (3, 3)


def test_a_new_leaders_high_watermark_may_lie_below_the_old_ones():
    """It knows only what it knew as a follower (KIP-207): between two fetches the old leader was ahead."""

    def dips(wait: int) -> bool:
        history = played([("write", 1, 4), *[("poll", 0, 1)] * wait, ("kill", 0, 1), ("wait", 0, 4)])
        old = max(s["high_watermark"] for s in history.samples if s["leader_epoch"] == 0)
        return any(s["high_watermark"] < old for s in history.samples if (s["broker_id"], s["leader_epoch"]) == (2, 1))

    assert any(map(dips, range(8)))
