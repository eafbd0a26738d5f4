"""The metadata log's records: values of a 3.9.1 and a 4.3.0 controller, and handmade ones with ELR."""

import pytest

from kafka_files.clock import Clock
from kafka_files.metadata_log import Fields, history, read_metadata_log
from kafka_files.states import History
from tests.evidence.folders import batch
from tests.kafka_files.written import snapshot_header

ID = "d8a7e1486a0f4ff4a7190e5b7c06b4e9"
TOPIC = "010200076f7264657273" + ID + "00"
CREATED = (  # 3.9.1: version 1, with directories
    f"01030100000000{ID}040000000100000002000000030400000001000000020000000301010000000100000000000000000453458dd1b9"
    "5ea9f1a77a709514edd8dc8ffeda93c28d63a64ad650728c43c030e105cf33218770c7badbe31e2955eb5300"
)
CHANGES = [
    f"01050100000000{ID}010009030000000100000003",  # ISR [1, 3]
    f"01050100000000{ID}0100050200000001",  # ISR [1]
    f"01050100000000{ID}0300050200000002010400000002050101",  # an unclean election: ISR [2], leader 2, recovering
    f"01050100000000{ID}020009030000000200000003050100",  # ISR [2, 3], recovered
]


def told(tmp_path, values, segment="00000000000000000000.log"):
    """Return the states after some record values, each in a separate batch."""
    file = tmp_path / segment
    file.write_bytes(b"".join(batch(n, [bytes.fromhex(value)]) for n, value in enumerate(values)))
    return history([file], Clock([])).states


def test_a_partition_is_followed_through_its_changes(tmp_path):
    """Each change of a partition raises its partition epoch; one with a leader also raises the leader epoch."""
    found = told(tmp_path, [TOPIC, CREATED, *CHANGES])

    assert [(s.position, s.leader, s.leader_epoch, s.partition_epoch, s.isr, s.recovering) for s in found] == [
        (1, 1, 0, 0, (1, 2, 3), False),
        (2, 1, 0, 1, (1, 3), False),
        (3, 1, 0, 2, (1,), False),
        (4, 2, 1, 3, (2,), True),
        (5, 2, 1, 4, (2, 3), False),
    ]
    assert {(s.topic, s.partition, s.replicas, s.t_ns) for s in found} == {("orders", 0, (1, 2, 3), None)}


def test_eligible_leader_replicas(tmp_path):
    """Version 2 has the ELR (tag 6) and the last known leader (tag 7); an empty list differs from a missing one."""
    elr = f"01050200000000{ID}0300010106050200000002070101"
    gone = f"01050200000000{ID}01060101"
    found = told(tmp_path, [TOPIC, CREATED, elr, gone])

    assert [(s.isr, s.elr, s.last_known_elr) for s in found[1:]] == [((), (2,), ()), ((), (), ())]


SHORT = f"01050200000000{ID}020005020000000106050200000002"  # ISR [1], ELR [2]


def clear_elr(name):
    """Return a ClearElrRecord of a topic, or of all for "": key 28, a compact string, no tagged fields."""
    return f"011c00{len(name) + 1:02x}{name.encode().hex()}00"


@pytest.mark.parametrize("named", ["orders", ""])
def test_a_change_of_the_smallest_isr_clears_the_elr(tmp_path, named):
    """A change of min.insync.replicas clears the ELR and raises the partition epoch."""
    full = f"01050200000000{ID}01000903000000" + "0100000002"
    found = told(tmp_path, [TOPIC, CREATED, SHORT, clear_elr(named), full])

    assert [(s.position, s.partition_epoch, s.isr, s.elr) for s in found[1:]] == [
        (2, 1, (1,), (2,)),
        (3, 2, (1,), ()),
        (4, 3, (1, 2), ()),
    ]


def test_what_has_no_elr_is_not_changed_by_clearing_it(tmp_path):
    """Clearing does not affect partitions without ELR, of other or removed topics; it clears a last known leader."""
    last_known = f"01050200000000{ID}01070502000000" + "03"
    removed = f"010900{ID}00"

    def epochs(*values):
        return [s.partition_epoch for s in told(tmp_path, [TOPIC, CREATED, *values])]

    assert epochs(clear_elr("orders")) == [0]
    assert epochs(SHORT, clear_elr("order")) == [0, 1]
    assert epochs(SHORT, removed, clear_elr("")) == [0, 1]
    assert epochs(last_known, clear_elr("orders"), clear_elr("orders")) == [0, 1, 2]


