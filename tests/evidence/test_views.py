"""Leaders, states and the final ISR, from views that include stale ones."""

from evidence import views
from evidence.facts import Stretch
from evidence.views import Change, final_isr, first_leaders, isr_changes, known_since, last_views, leaders
from kafka_files.states import State
from tests.evidence.folders import MS, S, isr_view, sample
from tests.evidence.probed import WHERE, partition


def state(t_ns, leader, epoch, isr):
    """Return a state of the controller's history."""
    return State(*WHERE, "metadata_log", epoch, t_ns, leader, epoch, epoch, (1, 2, 3), tuple(isr))


def shown(*literal):
    """Return (leader, epoch, ISR) of the states in views (s, leader, epoch, ISR, observer)."""
    told = partition([], [isr_view(t * S, *view[:3], observer=view[3]) for t, *view in literal])
    return [(change.leader, change.leader_epoch, list(change.isr)) for change in isr_changes(told.views, told.names)]


def test_views_behind_a_newer_epoch_are_passed_over():
    """A view of epoch 0 after one of epoch 1, or from a non-leader, changes nothing; the final ISR needs all views."""
    literal = [isr_view(0, 1, 0, [1, 2, 3]), isr_view(S, 2, 1, [2, 3], observer="2"), isr_view(2 * S, 1, 0, [1, 2, 3])]
    told = partition([], [*literal, isr_view(3 * S, 2, 1, [3], observer="3")])

    assert isr_changes(told.views, told.names) == (
        Change(MS, 1, 0, (1, 2, 3), "1"),
        Change(S + MS, 2, 1, (2, 3), "2"),
    )
    assert final_isr(told.views) == (3,)


def test_the_final_isr_is_what_every_last_view_names():
    """The final ISR is the intersection of all observers' last views; without a view of an ISR it is empty."""
    told = partition([], [isr_view(t * S, 1, 0, isr) for t, isr in ((0, [1, 2, 3]), (1, [2, 1]))])

    assert final_isr(told.views) == (1, 2)
    assert final_isr(partition([], [isr_view(0, 1, 0, None)]).views) == ()


def test_an_observer_whose_name_is_no_broker_id_leads_nothing():
    """An observer can lead only if its name is a broker id: a 32-bit number without leading zeros."""
    full = (1, 0, [1, 2, 3])
    most = (2**31 - 1, 0, [1, 2, 3])

    for name in ("98765432109876543210", "01", "٣", str(2**31), "9" * 5000, "one"):
        assert shown((9, *full, name)) == []
        assert shown((9, *full, name), (10, *full, "1")) == [full]
    assert shown((9, *most, str(2**31 - 1))) == [most]


def test_a_follower_that_was_cut_off_ends_nothing_with_its_old_isr():
    """A stale ISR from an isolated follower does not end a state, whatever its broker id and in the same nanosecond."""
    for stale in ("1", "3"):
        old, new = (2, 5, [1, 2, 3]), (2, 5, [2])
        found = shown((9, *old, "2"), (9, *old, stale), (12, *new, "2"), (12, *old, stale), (15, *old, "2"))

        assert found == [old, new, old]


def test_a_leader_that_was_resumed_leads_no_more():
    """A resumed leader of an old epoch changes nothing after another broker showed that it leads the next epoch."""
    full, old, new = (2, 5, [1, 2, 3]), (1, 4, [1, 2, 3]), (2, 5, [2, 3])

    assert shown((9, *old, "1"), (12, *new, "2"), (13, *old, "1"), (15, *full, "2")) == [old, new, full]


def test_the_first_to_show_that_nobody_leads_counts():
    """The first view without a leader counts for its epoch; a later one of the same epoch changes nothing."""
    nobody = (-1, 6, [1])

    assert shown((9, 1, 5, [1], "1"), (12, *nobody, "2"), (13, -1, 6, [1, 3], "3"), (15, 1, 7, [1], "1")) == [
        (1, 5, [1]),
        nobody,
        (1, 7, [1]),
    ]


