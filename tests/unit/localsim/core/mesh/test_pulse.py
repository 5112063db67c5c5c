"""Who is lost and who is only slow, as one worker hears it from the other."""

import json
import socket

import pytest

from localsim.core.wire.peer_monitor import PeerMonitor, Progress


@pytest.fixture
def heard():
    """Makes worker 0's pulse with silent peers 1, 2, ...; gives it and their ends."""
    made = []

    def make(peers=1, silence_s=30.0):
        pairs = {peer: socket.socketpair() for peer in range(1, peers + 1)}
        pulse = PeerMonitor(0, {peer: own for peer, (own, _) in pairs.items()}, silence_s=silence_s)
        ends = {peer: end for peer, (_, end) in pairs.items()}
        made.append((pulse, ends))
        return pulse, ends

    yield make
    for pulse, ends in made:
        for end in ends.values():
            end.close()
        pulse.end({"bye": "over"})


def say(end, **words):
    end.sendall(json.dumps(words).encode() + b"\n")


def test_a_silent_worker_is_lost(heard):
    pulse, _ = heard(silence_s=0.1)
    assert pulse.break_reason(1, "?") == "worker 1 is lost: it was silent for too long"


def test_one_that_beats_is_not(heard):
    """Worker 2 is heard by far more than it takes to find worker 1 silent."""
    pulse, ends = heard(peers=2, silence_s=0.2)
    while pulse.verdict is None:
        say(ends[2], at=[0, 0, ""])
    assert pulse.verdict == "worker 1 is lost: it was silent for too long"


def test_a_worker_whose_connection_breaks_is_lost_at_once(heard):
    pulse, ends = heard()
    ends[1].close()
    assert pulse.break_reason(1, "?") == "worker 1 is lost: it closed the connection"


def test_who_gives_up_because_of_another_is_not_the_lost_one(heard):
    pulse, ends = heard(peers=2)
    say(ends[1], over="worker 2 is lost: it was silent for too long")
    ends[1].close()
    assert pulse.break_reason(1, "?") == "worker 2 is lost: it was silent for too long"


def test_who_says_goodbye_is_no_loss_until_it_is_needed(heard):
    pulse, ends = heard()
    say(ends[1], bye="its program has ended with KeyError")
    ends[1].close()
    assert pulse.break_reason(1, "?") == "worker 1 is lost: its program has ended with KeyError"
    assert pulse.verdict is None


def test_the_silence_of_others_does_not_count_while_this_worker_stands_still(heard):
    pulse, _ = heard()
    began_s = pulse._heard_s[1]
    pulse._judge(began_s + 100, stood_still_s=99)
    assert pulse.verdict is None
    pulse._judge(began_s + 131, stood_still_s=0)
    assert pulse.verdict == "worker 1 is lost: it was silent for too long"


def test_a_worker_that_goes_on_learns_that_it_was_given_up(heard):
    """What a silent one is told waits in its connection."""
    pulse, ends = heard(silence_s=0.1)
    assert "worker 1 is lost" in pulse.break_reason(1, "?")
    ends[1].settimeout(10)
    pulse.end({"over": pulse.verdict})
    *beats, farewell = ends[1].makefile().read().splitlines()
    assert all("at" in json.loads(beat) for beat in beats)
    assert json.loads(farewell) == {"over": "worker 1 is lost: it was silent for too long"}


def test_another_collective_of_the_same_number_is_an_error(heard):
    pulse, ends = heard()
    pulse.arrive(Progress(3, 1, "all_reduce of f4[2]"))
    say(ends[1], at=[3, 1, "all_gather of f4[2]"])
    assert pulse.break_reason(1, "?") == (
        "the workers are at different collectives: worker 0 at number 3, all_reduce of f4[2]; "
        "worker 1 at number 3, all_gather of f4[2]"
    )


@pytest.mark.parametrize(
    "noise", [b"GET / HTTP/1.1\r\n", b"[" * 9999 + b"\n", b'{"at": 1}\n', b"\xff\n", b"x" * 70_000]
)
def test_noise_is_another_language(heard, noise):
    pulse, ends = heard()
    ends[1].sendall(noise)
    assert pulse.break_reason(1, "?") == "worker 1 is lost: it speaks another language"
