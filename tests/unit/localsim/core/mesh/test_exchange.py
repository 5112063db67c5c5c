"""One round of messages: nothing blocks, and whatever goes wrong is said in words."""

import socket
import threading

import numpy as np
import pytest

from localsim.core import MeshError
from unit.localsim.core.mesh.crews import Crew


@pytest.fixture
def pair():
    """Two workers."""
    crew = Crew(2, silence_s=4)
    yield crew
    crew.close()


def swap(exchange, words, array):
    """Give an array to the other of two workers, get one of that shape."""
    peer = 1 - exchange.worker_id
    received = np.empty_like(array)
    exchange.begin(words)
    exchange.run({peer: [array]}, {peer: [received]})
    return received


def test_both_may_send_more_than_the_connection_holds():
    crew = Crew(2, buffer_bytes=4096)
    arrays = [np.arange(2**20) + worker_id for worker_id in range(2)]
    got = crew.each(swap, crew.exchanges, ["big"] * 2, arrays)
    crew.close()
    assert all(map(np.array_equal, got, reversed(arrays)))


def test_many_arrays_go_in_one_message(pair):
    def work(exchange):
        peer = 1 - exchange.worker_id
        given = [np.full(number % 3, number, np.int16) for number in range(500)]
        got = [np.empty_like(each) for each in given]
        exchange.begin("many")
        exchange.run({peer: given}, {peer: got})
        return all(map(np.array_equal, got, given))

    assert pair.each(work, pair.exchanges) == [True, True]


@pytest.mark.parametrize(
    ("here", "there"),
    [
        (("sum", np.zeros(3)), ("gather", np.zeros(3))),
        (("sum of f8[3]", np.zeros(3)), ("sum of f8[5]", np.zeros(5))),
        (("sum over ä", np.zeros(3)), ("sum over ö", np.zeros(3))),
        (
            (" ".join(["long"] * 99) + " a", np.zeros(3)),
            (" ".join(["long"] * 99) + " b", np.zeros(3)),
        ),
    ],
)
def test_workers_at_different_collectives_are_told_so_on_both_sides(pair, here, there):
    errors = pair.each(swap, pair.exchanges, *zip(here, there, strict=True))
    assert [type(each) for each in errors] == [MeshError] * 2
    assert len(set(map(str, errors))) == 1
    assert "the workers are at different collectives: worker 0 at number 1, " in str(errors[0])


def test_one_that_is_a_collective_ahead_is_told_apart(pair):
    pair.exchanges[1].begin("only here")
    errors = pair.each(swap, pair.exchanges, ["sum"] * 2, [np.zeros(1)] * 2)
    assert str(errors[0]) == (
        "the workers are at different collectives: worker 0 at number 1, sum; "
        "worker 1 at number 2, sum"
    )


def test_those_who_wait_elsewhere_learn_of_it():
    """Worker 2 waits for worker 0, which fails at a collective with worker 1."""
    crew = Crew(3, silence_s=4)

    def work(exchange, words):
        peer = {0: 1, 1: 0, 2: 0}[exchange.worker_id]
        exchange.begin(words)
        exchange.run({peer: [np.zeros(1)]}, {peer: [np.zeros(1)]})

    crew.exchanges[2].begin("sum without worker 2")
    errors = crew.each(work, crew.exchanges, ["sum", "gather", "the next sum"])
    crew.close()
    assert len({str(each) for each in errors}) == 1
    assert "worker 1 at number 1, gather" in str(errors[0])


def test_a_worker_that_has_ended_is_named_with_its_reason(pair):
    pair.exchanges[1].close("its program has ended with ValueError")
    with pytest.raises(MeshError, match="^worker 1 is lost: its program has ended with ValueError"):
        swap(pair.exchanges[0], "sum", np.zeros(1))


def test_what_was_sent_before_a_worker_ended_still_arrives():
    """More than the connection holds: it ends as soon as the other has taken in the rest."""
    crew = Crew(2)
    array = np.arange(2**20)

    def give(exchange):
        exchange.begin("one way")
        exchange.run({1: [array]}, {})
        exchange.close()

    def take(exchange):
        received = np.empty_like(array)
        exchange.begin("one way")
        exchange.run({}, {0: [received]})
        return np.array_equal(received, array)

    giving = threading.Thread(target=give, args=crew.exchanges[:1])
    giving.start()
    assert take(crew.exchanges[1])
    giving.join()
    crew.close()


def test_a_mesh_that_is_over_says_why_every_time(pair):
    pair.exchanges[1].close()
    messages = set()
    for _ in range(2):
        with pytest.raises(MeshError) as told:
            swap(pair.exchanges[0], "sum", np.zeros(1))
        messages.add(str(told.value))
    assert messages == {"worker 1 is lost: its program has ended"}
    with pytest.raises(MeshError, match="^the mesh is closed$"):
        pair.exchanges[1].begin("sum")


def test_a_collective_that_was_broken_off_is_not_taken_up_again(pair, monkeypatch):
    exchange = pair.exchanges[0]
    monkeypatch.setattr(exchange, "_check_flow", interrupt)
    with pytest.raises(KeyboardInterrupt):
        swap(exchange, "sum", np.zeros(1))
    with pytest.raises(MeshError, match="left in the middle of a collective"):
        exchange.begin("sum")


def interrupt(*_):
    raise KeyboardInterrupt


def test_a_child_of_a_fork_has_no_part_in_it(pair, monkeypatch):
    monkeypatch.setattr("os.getpid", lambda: 1)
    with pytest.raises(MeshError, match="not of its children"):
        pair.exchanges[0].begin("sum")
    pair.exchanges[0].close()
    monkeypatch.undo()
    assert pair.each(swap, pair.exchanges, ["sum"] * 2, [np.ones(1)] * 2) == [[1.0], [1.0]]


def test_data_that_does_not_arrive_is_a_loss_though_the_peer_beats():
    """The other says that it is in this round, and its connection for data brings nothing."""
    crew = Crew(2, silence_s=0.4)
    mute, deaf = socket.socketpair()
    crew.exchanges[1]._links[0].close()
    crew.exchanges[1]._links[0] = mute
    mute.settimeout(0)
    errors = crew.each(swap, crew.exchanges, ["sum"] * 2, [np.zeros(1)] * 2)
    deaf.close()
    crew.close()
    assert any("its data does not arrive" in str(each) for each in errors), errors