def test_the_same_leader_named_again_begins_an_epoch(tmp_path):
    """A record that names the same leader again begins an epoch, as a shrinking ISR does up to 3.5."""
    found = told(tmp_path, [TOPIC, CREATED, f"01050000000000{ID}02000502000000010104" + "00000001"])

    assert [(s.leader, s.leader_epoch) for s in found] == [(1, 0), (1, 1)]


def test_a_reassignment_is_on_while_replicas_are_added_or_removed(tmp_path):
    """Tags 3 and 4 list the replicas removed and added by a reassignment; empty lists end it."""
    begun, ended = f"01050000000000{ID}0104050200000004", f"01050000000000{ID}01040101"
    found = told(tmp_path, [TOPIC, CREATED, begun, ended])

    assert [(s.adding, s.removing) for s in found] == [((), ()), ((4,), ()), ((), ())]


def test_records_of_an_unknown_topic_or_kind_are_passed_over(tmp_path):
    """Records of an unknown topic or kind yield no state."""
    assert told(tmp_path, [CREATED, "011b0000"]) == []


def test_reading_ends_at_damage(tmp_path):
    """A batch with a wrong checksum ends the history before it."""
    file = tmp_path / "00000000000000000000.log"
    values = [bytes.fromhex(value) for value in (TOPIC, CREATED, CHANGES[0])]
    good = b"".join(batch(n, [value]) for n, value in enumerate(values))
    file.write_bytes(good[:-1] + b"\xff")

    found = history([file], Clock([]))
    assert [s.partition_epoch for s in found.states] == [0]
    assert found.problem == f"The batch at byte {len(good) - len(batch(2, values[2:]))} cannot be read: bad crc."
    assert history([], Clock([])) == History([])


def test_the_copy_that_reaches_furthest_is_read(tmp_path):
    """The longest of the nodes' copies is read; a folder without a copy has an empty history."""
    for node, values in {"broker-1": [TOPIC, CREATED], "controller": [TOPIC, CREATED, CHANGES[0]]}.items():
        folder = tmp_path / node / "data" / "__cluster_metadata-0"
        folder.mkdir(parents=True)
        told(folder, values)

    assert [s.isr for s in read_metadata_log(tmp_path, Clock([])).states] == [(1, 2, 3), (1, 3)]
    assert read_metadata_log(tmp_path / "broker-1" / "none", Clock([])) == History([])


def test_a_snapshot_stands_before_a_log_that_was_cut(tmp_path):
    """A snapshot supplies the states before the first segment of a truncated log."""
    folder = tmp_path / "controller" / "data" / "__cluster_metadata-0"
    folder.mkdir(parents=True)
    told(folder, [TOPIC, CREATED], segment="00000000000000000005-0000000001.checkpoint")
    (folder / "00000000000000000005.log").write_bytes(batch(5, [bytes.fromhex(CHANGES[0])]))

    assert [s.position for s in read_metadata_log(tmp_path, Clock([])).states] == [5, 5]


CUT = "00000000000000000005-0000000001"
LATER = CREATED.replace("00000000000000000453458dd1", "00000000000000030453458dd1")  # partition epoch 3
OTHER = TOPIC.replace("6f7264657273", "636f756e7473").replace(ID, ID[::-1])  # a topic "counts"
OTHER_CREATED = CREATED.replace(ID, ID[::-1])


@pytest.mark.parametrize(("epoch", "begins_at"), [(1, [0, 1]), (3, [3])])
def test_a_whole_copy_is_read_before_one_that_was_cut(tmp_path, epoch, begins_at):
    """Of copies that end alike, the one from the beginning is read, not one with a snapshot."""
    snapshot = CREATED.replace("00000000000000000453458dd1", f"000000000000000{epoch}0453458dd1")
    copies = {"broker-1": ([TOPIC, CREATED, CHANGES[0]], "0" * 20), "broker-2": ([TOPIC, snapshot], CUT)}
    for node, (values, file) in copies.items():
        folder = tmp_path / node / "data" / "__cluster_metadata-0"
        folder.mkdir(parents=True)
        told(folder, values, segment=f"{file}.checkpoint" if file == CUT else f"{file}.log")
    (tmp_path / "broker-2" / "data" / "__cluster_metadata-0" / "00000000000000000005.log").write_bytes(b"")

    assert [state.partition_epoch for state in read_metadata_log(tmp_path, Clock([])).states] == begins_at


def cut_log(tmp_path, *snapshots):
    """Write a log from offset 3 on, as Kafka's retention leaves it: a change is at 4, before a snapshot, one at 5."""
    folder = tmp_path / "controller" / "data" / "__cluster_metadata-0"
    folder.mkdir(parents=True)
    segment = [batch(n, [bytes.fromhex(value)]) for n, value in ((3, "011b0000"), (4, CHANGES[0]), (5, CHANGES[1]))]
    (folder / f"{3:020}.log").write_bytes(b"".join(segment))
    for offset, data in snapshots:
        (folder / f"{offset:020}-0000000001.checkpoint").write_bytes(data)
    return read_metadata_log(tmp_path, Clock([(0, 0)]))


