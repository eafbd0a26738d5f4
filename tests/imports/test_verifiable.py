"""The output of Kafka's verifiable producer and consumer."""

import json

import pytest

from history.errors import BadInput
from imports import verifiable
from imports.records import NO_PARTITION, Unnamed, tables


def sent(value, offset, partition=0):
    """Return the line of an acknowledged send."""
    row = {"timestamp": 5, "name": "producer_send_success", "key": None, "value": value, "offset": offset}
    return row | {"topic": "t", "partition": partition}


def failed(value):
    """Return the line of a failed send, which has no partition."""
    row = {"name": "producer_send_error", "topic": "t", "key": None, "value": value, "timestamp": 6}
    return row | {"exception": "class org.apache.kafka.common.errors.TimeoutException", "message": "Expiring 1 record"}


def consumed(value, offset, partition=0):
    """Return a line of a verbose consumer."""
    row = {"timestamp": 7, "name": "record_data", "key": None, "value": value, "offset": offset}
    return row | {"topic": "t", "partition": partition}


def batch(count, first, last, partition=0):
    """Return any consumer's line with the offsets that it read."""
    part = {"topic": "t", "partition": partition, "count": count, "minOffset": first, "maxOffset": last}
    return {"timestamp": 7, "name": "records_consumed", "count": count, "partitions": [part]}


ENDED = {"timestamp": 9, "name": "shutdown_complete"}


@pytest.fixture
def read(tmp_path):
    """Read lists of lines, one file each."""

    def of(*files):
        paths = [tmp_path / f"{number}.json" for number in range(len(files))]
        for path, lines in zip(paths, files, strict=True):
            path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return verifiable.read(paths)

    return of


def test_one_file_or_two_say_the_same(read):
    """Producer and consumer yield the same history in one file or in two; unused events are skipped."""
    produced = [{"timestamp": 1, "name": "startup_complete"}, sent("0", 0), sent("1", 3, partition=1)]
    read_back = [{"name": "offsets_committed", "offsets": [], "success": True}, consumed("0", 0), batch(1, 0, 0)]

    for history in (read([*produced, *read_back]), read(produced, read_back)):
        assert [(s.key, s.value, s.outcome, s.offset, s.done_ns) for s in history.sends] == [
            ("t-0", "0", "ok", 0, 5_000_000),
            ("t-1", "1", "ok", 3, 5_000_000),
        ]
        assert [(r.key, r.offset, r.value) for r in history.reads] == [("t-0", 0, "0")]
        assert history.places == {'"t-0"': ("t", 0), '"t-1"': ("t", 1)}


def test_a_send_error_is_unknown(read):
    """A send error is unknown, as the record may be in the log: in the partition where it was read, or in none."""
    history = read([failed("0"), failed("1"), sent("2", 0)], [consumed("0", 9, partition=3)])

    assert {s.value: (s.key, s.outcome, s.offset) for s in history.sends} == {
        "0": ("t-3", "info", None),
        "1": ("t-?", "info", None),
        "2": ("t-0", "ok", 0),
    }
    assert history.places['"t-?"'] == ("t", NO_PARTITION)
    assert history.sends[1].error == "Expiring 1 record"


def test_acks_0_has_no_offset(read):
    """The -1 that the producer prints with acks=0 is no offset."""
    assert [s.offset for s in read([sent("0", -1), sent("1", 0)]).sends] == [None, 0]


def test_without_values_only_offsets_are_known(read):
    """A batch without gaps yields its offsets without values; one with gaps is a gap in the history."""
    history = read([sent("0", 0)], [batch(2, 0, 1), batch(2, 5, 8)])

    assert [(r.offset, r.value) for r in history.reads] == [(0, Unnamed), (1, Unnamed)]
    assert "between the offsets 5 and 8" in history.gaps[0]
    assert [row["producer_id"] for row in tables(history, "all", "read_uncommitted").polls] == [None, None]


def test_a_partition_that_was_revoked_is_read_by_another_consumer(read):
    """A revoked partition is read by a new consumer, since its committed offset can be lower."""
    revoked = {"name": "partitions_revoked", "partitions": [{"topic": "t", "partition": 0}]}
    history = read([consumed("0", 0), consumed("9", 0, partition=1), revoked, consumed("0", 0), consumed("8", 1, 1)])

    assert [r.consumer for r in history.reads] == ["consumer-1", "consumer-1", "consumer-1~1", "consumer-1"]


