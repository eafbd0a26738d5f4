"""Give the wire probe answers that are cut, delayed or damaged at every byte.

The probe must return a value or raise its documented error (OSError, or CorruptRecordError for a batch). The counts are
rows of docs/data/bad_input.json.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from kafka.errors import CorruptRecordError
from kafka.protocol.consumer import FetchRequest, FetchResponse, ListOffsetsRequest, ListOffsetsResponse
from kafka.protocol.metadata import MetadataRequest, MetadataResponse
from kafka.protocol.producer import ProduceRequest, ProduceResponse

from clusters.kafka.connection import TIMEOUT, UNREACHABLE, Connection
from clusters.kafka.fetching import consume, read_batches
from clusters.kafka.offsets import list_offsets
from clusters.kafka.probe import BEYOND_ANY_LOG, probe_all
from clusters.kafka.producing import produce, record_batch
from clusters.kafka.views import metadata
from history.partition import TopicPartition
from tests.bad_input.documents import RESULTS
from tests.rows import Row, put, today

REPLICA = TopicPartition("orders", 0)
RECORDS = [b"one", b"two", b"three"]
TIMEOUT_S = 2.0
SHORT_TIMEOUT_S = 0.05
PAUSE_S = 0.005
_REQUESTS = {each.API_KEY: each for each in (FetchRequest, ListOffsetsRequest, MetadataRequest, ProduceRequest)}


class Question(NamedTuple):
    """A function of the probe that queries a broker."""

    ask: Callable[[Connection], Any]


class Pause(NamedTuple):
    """A broker's pause before one byte of an answer."""

    answer: int
    byte: int


class Attempt(NamedTuple):
    """The result: ``value``, ``error`` (a documented one) or ``crash``."""

    outcome: str
    value: Any = None
    why: str = ""


def _produce(connection: Connection) -> Any:
    (told,) = produce(connection, *REPLICA, [[b"v"]], "all")
    if told.error in (TIMEOUT, UNREACHABLE):
        raise OSError(told.error)
    return told


QUESTIONS = {
    "metadata": Question(lambda connection: metadata(connection, ["orders"])),
    "list offsets": Question(lambda connection: list_offsets(connection, {REPLICA})),
    "probe": Question(lambda connection: probe_all(connection, [REPLICA])),
    "consume": Question(lambda connection: consume(connection, REPLICA, 0, 3)),
    "read batches": Question(lambda connection: read_batches(connection, REPLICA, 0)),
    "produce": Question(_produce),
}


# --- a broker ----------------------------------------------------------------------------------------


def _answer(frame: bytes) -> bytes:
    key, version = struct.unpack_from(">hh", frame)
    request = _REQUESTS[key].decode(frame, version=version, header=True)
    answer = {
        FetchRequest.API_KEY: _fetched,
        ListOffsetsRequest.API_KEY: _listed,
        MetadataRequest.API_KEY: _metadata,
        ProduceRequest.API_KEY: _produced,
    }[key](request, version)
    answer.with_header(correlation_id=request.header.correlation_id)
    return bytes(answer.encode(header=True, framed=True))


def _fetched(request: Any, version: int) -> Any:
    asked = request.topics[0].partitions[0]
    topic = FetchResponse.FetchableTopicResponse
    beyond = asked.fetch_offset >= BEYOND_ANY_LOG
    part = topic.PartitionData(
        partition_index=0,
        error_code=0,
        high_watermark=3,
        last_stable_offset=3,
        log_start_offset=0,
        aborted_transactions=[],
        preferred_read_replica=-1,
        records=record_batch(RECORDS, 1000) if asked.fetch_offset == 0 else b"",
    )
    if beyond:
        part.diverging_epoch = topic.PartitionData.EpochEndOffset(epoch=3, end_offset=3)
    return FetchResponse[version](
        throttle_time_ms=0, error_code=0, session_id=0, responses=[topic(topic="orders", partitions=[part])]
    )


def _listed(_: Any, version: int) -> Any:
    topic = ListOffsetsResponse.ListOffsetsTopicResponse
    part = topic.ListOffsetsPartitionResponse(partition_index=0, error_code=0, timestamp=-1, offset=3, leader_epoch=3)
    return ListOffsetsResponse[version](throttle_time_ms=0, topics=[topic(name="orders", partitions=[part])])


def _metadata(_: Any, version: int) -> Any:
    broker, topic = MetadataResponse.MetadataResponseBroker, MetadataResponse.MetadataResponseTopic
    part = topic.MetadataResponsePartition(
        error_code=0,
        partition_index=0,
        leader_id=1,
        leader_epoch=3,
        replica_nodes=[1, 2],
        isr_nodes=[1, 2],
        offline_replicas=[],
    )
    told = topic(error_code=0, name="orders", is_internal=False, partitions=[part])
    brokers = [broker(node_id=1, host="127.0.0.1", port=9092, rack=None)]
    return MetadataResponse[version](
        throttle_time_ms=0, brokers=brokers, cluster_id="c", controller_id=1, topics=[told]
    )


def _produced(_: Any, version: int) -> Any:
    topic = ProduceResponse.TopicProduceResponse
    part = topic.PartitionProduceResponse(
        index=0, error_code=0, base_offset=3, log_append_time_ms=-1, log_start_offset=0
    )
    return ProduceResponse[version](responses=[topic(name="orders", partition_responses=[part])], throttle_time_ms=0)


