"""An open loop of requests in a time of its own: what it sends, and what it counts."""

import asyncio
from contextlib import asynccontextmanager
from itertools import pairwise
from random import Random
from types import SimpleNamespace

import aiohttp
import pytest

from tpuctl.operations.load.load_plan import LoadPlan
from tpuctl.operations.load.open_loop import OpenLoop, error_word
from tpuctl.operations.load.rate_measurement import RateMeasurement, poisson_arrivals
from unit.operations.load.virtual_loop import run_virtually

URL = "http://127.0.0.1:1/"


class Session:
    """Answers in the place of a server, when the handler says so."""

    def __init__(self, handle):
        self.handle = handle
        self.sent = []

    @asynccontextmanager
    async def request(self, method, url, *, data, headers, allow_redirects):
        self.sent.append(data)
        status = await self.handle()
        yield SimpleNamespace(
            status=status,
            content_type="text/plain",
            content=SimpleNamespace(iter_any=self._chunks),
        )

    async def _chunks(self):
        yield b"12345"


def measure(handle, *, rate=100.0, sleep=asyncio.sleep, cancel_after_s=None, **plan):
    """The measurement of one rate, and what was sent."""
    session = Session(handle)
    plan = LoadPlan(URL, **plan)
    measured = RateMeasurement(rate, plan.duration_s)

    async def main(clock):
        loop = OpenLoop(plan, session, random=Random(plan.seed), clock=clock, sleep=sleep)
        task = asyncio.create_task(loop.measure(measured))
        if cancel_after_s is not None:
            await asyncio.sleep(cancel_after_s)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        await asyncio.wait([task])

    run_virtually(main)
    return measured, session.sent


def stalling(at_s, for_s, takes_s):
    """A server of one request at a time that stands still once."""
    lock = asyncio.Lock()

    async def handle():
        async with lock:
            now = asyncio.get_running_loop().time()
            if at_s <= now < at_s + for_s:
                await asyncio.sleep(at_s + for_s - now)
            await asyncio.sleep(takes_s)
        return 200

    return handle


def test_a_stall_of_a_second_delays_all_that_arrive_meanwhile():
    """A client that waits for its answer before it asks again sees one slow request of 1,900."""
    measured, _ = measure(stalling(5.0, 1.0, 0.001), duration_s=20.0)
    assert measured.succeeded == measured.arrivals > 1800
    assert measured.latency.percentile_s(50) == pytest.approx(0.001, rel=0.05)
    # In the second of the stall a twentieth of all arrive, and wait half a second on average.
    assert measured.latency.percentile_s(99) > 0.7
    assert measured.latency.max_s == pytest.approx(1.05, abs=0.1)
    assert not measured.is_late

    def closed_loop():
        now, latencies = 0.0, []
        while now < 20.0:
            end = 6.0 if 5.0 <= now < 6.0 else now
            latencies.append(end + 0.001 - now)
            now = end + 0.009 + 0.001
        return sorted(latencies)

    latencies = closed_loop()
    assert latencies[int(0.999 * len(latencies)) - 1] == pytest.approx(0.001)


def test_a_sender_that_is_late_counts_it_and_says_so():
    async def oversleep(seconds):
        await asyncio.sleep(seconds + 0.03)

    async def answer():
        await asyncio.sleep(0.005)
        return 200

    measured, _ = measure(answer, rate=10.0, sleep=oversleep)
    assert measured.lag.percentile_s(50) == pytest.approx(0.03, rel=0.02)
    assert measured.latency.percentile_s(50) == pytest.approx(0.035, rel=0.02)
    assert measured.service_time.percentile_s(99) == pytest.approx(0.005, rel=0.02)
    assert measured.is_late


def test_an_arrival_without_room_is_dropped_and_not_delayed():
    async def answer():
        await asyncio.sleep(1.0)
        return 200

    measured, _ = measure(answer, max_in_flight=3, duration_s=10.0)
    assert measured.dropped > 900
    assert measured.succeeded + measured.dropped == measured.arrivals
    assert measured.latency.max_s == pytest.approx(1.0, rel=0.01)
    assert 10.0 < measured.elapsed_s < 11.1  # until the last answer


def test_deadlines_count_from_when_a_request_was_due():
    async def answer():
        await asyncio.sleep(60)

    measured, _ = measure(answer, rate=5.0, deadline_s=2.0, duration_s=10.0)
    assert measured.errors == {"deadline": measured.arrivals}
    assert (measured.succeeded, measured.latency.count) == (0, 0)
    assert measured.elapsed_s < 12.1


def test_an_interrupted_measurement_counts_what_is_in_flight():
    async def answer():
        now = asyncio.get_running_loop().time()
        await asyncio.sleep(0.001 if now < 2.5 else 60)
        return 503 if now < 0.5 else 200

    measured, _ = measure(answer, cancel_after_s=3.0)
    assert measured.elapsed_s == pytest.approx(3.0)
    assert measured.errors.keys() == {"503"}
    assert 30 < measured.unfinished < 80
    counted = measured.succeeded + measured.failed + measured.unfinished
    assert counted == measured.arrivals


def test_requests_of_the_warm_up_are_sent_and_not_counted():
    async def answer():
        now = asyncio.get_running_loop().time()
        return 500 if now < 2.0 else 200

    measured, sent = measure(answer, warm_up_s=2.0, duration_s=3.0, bodies=(b"a", b"b"))
    assert not measured.errors
    assert measured.arrivals == measured.succeeded
    assert 400 < len(sent) < 600
    assert 250 < measured.arrivals < 350
    assert measured.elapsed_s == pytest.approx(3.0)
    assert measured.received_bytes == 5 * measured.succeeded
    assert set(sent) == {b"a", b"b"}


def test_the_same_seed_sends_the_same_at_the_same_times():
    async def answer():
        return 200

    first, second, other = (
        measure(answer, seed=seed, bodies=(b"a", b"b"))[1] for seed in (1, 1, 2)
    )
    assert first == second != other


def test_arrivals_are_a_poisson_process():
    times = list(poisson_arrivals(200.0, 100.0, Random(3)))
    gaps = [later - earlier for earlier, later in pairwise(times)]
    mean = sum(gaps) / len(gaps)
    variance = sum((gap - mean) ** 2 for gap in gaps) / len(gaps)
    assert mean == pytest.approx(1 / 200, rel=0.03)
    assert variance == pytest.approx(mean**2, rel=0.06)  # as that of an exponential distribution
    assert times == sorted(times)
    assert times[-1] < 100.0


def test_every_failure_has_a_word():
    connection = aiohttp.ClientConnectorError(None, OSError("refused"))
    words = {
        "deadline": TimeoutError(),
        "connect": connection,
        "tls": aiohttp.ClientConnectorSSLError(None, OSError("certificate")),
        "truncated": aiohttp.ClientPayloadError(),
        "disconnected": aiohttp.ServerDisconnectedError(),
        "protocol": aiohttp.InvalidURL("x"),
    }
    assert {error_word(error): error for error in words.values()} == words
    assert error_word(ConnectionResetError()) == "disconnected"
