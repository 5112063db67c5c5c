"""Clients that keep asking while replicas and clients are killed during their requests."""

import asyncio
import contextlib
from dataclasses import dataclass, field
from random import Random

import aiohttp

from client.proxy.engines import Engine, Stand

PATHS = ("/gate", "/events?count=4", "/ws", "/x")


@dataclass
class KillStory:
    """Eight clients of two engines or more."""

    stand: Stand
    engines: list[Engine]
    answered: int = 0
    failed: int = 0
    random: Random = field(default_factory=lambda: Random(7))
    clients: list[asyncio.Task] = field(default_factory=list)

    async def play(self, kills: int) -> None:
        """Kill a replica and a client in turns, so many times in all."""
        self.clients = [self._start(place) for place in range(8)]
        for kill in range(kills):
            await self._open_gates()
            if kill % 2:
                victim = self.random.choice(self.engines)
                await victim.stop()
                await victim.start()
            else:
                place = self.random.randrange(len(self.clients))
                self.clients[place].cancel()
                self.clients[place] = self._start(place)
        for task in self.clients:
            task.cancel()
        await asyncio.gather(*self.clients, return_exceptions=True)

    async def _open_gates(self) -> None:
        for engine in self.engines:
            engine.is_open.set()
        await asyncio.sleep(self.random.uniform(0, 0.02))
        for engine in self.engines:
            engine.is_open.clear()

    def _start(self, place: int) -> asyncio.Task:
        return asyncio.create_task(self._keep_asking(PATHS[place % len(PATHS)]))

    async def _keep_asking(self, path: str) -> None:
        async with aiohttp.ClientSession() as session:
            while True:
                try:
                    await self._ask(session, path)
                    self.answered += 1
                except (aiohttp.ClientError, TimeoutError):
                    self.failed += 1
                await asyncio.sleep(0)

    async def _ask(self, session: aiohttp.ClientSession, path: str) -> None:
        if path != "/ws":
            async with session.get(self.stand.url + path) as answer:
                await answer.read()
            return
        async with session.ws_connect(f"{self.stand.url}/ws") as talk:
            with contextlib.suppress(ConnectionError):
                await talk.send_str("x")
                await talk.receive()
