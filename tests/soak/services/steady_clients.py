"""Open-loop clients of an OpenAI-compatible engine, which check every answer to its last byte."""

import asyncio
import importlib.util
import json
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from random import Random

import aiohttp

from tpuctl.operations.local.templates import template_folder

DEADLINE_S = 90.0
KINDS = {"stream": 0.8, "get": 0.1, "repeatable": 0.1}
"""How often which request: a streamed POST, a GET, and a POST that says that it may be repeated."""


def load_engine():
    """The module of the engine, which says what its answers are."""
    path = template_folder("openai-stub") / "engine.py"
    spec = importlib.util.spec_from_file_location("stub_engine", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@dataclass(frozen=True)
class Answer:
    """How one request ended."""

    kind: str
    begun: float
    seconds: float
    outcome: str
    """`ok`, or what was wrong."""


@dataclass
class SteadyClients:
    """Requests at random moments, however slow the answers are; in a thread of its own."""

    urls: list[str]
    rate: float
    answers: list[Answer] = field(default_factory=list)
    random: Random = field(default_factory=lambda: Random(7))
    begun: int = 0
    limit: int | None = None
    kinds: dict[str, float] = field(default_factory=lambda: KINDS)

    def __enter__(self):
        self._engine = load_engine()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))
        self._thread.start()
        return self

    def __exit__(self, *_error):
        self.end()

    def end(self):
        """Begin no request any more, and wait for the answers."""
        self._ending.set()
        self._thread.join()

    @property
    def bad(self) -> list[Answer]:
        return [each for each in self.answers if each.outcome != "ok"]

    def wait(self) -> None:
        """Until the last request of `limit` is answered."""
        self._thread.join()

    def ok_since(self, begun: float) -> int:
        return sum(each.outcome == "ok" and each.begun >= begun for each in self.answers)

    def outcomes(self) -> Counter:
        """How many requests of which kind ended how."""
        return Counter((each.kind, each.outcome) for each in self.answers)

    async def _run(self):
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector) as session:
            tasks, due = set(), time.monotonic()
            while not self._ending.is_set() and self.begun != self.limit:
                due += self.random.expovariate(self.rate)
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                task = asyncio.create_task(self._ask(session, self.begun))
                self.begun += 1
                tasks.add(task)
                task.add_done_callback(tasks.discard)
            await asyncio.gather(*tasks)

    async def _ask(self, session, number):
        kind = self.random.choices(list(self.kinds), list(self.kinds.values()))[0]
        url, begun = self.urls[number % len(self.urls)], time.monotonic()
        try:
            async with asyncio.timeout(DEADLINE_S):
                outcome = await getattr(self, f"_{kind}")(session, url, number)
        except TimeoutError:
            outcome = "hung"
        except aiohttp.ClientPayloadError:
            outcome = "cut"
        except aiohttp.ClientConnectionError as error:
            outcome = f"connection: {type(error).__name__}"
        except Exception as error:  # noqa: BLE001 - whatever a client stumbles over counts
            outcome = f"wrong: {error!r}"
        self.answers.append(Answer(kind, begun, time.monotonic() - begun, outcome))

    def _asked(self, number):
        return f"prompt {number}", 5 + number % 20

    def _text(self, number):
        prompt, count = self._asked(number)
        return "".join(self._engine.word_at(prompt, place) + " " for place in range(count))

    async def _stream(self, session, url, number):
        prompt, count = self._asked(number)
        body = {"prompt": prompt, "max_tokens": count, "stream": True}
        async with session.post(f"{url}/v1/completions", json=body) as answer:
            if answer.status != 200:
                return await told(answer)
            events = (await answer.text()).split("\n\n")
            if events[-2:] != ["data: [DONE]", ""]:
                return f"wrong: ends with {events[-2:]}"
            parts = [json.loads(event.removeprefix("data: ")) for event in events[:-2]]
            text = "".join(part["choices"][0]["text"] for part in parts)
            return "ok" if text == self._text(number) else "wrong: text"

    async def _get(self, session, url, _number):
        async with session.get(f"{url}/v1/models") as answer:
            if answer.status != 200:
                return await told(answer)
            return "ok" if (await answer.json())["data"][0]["id"] == "stub" else "wrong: model"

    async def _repeatable(self, session, url, number):
        prompt, count = self._asked(number)
        body, headers = {"prompt": prompt, "max_tokens": count}, {"Idempotency-Key": str(number)}
        async with session.post(f"{url}/v1/completions", json=body, headers=headers) as answer:
            if answer.status != 200:
                return await told(answer)
            text = (await answer.json())["choices"][0]["text"]
            return "ok" if text == self._text(number) else "wrong: text"


async def told(answer):
    """The status and the code of an error."""
    text = await answer.text()
    try:
        code = json.loads(text)["error"]["code"]
    except (ValueError, KeyError, TypeError):
        code = text[:80]
    return f"{answer.status} {code}"
