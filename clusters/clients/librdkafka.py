"""Produce many records at a time through librdkafka's C interface, with arrays instead of objects.

Constants and layouts are rdkafka.h's, stable within version 2.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from ctypes import c_char_p, c_int, c_int32, c_size_t, c_void_p
from functools import cache
from typing import Any, NamedTuple

import confluent_kafka.cimpl
import numpy as np
from numpy.typing import NDArray

from history.errors import BadInput

_PRODUCER, _CONF_OK = 0, 0
_QUEUED_AND_IN_FLIGHT = 0x1 | 0x2  # RD_KAFKA_PURGE_F_QUEUE, RD_KAFKA_PURGE_F_INFLIGHT
PURGED = (-152, -151)  # errors of records purged from its queues, or in flight
_EVENT_DR = 0x1
_COPY, _BY_PARTITION = 0x2, 0x8  # RD_KAFKA_MSG_F_COPY, RD_KAFKA_MSG_F_PARTITION
_FIELDS = {  # rd_kafka_message_t on 64 bits: type and offset
    "error": ("i4", 0),
    "partition": ("i4", 16),
    "value": ("u8", 24),
    "value_bytes": ("u8", 32),
    "key": ("u8", 40),
    "key_bytes": ("u8", 48),
    "offset": ("i8", 56),
    "number": ("i8", 64),
}
_FORMATS, _OFFSETS = zip(*_FIELDS.values(), strict=True)
_MESSAGE = np.dtype({"names": list(_FIELDS), "formats": _FORMATS, "offsets": _OFFSETS, "itemsize": 72})
_AnyMessage = ctypes.c_char * _MESSAGE.itemsize

Ints = NDArray[np.int64]


class Delivered(NamedTuple):
    """Answered records as columns: number, error (0: none), offset, partition (-1: none)."""

    numbers: Ints
    errors: Ints
    offsets: Ints
    partitions: Ints


class Producer:
    """Produce to one topic; raise BadInput if the library rejects a setting."""

    def __init__(self, settings: Mapping[str, Any], topic: str) -> None:
        library, why = _library(), ctypes.create_string_buffer(512)
        conf = library.rd_kafka_conf_new()
        for name, value in settings.items():
            said = str(value).lower() if isinstance(value, bool) else str(value)
            if library.rd_kafka_conf_set(conf, name.encode(), said.encode(), why, len(why)) != _CONF_OK:
                raise BadInput(f"librdkafka rejects {name}: {why.value.decode()}.")
        library.rd_kafka_conf_set_events(conf, _EVENT_DR)
        self._handle = library.rd_kafka_new(_PRODUCER, conf, why, len(why))
        if not self._handle:
            raise BadInput(f"librdkafka rejects these settings: {why.value.decode()}.")
        self._topic = library.rd_kafka_topic_new(self._handle, topic.encode(), None)
        self._answers = library.rd_kafka_queue_get_main(self._handle)
        self._library = library
        self._messages = np.zeros(0, _MESSAGE)

    def produce(
        self, first: int, partitions: Ints, data: NDArray[np.uint8], starts: Ints, keys: NDArray[np.uint8] | None = None
    ) -> Ints:
        """Hand over consecutive records; return their errors (0: accepted).

        Partition -1: the library chooses. Values in ``data`` reach from each start to the next.
        """
        if self._messages.size < partitions.size:
            self._messages = np.zeros(partitions.size, _MESSAGE)
        messages = self._messages[: partitions.size]
        messages["error"] = 0
        messages["partition"] = partitions
        messages["value"] = data.ctypes.data + starts[:-1]
        messages["value_bytes"] = starts[1:] - starts[:-1]
        if keys is not None:
            messages["key"] = keys.ctypes.data + np.arange(len(keys)) * keys.strides[0]
            messages["key_bytes"] = keys.shape[1]
        messages["number"] = np.arange(first, first + partitions.size)
        flags = _COPY | _BY_PARTITION
        self._library.rd_kafka_produce_batch(self._topic, -1, flags, messages.ctypes.data, partitions.size)
        return messages["error"].astype(np.int64)

    def purge(self) -> None:
        self._library.rd_kafka_purge(self._handle, _QUEUED_AND_IN_FLIGHT)

    def delivered(self, events: int) -> Delivered | None:
        library, found, pointers = self._library, list[int](), list[Ints]()
        while len(found) < events and (event := library.rd_kafka_queue_poll(self._answers, 0)):
            found.append(event)
            pointers.append(np.empty(library.rd_kafka_event_message_count(event), np.int64))
            library.rd_kafka_event_message_array(event, pointers[-1].ctypes.data, pointers[-1].size)
        if not found:
            return None
        addresses = np.concatenate(pointers).tolist()  # other events have no messages
        messages = np.frombuffer(b"".join(map(_AnyMessage.from_address, addresses)), _MESSAGE)
        for event in found:
            library.rd_kafka_event_destroy(event)
        columns = (messages[name].astype(np.int64) for name in ("number", "error", "offset", "partition"))
        return Delivered(*columns) if messages.size else None


def error_name(code: int) -> str:
    """Return librdkafka's own error's name, such as ``_MSG_TIMED_OUT``."""
    return str(_library().rd_kafka_err2name(code).decode())


@cache
def _library() -> Any:
    library = ctypes.CDLL(confluent_kafka.cimpl.__file__)
    for name, result, arguments in (
        ("rd_kafka_conf_new", c_void_p, ()),
        ("rd_kafka_conf_set", c_int, (c_void_p, c_char_p, c_char_p, c_char_p, c_size_t)),
        ("rd_kafka_conf_set_events", None, (c_void_p, c_int)),
        ("rd_kafka_new", c_void_p, (c_int, c_void_p, c_char_p, c_size_t)),
        ("rd_kafka_topic_new", c_void_p, (c_void_p, c_char_p, c_void_p)),
        ("rd_kafka_purge", c_int, (c_void_p, c_int)),
        ("rd_kafka_queue_get_main", c_void_p, (c_void_p,)),
        ("rd_kafka_produce_batch", c_int, (c_void_p, c_int32, c_int, c_void_p, c_int)),
        ("rd_kafka_queue_poll", c_void_p, (c_void_p, c_int)),
        ("rd_kafka_event_message_count", c_size_t, (c_void_p,)),
        ("rd_kafka_event_message_array", c_size_t, (c_void_p, c_void_p, c_size_t)),
        ("rd_kafka_event_destroy", None, (c_void_p,)),
        ("rd_kafka_err2name", c_char_p, (c_int,)),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library