def _serve(server: socket.socket, say: Callable[[int, bytes], Iterable[bytes] | None], last: int) -> None:
    """Disconnect on None and after answer number ``last`` (0: never)."""
    connection, _ = server.accept()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with connection:
        number = 0
        try:
            while header := connection.recv(4, socket.MSG_WAITALL):
                frame = connection.recv(struct.unpack(">i", header)[0], socket.MSG_WAITALL)
                answer = say(number, frame)
                if answer is None:
                    return
                for part in answer:
                    connection.sendall(part)
                number += 1
                if number == last:
                    return
        except OSError:
            return


def _asked(
    question: Question, say: Callable[[int, bytes], Iterable[bytes] | None], timeout_s: float, last: int = 0
) -> Attempt:
    with socket.create_server(("127.0.0.1", 0)) as server:
        serving = threading.Thread(target=_serve, args=(server, say, last), daemon=True)
        serving.start()
        host, port = server.getsockname()
        connection = Connection(host, port, timeout_s)
        try:
            return Attempt("value", question.ask(connection))
        except (OSError, CorruptRecordError) as error:
            return Attempt("error", why=type(error).__name__)
        except Exception as error:  # noqa: BLE001  # any other exception is a finding
            return Attempt("crash", why=f"{type(error).__name__}: {error}")
        finally:
            connection.close()
            serving.join(timeout=5)


def answers_of(question: Question) -> list[bytes]:
    """Return the answer frames to a question."""
    told: list[bytes] = []

    def say(_: int, frame: bytes) -> list[bytes]:
        told.append(_answer(frame))
        return told[-1:]

    _asked(question, say, TIMEOUT_S)
    return told


def attempt(
    question: Question,
    frames: Sequence[bytes],
    *,
    pause: Pause | None = None,
    stay_open: bool = False,
    timeout_s: float = TIMEOUT_S,
) -> Attempt:
    """Query a broker that sends these bytes, then disconnects or stays silent."""

    def say(number: int, _: bytes) -> Iterator[bytes] | None:
        if number >= len(frames):
            return None
        at = pause.byte if pause and pause.answer == number else None
        return iter([frames[number]]) if at is None else _in_two(frames[number], at)

    return _asked(question, say, timeout_s, 0 if stay_open else len(frames))


def _in_two(frame: bytes, at: int) -> Iterator[bytes]:
    yield frame[:at]
    time.sleep(PAUSE_S)
    yield frame[at:]


# --- damage ------------------------------------------------------------------------------------------


def cut(frames: Sequence[bytes], step: int = 1) -> Iterator[list[bytes]]:
    """Yield the answers up to each byte."""
    for number, frame in enumerate(frames):
        for size in range(0, len(frame), step):
            yield [*frames[:number], frame[:size]]


def flipped(frames: Sequence[bytes], step: int = 1) -> Iterator[list[bytes]]:
    """Yield the answers with one byte inverted."""
    for number, frame in enumerate(frames):
        for at in range(0, len(frame), step):
            damaged = frame[:at] + bytes([frame[at] ^ 0xFF]) + frame[at + 1 :]
            yield [*frames[:number], damaged, *frames[number + 1 :]]


def pauses(frames: Sequence[bytes], step: int = 1) -> Iterator[Pause]:
    """Yield a pause before each byte."""
    return (Pause(number, at) for number, frame in enumerate(frames) for at in range(0, len(frame), step))


def silent(question: Question, step: int = 1) -> list[Any]:
    """Return accepted records that the broker did not send."""
    found = []
    for frames in flipped(answers_of(question), step):
        told = attempt(question, frames, timeout_s=TIMEOUT_S)
        if told.outcome == "value":
            records, error = told.value
            found += [each for each in records if error is None and each.sound and each.value not in RECORDS]
    return found


def attempts(question: Question) -> Iterator[tuple[str, Iterator[Attempt]]]:
    """Yield each kind of damage with its attempts."""
    frames = answers_of(question)
    yield "cut", (attempt(question, each) for each in cut(frames))
    yield "damaged", (attempt(question, each) for each in flipped(frames))
    yield "delayed within the limit", (attempt(question, frames, pause=each) for each in pauses(frames))
    yield (
        "delayed",
        (attempt(question, each, stay_open=True, timeout_s=SHORT_TIMEOUT_S) for each in cut(frames)),
    )


def counted(kind: str, ended: Sequence[Attempt]) -> Row:
    """Count answers, documented errors, values and crashes."""
    for each in ended:
        if each.outcome == "crash":
            print(f"  {kind}: {each.why}")
    row = {outcome: sum(each.outcome == outcome for each in ended) for outcome in ("error", "value", "crash")}
    return {
        "kind": kind,
        "inputs": len(ended),
        "refused": row["error"],
        "read": row["value"],
        "crashes": row["crash"],
        "refusal": "OSError",
        "date": today(),
    }


def main() -> None:
    """Count all attempts and write the rows."""
    began_s, rows = time.monotonic(), list[Row]()
    for name, question in QUESTIONS.items():
        rows += [counted(f"answer to {name}, {kind}", list(ended)) for kind, ended in attempts(question)]
    put(RESULTS, "kind", rows)
    for row in rows:
        print(", ".join(f"{key} {value}" for key, value in row.items()))
    print(f"in {time.monotonic() - began_s:.0f} s")


if __name__ == "__main__":
    main()
