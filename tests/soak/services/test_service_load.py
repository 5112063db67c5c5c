"""Load on a service while its slices are preempted, its engine rolled out and its number changed.

    SERVICE_SOAK_S=600 pytest -m soak -s tests/soak/services
    SERVICE_SOAK_PREEMPTIONS=20 SERVICE_SOAK_REQUESTS=10000 pytest -m soak -s ... -k drained

-s prints the figures.
"""

import os
import time

import pytest

from soak.services.service_town import ready, town
from soak.services.steady_clients import DEADLINE_S, SteadyClients

pytestmark = [
    pytest.mark.soak,
    pytest.mark.timeout(2400),
    pytest.mark.usefixtures("namespaces"),
]
DURATION_S = float(os.environ.get("SERVICE_SOAK_S", "120"))
PREEMPTIONS = int(os.environ.get("SERVICE_SOAK_PREEMPTIONS", "4"))
REQUESTS = int(os.environ.get("SERVICE_SOAK_REQUESTS", "1000"))
RATE = float(os.environ.get("SERVICE_SOAK_RATE", "8"))
OPTIONS = "--seconds-per-token 0.04"
TWO_OR_THREE = {"min": 2, "max": 3, "in_flight": 100, "idle_s": 3600}
MAY_BE_LOST = {"cut", "502 replica_failed"}
"""How a request ends that was on a replica that vanished and may not be sent twice."""


def test_load_through_preemptions_a_rollout_and_a_scale_up(tmp_path):
    with town(tmp_path) as here:
        here.submit(options=OPTIONS, replicas=TWO_OR_THREE, drain_s=40)
        here.until_ready(2)
        with here.proxy() as proxy, SteadyClients([proxy.url], RATE) as clients:
            began = time.monotonic()

            def rest_until(share):
                time.sleep(max(0.0, began + DURATION_S * share - time.monotonic()))

            rest_until(0.15)
            preempt_with_notice(here)
            rest_until(0.4)
            lost_at = preempt_without_notice(here)
            rest_until(0.65)
            roll_out(here)
            rest_until(0.85)
            scale_up(here)
            rest_until(1.0)
            clients.end()
            told = judge(clients, proxy, lost_at)
            print(f"\n{time.monotonic() - began:.0f} s: {told}", flush=True)
            assert here.tpuctl("service", "delete", here.name, "--yes").code == 0
            assert proxy.process.wait(30) == 0
        here.assert_nothing_is_left()


def preempt_with_notice(here, place=0) -> None:
    victim = ready(here.record())[place]
    here.preempt(victim, "--notice", "30s")
    here.until(lambda found: victim.number not in numbers(ready(found)))
    here.until_ready(2)


def preempt_without_notice(here) -> float:
    """When it was; the replica gets another slice."""
    victim = ready(here.record())[0]
    here.preempt(victim, "--no-notice")
    lost_at = time.monotonic()
    here.until(lambda found: victim.number not in numbers(ready(found)))
    here.until_ready(2)
    return lost_at


def roll_out(here) -> None:
    path = here.write_file(
        here.name, options=f"{OPTIONS} --seconds-per-prompt 0.06", replicas=TWO_OR_THREE, drain_s=40
    )
    done = here.tpuctl("service", "update", here.name, path)
    assert done.code == 0, done.err
    assert {each.revision for each in ready(here.record())} == {2}


def scale_up(here) -> None:
    """So that the requests there are ask for one more."""
    path = here.write_file(
        here.name,
        options=f"{OPTIONS} --seconds-per-prompt 0.06",
        replicas={**TWO_OR_THREE, "in_flight": 1},
        drain_s=40,
    )
    done = here.tpuctl("service", "update", here.name, path, "--no-wait")
    assert done.code == 0, done.err
    here.until_ready(3)


def numbers(replicas):
    return [each.number for each in replicas]


def judge(clients, proxy, lost_at):
    """What became of all requests; nothing was lost but what the vanished replica had."""
    about = {"requests": clients.begun, "outcomes": dict(clients.outcomes())}
    about["slowest_s"] = round(max(each.seconds for each in clients.answers), 2)
    assert len(clients.answers) == clients.begun
    bad = clients.bad
    off = [round(each.begun - lost_at, 2) for each in bad]
    # The command that preempts returns a little later than the slice is gone.
    wrong = [
        each
        for each in bad
        if each.kind != "stream"
        or each.outcome not in MAY_BE_LOST
        or not each.begun - 1 < lost_at < each.begun + each.seconds + 2
    ]
    assert not wrong, (wrong, off, about, proxy.said())
    assert proxy.at_rest()
    return about


def test_no_stream_is_lost_over_drained_preemptions(tmp_path):
    with town(tmp_path) as here:
        here.submit(options=OPTIONS, replicas={**TWO_OR_THREE, "min": 3}, drain_s=40)
        here.until_ready(3)
        streams = SteadyClients([], RATE, limit=REQUESTS, kinds={"stream": 1.0})
        with here.proxy() as proxy:
            streams.urls.append(proxy.url)
            began = time.monotonic()
            with streams:
                for number in range(PREEMPTIONS):
                    while streams.begun < REQUESTS * number // PREEMPTIONS:
                        time.sleep(0.1)
                    preempt_with_notice(here, number % 3)
                    here.until_ready(3)
                seconds = time.monotonic() - began
                print(f"\n{PREEMPTIONS} preemptions in {seconds:.0f} s", flush=True)
                streams.wait()
            seconds = time.monotonic() - began
            slowest = max(each.seconds for each in streams.answers)
            print(f"{seconds:.0f} s: {dict(streams.outcomes())}, slowest {slowest:.2f} s")
            assert streams.bad == [], proxy.said()
            assert len(streams.answers) == REQUESTS
            assert slowest < DEADLINE_S
            assert proxy.at_rest()
            assert here.tpuctl("service", "delete", here.name, "--yes").code == 0
        here.assert_nothing_is_left()
