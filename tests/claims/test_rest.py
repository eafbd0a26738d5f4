"""Rests, shrinks and look-ups in a partition's evidence."""

from claims.rest import at_rest, led, lines, shrinks_at_rest, state_at
from tests.claims.rows import line, ns, recording, state, still
from tests.evidence.probed import WHERE

LED_TWICE = [state(0), state(2, leader=2, epoch=1)]


def test_a_leader_is_believed_in_its_own_epochs() -> None:
    """A leader's samples count only in its epochs."""
    of = recording([*still(1, 0, 1, 5, 5), *still(1, 3, 4, 5, 7)], LED_TWICE).partitions[WHERE]
    assert set(of.samples.answered.leo[led(of)].tolist()) == {5, 7}

    later = recording(still(1, 3, 4, 5, 7, epoch=1), LED_TWICE).partitions[WHERE]
    assert led(later).size == 0


def test_the_state_at_a_moment_is_the_last_before_it() -> None:
    """The state at a moment is the last one decided by then, and none before the first."""
    of = recording([], LED_TWICE).partitions[WHERE]

    assert [state_at(of, ns(at_s)) for at_s in (-1, 1, 2)] == [None, *LED_TWICE]


def test_lines_are_dated_and_in_order() -> None:
    """Lines without a time are left out, and the others are ordered by time."""
    undated = {**line(0, "log_loaded", 1), "t_ns": None}
    given = [line(2, "log_loaded", 2), line(1, "log_loaded", 1), line(0, "truncating", 1), undated]
    of = recording(lines=given).partitions[WHERE]

    assert [each["broker_id"] for each in lines(of, "log_loaded")] == [1, 2]
    assert [each["broker_id"] for each in lines(of, "log_loaded", 2)] == [2]


def test_a_rest_ends_with_each_change() -> None:
    """A rest ends when the leader's offsets or the state change; a shorter one does not count."""
    samples = [*still(1, 0, 1, 5, 5), *still(1, 1.1, 1.5, 5, 8), *still(1, 1.6, 4, 8, 8)]
    rests = list(at_rest(recording(samples, [state(0), state(2.85, isr=(1, 2))])))

    assert [(rest.hw, rest.leo, rest.appended) for rest in rests] == [(5, 5, False), (8, 8, True), (8, 8, False)]


def test_a_silent_replica_is_known_if_it_had_everything_or_answers() -> None:
    """A silent replica's position is known if its leader had nothing more soon after its last answer."""
    had_all = [*still(1, 0, 1.5, 5, 5), *still(1, 1.6, 4, 5, 8), *still(3, 0, 1, 5, 5)]
    fell_behind = [*still(1, 0, 1, 5, 5), *still(1, 1.1, 4, 5, 8), *still(3, 0, 1, 5, 5)]

    assert [sorted(rest.known) for rest in at_rest(recording(had_all))] == [[1, 3], [1, 3]]
    assert [sorted(rest.known) for rest in at_rest(recording(fell_behind))] == [[1, 3], [1]]


def test_a_shrink_counts_only_if_nothing_is_appended() -> None:
    """A shrink with records above the HW and no append afterwards counts; an append hides its effect."""
    shrunk = [state(0), state(3, isr=(1, 2))]
    quiet = [*still(1, 0, 2.9, 5, 8), *still(1, 3.1, 5, 8, 8), *still(2, 0, 5, 5, 8)]
    appended = [*quiet[:30], *still(1, 3.1, 5, 9, 9)]

    assert [shrink.moved for shrink in shrinks_at_rest(recording(quiet, shrunk))] == [True]
    assert list(shrinks_at_rest(recording(appended, shrunk))) == []
    assert list(shrinks_at_rest(recording(quiet, shrunk, min_isr=3))) == []
