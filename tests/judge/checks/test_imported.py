"""Imported histories: one key per case, hits and near misses, judged together."""

import json

import pytest

from history.manifest import read_manifest
from imports import formats
from imports.run_folder import Settings
from judge.checks.allowed import allowed_to
from tests.imports.histories import invoked, poll, send
from tests.judge.checks.imported import cases_of, folder_of, judged

# Process 2 reads these keys from their first record; for other keys its start is unknown.
FROM_START = ["lost", "atomic too", "acknowledged in part", "lost as a whole", "bound by a failure"]
ASSIGNED = {"process": 2, "type": "ok", "f": "assign", "keys": FROM_START, "from_beginning": True}
# The operations of each case, on the key of its name.
CASES = {
    "lost": [send(1, "ok", ("lost", "a", 0)), send(1, "ok", ("lost", "b", 1)), poll(2, "ok", ("lost", 1, "b"))],
    "begun behind": [
        send(1, "ok", ("begun behind", "a", 0)),
        send(1, "ok", ("begun behind", "b", 1)),
        poll(2, "ok", ("begun behind", 1, "b")),
    ],
    "crossed": [
        *(send(1, "ok", ("crossed", value, offset)) for offset, value in enumerate("abc")),
        poll(2, "ok", ("crossed", 0, "a"), ("crossed", 2, "c")),
    ],
    "crossed by two": [
        *(send(1, "ok", ("crossed by two", value, offset)) for offset, value in enumerate("abc")),
        poll(2, "ok", ("crossed by two", 0, "a")),
        poll(3, "ok", ("crossed by two", 2, "c")),
    ],
    "read by others": [
        send(1, "ok", ("read by others", "a", 0)),
        send(1, "ok", ("read by others", "b", 1)),
        poll(2, "ok", ("read by others", 0, "a")),
        poll(3, "ok", ("read by others", 1, "b")),
    ],
    "gap": [
        send(1, "ok", ("gap", "a", 0)),
        send(1, "ok", ("gap", "b", 7)),
        poll(2, "ok", ("gap", 0, "a"), ("gap", 7, "b")),
    ],
    "unseen": [send(1, "ok", ("unseen", "a", 0)), send(1, "ok", ("unseen", "b", 1)), poll(2, "ok", ("unseen", 0, "a"))],
    "no offset": [
        send(1, "ok", ("no offset", "a", None)),
        send(1, "ok", ("no offset", "b", 0)),
        poll(2, "ok", ("no offset", 0, "b")),
    ],
    "unknown": [
        send(1, "info", ("unknown", "a", 0)),
        invoked(send(4, "ok", ("unknown", "c", None))),
        send(1, "ok", ("unknown", "b", 1)),
        poll(2, "ok", ("unknown", 1, "b")),
    ],
    "atomic": [
        send(1, "info", ("atomic", "a", None), ("atomic too", "b", 0)),
        send(1, "ok", ("atomic too", "c", 1)),
        poll(2, "ok", ("atomic", 0, "a"), ("atomic too", 1, "c")),
    ],
    "not proven": [
        send(1, "info", ("not proven", "a", None), ("not proven too", "b", 0)),
        send(1, "ok", ("not proven too", "c", 1)),
        poll(2, "ok", ("not proven too", 1, "c")),
    ],
    "acknowledged in part": [
        send(1, "ok", ("acknowledged in part", "a", 0), ("acknowledged in part", "b", 1), f="txn"),
        send(1, "ok", ("acknowledged in part", "c", 2)),
        poll(2, "ok", ("acknowledged in part", 0, "a"), ("acknowledged in part", 2, "c")),
    ],
    "lost as a whole": [
        send(1, "ok", ("lost as a whole", "a", 0), ("lost as a whole", "b", 1), f="txn"),
        send(1, "ok", ("lost as a whole", "c", 2)),
        poll(2, "ok", ("lost as a whole", 2, "c")),
    ],
    "read in part": [
        send(1, "ok", ("read in part", "a", 0), ("read in part", "b", 1), f="txn"),
        poll(2, "ok", ("read in part", 0, "a")),
    ],
    "aborted in part": [
        send(1, "fail", ("aborted in part", "a", 0), ("aborted in part", "b", 1), f="txn"),
        send(1, "ok", ("aborted in part", "c", 2)),
        poll(2, "ok", ("aborted in part", 0, "a"), ("aborted in part", 2, "c")),
    ],
    "seen by a failure": [
        send(1, "ok", ("seen by a failure", "a", 0)),
        send(1, "ok", ("seen by a failure", "b", 1)),
        poll(2, "fail", ("seen by a failure", 0, "a")),
        poll(2, "ok", ("seen by a failure", 1, "b")),
    ],
    "bound by a failure": [
        send(1, "ok", ("bound by a failure", "a", 0)),
        send(1, "ok", ("bound by a failure", "b", 1)),
        poll(2, "info", ("bound by a failure", 1, "b")),
    ],
    "given twice": [
        send(1, "ok", ("given twice", "a", 0)),
        send(1, "ok", ("given twice", "b", 0)),
        send(1, "ok", ("given twice", "c", 1)),
        poll(2, "ok", ("given twice", 0, "b"), ("given twice", 1, "c")),
    ],
    "given to nobody": [
        send(1, "info", ("given to nobody", "a", 0)),
        send(1, "ok", ("given to nobody", "b", 0)),
        poll(2, "ok", ("given to nobody", 0, "b")),
    ],
    "twice": [send(1, "ok", ("twice", "a", 0)), poll(2, "ok", ("twice", 0, "a")), poll(3, "ok", ("twice", 3, "a"))],
    "elsewhere": [send(1, "ok", ("elsewhere", "a", 0)), poll(2, "ok", ("elsewhere", 1, "a"))],
    "read again": [
        send(1, "ok", ("read again", "a", 0)),
        poll(2, "ok", ("read again", 0, "a")),
        poll(3, "ok", ("read again", 0, "a")),
    ],
    "skipped": [
        *(send(1, "ok", ("skipped", value, offset)) for offset, value in enumerate("abc")),
        poll(2, "ok", ("skipped", 0, "a"), ("skipped", 2, "c")),
        poll(3, "ok", ("skipped", 0, "a"), ("skipped", 1, "b"), ("skipped", 2, "c")),
    ],
    "skipped by two polls": [
        *(send(1, "ok", ("skipped by two polls", value, offset)) for offset, value in enumerate("abc")),
        poll(6, "ok", ("skipped by two polls", 0, "a")),
        poll(6, "ok", ("skipped by two polls", 2, "c")),
        poll(3, "ok", ("skipped by two polls", 1, "b")),
    ],
    "lost track": [
        *(send(1, "ok", ("lost track", value, offset)) for offset, value in enumerate("abc")),
        poll(5, "ok", ("lost track", 0, "a")),
        poll(5, "info"),
        poll(5, "ok", ("lost track", 2, "c")),
        poll(3, "ok", ("lost track", 1, "b")),
    ],
    "skipped a failure": [
        send(1, "ok", ("skipped a failure", "a", 0)),
        send(1, "fail", ("skipped a failure", "b", 1)),
        send(1, "ok", ("skipped a failure", "c", 2)),
        poll(2, "ok", ("skipped a failure", 0, "a"), ("skipped a failure", 2, "c")),
    ],
    "back": [
        send(1, "ok", ("back", "a", 0), ("back", "b", 1)),
        poll(2, "ok", ("back", 0, "a"), ("back", 1, "b")),
        poll(2, "ok", ("back", 0, "a")),
    ],
    "back in other hands": [
        send(1, "ok", ("back in other hands", "a", 0), ("back in other hands", "b", 1)),
        poll(2, "ok", ("back in other hands", 0, "a"), ("back in other hands", 1, "b")),
        poll(3, "ok", ("back in other hands", 0, "a")),
    ],
    "sent back": [
        send(1, "ok", ("sent back", "a", 1)),
        send(1, "ok", ("sent back", "b", 0)),
        poll(2, "ok", ("sent back", 0, "b"), ("sent back", 1, "a")),
    ],
    "sent back by two": [
        send(1, "ok", ("sent back by two", "a", 1)),
        send(6, "ok", ("sent back by two", "b", 0)),
        poll(2, "ok", ("sent back by two", 0, "b"), ("sent back by two", 1, "a")),
    ],
    "failed": [send(1, "fail", ("failed", "a", None)), poll(2, "ok", ("failed", 4, "a"))],
    "failed for good": [
        send(1, "fail", ("failed for good", "a", None)),
        send(1, "ok", ("failed for good", "b", 0)),
        poll(2, "ok", ("failed for good", 0, "b")),
    ],
    "phantom": [send(1, "ok", ("phantom", "a", 0)), poll(2, "ok", ("phantom", 0, "a"), ("phantom", 1, "ghost"))],
    "phantom elsewhere": [
        send(1, "ok", ("phantom elsewhere", 1, 0)),
        poll(2, "ok", ("phantom elsewhere", 0, 1), ("phantom elsewhere", 1, "1")),
    ],
}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """The anomalies of all cases above, judged as one history."""
    operations = [ASSIGNED, *(operation for case in CASES.values() for operation in case)]
    return cases_of(folder_of(tmp_path_factory.mktemp("imported"), *operations))