def test_a_killed_producer_may_have_had_sends_in_flight(read):
    """Values beyond a killed producer's last one are its sends in flight; after a shutdown they are foreign."""
    produced = [sent("4", 0), sent("6", 1)]
    read_back = [consumed("7", 2), consumed("5", 3), consumed("x", 4)]
    killed, ended = read(produced, read_back), read([*produced, ENDED], read_back)

    assert [(s.value, s.outcome, s.key) for s in killed.sends[2:]] == [("7", "info", "t-0")]
    assert len(ended.sends) == 2


def test_prefixed_values_are_counted_by_prefix(read):
    """With --value-prefix the values are <prefix>.<n>; another prefix is another producer."""
    killed = read([sent("1.4", 0)], [consumed("1.5", 1), consumed("2.5", 2)])

    assert [s.value for s in killed.sends] == ["1.4", "1.5"]


def test_a_producer_that_acknowledged_more_than_it_lists_leaves_a_gap(read):
    """A producer that counts more acknowledgements in tool_data than it lists leaves a gap."""
    counted = {"name": "tool_data", "sent": 2, "acked": 2, "target_throughput": -1, "avg_throughput": 1.0}

    assert "2 of its records" in read([sent("0", 0), counted]).gaps[0]
    assert list(read([sent("0", 0), sent("1", 1), counted]).gaps) == []


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('{"value": "0"}', "'name' is missing"),
        ('{"name": "producer_send_success", "topic": "t", "partition": 0, "value": "0"}', "'offset' is missing"),
        ('{"name": "producer_send_success", "topic": "t", "offset": 0, "value": "0"}', "'partition' is missing"),
        ('{"name": "producer_send_error", "topic": "t"}', "'value' is missing"),
        ('{"name": "record_data", "topic": "t", "partition": 0, "value": "0", "offset": -1}', "must have an offset"),
        ('{"name": "records_consumed", "partitions": 1}', "must be a list"),
    ],
)
def test_a_bad_line_is_named(tmp_path, line, says):
    """A bad line is named in one sentence with its number."""
    path = tmp_path / "producer.json"
    path.write_text('{"name": "startup_complete"}\n' + line + "\n")

    with pytest.raises(BadInput, match="line 2: ") as refused:
        verifiable.read([path])
    assert says in str(refused.value)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('{"name": ["producer_send_success"]}', "name must be a string"),
        (
            '{"name": "record_data", "topic": "t", "partition": 0, "offset": 0, "value": "a", '
            '"timestamp": 4611686018427387904}',
            "64 bits",
        ),
        (
            '{"name": "records_consumed", "partitions": [{"topic": "t", "partition": 0, "count": 1125899906842624, '
            '"minOffset": 0, "maxOffset": 1125899906842623}]}',
            "a batch from offset 0 to 1125899906842623 is none",
        ),
    ],
)
def test_what_a_line_claims_is_bounded(tmp_path, line, why):
    """A line's values are limited: names are text, times fit 64 bits of nanoseconds, batches fit memory."""
    file = tmp_path / "consumer.json"
    file.write_text(line)

    with pytest.raises(BadInput, match=f"line 1: .*{why}"):
        verifiable.read([file])


LOG = "[2026-11-02 08:15:01,123] WARN [Producer clientId=producer-1] Got error produce response (org.apache.kafka…)"


def text_of(folder, *texts):
    """Return a history of these lines, the last one without its line end."""
    file = folder / "printed.json"
    file.write_text("\n".join(text if isinstance(text, str) else json.dumps(text) for text in texts))
    return verifiable.read([file])


def test_lines_of_a_log_are_passed_over_and_counted(tmp_path):
    """Log lines, a byte order mark and CRLF are skipped; skipped lines are counted."""
    history = text_of(tmp_path, "\ufeff" + LOG, json.dumps(sent("0", 0)) + "\r", LOG, "", consumed("0", 0))

    assert (len(history.sends), len(history.reads), list(history.gaps)) == (1, 1, [])
    assert history.notes == ["Lines of the history that hold no event and were passed over: 2."]


@pytest.mark.parametrize(
    ("texts", "gap"),
    [
        ([sent("0", 0), json.dumps(consumed("0", 0))[:40]], "output cut off in the middle of line 2"),
        ([json.dumps(consumed("0", 0))[:40] + json.dumps(consumed("0", 0)), sent("0", 0)], "line 1, holds part of an"),
        ([sent("0", 0), "WARN x" + json.dumps(consumed("0", 0))[:9], LOG], "line 2, holds part of an event"),
        ([sent("0", 0), json.dumps(consumed("0", 0))[-20:], LOG], "line 2, holds part of an event"),
    ],
)
def test_an_event_that_is_not_whole_is_a_gap(tmp_path, texts, gap):
    """An incomplete event is a gap; the next event may follow on the same line."""
    history = text_of(tmp_path, *texts)

    assert gap in history.gaps[0]
    assert [send.value for send in history.sends] == ["0"]


