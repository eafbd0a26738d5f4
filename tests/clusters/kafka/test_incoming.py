"""Responses of a broker, as they arrive at a socket."""

import socket
import struct
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.errors import InvalidReceiveError

from clusters.kafka.incoming import MOST_BYTES, Incoming


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two ends of a connection."""
    here, there = socket.socketpair()
    with here, there:
        yield here, there


def test_a_closed_connection_is_told_with_its_peer(pair: tuple[socket.socket, socket.socket]) -> None:
    """The error of a closed connection names the broker."""
    here, there = pair
    there.close()

    with pytest.raises(ConnectionResetError, match="broker-1:9092 closed"):
        Incoming("broker-1:9092").receive(here)


@pytest.mark.parametrize("size", [-1, 0, MOST_BYTES + 1, 2**31 - 1])
def test_a_size_that_is_none_takes_no_memory(pair: tuple[socket.socket, socket.socket], size: int) -> None:
    """An invalid or huge frame size raises an error before memory is allocated."""
    here, there = pair
    there.sendall(struct.pack(">i", size))

    with pytest.raises(InvalidReceiveError, match=f"{size} bytes"):
        Incoming("broker-1:9092").receive(here)


@given(
    answers=st.lists(st.binary(min_size=1, max_size=9_000), min_size=1, max_size=5),
    cuts=st.lists(st.integers(1, 6_000), min_size=1, max_size=8),
)
def test_answers_arrive_whole_however_they_are_cut(answers: list[bytes], cuts: list[int]) -> None:
    """Each response is returned once, whole and in order, however the network splits or joins the bytes."""
    stream = b"".join(struct.pack(">i", len(answer)) + answer for answer in answers)
    here, there = socket.socketpair()
    with here, there:
        here.setblocking(False)
        incoming, found, at = Incoming("broker-1:9092"), list[bytes](), 0
        while at < len(stream):
            cut = cuts[len(found) % len(cuts)]
            there.sendall(stream[at : at + cut])
            at += cut
            try:
                while True:
                    if (answer := incoming.receive(here)) is not None:
                        found.append(bytes(answer))
            except BlockingIOError:
                pass

    assert found == answers


def test_an_answer_holds_while_the_next_one_arrives(pair: tuple[socket.socket, socket.socket]) -> None:
    """A response stays valid while the next one arrives; its buffer is reused for the one after that."""
    here, there = pair
    incoming, found = Incoming("broker-1:9092"), list[memoryview]()
    for answer in (b"first", b"other", b"third"):
        there.sendall(struct.pack(">i", len(answer)) + answer)
        while (arrived := incoming.receive(here)) is None:
            pass
        found.append(arrived)
        assert [bytes(held) for held in found[-2:]] == [b"first", b"other", b"third"][
            max(len(found) - 2, 0) : len(found)
        ]

    assert bytes(found[0]) == b"third"