def test_what_names_no_leader_epoch_or_isr_is_no_state():
    """A view without a leader, an epoch or an ISR is no state; an ISR without members is one."""
    unknown = [(1, None, 0, [1], "1"), (2, 1, None, [1], "1"), (3, 1, 0, None, "1")]

    assert shown(*unknown) == []
    assert shown(*unknown, (4, 1, 0, [], "1")) == [(1, 0, [])]


def test_who_led_and_since_when():
    """A leader counts from any observer's first view; of two leaders in one epoch the lower id is the first."""
    literal = [isr_view(2 * S, 2, 1, [2], observer="3"), isr_view(S, 3, 1, [3]), isr_view(3 * S, 2, 1, [2])]
    told = partition([], [*literal, isr_view(0, -1, 2, [2]), isr_view(0, None, 3, [2]), isr_view(0, 1, None, [2])])

    assert leaders(told.views) == {(1, 2): 2 * S + MS, (1, 3): S + MS}
    assert first_leaders(told.views) == {1: (2, S + MS)}


def test_samples_are_a_leaders_by_what_any_observer_named():
    """A sample is a leader's if any observer named its broker for its epoch."""
    samples = [sample(2, 0, 1, 1, epoch=1), sample(1, 1, 1, 1, epoch=1), sample(2, 2, 1, 1, epoch=None)]

    assert partition(samples, [isr_view(0, 2, 1, [2])]).sampled_leaders.tolist() == [True, False, False]


def test_the_controllers_history_counts_if_its_times_are_good():
    """The leaders' views replace the controller's history if its times are invalid or missing."""
    told = partition([], [isr_view(5 * S, 1, 0, [1, 2])])
    good, late, undated = state(4 * S, 1, 0, [2, 1]), state(7 * S, 1, 0, [2, 1]), state(None, 1, 0, [2, 1])

    def observers(*history):
        return [(change.observer, change.isr) for change in views.changes(history, told.views, told.names)]

    assert observers(good) == [("controller", (1, 2))]
    assert observers(late) == observers(undated) == observers() == [("1", (1, 2))]
    assert observers(good._replace(partition_epoch=1)) == [("1", (1, 2))]  # its date is a snapshot's


def test_the_last_view_of_each_leader_and_epoch():
    """The last view of each leader and epoch is the observer's last answer."""
    literal = [isr_view(0, 1, 0, [2, 1]), isr_view(S, 1, 0, [1]), isr_view(S, 1, 0, [1], observer="2")]
    told = partition([], [*literal, isr_view(2 * S, None, None, None)])
    found = last_views(WHERE, told.views, told.names)

    assert sorted((row["observer"], row["sent_ns"], str(row["leader"]), row["isr"]) for row in found if row["isr"]) == [
        ("1", S, "1", [1]),
        ("2", S, "1", [1]),
    ]
    assert [row for row in found if row["isr"] is None] == [
        {
            "topic": "orders",
            "partition": 0,
            "observer": "1",
            "leader": None,
            "leader_epoch": None,
            "received_ns": 2 * S + MS,
            "sent_ns": 2 * S,
            "isr": None,
        }
    ]


def test_a_leader_is_held_to_an_isr_that_it_showed_itself():
    """A leader is held to an ISR from two seconds after its answer with this ISR, asked and answered in its time."""
    short = Stretch(state(5 * S, 1, 3, [1]), 5 * S, 20 * S)

    def since(*literal):
        told = partition([], literal)
        return [(each.from_ns, each.until_ns) for each in known_since(told.views, told.names, [short])]

    own = isr_view(6 * S, 1, 3, [1])
    assert since(own) == [(8 * S + MS, 20 * S)]
    assert since(own | {"sent_ns": 4 * S}) == []  # an answer from before
    assert since(own | {"sent_ns": 4 * S}, isr_view(7 * S, 1, 3, [1])) == [(9 * S + MS, 20 * S)]
    assert since(own | {"observer": "2"}) == []  # another broker knew
    assert since(own | {"isr": [1, 2]}) == since(own | {"leader_epoch": 2}) == []
    assert since(isr_view(20 * S, 1, 3, [1])) == []