def test_hits_are_found_and_near_misses_are_not(found):
    """Exactly the expected anomalies are found, each with key, offset and value."""
    told = [(row, json.loads(row["evidence"])) for row in found]

    assert sorted((row["anomaly"], facts["key"], row["offset"], facts["value"]) for row, facts in told) == [
        ("aborted_read", "aborted in part", 0, "a"),
        ("aborted_read", "failed", 4, "a"),
        ("bad_ack_offset", "elsewhere", 0, "a"),
        ("duplicate", "twice", 3, "a"),
        ("inconsistent_offset", "given twice", 0, "a"),
        ("lost_write", "acknowledged in part", 1, "b"),
        ("lost_write", "atomic too", 0, "b"),
        ("lost_write", "crossed", 1, "b"),
        ("lost_write", "given twice", 0, "a"),
        ("lost_write", "lost", 0, "a"),
        ("lost_write", "lost as a whole", 0, "a"),
        ("lost_write", "lost as a whole", 1, "b"),
        ("nonmonotonic_poll", "back", 0, "a"),
        ("nonmonotonic_send", "given twice", 0, "b"),
        ("nonmonotonic_send", "sent back", 0, "b"),
        ("phantom_record", "phantom", 1, "ghost"),
        ("phantom_record", "phantom elsewhere", 1, "1"),
        ("poll_skip", "acknowledged in part", 1, "b"),
        ("poll_skip", "crossed", 1, "b"),
        ("poll_skip", "skipped", 1, "b"),
        ("poll_skip", "skipped by two polls", 1, "b"),
        ("torn_transaction", "acknowledged in part", 1, "b"),
        ("torn_transaction", "atomic too", 0, "b"),
        ("unseen", "begun behind", 0, "a"),
        ("unseen", "bound by a failure", 0, "a"),
        ("unseen", "crossed by two", 1, "b"),
        ("unseen", "no offset", None, "a"),
        ("unseen", "read in part", 1, "b"),
        ("unseen", "unseen", 1, "b"),
    ]


