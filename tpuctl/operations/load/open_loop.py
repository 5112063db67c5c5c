"""An open loop of requests: each is sent when it is due, however long the others take."""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from random import Random

import aiohttp

from tpuctl.errors import TransientError
from tpuctl.operations.load.event_stream import EventSplitter
from tpuctl.operations.load.load_plan import LoadPlan
from tpuctl.operations.load.rate_measurement import RateMeasurement, poisson_arrivals

COARSE_S = 0.002
"""The event loop wakes up to a millisecond late; a thread sleeps the rest of a time."""
SUCCESSES = range(200, 300)
EVENT_STREAM = "text/event-stream"


class FailedAnswerError(Exception):
    """An answer that says that the request failed, in a word."""


class PreciseSleep:
    """Sleeps to a tenth of a millisecond, which an event loop by itself does not."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1)

    async def __call__(self, seconds: float) -> None:
        """Sleep; the event loop goes on meanwhile."""
        end = time.monotonic() + seconds
        if seconds > COARSE_S:
            await asyncio.sleep(seconds - COARSE_S)
        if (rest := end - time.monotonic()) > 0:
            await asyncio.get_running_loop().run_in_executor(self._thread, time.sleep, rest)

    def close(self) -> None:
        """End the thread."""
        self._thread.shutdown(wait=False)


class OpenLoop:
    """Sends requests as a plan says, one rate after another."""

    def __init__(
        self,
        plan: LoadPlan,
        session: aiohttp.ClientSession,
        *,
        random: Random,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        self._plan = plan
        self._session = session
        self._random = random
        self._clock = clock
        self._sleep = sleep

    async def measure(self, measured: RateMeasurement) -> None:
        """Send requests at a rate and count what becomes of them.

        When this is cancelled, what was measured until then is in `measured`.
        """
        tasks: set[asyncio.Task[None]] = set()
        begin = self._clock() + self._plan.warm_up_s
        try:
            await self._send_all(measured, begin, tasks)
            if tasks:
                await asyncio.wait(tasks)
            measured.elapsed_s = max(self._clock() - begin, measured.duration_s)
        except asyncio.CancelledError:
            measured.elapsed_s = max(0.0, self._clock() - begin)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            raise

    async def _send_all(
        self, measured: RateMeasurement, begin: float, tasks: set[asyncio.Task[None]]
    ) -> None:
        """Start each request when it is due; one that finds no room is dropped."""
        plan = self._plan
        start, whole_s = begin - plan.warm_up_s, plan.warm_up_s + measured.duration_s
        ignored = RateMeasurement(measured.rate, plan.warm_up_s)
        for offset in poisson_arrivals(measured.rate, whole_s, self._random):
            due = start + offset
            body = self._random.choice(plan.bodies) if plan.bodies else None
            # Late or not, the loop goes round once: answers are read in between.
            await self._sleep_until(due)
            counted = measured if due >= begin else ignored
            counted.arrivals += 1
            if len(tasks) >= plan.max_in_flight:
                counted.dropped += 1
                continue
            counted.unfinished += 1  # also one that is cancelled before it begins
            task = asyncio.create_task(self._send(counted, due, body))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        await self._sleep_until(start + whole_s)

    async def _sleep_until(self, due: float) -> None:
        rest = due - self._clock()
        await (self._sleep(rest) if rest > 0 else asyncio.sleep(0))

    async def _send(self, measured: RateMeasurement, due: float, body: bytes | None) -> None:
        begun = self._clock()
        measured.lag.add(max(0.0, begun - due))
        events: list[float] = []
        try:
            async with asyncio.timeout(self._plan.deadline_s - (begun - due)):
                size_bytes = await self._answer(body, events)
        except (aiohttp.ClientError, FailedAnswerError, OSError, ValueError) as error:
            measured.unfinished -= 1
            measured.errors[error_word(error)] += 1
            return
        end = self._clock()
        measured.unfinished -= 1
        measured.succeeded += 1
        measured.received_bytes += size_bytes
        measured.latency.add(end - due)
        measured.service_time.add(end - begun)
        if events:
            measured.events += len(events)
            measured.first_event.add(events[0] - due)
            for earlier, later in zip(events, events[1:], strict=False):
                measured.event_gap.add(later - earlier)

    async def _answer(self, body: bytes | None, events: list[float]) -> int:
        """Send a request and read its answer; returns its bytes and adds when each event came."""
        plan = self._plan
        async with self._session.request(
            plan.method, plan.url, data=body, headers=plan.headers, allow_redirects=False
        ) as response:
            if response.status not in SUCCESSES:
                raise FailedAnswerError(str(response.status))
            is_split = plan.is_stream and response.content_type == EVENT_STREAM
            splitter = EventSplitter() if is_split else None
            size = 0
            async for chunk in response.content.iter_any():
                size += len(chunk)
                if plan.is_stream:
                    events += [self._clock()] * count_events(splitter, chunk)
            return size


def count_events(splitter: EventSplitter | None, chunk: bytes) -> int:
    """How many events end in a chunk; of a stream of another kind every chunk is one.

    Raises FailedAnswerError for an event of the kind `error`, ValueError for an endless one.
    """
    if splitter is None:
        return 1
    events = splitter.feed(chunk)
    if any(event.kind == b"error" for event in events):
        raise FailedAnswerError("error-event")
    return sum(not event.is_done for event in events)


def error_word(error: Exception) -> str:
    """The word under which an error is counted."""
    if isinstance(error, FailedAnswerError):
        return str(error)
    words: tuple[tuple[type[Exception], str], ...] = (
        (TimeoutError, "deadline"),
        (aiohttp.ClientSSLError, "tls"),
        (aiohttp.ClientConnectorError, "connect"),
        (aiohttp.ClientPayloadError, "truncated"),
        (aiohttp.ServerDisconnectedError, "disconnected"),
        (OSError, "disconnected"),
    )
    return next((word for kind, word in words if isinstance(error, kind)), "protocol")


async def measure_rates(
    plan: LoadPlan, rates: Sequence[float], measured: list[RateMeasurement]
) -> None:
    """Measure a server at one rate after another, each when the answers to the last are in.

    Appends to `measured`, also when it is cancelled. Raises TransientError when no request
    succeeded.
    """
    with contextlib.closing(PreciseSleep()) as sleep:
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=plan.max_in_flight),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=False,
        ) as session:
            random = Random(plan.seed)
            loop = OpenLoop(plan, session, random=random, clock=time.monotonic, sleep=sleep)
            for rate in rates:
                measured.append(RateMeasurement(rate, plan.duration_s))
                await loop.measure(measured[-1])
    _refuse_silence(measured, plan)


def _refuse_silence(measured: Sequence[RateMeasurement], plan: LoadPlan) -> None:
    """Raise TransientError when requests were sent and none succeeded."""
    failed = sum(each.failed for each in measured)
    if failed and not any(each.succeeded for each in measured):
        words = sum((each.errors for each in measured), start=Counter[str]())
        text = ", ".join(f"{word} ({count})" for word, count in words.most_common())
        raise TransientError(
            f"none of {failed} requests succeeded: {text}",
            hint=f"try one with: curl -i {plan.url}",
        )
