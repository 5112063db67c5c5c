"""What a proxy costs and loses: latency, drained and killed replicas, two replicas for one."""

import asyncio
import contextlib
import http.client
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import aiohttp
import pytest
from client.proxy.engines import Stand, proxied, standing, until
from client.proxy.kills import KillStory

from benchmarks.measure import keep
from benchmarks.proxy.engine_farm import SMALL, WORK_S

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(900)]

ROUNDS = 9
ASKED = 300
"""Requests of a round, one after the other."""
BODY = b'{"model":"m","messages":[{"role":"user","content":"' + b"word " * 60 + b'"}]}'


class Farm:
    """Engines as processes of their own."""

    def __init__(self, process: subprocess.Popen):
        self._process = process

    def start(self) -> tuple[int, int]:
        """The process ID and the port of a new engine."""
        self._process.stdin.write("engine\n")
        self._process.stdin.flush()
        pid, port = self._process.stdout.readline().split()
        return int(pid), int(port)


@contextlib.contextmanager
def program(*argv: str, **environment: str) -> Iterator[subprocess.Popen]:
    """A program of the farm's module, until the end of its stdin."""
    tests = str(Path(__file__).parents[2])
    environ = {**os.environ, "PYTHONPATH": tests, **environment}
    with subprocess.Popen(
        [sys.executable, "-m", "benchmarks.proxy.engine_farm", *argv],
        env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        yield process
        process.stdin.close()


@pytest.fixture
def farm() -> Iterator[Farm]:
    with program() as process:
        yield Farm(process)


@contextlib.contextmanager
def proxy_of(*ports: int, **environment: str) -> Iterator[tuple[int, int]]:
    """The process ID and the port of a proxy."""
    with program("proxy", *map(str, ports), **environment) as process:
        pid, port = process.stdout.readline().split()
        yield int(pid), int(port)


def latencies(connection: http.client.HTTPConnection, method: str) -> list[float]:
    took = []
    for _ in range(ASKED):
        began = time.perf_counter()
        connection.request(method, "/small", BODY if method == "POST" else None)
        assert connection.getresponse().read() == SMALL
        took.append(time.perf_counter() - began)
    return took


def processor_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_added_latency(farm, method):
    _, engine = farm.start()
    with proxy_of(engine) as (pid, ours), proxy_of(engine, IDLE_S="0") as (_, fresh):
        ways = {"direct": engine, "proxy": ours, "connection for each": fresh}
        opened = {
            name: http.client.HTTPConnection("127.0.0.1", port) for name, port in ways.items()
        }
        p50: dict[str, list[float]] = {name: [] for name in ways}
        p99: dict[str, list[float]] = {name: [] for name in ways}
        used_s = 0.0
        for number in range(ROUNDS + 1):
            for name, connection in opened.items():
                before = processor_s(pid)
                took = sorted(latencies(connection, method))
                if not number:
                    continue
                used_s += processor_s(pid) - before if name == "proxy" else 0.0
                p50[name].append(1000 * took[len(took) // 2])
                p99[name].append(1000 * took[len(took) * 99 // 100])
        for connection in opened.values():
            connection.close()
    direct = p50["direct"]
    keep(
        f"proxy, added latency of a {method}", "p50 at most 1.5 ms over a direct connection",
        added_p50_ms=[a - b for a, b in zip(p50["proxy"], direct, strict=True)],
        added_p50_with_a_connection_for_each_ms=[
            a - b for a, b in zip(p50["connection for each"], direct, strict=True)
        ],
        direct_p50_ms=direct, direct_p99_ms=p99["direct"], proxy_p99_ms=p99["proxy"],
        processor_ms_of_a_request=1000 * used_s / (ROUNDS * ASKED),
    )  # fmt: skip


def event_latencies(port: int) -> list[float]:
    """Milliseconds from the engine's writing of each event to its reading here."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("GET", "/events")
    took = []
    with connection.getresponse() as answer:
        while line := answer.readline():
            if line.startswith(b"data: "):
                took.append((time.monotonic_ns() - int(line[6:])) / 1e6)
    connection.close()
    return took


def test_added_latency_of_events(farm):
    _, engine = farm.start()
    with proxy_of(engine) as (_, ours):
        p50: dict[int, list[float]] = {engine: [], ours: []}
        for number in range(ROUNDS + 1):
            for port, found in p50.items():
                took = statistics.median(event_latencies(port))
                if number:
                    found.append(took)
    keep(
        "proxy, added latency of an event", "none but the way itself: at most 1.5 ms",
        added_p50_ms=[a - b for a, b in zip(p50[ours], p50[engine], strict=True)],
        direct_p50_ms=p50[engine],
    )  # fmt: skip


async def stream_once(session: aiohttp.ClientSession, url: str) -> str:
    """ "" for a stream that came whole; otherwise what happened."""
    try:
        async with session.post(f"{url}/stream", data=BODY) as answer:
            text = await answer.text()
    except (aiohttp.ClientError, TimeoutError) as error:
        return repr(error)
    return "" if answer.status == 200 and text.endswith("[DONE]\n\n") else f"{answer.status}"


def test_streams_over_drained_removals(farm):
    asked, removals, at_once = 10_000, 20, 32

    async def scenario():
        lost: list[str] = []
        done = 0
        async with standing() as stand:
            running = {}
            for number in range(1, 4):
                running[number] = farm.start()
                stand.add(number, running[number][1])
            await stand.routed(1, 2, 3)

            async def client():
                nonlocal done
                while done < asked:
                    done += 1
                    if problem := await stream_once(stand.session, stand.url):
                        lost.append(problem)

            clients = [asyncio.create_task(client()) for _ in range(at_once)]
            for removal in range(1, removals + 1):
                await until(lambda: done >= asked * removal // (removals + 1))  # noqa: B023
                await replace_drained(stand, running, farm)
            await asyncio.gather(*clients)
            await stand.at_rest()
        return lost, done

    lost, done = asyncio.run(scenario())
    keep(
        "proxy, streams over 20 drained removals", "0 of 10,000 lost",
        asked=done, lost=len(lost), problems="; ".join(sorted(set(lost))),
    )  # fmt: skip
    assert not lost


async def replace_drained(stand: Stand, running: dict, farm: Farm) -> None:
    """Drain the oldest replica, kill it when it has no request, and start another one."""
    oldest = min(running)
    stand.drain(oldest)
    await until(lambda: stand.proxy.pool.in_flight[oldest] == 0)
    os.kill(running.pop(oldest)[0], signal.SIGKILL)
    stand.remove(oldest)
    newest = max(running) + 1
    running[newest] = farm.start()
    stand.add(newest, running[newest][1])
    await until(lambda: newest in stand.proxy.pool.routed)


class FarmStory:
    """Clients of engines that are processes, which are killed without a word."""

    def __init__(self, stand: Stand, farm: Farm):
        self.stand, self.farm, self.random = stand, farm, Random(5)
        self.running: dict[int, int] = {}
        self.answered = self.failed = self.started = 0
        self.clients: list[asyncio.Task] = []

    async def play(self, kills: int) -> None:
        for _ in range(3):
            self._start_engine()
        await until(lambda: len(self.stand.proxy.pool.routed) == 3)
        self.clients = [asyncio.create_task(self._ask()) for _ in range(12)]
        for kill in range(kills):
            await asyncio.sleep(self.random.uniform(0.005, 0.03))
            if kill % 2:
                self._replace_client()
            else:
                victim = self.random.choice(list(self.running))
                os.kill(self.running.pop(victim), signal.SIGKILL)
                self._start_engine()
                self.stand.remove(victim)
        for task in self.clients:
            task.cancel()
        await asyncio.gather(*self.clients, return_exceptions=True)

    def _start_engine(self) -> None:
        number = self.started = self.started + 1
        self.running[number], port = self.farm.start()
        self.stand.add(number, port)

    def _replace_client(self) -> None:
        place = self.random.randrange(len(self.clients))
        self.clients[place].cancel()
        self.clients[place] = asyncio.create_task(self._ask())

    async def _ask(self) -> None:
        async with aiohttp.ClientSession() as session:
            while True:
                if await stream_once(session, self.stand.url):
                    self.failed += 1
                else:
                    self.answered += 1


def test_counts_after_a_thousand_kills(farm):
    """Half of them of engines in this process and of clients, half of processes."""

    async def scenario():
        async with proxied(3) as (stand, engines):
            story = KillStory(stand, engines)
            await story.play(500)
            await stand.at_rest()
        async with standing() as stand:
            processes = FarmStory(stand, farm)
            await processes.play(500)
            await stand.at_rest()
        return story.answered + processes.answered, story.failed + processes.failed

    answered, failed = asyncio.run(scenario())
    keep(
        "proxy, counts after 1,000 kills", "0 in flight at rest",
        kills=1000, answered=answered, failed_in_flight=failed, in_flight_at_rest=0,
    )  # fmt: skip


def test_two_replicas_for_one(farm):
    engines = [farm.start()[1] for _ in range(2)]
    rates: dict[int, list[float]] = {1: [], 2: []}
    with proxy_of(engines[0]) as (_, one), proxy_of(*engines) as (_, two):
        for number in range(ROUNDS + 1):
            for count, port in ((1, one), (2, two)):
                rate = asyncio.run(rate_of(port, seconds=2.0))
                if number:
                    rates[count].append(rate)
    ratios = [b / a for a, b in zip(rates[1], rates[2], strict=True)]
    keep(
        "proxy, two replicas for one", "at least 1.9 x the requests/s",
        one_per_s=rates[1], two_per_s=rates[2], ratio=ratios, engine_s=WORK_S,
    )  # fmt: skip
    assert statistics.median(ratios) >= 1.9


async def rate_of(port: int, seconds: float) -> float:
    """Requests a second of 16 clients that do not wait."""
    done = 0

    async def client(session):
        nonlocal done
        while time.perf_counter() < ends:
            async with session.post(f"http://127.0.0.1:{port}/work", data=BODY) as answer:
                await answer.read()
                assert answer.status == 200
            done += 1

    async with aiohttp.ClientSession() as session:
        began = time.perf_counter()
        ends = began + seconds
        await asyncio.gather(*(client(session) for _ in range(16)))
        return done / (time.perf_counter() - began)
