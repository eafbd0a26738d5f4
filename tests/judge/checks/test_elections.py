"""Elections, controller histories and boots: violations and near misses."""

from evidence.facts import NewLog
from judge.checks import elections
from kafka_files.states import State
from tests.evidence.probed import counted, partition


def state(number, leader, epoch, isr, **other):
    """Return a state of orders-0, one second after the previous one."""
    known = {"topic": "orders", "partition": 0, "source": "metadata_log", "position": number, "t_ns": number * 10**9}
    known |= {"leader": leader, "leader_epoch": epoch, "partition_epoch": number, "replicas": (1, 2, 3)}
    return State(**(known | {"isr": tuple(isr)} | other))


def line(kind, broker_id, **other):
    """Return a line of a broker's log."""
    return {"kind": kind, "broker_id": broker_id, "topic": "orders", "partition": 0, "line": 1, "t_ns": 0} | other


def view(observer, leader, epoch, isr, *, sent_ns):
    """Return a metadata view."""
    where = {"topic": "orders", "partition": 0, "observer": observer, "leader": leader, "leader_epoch": epoch}
    return where | {"isr": isr, "sent_ns": sent_ns, "received_ns": sent_ns + 1}


def i19(states, lines=(), views=()):
    """Return (checked, violations) of I19."""
    return counted(elections.i19_one_leader_per_epoch(partition((), views, states=states, lines=lines)))


def i20(*states):
    """Return (checked, violations) of I20."""
    return counted(elections.i20_clean_election(partition(states=states)))


def i21(history):
    """Return the checks of I21, with min.insync.replicas=2."""
    return elections.i21_history_in_order(partition(states=history, effective_min_isr=2))


def i25(lines=(), captures=(), new_logs=()):
    """Return (checked, violations) of I25."""
    of = partition(lines=lines, captures=captures, new_logs=new_logs)
    return counted(elections.i25_boot_high_watermark(of))


def test_i19_two_leaders_in_one_epoch():
    """I19 is violated if a broker leads an epoch that the controller gave to another one."""
    history = [state(0, 1, 0, [1, 2, 3]), state(1, -1, 1, [2]), state(2, 2, 2, [2])]
    other, own = line("leader_started", 2, leader_epoch=0), line("leader_started", 2, leader_epoch=2)

    assert i19(history, [other, own], []) == (2, 1)
    assert i19(history, [own], []) == (2, 0)


def test_i19_a_view_without_a_leader_names_none():
    """I19 ignores metadata with leader -1; another leader violates it."""
    history = [state(0, 1, 0, [1])]

    assert i19(history, [], [view("1", -1, 0, [1], sent_ns=0)]) == (1, 0)
    assert i19(history, [], [view("1", 3, 0, [1], sent_ns=0)]) == (1, 1)


def test_i20_a_leader_from_outside_the_isr():
    """I20 is violated if the new leader was outside the ISR."""
    before = state(0, 1, 0, [1, 2])

    assert i20(before, state(1, 3, 1, [3])) == (1, 1)
    assert i20(before, state(1, 2, 1, [2])) == (1, 0)


def test_i20_the_first_in_the_assignment_leads():
    """I20 is violated unless the first replica of the assignment in the new ISR leads; reassignments are exempt."""
    before = state(0, 1, 0, [1, 2, 3])

    assert i20(before, state(1, 3, 1, [2, 3])) == (1, 1)
    assert i20(before, state(1, 3, 1, [3])) == (1, 0)
    assert i20(before._replace(adding=(3,)), state(1, 3, 1, [2, 3])) == (0, 0)


def test_i20_with_an_empty_isr_the_eligible_replicas_count():
    """With an empty ISR, I20 accepts leaders from the ELR, and the last known leader only once the ELR is empty."""
    before = state(0, -1, 1, [], elr=(2,))
    nobody = state(0, -1, 1, [], last_known_elr=(3,))
    recovering = state(1, 3, 2, [3], recovering=True)

    assert i20(before, state(1, 2, 2, [2])) == (1, 0)
    assert i20(before, recovering) == (1, 1)
    assert i20(nobody, recovering) == (0, 0)
    assert i20(nobody._replace(elr=(2,)), recovering) == (0, 0)
    assert i20(nobody._replace(elr=(2,)), recovering._replace(elr=(2,))) == (1, 1)


def test_i20_the_isr_may_be_emptied_and_the_elr_elected_from_in_one_record():
    """I20 accepts a leader from the ELR in the record that empties the ISR, unless the old leader stays."""
    alone = state(0, 1, 0, [1], elr=(2,))

    assert i20(alone, state(1, 2, 1, [2], elr=(1,))) == (1, 0)
    assert i20(alone, state(1, 3, 1, [3], elr=(1, 2))) == (1, 1)
    assert i20(alone, state(1, 2, 1, [1, 2])) == (1, 1)


def test_a_leader_out_of_the_elr_is_told_from_the_last_in_the_isr():
    """An election from the ELR is recognised, but not a return of the same leader or a leader from the ISR."""
    shrunk, empty = state(0, 1, 0, [1], elr=(2,)), state(1, -1, 0, [], elr=(1, 2))

    assert list(elections.led_from_elr([shrunk, empty, state(2, 2, 1, [2], elr=(1,))])) == [
        state(2, 2, 1, [2], elr=(1,))
    ]
    assert list(elections.led_from_elr([shrunk, empty, state(2, 1, 1, [1], elr=(2,))])) == []
    assert list(elections.led_from_elr([shrunk, state(1, 2, 1, [2], elr=(1,))])) == [state(1, 2, 1, [2], elr=(1,))]
    assert list(elections.led_from_elr([state(0, 1, 0, [1, 2]), state(1, 2, 1, [2], elr=(1,))])) == []
    assert list(elections.led_from_elr([empty, state(2, 2, 1, [2], elr=(1,))])) == []  # the last ISR is unknown