def test_a_subscribed_consumer_may_be_moved(tmp_path):
    """A skip or step back violates a guarantee for an assigned consumer; for a subscribed one it is permitted."""
    steps = [send(1, "ok", ("k", "a", 0), ("k", "b", 1), ("k", "c", 2))]
    steps += [{"process": 2, "type": "ok", "f": "assign", "mops": ["k"]}, poll(2, "ok", ("k", 0, "a"), ("k", 2, "c"))]
    steps += [{"process": 3, "type": "ok", "f": "subscribe", "mops": ["k"]}, poll(3, "ok", ("k", 1, "b"))]
    steps += [poll(3, "ok", ("k", 0, "a"))]
    found = cases_of(folder_of(tmp_path, *steps))

    assert sorted((row["anomaly"], row["allowed"], row["allowed_why"]) for row in found) == [
        ("nonmonotonic_poll", True, "a subscribed consumer may be given its partitions anew at any time"),
        ("poll_skip", False, None),
    ]


def test_every_explanation_names_key_and_value(found):
    """Each explanation has the key and value of the history."""
    explanations = {(row["anomaly"], row["explanation"]) for row in found}

    assert (
        "lost_write",
        'Record 1/0 was acknowledged at offset 0; reads went past it, and none returned it. Key "lost", value "a".',
    ) in explanations
    assert any(explanation.endswith('Key "given twice", value "a" and "b".') for _, explanation in explanations)
    assert any(
        "has no known end and must have been written at offset 0" in explanation for _, explanation in explanations
    )
    assert any(
        explanation.endswith('whether a reader passed it is unknown. Key "no offset", value "a".')
        for _, explanation in explanations
    )