def test_a_value_that_was_sent_twice_names_the_tools_option(read):
    """A value sent twice is rejected with --value-prefix as advice, since producers of a topic number values alike."""
    tables(read([sent("1.0", 0)], [sent("2.0", 1)]), "all", "read_committed")

    with pytest.raises(BadInput, match="--value-prefix"):
        tables(read([sent("0", 0)], [sent("0", 1)]), "all", "read_committed")


def test_an_event_behind_the_text_of_a_log_is_read(tmp_path):
    """An event after a log's text is read; after part of another event it is read, and the part is a gap."""
    glued = [LOG + json.dumps(sent("0", 0)), "WARN {x}" + json.dumps(batch(1, 0, 0)), consumed("0", 0)]
    torn = json.dumps(consumed("0", 0))[:40] + json.dumps(sent("0", 0))
    whole, lacking = text_of(tmp_path, *glued), text_of(tmp_path, torn, LOG)

    assert [(send.value, send.line.number) for send in whole.sends] == [("0", 1)]
    assert (whole.notes, list(whole.gaps)) == (["Lines of the history that hold no event and were passed over: 2."], [])
    assert [send.value for send in lacking.sends] == ["0"]
    assert "line 1, holds part of an event" in lacking.gaps[0]


@pytest.mark.parametrize(
    ("name", "value", "topic", "sends"),
    [
        ("torn", "1.4", "t", [("1.3", "ok"), ("1.5", "ok"), ("1.4", "info")]),
        ("torn", "2.4", "t", [("1.3", "ok"), ("1.5", "ok")]),
        ("torn", "1.4", "other", [("1.3", "ok"), ("1.5", "ok")]),
        ("whole", "1.4", "t", [("1.3", "ok"), ("1.5", "ok")]),
    ],
)
def test_a_record_that_a_torn_line_may_have_named_is_no_phantom(tmp_path, name, value, topic, sends):
    """A read record that a torn line may contain is a send of that line's producer, if topic and prefix match."""
    producer, consumer = tmp_path / "producer.json", tmp_path / "consumer.json"
    between = {"torn": json.dumps(sent("1.4", 1))[:40] + LOG, "whole": LOG}[name]
    lines = [json.dumps(sent("1.3", 0)), between, json.dumps(sent("1.5", 2)), json.dumps(ENDED)]
    producer.write_text("\n".join(lines) + "\n")
    consumer.write_text(json.dumps(consumed(value, 1) | {"topic": topic}) + "\n")
    history = verifiable.read([producer, consumer])

    assert [(send.value, send.outcome) for send in history.sends] == sends


def test_a_torn_line_begins_a_new_reader(tmp_path):
    """After a torn line a new reader begins, since records may be missing; log lines and other files have no effect."""
    reads = [json.dumps(consumed(str(number), number)) for number in range(4)]
    torn, whole = tmp_path / "torn.json", tmp_path / "whole.json"
    torn.write_text("\n".join([reads[0], LOG, reads[1], reads[2][:30] + LOG, reads[3]]) + "\n")
    whole.write_text("\n".join([reads[0], reads[3]]) + "\n")
    history = verifiable.read([torn, whole])

    assert [(read.consumer, read.offset) for read in history.reads] == [
        ("consumer-1", 0),
        ("consumer-1", 1),
        ("consumer-1~1", 3),
        ("consumer-2", 0),
        ("consumer-2", 3),
    ]


@pytest.mark.parametrize("line", ['{"name": "tool_data", "acked": NaN}', '{"name": "x", "name": "y"}'])
def test_an_object_that_is_no_json_is_refused_among_log_lines_too(tmp_path, line):
    """An object that is no JSON is rejected among log lines, too."""
    with pytest.raises(BadInput, match="line 2: this is not JSON"):
        text_of(tmp_path, sent("0", 0), line, LOG)


def test_a_file_without_any_event_is_refused(tmp_path):
    """A file without any event is rejected with its first line."""
    with pytest.raises(BadInput, match=r"printed\.json, line 1: this is not JSON"):
        text_of(tmp_path, LOG, LOG)