def test_i21_a_history_in_order():
    """I21 accepts another leader in a new epoch only."""
    history = [state(0, 1, 0, [1, 2, 3]), state(1, 2, 1, [2, 3]), state(2, 2, 1, [1, 2, 3])]

    assert counted(i21(history)) == (3, 0)
    assert counted(i21([history[0], state(1, 2, 0, [2, 3])])) == (2, 1)


def test_i21_what_is_wrong_with_a_history():
    """I21 names each broken rule."""
    first = state(0, 1, 4, [1, 2, 3])
    wrong = {
        "the leader is not in the ISR": [state(0, 1, 0, [2])],
        "the ISR is not within the assignment": [state(0, 1, 0, [1, 4])],
        "ELR and ISR overlap": [state(0, 1, 0, [1], elr=(1,))],
        "ELR is not empty although the ISR is sufficient": [state(0, 1, 0, [1, 2], elr=(3,))],
        "the partition epoch did not grow by one": [first, state(2, 1, 4, [1])],
        "the leader epoch fell": [first, state(1, 1, 3, [1])],
        "the leader changed within an epoch": [first, state(1, 2, 4, [2])],
    }

    assert {
        rule: [found.evidence(place)["wrong"] for found in [i21(history)] for place in range(found.violated_ns.size)]
        for rule, history in wrong.items()
    } == {rule: [[rule]] for rule in wrong}


def test_i25_a_boot_above_its_own_log():
    """I25 is violated if a broker boots with an HW above its log end; a later start in the same life does not count."""
    loaded = line("log_loaded", 1, high_watermark=12)

    def check(log_end_offset):
        started = line("follower_started", 1, log_end_offset=log_end_offset)
        return i25([loaded, started, {**started, "log_end_offset": 3}])

    assert check(11) == (1, 1)
    assert check(12) == (1, 0)


def test_i25_a_checkpoint_above_a_later_log_end():
    """I25 is violated if a checkpointed HW is above a later log end."""

    def captured(name, at_ns, checkpoint, leo):
        row = {"capture": name, "broker_id": 1, "topic": "orders", "partition": 0, "sent_ns": at_ns}
        return row | {"received_ns": at_ns + 1, "checkpoint_high_watermark": checkpoint, "log_end_offset": leo}

    def check(checkpoint, leo):
        return i25(captures=[captured("a", 0, checkpoint, 9), captured("b", 5, 1, leo)])

    assert check(12, 11) == (1, 1)
    assert check(12, 12) == (1, 0)
    assert check(None, 11) == (0, 0)


def test_i25_a_new_log_is_not_held_to_the_old_ones_checkpoint():
    """I25 does not compare a new log with the old log's checkpoint, after the broker's disk was wiped."""
    row = {"broker_id": 1, "topic": "orders", "partition": 0, "capture": "a", "log_end_offset": 20}
    before = row | {"sent_ns": 10, "received_ns": 11, "checkpoint_high_watermark": 12}
    after = row | {"sent_ns": 20, "received_ns": 21, "checkpoint_high_watermark": 1, "log_end_offset": 3}

    def check(*new_logs):
        return i25(captures=[before, after], new_logs=new_logs)

    assert check(NewLog(1, 15)) == (0, 0)
    assert check(NewLog(None, 15)) == (0, 0)
    assert check(NewLog(None, 15, "orders")) == (0, 0)
    assert check(NewLog(None, 15, "sales")) == (1, 1)
    assert check(NewLog(2, 15)) == (1, 1)
    assert check(NewLog(1, 9)) == (1, 1)


def told(lines=(), views=(), starts=None):
    """Return the sentences of disagreements with a history of two states."""
    history = [state(0, 1, 0, [1, 2, 3]), state(10, 2, 1, [2, 3])]
    return [sentence for sentence, _ in elections.disagreements(history, lines, views, starts or {})]


def test_source_disagreement_of_a_view_that_never_caught_up():
    """A view that shows an older state 2 s after the last change is a disagreement; an earlier view is none."""
    old, new = (1, 0, [1, 2, 3]), (2, 1, [3, 2])

    assert told(views=[view("3", *old, sent_ns=13 * 10**9)]) == [
        "Broker 3 still showed leader 1, epoch 0, ISR [1, 2, 3]; the controller's last word was leader 2, epoch 1, "
        "ISR [2, 3]."
    ]
    assert told(views=[view("3", *old, sent_ns=11 * 10**9)]) == []
    assert told(views=[view("3", *old, sent_ns=13 * 10**9), view("3", *new, sent_ns=14 * 10**9)]) == []


def test_source_disagreement_in_a_brokers_own_words():
    """A broker's log line that contradicts the controller on leader or start offset is a disagreement."""
    said = line("leader_started", 2, leader_epoch=1, log_end_offset=30)

    assert told([said], starts={1: 30}) == []
    assert told([said], starts={1: 29}) == ["Broker 2 began epoch 1 at offset 30; epoch files begin it at 29."]
    assert told([said, said | {"log_end_offset": 70}], starts={1: 30}) == []  # restarted as the leader that it was
    assert told([said | {"broker_id": 3}]) == ["Broker 3 said to lead in epoch 1; the controller had chosen 2."]
