"""Scripted brokers of one partition: real sockets, real clients, and stale metadata where a test wants it."""

from __future__ import annotations

import socket
import socketserver
import struct
import threading
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from kafka.protocol.consumer import (
    FetchRequest,
    FetchResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse, MetadataRequest, MetadataResponse
from kafka.record import MemoryRecordsBuilder

from clusters.kafka.offsets import EARLIEST
from history.payload import encode

TOPIC = "t"
APIS = {
    request.API_KEY: (request, response, versions)
    for request, response, versions in (
        (FetchRequest, FetchResponse, (4, 12)),
        (ListOffsetsRequest, ListOffsetsResponse, (1, 5)),
        (MetadataRequest, MetadataResponse, (0, 12)),
        (ApiVersionsRequest, ApiVersionsResponse, (0, 3)),
        (OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse, (2, 4)),
    )
}


def batch(offset: int, epoch: int) -> bytes:
    """Encode a batch with one record in the project's format; the sequence number is the offset."""
    builder = MemoryRecordsBuilder(magic=2, compression_type=0, batch_size=1 << 16, offset=offset)
    builder.append(1000, None, encode("load-1", offset, 100))
    builder.close()
    data = bytearray(builder.buffer())
    struct.pack_into(">i", data, 12, epoch)  # outside of the checksum
    return bytes(data)


@dataclass
class Broker:
    """A broker's state: its leader and epoch, and a log that stores each offset's epoch; ``start`` is the log start.

    Like Kafka, it answers as leader while it believes that it leads, and only requests with its epoch or with none.
    """

    number: int
    leader: int = 1
    epoch: int = 0
    log: list[int] = field(default_factory=list)
    start: int = 0
    address: tuple[str, int] = ("", 0)
    answered: Counter[str] = field(default_factory=Counter)
    fetched_from: int = -1  # the largest fetch offset so far
    asked_last: int = -1
    peers: list[Broker] = field(default_factory=list)

    def answer(self, request: Any, response: Any) -> Any:
        """Return the response to one request."""
        name = type(request).__name__.partition("Request")[0]
        self.answered[name] += 1
        return getattr(self, f"_{name}")(request, response)

    def _refusal(self, asked_in: int) -> int:
        if asked_in >= 0 and asked_in != self.epoch:
            return 74 if asked_in < self.epoch else 75
        return 0 if self.leader == self.number else 6

    def _ApiVersions(self, _: Any, response: Any) -> Any:  # noqa: N802
        of = ApiVersionsResponse.ApiVersion
        keys = [of(api_key=key, min_version=low, max_version=high) for key, (_, _, (low, high)) in APIS.items()]
        return response(error_code=0, api_keys=keys, throttle_time_ms=0)

    def _Metadata(self, request: Any, response: Any) -> Any:  # noqa: N802
        broker, topic = MetadataResponse.MetadataResponseBroker, MetadataResponse.MetadataResponseTopic
        part = topic.MetadataResponsePartition(
            error_code=0,
            partition_index=0,
            leader_id=self.leader,
            leader_epoch=self.epoch,
            replica_nodes=[1, 2],
            isr_nodes=[1, 2],
            offline_replicas=[],
        )
        told = topic(error_code=0, name=TOPIC, topic_id=uuid.UUID(int=7), is_internal=False, partitions=[part])
        peers = [broker(node_id=p.number, host=p.address[0], port=p.address[1], rack=None) for p in self.peers]
        return response(throttle_time_ms=0, brokers=peers, cluster_id="c", controller_id=1, topics=[told])

    def _ListOffsets(self, request: Any, response: Any) -> Any:  # noqa: N802
        asked = request.topics[0].partitions[0]
        topic = ListOffsetsResponse.ListOffsetsTopicResponse
        refused = self._refusal(asked.current_leader_epoch if asked.current_leader_epoch is not None else -1)
        offset = -1 if refused else self.start if asked.timestamp == EARLIEST else len(self.log)
        part = topic.ListOffsetsPartitionResponse(
            partition_index=0, error_code=refused, timestamp=-1, offset=offset, leader_epoch=self.epoch
        )
        return response(throttle_time_ms=0, topics=[topic(name=TOPIC, partitions=[part])])

    def _OffsetForLeaderEpoch(self, request: Any, response: Any) -> Any:  # noqa: N802
        asked = request.topics[0].partitions[0]
        topic = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult
        epoch, end = self._end_of(asked.leader_epoch)
        refused = self._refusal(asked.current_leader_epoch)
        part = topic.EpochEndOffset(error_code=refused, partition=0, leader_epoch=epoch, end_offset=end)
        return response(throttle_time_ms=0, topics=[topic(topic=TOPIC, partitions=[part])])

    def _end_of(self, epoch: int) -> tuple[int, int]:
        """Return the largest epoch in the log that is at most ``epoch``, and its end offset."""
        below = [offset for offset, of in enumerate(self.log) if of <= epoch]
        return (self.log[below[-1]], below[-1] + 1) if below else (-1, -1)

    def _Fetch(self, request: Any, response: Any) -> Any:  # noqa: N802
        topic = FetchResponse.FetchableTopicResponse
        if not request.topics:
            return response(throttle_time_ms=0, error_code=0, session_id=0, responses=[])
        asked = request.topics[0].partitions[0]
        self.fetched_from, self.asked_last = max(self.fetched_from, asked.fetch_offset), asked.fetch_offset
        error = self._refusal(asked.current_leader_epoch)
        diverging = None
        last = -1 if asked.last_fetched_epoch is None else asked.last_fetched_epoch
        inside = self.start <= asked.fetch_offset
        if not error and inside and last >= 0 and self._end_of(last)[1] < asked.fetch_offset:
            diverging = self._end_of(last)  # as Kafka does, before it looks at where the log ends
        elif not error and not (inside and asked.fetch_offset <= len(self.log)):
            error = 1
        at = asked.fetch_offset
        some = [] if error or diverging else [batch(at + n, of) for n, of in enumerate(self.log[at : at + 5])]
        if not some:
            threading.Event().wait(0.02)  # as a broker waits for more
        part = topic.PartitionData(
            partition_index=0,
            error_code=error,
            high_watermark=len(self.log),
            last_stable_offset=len(self.log),
            log_start_offset=self.start,
            aborted_transactions=[],
            preferred_read_replica=-1,
            records=b"".join(some),
        )
        if diverging:
            part.diverging_epoch = topic.PartitionData.EpochEndOffset(epoch=diverging[0], end_offset=diverging[1])
        return response(
            throttle_time_ms=0, error_code=0, session_id=0, responses=[topic(topic=TOPIC, partitions=[part])]
        )


def _serve(broker: Broker, connection: socket.socket) -> None:
    while header := connection.recv(4, socket.MSG_WAITALL):
        frame = connection.recv(struct.unpack(">i", header)[0], socket.MSG_WAITALL)
        key, version = struct.unpack_from(">hh", frame)
        request_class, response_class, _ = APIS[key]
        request = request_class.decode(frame, version=version, header=True)
        answer = broker.answer(request, response_class[version])
        answer.with_header(correlation_id=request.header.correlation_id)
        connection.sendall(answer.encode(header=True, framed=True))


@contextmanager
def brokers(*staged: Broker) -> Iterator[SimpleNamespace]:
    """Serve the brokers; ``bootstrap`` lists their addresses."""
    servers = []
    for broker in staged:

        class Handler(socketserver.BaseRequestHandler):
            own = broker

            def handle(self) -> None:
                try:
                    _serve(self.own, self.request)
                except OSError:
                    return

        server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        server.block_on_close = False
        broker.address, broker.peers = server.server_address[:2], list(staged)  # type: ignore[assignment]
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        servers.append(server)
    try:
        yield SimpleNamespace(bootstrap=[f"127.0.0.1:{broker.address[1]}" for broker in staged])
    finally:
        for server in servers:
            server.shutdown()
            server.server_close()