@pytest.mark.parametrize(
    ("f", "settings", "allowed"),
    [
        ("send", {}, {"duplicate"}),
        ("send", {"idempotence": True}, set()),
        ("txn", {}, set()),
        ("txn", {"idempotence": False}, {"duplicate"}),
        ("send", {"acks": "1", "idempotence": True}, set()),
        ("send", {"acks": "1", "idempotence": True, "faults": ("kill",)}, {"lost_write"}),
    ],
)
def test_what_is_allowed_follows_from_what_is_stated(tmp_path, f, settings, allowed):
    """Permissions follow from what the import states: duplicates need no idempotence, losses acks=1 and a fault."""
    manifest = read_manifest(folder_of(tmp_path, send(1, "ok", ("x", 1, 0), f=f), **settings).manifest)
    [producer] = manifest.producers

    assert allowed_to(manifest, producer).keys() & {"duplicate", "lost_write"} == allowed


def test_evidence_is_missing_where_nothing_was_acknowledged_or_read(tmp_path):
    """Without acknowledged sends, or without good reads, evidence is missing."""
    sent, read = send(1, "ok", ("x", 1, 0)), poll(2, "ok", ("x", 0, 1))

    def missing(name, *operations):
        (tmp_path / name).mkdir()
        return [item for item, why in judged(folder_of(tmp_path / name, *operations)).items if why]

    assert missing("empty") == ["something acknowledged", "something read"]
    assert missing("unknown", {**sent, "type": "info"}, read) == ["something acknowledged"]
    assert missing("unread", sent, {**read, "type": "info"}) == ["something read"]
    assert missing("whole", sent, read) == []


def verifiable_of(where, *files):
    """Return the run folder of verifiable clients' output: (name, fields) of each event, one file per client."""
    paths = [where / f"{number}.json" for number in range(len(files))]
    for path, events in zip(paths, files, strict=True):
        path.write_text("".join(json.dumps({"name": name, "timestamp": 1} | fields) + "\n" for name, fields in events))
    return formats.import_history(paths, "verifiable", Settings(), where / "runs")


def event(name, *offsets):
    """Return an event about records of t-0 whose values are their offsets."""
    return [(name, {"topic": "t", "partition": 0, "value": str(offset), "offset": offset}) for offset in offsets]


def rebalanced(name):
    """Return the event that t-0 was assigned or revoked."""
    return [(name, {"partitions": [{"topic": "t", "partition": 0}]})]


ACKED = event("producer_send_success", *range(8))


@pytest.mark.parametrize(
    ("consumers", "found"),
    [
        ([event("record_data", 0, 1, 2, 6, 7)], {"lost_write": 3}),
        ([event("record_data", 4, 5, 6, 7)], {"unseen": 4}),
        ([event("record_data", 0, 1, 2), event("record_data", 6, 7)], {"unseen": 3}),
        (
            [event("record_data", 0, 1, 2) + rebalanced("partitions_assigned") + event("record_data", 6, 7)],
            {"unseen": 3},
        ),
        (
            [event("record_data", 0, 1, 2) + rebalanced("partitions_revoked") + event("record_data", 6, 7)],
            {"unseen": 3},
        ),
        ([[*event("record_data", 0, 1, 2), ("startup_complete", {}), *event("record_data", 6, 7)]], {"unseen": 3}),
        ([event("record_data", 0, 1, 2, 6, 7), event("record_data", 3, 4, 5)], {}),
        ([event("record_data", 6, 7), event("record_data", 0, 1, 2, 5)], {"lost_write": 2}),
    ],
    ids=["crossed", "late", "two", "assigned", "revoked", "restarted", "read by another", "late and crossed"],
)
def test_a_record_is_lost_where_one_reader_passed_it(tmp_path, consumers, found):
    """A record is lost only if one reader read before and after it; two readers do not prove it."""
    rows = cases_of(verifiable_of(tmp_path, ACKED, *consumers))
    told = [row["anomaly"] for row in rows if row["anomaly"] != "poll_skip"]

    assert {name: told.count(name) for name in told} == found