def taken(last_ms, *values):
    """Return a snapshot whose last record of the log has this time."""
    return snapshot_header(last_ms) + batch(1, [bytes.fromhex(value) for value in values])


def test_a_log_that_retention_has_cut_begins_with_the_oldest_snapshot_that_it_continues(tmp_path):
    """A snapshot within the first segment holds at its last record's time, and replaces the records below its offset.

    An initial state has time 0. A snapshot from before the segment, or a later one, is not read.
    """
    oldest = taken(7_000, TOPIC, LATER, OTHER, OTHER_CREATED)
    found = cut_log(tmp_path, (2, taken(1_000, TOPIC, CREATED)), (5, oldest), (6, taken(9_000, TOPIC)))

    assert found.problem is None
    assert [(s.topic, s.partition_epoch, s.isr, s.position, s.t_ns) for s in found.states] == [
        ("orders", 3, (1, 2, 3), 5, 7_000_000_000),
        ("counts", 0, (1, 2, 3), 5, 0),
        ("orders", 4, (1,), 5, 0),  # the batch has time 0
    ]


def test_a_cut_log_without_its_snapshot_names_what_is_missing(tmp_path):
    """If only an older snapshot is left, the records between it and the log are missing."""
    assert cut_log(tmp_path, (2, taken(1_000, TOPIC, CREATED))) == History(
        [], "It lacks the records from offset 0 to 3."
    )


HEADER_OF_4_4 = (  # from a controller; its last record had 1796046243889 ms
    "0000000000000000000000470000000102ed7f887a002000000000000001a22cb2c9fb000001a22cb2c9fbffffffffffffffffffffffffffff"
    "000000012a0000000800000003160000000001a22cb2c8310000"
)


def test_a_snapshot_without_the_time_of_its_last_record_has_no_date(tmp_path):
    """A changed state has the time of the snapshot's header, and none if the header is damaged or missing.

    An initial state needs none.
    """

    def times(header, *values):
        file = tmp_path / "00000000000000000005-0000000001.checkpoint"
        file.write_bytes(header + batch(1, [bytes.fromhex(value) for value in values]))
        return [state.t_ns for state in history([file], Clock([(0, 0)])).states]

    assert times(bytes.fromhex(HEADER_OF_4_4), TOPIC, LATER) == [1_796_046_243_889_000_000]
    assert times(snapshot_header(1_796_046_243_889), TOPIC, LATER) == [1_796_046_243_889_000_000]
    assert times(b"", TOPIC, LATER) == [None]
    assert times(b"", TOPIC, CREATED) == [0]
    assert times(snapshot_header(5)[:-1] + b"\1", TOPIC, LATER) == []


def test_a_missing_segment_ends_the_history(tmp_path):
    """A missing segment, or a missing beginning without a snapshot, ends the history."""
    for at, value in enumerate((TOPIC, CREATED, CHANGES[0])):
        (tmp_path / f"{at:020}.log").write_bytes(batch(at, [bytes.fromhex(value)]))
    files = sorted(tmp_path.glob("*.log"))

    assert history(files, Clock([])).problem is None
    assert len(history(files, Clock([])).states) == 2
    assert history([files[0], files[2]], Clock([])) == History([], "It lacks the records from offset 1 to 2.")
    assert history(files[1:], Clock([])) == History([], "It lacks the records from offset 0 to 1.")


def test_a_record_that_ends_early_is_told():
    """A record that ends before its fields raises an error."""
    with pytest.raises(ValueError, match="ends before its fields do"):
        Fields(b"\0\0").number(">i")


@pytest.mark.parametrize(
    "damaged",
    [
        "25",  # a frame, and nothing else
        "0105" + "80" * 40,  # a number without an end
        f"01050000000000{ID}0101030000",  # a leader of two bytes
        "010200037fff" + ID,  # a name that is no text
        "011c0007" + b"or".hex(),  # an ELR to clear, of a topic whose name is cut off
    ],
)
def test_a_record_that_is_none_ends_the_history(tmp_path, damaged):
    """An invalid record ends the history before it, although its batch's checksum is right."""
    assert [s.position for s in told(tmp_path, [TOPIC, CREATED, damaged, CHANGES[0]])] == [1]


def test_a_change_of_a_partition_that_was_never_created_tells_nothing(tmp_path):
    """A change of a partition whose creation is missing, as in a truncated log, yields no state."""
    assert told(tmp_path, [TOPIC, CHANGES[0]]) == []
