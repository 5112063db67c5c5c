"""How workers find each other among strangers, latecomers and processes of other runs."""

import json
import socket
import struct
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from localsim.core import MeshError
from localsim.core.wire.links import dial, receive_words, send_words
from localsim.core.wire.rendezvous import RunIdentity, connect_peers
from unit.localsim.core.mesh.processes import free_ports

LONG_S, SHORT_S = 30, 0.5


@pytest.fixture
def places():
    """Addresses of three workers."""
    return [("127.0.0.1", port) for port in free_ports(3)]


@pytest.fixture
def threads():
    with ThreadPoolExecutor() as threads:
        yield threads


def identity(worker_id, attempt="1"):
    return RunIdentity(attempt, "v4-24", 3, worker_id)


def come(who, places, limit_s=LONG_S):
    """Meet, tell a number on each connection, read that of the others, and hang up."""
    links = connect_peers(who, places, time.monotonic() + limit_s)
    told = {}
    for purpose, by_peer in links.items():
        for link in by_peer.values():
            link.settimeout(LONG_S)
            link.sendall(bytes([who.worker_id]))
        told[purpose] = {peer: link.recv(1)[0] for peer, link in by_peer.items()}
    for by_peer in links.values():
        for link in by_peer.values():
            link.close()
    return told


def met(worker_id):
    """Each connection leads to whom it should."""
    peers = {peer: peer for peer in range(3) if peer != worker_id}
    return {"data": peers, "pulse": peers}


def all_others_come(first, places, threads):
    """Worker 0, which is there, meets the others as if nothing had been."""
    coming = [threads.submit(come, identity(each), places) for each in (1, 2)]
    assert [each.result() for each in (first, *coming)] == [met(0), met(1), met(2)]


def call(address):
    """A connection to a worker that may not listen yet."""
    until_s = time.monotonic() + LONG_S
    while True:
        try:
            return dial(address, until_s)
        except OSError:
            assert time.monotonic() < until_s


def hello(**changed):
    words = {
        "attempt": "1", "accelerator_type": "v4-24", "worker_count": 3, "worker_id": 1,
        "purpose": "data",
    }  # fmt: skip
    return {**words, **changed}


def test_each_worker_gets_two_connections_to_every_other(places, threads):
    coming = [threads.submit(come, identity(each), places) for each in (2, 0, 1)]
    assert [each.result() for each in coming] == [met(2), met(0), met(1)]


def test_silent_strangers_cost_no_time(places, threads):
    """Each of them may keep its call for two seconds; in series that would be a minute."""
    first = threads.submit(come, identity(0), places, 9)
    strangers = [call(places[0]) for _ in range(30)]
    coming = [threads.submit(come, identity(each), places, 9) for each in (1, 2)]
    assert [each.result() for each in (first, *coming)] == [met(0), met(1), met(2)]
    for each in strangers:
        each.close()


@pytest.mark.parametrize(
    "noise",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack("<I", 2**32 - 1),
        struct.pack("<I", 4000) + b"[" * 4000,
        struct.pack("<I", 2) + b"[]",
        b"",
    ],
)
def test_noise_does_not_disturb(places, threads, noise):
    first = threads.submit(come, identity(0), places)
    with call(places[0]) as stranger:
        stranger.sendall(noise)
        all_others_come(first, places, threads)


@pytest.mark.parametrize(
    ("changed", "refusal"),
    [
        ({"attempt": "2"}, "its attempt is 1"),
        ({"accelerator_type": "v4-16"}, "its accelerator_type is v4-24"),
        ({"worker_count": 2}, "its worker_count is 3"),
        ({"worker_id": 0}, "it awaits no call of a worker 0"),
        ({"worker_id": 3}, "it awaits no call of a worker 3"),
        ({"worker_id": True}, "it awaits no call of a worker True"),
        ({"purpose": "gossip"}, "it knows no calls for gossip"),
    ],
)
def test_who_does_not_belong_is_told_why(places, threads, changed, refusal):
    first = threads.submit(come, identity(0), places)
    with call(places[0]) as stranger:
        send_words(stranger, hello(**changed), time.monotonic() + LONG_S)
        assert receive_words(stranger, time.monotonic() + LONG_S) == {"refused": refusal}
    all_others_come(first, places, threads)


def test_a_second_worker_of_the_same_number_is_refused_while_the_first_is_there(places, threads):
    first = threads.submit(come, identity(0), places)
    deadline_s = time.monotonic() + LONG_S
    answers = []
    with call(places[0]) as one, call(places[0]) as same:
        for each in (one, same):
            send_words(each, hello(), deadline_s)
            answers.append(receive_words(each, deadline_s))
    assert answers == [{"welcome": 0}, {"refused": "it has a worker 1 already"}]
    all_others_come(first, places, threads)


def test_a_worker_that_calls_again_after_its_connection_broke_is_welcome(places, threads):
    first = threads.submit(come, identity(0), places)
    with call(places[0]) as broken:
        send_words(broken, hello(), time.monotonic() + LONG_S)
        assert receive_words(broken, time.monotonic() + LONG_S) == {"welcome": 0}
    all_others_come(first, places, threads)


def test_a_worker_of_another_attempt_learns_which_one_runs(places, threads):
    first = threads.submit(come, identity(0), places)
    older = threads.submit(come, replace(identity(1), attempt="0"), places, SHORT_S)
    with pytest.raises(MeshError, match="worker 0, worker 2 are missing: its attempt is 1"):
        older.result()
    all_others_come(first, places, threads)


def test_a_port_is_waited_for_while_a_process_of_an_older_attempt_has_it(places, threads):
    older = threads.submit(come, replace(identity(1), attempt="0"), places, SHORT_S)
    call(places[1]).close()  # it is there before the others
    first = threads.submit(come, identity(0), places)
    all_others_come(first, places, threads)
    assert isinstance(older.exception(), MeshError)


def test_a_port_that_is_taken_is_named(places):
    with (
        socket.create_server(places[1]),
        pytest.raises(MeshError, match=f"worker 1 cannot listen at 127.0.0.1:{places[1][1]}"),
    ):
        connect_peers(identity(1), places, time.monotonic() + 0.1)


def test_words_are_small_records(places):
    with socket.create_server(places[0]) as server, dial(places[0], time.monotonic() + 5) as link:
        other, _ = server.accept()
        with other:
            send_words(link, {"a": [1]}, time.monotonic() + 5)
            link.sendall(b"what follows")
            assert receive_words(other, time.monotonic() + 5) == json.loads('{"a": [1]}')
            assert other.recv(99) == b"what follows"