@pytest.mark.parametrize(("reported", "found"), [(None, {"unseen"}), ([], {"lost_write", "poll_skip"})])
def test_a_subscribed_process_may_be_moved_ahead_unless_the_history_reports_rebalances(tmp_path, reported, found):
    """A subscribed consumer may skip records that its group committed, unless the history reports rebalances."""
    report = {} if reported is None else {"rebalanced": reported}
    steps = [send(1, "ok", ("k", value, offset)) for offset, value in enumerate("abc")]
    steps += [{"process": 3, "type": "ok", "f": "subscribe", "keys": ["k"]}]
    steps += [{**poll(3, "ok", ("k", 0, "a")), **report}, {**poll(3, "ok", ("k", 2, "c")), **report}]

    assert {row["anomaly"] for row in cases_of(folder_of(tmp_path, *steps))} == found


@pytest.mark.parametrize(
    ("acked", "read", "found"),
    [
        ((100, 0), (100, 105), [("bad_ack_offset", "b")]),  # as Jepsen saw of Bufstream
        ((100, 101), (100, 105), [("bad_ack_offset", "b")]),
        ((100, 9999), (100, 105), [("bad_ack_offset", "b")]),
        ((100, 100), (100, 105), [("bad_ack_offset", "b")]),  # where another record is
        ((100, 105), (100, 105), []),
        ((100, None), (100, 105), []),
    ],
)
def test_an_acknowledgement_names_where_its_record_is_read(tmp_path, acked, read, found):
    """An acknowledged offset is wrong if a reader found the record at another offset."""
    steps = [send(1, "ok", ("k", value, offset)) for value, offset in zip("ab", acked, strict=True)]
    steps += [poll(2, "ok", *(("k", offset, value) for value, offset in zip("ab", read, strict=True)))]
    told = judged(folder_of(tmp_path, *steps))
    rows = told.tables["anomalies"].to_pylist()

    assert [(row["anomaly"], json.loads(row["evidence"])["value"]) for row in rows] == found


@pytest.mark.parametrize(
    ("offset", "found"),
    [(9999, ["bad_ack_offset", "unseen"]), (103, ["nonmonotonic_send", "unseen"]), (101, ["lost_write", "poll_skip"])],
)
def test_an_acknowledgement_beyond_the_end_of_the_log_is_wrong(tmp_path, offset, found):
    """An acknowledged offset far above a later record's offset is wrong; one place above it may be a retry."""
    steps = [send(1, "ok", ("k", value, at)) for value, at in zip("abc", (100, offset, 102), strict=True)]
    steps += [poll(2, "ok", ("k", 100, "a"), ("k", 102, "c"))]

    assert sorted(row["anomaly"] for row in cases_of(folder_of(tmp_path, *steps))) == found


def test_what_an_import_cannot_show_is_named_as_that(tmp_path):
    """For an import, an undecided retry names the option that decides it, and not the controller."""
    steps = [send(1, "ok", ("k", "a", 1)), send(1, "ok", ("k", "b", 0)), poll(2, "ok", ("k", 0, "b"), ("k", 1, "a"))]
    [row] = judged(folder_of(tmp_path, *steps)).tables["anomaly_counts"].to_pylist()

    assert row["anomaly"] == "nonmonotonic_send"
    assert "state --idempotence true" in row["undecided"]
    assert "controller" not in row["undecided"]
