"""Messages keep their order and their descriptors, however the bytes are cut."""

import os
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localsim.workers.isolation.inside.socket_messages import GarbledError, Inbox, pack, send

TEXTS = st.text(max_size=200)


@given(st.lists(st.tuples(TEXTS, st.integers(0, 3)), max_size=6))
def test_what_is_sent_is_received(sent):
    near, far = socket.socketpair()
    inbox = Inbox()
    with near, far:
        for text, count in sent:
            opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(count)]
            send(near, {"text": text}, *opened)
            for descriptor in opened:
                os.close(descriptor)
        near.shutdown(socket.SHUT_WR)
        while inbox.receive(far):
            pass
    for text, count in sent:
        message, descriptors = inbox.take()
        assert (message, len(descriptors)) == ({"text": text}, count)
        for descriptor in descriptors:
            assert not os.get_inheritable(descriptor)
            os.close(descriptor)
    assert inbox.take() is None


@given(st.integers(1, 40), TEXTS)
def test_a_message_is_taken_only_when_it_is_whole(size, text):
    data = pack({"text": text})
    near, far = socket.socketpair()
    inbox = Inbox()
    with near, far:
        for start in range(0, len(data), size):
            assert inbox.take() is None
            near.sendall(data[start : start + size])
            inbox.receive(far)
    assert inbox.take() == ({"text": text}, [])


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\xff\xff\xff\xff\0", id="too long to wait for"),
        pytest.param(b"\0\0\0\2\0{]", id="no JSON"),
        pytest.param(b"\0\0\0\2\0[]", id="no object"),
        pytest.param(b"\0\3\xd0\x90\0" + b"[" * 250_000, id="too deep"),
    ],
)
def test_what_is_no_message_is_refused(data):
    near, far = socket.socketpair()
    inbox = Inbox()
    with near, far:
        for start in range(0, len(data), 4096):
            near.sendall(data[start : start + 4096])
            inbox.receive(far)
    with pytest.raises(GarbledError):
        inbox.take()


def test_descriptors_of_a_message_that_never_came_are_closed():
    near, far = socket.socketpair()
    inbox = Inbox()
    reading, writing = os.pipe()
    with near, far:
        socket.send_fds(near, [pack({}, 1)[:3]], [writing])
        os.close(writing)
        inbox.receive(far)
        inbox.close()
    assert os.read(reading, 1) == b""
    os.close(reading)
